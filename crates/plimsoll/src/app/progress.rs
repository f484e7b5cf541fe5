//! The line on stderr that says what is being measured, for runs that nobody keeps.

use std::io::Write;

use plimsoll_output::report::Style;

/// A line that each text replaces; nothing where stderr shows no progress.
pub(super) struct Progress<'a> {
    pub(super) style: &'a Style,
}

impl Progress<'_> {
    /// Shows a text, cut to the width of the terminal.
    pub(super) fn show(&self, text: &str) {
        if let Some(width) = self.style.progress {
            let line: String = text.chars().take(width.saturating_sub(1)).collect();
            self.write(&line);
        }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        if self.style.progress.is_some() {
            self.write("");
        }
    }

    fn write(&self, line: &str) {
        // Nothing is lost with a line of progress.
        let _ = write!(std::io::stderr(), "\r\u{1b}[2K{line}");
    }
}
