//! `schema/run.v1.json` against valid and invalid documents.

use std::sync::LazyLock;

use jsonschema::Validator;
use plimsoll_model::limit::{Limit, LimitKind};
use plimsoll_model::measurement::{Matrix, SamplePoint};
use plimsoll_model::sample::{Cell, Sample};
use plimsoll_result::document::Run;
use plimsoll_result::fixture;
use plimsoll_units::quantity::Unit;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::report::json;

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(include_str!("../../../../../schema/run.v1.json")).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
});

fn written(run: &Run) -> Value {
    let mut text = Vec::new();
    json::write(run, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn errors(document: &Value) -> Vec<String> {
    VALIDATOR.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

#[test]
fn every_kind_of_row_few_samples_and_no_measurements_are_valid() {
    let rate = fixture::metric_of("rate", Unit::FlopPerSecond, vec![1e9]);
    let few = fixture::of_metric("cpu.peak/threads=1", rate);
    assert!(few.metrics[0].summary.ci95.is_none() && few.metrics[0].limit.is_none());
    let mut stepped = fixture::run();
    let step = plimsoll_system::wall::ClockStep { node: "n".to_owned(), at_s: 2.5, by_s: -3596.0 };
    (stepped.clock_steps, stepped.health) = (vec![step], vec![fixture::node_health("n")]);
    for run in [fixture::run(), fixture::run_of(vec![few]), fixture::run_of(Vec::new()), stepped] {
        assert_eq!(errors(&written(&run)), [""; 0]);
    }
}

/// The fixture's document after `change`, which must make it invalid.
fn rejected(what: &str, change: impl FnOnce(&mut Value)) {
    let mut document = written(&fixture::run());
    change(&mut document);
    assert!(!errors(&document).is_empty(), "{what} passes");
}

fn object<'a>(document: &'a mut Value, path: &str) -> &'a mut serde_json::Map<String, Value> {
    document.pointer_mut(path).unwrap().as_object_mut().unwrap()
}

#[test]
fn broken_contracts_are_rejected() {
    for (path, value) in [
        ("/schema", json!("plimsoll.run/2")),
        ("/id", json!("1")),
        ("/started", json!("yesterday")),
        ("/status", json!("done")),
        ("/seed", json!(-1)),
        ("/nodes", json!([])),
        ("/measurements/0/status", json!("good")),
        ("/measurements/0/status", json!("failed")),
        ("/measurements/0/reason", json!("an ok row has none")),
        ("/measurements/0/metrics", json!([])),
        ("/measurements/2/reason", json!(null)),
        ("/measurements/10/reason", json!(null)),
        ("/measurements/0/case/id", json!("cpu.peak/threads")),
        ("/measurements/0/metrics/0/unit", json!("GFLOP/s")),
        ("/measurements/0/metrics/0/better", json!("faster")),
        ("/measurements/0/metrics/0/samples", json!([])),
        ("/measurements/0/metrics/0/samples/0", json!(null)),
        ("/measurements/0/metrics/0/summary/ci95", json!(null)),
        ("/measurements/0/metrics/0/summary/ci95", json!([1.0])),
        ("/measurements/0/metrics/0/summary/n", json!(4)),
        ("/measurements/0/metrics/0/limit/value", json!(null)),
        ("/measurements/0/metrics/0/limit/source", json!("guessed")),
        ("/measurements/0/metrics/0/limit/kind", json!("wall")),
        ("/measurements/3/metrics/0/limit/reason", json!(null)),
        ("/measurements/3/metrics/0/of_limit", json!(0.5)),
        ("/measurements/0/metrics/0/references", json!([{ "name": "fio" }])),
        ("/measurements/7/metrics/0/percentiles", json!({ "p101": 1.0 })),
        ("/measurements/7/metrics/0/histogram", json!([[1.0, 0]])),
    ] {
        rejected(&format!("{path} = {value}"), |d| *d.pointer_mut(path).unwrap() = value);
    }
}

#[test]
fn closed_objects_take_no_more_names_and_lack_none() {
    for path in [
        "",
        "/plan",
        "/findings/0",
        "/measurements/0",
        "/measurements/0/case",
        "/measurements/0/metrics/0",
        "/measurements/0/metrics/0/summary",
        "/measurements/0/metrics/0/limit",
        "/measurements/0/metrics/0/series/0",
        "/measurements/4/warnings/0",
    ] {
        let names: Vec<String> = object(&mut written(&fixture::run()), path).keys().cloned().collect();
        rejected(&format!("{path}/extra"), |d| drop(object(d, path).insert("extra".to_owned(), json!(1))));
        for name in names {
            rejected(&format!("{path} without {name}"), |d| drop(object(d, path).remove(&name)));
        }
    }
}

#[test]
fn a_matrix_and_a_full_series_are_valid_and_half_a_matrix_is_not() {
    let cell =
        |row, column, mark: Option<&str>| Cell { row, column, value: 6e-9, mark: mark.map(str::to_owned) };
    let matrix = vec![cell(0, 1, Some("smt")), cell(1, 0, Some("smt")), cell(0, 2, None)];
    let sample = Sample { matrix, ..Sample::default() };
    let mut made = fixture::measured("cpu.core-to-core/op=cas", "latency", Unit::Second, 6e-9);
    made.metrics[0].matrix = Matrix::of(&[sample.clone(), sample]);
    let mut point = SamplePoint { delivered: Some(5e-9), ..SamplePoint::default() };
    (point.excluded, point.throttled, point.waited) = (Some(0.1), Some(0.2), Some(0.3));
    made.metrics[0].series.push(point);
    let document = written(&fixture::run_of(vec![made]));
    assert_eq!(errors(&document), [""; 0]);
    let read: Run = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(written(&read), document);
    for name in ["rows", "columns", "values", "spread", "marks"] {
        let mut less = document.clone();
        object(&mut less, "/measurements/0/metrics/0/matrix").remove(name);
        assert!(!errors(&less).is_empty(), "a matrix without {name} passes");
        for wrong in [json!([]), json!([["x", 1.5]]), json!([-1])] {
            let mut other = document.clone();
            *other.pointer_mut(&format!("/measurements/0/metrics/0/matrix/{name}")).unwrap() = wrong.clone();
            assert!(!errors(&other).is_empty(), "{name} = {wrong} passes");
        }
    }
}

#[test]
fn every_unit_of_a_metric_is_in_the_schema() {
    for (unit, _) in Unit::ALL.iter().filter(|(u, _)| !matches!(u, Unit::Byte | Unit::Hertz)) {
        let made = fixture::measured("cpu.peak/threads=1", "rate", *unit, 2.0);
        assert_eq!(errors(&written(&fixture::run_of(vec![made]))), [""; 0], "{unit}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_measured_is_valid_and_reads_back(
        samples in prop::collection::vec(1e-12f64..1e18, 1..40),
        reason in "\\PC{1,40}",
        text in "\\p{Any}{1,40}",
        seed in any::<u64>(),
        elapsed in 0f64..1e6,
    ) {
        let mut made = fixture::measured("disk.io/op=read/block=4K/threads=1", "rate", Unit::IoPerSecond, 1.0);
        made.metrics = vec![fixture::metric_of("rate", Unit::IoPerSecond, samples)];
        let mut run = fixture::run_of(vec![made.limited(Limit::unknown(LimitKind::Ceiling, reason))]);
        run.machine.host = Some(text.clone());
        run.findings[0].text = text;
        (run.seed, run.elapsed_s) = (seed, elapsed);
        let document = written(&run);
        prop_assert_eq!(errors(&document), [""; 0]);
        let read: Run = serde_json::from_value(document).unwrap();
        prop_assert_eq!(read, run);
    }
}
