//! The only loop: prepare, warm up, calibrate, sample, stop, verify.
//!
//! The loop knows no benchmark, no process and no clock of its own: cases are prepared by a [`Station`], time comes
//! from a [`Clock`], and all that happens leaves as [`Event`]s. The real ones are here, too: `worker` and [`clock`].
#![forbid(unsafe_code)]

mod causes;
pub mod clock;
mod companions;
mod health;
mod overrun;
mod planned;
mod repeat;
mod rounds;
mod together;
pub mod worker;

pub use planned::Planned;
pub use together::together;

use std::num::NonZeroUsize;
use std::time::Duration;

use plimsoll_bench::{Candidate, Prepared};
use plimsoll_machine::Machine;
use plimsoll_machine::clocks::WrongRate;
use plimsoll_machine::health::HealthChange;
use plimsoll_model::case::Case;
use plimsoll_model::limit::Evidence;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::Sampling;
use plimsoll_model::sample::energy::{self, ENERGY, ENERGY_PER_UNIT};
use plimsoll_model::sample::{
    Amount, Beside, CannotMeasure, Cause, Conditions, Fact, Facts, Offer, Outcome, Sample,
};
use plimsoll_model::warning::{Loss, Note, Warning};
use plimsoll_reference::Companion;
use plimsoll_result::evaluate::Maker;
use plimsoll_result::event::Event;
use plimsoll_stats::{Budget, Decision, EndedBy, MAX_SAMPLES, MIN_SAMPLES, Outcome as Ending, StopRule};
use plimsoll_stats::{Samples, Seed};

use companions::Companions;
use overrun::Overrun;

const ENDED_BY: Fact<EndedBy> = Fact::new("ended_by", "what ended the sampling");

/// Samples below which there is no interval.
const MIN_FOR_INTERVAL: usize = 5;

/// How often the plan's budget its reference tools may take before they give fewer pairs.
pub const TOOLS_PER_BUDGET: f64 = 6.0;

/// Share of the sample time that the warm-up takes.
const WARM_UP: f64 = 0.5;

/// Share of the budget by which a run may exceed it, so that every case has its least samples.
const BUDGET_GRACE_SHARE: f64 = 0.25;

/// Seconds past the sample time from which on a sample is one that does not end with it.
const LONGER: f64 = 1.0;

/// Seconds past the end of the budget up to which nobody needs to know of it.
const LEAST_PAST: f64 = 1.0;

/// The least share that the timed part has of a sample whose power is told.
const MOSTLY_TIMED: f64 = 0.9;

/// Seconds that a case is expected to take before its first sample.
const SET_UP: f64 = 0.5;

/// Where cases are prepared: worker processes, or a mock in tests.
pub trait Station {
    /// Sets a case up. `within` is how many seconds are left of the budget, where there is one: setting up and samples end
    /// with it, whatever hangs.
    ///
    /// # Errors
    /// Why it cannot be measured.
    fn prepare(
        &mut self,
        candidate: &Candidate,
        within: Option<f64>,
    ) -> Result<Box<dyn Prepared>, CannotMeasure>;

    /// Sets a case up in a process of its own that knows this machine: one with fewer CPUs.
    ///
    /// # Errors
    /// Why it cannot be measured.
    fn prepare_on(&mut self, _: &Machine, _: &Candidate) -> Result<Box<dyn Prepared>, CannotMeasure> {
        Err(CannotMeasure::not_here("cases of this kind are measured on the whole machine"))
    }

    /// Seconds that the reference tools beside a case take, roughly; zero of every case where that is not known.
    fn seconds_beside(&self, _: &Planned) -> f64 {
        0.0
    }

    /// Whether one of the reference tools beside a case writes to its test file.
    fn writes_beside(&self, _: &Planned) -> bool {
        false
    }

    /// The reference tools that stand beside a case, which has this to offer.
    fn beside(&mut self, _: &Planned, _: &Offer) -> Vec<Companion> {
        Vec::new()
    }
}

/// Time and the machine's state while a sample runs.
pub trait Clock {
    /// Seconds since the run began.
    fn now(&self) -> f64;

    /// Begins to watch steal and throttling.
    fn watch(&mut self);

    /// What happened since [`Clock::watch`].
    fn watched(&mut self) -> Conditions;

    /// Whether the clock that times the samples runs at a wrong rate.
    fn wrong_rate(&mut self) -> Option<WrongRate> {
        None
    }

