//! The result table, one row at a time: columns, groups, footnotes; layout by terminal width.

use std::ops::RangeInclusive;

use plimsoll_model::measurement::Status;
use unicode_width::UnicodeWidthStr;

use crate::report::group::{ExplainedElsewhere, Meaning, RowGroup, STAR, is_wide};
use crate::report::row::{Grade, HeadlineFigures, MeasurementRow};
use crate::report::style::{Style, TextRole};
use crate::report::wrap::flowed;

const VALUE: usize = 12;
const LIMIT: usize = 12;
const MIN_COLUMN_SHARE: usize = 8;
const FIGURES: usize = 1 + VALUE + 1 + 1 + LIMIT + MIN_COLUMN_SHARE;

const INDENT: usize = 2;
const INNER: usize = 4;
const LABEL: RangeInclusive<usize> = 22..=36;
const BAR: RangeInclusive<usize> = 7..=10;
const CASE: &str = "case (×2: 2 threads)";
const WIDEST: usize = 110;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FigureLayout {
    /// In columns after the label, with a bar; widths in columns.
    OneLine { label: usize, bar: usize },
    /// In columns on their own line, with a bar of this width (0: none).
    Below { bar: usize },
    /// As running text.
    Running,
}

impl FigureLayout {
    fn of(style: &Style) -> Self {
        let (width, gap) = (style.width.min(WIDEST), 1);
        let room = AsciiRoom::of(style);
        let columns = FIGURES + room.interval + room.mark + gap;
        if let Some(spare) = width.checked_sub(INDENT + LABEL.start() + columns + BAR.start()) {
            let label = (LABEL.start() + spare).min(*LABEL.end());
            let bar = width - (INDENT + label + columns);
            return Self::OneLine { label, bar: bar.min(*BAR.end()) };
        }
        match width.checked_sub(INNER + columns) {
            Some(spare) if spare >= *BAR.start() => Self::Below { bar: *BAR.start() },
            Some(_) => Self::Below { bar: 0 },
            None => Self::Running,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct AsciiRoom {
    /// `± 0.20 %` or `+/- 0.20 %`, without the star after it.
    interval: usize,
    mark: usize,
}

impl AsciiRoom {
    fn of(style: &Style) -> Self {
        match style.unicode {
            true => Self { interval: 8, mark: 1 },
            false => Self { interval: 10, mark: 3 },
        }
    }
}

#[derive(Debug)]
pub(crate) struct CaseTable {
    style: Style,
    layout: FigureLayout,
    room: AsciiRoom,
    group: Option<RowGroup>,
    known: ExplainedElsewhere,
    headed: bool,
}

pub(crate) struct Heading<'a> {
    pub(crate) title: &'a str,
    pub(crate) context: Vec<String>,
}

impl CaseTable {
    pub(crate) fn new(style: Style, known: ExplainedElsewhere) -> Self {
        Self {
            layout: FigureLayout::of(&style),
            room: AsciiRoom::of(&style),
            style,
            group: None,
            known,
            headed: false,
        }
    }

    /// Formats a row. If `heading` starts a new group, the text begins with the end of the old
    /// group and the heading.
    pub(crate) fn row(&mut self, row: &MeasurementRow, heading: &Heading<'_>) -> String {
        let mut out = String::new();
        if self.group.as_ref().is_none_or(|group| group.title != heading.title) {
            out += &self.end();
            out += &self.heading(heading);
            self.group = Some(RowGroup::new(heading.title));
        }
        out += &self.figures(row);
        out += &self.delivered(row);
        out += &self.reason(row);
        let detail = match row.chosen.as_str() {
            _ if self.fits_one_line(row) => String::new(),
            answered if answered.is_empty() || answered.starts_with('(') => answered.to_owned(),
            kernel => format!("kernel {kernel}"),
        };
        let details: Vec<&str> =
            [&detail, &row.details].into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        let known = &mut self.known;
        let marks = self.group.as_mut().map(|group| {
            row.remarks.iter().copied().for_each(|remark| group.remark(remark));
            group.marks(&row.warnings, row.figures.is_some(), known)
        });
        out + &self.remarks(&details.join(" · "), &marks.unwrap_or_default().join(" · "))
    }

    /// Formats details and warning marks below a row, on one line if possible.
    fn remarks(&self, details: &str, marks: &str) -> String {
        if !details.is_empty() && !marks.is_empty() {
            let (details, marks) = (self.style.styled(details), self.style.styled(&format!("! {marks}")));
            if INNER + details.width() + 2 + marks.width() <= self.style.width.min(WIDEST) {
                let marks = self.style.paint(TextRole::Warning, &marks);
                return format!("{:INNER$}{}  {marks}\n", "", self.style.paint(TextRole::Dim, &details));
            }
        }
        let details = if details.is_empty() { String::new() } else { self.below(TextRole::Dim, "", details) };
        let marks = if marks.is_empty() { String::new() } else { self.below(TextRole::Warning, "! ", marks) };
        details + &marks
    }

    /// Formats the line below a row whose delivered value is much less; otherwise empty.
    fn delivered(&self, row: &MeasurementRow) -> String {
        let delivered = row.figures.as_ref().and_then(|figures| figures.delivered.as_ref());
        delivered
            .map(|delivered| self.below(TextRole::Warning, "", &delivered.sentence()))
            .unwrap_or_default()
    }

    fn reason(&mut self, row: &MeasurementRow) -> String {
        let Some(reason) = &row.reason else { return String::new() };
        match self.group.as_mut().is_none_or(|group| group.is_new(reason)) {
            true => self.below(colour_of(row.status), "", reason),
            false => self.below(TextRole::Dim, "", "as above"),
        }
    }

    /// Ends the current group: formats its footnotes, and the explanations of marks.
    pub(crate) fn end(&mut self) -> String {
        let Some(group) = self.group.take() else { return String::new() };
        let notes = group.notes.iter().enumerate();
        let notes =
            notes.map(|(index, note)| self.below(TextRole::Dim, &format!("{} ", self.mark(index)), note));
        let remarks = group.remarks.iter().map(|remark| self.below(TextRole::Dim, "", remark));
        let meaning =
            |meaning: &Meaning| self.below(TextRole::Warning, &format!("{} ", meaning.mark), &meaning.text);
        let warnings = group.warnings.iter().map(meaning);
        notes.chain(remarks).chain(warnings).collect()
    }

    fn heading(&mut self, heading: &Heading<'_>) -> String {
        let title = self.style.styled(heading.title);
        let mut room = self.style.width.saturating_sub(title.width() + 2);
        let mut context = String::new();
        for part in &heading.context {
            let separator = if context.is_empty() { "" } else { " · " };
            let part = self.style.styled(&format!("{separator}{part}"));
            if part.width() > room {
                break;
            }
            room -= part.width();
            context += &part;
        }
        let published_lines = if context.is_empty() {
            String::new()
        } else {
            format!("  {}", self.style.paint(TextRole::Dim, &context))
        };
        let columns = if self.headed { String::new() } else { self.columns() };
        self.headed = true;
        format!("\n{columns}{}{published_lines}\n", self.style.paint(TextRole::Strong, &title))
    }

    fn columns(&self) -> String {
        let FigureLayout::OneLine { label, .. } = self.layout else { return String::new() };
        let (case, interval) = (self.style.styled(CASE), self.style.styled("± 95 %"));
        let line = format!(
            "{:INDENT$}{case:label$} {:>VALUE$} {interval:>room$} {:>LIMIT$}{:>rest$}",
            "",
            "median",
            "limit",
            "of limit",
            rest = self.room.mark + MIN_COLUMN_SHARE + 1,
            room = self.room.interval,
        );
        self.style.paint(TextRole::Dim, &line) + "\n"
    }

    fn figures(&mut self, row: &MeasurementRow) -> String {
        let Some(figures) = &row.figures else {
            let word = self.right(colour_of(row.status), status_word(row.status), VALUE);
            return self.placed(row, &format!(" {word}"));
        };
        let number = figures.note.as_ref().and_then(|note| Some(self.group.as_mut()?.footnote(note)));
        let mark = number.map(|number| self.mark(number)).unwrap_or_default();
        match self.layout {
            FigureLayout::Running => self.running(row, figures, &mark),
            FigureLayout::Below { bar } | FigureLayout::OneLine { bar, .. } => {
                self.placed(row, &self.cells(row, figures, &mark, bar))
            }
        }
    }

    /// Formats the row's label with the formatted `cells` after or below it.
    fn placed(&self, row: &MeasurementRow, cells: &str) -> String {
        let label = self.style.styled(&row.label);
        let chosen = match self.fits_one_line(row) {
            true => format!(" {}", self.style.styled(&row.chosen)),
            false => String::new(),
        };
        let lead = format!("{label}{}", self.style.paint(TextRole::Dim, &chosen));
        match self.layout {
            FigureLayout::OneLine { label: room, .. } if label.width() <= room => {
                let pad = room - label.width() - chosen.width();
                format!("{:INDENT$}{lead}{:pad$}{cells}\n", "", "")
            }
            FigureLayout::OneLine { label: room, .. } => {
                format!("{}{:indent$}{cells}\n", self.wrapped_label(&label), "", indent = INDENT + room)
            }
            FigureLayout::Below { .. } | FigureLayout::Running if chosen.is_empty() => {
                format!("{}{:indent$}{cells}\n", self.wrapped_label(&label), "", indent = INNER - 1)
            }
            FigureLayout::Below { .. } | FigureLayout::Running => {
                format!("{:INDENT$}{lead}\n{:indent$}{cells}\n", "", "", indent = INNER - 1)
            }
        }
    }

    /// Returns whether the variant that `best` chose fits beside the row's label.
    fn fits_one_line(&self, row: &MeasurementRow) -> bool {
        let width = self.style.styled(&row.label).width() + 1 + self.style.styled(&row.chosen).width();
        let room = match self.layout {
            FigureLayout::OneLine { label, .. } => label,
            FigureLayout::Below { .. } => self.style.width - INDENT,
            FigureLayout::Running => 0,
        };
        !row.chosen.is_empty() && width <= room
    }

    fn wrapped_label(&self, label: &str) -> String {
        let room = self.style.width.saturating_sub(INDENT).max(1);
        flowed(label, room).iter().map(|line| format!("{:INDENT$}{line}\n", "")).collect()
    }

    fn cells(&self, row: &MeasurementRow, figures: &HeadlineFigures, mark: &str, bar: usize) -> String {
        let status = row.status;
        let styled = |text: &str| self.style.styled(text);
        let share_role = colour_of_share(status, figures.grade);
        let (value_role, limit_role) = match status {
            Status::Invalid => (TextRole::Bad, TextRole::Plain),
            _ if figures.of_limit.is_none() => (TextRole::Strong, TextRole::Dim),
            _ => (TextRole::Strong, TextRole::Plain),
        };
        let pad = self.room.mark.saturating_sub(mark.width());
        let cells = [
            " ".to_owned(),
            self.right(value_role, &styled(&figures.value), VALUE),
            " ".to_owned(),
            self.interval(row, figures),
            self.right(limit_role, &styled(&figures.limit), LIMIT),
            self.style.paint(TextRole::Dim, mark) + &" ".repeat(pad),
            self.right(share_role, &styled(&figures.share()), MIN_COLUMN_SHARE),
            self.bar(status, figures, bar),
        ];
        cells.concat().trim_end().to_owned()
    }

    /// Formats the interval, `± 0.20 %`, with a star if it is wider than requested.
    fn interval(&self, row: &MeasurementRow, figures: &HeadlineFigures) -> String {
        let mut text = self.style.styled(&figures.interval);
        if !is_wide(&row.warnings) {
            return self.right(TextRole::Dim, &text, self.room.interval) + " ";
        }
        let star = self.style.paint(TextRole::Warning, STAR);
        if self.style.styled(&figures.limit).width() < LIMIT {
            return self.right(TextRole::Dim, &text, self.room.interval) + &star;
        }
        let room = self.room.interval - STAR.len();
        if text.width() > room {
            text = text.replacen(' ', "", 1);
        }
        self.right(TextRole::Dim, &text, room) + &star + " "
    }

    fn right(&self, role: TextRole, text: &str, room: usize) -> String {
        let pad = room.saturating_sub(text.width());
        format!("{:pad$}{}", "", self.style.paint(role, text))
    }

    /// Draws the share of the limit in `room` columns: delivered solid, undisturbed hatched. Empty
    /// if the share is unknown.
    fn bar(&self, status: Status, figures: &HeadlineFigures, room: usize) -> String {
        let share = figures.of_limit.filter(|share| share.is_finite());
        let (Some(share), true) = (share, room > 0) else { return String::new() };
        if status == Status::Invalid {
            return format!(" {}", self.style.paint(TextRole::Bad, "invalid"));
        }
        // Half columns, rounded down: only the limit is full, and only zero is empty.
        let halves =
            |share: f64| (((share.clamp(0.0, 1.0) + 0.005) * room as f64 * 2.0) as usize).clamp(1, room * 2);
        let undisturbed = halves(share);
        let delivered = figures.delivered.as_ref().and_then(|delivered| delivered.of_limit).map(halves);
        let solid = delivered.map_or(undisturbed, |solid| solid.min(undisturbed));
        let full = "━".repeat(solid / 2) + if solid % 2 == 1 { "╸" } else { "" };
        let hatched = "╍".repeat((undisturbed / 2).saturating_sub(solid.div_ceil(2)));
        let rest = "─".repeat(room - solid.div_ceil(2) - hatched.chars().count());
        let [full, hatched, rest] = [full, hatched, rest].map(|part| self.style.styled(&part));
        let role = colour_of_share(status, figures.grade);
        format!(
            " {}{}{}",
            self.style.paint(role, &full),
            self.style.paint(TextRole::Dim, &hatched),
            self.style.paint(TextRole::Dim, &rest)
        )
    }

    fn running(&self, row: &MeasurementRow, figures: &HeadlineFigures, mark: &str) -> String {
        let star = if is_wide(&row.warnings) { STAR } else { "" };
        let mut text = format!("{} {}{star}", figures.value, figures.interval);
        if !figures.limit.is_empty() {
            text += &format!(", limit {}{mark}", figures.limit);
        }
        if figures.of_limit.is_some() {
            text += &format!(", {} of it", figures.share());
        }
        let label = self.wrapped_label(&self.style.styled(&row.label));
        label + &self.below(colour_of_share(row.status, figures.grade), "", &text)
    }

    /// Formats a text on lines below the row's label, after `lead`.
    fn below(&self, role: TextRole, lead: &str, text: &str) -> String {
        let lead = self.style.styled(lead);
        let indent = INNER.min(self.style.width / 8);
        let room = self.style.width.min(WIDEST).saturating_sub(indent + lead.width()).max(1);
        let mut out = String::new();
        for (index, line) in flowed(&self.style.styled(text), room).iter().enumerate() {
            let lead = if index == 0 { lead.clone() } else { " ".repeat(lead.width()) };
            out += &format!("{:indent$}{}\n", "", self.style.paint(role, &format!("{lead}{line}")));
        }
        out
    }

    fn mark(&self, index: usize) -> String {
        const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
        let number = (index + 1).to_string();
        match self.style.unicode {
            true => number.bytes().filter_map(|digit| RAISED.get(usize::from(digit - b'0'))).collect(),
            false => format!("[{number}]"),
        }
    }
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Invalid => "invalid",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    }
}

fn colour_of(status: Status) -> TextRole {
    match status {
        Status::Ok => TextRole::Plain,
        Status::Invalid | Status::Failed => TextRole::Bad,
        Status::Skipped => TextRole::Warning,
    }
}

fn colour_of_share(status: Status, grade: Grade) -> TextRole {
    match (status, grade) {
        (Status::Invalid, _) => TextRole::Bad,
        (_, Grade::Good) => TextRole::Good,
        (_, Grade::Poor) => TextRole::Poor,
        (_, Grade::Fair | Grade::Unknown) => TextRole::Plain,
    }
}
