//! HTML documents of all pages, and their text.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::STYLE;

/// Replaces control, bidirectional and invisible characters by their code points: `\u{202e}`.
pub(super) fn visible(body: &Markup) -> Markup {
    PreEscaped(plimsoll_units::text::shown_whole(&body.0))
}

/// Builds an HTML document with `policy` as Content-Security-Policy; `more` is CSS added to the
/// common style sheet.
pub(super) fn document(title: &str, policy: &str, more: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(more)) }
            }
            body { (body) }
        }
    }
}
