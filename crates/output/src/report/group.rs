//! What was already told within a group of rows, so that it is told once.

use std::collections::BTreeSet;

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
    reasons: BTreeSet<String>,
    codes: BTreeSet<String>,
    texts: BTreeSet<String>,
}

/// The warnings of a row, as far as they are new.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Warnings {
    /// A line each.
    pub(super) long: Vec<String>,
    /// A few words each, for one line.
    pub(super) short: Vec<String>,
}

impl Group {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Whether `reason` is told for the first time.
    pub(super) fn is_new(&mut self, reason: &str) -> bool {
        self.reasons.insert(reason.to_owned())
    }

    /// A warning is told in full first; then without its remedy (after the semicolon); what says nothing new, in a
    /// few words (before the colon). Causes of lost time, and what is `told` above the table, are told in full once for all
    /// groups.
    pub(super) fn warnings(&mut self, notes: &[Note], told_before: &mut BTreeSet<String>) -> Warnings {
        let mut told = Warnings::default();
        for Note { code, text } in notes {
            let (new_code, new_text) = (self.codes.insert(code.clone()), self.texts.insert(text.clone()));
            let before =
                |mark: char| text.split_once(mark).map_or(text.as_str(), |(before, _)| before).to_owned();
            let once = CAUSES.contains(&code.as_str());
            if told_before.contains(code) {
                told.short.push(if text.contains(':') { before(':') } else { code.replace('-', " ") });
                continue;
            }
            if once {
                told_before.insert(code.clone());
            }
            if new_code {
                told.long.push(text.clone());
            } else if new_text && !IN_THE_ROW.contains(&code.as_str()) {
                told.long.push(before(';'));
            } else if text.contains(':') {
                told.short.push(before(':'));
            } else {
                told.short.push(before(';'));
            }
        }
        told
    }

    /// The number of a footnote, from 0; it is added if it is new.
    pub(super) fn footnote(&mut self, note: &str) -> usize {
        self.notes.iter().position(|known| known == note).unwrap_or_else(|| {
            self.notes.push(note.to_owned());
            self.notes.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(code: &str, text: &str) -> Note {
        Note { code: code.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn warnings_get_shorter_when_they_are_told_again() {
        let mut group = Group::new("CPU");
        let told = |group: &mut Group, code: &str, text: &str| {
            group.warnings(&[note(code, text)], &mut BTreeSet::new())
        };
        let long = |text: &str| Warnings { long: vec![text.to_owned()], ..Warnings::default() };
        let short = |text: &str| Warnings { short: vec![text.to_owned()], ..Warnings::default() };
        let first = "pages: 7 % are small; reserve them";
        assert_eq!(told(&mut group, "pages", first), long(first));
        assert_eq!(told(&mut group, "pages", first), short("pages"));
        let other = "pages: 9 % are small; reserve them";
        assert_eq!(told(&mut group, "pages", other), long("pages: 9 % are small"));
        let wide = "not converged: ± 3 %; quieten the machine";
        assert_eq!(told(&mut group, "not-converged", wide), long(wide));
        assert_eq!(
            told(&mut group, "not-converged", "not converged: ± 4 %; quieten"),
            short("not converged")
        );
        assert_eq!(told(&mut Group::new("Disk"), "pages", first), long(first));
    }

    #[test]
    fn a_cause_is_told_once_for_all_groups_and_then_marked_with_its_share() {
        let (mut cpu, mut memory, mut told) = (Group::new("CPU"), Group::new("Memory"), BTreeSet::new());
        let first = "preempted 7.0 %: other threads ran; stop other work";
        assert_eq!(cpu.warnings(&[note("preempted", first)], &mut told).long, [first]);
        let again = note("preempted", "preempted 9.0 %: other threads ran; stop other work");
        for group in [&mut cpu, &mut memory] {
            assert_eq!(group.warnings(std::slice::from_ref(&again), &mut told).short, ["preempted 9.0 %"]);
        }
        told.insert("cpu-quota".to_owned());
        let quota = note("cpu-quota", "a cgroup quota allows 0.50 CPUs' worth of time; raise it");
        assert_eq!(memory.warnings(&[quota], &mut told).short, ["cpu quota"]);
    }

    #[test]
    fn footnotes_are_numbered_once() {
        let mut group = Group::new("CPU");
        assert_eq!([group.footnote("a"), group.footnote("b"), group.footnote("a")], [0, 1, 0]);
        assert!(group.is_new("why") && !group.is_new("why"));
    }
}
