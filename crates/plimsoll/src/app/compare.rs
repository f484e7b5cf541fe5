//! `plimsoll compare`, and `--require` after a run.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_bench::label;
use plimsoll_command::cli::Compare;
use plimsoll_compare::{
    CompareOptions, ComparedMetric, ComparedSide, Comparison, MAX_SIDES, Missing, Requirement,
    RequirementResult, lasting,
};
use plimsoll_history::OpenRegression;
use plimsoll_model::case::Case;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_output::report::compare::{ShownMetrics, failed, lost, of_several};
use plimsoll_output::report::format::{FormatSubject, Sides, writer};
use plimsoll_output::report::target::OutputTarget;
use plimsoll_output::report::{self, Style, StyleOptions, html};
use plimsoll_result::document::Run;
use plimsoll_run::Planned;
use plimsoll_units::text::shown_within;

use super::named_runs::{LazyHistory, files, redact_sides};
use super::prices::{each_weighs_its_own, prices, weights};
use super::{Failure, code, complain, ending, printed, target};
use crate::failure::OrFailure;
use crate::output;

pub(super) fn compare(typed: &Compare) -> Result<ExitCode, Failure> {
    let write = writer(&typed.format, FormatSubject::Comparison, |format| format.comparison).or_usage()?;
    let requirements = requirements(&typed.require)?;
    let names: Vec<&str> =
        [&typed.a, &typed.b].into_iter().chain(&typed.others).map(String::as_str).collect();
    check_names(&names)?;
    let (weights, prices) = (weights(&typed.weights)?, prices(&typed.price, &names)?);
    super::refuse_overwriting_input(files(names.iter().copied()), [("--html", &typed.html)])?;
    let target = typed.html.as_deref().map(target).transpose()?;
    let mut history = LazyHistory::new(typed.store.as_deref());
    let sides = history.sides(&names)?;
    check_units(&requirements, sides.iter().flat_map(|side| &side.runs))?;
    if let [a, b] = sides.as_slice()
        && a.runs == b.runs
        && files(names.iter().copied()).next().is_none()
    {
        // Two names, such as an id and `last`, name one run of the history.
        let line = format!("{} and {} are the same run; name another, such as last~1", a.name, b.name);
        return Err(Failure::usage(line));
    }
    each_weighs_its_own(&weights, &sides)?;
    let floors = history.floors(&sides)?;
    let sides = if typed.redact { redact_sides(&sides)? } else { sides };
    let wanted = CompareOptions { fail_on: typed.fail_on, prices, weights };
    let mut comparison = plimsoll_compare::compare(&sides, &floors, &wanted);
    comparison.notes = std::mem::take(&mut history.notes);
    let missing = if typed.missing == "ignore" { Missing::Ignore } else { Missing::Fail };
    let (first, others) = sides.split_first().ok_or_else(|| Failure::usage("compare requires two runs"))?;
    let held = others.iter().enumerate().flat_map(|(index, side)| {
        let mut held = check_last_run(&requirements, [first, side], missing);
        held.iter_mut().for_each(|one| one.found += &of_several(&comparison, index + 1));
        held
    });
    let held: Vec<RequirementResult> = held.collect();
    let shown = if typed.all { ShownMetrics::All } else { ShownMetrics::Telling };
    let style = &Style::detect(StyleOptions::default());
    let of = Sides { comparison: &comparison, sides: &sides, held: &held, shown, missing, style };
    let text = write(&of).or_environment()?;
    if !target.as_ref().is_some_and(OutputTarget::is_stdout) {
        printed(&text)?;
    }
    if let Some(target) = target {
        target.put(&html::comparison(&of).or_environment()?)?;
    }
    let codes = [
        comparison_exit_code(&comparison, &held, missing, typed.strict),
        lasting_exit_code(&comparison, &history.open_losses),
        ending::report_wrong_answers(others.iter().flat_map(|side| &side.runs)),
    ];
    Ok(ExitCode::from(codes.into_iter().max().unwrap_or(0)))
}

/// Fails for more than [`MAX_SIDES`] names, or if a name occurs twice among three or more.
fn check_names(names: &[&str]) -> Result<(), Failure> {
    let count = names.len();
    if count > MAX_SIDES {
        return Err(Failure::usage(format!("compare takes at most {MAX_SIDES} sides: {count} are named")));
    }
    let mut repeated = names.iter().enumerate().filter(|(index, name)| names[..*index].contains(name));
    let Some((_, name)) = repeated.next().filter(|_| count > 2) else { return Ok(()) };
    Err(Failure::usage(format!("{} is named twice; name each side once", shown_within(name, 120))))
}

/// Returns a copy of the last run of `side`, with the latest result of each case that this run
/// lacks and an earlier run has; `None` without runs.
fn latest(side: &ComparedSide) -> Option<Run> {
    let (last, earlier) = side.runs.split_last()?;
    let mut all = last.clone();
    let key = |m: &Measurement| (m.node.clone(), m.case.id());
    for run in earlier.iter().rev() {
        let known: HashSet<_> = all.measurements.iter().map(key).collect();
        all.measurements.extend(run.measurements.iter().filter(|m| !known.contains(&key(m))).cloned());
    }
    Some(all)
}

