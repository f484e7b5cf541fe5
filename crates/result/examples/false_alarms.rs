//! Measures how often noise alone makes a node an outlier, with fleets drawn from repeated runs of
//! one machine.
//!
//! `plimsoll run quick --repeat 100 --json noise.json`, then
//! `cargo run --release -p plimsoll-result --example false_alarms noise.json [MACHINES [FLEETS]]`;
//! a directory of documents also works.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::Run;
use plimsoll_result::finding::evidence::OutlierEvidence;
use plimsoll_result::finding::{self, OutlierRetest};
use plimsoll_stats::Seed;
use rand::{Rng, RngExt};

type Repeat<'a> = BTreeMap<String, &'a Measurement>;

fn documents(path: &Path) -> io::Result<Vec<Run>> {
    let files = match path.is_dir() {
        true => std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?,
        false => vec![path.to_owned()],
    };
    let texts = files.iter().map(std::fs::read_to_string).collect::<io::Result<Vec<_>>>()?;
    Ok(texts.iter().flat_map(|text| Run::parse_all(text)).filter_map(Result::ok).collect())
}

fn repeats(runs: &[Run]) -> Vec<Repeat<'_>> {
    let mut repeats: BTreeMap<(usize, u32), Repeat<'_>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for measurement in
            run.measurements.iter().filter(|m| m.status == Status::Ok && m.headline().is_some())
        {
            let repeat = repeats.entry((number, measurement.repeat)).or_default();
            repeat.insert(measurement.case.id().to_string(), measurement);
        }
    }
    repeats.into_values().collect()
}

fn drawn<'a>(repeats: &'a [Repeat<'a>], random: &mut impl Rng) -> &'a Repeat<'a> {
    &repeats[random.random_range(0..repeats.len())]
}

fn on(node: &str, of: &Measurement) -> Measurement {
    Measurement { node: node.to_owned(), repeat: 0, ..of.clone() }
}

/// Returns the measurement of `case` in a random repetition, as if `node` had made it.
fn again(repeats: &[Repeat<'_>], case: &str, node: &str, random: &mut impl Rng) -> Measurement {
    let with: Vec<&Measurement> = repeats.iter().filter_map(|repeat| repeat.get(case).copied()).collect();
    on(node, with[random.random_range(0..with.len())])
}

fn outliers(run: &Run) -> Vec<String> {
    let found = run.findings.iter().filter(|finding| finding.code == "outlier");
    found.filter_map(|finding| finding.evidence_as::<OutlierEvidence>().map(|outlier| outlier.case)).collect()
}

/// Returns the outlier cases of `machines` random nodes, before and after retests, and the retests.
fn fleet(
    header: &Run,
    repeats: &[Repeat<'_>],
    machines: usize,
    random: &mut impl Rng,
) -> ([Vec<String>; 2], usize) {
    let mut run = header.clone();
    for machine in 0..machines {
        let node = format!("n{machine}");
        run.measurements.extend(drawn(repeats, random).values().map(|of| on(&node, of)));
    }
    run.findings = finding::findings(&run.measurements);
    let at_first = outliers(&run);
    let mut tried = Vec::new();
    loop {
        let next = finding::next_retests(&run, &tried);
        if next.is_empty() {
            break;
        }
        for suspect in next {
            let [own, control] =
                [&suspect.node, &suspect.control].map(|node| again(repeats, &suspect.case, node, random));
            tried.push(OutlierRetest { suspect, own, control });
        }
    }
    finding::apply_retests(&mut run, &tried);
    ([at_first, outliers(&run)], tried.len())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, usual: usize| words.get(place).and_then(|w| w.parse().ok()).unwrap_or(usual);
    let path =
        words.first().ok_or_else(|| io::Error::other("usage: false_alarms RUN.json [MACHINES [FLEETS]]"))?;
    let runs = documents(Path::new(path))?;
    let first = runs.first().ok_or_else(|| io::Error::other(format!("{path}: no run document")))?;
    let (repeats, machines, fleets) = (repeats(&runs), number(1, 200), number(2, 100));
    let mut random = Seed::new(7, "false", "alarms").generator();
    let made: Vec<_> = (0..fleets).map(|_| fleet(&first.header(), &repeats, machines, &mut random)).collect();
    let with = |place: usize| made.iter().filter(|(found, _)| !found[place].is_empty()).count();
    let mut out = io::stdout();
    writeln!(
        out,
        "{} runs; {fleets} fleets of {machines}: figures stand out at first in {}, and after {} more measurements in {}",
        repeats.len(),
        with(0),
        made.iter().map(|(_, tried)| tried).sum::<usize>(),
        with(1),
    )?;
    let mut by_case: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (place, case) in
        made.iter().flat_map(|(found, _)| (0..2).flat_map(|n| found[n].iter().map(move |case| (n, case))))
    {
        by_case.entry(case).or_default()[place] += 1;
    }
    by_case.iter().try_for_each(|(case, [first, last])| writeln!(out, "{first:5} {last:4}  {case}"))
}
