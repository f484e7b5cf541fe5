//! `mpi.*`: what the ranks of the run measure of MPI itself, two of them or all, by the loop that measures everything.
//!
//! A case is prepared by nothing but a name for those who take part; each sample is an exercise that this rank begins and
//! that the others are called into.

use std::time::Duration;

use crossbeam_channel::{Receiver, after, select};

use super::super::prepared::Prepared;
use super::super::{Failure, own_program, peers};
use super::{Joint, between, hpl};
use crate::bench::mpi::{
    INTERFACE, LIBRARY, MACHINES, PATH_KERNEL, PATH_SEVERAL, SUBSYSTEM, UNDER_WAY, WINDOW, What, what,
};
use crate::bench::network::condition::{PATH_MTU, PATH_SPEED};
use crate::bench::{self, Candidate, Metric};
use crate::case::Case;
use crate::cli::Common;
use crate::clock::SystemClock;
use crate::cluster::{Exercise, Lead, Roster, Timed, Voice, library};
use crate::event::Event;
use crate::machine::{Machine, Nic, Root};
use crate::measurement::Measurement;
use crate::peer::{Companion, Companions, Through};
use crate::plan::Sampling;
use crate::run::Planned;
use crate::run::{Alone, Harness, Ran, Station};
use crate::sample::{Amount, CannotMeasure, Cause, Conditions, Facts, Offer, Origin, Sample, WrongAnswer};

/// Samples of each case, unless another number is asked for: the least that have an interval.
const SAMPLES: u32 = 5;
/// The longest of them, in seconds: there are many sizes and pairs.
const SAMPLE_TIME: f64 = 0.05;
/// The same for two ranks, which measure in both directions.
const ONE_DIRECTION: f64 = SAMPLE_TIME / 2.0;
/// The longest trip, window or sum that is waited for, in seconds.
const LONGEST: f64 = 4.0;
/// Bytes of the messages that are tried before larger ones.
const SMALL: usize = 64 << 10;
/// How much larger the next may be.
const STEP: usize = 16;
/// How long an exercise is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most of anything in one sample.
const MOST: u64 = 1 << 24;
/// Seconds that a tool may take.
const TOOL: f64 = 120.0;
/// Share of the bytes that an interface must have carried to be the way.
const CARRIED: f64 = 0.9;

/// The plan's cases of MPI itself that two ranks measure, or all of them, as they are sampled here.
pub(super) fn cases(together: &[Planned], who: Who) -> Vec<Planned> {
    let made = |planned: &Planned| {
        let sampling = &planned.sampling;
        let samples = Some(sampling.samples.unwrap_or(SAMPLES));
        let longest = if who == Who::Two { ONE_DIRECTION } else { SAMPLE_TIME };
        let sampling = Sampling { samples, sample_time: sampling.sample_time.min(longest), ..*sampling };
        let mut planned = Planned { sampling, budget: None, ..planned.clone() };
        planned.candidate.feasible = Ok(());
        planned
    };
    together.iter().filter(|planned| Who::of(&planned.candidate.case) == Some(who)).map(made).collect()
}

/// How many ranks measure a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Two,
    All,
}

impl Who {
    /// Of a case of MPI.
    pub(super) fn of(case: &Case) -> Option<Self> {
        let what = what(case)?;
        Some(if matches!(what, What::Trips { .. } | What::Windows { .. }) { Self::Two } else { Self::All })
    }
}

/// The station of these cases: whose ranks they are measured with.
pub(super) struct Ranks {
    machine: Machine,
    voice: Voice,
    interrupts: Receiver<()>,
    /// Who takes part, this rank first.
    pub(super) with: Vec<usize>,
    tools: Option<Tools>,
}

/// Where a tool stands beside a pair of machines, there are no more.
const ONE_PAIR: usize = 2;

/// The tools beside the cases.
struct Tools {
    companions: Companions,
    /// Machines that they are started on.
    machines: usize,
    /// What starts them there, or why nothing can.
    through: Result<Through, String>,
}

