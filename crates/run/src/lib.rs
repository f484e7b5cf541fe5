//! The run loop: prepare, warm up, calibrate, sample, stop, verify. A [`Station`] prepares cases, a
//! [`Clock`] gives the time, [`RunEvent`]s show progress; the real ones are `worker` and [`clock`].
#![forbid(unsafe_code)]

mod causes;
pub mod clock;
mod health;
mod reference_tools;
mod remark;
mod repeat;
mod rounds;
mod together;
pub mod worker;

pub use together::together;

use std::num::NonZeroUsize;

use plimsoll_bench::{Candidate, Prepared};
use plimsoll_machine::Machine;
use plimsoll_machine::clocks::WrongRate;
use plimsoll_machine::health::HealthCounters;
use plimsoll_model::case::Case;
use plimsoll_model::limit::LimitEvidence;
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::Sampling;
use plimsoll_model::sample::energy::{self, ENERGY, ENERGY_PER_UNIT};
use plimsoll_model::sample::{
    CannotMeasure, CaseFact, Conditions, Facts, FailureCause, Offer, Outcome, Sample, SampleAmount, ToolRun,
};
use plimsoll_model::warning::{Loss, Note, Warning};
use plimsoll_reference::{Against, PreparedTool};
use plimsoll_result::evaluate::Maker;
use plimsoll_result::event::RunEvent;
use plimsoll_stats::{
    Budget, EndedBy, MAX_SAMPLES, MIN_SAMPLES, Samples, SamplingOutcome as Ending, Seed, StopRule,
};

use reference_tools::ReferenceRuns;
use remark::CaseRemark;

const ENDED_BY: CaseFact<EndedBy> = CaseFact::new("ended_by");

const MIN_FOR_INTERVAL: usize = 5;

/// Time for reference tools, in multiples of the budget; after it they give fewer pairs.
pub const TOOLS_PER_BUDGET: f64 = 6.0;

const WARM_UP: f64 = 0.5;

/// Share of the budget by which a run may exceed it so that each case gets its minimum of samples.
const BUDGET_GRACE_SHARE: f64 = 0.25;

/// Seconds beyond the sample time from which a sample counts as one that does not end on time.
const LONGER: f64 = 1.0;

/// Seconds by which a budget may be exceeded without a warning.
const LEAST_PAST: f64 = 1.0;

/// Smallest timed share of a sample for which power is reported.
const MOSTLY_TIMED: f64 = 0.9;

const SET_UP: f64 = 0.5;

/// A planned case and its sampling parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The case, and whether this machine can measure it.
    pub candidate: Candidate,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Selection of reference tools.
    pub against: Against,
    /// Time limit in s from the budget of its group, if any.
    pub budget: Option<f64>,
    /// Options of the job (of fio, for example) from which the case was derived.
    pub job: Vec<String>,
    /// Index of its group in the plan.
    pub group: usize,
    /// Repetition of the plan, from 1; 0 for a plan that is measured once.
    pub repeat: u32,
}

/// Prepares cases: in worker processes, or as a mock in tests.
pub trait Station {
    /// Sets up a case. Set-up and samples may take `within` s, the rest of the budget, if given. On
    /// `machine`, which is this one with fewer CPUs, the case has a process of its own.
    fn prepare(
        &mut self,
        candidate: &Candidate,
        within: Option<f64>,
        machine: Option<&Machine>,
    ) -> Result<Box<dyn Prepared>, CannotMeasure>;

    /// Returns the expected time in s of the reference tools for a case; 0 if unknown.
    fn reference_seconds(&self, _: &Planned) -> f64 {
        0.0
    }

    /// Returns whether a reference tool writes to the test file of the case.
    fn reference_writes(&self, _: &Planned) -> bool {
        false
    }

    /// Prepares a case's reference tools, such as fio, for the CPUs and files in the offer.
    fn prepare_tools(&mut self, _: &Planned, _: &Offer) -> Vec<PreparedTool> {
        Vec::new()
    }
}

