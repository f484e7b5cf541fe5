//! `plimsoll plan`, and the limits in plans.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_bench::RawTarget;
use plimsoll_bench_disk::fio::{JobFile, JobTarget, PLACE};
use plimsoll_command::cli::{self, Common, Measurable, PlanWork};
use plimsoll_command::resolve::{self, UsageError};
use plimsoll_machine::{Machine, Root};
use plimsoll_model::limit::user::{UserLimitError, UserLimits};
use plimsoll_model::plan::file::{PlanFile, SERVER};
use plimsoll_model::plan::scale::{LEAST_OPERATIONS, LEAST_SERIES};
use plimsoll_model::plan::{Plan, write};
use plimsoll_output::report::{Style, StyleOptions};
use plimsoll_run::{Planned, expected_seconds, minimum_seconds};
use plimsoll_units::quantity::{Quantity, Unit};
use plimsoll_units::text::{format_count, read_small, shown_path};

use crate::app::{Failure, code, complain, printed};

pub(crate) fn execute(work: PlanWork) -> Result<ExitCode, Failure> {
    match work {
        PlanWork::List => {
            // One plan per line, for programs.
            printed(&match std::io::stdout().is_terminal() {
                true => cli::built_in_list(Style::detect(StyleOptions::default()).width) + "\n",
                false => cli::rows(&cli::built_in_rows(), usize::MAX),
            })
        }
        PlanWork::Show { what, common } => printed(&shown(&what, &common)?),
        PlanWork::Check { plans } => {
            let machine = discovered();
            let checked = plans.iter().map(|plan| checked(plan, &machine));
            let (right, wrong): (Vec<_>, Vec<_>) = checked.partition(Result::is_ok);
            let mut mistakes: Vec<String> = wrong.into_iter().filter_map(Result::err).flatten().collect();
            // Each group repeats a mistake that belongs to the whole plan.
            let mut reported = HashSet::new();
            mistakes.retain(|mistake| reported.insert(mistake.clone()));
            let Some(last) = mistakes.pop() else {
                return printed(&right.into_iter().flatten().collect::<String>());
            };
            mistakes.iter().for_each(|mistake| complain(mistake));
            Err(Failure::usage(last))
        }
    }
}

/// Returns the failure for the first mistake in `error`. For a plan file, adds the number of
/// further ones; a wrong option is only the same mistake again for each benchmark.
pub(crate) fn usage(error: UsageError) -> Failure {
    let further = error.lines().len().saturating_sub(1) * usize::from(error.is_of_file());
    let further = Some(further).filter(|n| *n > 0).map(|n| format_count(n, "further mistake"));
    let more = further.map(|further| format!("; {further} (plimsoll plan check FILE lists them)"));
    Failure::usage(error.to_string() + &more.unwrap_or_default())
}

/// Returns `common`; if no directory or device was typed, with that of the fio job file `what`.
/// Fails if the job file is wrong, or would write to a device without `--destroy-data-on`.
pub(crate) fn located(what: &Measurable, mut common: Common) -> Result<Common, Failure> {
    let Some(job) = job_file(what, &common)? else { return Ok(common) };
    if common.dir.is_none() && common.target.is_none() {
        if let Some(JobTarget::Directory(path) | JobTarget::Device(path)) = &job.place
            && path.try_exists().is_ok_and(|exists| !exists)
            // The consent that is missing comes first.
            && (job.writes.is_none() || !path.starts_with("/dev"))
        {
            let from = job.plan.groups.first().and_then(|group| group.places.description(PLACE));
            let (from, path) = (from.unwrap_or_default(), shown_path(path));
            let why = format!("{from}: {path} does not exist; create it, or add --dir or --target");
            return Err(Failure::usage(why));
        }
        match job.place {
            Some(JobTarget::Directory(directory)) => common.dir = Some(directory),
            // Read only: consent must name the device on the command line.
            Some(JobTarget::Device(device)) => common.target = Some(RawTarget { device, consent: None }),
            None => {}
        }
    }
    let (Some(RawTarget { device, consent: None }), Some(job)) = (&common.target, job.writes) else {
        return Ok(common);
    };
    let device = shown_path(device);
    let line = format!(
        "{job} destroys the data on {device}, which requires --target {device} and --destroy-data-on={device}:SERIAL; \
         nothing was measured"
    );
    Err(Failure { line, code: code::REFUSED })
}

