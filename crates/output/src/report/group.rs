//! What was already said within a group of rows, so that it is said once.

use std::collections::{BTreeMap, BTreeSet};

use crate::measurement::Note;
use crate::warning::CAUSES;

/// Warnings whose number stands in the row anyway (its interval, its count).
const IN_THE_ROW: [&str; 3] = ["not-converged", "mostly-excluded", "few-samples"];

/// Rows under one heading.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) title: String,
    /// Footnotes, in order of their marks.
    pub(super) notes: Vec<String>,
    /// What the rows' warnings mean, in the order in which they came.
    pub(super) warnings: Vec<String>,
    /// What further figures of the rows are.
    pub(super) remarks: Vec<&'static str>,
    reasons: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Group {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Whether `reason` is said for the first time.
    pub(super) fn is_new(&mut self, reason: &str) -> bool {
        self.reasons.insert(reason.to_owned())
    }

    /// The marks of a row's warnings, a few words each. What they mean and what to do is said once, below the group's rows: causes of
    /// excluded time and what is `known` from above the table once for all groups. A further text of the same code is a
    /// mark up to its remedy, so that no figure is lost.
    pub(super) fn marks(&mut self, notes: &[Note], known: &mut BTreeSet<String>) -> Vec<String> {
        notes.iter().map(|note| self.mark(note, known)).collect()
    }

    fn mark(&mut self, Note { code, text }: &Note, known: &mut BTreeSet<String>) -> String {
        let meaning = meaning(code, text);
        let seen = known.contains(code) || known.contains(&meaning);
        if seen || self.texts.get(code) == Some(&meaning) {
            return short(code, text);
        }
        if in_the_row(code) {
            known.insert(meaning.clone());
        }
        if !in_the_row(code) && self.texts.contains_key(code) {
            return text.split_once(';').map_or(text.as_str(), |(before, _)| before).to_owned();
        }
        self.texts.insert(code.clone(), meaning.clone());
        self.warnings.push(meaning);
        short(code, text)
    }

    /// Has a remark below the rows, once.
    pub(super) fn remark(&mut self, remark: Option<&'static str>) {
        self.remarks.extend(remark.filter(|remark| !self.remarks.contains(remark)));
    }

    /// The number of a footnote, from 0; it is added if it is new.
    pub(super) fn footnote(&mut self, note: &str) -> usize {
        self.notes.iter().position(|known| known == note).unwrap_or_else(|| {
            self.notes.push(note.to_owned());
            self.notes.len() - 1
        })
    }
}

/// Whether the row has all the figures of such a warning: its interval, its count, or the share in its mark.
fn in_the_row(code: &str) -> bool {
    IN_THE_ROW.contains(&code) || CAUSES.contains(&code)
}

/// A warning in a few words: what is before its colon.
fn short(code: &str, text: &str) -> String {
    text.split_once(':').map_or_else(|| code.replace('-', " "), |(before, _)| before.to_owned())
}

/// A warning without the figures that its row has.
fn meaning(code: &str, text: &str) -> String {
    match text.rsplit_once(": ") {
        Some((_, rest)) if in_the_row(code) => format!("{}: {rest}", code.replace('-', " ")),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(code: &str, text: &str) -> Note {
        Note { code: code.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_warning_is_a_mark_in_its_row_and_explained_once_below() {
        let mut group = Group::new("CPU");
        let mut known = BTreeSet::new();
        let mut said = |code: &str, text: &str| group.marks(&[note(code, text)], &mut known);
        assert_eq!(said("pages", "pages: 7 % are small; reserve them"), ["pages"]);
        assert_eq!(said("pages", "pages: 7 % are small; reserve them"), ["pages"]);
        assert_eq!(said("pages", "pages: 9 % are small; reserve them"), ["pages: 9 % are small"]);
        assert_eq!(
            said("not-converged", "not converged: ± 3 % where ± 1 % was asked: too short; more"),
            ["not converged"]
        );
        assert_eq!(
            said("not-converged", "not converged: ± 4 % where ± 1 % was asked: too short; more"),
            ["not converged"]
        );
        assert_eq!(group.warnings, ["pages: 7 % are small; reserve them", "not converged: too short; more"]);
    }

    #[test]
    fn a_cause_is_explained_once_for_all_groups_and_marked_with_its_share() {
        let (mut cpu, mut memory, mut known) = (Group::new("CPU"), Group::new("Memory"), BTreeSet::new());
        let first = note("preempted", "preempted 7.0 %: other threads ran; stop other work");
        let again = note("preempted", "preempted 9.0 %: other threads ran; stop other work");
        assert_eq!(cpu.marks(&[first], &mut known), ["preempted 7.0 %"]);
        assert_eq!(cpu.warnings, ["preempted: other threads ran; stop other work"]);
        for group in [&mut cpu, &mut memory] {
            assert_eq!(group.marks(std::slice::from_ref(&again), &mut known), ["preempted 9.0 %"]);
        }
        assert!(memory.warnings.is_empty());
        known.insert("cpu-quota".to_owned());
        let quota = note("cpu-quota", "a cgroup quota allows 0.50 CPUs' worth of time; raise it");
        assert_eq!(memory.marks(&[quota], &mut known), ["cpu quota"]);
    }

    #[test]
    fn footnotes_are_numbered_once() {
        let mut group = Group::new("CPU");
        assert_eq!([group.footnote("a"), group.footnote("b"), group.footnote("a")], [0, 1, 0]);
        assert!(group.is_new("why") && !group.is_new("why"));
    }
}
