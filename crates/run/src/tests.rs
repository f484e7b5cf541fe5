//! Whole runs against a mock station and clock, deterministic to the last digit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use plimsoll_bench::{Candidate, PreparedCase};
use plimsoll_machine::health::Throttled;
use plimsoll_machine::{Machine, Root};
use plimsoll_model::fixture;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_model::measurement::Status;
use plimsoll_model::sample::{AtFault, Elsewhere, Facts, Repeated, Trials, WrongAnswer, WrongAnswerSource};

use super::*;

/// Script of the mock: values of its samples, and events.
#[derive(Clone, Default)]
struct Script {
    values: Vec<f64>,
    refuse: Option<CannotMeasure>,
    break_after: Option<(usize, FailureCause)>,
    wrong: bool,
    /// CPUs that repeat the wrong answer.
    wrong_on: Vec<usize>,
    /// Cause of a failed check of the answer.
    unchecked: Option<FailureCause>,
    work: bool,
    /// Excluded share of each sample.
    excluded: Option<f64>,
    /// Set-up time per case in s; zero beyond the list.
    set_up: Vec<f64>,
    /// Time per reading of each case's tool in s; no tool beyond the list.
    tools: Vec<f64>,
    /// Duration of a sample relative to the requested time.
    stretch: f64,
    /// Pairs per tool.
    pairs: usize,
    /// Throttling events per case.
    throttled: u64,
}

impl Script {
    fn steady() -> Self {
        let values = vec![1e-9, 1.001e-9];
        Script { values, work: true, stretch: 1.0, pairs: 5, ..Script::default() }
    }

    fn wild() -> Self {
        Script { values: vec![1.0, 2.0, 5.0, 3.0, 9.0], ..Script::steady() }
    }
}

#[derive(Default)]
struct Log {
    /// Number of samples at the start of a case.
    case_begun: Cell<Option<usize>>,
    /// Throttling events per case.
    throttled: Cell<u64>,
    now: Cell<f64>,
    amounts: RefCell<Vec<SampleAmount>>,
    alive: Cell<i32>,
}

struct Mock {
    script: Script,
    log: Rc<Log>,
}

struct MockCase {
    script: Script,
    taken: usize,
    log: Rc<Log>,
}

impl Station for Mock {
    fn prepare(&mut self, candidate: &Candidate, _: Option<f64>, machine: Option<&Machine>) -> PreparedCase {
        let set_up = self.script.set_up.get(candidate.case.threads() - 1).copied().unwrap_or(0.0);
        self.log.now.set(self.log.now.get() + set_up);
        self.script.refuse.clone().map_or(Ok(()), Err)?;
        self.log.alive.set(self.log.alive.get() + 1);
        let repeats = |at: &Machine| at.cpu.allowed.iter().any(|cpu| self.script.wrong_on.contains(&cpu));
        let wrong = machine.map_or(self.script.wrong, repeats);
        let script = Script { wrong, ..self.script.clone() };
        Ok(Box::new(MockCase { script, taken: 0, log: Rc::clone(&self.log) }))
    }

    fn reference_seconds(&self, planned: &Planned) -> f64 {
        self.tool_s(planned).map_or(0.0, |seconds| 5.0 * seconds)
    }

    fn prepare_tools(&mut self, planned: &Planned, _: &Offer) -> Vec<PreparedTool> {
        let tool = |seconds| PreparedTool {
            passes: Vec::new(),
            about: ToolRun { metric: "latency".to_owned(), ..fixture::tool_run("tool", &[]) },
            pairs: self.script.pairs,
            prepared: Some(Box::new(MockTool { seconds, log: Rc::clone(&self.log) })),
        };
        self.tool_s(planned).map(tool).into_iter().collect()
    }
}

impl Mock {
    fn tool_s(&self, planned: &Planned) -> Option<f64> {
        self.script.tools.get(planned.candidate.case.threads() - 1).copied()
    }
}

struct MockTool {
    seconds: f64,
    log: Rc<Log>,
}

