//! Two thousand machines that are made up, through the same gathering, outliers and reports as real ones.

use std::collections::VecDeque;
use std::sync::LazyLock;

use super::*;
use crate::cluster::message::{decoded, encoded};
use crate::cluster::{Link, Parcel};
use crate::document::Node;
use crate::document::RunStatus;
use crate::fixture;
use crate::measurement::Measurement;
use crate::report::{Style, Wishes, html, terminal};

const MANY: usize = 2000;
/// The one that is slow.
const SLOW: usize = 1234;
/// Between two of all ranks' words, in a large world whose ranks hold no connection.
const APART: Duration = Duration::from_millis(1);

fn hello(rank: usize) -> Hello {
    let host = format!("node{rank:04}");
    let text = |text: &str| text.to_owned();
    Hello {
        version: text("1"),
        schema: text("s"),
        plan: text("p"),
        key: rank.to_string(),
        host,
        cannot: None,
    }
}

/// What a machine measures: eight cases that differ a little from machine to machine.
fn measured(rank: usize) -> Run {
    static LIKE: LazyLock<Run> = LazyLock::new(|| {
        let mut run = fixture::run();
        run.measurements.truncate(1);
        run
    });
    let mut run = LIKE.clone();
    let name = hello(rank).host;
    let like = run.measurements.remove(0);
    run.measurements = (0..8_u64)
        .map(|case| {
            let mut own = Measurement { node: name.clone(), ..like.clone() };
            own.case = own.case.clone().with_count("threads", case + 1);
            // Within one part in a hundred of each other.
            let noise = 1.0 + ((rank * 7919 + case as usize * 104_729) % 1000) as f64 / 1e5;
            let share = if rank == SLOW && case == 3 { 0.6 } else { 1.0 };
            let metric = &mut own.metrics[0];
            metric.samples.iter_mut().for_each(|sample| *sample *= noise * share);
            let summary = &mut metric.summary;
            summary.median = crate::limit::median(metric.samples.clone()).unwrap();
            (summary.min, summary.max) = (summary.min * noise * share, summary.max * noise * share);
            summary.ci95 = summary.ci95.map(|ends| ends.map(|end| end * noise * share));
            metric.of_limit = metric.of_limit.map(|of_limit| of_limit * noise * share);
            own
        })
        .collect();
    run.nodes = vec![Node { name, machine: None }];
    run
}

/// The other ranks as rank 0 sees them: each says hello, and what it has measured once it is welcome; then it beats.
struct MadeUp {
    /// What each will have measured.
    finished: Vec<Vec<u8>>,
    inbox: VecDeque<Parcel>,
    /// Who beats next, and since when nobody has.
    next: usize,
    beat: Instant,
}

impl MadeUp {
    fn new() -> Self {
        let hello = |rank| Parcel { from: rank, bytes: Ok(encoded(&Message::Hello(Box::new(hello(rank))))) };
        let finished = |rank| {
            let finished = Finished { run: measured(rank), code: 0, interrupted: false };
            encoded(&Message::Finished(Box::new(finished)))
        };
        Self {
            finished: (0..MANY).map(finished).collect(),
            inbox: (1..MANY).map(hello).collect(),
            next: 1,
            beat: Instant::now(),
        }
    }
}

impl Link for MadeUp {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        MANY
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), String> {
        if matches!(decoded(bytes)?, Message::Welcome(_)) {
            let bytes = std::mem::take(&mut self.finished[to]);
            self.inbox.push_back(Parcel { from: to, bytes: Ok(bytes) });
        }
        Ok(())
    }

    fn receive(&mut self) -> Option<Parcel> {
        self.inbox.pop_front().or_else(|| {
            let from = (self.beat.elapsed() >= APART).then_some(self.next)?;
            (self.next, self.beat) = (from % (MANY - 1) + 1, Instant::now());
            Some(Parcel { from, bytes: Ok(Vec::new()) })
        })
    }

    fn busy(&self) -> bool {
        false
    }

    fn abort(&mut self, code: u8) -> ! {
        unreachable!("the made-up world ends with {code}")
    }
}

