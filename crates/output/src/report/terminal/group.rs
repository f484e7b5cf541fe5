//! Deduplication of footnotes, warnings and reasons within a group of rows.

use std::collections::{BTreeMap, BTreeSet};

use unicode_width::UnicodeWidthStr;

use plimsoll_model::measurement::Note;
use plimsoll_model::warning::CAUSES;

const NOT_CONVERGED: &str = "not-converged";
const WIDE_MEANS: &str = "the interval is wider than --precision asks for; use a larger --budget, a longer --sample-time, more --samples, or a looser --precision";
const FEW_SAMPLES: &str = "few-samples";
pub(crate) const IN_ITS_COLUMN: [&str; 2] = [NOT_CONVERGED, FEW_SAMPLES];
const MOSTLY: &str = "mostly-excluded";
const ALL_EXCLUDED: &str = "mostly excluded";

const MARK: usize = 40;
const TEXT: usize = 60;

#[derive(Debug, Default)]
pub(crate) struct RowGroup {
    pub(crate) title: String,
    pub(crate) notes: Vec<String>,
    pub(crate) warnings: Vec<Meaning>,
    pub(crate) remarks: Vec<&'static str>,
    reasons: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) mark: &'static str,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct ExplainedElsewhere {
    above: BTreeSet<String>,
    before: BTreeSet<String>,
}

impl ExplainedElsewhere {
    pub(crate) fn above(codes: BTreeSet<String>) -> Self {
        Self { above: codes, ..Self::default() }
    }
}

impl RowGroup {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Adds the reason of a row without a result; returns whether the reason is new in this group.
    pub(crate) fn is_new(&mut self, reason: &str) -> bool {
        self.reasons.insert(reason.to_owned())
    }

    /// Returns short marks for a row's warnings, and collects their explanations, which are shown
    /// below the group. `has_figure`: the row has a result, whose interval column shows two of the
    /// warnings. `known`: warnings explained elsewhere.
    pub(crate) fn marks(
        &mut self,
        notes: &[Note],
        has_figure: bool,
        known: &mut ExplainedElsewhere,
    ) -> Vec<String> {
        let mut marks: Vec<String> = Vec::new();
        for note in notes {
            let mark = self.mark(note, known);
            let in_its_column = has_figure && IN_ITS_COLUMN.contains(&note.code.as_str());
            if !in_its_column && !marks.contains(&mark) {
                marks.push(mark);
            }
        }
        fold_repeated_marks(&mut marks);
        marks
    }

    fn mark(&mut self, Note { code, text }: &Note, known: &mut ExplainedElsewhere) -> String {
        let is_above = known.above.contains(code);
        if is_above && !CAUSES.contains(&code.as_str()) {
            return short(code, text);
        }
        let mut meaning = meaning(code, text);
        if is_above {
            meaning.truncate(before_remedy(&meaning).len());
        }
        let shape = without_figures(&meaning);
        if known.before.contains(&shape) {
            return short(code, text);
        }
        if let Some(explained) = self.texts.get(&shape) {
            let own = before_remedy(text);
            return match *explained == meaning || own.width() > TEXT {
                true => short(code, text),
                false => own.to_owned(),
            };
        }
        if is_for_all(code) {
            known.before.insert(shape);
        } else {
            self.texts.insert(shape, meaning.clone());
        }
        let mark = if code == NOT_CONVERGED { STAR } else { "!" };
        self.warnings.push(Meaning { mark, text: meaning });
        short(code, text)
    }