impl Tools {
    /// What starts them beside this case.
    fn through(&self, case: &Case) -> Result<Through, String> {
        if Who::of(case) == Some(Who::Two) && self.machines > ONE_PAIR {
            return Err(
                "a reference tool runs for one pair of machines only: start the run on exactly two machines"
                    .to_owned(),
            );
        }
        self.through.clone()
    }
}

impl Ranks {
    pub(super) fn new(prepared: &Prepared, voice: Voice, interrupts: Receiver<()>) -> Self {
        let machine = prepared.machine.clone();
        Self { machine, voice, interrupts, with: Vec::new(), tools: None }
    }

    /// With the tools that were asked for beside these cases, started on all machines of the run.
    ///
    /// # Errors
    /// This program's own file cannot be found, or a name that is no tool.
    pub(super) fn beside(
        mut self,
        together: &[Planned],
        prepared: &Prepared,
        common: &Common,
        roster: &Roster,
    ) -> Result<Self, Failure> {
        let planned = together.iter().filter(|planned| is_mpi(planned)).cloned().collect();
        let prepared = Prepared { planned, ..prepared.clone() };
        let found = peers::companions(common, &own_program()?, self.interrupts.clone(), &prepared)?;
        self.tools = found.map(|companions| {
            let through = hpl::through(&companions.search, roster, TOOL).map_err(|why| why.reason);
            Tools { companions, machines: roster.members.len(), through }
        });
        Ok(self)
    }

    /// What all machines of the run measure together, unless it ends before.
    pub(super) fn of_all(
        &mut self,
        together: &[Planned],
        joint: &Joint<'_>,
        lead: &mut Lead<'_>,
    ) -> Vec<Measurement> {
        let planned = cases(together, Who::All);
        if planned.is_empty() || lead.ended().interrupted {
            return Vec::new();
        }
        self.with = joint.roster.members.iter().map(|member| member.rank).collect();
        let ran = self.measured(&planned, joint.prepared, joint.emit);
        if ran.interrupted {
            lead.stop();
        }
        ran.measurements(joint.maker())
    }

    /// Measures these cases.
    pub(super) fn measured(&mut self, planned: &[Planned], prepared: &Prepared, emit: &dyn Fn(Event)) -> Ran {
        Harness {
            station: self,
            clock: &mut SystemClock::new(&Root::live(), &prepared.machine.cpu.allowed),
            pace: &mut Alone,
            // The rows of all pairs come together elsewhere.
            emit: &mut |event| {
                if matches!(event, Event::Preparing { .. }) {
                    emit(event);
                }
            },
            maker: prepared.maker(""),
            budget: None,
            beside_s: 0.0,
            few_pairs: prepared.plan.scale < 1.0,
        }
        .run("", planned, Vec::new())
    }
}

impl Station for Ranks {
    fn prepare(
        &mut self,
        candidate: &Candidate,
        _: Option<f64>,
    ) -> Result<Box<dyn bench::Prepared>, CannotMeasure> {
        let case = &candidate.case;
        if self.with.len() < 2 {
            return Err(no_partner());
        }
        let (Some(what), Some(metric)) = (what(case), between::headline(case)) else {
            return Err(CannotMeasure::not_here("no case of MPI"));
        };
        let mut exercised = Exercised {
            exercise: Exercise { what, times: 1, ranks: self.with.clone(), seed: 0 },
            metric,
            machine: self.machine.clone(),
            voice: self.voice.clone(),
            interrupts: self.interrupts.clone(),
            way: Way::default(),
            wrong: None,
        };
        exercised.is_quick_enough()?;
        Ok(Box::new(exercised))
    }

    fn beside(&mut self, planned: &Planned, offer: &Offer) -> Vec<Companion> {
        let case = &planned.candidate.case;
        let Some(tools) = &mut self.tools else { return Vec::new() };
        tools.companions.through = Some(tools.through(case));
        tools.companions.beside(&planned.against, case, &self.machine, offer)
    }
}

/// A case that is ready.
struct Exercised {
    exercise: Exercise,
    metric: Metric,
    machine: Machine,
    voice: Voice,
    interrupts: Receiver<()>,
    way: Way,
    wrong: Option<String>,
}

