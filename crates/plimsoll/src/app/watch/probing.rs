//! The process of a watch: waits, probes, and writes the results to the journal.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use plimsoll_bench::subsystem_of;
use plimsoll_machine::processes::disk_bytes;
use plimsoll_machine::{Root, StateSnapshot, StateWatch, health};
use plimsoll_metal::usage::cpu_seconds_with_children;
use plimsoll_model::case::Case;
use plimsoll_model::sample::Outcome;
use plimsoll_output::report::Style;
use plimsoll_result::event::RunEvent;
use plimsoll_run::clock::SystemClock;
use plimsoll_run::worker::Workers;
use plimsoll_run::{Harness, Planned};
use plimsoll_system::wall;
use plimsoll_units::quantity::Unit;
use plimsoll_units::text::format_count;
use plimsoll_watch::{
    JournalContent, JournalEntry, ProbeSchedule, WatchJournal, WatchMark, WatchOrder, WatchProbe,
    WatchResources, WatchSession,
};

use super::super::prepared::PreparedRun;
use super::super::{first_node, own_program};
use crate::output::{complain, show_progress};

/// Longest wait before the clock that counts sleep is read again; a wait does not count it.
const MAX_SLEEP_LOOK_TIME: Duration = Duration::from_secs(20);
/// Duration of a check whether other processes use the machine.
const OBSERVED: Duration = Duration::from_secs(1);
/// CPUs that other processes keep busy from which on the machine is in use.
const BUSY_CPUS: f64 = 0.25;
/// Share of the time with a task that waits for I/O from which on the machine is in use.
const WAITING: f64 = 0.1;

/// Most seconds that a network case sends in addition to its samples and warm-up.
const MAX_EXTRA_SEND_SECONDS: f64 = 5.0;

pub(super) struct Probing<'a> {
    prepared: &'a PreparedRun,
    pub(super) journal: WatchJournal,
    schedule: ProbeSchedule,
    asked: Receiver<()>,
    style: Style,
    begun: &'a WatchOrder,
    /// A time of the watch and the corresponding time since boot, s.
    origin: (f64, f64),
    last: Option<f64>,
    probes: usize,
    state: StateWatch,
    snapshot: StateSnapshot,
    slept: f64,
    cpu: f64,
}

impl<'a> Probing<'a> {
    pub(super) fn new(
        prepared: &'a PreparedRun,
        kept: &'a JournalContent,
        journal: WatchJournal,
        session: &WatchSession,
        asked: Receiver<()>,
        style: Style,
    ) -> Self {
        let state = StateWatch::new(&Root::live());
        let last = kept.probes.last();
        let begun = &kept.begun;
        // Each session has its own random times.
        let seed = begun.run.seed.wrapping_add(kept.sessions.len() as u64);
        let spent = last.map(|probe| probe.spent).unwrap_or_default();
        Self {
            prepared,
            journal,
            schedule: ProbeSchedule::new(begun.every, begun.shares, kept.spent + session.spent, spent, seed),
            asked,
            style,
            begun,
            origin: (session.at, session.since_boot),
            last: last.map(|probe| probe.at),
            probes: kept.probes.len(),
            snapshot: state.snapshot(),
            state,
            slept: asleep(),
            cpu: session.spent.cpu,
        }
    }

    /// Probes until the watch's time is over or a signal comes. Returns whether a signal came.
    pub(super) fn is_stopped(&mut self) -> bool {
        let is_stopped = self.all();
        let spent = self.spent();
        self.write(&JournalEntry::Stopped(WatchMark { at: self.now(), busy: None, spent }));
        is_stopped
    }

