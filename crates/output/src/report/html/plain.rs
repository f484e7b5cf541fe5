//! A page of text and tables alone, without scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::STYLE;

/// A page with this body; `more` is added to the style of all pages. It needs no other file and may load none.
pub(in crate::report) fn page(title: &str, body: &Markup, more: &str) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    document(title, policy, more, &visible(body)).into_string()
}

/// Replaces each character that turns, hides or controls the text around it by its code point in text.
pub(super) fn visible(body: &Markup) -> Markup {
    PreEscaped(plimsoll_units::text::shown_whole(&body.0))
}

/// A document of which the policy says what it may load and run; `more` is added to the style of all pages.
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
