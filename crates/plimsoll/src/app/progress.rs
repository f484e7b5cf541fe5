//! Progress line on stderr of runs that are not stored.

use std::io::Write;

use plimsoll_output::report::Style;

pub(super) struct ProgressText<'a> {
    pub(super) style: &'a Style,
}

impl ProgressText<'_> {
    pub(super) fn show(&self, text: &str) {
        if let Some(width) = self.style.progress {
            let line: String = text.chars().take(width.saturating_sub(1)).collect();
            self.write(&line);
        }
    }

    pub(super) fn clear(&self) {
        if self.style.progress.is_some() {
            self.write("");
        }
    }

    fn write(&self, line: &str) {
        let _ = write!(std::io::stderr(), "\r\u{1b}[2K{line}");
    }
}
