//! Samples or reference tools as a tidy table, in CSV (RFC 4180) and NDJSON at full precision.

use std::io::{self, Write};

use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_model::sample::Match;
use plimsoll_result::document::Run;
use plimsoll_stats::EquivalenceVerdict;
use serde::Serialize;
use serde_json::{Map, Value};

use super::tool_results::ToolComparison;

/// One sample of one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TidySample<'a> {
    /// Run id.
    pub run: &'a str,
    /// Start of the run, RFC 3339.
    pub started: &'a str,
    /// Node name.
    pub node: &'a str,
    /// Case id.
    pub case: String,
    /// Benchmark of the case.
    pub benchmark: &'a str,
    /// Repetition of the plan, from 0.
    pub repeat: u32,
    /// `ok` or `invalid`.
    pub status: &'static str,
    /// Metric name.
    pub metric: &'a str,
    /// Unit of value and limit.
    pub unit: &'static str,
    /// `higher` or `lower`.
    pub better: &'static str,
    /// Index of the sample, from 0.
    pub sample: usize,
    /// Time since the start of the run, in seconds.
    pub t: Option<f64>,
    /// Value.
    pub value: f64,
    /// Limit of the metric.
    pub limit: Option<f64>,
    /// Share of the limit that the metric reaches.
    pub of_limit: Option<f64>,
    /// Core clock, in Hz.
    pub clock_hz: Option<f64>,
    /// Share of time stolen by the hypervisor.
    pub steal: Option<f64>,
    /// Share of time in interrupted slices, which the value excludes.
    pub excluded: Option<f64>,
    /// Delivered value of this sample, interruptions included; headlines only.
    pub delivered: Option<f64>,
    /// Share of time throttled by a CPU quota.
    pub throttled: Option<f64>,
    /// Largest share of time that a ready thread waited for a CPU.
    pub waited: Option<f64>,
    /// Warning codes, separated by `;`.
    pub warnings: String,
}

/// Yields a row per sample of each metric of a run, in order.
pub fn samples(run: &Run) -> impl Iterator<Item = TidySample<'_>> {
    run.measurements.iter().flat_map(move |measurement| {
        measurement.metrics.iter().flat_map(move |metric| of_metric(run, measurement, metric))
    })
}

fn of_metric<'a>(
    run: &'a Run,
    measurement: &'a Measurement,
    metric: &'a MetricResult,
) -> impl Iterator<Item = TidySample<'a>> {
    metric.samples.iter().enumerate().map(move |(index, value)| {
        let point = metric.series.get(index);
        TidySample {
            run: &run.id,
            started: &run.started,
            node: &measurement.node,
            case: measurement.case.id().as_str().to_owned(),
            benchmark: measurement.case.benchmark(),
            repeat: measurement.repeat,
            status: if measurement.status == Status::Invalid { "invalid" } else { "ok" },
            metric: &metric.name,
            unit: metric.unit.name(),
            better: better(metric),
            sample: index,
            t: point.map(|p| p.t),
            value: *value,
            limit: metric.limit.as_ref().and_then(|l| l.value),
            of_limit: metric.of_limit,
            clock_hz: point.and_then(|p| p.clock_hz),
            steal: point.and_then(|p| p.steal),
            excluded: point.and_then(|p| p.excluded),
            delivered: point.and_then(|p| p.delivered),
            throttled: point.and_then(|p| p.throttled),
            waited: point.and_then(|p| p.waited),
            warnings: measurement.warning_codes().join(";"),
        }
    })
}

