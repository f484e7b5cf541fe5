//! A run as Markdown for an issue or a page; and text that no reader of Markdown takes for markup.

use super::peers::{HEAD, RATIO, compared};
use super::row::Row;
use crate::document::Run;
use crate::measurement::{Measurement, Status};

/// The text of a run.
pub fn run(run: &Run) -> String {
    let host = run.machine.host.as_deref().unwrap_or("this machine");
    let mut text = format!("## {} on {}\n\n", escaped(&run.plan.name), escaped(host));
    let model = run.machine.cpu.model_name.as_deref().unwrap_or("unknown processor");
    text += &format!(
        "{}, {} CPUs · plimsoll {} · {}\n\n",
        escaped(model),
        run.machine.cpu.threads,
        escaped(&run.version),
        escaped(&run.started)
    );
    for finding in &run.findings {
        text += &format!("- {}\n", escaped(&finding.text));
    }
    text += if run.findings.is_empty() { "" } else { "\n" };
    text += "| case | median | 95 % interval | limit | of limit |\n| --- | ---: | ---: | ---: | ---: |\n";
    run.measurements.iter().for_each(|m| text += &row(m));
    text + &warnings(run) + &tools(run)
}

fn row(measurement: &Measurement) -> String {
    let row = Row::of(measurement);
    let name = escaped(&row.label);
    let reason = escaped(row.reason.as_deref().unwrap_or_default());
    let Some(figures) = row.figures else {
        let word = if row.status == Status::Failed { "failed" } else { "skipped" };
        return format!("| {name} | {word}: {reason} | | | |\n");
    };
    let share = match row.status {
        Status::Invalid => format!("invalid: {reason}"),
        _ => figures.share(),
    };
    format!("| {name} | {} | {} | {} | {share} |\n", figures.value, figures.interval, figures.limit)
}

/// What is to be known of the figures, a line a case; empty where there is nothing.
fn warnings(run: &Run) -> String {
    let line = |m: &Measurement| {
        let texts: Vec<&str> = m.warnings.iter().map(|w| w.text.as_str()).collect();
        format!("- {}: {}\n", escaped(&Row::of(m).label), escaped(&texts.join(" · ")))
    };
    let lines: String = run.measurements.iter().filter(|m| !m.warnings.is_empty()).map(line).collect();
    if lines.is_empty() { lines } else { format!("\n### Warnings\n\n{lines}") }
}

/// The reference tools beside the cases; empty where none was asked for.
fn tools(run: &Run) -> String {
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rows: String = compared(run).map(|compared| line(compared.cells())).collect();
    if rows.is_empty() {
        return rows;
    }
    let rule = "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |";
    format!("\n### Reference tools\n\n| {} |\n{rule}\n{rows}\n{}\n", HEAD.join(" | "), escaped(RATIO))
}

/// `text` safe in a paragraph or table cell of GitHub's Markdown, on one line.
pub(super) fn escaped(text: &str) -> String {
    let safe = crate::text::shown_within(text, 600);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_text_of_a_run() {
        insta::assert_snapshot!(run(&fixture::run()));
    }

    #[test]
    fn markdown_has_a_row_for_every_tool_beside_a_case() {
        let text = tools(&fixture::with_tools());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(rows.iter().all(|row| row.matches(" | ").count() == HEAD.len() - 1), "{text}");
        assert_eq!(rows.len(), 2 + 3, "{text}");
        assert!(
            rows[2].contains("| 1.00 GB/s | 980 MB/s | – | – | – | 1.02 \\[")
                && rows[2].ends_with("| equivalent |"),
            "{text}"
        );
        assert!(rows[3].ends_with("| not available: not installed; apt-get install iozone3 |"), "{text}");
        assert_eq!(tools(&fixture::run()), "");
    }

    #[test]
    fn hostile_text_is_plain() {
        let text = escaped("<script>|[x](https://y)@me\n`c`");
        assert_eq!(text, "&lt;script&gt;\\|\\[x\\](https&#58;//y)&#64;me\\\\u{a}\\`c\\`");
    }
}