/// Checks `requirements` against the last run of `b`; `a` is the baseline. A case that only earlier
/// runs have is not met, or, with `Missing::Ignore`, checked in the last run that has it.
fn check_last_run(
    requirements: &[Requirement],
    [a, b]: [&ComparedSide; 2],
    missing: Missing,
) -> Vec<RequirementResult> {
    let Some((last, earlier)) = b.runs.split_last() else { return Vec::new() };
    match missing {
        Missing::Ignore => latest(b).map(|run| check_requirements(requirements, &run, a)).unwrap_or_default(),
        Missing::Fail => {
            let lost = requirements.iter().flat_map(|one| one.lost(last, earlier, &a.runs));
            check_requirements(requirements, last, a).into_iter().chain(lost).collect()
        }
    }
}

pub(super) fn requirements(typed: &[String]) -> Result<Vec<Requirement>, Failure> {
    let read = |text: &String| Requirement::parse(text).map_err(|e| Failure::usage(format!("--require {e}")));
    typed.iter().map(read).collect()
}

/// Fails for a requirement whose bound has another unit than its metric in `runs`, or none.
pub(super) fn check_units<'r>(
    requirements: &[Requirement],
    runs: impl IntoIterator<Item = &'r Run>,
) -> Result<(), Failure> {
    let cases: Vec<&Case> = runs.into_iter().flat_map(|run| &run.measurements).map(|m| &m.case).collect();
    let mut all = requirements.iter();
    all.try_for_each(|one| one.check_unit(&cases)).map_err(|why| Failure::usage(format!("--require {why}")))
}

/// Checks each requirement against all results in `run`. The baseline of a metric is its median
/// over the valid results of the same case (and node, if a run has several) in the runs of `a`.
fn check_requirements(requirements: &[Requirement], run: &Run, a: &ComparedSide) -> Vec<RequirementResult> {
    let many = a.runs.iter().chain([run]).any(|run| run.nodes.len() > 1);
    let baseline = |of: &Measurement, metric: &MetricResult| {
        let all = a.runs.iter().flat_map(|run| &run.measurements);
        let same = all.filter(|m| m.case.id() == of.case.id() && (!many || m.node == of.node));
        let measured = same.filter(|m| m.effective_status().0 == Status::Ok);
        let figures = measured.filter_map(|m| m.metrics.iter().find(|m| m.name == metric.name));
        median(figures.filter(|m| m.unit == metric.unit).map(|m| m.summary.median).collect())
    };
    requirements.iter().flat_map(|r| r.check(run, baseline)).collect()
}

/// Fails if a requirement compares with stored runs (its baseline), but `--store` is `none`.
pub(super) fn check_baseline_store(
    requirements: &[Requirement],
    store: Option<&Path>,
) -> Result<(), Failure> {
    let Some(one) = requirements.iter().find(|one| one.needs_baseline()) else { return Ok(()) };
    let missing = || {
        Failure::usage(format!(
            "--require '{}' and --store none are mutually exclusive: the baseline is in the history",
            one.text
        ))
    };
    output::location(store)?.map(drop).ok_or_else(missing)
}

/// Fails for a requirement whose metric no case of `planned` has, or that compares nodes: this run
/// has one. Returns warnings of requirements whose metric only some of the matching cases have.
pub(super) fn check_applicable(
    requirements: &[Requirement],
    planned: &[Planned],
) -> Result<Vec<String>, Failure> {
    let cases: Vec<&Case> = planned.iter().map(|planned| &planned.candidate.case).collect();
    let mut notes = Vec::new();
    for one in requirements {
        if one.needs_machines() {
            return Err(Failure::usage(format!(
                "--require '{}': within requires a run over many machines; start it with --hosts",
                one.text
            )));
        }
        notes.extend(one.fits(&cases).map_err(|why| Failure::usage(format!("--require {why}")))?);
    }
    Ok(notes)
}

/// Checks `requirements` against `run`, and prints those that are not met to stderr. Their baseline
/// is the last 10 runs before `run` in `history`; prints a note on runs that it leaves out.
pub(super) fn check_after_run(
    requirements: &[Requirement],
    run: &Run,
    history: &mut LazyHistory<'_>,
) -> Result<Vec<RequirementResult>, Failure> {
    const BEFORE: usize = 10;
    let needs_baseline = requirements.iter().any(Requirement::needs_baseline);
    let (runs, note) = if needs_baseline { history.before(run, BEFORE)? } else { (Vec::new(), None) };
    let name = format!("baseline:last{BEFORE}");
    if let Some(note) = note {
        complain(&format!("{name}: {note}"));
    }
    let held = check_requirements(requirements, run, &ComparedSide { name, runs });
    for unmet in held.iter().filter(|h| !h.met) {
        let case = unmet.case.as_deref().map(|case| format!(" {}:", label::of_id(case))).unwrap_or_default();
        complain(&format!("not met: {}:{case} {}", unmet.requirement, unmet.found));
    }
    Ok(held)
}