    /// Begins to count what happens to the hardware during a case.
    fn begin_case(&mut self) {}

    /// What happened to the hardware since [`Clock::begin_case`].
    fn end_case(&mut self) -> HealthChange {
        HealthChange::default()
    }
}

/// Keeps step with other machines that measure the same.
pub trait Pace {
    /// Waits until all are ready for a case, and agrees on how much each measures. `own` is what this machine would
    /// take, nothing when it cannot measure the case.
    ///
    /// # Errors
    /// The others are gone, or the end was asked for.
    fn agree(&mut self, own: Option<Amount>) -> Result<Option<Amount>, CannotMeasure>;
}

/// There is no other machine to keep step with.
#[derive(Debug)]
pub struct Alone;

impl Pace for Alone {
    fn agree(&mut self, own: Option<Amount>) -> Result<Option<Amount>, CannotMeasure> {
        Ok(own)
    }
}

/// One run of a plan.
pub struct Harness<'a> {
    /// Sets cases up.
    pub station: &'a mut dyn Station,
    /// Time.
    pub clock: &'a mut dyn Clock,
    /// Keeps step with other machines.
    pub pace: &'a mut dyn Pace,
    /// Where events go.
    pub emit: &'a mut dyn FnMut(Event),
    /// Turns outcomes into measurements.
    pub maker: Maker<'a>,
    /// Seconds for the whole run; reference tools are not counted, and may take six times as long beside it.
    pub budget: Option<f64>,
    /// Seconds that reference tools have taken.
    pub beside_s: f64,
}

/// What became of a run.
#[derive(Debug, PartialEq)]
pub struct Ran {
    /// All finished cases, in order.
    pub outcomes: Vec<Outcome>,
    /// How many of them an interrupted run had measured before.
    pub before: usize,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

impl Ran {
    /// The measurements of this run, each with the evidence of the whole.
    pub fn measurements(&self, maker: Maker<'_>) -> Vec<Measurement> {
        let evidence = Evidence { outcomes: &self.outcomes };
        self.outcomes.iter().skip(self.before).map(|o| maker.measurement(o, evidence)).collect()
    }
}

/// Seconds that a case is expected to take, set-up included.
pub fn expected_seconds(sampling: &Sampling) -> f64 {
    SET_UP + warm_up(sampling) + sampling.sample_time * samples(sampling)
}

/// Seconds of the warm-up.
fn warm_up(sampling: &Sampling) -> f64 {
    sampling.warm_up.unwrap_or(sampling.sample_time * WARM_UP)
}

/// How many samples are expected.
fn samples(sampling: &Sampling) -> f64 {
    sampling.samples.map_or(MAX_SAMPLES / 2, |n| n as usize) as f64
}

/// Seconds that a case takes with so many samples.
fn least(planned: &Planned, samples: usize) -> f64 {
    SET_UP + warm_up(&planned.sampling) + planned.sampling.sample_time * samples as f64
}

/// The same of all these cases that can be measured.
fn needed(cases: &[Planned], samples: usize) -> f64 {
    cases.iter().filter(|p| p.candidate.feasible.is_ok()).map(|p| least(p, samples)).sum()
}

/// Seconds that a case of a plan is expected to take: as long as its samples, or the amount that it states of each.
pub fn expected_of(planned: &Planned) -> f64 {
    let case = &planned.candidate.case;
    let amount = plimsoll_bench::find(case.benchmark()).and_then(|benchmark| benchmark.sample_seconds(case));
    let each = match amount {
        Some(seconds) => SET_UP + warm_up(&planned.sampling) + samples(&planned.sampling) * seconds,
        None => expected_seconds(&planned.sampling),
    };
    planned.budget.map_or(each, |budget| each.min(budget))
}

/// The share that the first has of all: of the time that is left, tools that take longer have more, and each the same where
/// nothing is known.
fn share(seconds: &[f64]) -> f64 {
    let all: f64 = seconds.iter().sum();
    let known = seconds.first().filter(|_| all > 0.0);
    known.map_or(1.0 / seconds.len().max(1) as f64, |first| first / all)
}

/// A time from seconds; what is out of range is the longest time.
fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX)
}

