//! Progress line on stderr of runs that are not stored.

use std::io::Write;

use plimsoll_output::report::Style;

/// Replaces the progress line by `text`; an empty text removes it. Does nothing without a terminal.
pub(super) fn show(style: &Style, text: &str) {
    if let Some(width) = style.progress {
        let line: String = text.chars().take(width.saturating_sub(1)).collect();
        let _ = write!(std::io::stderr(), "\r\u{1b}[2K{line}");
    }
}
