//! CSV and configuration for Apache Otava (<https://otava.apache.org/docs/csv/>): a row per run, a
//! column per headline. Otava accepts no empty cells, so columns are headlines valid in each run.

use std::collections::BTreeSet;
use std::io;

use plimsoll_bench::Better;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::Run;

use super::Format;
use super::bmf::benchmark;
use crate::report::tidy::cell;

pub(super) static SERIES: Format = Format {
    name: "otava",
    about: "CSV for Apache Otava: one row per run (of a tag: all its runs), one column per main metric that all runs have",
    extension: "csv",
    run: Some(|of| series(std::slice::from_ref(of.run))),
    runs: Some(series),
    leaves_out: |measurement| headline(measurement).is_none(),
    not_in_all,
    ..Format::NONE
};

pub(super) static CONFIG: Format = Format {
    name: "otava-config",
    about: "configuration of Apache Otava, to be saved as otava.yaml: says for each column of plimsoll.csv, the saved output of --format otava, whether higher or lower is better",
    extension: "yaml",
    run: Some(|of| config(std::slice::from_ref(of.run))),
    runs: Some(config),
    ..SERIES
};

const KEYS: [&str; 4] = ["started", "run", "version", "machine"];

fn headline(measurement: &Measurement) -> Option<&MetricResult> {
    // A column has one value, but a mostly excluded result needs two: undisturbed and delivered.
    let is_believed = measurement.status == Status::Ok && !measurement.is_mostly_excluded();
    measurement.headline().filter(|metric| is_believed && metric.summary.median.is_finite())
}

/// Returns column name and main metric of each valid measurement that is not mostly interrupted.
fn figures(run: &Run) -> Vec<(String, &MetricResult)> {
    let one = |measurement| Some((benchmark(run, measurement), headline(measurement)?));
    run.measurements.iter().filter_map(one).collect()
}

fn names(run: &Run) -> BTreeSet<String> {
    figures(run).into_iter().map(|(name, _)| name).collect()
}

fn in_order(runs: &[Run]) -> Vec<&Run> {
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by_key(|run| (&run.started, &run.id));
    runs
}

/// Returns name and better direction of the columns that all runs have, in the first run's order.
/// Fails if there are none.
fn columns(runs: &[&Run]) -> io::Result<Vec<(String, Better)>> {
    let all: Vec<BTreeSet<String>> = runs.iter().map(|run| names(run)).collect();
    let first = runs.first().map(|run| figures(run)).unwrap_or_default();
    let in_all = first.into_iter().filter(|(name, _)| all.iter().all(|run| run.contains(name)));
    let columns: Vec<(String, Better)> = in_all.map(|(name, metric)| (name, metric.better)).collect();
    let why = "otava requires a headline with a valid figure in every run: no case has one";
    let none = || io::Error::new(io::ErrorKind::InvalidInput, why);
    Some(columns).filter(|columns| !columns.is_empty()).ok_or_else(none)
}

/// Returns a message with the number of main metrics that a run lacks; `None` if all runs have all.
fn not_in_all(runs: &[Run]) -> Option<String> {
    let all: BTreeSet<String> = runs.iter().flat_map(names).collect();
    let runs: Vec<&Run> = runs.iter().collect();
    let (out, all) = (all.len().saturating_sub(columns(&runs).map_or(0, |all| all.len())), all.len());
    (out > 0).then(|| format!("{out} of {all} headlines are left out, because not every run has them"))
}

fn series(runs: &[Run]) -> io::Result<String> {
    let runs = in_order(runs);
    let columns = columns(&runs)?;
    let head = KEYS.into_iter().map(str::to_owned).chain(columns.iter().map(|(name, _)| cell(name)));
    let mut text = head.collect::<Vec<_>>().join(",") + "\r\n";
    for run in runs {
        let figures = figures(run);
        let value = |name: &String| {
            let found = figures.iter().find(|(known, _)| known == name);
            found.map(|(_, metric)| metric.summary.median.to_string()).unwrap_or_default()
        };
        let keys = [&run.started, &run.id, &run.version, &run.machine.id].map(|key| cell(key));
        let row = keys.into_iter().chain(columns.iter().map(|(name, _)| value(name)));
        text += &(row.collect::<Vec<_>>().join(",") + "\r\n");
    }
    Ok(text)
}

fn config(runs: &[Run]) -> io::Result<String> {
    let runs = in_order(runs);
    let columns = columns(&runs)?;
    let quoted = |text: &str| serde_json::to_string(text).map_err(io::Error::from);
    let plan = quoted(runs.first().map_or("plimsoll", |run| run.plan.name.as_str()))?;
    let mut text = format!("tests:\n  {plan}:\n    type: csv\n    file: plimsoll.csv\n");
    text += &format!("    time_column: started\n    attributes: [{}]\n    metrics:\n", KEYS[1..].join(", "));
    for (name, better) in columns {
        let direction = if better == Better::Higher { 1 } else { -1 };
        let name = quoted(&name)?;
        text += &format!("      {name}:\n        column: {name}\n        direction: {direction}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn a_row_a_run_by_time_with_the_columns_that_all_have_and_others_are_counted() {
        let one = fixture::run();
        let mut earlier = one.clone();
        (earlier.id, earlier.started) = ("earlier".to_owned(), "2026-01-01T00:00:00.000Z".to_owned());
        let gone = earlier.measurements.iter().position(|m| headline(m).is_some()).unwrap();
        earlier.measurements.remove(gone);
        let both = [one.clone(), earlier];
        let text = series(&both).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!((rows.len(), rows[0].len()), (3, KEYS.len() + figures(&one).len() - 1));
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        assert!(rows.iter().flatten().all(|cell| !cell.is_empty()), "{text}");
        assert_eq!([rows[1][1], rows[2][1]], ["earlier", fixture::ID]);
        let wanted = format!("1 of {} headlines are left out", names(&one).len());
        assert!(not_in_all(&both).unwrap().starts_with(&wanted));
        assert_eq!(not_in_all(&[one.clone(), one.clone()]), None);
        let none = Run { measurements: Vec::new(), ..one.clone() };
        for write in [series, config] {
            let error = write(&[one.clone(), none.clone()]).unwrap_err();
            assert!(error.to_string().contains("requires a headline"), "{error}");
        }
    }

    #[test]
    fn the_configuration_names_every_column_with_its_direction() {
        let text = config(&[fixture::run()]).unwrap();
        assert_eq!(text.matches("        column: ").count(), figures(&fixture::run()).len());
        assert!(text.contains("direction: -1") && text.contains("direction: 1\n"), "{text}");
        assert!(text.starts_with("tests:\n  \"quick\":\n    type: csv\n"), "{text}");
    }
}
