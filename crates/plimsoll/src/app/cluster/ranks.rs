//! `mpi.*`: what the ranks of the run measure of MPI itself, two of them or all, by the loop that measures everything.
//!
//! A case is prepared by nothing but a name for those who take part; each sample is an exercise that this rank begins and
//! that the others are called into.

use std::time::Duration;

use crossbeam_channel::{Receiver, after, select};

use super::super::prepared::Prepared;
use super::super::{Failure, own_program, peers};
use super::hpl::{self, Solver};
use crate::bench::mpi::{SUBSYSTEM, WINDOW};
use crate::bench::{self, Metric};
use crate::case::Case;
use crate::cli::Common;
use crate::clock::SystemClock;
use crate::cluster::{Exercise, Lead, Number, Roster, Timed, Voice, What, library};
use crate::event::Event;
use crate::machine::{Machine, Nic, Root};
use crate::measurement::{Maker, Measurement};
use crate::peer::{Companion, Companions, Through};
use crate::plan::Sampling;
use crate::resolve::Planned;
use crate::run::{Alone, Harness, Ran, Station};
use crate::sample::{Amount, CannotMeasure, Cause, Conditions, Facts, Offer, Sample, WrongAnswer};

/// Samples of each case, unless another number is asked for: the least that have an interval.
const SAMPLES: u32 = 5;
/// The longest of them, in seconds: there are many sizes and pairs.
const SAMPLE_TIME: f64 = 0.05;
/// The longest window of messages that is waited for, in seconds.
const LONGEST: f64 = 4.0;
/// How long an exercise may take before one of its ranks is taken for lost.
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
        let sampling = Sampling { samples, sample_time: sampling.sample_time.min(SAMPLE_TIME), ..*sampling };
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

fn what(case: &Case) -> Option<What> {
    let bytes = || usize::try_from(case.number("message")?).ok();
    match case.benchmark() {
        "mpi.latency" => Some(What::Trips { bytes: bytes()? }),
        "mpi.bandwidth" => Some(What::Windows { bytes: bytes()? }),
        "mpi.allreduce" if case.word("type") == Some("f32") => {
            Some(What::Sums { number: Number::F32, count: bytes()? / 4 })
        }
        "mpi.allreduce" => Some(What::Sums { number: Number::F64, count: bytes()? / 8 }),
        "mpi.barrier" => Some(What::Barriers),
        _ => None,
    }
}

/// The station of these cases: whose ranks they are measured with.
pub(super) struct Ranks {
    machine: Machine,
    voice: Voice,
    interrupts: Receiver<()>,
    /// Who takes part, this rank first.
    pub(super) with: Vec<usize>,
    tools: Tools,
}

/// Where a tool stands beside a pair of machines, there are no more.
const ONE_PAIR: usize = 2;

/// The tools beside the cases.
#[derive(Default)]
struct Tools {
    companions: Option<Companions>,
    /// Machines that they are started on.
    machines: usize,
    /// Why none of them can be started.
    cannot: Option<String>,
}

impl Tools {
    /// Why none can stand beside this case.
    fn cannot(&self, case: &Case) -> Option<String> {
        let too_many = Who::of(case) == Some(Who::Two) && self.machines > ONE_PAIR;
        let why = too_many
            .then(|| "it would stand beside one pair of all: start the run on two machines".to_owned());
        why.or(self.cannot.clone())
    }
}

impl Ranks {
    pub(super) fn new(prepared: &Prepared, voice: Voice, interrupts: Receiver<()>) -> Self {
        let machine = prepared.machine.clone();
        Self { machine, voice, interrupts, with: Vec::new(), tools: Tools::default() }
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
        let Some(mut companions) = found else { return Ok(self) };
        let arguments = hpl::launch(roster, std::env::vars()).map_err(|why| why.reason);
        let program = companions.search.find("mpirun", "mpirun", &[]).map_err(|why| format!("mpirun: {why}"));
        match arguments
            .and_then(|arguments| Ok(Through { program: program?, arguments, export: "-x", limit: TOOL }))
        {
            Ok(through) => companions.through = Some(through),
            Err(why) => self.tools.cannot = Some(why),
        }
        (self.tools.companions, self.tools.machines) = (Some(companions), roster.members.len());
        Ok(self)
    }

    /// What all machines of the run measure together, unless it ends before.
    pub(super) fn of_all(
        &mut self,
        together: &[Planned],
        solver: &Solver<'_>,
        lead: &mut Lead<'_>,
    ) -> Vec<Measurement> {
        let planned = cases(together, Who::All);
        if planned.is_empty() || lead.ended().interrupted {
            return Vec::new();
        }
        self.with = solver.roster.members.iter().map(|member| member.rank).collect();
        let ran = self.measured(&planned, solver.prepared, solver.emit);
        if ran.interrupted {
            lead.stop();
        }
        ran.measurements(solver.maker())
    }