/// Time, and the machine's state while a sample runs.
pub trait Clock {
    /// Returns the seconds since the start of the run.
    fn now(&self) -> f64;

    /// Starts to watch steal and throttling for one sample.
    fn watch(&mut self);

    /// Returns the conditions since the last call of [`Clock::watch`].
    fn watched(&mut self) -> Conditions;

    /// Returns the rate error of the clock that times the samples; `None` if its rate is right.
    fn wrong_rate(&mut self) -> Option<WrongRate> {
        None
    }

    /// Starts to count hardware events for one case.
    fn begin_case(&mut self) {}

    /// Returns the hardware events since the last call of [`Clock::begin_case`].
    fn end_case(&mut self) -> HealthCounters {
        HealthCounters::default()
    }
}

/// One run of a plan.
pub struct Harness<'a> {
    /// Prepares the cases.
    pub station: &'a mut dyn Station,
    /// Time and state of the machine.
    pub clock: &'a mut dyn Clock,
    /// Receives the events.
    pub emit: &'a mut dyn FnMut(RunEvent),
    /// Turns outcomes into measurements.
    pub maker: Maker<'a>,
    /// Budget of the run in s; reference tools may take up to six times as long in addition.
    pub budget: Option<f64>,
    /// Seconds that reference tools have taken.
    pub reference_s: f64,
}

/// Result of a run.
#[derive(Debug, PartialEq)]
pub struct RunResult {
    /// Outcomes of all finished cases, in order.
    pub outcomes: Vec<Outcome>,
    /// Number of leading outcomes that an earlier, interrupted run had measured.
    pub before: usize,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}

impl RunResult {
    /// Converts this run's outcomes to measurements; limits may use earlier outcomes, too.
    pub fn measurements(&self, maker: Maker<'_>) -> Vec<Measurement> {
        let evidence: LimitEvidence<'_> = &self.outcomes;
        self.outcomes.iter().skip(self.before).map(|o| maker.measurement(o, evidence)).collect()
    }
}

/// Returns the expected duration in s of a case with these parameters, set-up included.
pub fn expected_seconds(sampling: &Sampling) -> f64 {
    case_duration(sampling, samples(sampling))
}

/// Returns the duration in s of all feasible cases with the minimum number of samples.
pub fn minimum_seconds(cases: &[Planned]) -> f64 {
    total_duration(cases, MIN_SAMPLES)
}

fn warm_up(sampling: &Sampling) -> f64 {
    sampling.warm_up.unwrap_or(sampling.sample_time * WARM_UP)
}

fn samples(sampling: &Sampling) -> f64 {
    sampling.samples.map_or(MAX_SAMPLES / 2, |n| n as usize) as f64
}

/// Returns the duration in s of a case with `samples` samples, set-up and warm-up included.
fn case_duration(sampling: &Sampling, samples: f64) -> f64 {
    SET_UP + warm_up(sampling) + sampling.sample_time * samples
}

/// Returns the duration in s of all feasible cases with `samples` samples each.
fn total_duration(cases: &[Planned], samples: usize) -> f64 {
    let feasible = cases.iter().filter(|planned| planned.candidate.feasible.is_ok());
    feasible.map(|planned| case_duration(&planned.sampling, samples as f64)).sum()
}

/// Returns the expected duration of a planned case on `machine` in s, at most its group's budget.
pub fn expected_of(machine: &Machine, planned: &Planned) -> f64 {
    let case = &planned.candidate.case;
    let benchmark = plimsoll_bench::find(case.benchmark());
    let each = match benchmark.and_then(|benchmark| benchmark.sample_seconds(machine, case)) {
        Some(seconds) => SET_UP + warm_up(&planned.sampling) + samples(&planned.sampling) * seconds,
        None => expected_seconds(&planned.sampling),
    };
    let omitted = benchmark.map_or(0.0, |benchmark| benchmark.omitted_seconds(case));
    let each = each + (samples(&planned.sampling) + 1.0) * omitted;
    planned.budget.map_or(each, |budget| each.min(budget))
}

