//! The run on a terminal: each row as its case ends, then findings and a summary.
//!
//! [`Live`] consumes the run's events, [`print()`] a stored run; both write through the same table. A reader that has
//! gone (`| head`) is a quiet end, not an error.

use std::io::{self, Write};
use std::path::Path;
use std::slice::from_ref;

use jiff::Timestamp;
use plimsoll_history::{Counts, Location};
use plimsoll_machine::Machine;
use plimsoll_model::measurement::Measurement;
use plimsoll_published::Baseline;
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_result::event::Event;
use plimsoll_units::text::counted;

use super::context::{context, title};
use super::group::{Known, is_wide};
use super::out::Out;
use super::progress::Progress;
use super::row::Row;
use super::style::{Role, Style};
use super::table::{Heading, Table};
use super::wrap::paragraph;

/// A run while it is going on.
pub struct Live<O: Write, E: Write> {
    out: Out<O>,
    progress: Progress<E>,
    sheet: Sheet,
    /// The rows as they were printed, to tell what the end of the run changed.
    printed: Vec<(Measurement, Row)>,
}

impl<O: Write, E: Write> Live<O, E> {
    /// Prints what is about to be run. `header` is the run's document before anything is measured.
    pub fn new(out: O, err: E, style: Style, header: &Run) -> Self {
        let mut live = Self {
            out: Out::new(out),
            progress: Progress::new(err, style.clone()),
            sheet: Sheet::new(header, style),
            printed: Vec::new(),
        };
        live.out.write(&live.sheet.opening(header));
        live
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        self.progress.event(event);
        if let Event::Measured { measurement } = event {
            self.row(measurement);
        }
    }

    /// Prints the row of a measurement.
    pub fn row(&mut self, measurement: &Measurement) {
        let row = self.sheet.row_of(measurement);
        let text = self.sheet.row(&row, measurement);
        self.out.write(&text);
        self.printed.push((measurement.clone(), row));
    }

    /// The run is over: what its end changed in the rows, findings, summary, and the path of the page.
    ///
    /// # Errors
    /// What writing any of it to `out` said, a reader that has gone excepted.
    pub fn finish(&mut self, run: &Run, stored: Option<&Kept<'_>>, page: Option<&Path>) -> io::Result<()> {
        self.progress.end();
        let mut text = self.sheet.table.end();
        text += &self.revised(run);
        // The rows were printed as they came, so the verdict comes first of what is printed at the end.
        text += &self.sheet.verdict(run);
        text += &self.sheet.ending(run, stored);
        text += &self.sheet.document(run, stored, page);
        self.out.write(&text);
        self.out.end()
    }

    /// Rows that read otherwise now that the whole run's evidence is there: a limit that became known, a figure
    /// that turned out to be past it.
    fn revised(&mut self, run: &Run) -> String {
        let mut text = String::new();
        for measurement in &run.measurements {
            let same = |m: &Measurement| {
                m.case == measurement.case && m.node == measurement.node && m.repeat == measurement.repeat
            };
            let row = self.sheet.row_of(measurement);
            if self.printed.iter().any(|(m, before)| same(m) && *before != row) {
                let heading = Heading {
                    title: "Revised",
                    context: vec!["rows above that changed at the end of the run".to_owned()],
                };
                text += &self.sheet.table.row(&row, &heading);
            }
        }
        text + &self.sheet.table.end()
    }
}

/// Prints a stored run as it was shown live.
///
/// # Errors
/// What `out` said, a reader that has gone excepted.
pub fn print(run: &Run, out: impl Write, style: &Style) -> io::Result<()> {
    let mut out = Out::new(out);
    let mut sheet = Sheet::new(run, style.clone());
    out.write(&(sheet.verdict(run) + &sheet.opening(run)));
    // Of many machines the first one's rows stand for their kind; how the others differ is in their own section.
    let first = run.nodes.first().filter(|_| run.nodes.len() > 1).map(|node| node.name.as_str());
    for measurement in run.measurements.iter().filter(|m| first.is_none_or(|name| m.node == name)) {
        let text = sheet.row(&sheet.row_of(measurement), measurement);
        out.write(&text);
    }
    let text = sheet.table.end() + &sheet.ending(run, None);
    out.write(&text);
    out.end()
}

/// The warnings of a measurement, a line each, for where there is no table.
pub fn warnings(measurement: &Measurement, style: &Style) -> String {
    let label = plimsoll_bench::label::label(&measurement.case);
    let reason = measurement.reason.iter().map(String::as_str);
    let texts = reason.chain(measurement.warnings.iter().map(|w| w.text.as_str()));
    texts.map(|text| format!("{}\n", style.say(&format!("{label}: {text}")))).collect()
}

/// The text of one run: pure, but for the table's state.
struct Sheet {
    table: Table,
    machine: Machine,
    style: Style,
    /// The report that the run's plan replays.
    baseline: Option<Baseline>,
}

impl Sheet {
    fn new(header: &Run, style: Style) -> Self {
        let baseline = plimsoll_published::find(&header.plan.name);
        let whole = super::conditions::whole(&header.machine);
        let told = whole.into_iter().map(|note| note.code).collect();
        Self {
            table: Table::new(style.clone(), Known::above(told)),
            machine: header.machine.clone(),
            style,
            baseline,
        }
    }

    /// The row of a measurement, with what was published beside its further figures.
    fn row_of(&self, measurement: &Measurement) -> Row {
        let mut row = Row::of(measurement);
        let told = self.baseline.iter().flat_map(|baseline| super::published::beside(baseline, measurement));
        for phrase in told {
            row.details =
                if row.details.is_empty() { phrase } else { format!("{} · {phrase}", row.details) };
        }
        row
    }

