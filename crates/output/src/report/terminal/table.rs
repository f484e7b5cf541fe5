//! The result table, one row at a time: columns, sections, explanations; layout by terminal width.

use std::ops::RangeInclusive;

use plimsoll_model::measurement::Status;
use unicode_width::UnicodeWidthStr;

use crate::report::row::{Grade, HeadlineFigures, MeasurementRow};
use crate::report::section::{IN_INTERVAL_COLUMN, STAR, Section, doubt_mark, is_wide};
use crate::report::style::{Style, TextRole};
use crate::report::wrap::{pad, with_leads};

const VALUE: usize = 12;
const LIMIT: usize = 12;
const MIN_COLUMN_SHARE: usize = 8;
const FIGURES: usize = 1 + VALUE + 1 + 1 + LIMIT + MIN_COLUMN_SHARE;

const INDENT: usize = 2;
const INNER: usize = 4;
const LABEL: RangeInclusive<usize> = 22..=36;
const BAR: RangeInclusive<usize> = 7..=10;
/// Columns after the bar for what was delivered, `60.0 delivered`, if the terminal has them.
const AFTER_BAR: usize = 15;
/// Least columns that labels have above their minimum beside [`AFTER_BAR`].
const MIN_LABEL_GROWTH: usize = 4;
const CASE: &str = "case (×2: 2 threads)";
pub(crate) const WIDEST: usize = 110;
const INVALID: &str = "invalid";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FigureLayout {
    /// In columns after the label, with a bar; widths in columns.
    OneLine {
        label: usize,
        bar: usize,
    },
    /// In columns on their own line, with a bar of this width (0: none).
    Below {
        bar: usize,
    },
    Running,
}

impl FigureLayout {
    fn of(style: &Style) -> Self {
        let (width, gap) = (style.width.min(WIDEST), 1);
        let columns = FIGURES + interval_width(style) + gap;
        if let Some(spare) = width.checked_sub(INDENT + LABEL.start() + columns + BAR.start()) {
            let spare =
                spare.checked_sub(AFTER_BAR).filter(|rest| *rest >= MIN_LABEL_GROWTH).unwrap_or(spare);
            let label = (LABEL.start() + spare).min(*LABEL.end());
            let bar = BAR.start() + (LABEL.start() + spare - label);
            return Self::OneLine { label, bar: bar.min(*BAR.end()) };
        }
        match width.checked_sub(INNER + columns) {
            Some(spare) if spare >= *BAR.start() => Self::Below { bar: *BAR.start() },
            Some(_) => Self::Below { bar: 0 },
            None => Self::Running,
        }
    }
}

/// Returns the width of a formatted interval in columns: `± 0.20 %` or, in ASCII, `+/- 0.20 %`.
fn interval_width(style: &Style) -> usize {
    if style.unicode { 8 } else { 10 }
}

#[derive(Debug)]
pub(crate) struct CaseTable {
    style: Style,
    layout: FigureLayout,
    section: Option<Section>,
    headed: bool,
}

impl CaseTable {
    pub(crate) fn new(style: Style) -> Self {
        Self { layout: FigureLayout::of(&style), style, section: None, headed: false }
    }

    /// Formats a row. If `title` is not the current section's, it is preceded by the end of that
    /// section and a heading with `title` and `context`.
    pub(crate) fn row(&mut self, row: &MeasurementRow, title: &str, context: &[String]) -> String {
        let mut out = String::new();
        if self.section.as_ref().is_none_or(|section| section.title != title) {
            out = self.end() + &self.heading(title, context);
        }
        let section = self.section.get_or_insert_with(|| Section::new(title));
        let is_new = section.add(row);
        out += &self.figures(row);
        if let Some(reason) = &row.reason {
            let as_above = (TextRole::Dim, "as above");
            let (role, text) = if is_new { (colour_of(row.status), &**reason) } else { as_above };
            out += &self.below(role, "", text);
        }
        out + &self.below(TextRole::Dim, "", &row.details)
    }

    /// Ends the current section: returns its line of warnings and, with `--explain`, explanations.
    pub(crate) fn end(&mut self) -> String {
        let Some(section) = self.section.take() else { return String::new() };
        let warnings = section.warnings().map(|text| self.below(TextRole::Warning, "! ", &text));
        let explanations = if self.style.explain { section.explanations() } else { Vec::new() };
        let explanations = explanations.iter().map(|text| self.below(TextRole::Dim, "– ", text));
        warnings.into_iter().chain(explanations).collect()
    }

    fn heading(&mut self, title: &str, facts: &[String]) -> String {
        let title = self.style.styled(title);
        let room = self.style.width.saturating_sub(title.width() + 2);
        let mut context = String::new();
        for part in facts {
            let separator = if context.is_empty() { "" } else { " · " };
            let longer = context.clone() + &self.style.styled(&format!("{separator}{part}"));
            if longer.width() > room {
                break;
            }
            context = longer;
        }
        if !context.is_empty() {
            context = format!("  {}", self.style.paint(TextRole::Dim, &context));
        }
        let columns = if self.headed { String::new() } else { self.columns() };
        self.headed = true;
        format!("\n{columns}{}{context}\n", self.style.paint(TextRole::Strong, &title))
    }

