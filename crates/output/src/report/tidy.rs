//! Samples or reference tools as a tidy table, in CSV (RFC 4180) and NDJSON at full precision.

use plimsoll_model::measurement::{Measurement, MetricResult, SamplePoint, Status};
use plimsoll_result::document::Run;
use serde_json::{Value, json};

use super::tool_results::ToolComparison;

pub(super) type Column<R> = (&'static str, fn(&R) -> Value);

/// A metric of a run with one of its samples or reference tools' results.
pub(super) struct MetricItem<'a, T> {
    pub(super) run: &'a Run,
    pub(super) measurement: &'a Measurement,
    pub(super) metric: &'a MetricResult,
    pub(super) item: T,
}

/// A sample by its number, with its time and conditions if they are in the document.
pub(super) struct TidyPoint<'a> {
    index: usize,
    point: Option<&'a SamplePoint>,
}

pub(super) type TidySample<'a> = MetricItem<'a, TidyPoint<'a>>;

/// Yields the `items` of each metric and measurement of a run, in the order of the document.
pub(super) fn metric_items<'a, I: IntoIterator>(
    run: &'a Run,
    items: impl Fn(&'a MetricResult) -> I,
) -> impl Iterator<Item = MetricItem<'a, I::Item>> {
    let metrics = run.measurements.iter().flat_map(|m| m.metrics.iter().map(move |metric| (m, metric)));
    metrics.flat_map(move |(measurement, metric)| {
        items(metric).into_iter().map(move |item| MetricItem { run, measurement, metric, item })
    })
}

/// Returns name and value function of each column of a table of samples. `t`: seconds since the
/// run's start; `excluded`: share of time that `value` leaves out as interrupted; `delivered`:
/// value with interruptions; `waited`: largest share of time that a ready thread waited for a CPU.
pub(super) fn sample_columns<'a>() -> Vec<Column<TidySample<'a>>> {
    vec![
        ("run", |of| json!(of.run.id)),
        ("started", |of| json!(of.run.started)),
        ("node", |of| json!(of.measurement.node)),
        ("case", |of| json!(of.measurement.case.id().as_str())),
        ("benchmark", |of| json!(of.measurement.case.benchmark())),
        ("repeat", |of| json!(of.measurement.repeat)),
        ("status", |of| json!(if of.measurement.status == Status::Invalid { "invalid" } else { "ok" })),
        ("metric", |of| json!(of.metric.name)),
        ("unit", |of| json!(of.metric.unit.name())),
        ("better", |of| json!(of.metric.better.word())),
        ("sample", |of| json!(of.item.index)),
        ("t", |of| json!(of.item.point.map(|p| p.t))),
        ("value", |of| json!(of.metric.samples.get(of.item.index))),
        ("limit", |of| json!(of.metric.limit.as_ref().and_then(|l| l.value))),
        ("of_limit", |of| json!(of.metric.of_limit)),
        ("clock_hz", |of| json!(of.item.point.and_then(|p| p.clock_hz))),
        ("steal", |of| json!(of.item.point.and_then(|p| p.steal))),
        ("excluded", |of| json!(of.item.point.and_then(|p| p.excluded))),
        ("delivered", |of| json!(of.item.point.and_then(|p| p.delivered))),
        ("throttled", |of| json!(of.item.point.and_then(|p| p.throttled))),
        ("waited", |of| json!(of.item.point.and_then(|p| p.waited))),
        ("warnings", |of| json!(of.measurement.warning_codes().join(";"))),
    ]
}

pub(super) fn samples(run: &Run) -> impl Iterator<Item = TidySample<'_>> {
    metric_items(run, |metric| {
        (0..metric.samples.len()).map(|index| TidyPoint { index, point: metric.series.get(index) })
    })
}

/// Returns name and value function of the columns on reference tools; ratios are ours ÷ theirs.
pub(super) fn tool_columns<'a>() -> Vec<Column<ToolComparison<'a>>> {
    vec![
        ("run", |of| json!(of.run.id)),
        ("started", |of| json!(of.run.started)),
        ("node", |of| json!(of.measurement.node)),
        ("case", |of| json!(of.measurement.case.id().as_str())),
        ("benchmark", |of| json!(of.measurement.case.benchmark())),
        ("repeat", |of| json!(of.measurement.repeat)),
        ("metric", |of| json!(of.metric.name)),
        ("unit", |of| json!(of.metric.unit.name())),
        ("better", |of| json!(of.metric.better.word())),
        ("tool", |of| json!(of.item.tool)),
        ("version", |of| json!(of.item.version)),
        ("match", |of| json!(of.item.definition)),
        ("pairs", |of| json!(of.item.samples.len())),
        ("own", |of| json!(of.item.own_median())),
        ("reference", |of| json!(of.item.median)),
        ("limit", |of| json!(of.metric.limit.as_ref().and_then(|l| l.value))),
        ("own_of_limit", |of| json!(of.item.own_of_limit)),
        ("reference_of_limit", |of| json!(of.item.of_limit)),
        ("ratio", |of| json!(of.item.ratio.map(|ratio| ratio.median))),
        ("ratio_low", |of| json!(of.item.ratio.and_then(|ratio| ratio.ci95).map(|[low, _]| low))),
        ("ratio_high", |of| json!(of.item.ratio.and_then(|ratio| ratio.ci95).map(|[_, high]| high))),
        ("margin", |of| json!(of.item.margin)),
        ("verdict", |of| json!(of.item.verdict)),
        ("reason", |of| json!(of.item.reason)),
    ]
}