impl Prepared for MockTool {
    fn sample(&mut self, _: SampleAmount) -> Result<Sample, CannotMeasure> {
        self.log.now.set(self.log.now.get() + self.seconds);
        Ok(Sample { values: [("latency".to_owned(), 1e-9)].into(), ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        Ok(Facts::default())
    }
}

impl Prepared for MockCase {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        if let Some((_, cause)) = self.script.break_after.filter(|(n, _)| *n <= self.taken) {
            return Err(CannotMeasure::new(cause, "broke"));
        }
        // This machine does 1000 units of work per second.
        let (elapsed, work) = match amount {
            SampleAmount::Seconds(s) => (s * self.script.stretch, (s * 1000.0) as u64),
            SampleAmount::Work(n) => (n as f64 / 1000.0, n),
        };
        self.log.amounts.borrow_mut().push(amount);
        self.log.now.set(self.log.now.get() + elapsed);
        let value = self.script.values[self.taken % self.script.values.len()];
        self.taken += 1;
        let work = self.script.work.then_some(work);
        let conditions = Conditions { excluded: self.script.excluded, ..Conditions::default() };
        let values = [("latency".to_owned(), value)].into();
        Ok(Sample { elapsed, work, values, conditions, ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let wrong = || WrongAnswer::new(WrongAnswerSource::Cpu(0), "sum", "5").expected("4").into();
        match self.script.unchecked {
            Some(cause) => Err(CannotMeasure::new(cause, "no check")),
            None if self.script.wrong => Err(wrong()),
            None => {
                let mut facts = Facts::default();
                facts.achieved.put("threads", 1);
                Ok(facts)
            }
        }
    }
}

impl Drop for MockCase {
    fn drop(&mut self) {
        self.log.alive.set(self.log.alive.get() - 1);
    }
}

struct MockClock(Rc<Log>);

impl Clock for MockClock {
    fn now(&self) -> f64 {
        self.0.now.get()
    }
    fn watch(&mut self) {}
    fn watched(&mut self) -> Conditions {
        Conditions { steal: Some(0.25), package_power: Some(50.0), ..Conditions::default() }
    }
    fn begin_case(&mut self) {
        self.0.case_begun.set(Some(self.0.amounts.borrow().len()));
    }
    fn end_case(&mut self) -> HealthCounters {
        let times = self.0.throttled.get();
        let packages = [("0".to_owned(), times)].into_iter().filter(|(_, times)| *times > 0).collect();
        let throttled = Some(Throttled { packages, ..Throttled::default() });
        HealthCounters { throttled, ..HealthCounters::default() }
    }
}

#[test]
fn what_happens_to_the_hardware_is_a_warning_and_energy_a_fact() {
    let done = run_with(Script { throttled: 2, ..Script::steady() }, Some(5), None, 1);
    assert_eq!(done.log.case_begun.get(), Some(1));
    let made = &done.measurements[0];
    assert!(made.warns("thermal-throttling"));
    assert_eq!(made.conditions.package_power, Some(50.0));
    // Five samples of 0.1 s at 50 W.
    let energy = made.achieved.get(&ENERGY).unwrap();
    assert!((energy - 25.0).abs() < 1e-9, "{energy}");
    // The headline of this benchmark is a time, not a rate of work.
    assert_eq!(made.achieved.get(&ENERGY_PER_UNIT), None);
}

struct Finished {
    ran: RunResult,
    measurements: Vec<Measurement>,
    events: Vec<RunEvent>,
    log: Rc<Log>,
}

fn planned(case: Case, samples: Option<u32>, sample_time: f64) -> Planned {
    let candidate = Candidate::new(case, Ok(()));
    let sampling = Sampling { samples, sample_time, precision: 0.01, warm_up: None };
    let against = Against::NoTool;
    Planned { candidate, sampling, against, budget: None, job: Vec::new(), group: 0, repeat: 0 }
}

fn run_with(script: Script, samples: Option<u32>, budget: Option<f64>, cases: usize) -> Finished {
    let mut machine = Machine::discover(&Root::at("/nonexistent"));
    machine.cpu.allowed = [0, 1].into_iter().collect();
    let log = Rc::new(Log::default());
    log.throttled.set(script.throttled);
    let mut events = Vec::new();
    let user_limits = UserLimits::default();
    let maker = Maker { machine: &machine, node: "here", seed: 7, user_limits: &user_limits, margin: 0.03 };
    let one = |n| planned(Case::of("null").with_count("threads", n as u64), samples, 0.1);
    let planned: Vec<Planned> = (1..=cases).map(one).collect();
    let (station, clock) = (&mut Mock { script, log: Rc::clone(&log) }, &mut MockClock(Rc::clone(&log)));
    let emit = &mut |event: RunEvent| events.push(event);
    let mut harness = Harness { station, clock, emit, maker, budget, reference_s: 0.0 };
    let ran = harness.run("run", &planned, Vec::new());
    let measurements = ran.measurements(maker);
    assert_eq!(log.alive.get(), 0, "every prepared case is torn down");
    Finished { ran, measurements, events, log }
}

#[test]
fn a_fixed_number_of_samples_is_exact_and_the_warm_up_is_not_among_them() {
    for n in [1, 2, 5, 40] {
        let done = run_with(Script::steady(), Some(n), None, 1);
        assert_eq!(done.measurements[0].metrics[0].samples.len(), n as usize);
        assert_eq!(done.log.amounts.borrow().len(), n as usize + 1);
    }
}

#[test]
fn work_is_calibrated_to_the_sample_time_and_without_work_every_sample_is_a_time() {
    for (work, sample) in [(true, SampleAmount::Work(100)), (false, SampleAmount::Seconds(0.1))] {
        let done = run_with(Script { work, ..Script::steady() }, Some(3), None, 1);
        let amounts = done.log.amounts.borrow();
        assert_eq!((amounts[0], &amounts[1..]), (SampleAmount::Seconds(0.05), &[sample; 3][..]));
    }
}

#[test]
fn steady_samples_converge_at_six() {
    let done = run_with(Script::steady(), None, None, 1);
    let summary = &done.measurements[0].metrics[0].summary;
    assert_eq!(summary.n, 6);
    assert!(summary.ci95.is_some());
    assert!(!done.measurements[0].warns("not-converged"));
}

#[test]
fn wild_samples_end_at_thirty_and_say_so() {
    let done = run_with(Script::wild(), None, None, 1);
    assert_eq!(done.measurements[0].metrics[0].summary.n, 30);
    let warning = done.measurements[0].warnings.iter().find(|w| w.code == "not-converged").unwrap();
    assert!(warning.text.contains("--precision"), "{}", warning.text);
}

#[test]
fn what_ended_the_sampling_is_kept_and_the_advice_follows_from_it() {
    let wild = Script::wild();
    let ended = |script: Script, samples, budget| {
        let made = run_with(script, samples, budget, 1).measurements.remove(0);
        let text = made.warnings.iter().find(|w| ["not-converged", "few-samples"].contains(&w.code.as_str()));
        (made.achieved.get(&ENDED_BY), text.map(|w| w.text.clone()).unwrap_or_default())
    };
    for (script, samples, budget, by, helps, idle) in [
        (Script::steady(), None, None, EndedBy::Precision, "", "--"),
        (Script::steady(), Some(3), Some(60.0), EndedBy::Samples, "--samples 5", "--budget"),
        (wild.clone(), None, Some(60.0), EndedBy::SampleCap, "--samples", "--budget"),
        (wild.clone(), None, Some(1.0), EndedBy::Budget, "--budget", "--samples"),
        (wild.clone(), None, Some(0.05), EndedBy::Budget, "--budget", "--samples"),
    ] {
        let (reason, text) = ended(script, samples, budget);
        assert_eq!(reason, Some(by), "{text}");
        assert!(text.contains(helps) && !text.contains(idle), "{by:?}: {text}");
    }
    assert!(ended(wild, None, Some(0.05)).1.contains("after 1 of the 5 samples"));
}

/// A search takes many times the sample time: the budget ends sampling before it is exceeded.
#[test]
fn samples_that_take_longer_than_asked_keep_to_the_budget() {
    let wild = Script { work: false, ..Script::wild() };
    for (budget, n) in [(1.0, 1), (9.5, 4), (20.5, 9)] {
        // Each takes 2 s, and the warm-up 1 s.
        let done = run_with(Script { stretch: 20.0, ..wild.clone() }, None, Some(budget), 1);
        let made = &done.measurements[0];
        assert_eq!(made.metrics[0].samples.len(), n, "{budget}");
        assert_eq!(made.warns("budget-exceeded"), n == 1, "{budget}");
        assert!(done.log.now.get() <= f64::max(budget, 3.0) + 1e-6, "{budget}: {}", done.log.now.get());
    }
}

#[test]
fn a_case_that_ends_after_its_budget_says_so() {
    let reported = |set_up: f64, samples, budget, cases| -> Vec<String> {
        let script = Script { set_up: vec![set_up], ..Script::steady() };
        let made = run_with(script, samples, budget, cases).measurements;
        let exceeded = made.iter().flat_map(|m| &m.warnings).filter(|w| w.code == "budget-exceeded");
        exceeded.map(|w| w.text.clone()).collect()
    };
    let late = reported(9.0, None, Some(2.0), 1);
    assert!(late[0].starts_with("budget exceeded: the case took 9."), "{late:?}");
    assert!(late[0].contains(" after --budget (2.0 s): ") && late[0].contains("--sample-time"), "{late:?}");
    // Only the case that took too long is reported, not later ones with their full share.
    assert_eq!(reported(9.0, None, Some(2.0), 3).len(), 1);
    let fixed = reported(0.0, Some(50), Some(1.0), 1);
    assert!(fixed[0].contains("use fewer --samples"), "{fixed:?}");
    for (set_up, samples, budget) in [(9.0, None, None), (0.5, None, Some(2.0)), (9.0, None, Some(20.0))] {
        assert!(reported(set_up, samples, budget, 1).is_empty(), "{set_up} {budget:?}");
    }
}

#[test]
fn what_little_time_was_left_says_nothing() {
    let with = |share| {
        let script = Script { excluded: Some(share), ..Script::steady() };
        run_with(script, Some(6), None, 1).measurements.remove(0)
    };
    for (share, doubted) in [(0.5, false), (0.6, true)] {
        let made = with(share);
        assert_eq!((made.status, made.warns("mostly-excluded")), (Status::Ok, doubted));
    }
    let all = with(0.995);
    assert_eq!((all.status, all.metrics.len()), (Status::Invalid, 1));
    assert!(all.reason.as_deref().unwrap().contains("99.5 % of the time is excluded"), "{:?}", all.reason);
    let called = Measurement { status: Status::Ok, reason: None, ..all.clone() };
    assert_eq!(called.effective_status(), (Status::Invalid, all.reason));
}

#[test]
fn a_short_budget_is_shared_by_the_first_and_the_last_cases() {
    let done = run_with(Script::wild(), None, Some(0.5), 8);
    // A case takes 0.15 s at least, but has 0.06 s.
    let measured: Vec<bool> = done.measurements.iter().map(|m| m.status == Status::Ok).collect();
    assert_eq!(measured, [true, false, true, false, true, false, false, true]);
    let passed_over = &done.measurements[1];
    assert_eq!(passed_over.status, Status::Skipped);
    assert!(passed_over.reason.as_deref().unwrap().contains("--budget"));
    assert!(done.log.now.get() < 1.0, "{}", done.log.now.get());
    let left_s = |event: &RunEvent| match event {
        RunEvent::Preparing { left_s, .. } => Some(*left_s),
        _ => None,
    };
    let left: Vec<f64> = done.events.iter().filter_map(left_s).collect();
    // Skipping a case takes no time of the rest.
    assert!(left[0] == 0.5 && left[1] == left[2] && left[2] > 0.0, "{left:?}");
    assert!(left.is_sorted_by(|a, b| a >= b), "{left:?}");
}

#[test]
fn a_case_that_is_slow_to_set_up_has_its_samples_and_takes_none_from_others() {
    let slow = Script { set_up: vec![0.0, 0.0, 5.5], ..Script::wild() };
    let done = run_with(slow, None, Some(10.0), 8);
    let samples: Vec<usize> = done.ran.outcomes.iter().map(|outcome| outcome.samples.len()).collect();
    assert!(samples.len() == 8 && samples.iter().all(|n| *n >= 6), "{samples:?}");
    assert!(done.log.now.get() <= 12.5, "{}", done.log.now.get());
}

#[test]
fn a_wrong_answer_is_repeated_on_its_cpu_and_on_another() {
    let trials = |wrong| Trials { wrong, of: 3 };
    for (wrong_on, there, elsewhere, at_fault) in [
        (vec![0], 3, 0, AtFault::Cpu),
        (vec![0, 1], 3, 3, AtFault::Program),
        (vec![], 1, 0, AtFault::Unstable),
    ] {
        let script = Script { wrong: true, wrong_on: wrong_on.clone(), ..Script::steady() };
        let done = run_with(script, Some(5), None, 1);
        let wrong = done.measurements[0].wrong_answer.as_deref().unwrap();
        let elsewhere = Elsewhere { cpu: 1, trials: trials(elsewhere) };
        let wanted = Repeated { there: trials(there), elsewhere: Some(elsewhere) };
        assert_eq!((wrong.repeated, wrong.at_fault()), (Some(wanted), at_fault), "{wrong_on:?}");
        let made = &done.measurements[0];
        assert_eq!(made.reason.as_deref(), Some(wrong.to_string().as_str()));
        assert_eq!((made.status, made.cause), (Status::Failed, Some(FailureCause::WrongAnswer)));
        assert!(made.metrics.is_empty());
    }
}

#[test]
fn a_figure_that_is_not_finite_voids_the_measurement() {
    let done = run_with(Script { values: vec![f64::NAN], ..Script::steady() }, Some(5), None, 1);
    assert_eq!(done.measurements[0].status, Status::Failed);
}

#[test]
fn a_lost_worker_costs_its_own_case() {
    let lost = Script { break_after: Some((2, FailureCause::Environment)), ..Script::steady() };
    let done = run_with(lost, Some(5), None, 3);
    assert_eq!(done.measurements.len(), 3);
    for made in &done.measurements {
        assert_eq!((made.status, made.cause), (Status::Failed, Some(FailureCause::Environment)));
    }
}

#[test]
fn an_interrupt_keeps_what_is_finished() {
    let interrupted = Script { break_after: Some((0, FailureCause::Interrupted)), ..Script::steady() };
    let done = run_with(interrupted, Some(5), None, 3);
    assert!(done.ran.interrupted);
    assert!(done.measurements.is_empty());
    assert_eq!(done.events.last(), Some(&RunEvent::Interrupted));
}

#[test]
fn a_refused_case_is_skipped_with_its_reason() {
    let refused = Script { refuse: Some(CannotMeasure::not_here("needs avx512f")), ..Script::steady() };
    let done = run_with(refused, Some(5), None, 1);
    assert_eq!(done.measurements[0].status, Status::Skipped);
    assert_eq!(done.measurements[0].reason.as_deref(), Some("needs avx512f"));
}

#[test]
fn stolen_time_is_a_condition_and_a_warning() {
    let done = run_with(Script::steady(), Some(5), None, 1);
    assert_eq!(done.measurements[0].conditions.steal, Some(0.25));
    assert!(done.measurements[0].warns("stolen"));
    assert_eq!(done.measurements[0].metrics[0].series[0].steal, Some(0.25));
}

#[test]
fn the_same_seed_gives_the_same_measurements() {
    let values: Vec<f64> = (0..12).map(|i| 1.0 + f64::from(i * 5 % 12) / 100.0).collect();
    let script = Script { values, ..Script::steady() };
    let once = run_with(script.clone(), Some(12), None, 2);
    let again = run_with(script, Some(12), None, 2);
    assert_eq!(once.measurements, again.measurements);
}

#[test]
fn events_tell_the_whole_story_in_order() {
    let done = run_with(Script::steady(), Some(2), None, 1);
    let kind = |event: &RunEvent| serde_json::to_value(event).unwrap()["event"].clone();
    let kinds: Vec<serde_json::Value> = done.events.iter().map(kind).collect();
    assert_eq!(kinds, ["started", "preparing", "sampled", "sampled", "measured"]);
}

#[test]
fn the_expected_time_has_the_tools_in_it_and_a_budget_bounds_them() {
    let expected = |budget| {
        let script = Script { tools: vec![100.0, 1.0], ..Script::steady() };
        match run_with(script, Some(20), budget, 2).events.first() {
            Some(RunEvent::Started { expected_s, .. }) => *expected_s,
            other => panic!("{other:?}"),
        }
    };
    let own = expected(None) - 5.0 * 101.0;
    assert!(own > 1.0 && own < 60.0, "{own}");
    assert!((expected(Some(2.0)) - (2.0 + 12.0)).abs() < 1e-9, "tools take six times the budget at most");
}

#[test]
fn tools_of_a_scaled_plan_give_one_pair_and_no_row_is_warned_of_it() {
    let script = Script { tools: vec![1.0, 1.0], pairs: 1, ..Script::steady() };
    let finished = run_with(script, Some(20), None, 2);
    let tool_results = || finished.ran.outcomes.iter().flat_map(|outcome| &outcome.tool_results);
    assert_eq!(tool_results().map(|tool_result| tool_result.pairs.len()).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(tool_results().flat_map(|tool_result| &tool_result.warnings).count(), 0);
    assert!(finished.ran.outcomes.iter().all(|outcome| outcome.samples.len() == 20));
}

#[test]
fn slow_tools_give_fewer_pairs_and_take_nothing_from_our_own_samples() {
    let beside = |tools: &[f64], budget| {
        let script = Script { tools: tools.to_vec(), ..Script::steady() };
        let finished = run_with(script, None, budget, 2);
        let outcomes = &finished.ran.outcomes;
        let results = || outcomes.iter().flat_map(|outcome| &outcome.tool_results);
        let pairs: Vec<usize> = results().map(|result| result.pairs.len()).collect();
        let reported = results().flat_map(|result| &result.warnings);
        let own: Vec<usize> = outcomes.iter().map(|outcome| outcome.samples.len()).collect();
        (pairs, reported.filter(|w| w.code() == "few-pairs").count(), own)
    };
    let (_, _, alone) = beside(&[], Some(10.0));
    // Six times ten seconds for two cases: five readings of one second fit, or one of thirty.
    assert_eq!(beside(&[1.0, 1.0], Some(10.0)), (vec![5, 5], 0, alone.clone()));
    assert_eq!(beside(&[30.0, 30.0], Some(10.0)), (vec![3, 3], 2, alone.clone()));
    // An expensive tool gets what a cheap one leaves, in any order.
    assert_eq!(beside(&[8.0, 1.0], Some(10.0)), (vec![5, 5], 0, alone.clone()));
    assert_eq!(beside(&[1.0, 8.0], Some(10.0)), (vec![5, 5], 0, alone.clone()));
    assert_eq!(beside(&[30.0, 30.0], None), (vec![5, 5], 0, alone));
}

#[test]
fn a_stated_amount_is_expected_to_take_its_time() {
    let planned = |id: &str| planned(id.parse().unwrap(), Some(3), 0.2);
    let machine = Machine::discover(&Root::live());
    let free = expected_of(&machine, &planned("cpu.peak/op=add/type=i8/threads=1"));
    assert!((free - 1.2).abs() < 1e-9, "three samples, the warm-up and the set-up: {free}");
    let stated = planned("cpu.peak/op=fma/type=f64/isa=portable/threads=1/work=1000000000000/scaling=strong");
    assert!(expected_of(&machine, &stated) > 10.0 * free, "{}", expected_of(&machine, &stated));
    let capped = Planned { budget: Some(2.0), ..stated };
    assert!((expected_of(&machine, &capped) - 2.0).abs() < 1e-9, "the budget of its group ends it");
}

#[test]
fn an_answer_that_could_not_be_checked_is_not_called_wrong() {
    let measured = |cause| {
        let script = Script { unchecked: Some(cause), ..Script::steady() };
        run_with(script, Some(5), None, 1).measurements
    };
    assert_eq!(measured(FailureCause::Environment)[0].reason.as_deref(), Some("no check"));
    assert!(measured(FailureCause::Interrupted).is_empty(), "an interrupt leaves the case out here, too");
}