impl Harness<'_> {
    /// Measures all cases of `plan` in order; infeasible ones get an outcome, too. `run` is the run
    /// ID. `before`, outcomes of an interrupted run, come first and are evidence for limits.
    pub fn run(&mut self, run: &str, plan: &[Planned], before: Vec<Outcome>) -> RunResult {
        let machine = self.maker.machine;
        let is_feasible = |planned: &Planned| planned.candidate.feasible.is_ok();
        let feasible = |plan: &[Planned]| -> f64 {
            plan.iter().filter(|one| is_feasible(one)).map(|one| expected_of(machine, one)).sum()
        };
        let of_tools = |one| if is_feasible(one) { self.station.reference_seconds(one) } else { 0.0 };
        let tools_s: Vec<f64> = plan.iter().map(of_tools).collect();
        let all_tools = |tools_s: &[f64], most: Option<f64>| {
            tools_s.iter().sum::<f64>().min(most.unwrap_or(f64::INFINITY).max(0.0))
        };
        let expected_s = feasible(plan).min(self.budget.unwrap_or(f64::INFINITY))
            + all_tools(&tools_s, self.left_of_tools());
        (self.emit)(RunEvent::Started { run: run.to_owned(), cases: plan.len(), expected_s });
        let (mut outcomes, mut interrupted) = (before, false);
        let done = outcomes.len();
        for (index, planned) in plan.iter().enumerate() {
            let allowed = self.case_seconds(&plan[index..], plan.len());
            let rest = feasible(&plan[index..]);
            let left_of_tools = self.left_of_tools();
            let left_s = rest.min(self.left().unwrap_or(f64::INFINITY).max(0.0))
                + all_tools(&tools_s[index..], left_of_tools);
            let case = planned.candidate.case.id();
            (self.emit)(RunEvent::Preparing { case, index, cases: plan.len(), left_s });
            // The case's share of the tools' time; equal shares if their times are unknown.
            let rest: f64 = tools_s[index..].iter().sum();
            let share = if rest > 0.0 { tools_s[index] / rest } else { 1.0 / (plan.len() - index) as f64 };
            let tools = left_of_tools.map(|left| left * share);
            let later = total_duration(&plan[index + 1..], 1);
            let of_run = allowed.map(|seconds| Budget { seconds, whose: EndedBy::Budget });
            let of_group = planned.budget.map(|seconds| Budget { seconds, whose: EndedBy::GroupBudget });
            let limits = of_run.into_iter().chain(of_group);
            let own = limits.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
            let outcome = self.outcome(planned, CaseTime { own, later, tools });
            if outcome.ended.as_ref().is_some_and(|why| why.cause == FailureCause::Interrupted) {
                (self.emit)(RunEvent::Interrupted);
                interrupted = true;
                break;
            }
            outcomes.push(outcome);
            let evidence: LimitEvidence<'_> = &outcomes;
            if let Some(last) = outcomes.last() {
                let measurement = Box::new(self.maker.measurement(last, evidence));
                (self.emit)(RunEvent::Measured { measurement });
            }
        }
        // The error may show only after some of the outcomes.
        if let Some(wrong) = self.clock.wrong_rate() {
            outcomes.iter_mut().skip(done).for_each(|one| one.facts.wrong_rate = Some(wrong.to_string()));
        }
        RunResult { outcomes, before: done, interrupted }
    }

    fn left(&self) -> Option<f64> {
        Some(self.budget? - (self.clock.now() - self.reference_s))
    }

    /// Returns the seconds left for reference tools; `None` if the run has no budget.
    fn left_of_tools(&self) -> Option<f64> {
        Some(TOOLS_PER_BUDGET * self.budget? - self.reference_s)
    }

    /// Returns the time limit in s of the first case in `rest`, the unmeasured of `cases` cases;
    /// `None` without a budget. Each case has its minimum of samples (or one) reserved, even
    /// [`BUDGET_GRACE_SHARE`] beyond the budget. If this does not fit, late cases get 0 s.
    fn case_seconds(&self, rest: &[Planned], cases: usize) -> Option<f64> {
        let (budget, left) = (self.budget?, self.left()?);
        let waiting = rest.iter().filter(|p| p.candidate.feasible.is_ok()).count().max(1) as f64;
        for samples in [MIN_SAMPLES, 1] {
            let needed = total_duration(rest, samples);
            if left + BUDGET_GRACE_SHARE * budget >= needed {
                let own = case_duration(&rest.first()?.sampling, samples as f64);
                return Some(own + (left - needed).max(0.0) / waiting);
            }
        }
        let own = case_duration(&rest.first()?.sampling, 1.0);
        let share = left / waiting;
        let late = left < budget * (rest.len() - 1) as f64 / cases as f64;
        Some(if late && share < own { 0.0 } else { share })
    }

    fn outcome(&mut self, planned: &Planned, room: CaseTime) -> Outcome {
        let candidate = &planned.candidate;
        let case = candidate.case.clone();
        let mut taken = CaseSamples::default();
        let ended = match (&candidate.feasible, room.own) {
            (Err(why), _) => Err(why.clone()),
            (Ok(()), Some(Budget { seconds, .. })) if seconds <= 0.0 => Err(CannotMeasure::out_of_time(
                "--budget was used up before this case's turn; use a larger --budget, or fewer cases with --only",
            )),
            (Ok(()), _) => self.measure(planned, room, &mut taken),
        };
        self.reference_s += taken.reference_s;
        let ended = ended.map_err(|why| self.repeated(planned, why));
        let CaseSamples { samples, facts, tool_results, .. } = taken;
        Outcome { case, repeat: planned.repeat, samples, facts, tool_results, ended: ended.err() }
    }

    /// Returns the time limit of a case whose set-up began at `begun` (s): extended to the minimum
    /// of samples if set-up was slow and no later case needs the time; `None` without a limit.
    fn extended_limit(&self, room: CaseTime, sampling: &Sampling, begun: f64) -> Option<Budget> {
        let own = room.own?;
        if own.whose != EndedBy::Budget {
            return Some(own);
        }
        let used = self.clock.now() - begun;
        let spare = self.left()? + BUDGET_GRACE_SHARE * self.budget? - room.later;
        let wanted = used + (MIN_SAMPLES as f64 * sampling.sample_time).min(spare);
        Some(Budget { seconds: own.seconds.max(wanted), ..own })
    }

    fn measure(
        &mut self,
        planned: &Planned,
        room: CaseTime,
        taken: &mut CaseSamples,
    ) -> Result<(), CannotMeasure> {
        let begun = self.clock.now();
        let (case, sampling) = (&planned.candidate.case, &planned.sampling);
        let within = self.left().map(|left| left.max(room.own.map_or(0.0, |own| own.seconds)));
        let mut prepared = self.station.prepare(&planned.candidate, within, None)?;
        let amount = calibrate_amount(prepared.as_mut(), sampling)?;
        let own = self.extended_limit(room, sampling, begun);
        let rule = rule(case, sampling, own);
        let cpus = self.maker.machine.cpu.allowed.len();
        let cpus_used = case.busy_threads().min(cpus.max(1));
        let headline = plimsoll_bench::headline(case);
        let seed = Seed::new(self.maker.seed, case.id().as_str(), headline.map_or("elapsed", |m| m.name));
        let looking = self.clock.now();
        let mut offer = prepared.offer();
        offer.writable = self.station.reference_writes(planned).then(|| prepared.provide_file());
        let tools = self.station.prepare_tools(planned, &offer);
        let mut reference_tools = ReferenceRuns::new(tools, seed, room.tools);
        let sampling_began = self.clock.now();
        reference_tools.seconds = sampling_began - looking;
        self.clock.begin_case();
        let ending = loop {
            let named = headline.map(|m| m.name);
            let before = self.clock.now() - reference_tools.seconds;
            let sample = self.sample_all_tools(prepared.as_mut(), amount, &mut reference_tools, named);
            taken.reference_s = reference_tools.seconds;
            let took = self.clock.now() - reference_tools.seconds - before;
            let mut sample = sample?;
            // The counter covers more than the sample; a stop within it is excluded.
            let most = sample.conditions.excluded.unwrap_or(1.0);
            let stopped = &mut sample.conditions.throttled;
            *stopped = stopped.map(|sum| (sum / cpus_used as f64).clamp(0.0, 1.0).min(most));
            let value = headline.and_then(|m| sample.values.get(m.name).copied()).unwrap_or(sample.elapsed);
            taken.add(sample, value);
            (self.emit)(RunEvent::Sampled { case: case.id(), n: taken.samples.len(), value });
            let samples = Samples::new(taken.headline.clone()).map_err(CannotMeasure::environment)?;
            let used = self.clock.now() - begun - reference_tools.seconds;
            let used = used_after_next(used, took, sampling.sample_time, own);
            if let Some(ending) = rule.decide(&samples, seed, used)
                && (ending == Ending::Fixed || !reference_tools.want_more())
            {
                break ending;
            }
        };
        let (change, seconds) = (self.clock.end_case(), self.clock.now() - sampling_began);
        taken.tool_results = reference_tools.finish();
        taken.facts = prepared.verify()?;
        taken.facts.wrong_rate = self.clock.wrong_rate().map(|wrong| wrong.to_string());
        taken.facts.achieved.set(&ENDED_BY, ending.ended_by());
        if let (StopRule::Steady { .. }, Some(metric)) = (rule, headline) {
            taken.keep_last_rounds(ending, metric, seed);
        }
        let subsystem = plimsoll_bench::subsystem_of(case);
        let remarks = self.overrun(planned, room, begun, taken.reference_s).into_iter();
        let remarks = remarks.chain(health::remarks(&change, seconds, subsystem.uses_interfaces));
        taken.facts.warnings.extend(remarks.map(Note::from));
        taken.note_energy(headline);
        let crowded = cpus > 0 && case.cpu_wait_share(cpus) > 0.0;
        taken.remark(ending, sampling.precision, subsystem.second_cost, crowded);
        Ok(())
    }

    /// Returns how far a case started at `begun` (s) exceeded its budget; `None` if not notably, or
    /// without a budget. `reference_s`, the seconds of its reference tools, do not count.
    fn overrun(&self, planned: &Planned, room: CaseTime, begun: f64, reference_s: f64) -> Option<CaseRemark> {
        let own = room.own?;
        let took = self.clock.now() - begun - reference_s;
        let (of, budget, past) = match own.whose {
            EndedBy::GroupBudget => ("its group's budget in the plan", own.seconds, took - own.seconds),
            _ => ("--budget", self.budget?, -(self.left()? + reference_s)),
        };
        let is_fixed = planned.sampling.samples.is_some();
        let is_notable = took > own.seconds && past > (BUDGET_GRACE_SHARE * budget).max(LEAST_PAST);
        is_notable.then_some(CaseRemark::BudgetExceeded { took, budget, past, of, is_fixed })
    }

    /// Takes and returns one sample of plimsoll, and runs each reference tool that needs more
    /// results once, before or after it in random order. Stores pairs of results in
    /// `reference_tools`: for the metric `headline`, with plimsoll's delivered value.
    fn sample_all_tools(
        &mut self,
        own: &mut dyn Prepared,
        amount: SampleAmount,
        reference_tools: &mut ReferenceRuns,
        headline: Option<&str>,
    ) -> Result<Sample, CannotMeasure> {
        let (before, after) = reference_tools.order();
        let begun = self.clock.now();
        reference_tools.take_readings(&before, own)?;
        let between = self.clock.now();
        let sample = self.sample(own, amount)?;
        let ended = self.clock.now();
        reference_tools.take_readings(&after, own)?;
        reference_tools.seconds += between - begun + self.clock.now() - ended;
        if sample.renewed {
            reference_tools.forget();
        }
        reference_tools.pair(&sample, headline);
        Ok(sample)
    }

    fn sample(&mut self, prepared: &mut dyn Prepared, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let at = self.clock.now();
        self.clock.watch();
        let mut sample = prepared.sample(amount)?;
        let seen = self.clock.watched();
        sample.at = at;
        sample.conditions.steal = sample.conditions.steal.or(seen.steal);
        sample.conditions.throttled = sample.conditions.throttled.or(seen.throttled);
        sample.conditions.pages_swapped = seen.pages_swapped;
        // Power covers the whole call: unusable if the timed part is much shorter.
        if sample.elapsed >= MOSTLY_TIMED * (self.clock.now() - at) {
            sample.conditions.package_power = seen.package_power;
            sample.conditions.memory_power = seen.memory_power;
        }
        Ok(sample)
    }
}