/// Fails if `--target` is typed, or a job file names a directory or device without `--dir`.
pub(crate) fn refuse_targets(what: &Measurable, common: &Common) -> Result<(), Failure> {
    if common.target.is_some() {
        return Err(Failure::usage("--target is not supported with --hosts: a device is of one machine"));
    }
    let place = job_file(what, common)?.and_then(|job| job.place).filter(|_| common.dir.is_none());
    let why =
        "--hosts and a job file that names a directory or device require --dir: it is that of each host";
    place.map_or(Ok(()), |_| Err(Failure::usage(why)))
}

fn job_file(what: &Measurable, common: &Common) -> Result<Option<JobFile>, Failure> {
    match what {
        Measurable::Plan(name) if resolve::is_job_file(name) => {
            resolve::job_file(name, common).map(Some).map_err(usage)
        }
        _ => Ok(None),
    }
}

fn discovered() -> Machine {
    let root = Root::live();
    let mut machine = Machine::discover(&root);
    machine.set_storage_behind(&root, Path::new("."));
    machine
}

/// Returns the plan file that does what the command line does. Fails if it could not run here.
fn shown(what: &Measurable, common: &Common) -> Result<String, Failure> {
    let mut plan = resolve::plan(what, common).map_err(usage)?;
    limits(&plan.file, common.limits.as_deref())?;
    resolve::planned(&plan, &discovered()).map_err(usage)?;
    if let Some(path) = &common.limits {
        let own = plan.file.limits.take();
        let typed = read_small(path, 1 << 20).map_err(Failure::usage)?;
        plan.file.limits = Some(own.into_iter().chain([typed]).collect::<Vec<_>>().join("\n"));
    }
    let servers = plan.file.groups.iter_mut().filter_map(|group| group.lists.remove(SERVER)).count();
    let flags = [
        ("--server", servers > 0),
        ("--dir", common.dir.is_some()),
        ("--target", common.target.is_some()),
        ("--reference-path", !common.reference_path.is_empty()),
    ];
    let left_out = flags.into_iter().filter_map(|(flag, typed)| typed.then_some(flag));
    let head = match left_out.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        flags => format!("# {flags}: not part of a plan file; add it on the command line\n"),
    };
    Ok(head + &write::text(&plan.file))
}

/// Checks the plan `name`. Returns `NAME: valid, 12 cases`; the error has one line per mistake.
fn checked(name: &str, machine: &Machine) -> Result<String, Vec<String>> {
    let lines = |e: UsageError| e.lines();
    let plan = resolve::plan(&Measurable::Plan(name.to_owned()), &Common::default()).map_err(lines)?;
    let limits = of_plan(&plan.file).filter_map(Result::err).map(|failure| failure.line);
    let (limits, planned) = (limits.collect::<Vec<_>>(), resolve::planned(&plan, machine).map_err(lines));
    let planned = match (limits.is_empty(), planned) {
        (true, Ok(planned)) => planned,
        (_, planned) => return Err([limits, planned.err().unwrap_or_default()].concat()),
    };
    let here = planned.iter().filter(|p| p.candidate.feasible.is_ok()).count();
    let all = planned.len();
    let not = Some(all - here).filter(|n| *n > 0);
    let not =
        not.map(|n| format!("; {n} cannot be measured on this machine (plimsoll run PLAN --list says why)"));
    let (name, all) = (plimsoll_units::text::shown(name), format_count(all, "case"));
    Ok(format!("{name}: valid, {all}{}\n", not.unwrap_or_default()))
}

pub(crate) fn limits(plan: &PlanFile, typed: Option<&Path>) -> Result<UserLimits, Failure> {
    let mut limits = typed_limits(typed)?;
    for own in of_plan(plan) {
        limits.extend(own?);
    }
    Ok(limits)
}