/// Tells how long the stages take, to whoever runs the test with `--nocapture`.
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    #[allow(clippy::print_stderr, reason = "the harness shows it to whoever asks")]
    fn lap(&mut self, stage: &str) {
        let took = std::mem::replace(&mut self.0, Instant::now()).elapsed();
        eprintln!("{:6.2} s  {stage}", took.as_secs_f64());
    }
}

#[test]
fn two_thousand_machines_are_gathered_and_the_slow_one_is_named_in_every_report() {
    let mut clock = Clock::start();
    let (alarm, _kept) = unbounded();
    let world = MadeUp::new();
    clock.lap("the machines' messages made up (not rank 0's work)");
    let fabric = Fabric::new(|| Ok(world), alarm, Duration::from_secs(60)).unwrap();
    let (_keep, interrupts) = unbounded();
    let roster = Roster::of(&cluster::introduced(&fabric, hello(0), &interrupts).unwrap()).unwrap();
    let told = Welcome { run: fixture::ID.to_owned(), seed: 1, name: None, order: Order::Together };
    let own = measured(0);
    let mut lead = Lead::admit(&fabric, interrupts, roster, &told);
    lead.run(|_| Finished { run: own.clone(), code: 0, interrupted: false }, |_, _| ());
    let mut ended = lead.end();
    assert_eq!((ended.finished.len(), ended.lost.len(), ended.interrupted), (MANY, 0, false));
    clock.lap("introduced, admitted, gathered");
    let header = Run { measurements: Vec::new(), ..own };
    let run = merged(header, &mut ended, Some(MANY), Duration::from_secs(1));
    fabric.leave().unwrap();
    clock.lap("one document of all, with outliers");
    assert_eq!((run.nodes.len(), run.measurements.len(), run.status), (MANY, 8 * MANY, RunStatus::Complete));
    let named: Vec<_> = run.findings.iter().map(|f| f.evidence["node"].as_str().unwrap()).collect();
    assert_eq!(named, ["node1234"], "{:?}", run.findings.iter().take(3).map(|f| &f.text).collect::<Vec<_>>());
    let page = html::page(std::slice::from_ref(&run), &html::Beside::default()).unwrap();
    clock.lap("page");
    assert!(page.contains("2000 machines") && page.contains("node1234"));
    assert!(page.len() < 16 << 20, "{} bytes", page.len());
    let mut text = Vec::new();
    terminal::print(&run, &mut text, &Style::detect(Wishes { no_color: true, quiet: true })).unwrap();
    clock.lap("table");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("2000 measured the same") && text.contains("node1234"), "{text}");
    let mut json = Vec::new();
    crate::report::json::write(&run, &mut json).unwrap();
    clock.lap("document written");
    // The document is read again, and a machine that is missing from it can be added later.
    let less = without(Run::parse(std::str::from_utf8(&json).unwrap()).unwrap(), &["node1234"]);
    let whole = with_late(less, &measured(SLOW)).unwrap().unwrap();
    clock.lap("document read, a late machine entered");
    assert_eq!((whole.nodes.len(), whole.measurements.len()), (MANY, 8 * MANY));
    assert!(whole.findings.iter().any(|f| f.code == "outlier"));
    assert_eq!(with_late(whole, &measured(SLOW)), Ok(None));
}

/// A run from which these machines were lost.
fn without(mut run: Run, lost: &[&str]) -> Run {
    let machines = run.nodes.len();
    run.nodes.retain(|node| !lost.contains(&node.name.as_str()));
    run.measurements.retain(|m| !lost.contains(&m.node.as_str()));
    let named = |name: &&str| cluster::Lost {
        rank: 1,
        name: (*name).to_owned(),
        why: "its process ended".to_owned(),
    };
    run.findings = lost.iter().map(|name| recovered::finding(&named(name), Some(machines))).collect();
    run.status = RunStatus::Partial;
    run
}

