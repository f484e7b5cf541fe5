//! Two thousand machines that are made up, through the same gathering, outliers and reports as real ones.

use std::collections::VecDeque;

use super::*;
use crate::cluster::message::{decoded, encoded};
use crate::cluster::{Link, Parcel};
use crate::document::Node;
use crate::fixture;
use crate::measurement::Measurement;
use crate::report::{Style, Wishes, html, terminal};

const MANY: usize = 2000;
/// The one that is slow.
const SLOW: usize = 1234;

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
    let mut run = fixture::run();
    let name = hello(rank).host;
    let like = run.measurements[0].clone();
    run.measurements = (0..8_u64)
        .map(|case| {
            let mut own = Measurement { node: name.clone(), ..like.clone() };
            own.case = own.case.clone().with_count("threads", case + 1);
            // Within one part in a hundred of each other.
            let noise = 1.0 + ((rank * 7919 + case as usize * 104_729) % 1000) as f64 / 1e5;
            let share = if rank == SLOW && case == 3 { 0.6 } else { 1.0 };
            let metric = &mut own.metrics[0];
            metric.samples.iter_mut().for_each(|sample| *sample *= noise * share);
            metric.summary.median = crate::limit::median(metric.samples.clone()).unwrap();
            metric.summary.ci95 = metric.summary.ci95.map(|ends| ends.map(|end| end * noise * share));
            own
        })
        .collect();
    run.nodes = vec![Node { name, machine: run.machine.clone() }];
    run
}

/// The other ranks as rank 0 sees them: each says hello, and what it has measured once it is welcome; then it beats.
struct MadeUp {
    inbox: VecDeque<Parcel>,
    beats: usize,
}

impl MadeUp {
    fn say(&mut self, from: usize, message: &Message) {
        self.inbox.push_back(Parcel { from, bytes: Ok(encoded(message)) });
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
            let finished = Finished { run: measured(to), code: 0, interrupted: false };
            self.say(to, &Message::Finished(Box::new(finished)));
        }
        Ok(())
    }

    fn receive(&mut self) -> Option<Parcel> {
        self.inbox.pop_front().or_else(|| {
            self.beats = (self.beats + 1) % MANY;
            // After the last of them there is nothing for a while.
            (self.beats > 0).then(|| Parcel { from: self.beats, bytes: Ok(Vec::new()) })
        })
    }

    fn abort(&mut self, code: u8) -> ! {
        unreachable!("the made-up world ends with {code}")
    }
}

#[test]
fn two_thousand_machines_are_gathered_and_the_slow_one_is_named_in_every_report() {
    let (alarm, _kept) = unbounded();
    let mut world = MadeUp { inbox: VecDeque::new(), beats: 0 };
    (1..MANY).for_each(|rank| world.say(rank, &Message::Hello(Box::new(hello(rank)))));
    let fabric = Fabric::new(|| Ok(world), alarm, Duration::from_secs(60)).unwrap();
    let (_keep, interrupts) = unbounded();
    let roster = Roster::of(&cluster::introduced(&fabric, hello(0), &interrupts).unwrap()).unwrap();
    let told = Welcome { run: fixture::ID.to_owned(), seed: 1, name: None, order: Order::Together };
    let own = measured(0);
    let mut lead = Lead::admit(&fabric, interrupts, roster, &told);
    lead.run(|_| Finished { run: own.clone(), code: 0, interrupted: false }, |_, _| ());
    let ended = lead.end();
    assert_eq!((ended.finished.len(), ended.lost.len(), ended.interrupted), (MANY, 0, false));
    let header = Run { measurements: Vec::new(), ..own };
    let run = merged(header, &ended, Duration::from_secs(1));
    fabric.leave();
    assert_eq!((run.nodes.len(), run.measurements.len(), run.status), (MANY, 8 * MANY, RunStatus::Complete));
    let named: Vec<_> = run.findings.iter().map(|f| f.evidence["node"].as_str().unwrap()).collect();
    assert_eq!(named, ["node1234"], "{:?}", run.findings.iter().take(3).map(|f| &f.text).collect::<Vec<_>>());
    let page = html::page(std::slice::from_ref(&run), &html::Beside::default()).unwrap();
    assert!(page.contains("2000 machines") && page.contains("node1234"));
    assert!(page.len() < 16 << 20, "{} bytes", page.len());
    let mut text = Vec::new();
    terminal::print(&run, &mut text, &Style::detect(Wishes { no_color: true, quiet: true })).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("2000 measured the same") && text.contains("node1234"), "{text}");
    let mut json = Vec::new();
    crate::report::json::write(&run, &mut json).unwrap();
    // The document is read again, and a machine that is missing from it can be added later.
    let mut less = Run::parse(std::str::from_utf8(&json).unwrap()).unwrap();
    less.nodes.retain(|node| node.name != "node1234");
    less.measurements.retain(|m| m.node != "node1234");
    let whole = with_late(less, &measured(SLOW)).unwrap();
    assert_eq!((whole.nodes.len(), whole.measurements.len()), (MANY, 8 * MANY));
    assert!(whole.findings.iter().any(|f| f.code == "outlier"));
    assert_eq!(with_late(whole, &measured(SLOW)), None);
}
