//! How often noise alone has a machine named: fleets whose figures are drawn from those that one machine gave in many repeats.
//!
//! `plimsoll run quick --repeat 100 --json noise.json`, then
//! `cargo run --release -p plimsoll-result --example false_alarms noise.json [MACHINES [FLEETS]]`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::Run;
use plimsoll_result::finding::{self, Tried};
use plimsoll_stats::Seed;
use rand::{Rng, RngExt};

/// What one machine gave of each case.
type Recorded<'a> = BTreeMap<String, Vec<&'a Measurement>>;

fn recorded(run: &Run) -> Recorded<'_> {
    let mut cases = Recorded::new();
    let good = run.measurements.iter().filter(|m| m.status == Status::Ok && m.headline().is_some());
    good.for_each(|measurement| {
        cases.entry(measurement.case.id().to_string()).or_default().push(measurement)
    });
    cases
}

fn drawn(of: &[&Measurement], node: &str, random: &mut impl Rng) -> Measurement {
    Measurement { node: node.to_owned(), repeat: 0, ..of[random.random_range(0..of.len())].clone() }
}

/// Figures that stand out in a fleet, at first and when measured again.
fn fleet(header: &Run, cases: &Recorded<'_>, machines: usize, random: &mut impl Rng) -> (usize, usize) {
    let mut run = header.clone();
    for machine in 0..machines {
        let node = format!("n{machine}");
        run.measurements.extend(cases.values().map(|of| drawn(of, &node, random)));
    }
    run.findings = finding::findings(&run.measurements);
    let outliers = |run: &Run| run.findings.iter().filter(|finding| finding.code == "outlier").count();
    let at_first = outliers(&run);
    let again = finding::suspects(&run).into_iter().map(|suspect| {
        let of = &cases[&suspect.case];
        let (own, control) = (drawn(of, &suspect.node, random), drawn(of, &suspect.control, random));
        Tried { suspect, own, control }
    });
    let again: Vec<Tried> = again.collect();
    finding::judged(&mut run, &again);
    (at_first, outliers(&run))
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, usual: usize| words.get(place).and_then(|w| w.parse().ok()).unwrap_or(usual);
    let path =
        words.first().ok_or_else(|| io::Error::other("usage: false_alarms RUN.json [MACHINES [FLEETS]]"))?;
    let text = std::fs::read_to_string(path)?;
    let run = Run::parse_all(&text).next().and_then(Result::ok);
    let run = run.ok_or_else(|| io::Error::other(format!("{path}: no run document")))?;
    let (cases, machines, fleets) = (recorded(&run), number(1, 200), number(2, 100));
    let mut random = Seed::new(7, "false", "alarms").generator();
    let made: Vec<_> = (0..fleets).map(|_| fleet(&run.header(), &cases, machines, &mut random)).collect();
    let with = |count: fn(&(usize, usize)) -> usize| made.iter().filter(|one| count(one) > 0).count();
    writeln!(
        io::stdout(),
        "{} cases, {} figures each; {fleets} fleets of {machines}: figures stand out at first in {} ({} figures), and when measured again in {} ({})",
        cases.len(),
        cases.values().map(Vec::len).min().unwrap_or(0),
        with(|one| one.0),
        made.iter().map(|one| one.0).sum::<usize>(),
        with(|one| one.1),
        made.iter().map(|one| one.1).sum::<usize>(),
    )
}