    fn columns(&self) -> String {
        let FigureLayout::OneLine { label, .. } = self.layout else { return String::new() };
        let (case, interval) = (self.style.styled(CASE), self.style.styled("± 95 %"));
        let [median, limit, share] = ["sample median", "limit", "of limit"];
        let (room, rest) = (interval_width(&self.style), MIN_COLUMN_SHARE + 1);
        let figures = format!("{median:>VALUE$} {interval:>room$} {limit:>LIMIT$}{share:>rest$}");
        let line = format!("{:INDENT$}{case:label$}{figures}", "");
        self.style.paint(TextRole::Dim, &line) + "\n"
    }

    fn figures(&self, row: &MeasurementRow) -> String {
        let Some(figures) = &row.figures else {
            let word = self.right(colour_of(row.status), row.status.word(), VALUE);
            return self.placed(row, &format!(" {word}"));
        };
        let (start, bar) = match self.layout {
            FigureLayout::Running => return self.running(row, figures),
            FigureLayout::Below { bar } => (INNER - 1, bar),
            FigureLayout::OneLine { label, bar } => (INDENT + label, bar),
        };
        let (cells, used) = self.cells(row, figures, bar);
        let room = self.style.width.min(WIDEST).saturating_sub(start + used);
        let (after, below) = self.remarks(row, figures, room);
        let line = cells + &self.style.paint(TextRole::Dim, &after);
        self.placed(row, line.trim_end()) + &below
    }

    /// Returns a row's remarks after its bar that fit in `room` columns ("invalid", limit's scope,
    /// delivered value, percentiles), and lines below for a delivered value that does not fit.
    fn remarks(&self, row: &MeasurementRow, figures: &HeadlineFigures, room: usize) -> (String, String) {
        let delivered = figures.delivered.as_ref();
        let short = delivered.map(|delivered| delivered.short(&figures.value));
        let invalid = row.status == Status::Invalid && figures.of_limit.is_none();
        let scope = figures.scope.map(|scope| scope.name().to_owned());
        let mut first = [invalid.then(|| INVALID.to_owned()), scope, short.clone()];
        if invalid {
            first.swap(1, 2);
        }
        let percentiles = row.percentiles.as_ref().map(<[String; 2]>::as_slice).unwrap_or_default();
        let mut text = String::new();
        // The longest form of the percentiles that fits.
        for forms in first.iter().flatten().map(std::slice::from_ref).chain([percentiles]) {
            let separator = if text.is_empty() { " " } else { " · " };
            let longer = |form| self.style.styled(&format!("{text}{separator}{form}"));
            if let Some(longer) = forms.iter().map(longer).find(|longer| longer.width() <= room) {
                text = longer;
            }
        }
        let is_shown = short.is_none_or(|short| text.contains(&self.style.styled(&short)));
        let below = delivered.filter(|_| !is_shown).map(|of| of.sentence(row.reason.as_deref()));
        let below = below.map(|sentence| self.below(TextRole::Warning, "", &sentence));
        (text, below.unwrap_or_default())
    }

    /// Formats a row: mark or blanks, label, and the formatted `cells` after or below the label.
    fn placed(&self, row: &MeasurementRow, cells: &str) -> String {
        let (lead, label) = (self.lead(row), self.style.styled(&row.label));
        let (room, indent) = match self.layout {
            FigureLayout::OneLine { label, .. } => (label, INDENT + label),
            FigureLayout::Below { .. } => (self.style.width.saturating_sub(INDENT), INNER - 1),
            FigureLayout::Running => (0, INNER - 1),
        };
        let level = row.level.as_ref().map(|level| format!(" {}", self.style.styled(level)));
        let level = level.filter(|level| label.width() + level.width() <= room).unwrap_or_default();
        let pad = room.checked_sub(label.width() + level.width());
        let level = self.style.paint(TextRole::Dim, &level);
        match (self.layout, pad) {
            (FigureLayout::OneLine { .. }, Some(pad)) => format!("{lead}{label}{level}{:pad$}{cells}\n", ""),
            (_, Some(_)) => format!("{lead}{label}{level}\n{:indent$}{cells}\n", ""),
            (_, None) => format!("{}{:indent$}{cells}\n", self.wrapped_label(&lead, &label), ""),
        }
    }

    /// Formats the first two columns of a row: `! ` if it has warnings, else blanks.
    fn lead(&self, row: &MeasurementRow) -> String {
        let is_marked = row.warnings.iter().any(|note| !IN_INTERVAL_COLUMN.contains(&note.code.as_str()));
        if is_marked { self.style.paint(TextRole::Warning, "! ") } else { " ".repeat(INDENT) }
    }