#[derive(Clone, Copy)]
struct CaseTime {
    own: Option<Budget>,
    /// Seconds reserved for later cases.
    later: f64,
    tools: Option<f64>,
}

/// Returns the time in s that is used when the next sample ends; the last one `took` s. If it took
/// over 1 s more than `sample_time` and the next exceeds the limit `own`, at least twice `own`.
fn used_after_next(used: f64, took: f64, sample_time: f64, own: Option<Budget>) -> f64 {
    if took <= sample_time + LONGER {
        return used + sample_time;
    }
    let next = used + took;
    own.filter(|own| next >= own.seconds).map_or(next, |own| next.max(2.0 * own.seconds))
}

fn rule(case: &Case, sampling: &Sampling, allowed: Option<Budget>) -> StopRule {
    let budget = allowed.unwrap_or(Budget::NO_LIMIT);
    match sampling.samples.and_then(|n| NonZeroUsize::new(n as usize)) {
        most if case.is_steady() => StopRule::Steady { most, budget },
        Some(n) => StopRule::Exactly(n),
        None => StopRule::Converge { precision: sampling.precision, budget },
    }
}

/// Warms up, then returns the amount of one sample: the work that fills the sample time, or, if the
/// benchmark counts no work, the sample time itself.
fn calibrate_amount(prepared: &mut dyn Prepared, sampling: &Sampling) -> Result<SampleAmount, CannotMeasure> {
    let wanted = sampling.sample_time;
    let first = prepared.sample(SampleAmount::Seconds(warm_up(sampling)))?;
    let Some(work) = first.work.filter(|w| *w > 0 && first.elapsed > 0.0) else {
        return Ok(SampleAmount::Seconds(wanted));
    };
    let scaled = work as f64 * wanted / first.elapsed;
    Ok(SampleAmount::Work(scaled.clamp(1.0, 1e18) as u64))
}