impl Exercised {
    /// Refuses what would take longer than anybody waits for: a rank that is busy says nothing meanwhile. Smaller messages
    /// than its own are tried first, and each tells whether the next can be.
    fn is_quick_enough(&mut self) -> Result<(), CannotMeasure> {
        let what = self.exercise.what;
        // A window has none of a trip's ways back.
        let trips = if matches!(what, What::Windows { .. }) { WINDOW as f64 / 2.0 } else { 1.0 };
        let bytes = what.bytes().max(1);
        let mut tried = bytes.min(SMALL);
        loop {
            self.exercise.what = what.least(tried);
            let took = self.done(1)?.seconds;
            let next = bytes.min(STEP * tried);
            let more = if tried < bytes { next as f64 / tried as f64 } else { trips };
            if took * more > LONGEST {
                return Err(too_long(what, took * trips * bytes as f64 / tried as f64));
            }
            if tried == bytes {
                self.exercise.what = what;
                return Ok(());
            }
            tried = next;
        }
    }

    fn done(&mut self, times: u64) -> Result<Timed, CannotMeasure> {
        self.exercise.times = times;
        self.exercise.seed += 1;
        let timed = self.voice.exercise(self.exercise.clone());
        awaited(&timed, &self.interrupts, PATIENCE)
    }

    /// A sample of so many.
    fn sampled(&mut self, times: u64) -> Result<Sample, CannotMeasure> {
        let before = sent(&Root::live());
        let timed = self.done(times)?;
        self.way = Way::between(&before, &sent(&Root::live()), self.payload() * times as f64, &self.machine);
        self.wrong = self.wrong.take().or(timed.wrong);
        let value = match self.exercise.what {
            What::Trips { .. } => timed.seconds / 2.0,
            What::Windows { bytes } => (WINDOW * bytes) as f64 / timed.seconds,
            What::Sums { .. } | What::Barriers => timed.seconds,
        };
        Ok(Sample {
            elapsed: timed.seconds * times as f64,
            work: Some(times),
            values: [(self.metric.name.to_owned(), value)].into(),
            conditions: self.way.conditions(),
            ..Sample::default()
        })
    }

    /// Bytes that this rank sends at least, each time; of the others their algorithm decides.
    fn payload(&self) -> f64 {
        match self.exercise.what {
            What::Trips { bytes } => bytes as f64,
            What::Windows { bytes } => (WINDOW * bytes) as f64,
            What::Sums { .. } | What::Barriers => 0.0,
        }
    }
}

impl bench::Prepared for Exercised {
    fn sample(&mut self, amount: Amount) -> Result<Sample, CannotMeasure> {
        let wanted = match amount {
            Amount::Work(times) => return self.sampled(times.clamp(1, MOST)),
            Amount::Seconds(seconds) => seconds,
        };
        let mut times = 1;
        loop {
            let sample = self.sampled(times)?;
            // Half of it is enough to go by.
            if 2.0 * sample.elapsed >= wanted || times >= MOST {
                return Ok(sample);
            }
            let enough = (times as f64 * wanted / sample.elapsed.max(1e-9)) as u64;
            times = enough.clamp(2 * times, 64 * times).min(MOST);
        }
    }

    fn verify(&mut self) -> Result<(), CannotMeasure> {
        match self.wrong.take() {
            None => Ok(()),
            Some(why) => Err(WrongAnswer::new(Origin::Network, "MPI", "other bytes").detail(why).into()),
        }
    }

    fn facts(&self) -> Facts {
        let window = matches!(self.exercise.what, What::Windows { .. }).then_some(WINDOW);
        let mut facts = Facts::default();
        facts.achieved.set_some(&LIBRARY, library());
        facts.achieved.set_some(&UNDER_WAY, window);
        facts.achieved.set_some(&INTERFACE, self.way.interface.clone());
        facts.achieved.set(&MACHINES, self.exercise.ranks.len());
        facts
    }
}

/// Bytes that an interface of the kernel has sent.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    interface: String,
    bytes: u64,
}

/// Those of all interfaces of this network namespace.
fn sent(root: &Root) -> Vec<Sent> {
    root.text("proc/net/dev").unwrap_or_default().lines().filter_map(sent_by).collect()
}

