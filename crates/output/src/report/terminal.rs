//! A run on a terminal, live ([`Live`]) or stored ([`text`]): a row per case, findings, summary.

pub mod card;
pub(crate) mod conditions;
pub(crate) mod context;
pub mod kernels;
pub(crate) mod row;
pub(crate) mod section;
pub(crate) mod table;
pub(crate) mod verdict;
pub(crate) mod wrap;

use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use plimsoll_history::{CaseCounts, Location};
use plimsoll_machine::Machine;
use plimsoll_model::measurement::Measurement;
use plimsoll_published::PublishedReport;
use plimsoll_result::document::{Finding, Run, RunStatus};
use plimsoll_result::event::RunEvent;
use plimsoll_units::text::{format_count, shell_quoted, shown_path};

use super::context::{context, title};
use super::progress::ProgressLine;
use super::published::published_lines;
use super::row::{Grade, MeasurementRow};
use super::section::{has_mark, is_wide};
use super::style::{Style, TextRole};
use super::table::{CaseTable, WIDEST};
use super::verdict::verdict;
use super::wrap::{list, paragraph};
use super::{joined, listed};

/// Terminal output of a running run.
pub struct Live<O: Write, E: Write> {
    out: O,
    /// The first error of writing to `out`, after which nothing more is written.
    written: io::Result<()>,
    progress: ProgressLine<E>,
    sheet: RunText,
    printed: Vec<(Measurement, MeasurementRow)>,
}

impl<O: Write, E: Write> Live<O, E> {
    /// Prints the heading of run `header` to `out`. Results follow there; `err` shows the progress.
    pub fn new(out: O, err: E, style: Style, header: &Run) -> Self {
        let mut live = Self {
            out,
            written: Ok(()),
            progress: ProgressLine::new(err, style.clone()),
            sheet: RunText::new(header, style),
            printed: Vec::new(),
        };
        let opening = live.sheet.opening(header);
        live.print(&opening);
        live
    }

    fn print(&mut self, text: &str) {
        if self.written.is_ok() {
            self.written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        }
    }

    /// Shows an event of the run: progress, or the row of a finished measurement.
    pub fn event(&mut self, event: &RunEvent) {
        self.progress.event(event);
        if let RunEvent::Measured { measurement } = event {
            self.row(measurement);
        }
    }

    /// Prints a measurement as a table row; [`Live::finish`] prints it again if it changed by then.
    pub fn row(&mut self, measurement: &Measurement) {
        let row = self.sheet.row_of(measurement);
        let text = self.sheet.row(&row, measurement);
        self.print(&text);
        self.printed.push((measurement.clone(), row));
    }

