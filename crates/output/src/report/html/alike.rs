//! Groups neighbouring rows with common amounts and settings, shown once as a heading.

use plimsoll_bench::label::{added, label, named};
use plimsoll_model::case::{Case, Key};
use plimsoll_model::measurement::Measurement;

use super::stated::StatedCases;

pub(super) struct RowBlock<'a> {
    pub(super) heading: String,
    pub(super) warned: Vec<&'a str>,
    pub(super) rows: Vec<(&'a Measurement, String)>,
}

/// Splits measurements into blocks of neighbours that the plan gave the same benchmark and
/// settings, except counts such as threads. `stated` has the cases as planned.
pub(super) fn blocks<'a>(all: &[&'a Measurement], stated: &StatedCases) -> Vec<RowBlock<'a>> {
    let key = |m: &Measurement| {
        let is_load = |name: &str| Key::find(name).is_ok_and(Key::is_load);
        let settings = named(&stated.case(&m.case)).into_iter().filter(|(name, _)| !is_load(name));
        (m.case.benchmark().to_owned(), settings.collect::<Vec<_>>())
    };
    let mut found: Vec<RowBlock<'a>> = Vec::new();
    for one in all.chunk_by(|a, b| key(a) == key(b)).map(|rows| block(rows, stated)) {
        match found.last_mut() {
            Some(last) if last.heading.is_empty() && one.heading.is_empty() => last.rows.extend(one.rows),
            _ => found.push(one),
        }
    }
    found
}

/// Returns a name per case, in order: a short label that is unique among cases of its benchmark.
pub(super) fn short_names(cases: &[&Case]) -> Vec<String> {
    cases.iter().map(|case| short_name(case, cases)).collect()
}

fn short_name(case: &Case, all: &[&Case]) -> String {
    let mut left_out = added(case);
    while !left_out.is_empty() {
        let name = without(case, &left_out);
        let same = all.iter().filter(|other| other.benchmark() == case.benchmark());
        let twins: Vec<&&Case> = same.filter(|other| without(other, &left_out) == name).collect();
        let differs = |name: &&str| twins.iter().any(|twin| twin.get(name) != case.get(name));
        match left_out.iter().position(differs) {
            Some(place) => _ = left_out.remove(place),
            None => return name,
        }
    }
    label(case)
}

fn without(case: &Case, names: &[&str]) -> String {
    label(&case.clone().without(names))
}

fn block<'a>(rows: &[&'a Measurement], stated: &StatedCases) -> RowBlock<'a> {
    let common = common(rows, stated);
    let heading: Vec<String> = common.iter().map(|(name, value)| describe(rows, name, value)).collect();
    let left_out: Vec<&str> = common.iter().map(|(name, _)| *name).collect();
    let by_all = |code: &&str| rows.iter().all(|row| row.warning_codes().contains(code));
    let first = rows.first().filter(|_| !common.is_empty());
    let warned = first.map(|first| first.warning_codes().into_iter().filter(by_all).collect());
    let rows = rows.iter().map(|m| (*m, without(&m.case, &left_out))).collect();
    RowBlock { heading: heading.join(" · "), warned: warned.unwrap_or_default(), rows }
}

/// Returns planned settings (name, value) that all rows share; empty if that shortens no label.
fn common(rows: &[&Measurement], stated: &StatedCases) -> Vec<(&'static str, String)> {
    let [first, others @ ..] = rows else { return Vec::new() };
    let all: Vec<Vec<(&str, String)>> = others.iter().map(|m| named(&stated.case(&m.case))).collect();
    let mut found = named(&stated.case(&first.case));
    found.retain(|one| all.iter().all(|other| other.contains(one)));
    let added = added(&first.case);
    let is_worth_it = !others.is_empty() && found.iter().any(|(name, _)| added.contains(name));
    if is_worth_it { found } else { Vec::new() }
}

/// Formats the parameter `name` with its range in `rows`, and if different the planned value
/// `stated`: `size 1 GiB to 4 GiB of 8 GiB`.
fn describe(rows: &[&Measurement], name: &str, stated: &str) -> String {
    let text = |case| named(case).into_iter().find_map(|(known, value)| (known == name).then_some(value));
    let mut cases: Vec<&Case> = rows.iter().map(|m| &m.case).collect();
    cases.sort_by_key(|case| case.number(name).unwrap_or(0));
    let [least, most] = [cases.first(), cases.last()].map(|case| case.and_then(|case| text(case)));
    let measured = match (least, most) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (least, _) => least.unwrap_or_else(|| stated.to_owned()),
    };
    if measured == stated { format!("{name} {stated}") } else { format!("{name} {measured} of {stated}") }
}

#[cfg(test)]
mod tests {
    use plimsoll_result::document::Run;
    use plimsoll_result::fixture;
    use plimsoll_units::quantity::Unit;

    use super::*;