impl Harness<'_> {
    /// Measures all cases in order; those that this machine cannot measure are outcomes as well. `before` is what an
    /// interrupted run had measured, as evidence for limits; no measurements come of it.
    pub fn run(&mut self, run: &str, plan: &[Planned], before: Vec<Outcome>) -> Ran {
        let feasible = |plan: &[Planned]| -> f64 {
            plan.iter().filter(|p| p.candidate.feasible.is_ok()).map(expected_of).sum()
        };
        let of_tools = |planned: &Planned| match planned.candidate.feasible {
            Ok(()) => self.station.seconds_beside(planned),
            Err(_) => 0.0,
        };
        let tools_s: Vec<f64> = plan.iter().map(of_tools).collect();
        let all_tools = |tools_s: &[f64], most: Option<f64>| {
            tools_s.iter().sum::<f64>().min(most.unwrap_or(f64::INFINITY).max(0.0))
        };
        let expected_s = feasible(plan).min(self.budget.unwrap_or(f64::INFINITY))
            + all_tools(&tools_s, self.left_of_tools());
        (self.emit)(Event::Started { run: run.to_owned(), cases: plan.len(), expected_s });
        let mut outcomes = before;
        let done = outcomes.len();
        for (index, planned) in plan.iter().enumerate() {
            let allowed = self.turn(&plan[index..], plan.len());
            let rest = feasible(&plan[index..]);
            let left_of_tools = self.left_of_tools();
            let left_s = rest.min(self.left().unwrap_or(f64::INFINITY).max(0.0))
                + all_tools(&tools_s[index..], left_of_tools);
            let case = planned.candidate.case.id();
            (self.emit)(Event::Preparing { case, index, cases: plan.len(), left_s });
            let beside = left_of_tools.map(|left| left * share(&tools_s[index..]));
            let later = needed(&plan[index + 1..], 1);
            let outcome = self.outcome(planned, Room { own: sooner(allowed, planned.budget), later, beside });
            if outcome.ended.as_ref().is_some_and(|why| why.cause == Cause::Interrupted) {
                (self.emit)(Event::Interrupted);
                self.mark_wrong_rate(outcomes.iter_mut().skip(done));
                return Ran { outcomes, before: done, interrupted: true };
            }
            outcomes.push(outcome);
            let evidence = Evidence { outcomes: &outcomes };
            if let Some(last) = outcomes.last() {
                let measurement = Box::new(self.maker.measurement(last, evidence));
                (self.emit)(Event::Measured { measurement });
            }
        }
        self.mark_wrong_rate(outcomes.iter_mut().skip(done));
        Ran { outcomes, before: done, interrupted: false }
    }

    /// Keeps a wrong rate with every outcome: some clocks show it only after several cases.
    fn mark_wrong_rate<'o>(&mut self, outcomes: impl Iterator<Item = &'o mut Outcome>) {
        if let Some(wrong) = self.clock.wrong_rate() {
            outcomes.for_each(|outcome| outcome.facts.wrong_rate = Some(wrong.to_string()));
        }
    }

    /// Seconds of the budget that are left.
    fn left(&self) -> Option<f64> {
        Some(self.budget? - (self.clock.now() - self.beside_s))
    }

    /// Seconds that are left for reference tools; `None` without a budget.
    fn left_of_tools(&self) -> Option<f64> {
        Some(TOOLS_PER_BUDGET * self.budget? - self.beside_s)
    }

    /// Seconds for the first of the cases that are left, of `cases` in all. Set-up and the least samples of each are reserved,
    /// or one sample where that is too much, and what is spare is shared; for that alone a run may exceed its budget by
    /// [`BUDGET_GRACE_SHARE`]. Where there is less, a case whose time is past gives way, so that the last cases have as good a chance as
    /// the first.
    fn turn(&self, rest: &[Planned], cases: usize) -> Option<f64> {
        let (budget, left) = (self.budget?, self.left()?);
        let waiting = rest.iter().filter(|p| p.candidate.feasible.is_ok()).count().max(1) as f64;
        for samples in [MIN_SAMPLES, 1] {
            let needed = needed(rest, samples);
            if left + BUDGET_GRACE_SHARE * budget >= needed {
                return Some(least(rest.first()?, samples) + (left - needed).max(0.0) / waiting);
            }
        }
        let own = least(rest.first()?, 1);
        let share = left / waiting;
        let late = left < budget * (rest.len() - 1) as f64 / cases as f64;
        Some(if late && share < own { 0.0 } else { share })
    }

    fn outcome(&mut self, planned: &Planned, room: Room) -> Outcome {
        let candidate = &planned.candidate;
        let case = candidate.case.clone();
        let mut taken = Taken::default();
        let ended = match (&candidate.feasible, room.own) {
            (Err(why), _) => Err(why.clone()),
            (Ok(()), Some(Own { seconds, .. })) if seconds <= 0.0 => Err(CannotMeasure::out_of_time(
                "--budget was used up before this case's turn; use a larger --budget, or fewer cases with --only",
            )),
            (Ok(()), _) => self.measure(planned, room, &mut taken),
        };
        // Those who can measure it wait for those who cannot.
        let ended = match taken.agreed {
            true => ended,
            false => self.pace.agree(None).and(ended),
        };
        self.beside_s += taken.beside_s;
        let ended = ended.map_err(|why| self.repeated(planned, why));
        let Taken { samples, facts, peers, .. } = taken;
        Outcome { case, repeat: planned.repeat, samples, facts, peers, ended: ended.err() }
    }

    /// The seconds of a case whose set-up is over: room for the least samples also where setting up took longer than was
    /// thought, as far as the run has time that no later case needs.
    fn enough(&self, room: Room, sampling: &Sampling, begun: f64) -> Option<Own> {
        let own = room.own?;
        if own.whose != EndedBy::Budget {
            return Some(own);
        }
        let used = self.clock.now() - begun;
        let spare = self.left()? + BUDGET_GRACE_SHARE * self.budget? - room.later;
        let wanted = used + (MIN_SAMPLES as f64 * sampling.sample_time).min(spare);
        Some(Own { seconds: own.seconds.max(wanted), ..own })
    }

    fn measure(&mut self, planned: &Planned, room: Room, taken: &mut Taken) -> Result<(), CannotMeasure> {
        let begun = self.clock.now();
        let (case, sampling) = (&planned.candidate.case, &planned.sampling);
        // A case that runs beyond the budget has what it was given.
        let within = self.left().map(|left| left.max(room.own.map_or(0.0, |own| own.seconds)));
        let mut prepared = self.station.prepare(&planned.candidate, within)?;
        let amount = calibrated(prepared.as_mut(), sampling)?;
        taken.agreed = true;
        let amount = self.pace.agree(Some(amount))?.unwrap_or(amount);
        let own = self.enough(room, sampling, begun);
        let rule = rule(case, sampling, own);
        let cpus = self.maker.machine.cpu.allowed.len();
        let cpus_used = case.busy_threads().min(cpus.max(1));
        let headline = plimsoll_bench::find(case.benchmark()).and_then(|b| b.metrics(case).first().copied());
        let seed = Seed::new(self.maker.seed, case.id().as_str(), headline.map_or("elapsed", |m| m.name));
        let mut companions = self.companions(planned, prepared.as_mut(), seed, room.beside);
        let sampling_began = self.clock.now();
        self.clock.begin_case();
        let ending = loop {
            let named = headline.map(|m| m.name);
            let before = self.clock.now() - companions.seconds;
            let sample = self.round(prepared.as_mut(), amount, &mut companions, named);
            taken.beside_s = companions.seconds;
            let took = self.clock.now() - companions.seconds - before;
            let mut sample = sample?;
            // The counter runs from before the sample to after it. A stop within the sample interrupts slices, which are excluded.
            let most = sample.conditions.excluded.unwrap_or(1.0);
            let stopped = &mut sample.conditions.throttled;
            *stopped = stopped.map(|sum| (sum / cpus_used as f64).clamp(0.0, 1.0).min(most));
            let value = headline.and_then(|m| sample.values.get(m.name).copied()).unwrap_or(sample.elapsed);
            if sample.renewed {
                taken.samples.clear();
                taken.headline.clear();
            }
            taken.samples.push(sample);
            taken.headline.push(value);
            (self.emit)(Event::Sampled { case: case.id(), n: taken.samples.len(), value });
            let samples = Samples::new(taken.headline.clone());
            let samples = samples.map_err(|e| CannotMeasure::environment(e.to_string()))?;
            // The next sample must still fit.
            let used = self.clock.now() - begun - companions.seconds;
            let used = with_next(used, took, sampling.sample_time, own);
            if let Decision::Stop(ending) = rule.decide(&samples, seed, seconds(used))
                && (ending == Ending::Fixed || !companions.want_more())
            {
                break ending;
            }
        };
        let (change, seconds) = (self.clock.end_case(), self.clock.now() - sampling_began);
        taken.peers = companions.heard();
        prepared.verify()?;
        taken.facts = prepared.facts();
        taken.facts.wrong_rate = self.clock.wrong_rate().map(|wrong| wrong.to_string());
        taken.note_end(ending.ended_by());
        if let (StopRule::Steady { .. }, Some(metric)) = (rule, headline) {
            taken.keep_last_rounds(ending, metric, seed);
        }
        let overrun = self.overrun(planned, room, begun, taken.beside_s);
        taken.facts.warnings.extend(overrun.map(Note::from));
        taken.note_health(&change, seconds, plimsoll_bench::subsystem_of(case).uses_interfaces);
        taken.note_energy(headline);
        let second = plimsoll_bench::subsystem_of(case).second_cost;
        taken.remark(ending, sampling.precision, second, cpus > 0 && case.crowding(cpus) > 0.0);
        Ok(())
    }

    /// The reference tools of a case that is set up; `allowed` is how many seconds they may take.
    fn companions(
        &mut self,
        planned: &Planned,
        prepared: &mut dyn Prepared,
        seed: Seed,
        allowed: Option<f64>,
    ) -> Companions {
        let looking = self.clock.now();
        let mut offer = prepared.offer();
        offer.writable = self.station.writes_beside(planned).then(|| prepared.lend());
        let beside = self.station.beside(planned, &offer);
        let mut companions = Companions::new(beside, seed, allowed);
        companions.seconds = self.clock.now() - looking;
        companions
    }

    /// That a case ran past the end of the budget, which ends no sample that has begun; `beside_s` is what its reference tools took.
    fn overrun(&self, planned: &Planned, room: Room, begun: f64, beside_s: f64) -> Option<Overrun> {
        let own = room.own?;
        let took = self.clock.now() - begun - beside_s;
        let (of, budget, past) = match own.whose {
            EndedBy::GroupBudget => ("its group's budget in the plan", own.seconds, took - own.seconds),
            _ => ("--budget", self.budget?, -(self.left()? + beside_s)),
        };
        let is_fixed = planned.sampling.samples.is_some();
        (took > own.seconds && past > (BUDGET_GRACE_SHARE * budget).max(LEAST_PAST)).then_some(Overrun {
            took,
            budget,
            past,
            of,
            is_fixed,
        })
    }

    /// One sample of ours and one of each tool that still wants pairs, in random order.
    fn round(
        &mut self,
        own: &mut dyn Prepared,
        amount: Amount,
        companions: &mut Companions,
        headline: Option<&str>,
    ) -> Result<Sample, CannotMeasure> {
        let (before, after) = companions.order();
        let begun = self.clock.now();
        companions.hear(&before, own)?;
        let between = self.clock.now();
        let sample = self.sample(own, amount)?;
        let ended = self.clock.now();
        companions.hear(&after, own)?;
        companions.seconds += between - begun + self.clock.now() - ended;
        if sample.renewed {
            companions.forget();
        }
        companions.pair(&sample, headline);
        Ok(sample)
    }

    fn sample(&mut self, prepared: &mut dyn Prepared, amount: Amount) -> Result<Sample, CannotMeasure> {
        let at = self.clock.now();
        self.clock.watch();
        let mut sample = prepared.sample(amount)?;
        let seen = self.clock.watched();
        sample.at = at;
        sample.conditions.steal = sample.conditions.steal.or(seen.steal);
        sample.conditions.throttled = sample.conditions.throttled.or(seen.throttled);
        sample.conditions.pages_swapped = seen.pages_swapped;
        // Power was watched from before the sample to after it: where that is much longer than its timed part, it is of something
        // else.
        if sample.elapsed >= MOSTLY_TIMED * (self.clock.now() - at) {
            sample.conditions.package_power = seen.package_power;
            sample.conditions.memory_power = seen.memory_power;
        }
        Ok(sample)
    }
}

