//! Escaping of external text.

/// Escapes `text` for a GitHub Markdown paragraph or table cell: one line, cut at 600 characters.
pub(super) fn markdown(text: &str) -> String {
    let safe = plimsoll_units::text::shown_within(text, 600);
    let mut out = String::with_capacity(safe.len());
    for c in safe.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '@' => out += "&#64;",
            _ => out.push(c),
        }
    }
    // "https://…" would become a link.
    out.replace("://", "&#58;//")
}

/// Formats a table row of GitHub Markdown from the cells, which it escapes; ends with a newline.
pub(super) fn line(cells: &[impl AsRef<str>]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| markdown(cell.as_ref())).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_plain() {
        let text = markdown("<script>|[x](https://y)@me\n`c`");
        assert_eq!(text, "&lt;script&gt;\\|\\[x\\](https&#58;//y)&#64;me\\\\u{a}\\`c\\`");
    }
}