    /// Measures these cases.
    pub(super) fn measured(&mut self, planned: &[Planned], prepared: &Prepared, emit: &dyn Fn(Event)) -> Ran {
        let maker = Maker {
            machine: &prepared.machine,
            node: "",
            seed: prepared.plan.seed,
            user_limits: &prepared.user_limits,
            margin: prepared.margin,
        };
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
            maker,
            budget: None,
            beside_s: 0.0,
        }
        .run("", planned, Vec::new())
    }
}

impl Station for Ranks {
    fn prepare(&mut self, case: &Case) -> Result<Box<dyn bench::Prepared>, CannotMeasure> {
        if self.with.len() < 2 {
            return Err(no_partner());
        }
        let metric = bench::find(case.benchmark()).and_then(|b| b.metrics(case).first().copied());
        let (Some(what), Some(metric)) = (what(case), metric) else {
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
        let cannot = self.tools.cannot(case);
        let Some(companions) = &mut self.tools.companions else { return Vec::new() };
        let mut beside = companions.beside(&planned.against, case, &self.machine, offer);
        for one in beside.iter_mut().filter(|_| cannot.is_some()) {
            one.prepared = None;
            one.about.unavailable = one.about.unavailable.take().or(cannot.clone());
        }
        beside
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
    /// Refuses windows that would take longer than anybody waits for: a rank that is busy says nothing meanwhile.
    fn is_quick_enough(&mut self) -> Result<(), CannotMeasure> {
        let What::Windows { bytes } = self.exercise.what else { return Ok(()) };
        let what = std::mem::replace(&mut self.exercise.what, What::Trips { bytes });
        let trip = self.done(1);
        self.exercise.what = what;
        let seconds = trip?.seconds / 2.0 * WINDOW as f64;
        if seconds <= LONGEST {
            return Ok(());
        }
        let size = crate::quantity::format_size(bytes as u64);
        Err(CannotMeasure::not_here(format!(
            "{WINDOW} messages of {size} would take about {seconds:.0} s on this way; name a smaller --message"
        )))
    }

    fn done(&mut self, times: u64) -> Result<Timed, CannotMeasure> {
        self.exercise.times = times;
        self.exercise.seed += 1;
        let timed = self.voice.exercise(self.exercise.clone());
        let interrupted =
            || CannotMeasure { cause: Cause::Interrupted, reason: "the cluster run ends".to_owned() };
        select! {
            recv(timed) -> timed => timed.map_err(|_| interrupted())?.map_err(CannotMeasure::environment),
            recv(self.interrupts) -> _ => Err(interrupted()),
            recv(after(PATIENCE)) -> _ => Err(interrupted()),
        }
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

    fn verify(&mut self) -> Result<(), WrongAnswer> {
        self.wrong.take().map_or(Ok(()), |why| Err(WrongAnswer(why)))
    }

    fn facts(&self) -> Facts {
        let window = matches!(self.exercise.what, What::Windows { .. }).then(|| WINDOW.into());
        let ranks = self.exercise.ranks.len().into();
        let known = [
            ("mpi", library().map(Into::into)),
            ("window", window),
            ("interface", self.way.interface.clone().map(Into::into)),
            ("machines", Some(ranks)),
        ];
        let achieved =
            known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        Facts { achieved, ..Facts::default() }
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
        let most = after.iter().filter_map(grown).max_by_key(|sent| sent.bytes);
        let carried = most.filter(|sent| payload > 0.0 && sent.bytes as f64 >= CARRIED * payload);
        let interface = carried.map(|sent| sent.interface);
        let line = |nic: &&Nic| Some(&nic.name) == interface.as_ref() && nic.has_line();
        let nic = machine.network.iter().find(line);
        Self {
            seen: payload > 0.0,
            speed: nic.and_then(|nic| nic.speed_bit_per_s),
            mtu: nic.and_then(|nic| nic.mtu_bytes),
            interface,
        }
    }

    fn conditions(&self) -> Conditions {
        let kernel = self.seen.then(|| f64::from(u8::from(self.interface.is_some())));
        let known = [
            ("path_kernel", kernel),
            ("path_speed", self.speed.map(|bits| bits as f64)),
            ("path_mtu", self.mtu.map(|bytes| bytes as f64)),
        ];
        let more = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        Conditions { more, ..Conditions::default() }
    }
}

/// Why it is not measured on one machine.
pub(super) fn no_partner() -> CannotMeasure {
    CannotMeasure::not_here("it takes two machines or more: start a rank on each by mpirun")
}

/// Whether ranks measure it with MPI itself.
pub(super) fn is_mpi(planned: &Planned) -> bool {
    planned.candidate.case.subsystem() == SUBSYSTEM
}

#[cfg(test)]
mod tests;
