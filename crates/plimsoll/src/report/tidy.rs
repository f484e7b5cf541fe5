//! The samples as a tidy table: one row a sample, every row whole by itself. CSV (RFC 4180) and NDJSON hold the same rows,
//! and numbers come back to the last digit.

use std::io::{self, Write};

use serde::Serialize;

use crate::document::Run;
use crate::measurement::{Measurement, MetricResult};

/// One sample of one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample<'a> {
    /// Id of the run.
    pub run: &'a str,
    /// When it began, RFC 3339.
    pub started: &'a str,
    /// Node it ran on.
    pub node: &'a str,
    /// Id of the case.
    pub case: String,
    /// Benchmark of the case.
    pub benchmark: &'a str,
    /// Which repeat of the plan.
    pub repeat: u32,
    /// `ok` or `invalid`.
    pub status: &'static str,
    /// Name of the metric.
    pub metric: &'a str,
    /// Unit of the value and the limit.
    pub unit: &'static str,
    /// `higher` or `lower`.
    pub better: &'static str,
    /// Number of the sample, from 0.
    pub sample: usize,
    /// Seconds since the run began.
    pub t: Option<f64>,
    /// The value.
    pub value: f64,
    /// The metric's limit.
    pub limit: Option<f64>,
    /// The metric's share of its limit.
    pub of_limit: Option<f64>,
    /// Core clock held, Hz.
    pub clock_hz: Option<f64>,
    /// Share of the time that the hypervisor took.
    pub steal: Option<f64>,
}

const COLUMNS: [&str; 17] = [
    "run",
    "started",
    "node",
    "case",
    "benchmark",
    "repeat",
    "status",
    "metric",
    "unit",
    "better",
    "sample",
    "t",
    "value",
    "limit",
    "of_limit",
    "clock_hz",
    "steal",
];

/// All rows of a run, in its order.
pub fn samples(run: &Run) -> impl Iterator<Item = Sample<'_>> {
    run.measurements.iter().flat_map(move |measurement| {
        measurement.metrics.iter().flat_map(move |metric| of_metric(run, measurement, metric))
    })
}

fn of_metric<'a>(
    run: &'a Run,
    measurement: &'a Measurement,
    metric: &'a MetricResult,
) -> impl Iterator<Item = Sample<'a>> {
    use crate::bench::Better;
    use crate::measurement::Status;
    metric.samples.iter().enumerate().map(move |(index, value)| {
        let point = metric.series.get(index);
        Sample {
            run: &run.id,
            started: &run.started,
            node: &measurement.node,
            case: measurement.case.id().as_str().to_owned(),
            benchmark: measurement.case.benchmark(),
            repeat: measurement.repeat,
            status: if measurement.status == Status::Invalid { "invalid" } else { "ok" },
            metric: &metric.name,
            unit: metric.unit.name(),
            better: if metric.better == Better::Higher { "higher" } else { "lower" },
            sample: index,
            t: point.map(|p| p.t),
            value: *value,
            limit: metric.limit.as_ref().and_then(|l| l.value),
            of_limit: metric.of_limit,
            clock_hz: point.and_then(|p| p.clock_hz),
            steal: point.and_then(|p| p.steal),
        }
    })
}

/// A JSON object a line.
///
/// # Errors
/// What `out` says.
pub fn ndjson(run: &Run, mut out: impl Write) -> io::Result<()> {
    for sample in samples(run) {
        serde_json::to_writer(&mut out, &sample)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Comma-separated values with a head line; what is not known is empty.
///
/// # Errors
/// What `out` says.
pub fn csv(run: &Run, mut out: impl Write) -> io::Result<()> {
    writeln!(out, "{}\r", COLUMNS.join(","))?;
    for s in samples(run) {
        let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
        let cells = [
            cell(s.run),
            cell(s.started),
            cell(s.node),
            cell(&s.case),
            cell(s.benchmark),
            s.repeat.to_string(),
            s.status.to_owned(),
            cell(s.metric),
            s.unit.to_owned(),
            s.better.to_owned(),
            s.sample.to_string(),
            number(s.t),
            s.value.to_string(),
            number(s.limit),
            number(s.of_limit),
            number(s.clock_hz),
            number(s.steal),
        ];
        writeln!(out, "{}\r", cells.join(","))?;
    }
    Ok(())
}

/// A text as a cell: safe to print, quoted where it must be, and never taken for a formula by a spreadsheet.
fn cell(text: &str) -> String {
    let safe = crate::text::shown_within(text, 2000);
    let guarded = match safe.starts_with(['=', '+', '-', '@']) {
        true => format!("'{safe}"),
        false => safe,
    };
    match guarded.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", guarded.replace('"', "\"\"")),
        false => guarded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn text(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Splits a line of CSV at the commas outside quotes.
    fn split(line: &str) -> Vec<String> {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                c => cells.last_mut().unwrap().push(c),
            }
        }
        cells
    }

    #[test]
    fn every_sample_is_a_row_and_comes_back_to_the_last_digit() {
        let run = fixture::run();
        let wanted: Vec<f64> =
            run.measurements.iter().flat_map(|m| &m.metrics).flat_map(|m| m.samples.clone()).collect();
        let csv = text(|out| csv(&run, out));
        let rows: Vec<Vec<String>> = csv.lines().skip(1).map(split).collect();
        assert!(rows.iter().all(|r| r.len() == COLUMNS.len()));
        assert_eq!(rows.iter().map(|r| r[12].parse::<f64>().unwrap()).collect::<Vec<_>>(), wanted);
        let ndjson = text(|out| ndjson(&run, out));
        let rows: Vec<serde_json::Value> = ndjson.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(rows.iter().map(|r| r["value"].as_f64().unwrap()).collect::<Vec<_>>(), wanted);
        let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
        assert_eq!(keys, COLUMNS);
    }

    #[test]
    fn hostile_cells_are_no_formulas_and_end_no_row() {
        assert_eq!(cell("=cmd()"), "'=cmd()");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(cell("a\r\nb\u{1b}"), "a\\u{d}\\u{a}b\\u{1b}");
        assert_eq!(cell("cpu.peak/op=fma"), "cpu.peak/op=fma");
    }
}
