//! GitHub-flavoured Markdown.

use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::Run;
use plimsoll_units::text::format_count;

use super::Format;
use crate::report::context::host_or_count;
use crate::report::escape::{line, markdown as escaped};
use crate::report::row::MeasurementRow;
use crate::report::tool_results::{COLUMN_TITLES, RATIO, compared};
use crate::report::verdict::verdict;
use crate::report::{compare, published};

pub(super) static FORMAT: Format = Format {
    name: "markdown",
    about: "Markdown tables for an issue, a pull request or a page",
    extension: "md",
    run: Some(|of| Ok(text(of.run))),
    comparison: Some(|of| Ok(compare::markdown(of))),
    tables: Some(|reports, _| Ok(published::markdown(reports))),
    ..Format::NONE
};

fn text(run: &Run) -> String {
    let host = host_or_count(run).unwrap_or_else(|| "this machine".to_owned());
    let mut text = format!("## {} on {}\n\n", escaped(&run.plan.name), escaped(&host));
    let model = run.machine.cpu.model_name.as_deref().unwrap_or("unknown processor");
    let cpus = format_count(run.machine.cpu.threads, "CPU");
    let [model, version, started] = [model, &run.version, &run.started].map(escaped);
    text += &format!("{model}, {cpus} · plimsoll {version} · {started}\n\n");
    if let Some(verdict) = verdict(run) {
        text += &format!("**{}**\n\n", escaped(&verdict.text));
    }
    text.extend(run.findings.iter().map(|finding| format!("- {}\n", escaped(&finding.text))));
    text += if run.findings.is_empty() { "" } else { "\n" };
    text += "| case | median | 95 % CI | limit | % of limit |\n| --- | ---: | ---: | ---: | ---: |\n";
    run.measurements.iter().for_each(|m| text += &row(m));
    text + &warnings(run) + &tools(run)
}

fn row(measurement: &Measurement) -> String {
    let row = MeasurementRow::of(measurement);
    let name = escaped(&row.label);
    let reason = escaped(row.reason.as_deref().unwrap_or_default());
    let Some(figures) = row.figures else {
        let word = if row.status == Status::Failed { "failed" } else { "skipped" };
        return format!("| {name} | {word}: {reason} | | | |\n");
    };
    let invalid = format!("invalid: {reason}");
    let share = if row.status == Status::Invalid { invalid } else { figures.share() };
    format!("| {name} | {} | {} | {} | {share} |\n", figures.both(), figures.interval, figures.limit)
}

fn warnings(run: &Run) -> String {
    let of_case = |m: &Measurement| {
        let texts: Vec<&str> = m.warnings.iter().map(|w| w.text.as_str()).collect();
        format!("- {}: {}\n", escaped(&MeasurementRow::of(m).label), escaped(&texts.join(" · ")))
    };
    let lines: String = run.measurements.iter().filter(|m| !m.warnings.is_empty()).map(of_case).collect();
    if lines.is_empty() { lines } else { format!("\n### Warnings\n\n{lines}") }
}

fn tools(run: &Run) -> String {
    let rows: String = compared(run).map(|compared| line(&compared.cells())).collect();
    if rows.is_empty() {
        return rows;
    }
    let rule = "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |";
    let head = COLUMN_TITLES.join(" | ");
    format!("\n### Reference tools\n\n| {head} |\n{rule}\n{rows}\n{}\n", escaped(RATIO))
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn the_text_of_a_run() {
        insta::assert_snapshot!(text(&fixture::run()));
    }

    #[test]
    fn markdown_has_a_row_for_every_tool_beside_a_case() {
        let text = tools(&fixture::with_tools());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(rows.iter().all(|row| row.matches(" | ").count() == COLUMN_TITLES.len() - 1), "{text}");
        assert_eq!(rows.len(), 2 + 3, "{text}");
        assert!(rows[2].contains("| 1.00 GB/s | 980 MB/s | – | – | – | 1.02 \\["), "{text}");
        assert!(rows[2].ends_with("| equivalent |"), "{text}");
        assert!(rows[3].ends_with("| not available: not installed; apt-get install iozone3 |"), "{text}");
        assert_eq!(tools(&fixture::run()), "");
    }
}