    fn all(&mut self) -> bool {
        loop {
            let now = self.now();
            let due = self.last.map_or(now, |last| self.schedule.next(last).max(now));
            if due >= self.begun.seconds {
                return self.is_stopped_until(self.begun.seconds, None);
            }
            if self.is_stopped_until(due, Some(due)) {
                return true;
            }
            let at = self.now();
            self.last = Some(at);
            if self.begun.idle_only {
                let before = self.state.snapshot();
                if self.asked.recv_timeout(OBSERVED).is_ok() {
                    return true;
                }
                let busy = self.busy_since(&before);
                if busy.is_some() {
                    let spent = self.spent();
                    self.schedule.record_use(spent);
                    self.write(&JournalEntry::Passed(WatchMark { at, busy, spent }));
                    continue;
                }
            }
            if self.probe(at) {
                return true;
            }
        }
    }

    /// Returns the seconds since the watch started, including time when the machine was suspended.
    fn now(&self) -> f64 {
        let (at, since_boot) = self.origin;
        at + wall::since_boot() - since_boot
    }

    /// Waits until the time `until`, in s since the start of the watch, and shows `next`, the time
    /// of the next probe. Returns whether a signal ended the wait.
    fn is_stopped_until(&self, until: f64, next: Option<f64>) -> bool {
        self.shown(next);
        let mut is_stopped = false;
        while !is_stopped {
            let left = until - self.now();
            if left <= 0.0 {
                break;
            }
            let left = Duration::try_from_secs_f64(left).unwrap_or(MAX_SLEEP_LOOK_TIME);
            let came = self.asked.recv_timeout(left.min(MAX_SLEEP_LOOK_TIME));
            is_stopped = came != Err(RecvTimeoutError::Timeout);
        }
        show_progress(&self.style, "");
        is_stopped
    }

    /// Returns how many CPUs were busy since `before`, if too many for `--idle-only`, or if tasks
    /// waited for I/O; else `None`.
    fn busy_since(&self, before: &StateSnapshot) -> Option<f64> {
        let cpus = &self.prepared.machine.cpu.allowed;
        let change = before.until(&self.state.snapshot(), cpus);
        let busy = change.busy_share.unwrap_or(0.0) * cpus.len() as f64;
        let waits = change.io_pressure.is_some_and(|share| share >= WAITING);
        (busy >= BUSY_CPUS || waits).then_some(busy)
    }

    /// Adds `line` to the journal. Prints an error and goes on: a full disk may have room later.
    fn write(&mut self, line: &JournalEntry) {
        if let Err(e) = self.journal.add(line) {
            complain(&format!("{e}; this probe is lost, and the watch goes on"));
        }
    }

    fn spent(&mut self) -> WatchResources {
        let now = cpu_seconds_with_children();
        let cpu = now - std::mem::replace(&mut self.cpu, now);
        WatchResources { cpu, ..WatchResources::default() }
    }

    /// Measures all cases once, at second `at`, into the journal. Returns whether a signal came.
    fn probe(&mut self, at: f64) -> bool {
        let cpus = &self.prepared.machine.cpu.allowed;
        let before = self.snapshot.until(&self.state.snapshot(), cpus);
        let slept = asleep() - std::mem::replace(&mut self.slept, asleep());
        let (root, own) = (Root::live(), std::process::id());
        let bytes_before = disk_bytes(&root, own);
        let (mut outcomes, seconds, left_out, interrupted) = self.measured(at);
        let bytes = bytes_before.zip(disk_bytes(&root, own));
        let disk = bytes.map_or(0.0, |(before, after)| after.saturating_sub(before) as f64);
        let network = outcomes.iter().zip(seconds).map(|(outcome, seconds)| sent(outcome, seconds)).sum();
        let spent = WatchResources { disk, network, ..self.spent() };
        self.schedule.record_use(spent);
        self.snapshot = self.state.snapshot();
        if outcomes.is_empty() && interrupted {
            return true;
        }
        for outcome in outcomes.iter().filter(|_| self.probes == 0) {
            if let Some(why) = &outcome.ended {
                let case = plimsoll_bench::label::full(&outcome.case);
                complain(&format!("{case}: {why}; the watch goes on and tries again"));
            }
        }
        let celsius = health::temperatures(&Root::live()).into_iter().reduce(f64::max);
        outcomes.iter_mut().flat_map(|one| &mut one.samples).for_each(|sample| sample.at += at);
        let probe = WatchProbe {
            at,
            took: self.now() - at,
            spent,
            before,
            slept: if slept > 0.001 { slept } else { 0.0 },
            quota: self.state.quota(),
            io_limits: self.state.io_limits(),
            celsius,
            left_out,
            cases: outcomes,
        };
        self.write(&JournalEntry::Probe(Box::new(probe)));
        self.probes += 1;
        interrupted
    }

