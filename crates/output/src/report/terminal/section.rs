//! Rows of a section of the table: the line of their warnings, and their explanations.

use std::collections::BTreeMap;

use plimsoll_model::measurement::{Measurement, Note};
use plimsoll_model::warning::Warning;
use plimsoll_units::quantity::percent;
use plimsoll_units::text::format_count;

use crate::report::row::MeasurementRow;
use crate::report::{distinct, grouped, joined};

const NOT_CONVERGED: &str = "not-converged";
/// Warnings that the column of the interval shows, by a star or the number of samples.
pub(crate) const IN_INTERVAL_COLUMN: [&str; 2] = [NOT_CONVERGED, "few-samples"];
/// Mark of an interval that is wider than requested.
pub(crate) const STAR: &str = "*";
/// Mark of a median with more than half of the time excluded.
pub(crate) const DOUBTFUL: &str = "~";

#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    rows: Vec<MeasurementRow>,
}

impl Section {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), rows: Vec::new() }
    }

    /// Adds a row; returns whether its reason (for no valid result) differs from all earlier rows'.
    pub(crate) fn add(&mut self, row: &MeasurementRow) -> bool {
        let is_new = self.rows.iter().all(|earlier| earlier.reason != row.reason);
        self.rows.push(row.clone());
        is_new
    }

    /// Counts the rows with each warning, and states the largest share of time excluded: `of 4
    /// cases: 3 preempted; medians exclude up to 64 % of the time`. `None` if there is neither.
    pub(crate) fn warnings(&self) -> Option<String> {
        let names = count_warnings(self.rows.iter().map(|row| row.warnings.as_slice()), &IN_INTERVAL_COLUMN);
        let excluded = |row: &MeasurementRow| Some(row.figures.as_ref()?.delivered.as_ref()?.excluded);
        let excluded = self.rows.iter().filter_map(excluded).max_by(f64::total_cmp);
        let excluded = excluded.map(|of| format!("medians exclude up to {} of the time", percent(of, 2)));
        let cases = format_count(self.rows.len(), "case");
        let counted = if names.is_empty() { names } else { format!("of {cases}: {names}") };
        let text = joined(&[&counted, &excluded.unwrap_or_default()], "; ");
        (!text.is_empty()).then_some(text)
    }

    /// Explains the rows: texts to wrap, each once as `ROW, ROW: TEXT`; terms last, without rows.
    /// If warnings differ only in numbers, returns the first as `ROW (likewise ROW): TEXT`.
    pub(crate) fn explanations(&self) -> Vec<String> {
        let labelled = |texts: fn(&MeasurementRow) -> Vec<&str>, shape: fn(&str) -> String| {
            let of = |row| texts(row).into_iter().map(|text| (row.label.as_str(), text)).collect::<Vec<_>>();
            merge(self.rows.iter().flat_map(of), shape)
        };
        let remarks = distinct(self.rows.iter().flat_map(|row| &row.remarks)).into_iter();
        [
            labelled(|row| row.explained.iter().map(String::as_str).collect(), str::to_owned),
            labelled(|row| row.figures.iter().filter_map(|of| of.note.as_deref()).collect(), str::to_owned),
            labelled(|row| row.warnings.iter().map(|note| note.text.as_str()).collect(), without_numbers),
            remarks.map(|remark| (*remark).to_owned()).collect(),
        ]
        .concat()
    }
}

/// Returns whether a warning states that the confidence interval is wider than requested.
pub(crate) fn is_wide(notes: &[Note]) -> bool {
    notes.iter().any(|note| note.code == NOT_CONVERGED)
}

/// Returns [`DOUBTFUL`] if a warning states that more than half of the time is excluded, else "".
pub(crate) fn doubt_mark(notes: &[Note]) -> &'static str {
    if notes.iter().any(|note| note.code == Warning::MOSTLY_EXCLUDED) { DOUBTFUL } else { "" }
}

/// Returns whether the case's row has the mark `!`: for any warning except a too wide interval.
pub(crate) fn has_mark(measurement: &Measurement) -> bool {
    measurement.warnings.iter().any(|note| note.code != NOT_CONVERGED)
}

