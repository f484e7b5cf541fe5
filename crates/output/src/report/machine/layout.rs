//! Sections of labelled rows, and their layout as text.

use unicode_width::UnicodeWidthStr;

use crate::report::wrap::{pad, wrapped};

const WIDEST_LABEL: usize = 24;
const NARROWEST_VALUE: usize = 16;
const LABEL_GAP: usize = 2;

/// Group of related rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactSection {
    /// Heading.
    pub title: &'static str,
    /// Labels and values, in order.
    pub rows: Vec<(String, String)>,
}

impl FactSection {
    pub(super) fn new(title: &'static str) -> Self {
        Self { title, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, label: impl Into<String>, value: impl Into<String>) {
        self.rows.push((label.into(), value.into()));
    }

    pub(super) fn known(&mut self, label: &str, value: Option<impl Into<String>>) {
        value.into_iter().for_each(|value| self.row(label, value));
    }
}

/// Formats sections at `width` columns, but at least 16 columns for values; ends with a newline.
pub fn text(sections: &[FactSection], width: usize) -> String {
    let blocks: Vec<String> = sections.iter().map(|section| block(section, width)).collect();
    blocks.join("\n")
}

fn block(section: &FactSection, width: usize) -> String {
    let labels = section.rows.iter().map(|(label, _)| label.width()).filter(|&w| w <= WIDEST_LABEL);
    let column = LABEL_GAP + labels.max().unwrap_or(0) + LABEL_GAP;
    let room = width.saturating_sub(column).max(NARROWEST_VALUE);
    let mut out = format!("{}\n", section.title);
    for (label, value) in &section.rows {
        let mut lead = format!("{:LABEL_GAP$}{label}", "");
        if label.width() > WIDEST_LABEL {
            out += &(std::mem::take(&mut lead) + "\n");
        }
        for line in wrapped(value, room) {
            let line = format!("{lead}{}{line}", pad(&lead, column));
            out += &format!("{}\n", line.trim_end());
            lead.clear();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_wrapped_under_themselves() {
        let mut section = FactSection::new("things");
        section.row("one", "a value that is longer than the line");
        section.row("a label wider than the label column", "below");
        let expected = "things\n  one  a value that is\n       longer than the\n       line\n  \
                        a label wider than the label column\n       below\n";
        assert_eq!(text(&[section], 24), expected);
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_word_is_lost(
            value in "[a-zé漢 ]{0,200}", label in "[a-z ]{0,24}", width in 50usize..120,
        ) {
            let mut section = FactSection::new("s");
            section.row(label.clone(), value.clone());
            let text = text(&[section], width);
            prop_assert!(text.lines().all(|line| line.width() <= width));
            let kept: String = text.chars().skip(1).filter(|c| !c.is_whitespace()).collect();
            let given: String = (label + &value).chars().filter(|c| !c.is_whitespace()).collect();
            prop_assert_eq!(kept, given);
        }
    }
}