/// A reference tool's result for one metric of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TidyReference<'a> {
    /// Run id.
    pub run: &'a str,
    /// Start of the run, RFC 3339.
    pub started: &'a str,
    /// Node name.
    pub node: &'a str,
    /// Case id.
    pub case: String,
    /// Benchmark of the case.
    pub benchmark: &'a str,
    /// Repetition of the plan, from 0.
    pub repeat: u32,
    /// Metric name.
    pub metric: &'a str,
    /// Unit of results and limit.
    pub unit: &'static str,
    /// `higher` or `lower`.
    pub better: &'static str,
    /// Name of the tool.
    pub tool: &'a str,
    /// Version of the tool.
    pub version: Option<&'a str>,
    /// Agreement of the definitions: `exact`, `scaled`, `related`.
    #[serde(rename = "match")]
    pub definition: Option<Match>,
    /// Number of measured pairs.
    pub pairs: usize,
    /// Median of our results.
    pub own: Option<f64>,
    /// Median of the tool's results.
    pub reference: Option<f64>,
    /// Limit of the metric.
    pub limit: Option<f64>,
    /// Our share of the limit.
    pub own_of_limit: Option<f64>,
    /// The tool's share of the limit.
    pub reference_of_limit: Option<f64>,
    /// Median of the pairs' ratios, ours ÷ the tool's.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % confidence interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the ratio's 95 % confidence interval.
    pub ratio_high: Option<f64>,
    /// Relative difference within which results are equivalent.
    pub margin: f64,
    /// `equivalent`, `higher`, `lower`, `inconclusive`.
    pub verdict: Option<EquivalenceVerdict>,
    /// Reason why the tool has no result.
    pub reason: Option<&'a str>,
}

/// Yields a row per reference tool and metric of a run, in order.
pub fn tool_references(run: &Run) -> impl Iterator<Item = TidyReference<'_>> {
    super::tool_results::compared(run).map(move |ToolComparison { measurement, metric, tool_result }| {
        let ci95 = tool_result.ratio.and_then(|ratio| ratio.ci95);
        TidyReference {
            run: &run.id,
            started: &run.started,
            node: &measurement.node,
            case: measurement.case.id().as_str().to_owned(),
            benchmark: measurement.case.benchmark(),
            repeat: measurement.repeat,
            metric: &metric.name,
            unit: metric.unit.name(),
            better: better(metric),
            tool: &tool_result.tool,
            version: tool_result.version.as_deref(),
            definition: Some(tool_result.definition),
            pairs: tool_result.samples.len(),
            own: tool_result.own_median(),
            reference: tool_result.median,
            limit: metric.limit.as_ref().and_then(|l| l.value),
            own_of_limit: tool_result.own_of_limit,
            reference_of_limit: tool_result.of_limit,
            ratio: tool_result.ratio.map(|ratio| ratio.median),
            ratio_low: ci95.map(|[low, _]| low),
            ratio_high: ci95.map(|[_, high]| high),
            margin: tool_result.margin,
            verdict: Some(tool_result.verdict),
            reason: tool_result.reason.as_deref(),
        }
    })
}

fn better(metric: &MetricResult) -> &'static str {
    metric.better.word()
}

/// Kind of rows to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One per sample.
    Samples,
    /// One per reference tool and metric.
    Tools,
}

/// Writes samples or reference tools (`rows`) as one JSON object per line. Fails if writing fails.
pub fn ndjson(run: &Run, rows: Rows, out: impl Write) -> io::Result<()> {
    match rows {
        Rows::Samples => objects(samples(run), out),
        Rows::Tools => objects(tool_references(run), out),
    }
}

fn objects(rows: impl Iterator<Item = impl Serialize>, mut out: impl Write) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes samples or reference tools (`rows`) as CSV with a header line; unknown values are empty.
/// Fails if writing fails.
pub fn csv(run: &Run, rows: Rows, out: impl Write) -> io::Result<()> {
    match rows {
        Rows::Samples => table(samples(run), out),
        Rows::Tools => table(tool_references(run), out),
    }
}