    /// Wraps a label to lines: `lead` before the first, two blanks before the rest.
    fn wrapped_label(&self, lead: &str, label: &str) -> String {
        let lines = with_leads(lead, INDENT, label, self.style.width.saturating_sub(INDENT));
        lines.iter().map(|(lead, line)| format!("{lead}{line}\n")).collect()
    }

    /// Formats value, interval, limit, and if known share of the limit with a bar of `bar` columns;
    /// also returns the width in columns.
    fn cells(&self, row: &MeasurementRow, figures: &HeadlineFigures, bar: usize) -> (String, usize) {
        let status = row.status;
        let styled = |text: &str| self.style.styled(text);
        let share_role = colour_of_share(status, figures.grade);
        let (value_role, limit_role) = match status {
            Status::Invalid => (TextRole::Bad, TextRole::Plain),
            _ if figures.of_limit.is_none() => (TextRole::Strong, TextRole::Dim),
            _ => (TextRole::Strong, TextRole::Plain),
        };
        let value = doubt_mark(&row.warnings).to_owned() + &figures.value;
        let value = self.right(value_role, &styled(&value), 1 + VALUE);
        let limit = self.right(limit_role, &styled(&figures.limit), LIMIT);
        let mut cells = format!("{value} {}{limit}", self.interval(row, figures));
        let mut used = 1 + VALUE + 1 + interval_width(&self.style) + 1 + LIMIT;
        if figures.of_limit.is_some() {
            cells += &self.right(share_role, &styled(&figures.share()), MIN_COLUMN_SHARE);
            cells += &self.bar(status, figures, bar);
            used += MIN_COLUMN_SHARE + 1 + bar.max(INVALID.len());
        }
        (cells, used)
    }

    /// Formats the interval, `± 0.20 %`, in a fixed width, with a star if it is too wide.
    fn interval(&self, row: &MeasurementRow, figures: &HeadlineFigures) -> String {
        let (mut text, room) = (self.style.styled(&figures.interval), interval_width(&self.style));
        let is_wide = is_wide(&row.warnings);
        let star = if is_wide { self.style.paint(TextRole::Warning, STAR) } else { " ".to_owned() };
        if !is_wide || self.style.styled(&figures.limit).width() < LIMIT {
            return self.right(TextRole::Dim, &text, room) + &star;
        }
        if text.width() > room - STAR.len() {
            text = text.replacen(' ', "", 1);
        }
        self.right(TextRole::Dim, &text, room - STAR.len()) + &star + " "
    }

    fn right(&self, role: TextRole, text: &str, room: usize) -> String {
        pad(text, room) + &self.style.paint(role, text)
    }

    /// Draws the share of the limit as a bar of `room` columns: delivered solid, undisturbed
    /// hatched. Empty if the share is unknown.
    fn bar(&self, status: Status, figures: &HeadlineFigures, room: usize) -> String {
        let share = figures.of_limit.filter(|share| share.is_finite());
        let (Some(share), true) = (share, room > 0) else { return String::new() };
        if status == Status::Invalid {
            return format!(" {}", self.style.paint(TextRole::Bad, INVALID));
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
        let full = self.style.paint(colour_of_share(status, figures.grade), &full);
        let [hatched, rest] = [hatched, rest].map(|part| self.style.paint(TextRole::Dim, &part));
        format!(" {full}{hatched}{rest}")
    }

    fn running(&self, row: &MeasurementRow, figures: &HeadlineFigures) -> String {
        let star = if is_wide(&row.warnings) { STAR } else { "" };
        let parts = [
            Some(format!("{}{} {}{star}", doubt_mark(&row.warnings), figures.value, figures.interval)),
            (!figures.limit.is_empty()).then(|| format!("limit {}", figures.limit)),
            figures.scope.map(|scope| scope.name().to_owned()),
            figures.of_limit.map(|_| format!("{} of it", figures.share())),
            figures.delivered.as_ref().map(|delivered| delivered.short(&figures.value)),
            row.percentiles.as_ref().map(|[both, _]| both.clone()),
        ];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let label = self.wrapped_label(&self.lead(row), &self.style.styled(&row.label));
        label + &self.below(colour_of_share(row.status, figures.grade), "", &text)
    }

    /// Formats a text on indented lines below the row's label, the first after `lead`.
    fn below(&self, role: TextRole, lead: &str, text: &str) -> String {
        let lead = self.style.styled(lead);
        let indent = INNER.min(self.style.width / 8);
        let room = self.style.width.min(WIDEST).saturating_sub(indent + lead.width());
        let lines = with_leads(&lead, lead.width(), &self.style.styled(text), room);
        let line = |(lead, text): &(String, String)| self.style.paint(role, &format!("{lead}{text}"));
        lines.iter().map(|of| format!("{:indent$}{}\n", "", line(of))).collect()
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
        (_, Grade::Poor) => TextRole::Warning,
        (_, Grade::Fair | Grade::Unknown) => TextRole::Plain,
    }
}
