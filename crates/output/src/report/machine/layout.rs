//! Sections of labelled rows, and their layout as text.

use unicode_width::UnicodeWidthStr;

use crate::report::wrap::wrapped;

const WIDEST_LABEL: usize = 24;
const NARROWEST_VALUE: usize = 16;
const LABEL_GAP: usize = 2;

/// Group of related rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactSection {
    /// Heading.
    pub title: &'static str,
    /// Rows, in order.
    pub rows: Vec<FactRow>,
}

/// Labelled value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactRow {
    /// Label.
    pub label: String,
    /// Value.
    pub value: String,
}

impl FactSection {
    pub(super) fn new(title: &'static str) -> Self {
        Self { title, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, label: impl Into<String>, value: impl Into<String>) {
        self.rows.push(FactRow { label: label.into(), value: value.into() });
    }
}

/// Formats sections at `width` columns, but at least 16 columns for values; ends with a newline.
pub fn text(sections: &[FactSection], width: usize) -> String {
    let blocks: Vec<String> = sections.iter().map(|section| block(section, width)).collect();
    blocks.join("\n")
}

fn block(section: &FactSection, width: usize) -> String {
    let labels = section.rows.iter().map(|row| row.label.width()).filter(|&w| w <= WIDEST_LABEL);
    let column = LABEL_GAP + labels.max().unwrap_or(0) + LABEL_GAP;
    let room = width.saturating_sub(column).max(NARROWEST_VALUE);
    let mut out = format!("{}\n", section.title);
    for row in &section.rows {
        let mut lead = format!("{:LABEL_GAP$}{}", "", row.label);
        if row.label.width() > WIDEST_LABEL {
            out.push_str(&lead);
            out.push('\n');
            lead.clear();
        }
        for line in wrapped(&row.value, room) {
            let pad = column.saturating_sub(lead.width());
            out.push_str(format!("{lead}{:pad$}{line}", "").trim_end());
            out.push('\n');
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