    /// Measures the cases whose daily disk or network budget allows it at second `at` of the watch.
    /// Returns outcomes, the seconds that each took, the cases left out, and true if interrupted.
    fn measured(&self, at: f64) -> (Vec<Outcome>, Vec<f64>, Vec<Case>, bool) {
        let allowed = |planned: &Planned| {
            let subsystem = subsystem_of(&planned.candidate.case);
            (!subsystem.on_files || self.schedule.allows_disk(at))
                && (!subsystem.uses_interfaces || self.schedule.allows_network(at))
        };
        let (planned, left_out): (Vec<Planned>, Vec<Planned>) =
            self.prepared.planned.iter().cloned().partition(allowed);
        let left_out = left_out.into_iter().map(|planned| planned.candidate.case).collect();
        let own = match own_program() {
            Ok(own) => own,
            Err(why) => {
                complain(&format!("{}; this probe is lost, and the watch goes on", why.line));
                return (Vec::new(), Vec::new(), left_out, false);
            }
        };
        let mut begun: Vec<f64> = Vec::new();
        let (machine, run) = (&self.prepared.machine, &self.begun.run);
        let mut station = Workers::new(own, machine, &self.prepared.options(), self.asked.clone());
        let mut clock = SystemClock::new(&Root::live(), &machine.cpu.allowed);
        let ran = Harness {
            station: &mut station,
            clock: &mut clock,
            emit: &mut |event| {
                if let RunEvent::Preparing { .. } = event {
                    begun.push(wall::monotonic());
                }
            },
            maker: self.prepared.maker(&first_node(run)),
            budget: None,
            reference_s: 0.0,
        }
        .run(&run.id, &planned, Vec::new());
        begun.push(wall::monotonic());
        let seconds = begun.iter().zip(begun.iter().skip(1)).map(|(from, to)| to - from).collect();
        (ran.outcomes, seconds, left_out, ran.interrupted || station.was_interrupted())
    }

    fn shown(&self, next: Option<f64>) {
        let until = |time: f64| plimsoll_watch::format_duration(time - self.now());
        let left = until(self.begun.seconds);
        let next = next.map_or_else(String::new, |next| format!(", the next one in {}", until(next)));
        let probes = format_count(self.probes, "probe");
        show_progress(&self.style, &format!("watch: {probes}{next}, {left} left"));
    }
}

fn asleep() -> f64 {
    wall::since_boot() - wall::monotonic()
}

/// Returns an upper bound of the bytes that a case sent in `seconds`, which include warm-up and
/// other sending outside its samples; 0 if it has no rate or no network.
fn sent(outcome: &Outcome, seconds: f64) -> f64 {
    if !subsystem_of(&outcome.case).uses_interfaces {
        return 0.0;
    }
    let headline = plimsoll_bench::headline(&outcome.case);
    let Some(metric) = headline.filter(|metric| metric.unit == Unit::BitPerSecond) else { return 0.0 };
    let rates = outcome.samples.iter().filter_map(|sample| sample.values.get(metric.name).copied());
    let timed: f64 = outcome.samples.iter().map(|sample| sample.elapsed).sum();
    rates.reduce(f64::max).unwrap_or(0.0) / 8.0 * seconds.min(3.0 * timed + MAX_EXTRA_SEND_SECONDS)
}