/// A line of `/proc/net/dev`: name, colon, eight numbers of what was received, and then of what was sent, bytes first.
fn sent_by(line: &str) -> Option<Sent> {
    let (name, numbers) = line.split_once(':')?;
    let bytes = numbers.split_whitespace().nth(8)?.parse().ok()?;
    Some(Sent { interface: crate::text::shown_within(name.trim(), 32), bytes })
}

/// The way that the bytes took: MPI does not tell, the interfaces' counters do.
#[derive(Clone, Debug, Default, PartialEq)]
struct Way {
    /// Whether there were bytes to see.
    seen: bool,
    /// Whether interfaces carried them together, each too little of it to be the way.
    several: bool,
    interface: Option<String>,
    speed: Option<u64>,
    mtu: Option<u64>,
}

impl Way {
    /// Between two looks at the counters, when so many bytes were sent.
    fn between(before: &[Sent], after: &[Sent], payload: f64, machine: &Machine) -> Self {
        let grown = |now: &Sent| {
            let then = before.iter().find(|then| then.interface == now.interface)?;
            Some(Sent { interface: now.interface.clone(), bytes: now.bytes.saturating_sub(then.bytes) })
        };
        let grown: Vec<Sent> = after.iter().filter_map(grown).collect();
        let enough = |bytes: f64| payload > 0.0 && bytes >= CARRIED * payload;
        let all = enough(grown.iter().map(|sent| sent.bytes as f64).sum());
        let most = grown.into_iter().max_by_key(|sent| sent.bytes);
        let interface = most.filter(|sent| enough(sent.bytes as f64)).map(|sent| sent.interface);
        let line = |nic: &&Nic| Some(&nic.name) == interface.as_ref() && nic.has_line();
        let nic = machine.network.iter().find(line);
        Self {
            seen: payload > 0.0,
            several: all && interface.is_none(),
            speed: nic.and_then(|nic| nic.line_rate(machine.virtualisation.is_virtual)),
            mtu: nic.and_then(|nic| nic.mtu_bytes),
            interface,
        }
    }

    fn conditions(&self) -> Conditions {
        let kernel = self.seen.then(|| f64::from(u8::from(self.interface.is_some())));
        let known = [
            (PATH_KERNEL, kernel),
            (PATH_SEVERAL, self.several.then_some(1.0)),
            (PATH_SPEED, self.speed.map(|bits| bits as f64)),
            (PATH_MTU, self.mtu.map(|bytes| bytes as f64)),
        ];
        Conditions { more: known.into_iter().collect(), ..Conditions::default() }
    }
}

/// What an exercise took, if it is over in time.
fn awaited(
    timed: &Receiver<Result<Timed, String>>,
    interrupts: &Receiver<()>,
    patience: Duration,
) -> Result<Timed, CannotMeasure> {
    let interrupted = || CannotMeasure::new(Cause::Interrupted, "the cluster run ends");
    select! {
        recv(timed) -> timed => timed.map_err(|_| interrupted())?.map_err(CannotMeasure::environment),
        recv(interrupts) -> _ => Err(interrupted()),
        recv(after(patience)) -> _ => Err(CannotMeasure::environment(format!(
            "it took longer than {} s: a machine or the network hangs, or is very slow",
            patience.as_secs()
        ))),
    }
}

/// Why something is not measured that would take so many seconds.
fn too_long(what: What, seconds: f64) -> CannotMeasure {
    let size = crate::quantity::format_size(what.bytes() as u64);
    let what = match what {
        What::Trips { .. } => format!("a message of {size} and its answer"),
        What::Windows { .. } => format!("{WINDOW} messages of {size}"),
        What::Sums { .. } => format!("a sum of {size}"),
        What::Barriers => "a barrier".to_owned(),
    };
    CannotMeasure::not_here(format!(
        "{what} would take about {seconds:.0} s on this network; choose a smaller --message"
    ))
}

/// Why it is not measured on one machine.
pub(super) fn no_partner() -> CannotMeasure {
    CannotMeasure::not_here("this case requires two or more machines: start a rank on each with mpirun")
}

/// Whether ranks measure it with MPI itself.
pub(super) fn is_mpi(planned: &Planned) -> bool {
    planned.candidate.case.subsystem() == SUBSYSTEM
}

#[cfg(test)]
mod tests;