/// Counts the cases per warning, the most frequent first: `3 preempted · 1 few samples`. `warnings`
/// yields each case's warnings; the codes `without` are left out.
pub(crate) fn count_warnings<'a>(warnings: impl Iterator<Item = &'a [Note]>, without: &[&str]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let codes = warnings.flat_map(|notes| distinct(notes.iter().map(|note| note.code.as_str())));
    codes.filter(|code| !without.contains(code)).for_each(|code| *counts.entry(code).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mark = |code| if code == Warning::MOSTLY_EXCLUDED { format!(" ({DOUBTFUL})") } else { String::new() };
    let stated = counts.into_iter();
    let stated = stated.map(|(code, count)| format!("{count} {}{}", code.replace('-', " "), mark(code)));
    stated.collect::<Vec<_>>().join(" · ")
}

/// Merges (label, text) pairs whose texts have the same `shape` to `LABELS: TEXT`; if the texts
/// differ, to `LABEL (likewise LABELS): TEXT` with the first text.
fn merge<'a>(labelled: impl Iterator<Item = (&'a str, &'a str)>, shape: fn(&str) -> String) -> Vec<String> {
    let merged = |(_, all): (String, Vec<(&str, &str)>)| {
        let text = all.first().map_or("", |(_, text)| text);
        let labels = |is_equal: bool| -> Vec<&str> {
            all.iter().filter(|(_, own)| (*own == text) == is_equal).map(|(label, _)| *label).collect()
        };
        match labels(false).as_slice() {
            [] => format!("{}: {text}", labels(true).join(", ")),
            alike => format!("{} (likewise {}): {text}", labels(true).join(", "), alike.join(", ")),
        }
    };
    grouped(labelled.map(|(label, text)| (shape(text), (label, text)))).into_iter().map(merged).collect()
}

/// Replaces each number by `#`, to compare texts: `7.0 %` becomes `# %`.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_within = out.ends_with('#');
        match c {
            '0'..='9' | '.' if is_within => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    fn section(warnings: &[&[(&str, &str)]]) -> Section {
        let mut section = Section::new("CPU");
        for (index, warnings) in warnings.iter().enumerate() {
            let mut row = MeasurementRow::of(&fixture::cpu("f64", 2, 1e9, 2e9));
            row.label = format!("case {index}");
            row.warnings = warnings.iter().map(|(code, text)| fixture::note(code, text)).collect();
            section.add(&row);
        }
        section
    }

    #[test]
    fn a_warning_is_counted_once_a_row() {
        let busy = ("preempted", "preempted 7.0 %: other threads ran; stop other work");
        let wide = ("not-converged", "not converged: too short; measure longer");
        let found = section(&[&[wide, ("cpus-moved", "moved")], &[busy, busy], &[busy]]);
        assert_eq!(found.warnings().as_deref(), Some("of 3 cases: 2 preempted · 1 cpus moved"));
        assert_eq!(section(&[&[wide], &[]]).warnings(), None);
    }

    #[test]
    fn equal_explanations_are_merged_with_their_labels() {
        let found = section(&[
            &[("preempted", "preempted 7.0 %: stop other work"), ("pages", "pages are small")],
            &[("preempted", "preempted 9.0 %: stop other work"), ("pages", "pages are small")],
        ]);
        let texts = found.explanations();
        let wanted =
            ["case 0 (likewise case 1): preempted 7.0 %: stop other work", "case 0, case 1: pages are small"];
        assert!(wanted.iter().all(|wanted| texts.iter().any(|text| text == wanted)), "{texts:?}");
        assert!(texts[0].starts_with("case 0, case 1: limit = "), "{texts:?}");
    }

    #[test]
    fn a_reason_is_new_once() {
        let mut section = Section::new("Disk");
        let mut row = MeasurementRow::of(&fixture::run().measurements[9]);
        assert!(section.add(&row) && !section.add(&row));
        row.reason = Some("another".to_owned());
        assert!(section.add(&row));
    }
}
