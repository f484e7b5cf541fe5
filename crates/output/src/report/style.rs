//! Terminal style: width, colours, character set. All text for a terminal passes [`Style::styled`].

use std::io::{IsTerminal, stderr, stdout};

use anstyle::{AnsiColor, Style as Ansi};
use jiff::tz::TimeZone;

/// Longest printed text, in characters; plimsoll's own messages are far shorter.
const MAX_TEXT_CHARACTERS: usize = 600;

const USUAL_WIDTH: usize = 80;
const PIPE_WIDTH: usize = 200;

/// Terminal style.
#[derive(Clone, Debug)]
pub struct Style {
    /// Whether to use colours.
    pub colour: bool,
    /// Whether to use characters beyond ASCII.
    pub unicode: bool,
    /// Width of standard output, in columns.
    pub width: usize,
    /// Width of the progress line, in columns; `None` disables it.
    pub progress: Option<usize>,
    /// Whether to explain the limits, warnings and details of rows.
    pub explain: bool,
    /// Time zone for display.
    pub zone: TimeZone,
}

/// Style options from the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct StyleOptions {
    /// `--no-color`.
    pub no_color: bool,
    /// `--quiet`: no progress line.
    pub quiet: bool,
    /// `--explain`.
    pub explain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextRole {
    Plain,
    Strong,
    Dim,
    Good,
    Bad,
    Warning,
}

impl TextRole {
    fn ansi(self) -> Ansi {
        match self {
            Self::Plain => Ansi::new(),
            Self::Strong => Ansi::new().bold(),
            Self::Dim => Ansi::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
        }
    }
}

const ASCII: &[(char, &str)] = &[
    ('±', "+/-"),
    ('×', "x"),
    ('÷', "/"),
    ('·', "|"),
    ('•', "*"),
    ('µ', "u"),
    ('≥', ">="),
    ('≤', "<="),
    ('→', "->"),
    ('…', "..."),
    ('—', "-"),
    ('–', "-"),
    ('−', "-"),
    ('’', "'"),
    ('━', "="),
    ('╸', "-"),
    ('╍', "~"),
    ('─', "."),
];

impl Style {
    /// Detects the style from terminals, `NO_COLOR`, `TERM` and locale; `wishes` restrict it.
    pub fn detect(wishes: StyleOptions) -> Self {
        let columns = |size: Option<(terminal_size::Width, terminal_size::Height)>| {
            size.map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0).max(1))
        };
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let line = stderr().is_terminal() && !wishes.quiet && !dumb;
        let has_colour = anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never;
        let width = stdout().is_terminal().then(|| columns(terminal_size::terminal_size_of(stdout())));
        Self {
            colour: !wishes.no_color && has_colour,
            unicode: is_utf8(|name| std::env::var(name).ok()),
            width: width.unwrap_or(PIPE_WIDTH),
            explain: wishes.explain,
            progress: line.then(|| columns(terminal_size::terminal_size_of(stderr()))),
            zone: TimeZone::system(),
        }
    }

    /// Returns a style for files and tests: `width` columns, Unicode, no colour or progress, UTC.
    pub fn plain(width: usize) -> Self {
        Self { colour: false, unicode: true, width, progress: None, explain: false, zone: TimeZone::UTC }
    }

    /// Makes `text` printable: escapes control characters, cuts it at 600 characters, and replaces
    /// non-ASCII characters unless the style has Unicode.
    pub(super) fn styled(&self, text: &str) -> String {
        let safe = plimsoll_units::text::shown_within(text, MAX_TEXT_CHARACTERS);
        if self.unicode {
            return safe;
        }
        let mut out = String::with_capacity(safe.len());
        for c in safe.chars() {
            match ASCII.iter().find(|(known, _)| *known == c) {
                _ if c.is_ascii() => out.push(c),
                Some((_, instead)) => out += instead,
                None => out += &c.escape_unicode().to_string(),
            }
        }
        out
    }

    /// Adds the colour codes of `role` to `text`, which must have passed [`Style::styled`].
    pub(super) fn paint(&self, role: TextRole, text: &str) -> String {
        if !self.colour || role == TextRole::Plain || text.is_empty() {
            return text.to_owned();
        }
        let ansi = role.ansi();
        format!("{ansi}{text}{ansi:#}")
    }
}

/// Returns whether the locale is UTF-8; `variable` reads LC_ALL, LC_CTYPE and LANG, of which the
/// first that is set counts (POSIX.1-2024, XBD 8.2).
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ascii() -> Style {
        Style { unicode: false, ..Style::plain(80) }
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides() {
        let locale = |values: &'static [(&str, &str)]| {
            is_utf8(|name| values.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert!(locale(&[("LANG", "en_GB.UTF-8")]));
        assert!(locale(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!locale(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!locale(&[("LANG", "de_DE.ISO-8859-1")]));
        assert!(!locale(&[]));
    }

    #[test]
    fn ascii_stands_for_all_that_plimsoll_writes() {
        assert_eq!(ascii().styled("± 3 % · 2 × 57 µs ≥ 1 ÷ 2 …"), "+/- 3 % | 2 x 57 us >= 1 / 2 ...");
        assert_eq!(ascii().styled("größe"), "gr\\u{f6}\\u{df}e");
        assert_eq!(Style::plain(80).styled("größe"), "größe");
    }

    #[test]
    fn colour_is_written_only_where_wanted() {
        let colour = Style { colour: true, ..Style::plain(80) };
        assert_eq!(colour.paint(TextRole::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(colour.paint(TextRole::Plain, "no"), "no");
        assert_eq!(Style::plain(80).paint(TextRole::Bad, "no"), "no");
    }

    proptest! {
        #[test]
        fn what_is_said_holds_no_control_and_ascii_is_ascii(text in "\\p{Any}{0,300}") {
            prop_assert!(!Style::plain(80).styled(&text).chars().any(char::is_control));
            let stated = ascii().styled(&text);
            prop_assert!(stated.chars().all(|c| c.is_ascii() && !c.is_control()));
        }
    }
}