/// Returns exit code 1, else 0, if a result in `held` is not met or `--fail-on` finds a regression,
/// a lost case (unless `missing` is `Ignore`) or nothing to compare; with `strict` also if noise
/// could hide regressions of that size. Prints what `--fail-on` finds.
fn comparison_exit_code(
    comparison: &Comparison,
    held: &[RequirementResult],
    missing: Missing,
    strict: bool,
) -> u8 {
    let mut code = if held.iter().all(|h| h.met) { 0 } else { code::VERDICT };
    let Some(gate) = &comparison.gate else { return code };
    let lost = if missing == Missing::Fail { lost(comparison) } else { Vec::new() };
    let nothing = "--fail-on had nothing to compare: no case has figures on both sides";
    let nothing = comparison.compared.is_empty().then(|| nothing.to_owned());
    for line in failed(comparison, gate.fail_on).into_iter().chain(lost).chain(nothing) {
        complain(&line);
        code = code::VERDICT;
    }
    if let Some(line) = gate.blindness() {
        complain(&line);
        code = if strict { code::VERDICT } else { code };
    }
    code
}

/// Returns exit code 1, else 0, if a regression in `open`, found in earlier runs, exceeds
/// `--fail-on` and is still there in `comparison`. Prints those that `comparison` does not show.
fn lasting_exit_code(comparison: &Comparison, open: &[OpenRegression]) -> u8 {
    let Some(gate) = &comparison.gate else { return 0 };
    let mut code = 0;
    for loss in open.iter().filter(|loss| loss.change.abs() > gate.fail_on) {
        if lasting::is_still_lost(comparison, &loss.case, &loss.metric, loss.change) {
            code = code::VERDICT;
            let is_it = |one: &ComparedMetric| one.case == loss.case && one.metric == loss.metric;
            if !comparison.worse_than(gate.fail_on).any(is_it) {
                complain(&report::history::still_lost(loss));
            }
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    /// Each node has its own baseline, and units must agree.
    #[test]
    fn a_baseline_is_that_of_the_machine() {
        let mut run = fixture::run();
        let first = run.measurements[0].clone();
        let of = |node: &str, value: f64| {
            let mut made = Measurement { node: node.to_owned(), ..first.clone() };
            made.metrics[0].summary.median = value;
            made
        };
        run.nodes = vec![run.nodes[0].clone(); 2];
        run.measurements = vec![of("fast", 200e9), of("slow", 50e9)];
        let mut before = run.clone();
        before.measurements = vec![of("fast", 200e9), of("slow", 100e9)];
        let required = requirements(&["cpu.peak rate >= 95% of baseline".to_owned()]).unwrap();
        let met = |run: &Run, before: &Run| -> Vec<bool> {
            let side = ComparedSide { name: "before".to_owned(), runs: vec![before.clone()] };
            check_requirements(&required, run, &side).into_iter().map(|one| one.met).collect()
        };
        assert_eq!(met(&run, &before), [true, false]);
        before.measurements[1].metrics[0].unit = plimsoll_units::quantity::Unit::BytePerSecond;
        assert_eq!(met(&before, &run), [true, false], "another unit has no ratio");
        // With one node per run, a different name does not matter.
        let alone = |node: &str| {
            let nodes = run.nodes[..1].to_vec();
            Run { nodes, measurements: vec![of(node, 1e9)], ..run.clone() }
        };
        assert_eq!(met(&alone("new"), &alone("old")), [true]);
    }

    #[test]
    fn a_case_that_only_an_earlier_run_has_is_not_met() {
        let whole = fixture::run();
        let mut killed = whole.clone();
        killed.measurements.remove(0);
        let side = |runs: &[&Run]| ComparedSide {
            name: "side".to_owned(),
            runs: runs.iter().map(|run| (*run).clone()).collect(),
        };
        let required = requirements(&["cpu.peak/*f64* rate >= 1".to_owned()]).unwrap();
        let unmet = |b: &[&Run], missing| -> Vec<String> {
            let held = check_last_run(&required, [&side(&[&killed]), &side(b)], missing);
            assert!(!held.is_empty());
            held.into_iter().filter(|one| !one.met).map(|one| one.found).collect()
        };
        assert_eq!(unmet(&[&whole, &killed], Missing::Fail), ["missing in the last run"]);
        for (b, missing) in [
            ([&killed, &whole].as_slice(), Missing::Fail),
            (&[&whole, &killed], Missing::Ignore),
            (&[&whole], Missing::Fail),
        ] {
            assert!(unmet(b, missing).is_empty(), "{missing:?}");
        }
    }
}
