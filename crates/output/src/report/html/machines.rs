//! Comparison of machines on the page: data for the script's table, also to validate dropped files.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use plimsoll_bench::label;
use plimsoll_compare::{ComparedSide, MAX_SIDES, MOST_TAKEN};
use plimsoll_model::case::KEYS;
use plimsoll_model::measurement::{Measurement, MetricResult};
use plimsoll_result::document::{IN_PAGE, Node, RUN_SCHEMA, Run};
use plimsoll_stats::{ALL_BUT_EXCLUDED, ExcludedShare, MOSTLY_EXCLUDED};
use plimsoll_units::text::{format_count, shown_within};
use serde_json::{Value, json};

use super::data::island;
use super::parts::machine_line;
use crate::report::and_more;

pub(super) const MOST_HELD: usize = 8 << 20;

const LARGEST_FILE: usize = 64 << 20;

const MAX_DOCUMENTS_NAMED: usize = 5;

const MAX_NAME_CHARACTERS: usize = 64;

/// A run, with the name of its side in a comparison.
pub(super) type NamedRun<'a> = (&'a Run, Option<&'a str>);

/// Builds the section with the last run of each side that is no published table, and the documents
/// of all their runs. Fails if a number cannot be represented in JSON.
pub(super) fn of_sides(sides: &[ComparedSide]) -> serde_json::Result<[Markup; 2]> {
    let measured = || sides.iter().filter(|side| !side.is_published());
    let last = measured().filter_map(|side| Some((side.runs.last()?, Some(side.name.as_str()))));
    section(&last.collect::<Vec<_>>(), &measured().flat_map(|side| &side.runs).collect::<Vec<_>>())
}

/// Builds the section "Compare machines" of the `shown` runs, and the documents of `all` runs to
/// embed. Fails if a number cannot be represented in JSON.
pub(super) fn section(shown: &[NamedRun<'_>], all: &[&Run]) -> serde_json::Result<[Markup; 2]> {
    let machines: usize = shown.iter().map(|(run, _)| run.nodes.len()).sum();
    let columns: Vec<Value> = shown.iter().filter(|_| machines <= MAX_SIDES).flat_map(columns).collect();
    let held = held(all)?;
    let directions = |benchmark: &dyn plimsoll_bench::Benchmark| -> BTreeMap<&str, &str> {
        benchmark.all_metrics().iter().map(|metric| (metric.name, metric.better.word())).collect()
    };
    let better = plimsoll_bench::benchmarks().map(|one| (one.descriptor().name, directions(one)));
    let of_machine = KEYS.iter().filter(|key| key.of_machine).map(|key| key.name);
    let known = island(&json!({
        "most": MAX_SIDES,
        "largest": LARGEST_FILE,
        "begin": IN_PAGE[0],
        "end": IN_PAGE[1],
        "schema": schema()?,
        "better": better.collect::<BTreeMap<_, _>>(),
        "keys": KEYS.iter().map(|key| key.name).collect::<Vec<_>>(),
        "of_machine": of_machine.collect::<Vec<_>>(),
        "mostly": MOSTLY_EXCLUDED,
        "taken": MOST_TAKEN,
        "all_but": ALL_BUT_EXCLUDED,
        "machines": columns,
    }))?;
    let section = html! {
        section #compare hidden {
            h2 { "Compare machines" }
            @if machines > MAX_SIDES {
                p.remark { (format_count(machines, "machine")) " are too many to be compared here: at most " (MAX_SIDES) " have room." }
            }
        }
        p.remark { (documents_note(&held, all)) }
        script type="application/json" id="machines" { (PreEscaped(known)) }
    };
    let held = html! { @for document in held.iter().flatten() { (PreEscaped([IN_PAGE[0], document, IN_PAGE[1]].concat())) } };
    Ok([section, held])
}

fn schema() -> serde_json::Result<Value> {
    let mut schema: Value = serde_json::from_str(include_str!("../../../../../schema/run.v1.json"))?;
    debug_assert_eq!(schema["properties"]["schema"]["const"], RUN_SCHEMA);
    undescribed(&mut schema);
    Ok(schema)
}