/// Writes rows as CSV; the header has the names of the fields.
pub(super) fn table<R: Serialize + Default>(
    rows: impl Iterator<Item = R>,
    mut out: impl Write,
) -> io::Result<()> {
    let fields = |row: &R| match serde_json::to_value(row)? {
        Value::Object(fields) => io::Result::Ok(fields),
        _ => Ok(Map::new()),
    };
    let columns: Vec<String> = fields(&R::default())?.into_iter().map(|(name, _)| name).collect();
    writeln!(out, "{}\r", columns.join(","))?;
    for row in rows {
        let row = fields(&row)?;
        let cells = row.values().map(|value| match value {
            Value::Null => String::new(),
            Value::String(text) => cell(text),
            Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
            other => other.to_string(),
        });
        writeln!(out, "{}\r", cells.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

/// Formats a CSV cell, at most 2000 characters, quoted if necessary. A leading `=`, `+`, `-` or `@`
/// gets a `'`, so that no spreadsheet takes the cell for a formula.
pub(super) fn cell(text: &str) -> String {
    let safe = plimsoll_units::text::shown_within(text, 2000);
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
    use plimsoll_model::measurement::Note;
    use plimsoll_result::fixture;

    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

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
        let csv = text(|out| csv(&run, Rows::Samples, out));
        let rows: Vec<Vec<String>> = csv.lines().skip(1).map(split).collect();
        let columns = split(csv.lines().next().unwrap());
        assert!(rows.iter().all(|r| r.len() == columns.len()));
        assert_eq!(rows.iter().map(|r| r[12].parse::<f64>().unwrap()).collect::<Vec<_>>(), wanted);
        let ndjson = text(|out| ndjson(&run, Rows::Samples, out));
        let rows: Vec<Value> = ndjson.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(rows.iter().map(|r| r["value"].as_f64().unwrap()).collect::<Vec<_>>(), wanted);
        let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
        assert_eq!(keys, columns.iter().collect::<Vec<_>>());
    }

    #[test]
    fn conditions_and_warnings_stand_beside_each_sample() {
        let mut run = fixture::run();
        let point = &mut run.measurements[0].metrics[0].series[1];
        (point.excluded, point.throttled, point.waited) = (Some(0.1), Some(0.0), Some(1.0 / 3.0));
        point.delivered = Some(2.5);
        let note = |code: &str| Note { code: code.to_owned(), text: "why".to_owned() };
        run.measurements[0].warnings = vec![note("disturbed"), note("cpu-quota"), note("disturbed")];
        let wanted = ["0.1", "2.5", "0", "0.3333333333333333", "disturbed;cpu-quota"];
        let csv = text(|out| csv(&run, Rows::Samples, out));
        assert_eq!(split(csv.lines().nth(2).unwrap())[17..], wanted);
        assert_eq!(split(csv.lines().nth(1).unwrap())[17..], ["", "", "", "", "disturbed;cpu-quota"]);
        let ndjson = text(|out| ndjson(&run, Rows::Samples, out));
        let row: Value = serde_json::from_str(ndjson.lines().nth(1).unwrap()).unwrap();
        assert_eq!((row["waited"].as_f64(), row["warnings"].as_str()), (Some(1.0 / 3.0), Some(wanted[4])));
    }

    #[test]
    fn every_tool_beside_a_case_is_a_row() {
        let run = fixture::with_tools();
        let csv = text(|out| csv(&run, Rows::Tools, out));
        let rows: Vec<Vec<String>> = csv.lines().skip(1).map(split).collect();
        let columns = split(csv.lines().next().unwrap());
        let at = |row: usize, name: &str| rows[row][columns.iter().position(|c| c == name).unwrap()].as_str();
        assert_eq!(
            (rows.len(), at(0, "tool"), at(0, "verdict"), at(0, "match")),
            (3, "iozone", "equivalent", "exact")
        );
        assert_eq!((at(0, "own"), at(0, "limit")), ("1000000000", ""));
        assert_eq!(
            at(0, "reference").parse::<f64>().unwrap(),
            run.measurements[0].metrics[0].tool_results[0].median.unwrap()
        );
        assert_eq!((at(1, "own"), at(1, "reason")), ("", "not installed; apt-get install iozone3"));
        let ndjson = text(|out| ndjson(&run, Rows::Tools, out));
        let first: Value = serde_json::from_str(ndjson.lines().next().unwrap()).unwrap();
        assert!(first.as_object().unwrap().keys().eq(&columns));
        assert_eq!(first["ratio"].as_f64().unwrap().to_string(), at(0, "ratio"));
    }

    #[test]
    fn hostile_cells_are_no_formulas_and_end_no_row() {
        assert_eq!(cell("=cmd()"), "'=cmd()");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(cell("a\r\nb\u{1b}"), "a\\u{d}\\u{a}b\\u{1b}");
        assert_eq!(cell("cpu.peak/op=fma"), "cpu.peak/op=fma");
    }
}