    fn moved(rest: &str) -> Measurement {
        let id = format!("disk.io/op=read/pattern=random/{rest}/scaling=strong");
        fixture::measured(&id, "rate", Unit::IoPerSecond, 1e4)
    }

    fn said_of(run: &Run) -> Vec<(String, Vec<String>)> {
        let all: Vec<&Measurement> = run.measurements.iter().collect();
        let blocks = blocks(&all, &StatedCases::of(run));
        blocks.into_iter().map(|b| (b.heading, b.rows.into_iter().map(|(_, name)| name).collect())).collect()
    }

    #[test]
    fn what_is_the_same_in_all_rows_is_said_once() {
        let told = |all: Vec<Measurement>| -> Vec<String> {
            let blocks = said_of(&fixture::run_of(all)).into_iter();
            blocks.map(|(heading, names)| format!("{heading}: {}", names.join(", "))).collect()
        };
        let blocks = [
            "1K/depth=1/threads=1/count=1000",
            "1K/depth=1/threads=2/count=1000",
            "1M/depth=1/threads=1/count=100",
        ];
        let wanted = [
            "depth 1 · count 1000 · scaling strong: random read 1 KiB, random read 1 KiB ×2",
            // One row has nothing in common with another.
            ": random read 1 MiB depth 1 count 100 scaling strong",
        ];
        assert_eq!(told(blocks.map(|block| moved(&format!("block={block}"))).into()), wanted);
        // Rows of several loads share a heading.
        let sent = |streams: u32| {
            let id = format!("network.tcp/message=1K/streams={streams}/count=1000/scaling=strong");
            fixture::measured(&id, "goodput", Unit::BitPerSecond, 1e9)
        };
        let wanted = ["count 1000 · scaling strong: TCP 1 KiB writes, TCP 1 KiB writes streams 2"];
        assert_eq!(told(vec![sent(1), sent(2)]), wanted);
        let read = |pattern: &str| {
            let id = format!("disk.io/op=read/pattern={pattern}/block=4K/depth=8");
            fixture::measured(&id, "rate", Unit::IoPerSecond, 1e4)
        };
        assert!(told(vec![read("random"), read("sequential")])[0].starts_with(": "));
    }

    #[test]
    fn names_have_as_much_as_tells_them_apart() {
        let cases: [Case; 4] = [
            "disk.io/op=read/pattern=random/block=1K/depth=1/engine=psync/count=50/scaling=strong",
            "disk.io/op=read/pattern=random/block=1K/depth=8/engine=psync/count=50/scaling=strong",
            "disk.io/op=read/pattern=random/block=1M/depth=1/engine=psync/count=100/scaling=strong",
            "network.tcp/message=1K/streams=1/volume=1G/scaling=strong",
        ]
        .map(|id| id.parse().unwrap());
        let names = short_names(&cases.iter().collect::<Vec<_>>());
        assert_eq!(names[..2], ["random read 1 KiB depth 1", "random read 1 KiB depth 8"]);
        assert_eq!(names[2..], ["random read 1 MiB depth 1", "TCP 1 KiB writes"]);
    }

    #[test]
    fn warnings_of_all_rows_are_in_the_heading() {
        let mut all = vec![moved("block=1K/depth=1/threads=1"), moved("block=1K/depth=1/threads=2")];
        let note = |code| fixture::note(code, "");
        all[0].warnings = vec![note("few-samples"), note("preempted")];
        all[1].warnings = vec![note("few-samples")];
        let run = fixture::run_of(all);
        let all: Vec<&Measurement> = run.measurements.iter().collect();
        assert_eq!(blocks(&all, &StatedCases::of(&run))[0].warned, ["few-samples"]);
        let single = blocks(&all[..1], &StatedCases::of(&run));
        assert!(single[0].warned.is_empty(), "a single row has no heading");
    }

    #[test]
    fn rows_that_the_plan_states_alike_are_alike_at_any_scale() {
        let mut run = fixture::run_of(vec![
            moved("block=1K/depth=1/threads=1/count=50"),
            moved("block=1K/depth=1/threads=2/count=100"),
        ]);
        run.plan.scale = 0.001;
        let group = "[[group]]\nbenchmark = 'disk.io'\nop = 'read'\npattern = 'random'\nblock = '1K'\n";
        run.plan.text = format!("{group}depth = 1\nthreads = [1, 2]\ncount = 1000\nscaling = 'strong'\n");
        let found = said_of(&run);
        assert_eq!(found[0].0, "depth 1 · count 50 to 100 of 1000 · scaling strong");
        assert_eq!(found[0].1, ["random read 1 KiB", "random read 1 KiB ×2"]);
    }

    #[test]
    fn ordinary_rows_have_no_heading_and_their_whole_names() {
        let run = fixture::run();
        for (heading, names) in said_of(&run) {
            assert!(heading.is_empty() || names.len() > 1, "{heading}: {names:?}");
        }
    }
}
