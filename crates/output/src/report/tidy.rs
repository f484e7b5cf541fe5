//! The samples, or the reference tools, as a tidy table: one row a sample or tool, every row whole by itself. CSV
//! (RFC 4180) and NDJSON hold the same rows, and numbers come back to the last digit.

use std::io::{self, Write};

use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_model::sample::Match;
use plimsoll_result::document::Run;
use plimsoll_stats::Verdict;
use serde::Serialize;
use serde_json::{Map, Value};

use super::peers::Compared;

/// One sample of one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    /// Share of the time in slices that were interrupted and are not in the value.
    pub excluded: Option<f64>,
    /// The delivered figure of this sample, interruptions included; of headlines only.
    pub delivered: Option<f64>,
    /// Share of the time that a quota stopped it.
    pub throttled: Option<f64>,
    /// Largest share of the time that a thread was ready and had no CPU.
    pub waited: Option<f64>,
    /// Names of the case's warnings, with `;` between them.
    pub warnings: String,
}

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

/// A reference tool beside one metric of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Beside<'a> {
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
    /// Name of the metric.
    pub metric: &'a str,
    /// Unit of both figures and the limit.
    pub unit: &'static str,
    /// `higher` or `lower`.
    pub better: &'static str,
    /// The tool.
    pub tool: &'a str,
    /// Its version.
    pub version: Option<&'a str>,
    /// How far the definitions agree: `exact`, `scaled`, `related`.
    #[serde(rename = "match")]
    pub definition: Option<Match>,
    /// Pairs that were taken.
    pub pairs: usize,
    /// Our median of them.
    pub own: Option<f64>,
    /// The tool's.
    pub reference: Option<f64>,
    /// The metric's limit.
    pub limit: Option<f64>,
    /// Our share of it.
    pub own_of_limit: Option<f64>,
    /// The tool's.
    pub reference_of_limit: Option<f64>,
    /// Ours ÷ the tool's, the median of the pairs.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    pub ratio_low: Option<f64>,
    /// See `ratio_low`.
    pub ratio_high: Option<f64>,
    /// Within which two figures are the same.
    pub margin: f64,
    /// `equivalent`, `higher`, `lower`, `inconclusive`.
    pub verdict: Option<Verdict>,
    /// Why there is no figure of the tool.
    pub reason: Option<&'a str>,
}

/// A row for each reference tool beside each metric of a run, in its order.
pub fn beside(run: &Run) -> impl Iterator<Item = Beside<'_>> {
    super::peers::compared(run).map(move |Compared { measurement, metric, peer }| {
        let ci95 = peer.ratio.and_then(|ratio| ratio.ci95);
        Beside {
            run: &run.id,
            started: &run.started,
            node: &measurement.node,
            case: measurement.case.id().as_str().to_owned(),
            benchmark: measurement.case.benchmark(),
            repeat: measurement.repeat,
            metric: &metric.name,
            unit: metric.unit.name(),
            better: better(metric),
            tool: &peer.peer,
            version: peer.version.as_deref(),
            definition: Some(peer.definition),
            pairs: peer.samples.len(),
            own: peer.own_median(),
            reference: peer.median,
            limit: metric.limit.as_ref().and_then(|l| l.value),
            own_of_limit: peer.own_of_limit,
            reference_of_limit: peer.of_limit,
            ratio: peer.ratio.map(|ratio| ratio.median),
            ratio_low: ci95.map(|[low, _]| low),
            ratio_high: ci95.map(|[_, high]| high),
            margin: peer.margin,
            verdict: Some(peer.verdict),
            reason: peer.reason.as_deref(),
        }
    })
}

fn better(metric: &MetricResult) -> &'static str {
    metric.better.word()
}

/// Which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One for each sample.
    Samples,
    /// One for each reference tool beside a metric.
    Tools,
}

/// A JSON object a line.
///
/// # Errors
/// What `out` says.
pub fn ndjson(run: &Run, rows: Rows, out: impl Write) -> io::Result<()> {
    match rows {
        Rows::Samples => objects(samples(run), out),
        Rows::Tools => objects(beside(run), out),
    }
}

fn objects(rows: impl Iterator<Item = impl Serialize>, mut out: impl Write) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Comma-separated values with a head line; what is not known is empty.
///
/// # Errors
/// What `out` says.
pub fn csv(run: &Run, rows: Rows, out: impl Write) -> io::Result<()> {
    match rows {
        Rows::Samples => table(samples(run), out),
        Rows::Tools => table(beside(run), out),
    }
}

/// The rows' fields, in their order, below their names.
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

/// A text as a cell: safe to print, quoted where it must be, and never taken for a formula by a spreadsheet.
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
            run.measurements[0].metrics[0].peers[0].median.unwrap()
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