/// Seconds that a case may take, where that is bounded.
#[derive(Clone, Copy)]
struct Room {
    own: Option<Own>,
    /// Seconds that are reserved for later cases.
    later: f64,
    /// Its reference tools.
    beside: Option<f64>,
}

/// Seconds for a case's own samples, and whose they are.
#[derive(Clone, Copy)]
struct Own {
    seconds: f64,
    whose: EndedBy,
}

/// The tighter of what the run's budget leaves a case and what its group's does.
fn sooner(run: Option<f64>, group: Option<f64>) -> Option<Own> {
    let of_run = run.map(|seconds| Own { seconds, whose: EndedBy::Budget });
    let of_group = group.map(|seconds| Own { seconds, whose: EndedBy::GroupBudget });
    of_run.into_iter().chain(of_group).min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

/// Seconds that a case has used when its next sample ends, where the last one took `took`. Least samples were reserved at their
/// usual time: for those that take longer, as a whole search does, a budget that is used up counts as used twice, which ends
/// also fewer than the least number.
fn with_next(used: f64, took: f64, sample_time: f64, own: Option<Own>) -> f64 {
    if took <= sample_time + LONGER {
        return used + sample_time;
    }
    let next = used + took;
    own.filter(|own| next >= own.seconds).map_or(next, |own| next.max(2.0 * own.seconds))
}

fn rule(case: &Case, sampling: &Sampling, allowed: Option<Own>) -> StopRule {
    let budget = allowed.map_or(Budget::NONE, |own| Budget { time: seconds(own.seconds), whose: own.whose });
    match sampling.samples.and_then(|n| NonZeroUsize::new(n as usize)) {
        most if rounds::until_steady(case) => StopRule::Steady { most, budget },
        Some(n) => StopRule::Exactly(n),
        None => StopRule::Converge { precision: sampling.precision, budget },
    }
}

/// Warms up, and finds the amount that takes the sample time.
fn calibrated(prepared: &mut dyn Prepared, sampling: &Sampling) -> Result<Amount, CannotMeasure> {
    let wanted = sampling.sample_time;
    let first = prepared.sample(Amount::Seconds(warm_up(sampling)))?;
    let Some(work) = first.work.filter(|w| *w > 0 && first.elapsed > 0.0) else {
        return Ok(Amount::Seconds(wanted));
    };
    let scaled = work as f64 * wanted / first.elapsed;
    Ok(Amount::Work(scaled.clamp(1.0, 1e18) as u64))
}

/// What a case has given so far.
#[derive(Default)]
struct Taken {
    samples: Vec<Sample>,
    headline: Vec<f64>,
    facts: Facts,
    peers: Vec<Beside>,
    /// Whether the other machines were waited for.
    agreed: bool,
    /// Seconds that reference tools took.
    beside_s: f64,
}

impl Taken {
    /// Keeps what ended the sampling.
    fn note_end(&mut self, by: EndedBy) {
        self.facts.achieved.set(&ENDED_BY, by);
    }

    /// Adds the warnings that follow from what happened to the hardware.
    fn note_health(&mut self, change: &HealthChange, seconds: f64, uses_interfaces: bool) {
        let remarks = health::remarks(change, seconds, uses_interfaces);
        self.facts.warnings.extend(remarks.into_iter().map(Note::from));
    }

    /// Keeps the energy of the samples and, where the headline is a rate of work, that of a unit of it.
    fn note_energy(&mut self, headline: Option<plimsoll_bench::Metric>) {
        self.facts.achieved.set_some(&ENERGY, energy::energy(&self.samples));
        let rate = headline.filter(|metric| metric.unit.work().is_some());
        let each =
            rate.and_then(|rate| plimsoll_model::limit::median(energy::per_unit(&self.samples, rate.name)));
        self.facts.achieved.set_some(&ENERGY_PER_UNIT, each);
    }

    /// Adds the warnings that follow from the samples.
    fn remark(&mut self, ending: Ending, wanted: f64, second: Loss, crowded: bool) {
        let n = self.samples.len();
        match ending {
            Ending::NotConverged { half_width: Some(reached), by } => {
                self.facts.warnings.push(Warning::NotConverged { reached, wanted, by }.into());
            }
            _ if n < MIN_FOR_INTERVAL => {
                self.facts.warnings.push(Warning::FewSamples { n, by: ending.ended_by() }.into());
            }
            Ending::NotConverged { half_width: None, .. }
            | Ending::Fixed
            | Ending::Converged
            | Ending::Steady
            | Ending::NotSteady { .. } => {}
        }
        let causes = causes::of(&self.samples, second, crowded);
        self.facts.warnings.extend(causes.into_iter().map(Note::from));
    }
}

#[cfg(test)]
mod tests;