#[derive(Default)]
struct CaseSamples {
    samples: Vec<Sample>,
    headline: Vec<f64>,
    facts: Facts,
    tool_results: Vec<ToolRun>,
    reference_s: f64,
}

impl CaseSamples {
    fn add(&mut self, sample: Sample, value: f64) {
        if sample.renewed {
            self.samples.clear();
            self.headline.clear();
        }
        self.samples.push(sample);
        self.headline.push(value);
    }

    /// Records the energy of the samples, and per unit of work if the headline is a rate.
    fn note_energy(&mut self, headline: Option<plimsoll_bench::Metric>) {
        self.facts.achieved.set_some(&ENERGY, energy::energy(&self.samples));
        let rate = headline.filter(|metric| metric.unit.work().is_some());
        let each =
            rate.and_then(|rate| plimsoll_model::limit::median(energy::per_unit(&self.samples, rate.name)));
        self.facts.achieved.set_some(&ENERGY_PER_UNIT, each);
    }

    fn remark(&mut self, ending: Ending, wanted: f64, second: Loss, crowded: bool) {
        let n = self.samples.len();
        let remark = match ending {
            Ending::NotConverged { half_width: Some(reached), by } => {
                Some(Warning::NotConverged { reached, wanted, by })
            }
            _ => (n < MIN_FOR_INTERVAL).then(|| Warning::FewSamples { n, by: ending.ended_by() }),
        };
        let causes = causes::loss_warnings(&self.samples, second, crowded);
        self.facts.warnings.extend(remark.into_iter().chain(causes).map(Note::from));
    }
}

#[cfg(test)]
mod tests;