fn undescribed(schema: &mut Value) {
    match schema {
        Value::Object(all) => {
            all.retain(|key, value| !(key == "description" && value.is_string()));
            all.values_mut().for_each(undescribed);
        }
        Value::Array(all) => all.iter_mut().for_each(undescribed),
        _ => {}
    }
}

/// Encodes the run documents in order; `None` for those beyond the size limit of a page (8 MiB).
pub(super) fn held(runs: &[&Run]) -> serde_json::Result<Vec<Option<String>>> {
    let mut left = MOST_HELD;
    let pack = |run: &&Run| {
        let packed = run.packed(left)?;
        left -= packed.as_ref().map_or(0, String::len);
        Ok(packed)
    };
    runs.iter().map(pack).collect()
}

/// Explains how to use the embedded documents `held`, one per run, and lists runs without one.
fn documents_note(held: &[Option<String>], runs: &[&Run]) -> Markup {
    let lost = held.iter().zip(runs).filter(|(held, _)| held.is_none());
    let lost: Vec<&str> = lost.map(|(_, run)| run.id.as_str()).collect();
    html! {
        @if lost.len() < held.len() {
            "This page holds the run documents of its figures: " code { "plimsoll import PAGE.html" } " reads them. "
        }
        @if !lost.is_empty() {
            "A page holds at most " (MOST_HELD >> 20) " MiB of run documents, so these runs have only their figures here: "
            (and_more(&lost, MAX_DOCUMENTS_NAMED)) "; "
            code { "plimsoll export RUN --format json" } " writes them."
        }
    }
}

fn columns<'a>(&(run, name): &NamedRun<'a>) -> impl Iterator<Item = Value> + 'a {
    run.nodes.iter().map(move |node| {
        let machine = run.machine_of(node);
        let own = || run.measurements.iter().filter(|one| one.node == node.name);
        json!({
            "name": column_name(name, node, run.nodes.len()),
            "about": shown_within(&machine_line(machine), 200),
            "run": run.id,
            "node": node.name,
            "started": run.started,
            "plan": shown_within(&run.plan.name, MAX_NAME_CHARACTERS),
            "version": shown_within(&run.version, MAX_NAME_CHARACTERS),
            "partial": run.status == plimsoll_result::document::RunStatus::Partial,
            "cpus": machine.all_threads(own().map(|one| one.case.threads())),
            "cases": own().map(|one| measured(one, machine.cpu.allowed.len())).collect::<Vec<_>>(),
        })
    })
}

/// Returns the column name `NODE`, or with a side's `name` `SIDE: NODE` (`SIDE` for a single node).
fn column_name(name: Option<&str>, node: &Node, nodes: usize) -> String {
    let node_name = shown_within(&node.name, MAX_NAME_CHARACTERS);
    match name {
        None => node_name,
        Some(name) if nodes == 1 => shown_within(name, MAX_NAME_CHARACTERS),
        Some(name) => shown_within(&format!("{name}: {node_name}"), MAX_NAME_CHARACTERS),
    }
}

fn measured(one: &Measurement, cpus: usize) -> Value {
    let (status, reason) = one.effective_status();
    let figure = |metric: &MetricResult| {
        json!({
            "name": metric.name,
            "unit": metric.unit.name(),
            "better": metric.better.word(),
            "n": metric.summary.n,
            "median": metric.summary.median,
            "ci95": metric.summary.ci95,
            "of_limit": metric.of_limit,
        })
    };
    json!({
        "id": one.case.id().as_str(),
        "label": label::full(&one.case),
        "status": status.word(),
        "reason": reason.map(|reason| shown_within(&reason, 300)),
        "interrupted": ExcludedShare::of(one.conditions.excluded) != ExcludedShare::Little
            || one.conditions.disturbed(&one.case, cpus) > MOST_TAKEN,
        "figures": one.metrics.iter().map(figure).collect::<Vec<_>>(),
    })
}