    /// Prints the end of the run: changed rows, findings, summary. `kept`: location of the stored
    /// run; `page`: path of its HTML page. Fails if writing fails; a broken pipe is no error.
    pub fn finish(&mut self, run: &Run, kept: Option<&RunPlace<'_>>, page: Option<&Path>) -> io::Result<()> {
        self.progress.end();
        let mut text = self.sheet.table.end();
        // Rows that changed after printing, such as by a limit now known.
        for measurement in &run.measurements {
            let same = |m: &Measurement| {
                m.case == measurement.case && m.node == measurement.node && m.repeat == measurement.repeat
            };
            let row = self.sheet.row_of(measurement);
            if self.printed.iter().any(|(m, before)| same(m) && *before != row) {
                let context = vec!["rows above that changed at the end of the run".to_owned()];
                text += &self.sheet.table.row(&row, "Revised", &context);
            }
        }
        text += &(self.sheet.table.end() + "\n" + &self.sheet.verdict(run));
        text += &(self.sheet.ending(run, kept) + &self.sheet.document(run, kept, page));
        self.print(&text);
        match std::mem::replace(&mut self.written, Ok(())) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

/// Formats a stored run as it was shown live; of several nodes, only the rows of the first.
pub fn text(run: &Run, style: &Style) -> String {
    let mut sheet = RunText::new(run, style.clone());
    let mut text = sheet.verdict(run) + &sheet.opening(run);
    let first = run.nodes.first().filter(|_| run.nodes.len() > 1).map(|node| node.name.as_str());
    for measurement in run.measurements.iter().filter(|m| first.is_none_or(|name| m.node == name)) {
        let row = sheet.row_of(measurement);
        text += &sheet.row(&row, measurement);
    }
    let ending = sheet.ending(run, None);
    let gap = if ending.starts_with('\n') { "" } else { "\n" };
    text + &sheet.table.end() + gap + &ending
}

/// Formats the reason why there is no valid result, if so, and warnings as lines `CASE: TEXT`.
pub fn warnings(measurement: &Measurement, style: &Style) -> String {
    let label = plimsoll_bench::label::label(&measurement.case);
    let reason = measurement.reason.iter().map(String::as_str);
    let texts = reason.chain(measurement.warnings.iter().map(|w| w.text.as_str()));
    texts.map(|text| format!("{}\n", style.styled(&format!("{label}: {text}")))).collect()
}

struct RunText {
    table: CaseTable,
    machine: Machine,
    style: Style,
    baseline: Option<PublishedReport>,
}

impl RunText {
    fn new(header: &Run, style: Style) -> Self {
        let baseline = plimsoll_published::find(&header.plan.name);
        Self { table: CaseTable::new(style.clone()), machine: header.machine.clone(), style, baseline }
    }

    /// Builds a measurement's table row; details have the numbers of a replayed published report.
    fn row_of(&self, measurement: &Measurement) -> MeasurementRow {
        let mut row = MeasurementRow::of(measurement);
        for phrase in self.baseline.iter().flat_map(|baseline| published_lines(baseline, measurement)) {
            row.details = joined(&[&row.details, &phrase], " · ");
        }
        row
    }

    fn row(&mut self, row: &MeasurementRow, measurement: &Measurement) -> String {
        let mut context = context(&self.machine, measurement);
        if plimsoll_bench::subsystem_of(&measurement.case).has_percentiles && !context.is_empty() {
            context.push("p50, p99 of single operations".to_owned());
        }
        self.table.row(row, title(measurement.case.subsystem()), &context)
    }

    /// Formats the verdict of the run, a sentence or two; empty if it measured nothing.
    fn verdict(&self, run: &Run) -> String {
        let role = |grade| match grade {
            Grade::Good => TextRole::Good,
            Grade::Poor => TextRole::Warning,
            Grade::Fair | Grade::Unknown => TextRole::Strong,
        };
        let style = Style { width: self.style.width.min(WIDEST), ..self.style.clone() };
        verdict(run).map_or_else(String::new, |of| paragraph(&style, role(of.grade), "", &of.text))
    }

    fn opening(&self, run: &Run) -> String {
        let title = heading(run, &self.style);
        let whole = conditions::whole(&run.machine);
        let stated = whole.iter().map(|note| paragraph(&self.style, TextRole::Warning, "! ", &note.text));
        paragraph(&self.style, TextRole::Dim, "", &title) + &stated.collect::<String>()
    }

    fn ending(&self, run: &Run, stored: Option<&RunPlace<'_>>) -> String {
        let style = &self.style;
        let mut text = super::tool_results::section(run, style);
        text += &(super::machines::section(run, style) + &super::pairs::section(run, style));
        let shown = |finding: &&Finding| style.explain || !finding.is_good_scaling();
        let findings: Vec<&String> = run.findings.iter().filter(shown).map(|finding| &finding.text).collect();
        text += &list(style, TextRole::Plain, "Findings", &findings);
        text += &list(style, TextRole::Dim, "How it is counted", &run.plan.notes);
        text += if text.is_empty() { "" } else { "\n" };
        text += &paragraph(style, TextRole::Plain, "", &tally(run));
        if let Some(RunPlace { location, id }) = stored {
            let (directory, store) = (shown_path(location.directory()), store_option(location));
            let kept = format!("kept in {directory}; explained: plimsoll history show {id} --explain{store}");
            text += &format!("{}\n", style.paint(TextRole::Dim, &style.styled(&kept)));
        }
        text
    }

    /// For a replayed report, formats `page` and, if `stored`, a command to rewrite it; else empty.
    fn document(&self, run: &Run, stored: Option<&RunPlace<'_>>, page: Option<&Path>) -> String {
        if plimsoll_published::find(&run.plan.name).is_none() {
            return String::new();
        }
        let page = page.map(shown_path);
        let written = page.as_ref().map(|file| format!("the report's tables and figures: {file}"));
        let again = stored.map(|RunPlace { location, id }| {
            let store = store_option(location);
            let file = page.as_ref().map_or("FILE.html".to_owned(), |file| shell_quoted(file));
            format!("write them again: plimsoll report {id} --tables published --html {file}{store}")
        });
        let strong = |line: String| self.style.paint(TextRole::Strong, &self.style.styled(&line)) + "\n";
        written.into_iter().chain(again).map(strong).collect()
    }
}

/// Least characters of an id shown: its time to the millisecond.
pub const SHORT_ID: usize = 13;

/// Location of a stored run.
#[derive(Debug)]
pub struct RunPlace<'a> {
    /// History.
    pub location: &'a Location,
    /// Prefix of its id that is unique there.
    pub id: String,
}

/// Returns the option ` --store DIRECTORY` for a command; empty for the default history.
pub fn store_option(location: &Location) -> String {
    match location {
        Location::Usual(_) => String::new(),
        Location::Named(_) => format!(" --store {}", shell_quoted(&shown_path(location.directory()))),
    }
}

pub(super) fn heading(run: &Run, style: &Style) -> String {
    let host = context::host_or_count(run).map(|host| format!(" on {host}")).unwrap_or_default();
    format!("plimsoll {} · {}{host} · {}", run.version, run.plan.name, when(&run.started, style))
}

/// Formats the number of cases by outcome and the duration: `12 cases in 3 min: 11 ok · 1 failed`.
pub(super) fn tally(run: &Run) -> String {
    let counts = CaseCounts::of(&run.measurements);
    let wide = run.measurements.iter().filter(|m| is_wide(&m.warnings)).count();
    let warned = run.measurements.iter().filter(|m| has_mark(m)).count();
    let marked = [(wide, "not converged (*)"), (warned, "with warnings (!)")];
    let marked = marked.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let marked = listed(marked, ", ").map(|marked| format!("; of these {marked}")).unwrap_or_default();
    let stated = listed(counts.lines(), " · ").map(|stated| stated + &marked);
    let stated = stated.unwrap_or_else(|| "nothing measured".to_owned());
    let (total, nodes) = (counts.total(), run.nodes.len());
    let cases = match run.status {
        RunStatus::Complete => format_count(total, "case"),
        RunStatus::Partial if nodes > 1 => format!("partial: {total} rows of {nodes} machines"),
        RunStatus::Partial => format!("partial: {total} of {}", format_count(run.plan.cases, "case")),
    };
    format!("{cases} in {}: {stated}", super::progress::span(run.elapsed_s))
}

/// Formats an RFC 3339 time as `2026-11-29 12:30` in the style's zone; returns it if it is invalid.
pub(super) fn when(started: &str, style: &Style) -> String {
    match started.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(style.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => started.to_owned(),
    }
}