    pub(crate) fn remark(&mut self, remark: &'static str) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Returns the index (from 0) of the footnote with this text, which is added if it is new.
    pub(crate) fn footnote(&mut self, note: &str) -> usize {
        self.notes.iter().position(|known| known == note).unwrap_or_else(|| {
            self.notes.push(note.to_owned());
            self.notes.len() - 1
        })
    }
}

pub(crate) const STAR: &str = "*";

/// Returns whether the warnings include that of an interval wider than requested.
pub(crate) fn is_wide(notes: &[Note]) -> bool {
    notes.iter().any(|note| note.code == NOT_CONVERGED)
}

/// Returns whether warning `code` means the same in all groups, apart from the row's numbers.
fn is_for_all(code: &str) -> bool {
    IN_ITS_COLUMN.contains(&code) || code == MOSTLY || CAUSES.contains(&code)
}

/// Shortens a warning to the text before its colon if short, otherwise to its code in words.
fn short(code: &str, text: &str) -> String {
    let lead = text.split_once(": ").map(|(lead, _)| lead).filter(|lead| lead.width() <= MARK);
    lead.map_or_else(|| code.replace('-', " "), str::to_owned)
}

/// Returns the explanation of a warning without the row's numbers, starting with its mark.
fn meaning(code: &str, text: &str) -> String {
    if code == NOT_CONVERGED {
        return format!("{}: {}", short(code, text), WIDE_MEANS);
    }
    let mark = short(code, text);
    match (text.rsplit_once(": "), mark.split_once(" (")) {
        (Some((_, rest)), _) if is_for_all(code) => format!("{}: {rest}", named(&mark)),
        (_, Some((words, _))) if mark.ends_with(')') => format!("{words}{}", &text[mark.len()..]),
        _ if text.starts_with(&mark) => text.to_owned(),
        _ => format!("{mark}: {text}"),
    }
}

/// Removes the share from a mark: `preempted` from `preempted 7.0 %`.
fn named(mark: &str) -> &str {
    let figure = mark.find(|c: char| c.is_ascii_digit()).unwrap_or(mark.len());
    mark[..figure].trim_end()
}

/// Removes the total excluded share from `marks` if a single cause has the same share.
fn fold_repeated_marks(marks: &mut [String]) {
    let share = |mark: &String| mark[named(mark).len()..].to_owned();
    let lead = |mark: &String| named(mark) == ALL_EXCLUDED;
    let Some(at) = marks.iter().position(lead) else { return };
    let own = share(&marks[at]);
    let elsewhere = |(other, mark): (usize, &String)| other != at && share(mark) == own;
    if marks.iter().enumerate().any(elsewhere) {
        marks[at] = ALL_EXCLUDED.to_owned();
    }
}

fn before_remedy(text: &str) -> &str {
    text.split_once(';').map_or(text, |(before, _)| before)
}

/// Replaces each number by `#`, to compare texts: `7.0 %` becomes `# %`.
fn without_figures(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_figure = c.is_ascii_digit() || (c == '.' && out.ends_with('#'));
        match is_figure {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(code: &str, text: &str) -> Note {
        Note { code: code.to_owned(), text: text.to_owned() }
    }

    fn texts(group: &RowGroup) -> Vec<String> {
        group.warnings.iter().map(|meaning| format!("{} {}", meaning.mark, meaning.text)).collect()
    }

    #[test]
    fn a_warning_is_a_mark_in_its_row_and_explained_once_below() {
        let mut group = RowGroup::new("CPU");
        let mut known = ExplainedElsewhere::default();
        let mut stated = |code: &str, text: &str| group.marks(&[note(code, text)], true, &mut known);
        assert_eq!(stated("pages", "pages: 7 % are small; reserve them"), ["pages"]);
        assert_eq!(stated("pages", "pages: 7 % are small; reserve them"), ["pages"]);
        assert_eq!(stated("pages", "pages: 9 % are small; reserve them"), ["pages: 9 % are small"]);
        let wide = "not converged: ± 3 % where ± 1 % was asked: too short; more";
        assert!(stated("not-converged", wide).is_empty());
        assert!(stated("not-converged", &wide.replace("± 3", "± 4")).is_empty());
        assert!(stated("few-samples", "no interval: 3 of the 5 samples that it needs; more").is_empty());
        let reported = [
            "! pages: 7 % are small; reserve them",
            &format!("* not converged: {WIDE_MEANS}"),
            "! no interval: 3 of the 5 samples that it needs; more",
        ];
        assert_eq!(texts(&group), reported);
    }

    #[test]
    fn what_differs_in_its_figures_alone_is_explained_once() {
        let mut group = RowGroup::new("Disk");
        let mut known = ExplainedElsewhere::default();
        let cached = |share: &str| {
            let text = format!(
                "sda1 moved only {share} % of what went through loop3: the file behind it is cached; name a --dir"
            );
            note("cached-below", &text)
        };
        let excluded = |share: &str| {
            let text = format!(
                "mostly excluded {share} %: more than 50 % of the time was excluded, so the figure may be off; the other warnings name the cause"
            );
            note("mostly-excluded", &text)
        };
        for share in ["3.1", "0.2"] {
            let notes = [cached(share), excluded(share)];
            let mark = format!("mostly excluded {share} %");
            assert_eq!(group.marks(&notes, true, &mut known), ["cached below", mark.as_str()]);
        }
        assert_eq!(group.warnings.len(), 2, "{:?}", group.warnings);
    }

    #[test]
    fn a_row_without_a_figure_says_in_words_what_its_interval_would() {
        let wide = note("not-converged", "not converged: ± 3 % where ± 1 % was asked: too short; more");
        let marks =
            RowGroup::new("CPU").marks(&[wide.clone(), wide], false, &mut ExplainedElsewhere::default());
        assert_eq!(marks, ["not converged"]);
    }

    #[test]
    fn a_cause_is_explained_once_for_all_groups_and_marked_with_its_share() {
        let (mut cpu, mut memory, mut known) =
            (RowGroup::new("CPU"), RowGroup::new("Memory"), ExplainedElsewhere::default());
        let first = note("preempted", "preempted 7.0 %: other threads ran; stop other work");
        let again = note("preempted", "preempted 9.0 %: other threads ran; stop other work");
        assert_eq!(cpu.marks(&[first], true, &mut known), ["preempted 7.0 %"]);
        assert_eq!(texts(&cpu), ["! preempted: other threads ran; stop other work"]);
        for group in [&mut cpu, &mut memory] {
            assert_eq!(group.marks(std::slice::from_ref(&again), true, &mut known), ["preempted 9.0 %"]);
        }
        assert!(memory.warnings.is_empty());
    }

    #[test]
    fn a_cause_that_is_told_above_the_table_is_explained_without_its_remedy() {
        let mut group = RowGroup::new("CPU");
        let mut known = ExplainedElsewhere::above(["cpu-quota".to_owned(), "preempted".to_owned()].into());
        let quota = note("cpu-quota", "a cgroup quota allows 0.50 CPUs' worth of time; raise it");
        let preempted = note("preempted", "preempted 7.0 %: other threads ran; stop other work");
        assert_eq!(group.marks(&[quota, preempted], true, &mut known), ["cpu quota", "preempted 7.0 %"]);
        assert_eq!(texts(&group), ["! preempted: other threads ran"]);
    }

    #[test]
    fn footnotes_are_numbered_once() {
        let mut group = RowGroup::new("CPU");
        assert_eq!([group.footnote("a"), group.footnote("b"), group.footnote("a")], [0, 1, 0]);
        assert!(group.is_new("why") && !group.is_new("why"));
    }
}
