//! Everything decided before the first measurement: plan, machine, cases, directory.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};

use super::plans::{notes, usage};
use super::{Failure, code};
use crate::output;
use plimsoll_bench::{Benchmark, Candidate, Options, RawTarget};
use plimsoll_bench_cpu::Peak;
use plimsoll_bench_disk::backing::{RawError, raw};
use plimsoll_command::cli::{Common, Measurable};
use plimsoll_command::resolve;
use plimsoll_compare::Requirement;
use plimsoll_history::Store;
use plimsoll_machine::{Machine, Root};
use plimsoll_metal::clock::{CoreClock, ProbeWork};
use plimsoll_model::case::Case;
use plimsoll_model::job::disk::CacheMode;
use plimsoll_model::job::network::NetworkStreams;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_model::plan::file::SERVER;
use plimsoll_model::plan::{Plan, Sampling};
use plimsoll_model::sample::{CannotMeasure, FailureCause};
use plimsoll_output::report;
use plimsoll_result::evaluate::Maker;
use plimsoll_run::{Planned, expected_of};
use plimsoll_server::wire::SharedKey;
use plimsoll_units::text::{format_count, shown_path};

const MARGIN: f64 = 0.03;

#[derive(Clone)]
pub(super) struct PreparedRun {
    pub(super) plan: Plan,
    pub(super) machine: Machine,
    pub(super) planned: Vec<Planned>,
    pub(super) user_limits: UserLimits,
    pub(super) target: Option<RawTarget>,
    pub(super) key: Option<SharedKey>,
    pub(super) margin: f64,
    pub(super) requirements: Vec<Requirement>,
    pub(super) store: Option<PathBuf>,
}

impl PreparedRun {
    pub(super) fn maker<'a>(&'a self, node: &'a str) -> Maker<'a> {
        Maker {
            machine: &self.machine,
            node,
            seed: self.plan.seed,
            user_limits: &self.user_limits,
            margin: self.margin,
        }
    }

    /// Prepares and checks a run on this machine. `before` is the machine of the run to resume,
    /// whose cache sizes stay. `files`: test files may be made, so the directory is checked.
    pub(super) fn new(
        what: &Measurable,
        common: &Common,
        before: Option<&Machine>,
        files: bool,
    ) -> Result<Self, Failure> {
        super::distinct_outputs(common)?;
        let root = Root::live();
        let mut run = Self::planned(what, common, |plan| {
            let mut machine = Machine::discover(&root);
            if files {
                let place = common.target.as_ref().map_or(&plan.dir, |target| &target.device);
                machine.set_storage_behind(&root, place);
            }
            machine
        })?;
        run.target.clone_from(&common.target);
        let Self { plan, machine, planned, target, requirements, .. } = &mut run;
        match before {
            Some(before) => {
                machine.cpu.effective_cache = before.cpu.effective_cache;
                machine.cpu.capabilities.clone_from(&before.cpu.capabilities);
                machine.cpu.hidden_siblings.clone_from(&before.cpu.hidden_siblings);
            }
            None => {
                measure_sizes(plan, planned, machine);
                keep_earlier_size(machine, common.store.as_deref());
            }
        }
        if machine.cpu.effective_cache.is_some() {
            *planned = resolve::planned(plan, machine).map_err(usage)?;
        }
        let on_files = planned.iter().any(is_on_files);
        match target {
            Some(target) => checked_target(&root, target, planned)?,
            None if files && (on_files || common.dir.is_some()) => {
                let named = common.dir.is_some() || before.is_some();
                plan.dir = checked_dir(&plan.dir, named, machine, planned)?
            }
            None => {}
        }
        for note in super::compare::check_applicable(requirements, planned)? {
            output::complain(&note);
        }
        own_addresses(planned)?;
        super::ref_tools::asked(common, &run)?;
        Ok(run)
    }

    /// Prepares a run for other nodes, each of which itself checks what it can measure.
    pub(super) fn elsewhere(what: &Measurable, common: &Common, machine: Machine) -> Result<Self, Failure> {
        Self::planned(what, common, |_| machine)
    }

    /// Resolves plan, limits, requirements, and the cases for the machine that `discover` returns.
    fn planned(
        what: &Measurable,
        common: &Common,
        discover: impl FnOnce(&Plan) -> Machine,
    ) -> Result<Self, Failure> {
        super::ref_tools::check_options(common)?;
        let requirements = super::compare::requirements(&common.require)?;
        super::compare::check_baseline_store(&requirements, common.store.as_deref())?;
        let plan = resolve::plan(what, common).map_err(usage)?;
        let user_limits = super::plans::limits(&plan.file, common.limits.as_deref())?;
        let machine = discover(&plan);
        let planned = resolve::planned(&plan, &machine).map_err(usage)?;
        Ok(Self {
            margin: plan.file.margin.unwrap_or(MARGIN),
            plan,
            machine,
            planned,
            user_limits,
            target: None,
            key: None,
            requirements,
            store: common.store.clone(),
        })
    }

