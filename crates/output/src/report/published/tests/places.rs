//! Checks the tables and charts on the page of each published report's plan.

use std::collections::BTreeSet;

use plimsoll_command::cli::{Common, Measurable};
use plimsoll_command::resolve;
use plimsoll_machine::fixture::Fixture;
use plimsoll_model::case::Case;
use plimsoll_model::measurement::{Measurement, SamplePoint};
use plimsoll_published::tables::TableKind;
use plimsoll_published::{PublishedFigure, find, names};
use plimsoll_result::document::Run;
use plimsoll_result::fixture;

use crate::report::html;

/// A run of the report's plan with results for each case.
fn replay(name: &str) -> Run {
    let plan = resolve::plan(&Measurable::Plan(name.to_owned()), &Common::default()).unwrap();
    let machine = Fixture::open("firecracker-zen4").unwrap().machine();
    let measured = |case: Case| -> Measurement {
        let metrics = plimsoll_bench::find(case.benchmark()).unwrap().metrics(&case);
        let mut made = fixture::measured(case.id().as_str(), "none", metrics[0].unit, 1.0);
        made.metrics = metrics.iter().map(|m| fixture::metric_of(m.name, m.unit, vec![1.0, 1.1])).collect();
        let point = |i: u32| SamplePoint { t: f64::from(i), ..SamplePoint::default() };
        made.metrics[0].series = (0..40).map(point).collect();
        made.metrics[0].samples = vec![1.0; 40];
        made
    };
    let planned = resolve::planned(&plan, &machine).unwrap().into_iter();
    let measurements = planned.map(|planned| measured(planned.candidate.case)).collect();
    let mut run = Run { measurements, ..fixture::run() };
    run.plan.name = name.to_owned();
    run.plan.text = plimsoll_model::plan::built_in::find(name).unwrap().text.to_owned();
    run
}

#[test]
fn each_table_is_measured_or_has_a_reason_and_every_figure_is_drawn() {
    let (mut tables, mut numbers, mut charts, mut folded) = (0, 0, 0, 0);
    for name in names() {
        let baseline = find(name).unwrap();
        let (count, [figures, together]) = html::tests::figures_of_replay(&replay(name));
        for table in plimsoll_published::tables::build_tables(&baseline) {
            let is_filled = table.figures().any(|figure| figure.matched.is_some());
            let has_reason = table.figures().any(|figure| !figure.unmatched.is_empty());
            assert!(table.kind == TableKind::Text || is_filled || has_reason, "{name}: {}", table.title);
            tables += 1;
        }
        numbers += baseline.figures.len();
        charts += count;
        folded += figures.len();
        let own = baseline.figures.iter().filter(|figure| figure.is_own_point());
        let kind = |f: &PublishedFigure| [f.subsystem, f.metric, f.operation, f.pattern];
        let kinds: BTreeSet<[&str; 4]> = own.map(kind).collect();
        assert!(figures.len() >= kinds.len(), "{name}: {figures:?}");
        assert!(!together.is_empty() && (name != names()[0] || together.len() == 7), "{name}: {together:?}");
        for [_, metric, operation, _] in kinds {
            let is_it = |title: &&String| title.contains(metric) && title.contains(operation);
            assert!(figures.iter().any(|title| is_it(&title)), "{name}: {metric} {operation}: {figures:?}");
        }
    }
    assert_eq!([tables, numbers, charts, folded], [84, 1737, 146, 111]);
}