/// The run of so many machines, whole.
fn of(machines: usize) -> Run {
    let parts: Vec<Run> = (0..machines).map(measured).collect();
    let mut run = parts[0].clone();
    run.plan.cases = 8;
    run.nodes = parts.iter().flat_map(|part| part.nodes.clone()).collect();
    run.measurements = parts.into_iter().flat_map(|part| part.measurements).collect();
    run
}

#[test]
fn a_run_is_whole_when_the_last_lost_machine_was_entered() {
    let less = without(of(3), &["node0001", "node0002"]);
    let more = with_late(less, &measured(1)).unwrap().unwrap();
    let left = |run: &Run| -> Vec<serde_json::Value> {
        let lost = run.findings.iter().filter(|f| f.code == "machine-lost");
        lost.map(|f| f.evidence["node"].clone()).collect()
    };
    assert_eq!((more.status, left(&more)), (RunStatus::Partial, vec!["node0002".into()]));
    let whole = with_late(more, &measured(2)).unwrap().unwrap();
    assert_eq!((whole.status, left(&whole), whole.nodes.len()), (RunStatus::Complete, vec![], 3));
}

/// The launcher ends the others when one is lost, and those are not named; each has left what it had finished.
#[test]
fn a_machine_that_went_after_the_one_that_is_named_is_entered_as_well() {
    let mut less = without(of(3), &["node0001", "node0002"]);
    less.findings.truncate(1);
    let more = with_late(less, &measured(2)).unwrap().unwrap();
    assert_eq!((more.status, more.findings[0].code.as_str()), (RunStatus::Partial, "machine-lost"));
    let whole = with_late(more, &measured(1)).unwrap().unwrap();
    assert_eq!((whole.status, whole.nodes.len()), (RunStatus::Complete, 3));
}

#[test]
fn a_run_that_lacks_more_than_the_lost_machine_stays_partial() {
    // The machine itself has not measured all; another has not; pairs are missing.
    let mut cut = measured(2);
    cut.measurements.pop();
    let mut short = without(of(3), &["node0002"]);
    short.measurements.retain(|m| m.node != "node0001" || m.case.number("threads") != Some(8));
    let mut pairs = without(of(3), &["node0002"]);
    pairs.findings[0].evidence["machines"] = serde_json::Value::Null;
    let never_began = {
        let mut run = without(of(4), &["node0002"]);
        run.nodes.retain(|node| node.name != "node0003");
        run.measurements.retain(|m| m.node != "node0003");
        run
    };
    let whole = measured(2);
    for (less, part) in
        [(without(of(3), &["node0002"]), &cut), (short, &whole), (pairs, &whole), (never_began, &whole)]
    {
        let joined = with_late(less, part).unwrap().unwrap();
        assert_eq!(joined.status, RunStatus::Partial);
        assert!(joined.nodes.iter().any(|node| node.name == "node0002"));
    }
}

#[test]
fn a_redacted_copy_is_refused_and_the_run_stays_as_it_is() {
    let refused = |less: Run, part: &Run| with_late(less, &part.redacted().unwrap()).unwrap_err();
    // The lost machine's own copy, and the whole run that was exported.
    let less = without(of(3), &["node0002"]);
    for part in [&measured(2), &less] {
        let why = refused(less.clone(), part);
        assert!(why.contains("redacted copy"), "{why}");
    }
    // Where rank 0 was killed, nobody is named as lost.
    let unnamed = Run { findings: Vec::new(), ..less };
    assert!(refused(unnamed.clone(), &unnamed).contains("redacted copy"));
    // A run that lacks nothing takes nothing.
    assert_eq!(with_late(of(3), &of(3).redacted().unwrap()), Ok(None));
}