pub(crate) fn typed_limits(typed: Option<&Path>) -> Result<UserLimits, Failure> {
    let Some(path) = typed else { return Ok(UserLimits::default()) };
    let limits = UserLimits::read(path).map_err(Failure::usage)?;
    let file = shown_path(path);
    fitting(&limits).map_err(|why| Failure::usage(format!("--limits {file}{why}")))?;
    Ok(limits)
}

/// Fails for a limit on a metric that no benchmark has; the error is printed after the file's name.
fn fitting(limits: &UserLimits) -> Result<(), UserLimitError> {
    let benchmarks: Vec<_> = plimsoll_bench::benchmarks().map(|b| (b.name(), b.all_metrics())).collect();
    limits.fit(&benchmarks)
}

/// Parses and checks each limit of a plan file. An error has the limit's line and column.
fn of_plan(plan: &PlanFile) -> impl Iterator<Item = Result<UserLimits, Failure>> {
    single_limits(plan).into_iter().enumerate().map(|(index, text)| {
        let (line, column) = plan.places.of("limit", Some(index));
        let place = |error: UserLimitError| {
            let (why, file) = (error.why, &plan.places.file);
            Failure::usage(format!("plan {file}, line {line}, column {column}: limit: {why}"))
        };
        let limits = UserLimits::parse(&text).and_then(|limits| fitting(&limits).map(|()| limits));
        limits.map_err(place)
    })
}

/// Returns notes for the user: the plan's, its groups' with planned cases, on scale, and on budget.
pub(crate) fn notes(plan: &Plan, planned: &[Planned]) -> Vec<String> {
    let scaled = (plan.scale != 1.0).then(|| {
        format!(
            "scaled to {0}: volumes, work, file sizes and numbers of operations, of which each thread has at least {LEAST_OPERATIONS}; a group's file has at least 64 MiB and two blocks for each thread of its largest case, a system of equations goes with the cube root; numbers of samples are as planned; a reference tool gives one pair, and one that needs over 5 s for it is replaced by an installed one that measures the same sooner; a series has {0} of its samples and at least {LEAST_SERIES}, which are shorter",
            plan.scale
        )
    });
    let mut notes: Vec<String> =
        plan.file.note.iter().cloned().chain(scaled).chain(longer_than_budget(plan, planned)).collect();
    for (index, group) in plan.groups.iter().enumerate() {
        let name = group.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let note = group.note.as_ref().filter(|_| planned.iter().any(|p| p.group == index));
        let note = note.map(|note| name + note).filter(|note| !notes.contains(note));
        notes.extend(note);
    }
    notes
}

/// Returns a warning if the fixed (or else least) numbers of samples take longer than the budget.
fn longer_than_budget(plan: &Plan, planned: &[Planned]) -> Option<String> {
    let is_open = planned.iter().all(|p| p.sampling.samples.is_none());
    let exact = |p: &&Planned| p.candidate.feasible.is_ok() && p.sampling.samples.is_some();
    let expected = match is_open {
        true => minimum_seconds(planned),
        false => planned.iter().filter(exact).map(|p| expected_seconds(&p.sampling)).sum(),
    };
    let budget = plan.budget.filter(|budget| expected > *budget)?;
    let [expected, budget] = [expected, budget].map(|s| Quantity::new(s, Unit::Second).human(2));
    Some(match is_open {
        true => format!(
            "the cases need about {expected}, longer than the budget of {budget}: they get fewer samples, and late ones none; give --budget more time, or shorten --sample-time"
        ),
        false => format!(
            "the number of samples is fixed and they take about {expected}, longer than the budget of {budget}: a case that has begun takes all of them, and cases after the end of the budget are skipped; take fewer --samples, or give --budget more time"
        ),
    })
}

/// Returns each limit of the plan as the text of a limits file (TOML) with this limit alone.
fn single_limits(plan: &PlanFile) -> Vec<String> {
    let table: toml::Table =
        plan.limits.as_deref().and_then(|text| toml::from_str(text).ok()).unwrap_or_default();
    let all = table.get("limit").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let one = |limit: toml::Value| {
        toml::to_string(&toml::Table::from_iter([("limit".to_owned(), toml::Value::Array(vec![limit]))])).ok()
    };
    all.into_iter().filter_map(one).collect()
}