/// Formats rows as one JSON object per line.
pub(super) fn objects<R>(columns: &[Column<R>], rows: impl Iterator<Item = R>) -> String {
    let object = |row: R| {
        let fields = columns.iter().map(|(name, value)| ((*name).to_owned(), value(&row)));
        format!("{}\n", Value::Object(fields.collect()))
    };
    rows.map(object).collect()
}

/// Formats rows as CSV (RFC 4180) with a header line.
pub(super) fn table<R>(columns: &[Column<R>], rows: impl Iterator<Item = R>) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let line = |row: R| {
        let cells = columns.iter().map(|(_, value)| match value(&row) {
            Value::Null => String::new(),
            Value::String(text) => cell(&text),
            Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
            other => other.to_string(),
        });
        cells.collect::<Vec<_>>().join(",") + "\r\n"
    };
    names.join(",") + "\r\n" + &rows.map(line).collect::<String>()
}

/// Formats a CSV cell, at most 2000 characters, quoted if necessary. A leading `=`, `+`, `-` or `@`
/// gets a `'`, so that no spreadsheet takes the cell for a formula.
pub(super) fn cell(text: &str) -> String {
    let safe = plimsoll_units::text::shown_within(text, 2000);
    let guarded = if safe.starts_with(['=', '+', '-', '@']) { format!("'{safe}") } else { safe };
    let is_quoted = guarded.contains([',', '"', '\r', '\n']);
    if is_quoted { format!("\"{}\"", guarded.replace('"', "\"\"")) } else { guarded }
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;
    use crate::report::tool_results::compared;

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
        let csv = table(&sample_columns(), samples(&run));
        let rows: Vec<Vec<String>> = csv.lines().skip(1).map(split).collect();
        let columns = split(csv.lines().next().unwrap());
        assert!(rows.iter().all(|r| r.len() == columns.len()));
        assert_eq!(rows.iter().map(|r| r[12].parse::<f64>().unwrap()).collect::<Vec<_>>(), wanted);
        let ndjson = objects(&sample_columns(), samples(&run));
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
        let note = |code| fixture::note(code, "why");
        run.measurements[0].warnings = vec![note("disturbed"), note("cpu-quota"), note("disturbed")];
        let wanted = ["0.1", "2.5", "0", "0.3333333333333333", "disturbed;cpu-quota"];
        let csv = table(&sample_columns(), samples(&run));
        assert_eq!(split(csv.lines().nth(2).unwrap())[17..], wanted);
        assert_eq!(split(csv.lines().nth(1).unwrap())[17..], ["", "", "", "", "disturbed;cpu-quota"]);
        let ndjson = objects(&sample_columns(), samples(&run));
        let row: Value = serde_json::from_str(ndjson.lines().nth(1).unwrap()).unwrap();
        assert_eq!((row["waited"].as_f64(), row["warnings"].as_str()), (Some(1.0 / 3.0), Some(wanted[4])));
    }

    #[test]
    fn every_tool_beside_a_case_is_a_row() {
        let run = fixture::with_tools();
        let csv = table(&tool_columns(), compared(&run));
        let rows: Vec<Vec<String>> = csv.lines().skip(1).map(split).collect();
        let columns = split(csv.lines().next().unwrap());
        let at = |row: usize, name: &str| rows[row][columns.iter().position(|c| c == name).unwrap()].as_str();
        assert_eq!(rows.len(), 3);
        let cells = ["tool", "verdict", "match", "own", "limit"].map(|name| at(0, name));
        assert_eq!(cells, ["iozone", "equivalent", "exact", "1000000000", ""]);
        let median = run.measurements[0].metrics[0].tool_results[0].median;
        assert_eq!(at(0, "reference").parse::<f64>().ok(), median);
        assert_eq!((at(1, "own"), at(1, "reason")), ("", "not installed; apt-get install iozone3"));
        let ndjson = objects(&tool_columns(), compared(&run));
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
