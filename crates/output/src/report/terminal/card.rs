//! A run in at most 14 short lines for a forum or pull request, with its document's checksum.

use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::{Quantity, Unit};
use sha2::{Digest, Sha256};

use crate::report::context::{context, title};
use crate::report::row::MeasurementRow;
use crate::report::style::Style;
use crate::report::terminal::{heading, tally};
use crate::report::verdict::verdict;
use crate::report::wrap::{aligned, cut, widths};
use crate::report::{commands, conditions, grouped, json};

const CARD_COLUMNS: usize = 110;
const MAX_HEADLINES_PER_SUBSYSTEM: usize = 2;
const MAX_HEADLINES: usize = 8;

/// Formats a run as a short card: machine, verdict, main results, conditions, counts, SHA-256 of
/// the document. Fails if a number cannot be represented in JSON.
pub fn card(run: &Run, style: &Style) -> std::io::Result<String> {
    let mut lines = vec![heading(run, style)];
    lines.extend(run.measurements.first().map(|first| machine(run, first)));
    lines.extend(verdict(run).map(|verdict| verdict.text));
    let rows = telling(run).into_iter().filter_map(|(subsystem, measurement)| row(subsystem, measurement));
    let rows: Vec<Vec<String>> = rows.collect();
    let widths = widths(&rows);
    lines.extend(rows.iter().map(|row| aligned(row, &widths, |at| at > 1).trim_end().to_owned()));
    let noted = conditions::whole(&run.machine);
    let noted = noted.first().map_or("none noted before the run", |note| &note.text);
    lines.push(format!("conditions: {noted}"));
    lines.push(tally(run));
    lines.extend(run.findings.first().map(|finding| format!("finding: {}", finding.text)));
    lines.iter_mut().for_each(|line| *line = cut(&style.styled(line), CARD_COLUMNS));
    let mut document = Vec::new();
    json::write(run, &mut document)?;
    lines.push(format!("sha256 of the document (plimsoll export): {:x}", Sha256::digest(&document)));
    Ok(lines.join("\n") + "\n")
}

fn machine(run: &Run, first: &Measurement) -> String {
    let mut words = context(&run.machine, first);
    let memory = run.machine.memory.total_bytes.map(|bytes| Quantity::new(bytes as f64, Unit::Byte));
    words.extend(memory.map(|memory| format!("{memory} of memory")));
    words.dedup();
    words.join(" · ")
}

/// Returns the main results of a run as (subsystem, measurement): per benchmark the last case with
/// a result (all CPUs, largest size), at most 2 per subsystem and 8 in all.
pub(crate) fn telling(run: &Run) -> Vec<(&str, &Measurement)> {
    let last = |subsystem| {
        let is_own = |m: &&Measurement| m.case.subsystem() == subsystem && m.status == Status::Ok;
        let own = run.measurements.iter().filter(is_own).map(|m| (m.case.benchmark(), m));
        let last = grouped(own).into_iter().filter_map(|(_, all)| all.last().copied());
        let last = last.filter(|m| !m.metrics.is_empty()).take(MAX_HEADLINES_PER_SUBSYSTEM);
        last.map(move |measurement| (subsystem, measurement)).collect::<Vec<_>>()
    };
    commands(run).flat_map(last).take(MAX_HEADLINES).collect()
}

fn row(subsystem: &str, measurement: &Measurement) -> Option<Vec<String>> {
    let row = MeasurementRow::of(measurement);
    let figures = row.figures?;
    let share = figures.of_limit.map(|_| format!("{} of the limit", figures.share())).unwrap_or_default();
    Some(vec![title(subsystem).to_owned(), row.label, figures.both(), figures.interval.clone(), share])
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn a_card_is_short_and_has_the_checksum_of_what_export_writes() {
        let run = fixture::run();
        let text = card(&run, &Style::plain(200)).unwrap();
        assert!(text.lines().count() <= 14, "{text}");
        let mut document = Vec::new();
        json::write(&run, &mut document).unwrap();
        let digest: String = Sha256::digest(&document).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(text.ends_with(&format!("{digest}\n")), "{text}");
        let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("sha256")).collect();
        insta::assert_snapshot!(without.join("\n"));
    }

    #[test]
    fn a_run_without_figures_has_a_card_too() {
        let run = Run { measurements: Vec::new(), ..fixture::run() };
        assert!(card(&run, &Style::plain(80)).unwrap().contains("nothing measured"));
    }
}