    fn row(&mut self, row: &Row, measurement: &Measurement) -> String {
        let context = context(&self.machine, measurement);
        self.table.row(row, &Heading { title: title(measurement.case.subsystem()), context })
    }

    /// The line that shows how much of the undisturbed figure was delivered; empty if that is nearly all.
    fn verdict(&self, run: &Run) -> String {
        let line = super::delivered::verdict(run).map(|line| format!("This machine {line}."));
        line.map(|line| self.paragraph(Role::Warning, "", &line)).unwrap_or_default()
    }

    fn opening(&self, run: &Run) -> String {
        let host = super::context::of_whom(run).map(|host| format!(" on {host}")).unwrap_or_default();
        let version = format!("plimsoll {}", run.version);
        let what = format!("{}{host} · {}", run.plan.name, when(&run.started, &self.style));
        let title = self.paragraph(Role::Dim, "", &format!("{version} · {what}"));
        let whole = super::conditions::whole(&run.machine);
        let said = whole.iter().map(|note| self.paragraph(Role::Warning, "! ", &note.text));
        said.fold(title, |text, line| text + &line)
    }

    fn ending(&self, run: &Run, stored: Option<&Kept<'_>>) -> String {
        let mut text = super::peers::section(run, &self.style) + &super::machines::section(run, &self.style);
        text += &super::pairs::section(run, &self.style);
        if !run.findings.is_empty() {
            text += &format!("\n{}\n", self.style.paint(Role::Strong, "Findings"));
        }
        for finding in &run.findings {
            text += &self.paragraph(Role::Plain, "  • ", &finding.text);
        }
        if !run.plan.notes.is_empty() {
            text += &format!("\n{}\n", self.style.paint(Role::Strong, "How it is counted"));
        }
        for note in &run.plan.notes {
            text += &self.paragraph(Role::Dim, "  • ", note);
        }
        text.push('\n');
        text += &self.paragraph(Role::Plain, "", &tally(run));
        if let Some(Kept { location, id }) = stored {
            let (directory, store) = (name(location.directory()), store_option(location));
            // To be copied: not broken into lines.
            for line in
                [format!("kept in {directory}"), format!("see it again: plimsoll history show {id}{store}")]
            {
                text += &format!("{}\n", self.style.paint(Role::Dim, &self.style.say(&line)));
            }
        }
        text
    }

    /// The path of the page of a run that replays a published report, and the command that writes it again; empty for other runs.
    fn document(&self, run: &Run, stored: Option<&Kept<'_>>, page: Option<&Path>) -> String {
        if plimsoll_published::find(&run.plan.name).is_none() {
            return String::new();
        }
        let page = page.map(name);
        let written = page.as_ref().map(|file| format!("the report's tables and figures: {file}"));
        let again = stored.map(|Kept { location, id }| {
            let store = store_option(location);
            let file = page.as_ref().map_or_else(|| "FILE.html".to_owned(), |file| quoted(file));
            format!("write them again: plimsoll report {id} --tables published --html {file}{store}")
        });
        let lines = written.into_iter().chain(again);
        lines.map(|line| format!("{}\n", self.style.paint(Role::Strong, &self.style.say(&line)))).collect()
    }

    /// A text in lines, after `lead`.
    fn paragraph(&self, role: Role, lead: &str, text: &str) -> String {
        paragraph(&self.style, role, lead, text)
    }
}

/// Characters of an id that are shown at least: all of its time, to the millisecond.
pub const SHORT_ID: usize = 13;

/// Where a run is kept.
#[derive(Debug)]
pub struct Kept<'a> {
    /// The history.
    pub location: &'a Location,
    /// As much of its id as tells it from all others there.
    pub id: String,
}

/// The option that names a history; empty for the usual one.
fn store_option(location: &Location) -> String {
    match location {
        Location::Usual(_) => String::new(),
        Location::Named(_) => format!(" --store {}", quoted(&name(location.directory()))),
    }
}

fn name(file: &Path) -> String {
    plimsoll_units::text::shown_bytes(file.as_os_str().as_encoded_bytes())
}

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// What became of the cases, and how long it took.
pub(super) fn tally(run: &Run) -> String {
    let counts = Counts::of(&run.measurements);
    let wide = run.measurements.iter().filter(|m| is_wide(&m.warnings)).count();
    let warned = run.measurements.iter().filter(|m| m.warnings.iter().any(|note| !is_wide(from_ref(note))));
    let warned = warned.count();
    let marked = [(wide, "not converged (*)"), (warned, "with warnings (!)")];
    let marked: Vec<String> =
        marked.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let marked = if marked.is_empty() { String::new() } else { format!("; of these {}", marked.join(", ")) };
    let said = match counts.said() {
        none if none.is_empty() => "nothing measured".to_owned(),
        said => said.join(" · ") + &marked,
    };
    let time = super::progress::span(run.elapsed_s);
    let (total, planned) = (counts.total(), run.plan.cases);
    match run.status {
        RunStatus::Complete => format!("{} in {time}: {said}", counted(total, "case")),
        // Each machine has them all.
        RunStatus::Partial if run.nodes.len() > 1 => {
            format!("partial: {total} rows of {} machines in {time}: {said}", run.nodes.len())
        }
        RunStatus::Partial => {
            format!("partial: {total} of {} in {time}: {said}", counted(planned, "case"))
        }
    }
}

/// A stored time in the zone of the reader; as it stands if it is none.
pub(super) fn when(started: &str, style: &Style) -> String {
    match started.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(style.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => started.to_owned(),
    }
}