    pub(super) fn options(&self) -> Options {
        Options {
            dir: self.plan.dir.clone(),
            seed: self.plan.seed,
            target: self.target.clone(),
            key: self.key.clone(),
            until: None,
        }
    }
}

/// Measures what default case sizes depend on, such as the cache, and sets it in `machine`.
fn measure_sizes(plan: &Plan, planned: &[Planned], machine: &mut Machine) {
    let sized = plan.groups.iter().filter(|group| !group.asked("size"));
    let benchmarks = sized
        .flat_map(|group| &group.benchmarks)
        .filter(|name| planned.iter().any(|p| p.candidate.case.benchmark() == name.as_str()));
    for benchmark in benchmarks.filter_map(|name| plimsoll_bench::find(name)) {
        (benchmark.descriptor().look)(machine);
    }
}

/// Replaces the measured effective cache size by its value in the history if both differ only by
/// noise: sizes are part of case names, which must be the same to compare runs.
fn keep_earlier_size(machine: &mut Machine, store: Option<&Path>) {
    let Some(now) = machine.cpu.effective_cache else { return };
    let earlier = read_history(store).and_then(|history| history.effective_cache(machine).ok().flatten());
    machine.cpu.effective_cache = Some(earlier.map_or(now, |earlier| now.keep_earlier(earlier)));
}

pub(super) fn read_history(named: Option<&Path>) -> Option<Store> {
    Store::read(&output::location(named).ok()??).ok()
}

pub(super) fn is_on_files(planned: &Planned) -> bool {
    plimsoll_bench::subsystem_of(&planned.candidate.case).on_files
}

/// Returns whether the case's benchmark can measure to another plimsoll (`--server`).
pub(super) fn takes_server(case: &Case) -> bool {
    plimsoll_bench::find(case.benchmark()).is_some_and(|benchmark| benchmark.keys().contains(&SERVER))
}

/// Returns the case names, one per line, with the reason if one cannot be measured here.
pub(super) fn listed(prepared: &PreparedRun) -> String {
    let line = |Planned { candidate: Candidate { case, feasible, .. }, .. }: &Planned| match feasible {
        Ok(()) => format!("{case}\n"),
        Err(why) => format!("{case}  # not here: {why}\n"),
    };
    prepared.planned.iter().map(line).collect()
}

/// Returns a table of the planned (or all) kernels of `cpu.peak`; empty unless `what` is `cpu`.
pub(super) fn kernels(prepared: &PreparedRun, what: &Measurable) -> String {
    let Measurable::Subsystem { name, lists } = what else { return String::new() };
    let candidates: Vec<Candidate> = prepared.planned.iter().map(|p| p.candidate.clone()).collect();
    let of_peak = |c: &&Candidate| c.case.benchmark() == Peak.name();
    if candidates.iter().find(of_peak).is_none_or(|c| c.case.subsystem() != name) {
        return String::new();
    }
    let clock_hz = CoreClock::calibrate(ProbeWork::SCALAR).ok().and_then(|clock| clock.probe());
    let named = ["op", "type", "isa"].iter().any(|key| lists.contains_key(*key));
    let named = named.then_some(candidates.as_slice());
    format!("\n{}", report::kernels::table(&prepared.machine, named, clock_hz))
}

pub(super) fn dry_run_text(prepared: &PreparedRun, common: &Common) -> Result<String, Failure> {
    let plan = &prepared.plan;
    let feasible = prepared.planned.iter().filter(|p| p.candidate.feasible.is_ok());
    let sampled: BTreeSet<String> = feasible.clone().map(|p| sampled(&p.sampling)).collect();
    let sampled = match sampled.len() {
        0 => self::sampled(&plan.sampling),
        1 | 2 => Vec::from_iter(sampled).join(" or "),
        _ => "samples as each group says".to_owned(),
    };
    let (feasible, all) = (feasible.count(), prepared.planned.len());
    let tools = super::ref_tools::expected_seconds(common, plan, &prepared.planned, &prepared.machine)?;
    let expected = expected_seconds(&prepared.machine, plan, &prepared.planned) + tools;
    let tools = if tools > 0.0 { format!(" ({tools:.0} s of them reference tools)") } else { String::new() };
    let times = if plan.repeat > 1 { format!(", {} times", plan.repeat) } else { String::new() };
    let files = match prepared.planned.iter().any(is_on_files) {
        true => format!(", files in {}", shown_path(&plan.dir)),
        false => String::new(),
    };
    let notes = [notes(plan, &prepared.planned), super::ref_tools::idle(prepared)].concat();
    let notes: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    let (name, seed, cases) = (&plan.name, plan.seed, listed(prepared));
    Ok(format!(
        "{cases}{notes}plan {name}: {feasible} of {all} cases{times}, {sampled}, about {expected:.0} s{tools}, seed {seed}{files}\n"
    ))
}

/// Returns the estimated seconds of all samples in `planned` on this machine, at most the budget.
fn expected_seconds(machine: &Machine, plan: &Plan, planned: &[Planned]) -> f64 {
    let feasible = planned.iter().filter(|p| p.candidate.feasible.is_ok());
    // An empty sum is -0 in Rust.
    let once = 0.0 + feasible.map(|planned| expected_of(machine, planned)).sum::<f64>();
    let all = once * f64::from(plan.repeat);
    plan.budget.map_or(all, |budget| budget.min(all))
}

/// Describes number and length of samples: `6 to 30 samples of 100 ms each`.
fn sampled(sampling: &Sampling) -> String {
    let samples = sampling.samples.map_or("6 to 30 samples".to_owned(), |n| format_count(n, "sample"));
    let time = std::time::Duration::from_secs_f64(sampling.sample_time);
    format!("{samples} of {} each", plimsoll_units::quantity::format_duration(time))
}

/// Checks that `dir` can take test files; marks cases that do not fit as infeasible. Returns its
/// real path. Fails if no case is left, or if `dir` is unusable and was typed (`named`).
fn checked_dir(
    dir: &Path,
    named: bool,
    machine: &Machine,
    planned: &mut [Planned],
) -> Result<PathBuf, Failure> {
    let whole = plimsoll_bench_disk::check(dir, machine);
    let mut refused = None;
    for candidate in planned.iter_mut().map(|p| &mut p.candidate).filter(|c| c.feasible.is_ok()) {
        let Some(size) = plimsoll_bench_disk::file_of(candidate) else { continue };
        if let Err(why) = whole.clone().and_then(|facts| facts.file_size(size)) {
            let line = why.to_string();
            candidate.feasible = Err(CannotMeasure::not_here(line.clone()));
            refused.get_or_insert(line);
        }
    }
    let is_none_left = planned.iter().all(|p| p.candidate.feasible.is_err());
    match (whole, refused) {
        (Err(refusal), _) if named || is_none_left => {
            let is_refused = refusal.cause == FailureCause::Unsafe;
            let code = if is_refused { code::REFUSED } else { code::USAGE };
            Err(Failure { line: refusal.to_string(), code })
        }
        (Err(_), _) => Ok(dir.to_owned()),
        (Ok(_), Some(line)) if is_none_left => Err(Failure::environment(line)),
        (Ok(facts), _) => Ok(facts.path),
    }
}

/// Fails if a source address of a case (`bind`) does not belong to this machine.
fn own_addresses(planned: &[Planned]) -> Result<(), Failure> {
    let mut named =
        planned.iter().filter_map(|p| NetworkStreams::of(&p.candidate.case).bind?.parse::<IpAddr>().ok());
    let is_foreign = |address: &IpAddr| {
        UdpSocket::bind((*address, 0)).is_err_and(|e| e.kind() == ErrorKind::AddrNotAvailable)
    };
    let Some(address) = named.find(is_foreign) else { return Ok(()) };
    Err(Failure::usage(format!(
        "--bind must be an address of this machine: {address} is not; `ip address` lists them"
    )))
}

/// Opens `target` without writing; marks cases not permitted on it infeasible, fails if all are.
fn checked_target(root: &Root, target: &RawTarget, planned: &mut [Planned]) -> Result<(), Failure> {
    let opened = raw::open(target, root, CacheMode::Direct).map(drop);
    opened.map_err(|error| {
        let code = match &error {
            RawError::Usage(_) => code::USAGE,
            RawError::Refused(_) => code::REFUSED,
            RawError::Failed(_) => code::ENVIRONMENT,
        };
        Failure { line: error.to_string(), code }
    })?;
    for candidate in planned.iter_mut().map(|p| &mut p.candidate).filter(|c| c.feasible.is_ok()) {
        candidate.feasible = raw::check_permitted(target, &candidate.case);
    }
    let refusal = |p: &Planned| {
        p.candidate.feasible.as_ref().err().filter(|why| why.cause == FailureCause::Unsafe).cloned()
    };
    match planned.iter().map(refusal).collect::<Option<Vec<_>>>() {
        Some(all) if !all.is_empty() => Err(Failure { line: all[0].to_string(), code: code::REFUSED }),
        _ => Ok(()),
    }
}
