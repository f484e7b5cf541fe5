//! Expands a plan to its cases.

use plimsoll_bench::{Benchmark, Candidate, benchmarks, cpus_of_case};
use plimsoll_machine::Machine;
use plimsoll_model::case::{Case, Pattern, SWEEP, Value, nearest};
use plimsoll_model::plan::{Group, Plan, Sampling, scale, write};
use plimsoll_model::sample::CannotMeasure;
use plimsoll_model::words::is_neutral_value;
use plimsoll_reference::Against;
use plimsoll_run::Planned;
use plimsoll_stats::{Seed, WINDOW_ROUNDS};
use plimsoll_units::text::{format_count, shown};
use rand::seq::SliceRandom;

use super::{UsageError, in_group, none_of, other, subsystem_of};
use crate::cli::other_tools;

/// Expands the plan's groups to the cases that `only` selects. Fails for invalid values or no case.
pub fn planned(plan: &Plan, machine: &Machine) -> Result<Vec<Planned>, UsageError> {
    let only = &plan.file.only;
    let read = |o: &String| Pattern::parse(o).map_err(|e| other(format!("--only: {e}")));
    let filters = only.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<Planned> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut mistakes = Vec::new();
    for (index, group) in plan.groups.iter().enumerate() {
        let parts = scale::scaled(group, plan.scale, plimsoll_bench::uses_test_files).into_iter();
        let cases: Result<Vec<_>, _> = parts.map(|part| of_group(&part, machine, &filters)).collect();
        let (mut cases, against) = match (cases, against(plan, group)) {
            (Ok(cases), Ok(against)) => (cases.concat(), against),
            (cases, against) => {
                mistakes.extend(cases.err().into_iter().chain(against.err()));
                continue;
            }
        };
        if let Err(mistake) = check_ignored_keys(group, &cases) {
            mistakes.push(mistake);
            continue;
        }
        cases.iter_mut().for_each(|candidate| bound_threads(candidate, machine));
        cases.retain(|c| !group.exclude.iter().any(|e| e.covers(&c.case)) && seen.insert(c.case.id()));
        let feasible = cases.iter().filter(|c| c.feasible.is_ok()).count().max(1);
        let sampling = sampling(plan, group);
        let is_steady = cases.iter().any(|one| one.case.is_steady());
        if sampling.samples.is_some_and(|n| n < WINDOW_ROUNDS as u32) && is_steady {
            let why = format!(
                "--steady requires --samples {WINDOW_ROUNDS} or more: the last {WINDOW_ROUNDS} must be steady"
            );
            mistakes.push(in_group(&group.places, "samples", None, why));
            continue;
        }
        let budget = group.how.budget.map(|budget| budget.as_secs_f64() / feasible as f64);
        all.extend(cases.into_iter().map(|candidate| Planned {
            candidate,
            sampling,
            against: against.clone(),
            budget,
            job: group.job.clone(),
            group: index,
            repeat: 0,
        }));
    }
    none_of(mistakes)?;
    let is_meant = |filter: &Pattern| all.iter().any(|p| filter.matches(p.candidate.case.id().as_str()));
    if let Some((name, _)) = only.iter().zip(&filters).find(|(_, filter)| !is_meant(filter)) {
        return Err(matches_none(plan, name));
    }
    match all.len().saturating_mul(plan.repeat as usize) {
        0 if only.is_empty() => Err(other("the plan's excludes leave no case")),
        0 => Err(matches_none(plan, only.first().map(String::as_str).unwrap_or_default())),
        n if n as u64 <= MOST_CASES => Ok(all),
        n if plan.repeat > 1 && all.len() as u64 <= MOST_CASES => Err(other(format!(
            "--repeat {} of {} is {n} measurements: at most {MOST_CASES} are made, use --repeat {} or less",
            plan.repeat,
            format_count(all.len(), "case"),
            MOST_CASES / all.len() as u64
        ))),
        n => Err(too_many(n as u64)),
    }
}

fn matches_none(plan: &Plan, only: &str) -> UsageError {
    if only.trim().is_empty() {
        return other("--only requires a name, such as memory or network.tcp".to_owned());
    }
    let part = only.split('.').next().unwrap_or_default();
    let command = plimsoll_bench::commands().find(|command| *command == part);
    let is_meant = |name: &str| Pattern::parse(only).is_ok_and(|pattern| pattern.may_match(name));
    let mut planned = plan.groups.iter().flat_map(|group| &group.benchmarks);
    if let Some(command) = command
        && benchmarks().any(|benchmark| is_meant(benchmark.name()))
        && !planned.any(|name| subsystem_of(name) == command)
    {
        let (only, name) = (shown(only), shown(&plan.name));
        return other(format!(
            "--only {only} matches no case of plan {name}: plimsoll {command} measures it"
        ));
    }
    let parts: Vec<&str> = only.split(['|', ' ', ';', '+', '&']).filter(|part| !part.is_empty()).collect();
    let is_name = |part: &&str| {
        Pattern::parse(part).is_ok_and(|part| benchmarks().any(|benchmark| part.may_match(benchmark.name())))
    };
    if parts.len() > 1 && parts.iter().all(is_name) {
        let (only, list) = (shown(only), shown(&parts.join(",")));
        return other(format!("--only {only} matches no case: write --only {list}"));
    }
    let here = command.and(only.rsplit('.').next()).and_then(|word| other_tools::value("--op", word));
    let line = here.and_then(|here| match here.strip_prefix("--only ") {
        Some(name) => Some(format!("{} {here}", subsystem_of(name))),
        None => (part == "disk").then(|| format!("disk {here}")),
    });
    if let Some(line) = line {
        return other(format!("--only {} matches no case: write plimsoll {line}", shown(only)));
    }
    // A gpu is not a cpu: the first letters must agree.
    let commands = plimsoll_bench::commands().filter(|name| name.chars().next() == only.chars().next());
    let near = nearest(only, commands).filter(|_| !only.contains(['.', ':']));
    let of_part = |part: &str| -> Vec<&str> {
        benchmarks().map(|b| b.name()).filter(|name| subsystem_of(name) == part).collect()
    };
    let mut known = [part, &plan.name].into_iter().map(|part| (part, of_part(part)));
    let hint = match near.map(str::to_owned).or_else(|| plimsoll_bench::nearest_name(only)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => match known.find(|(_, names)| !names.is_empty()) {
            Some((part, names)) => format!("the benchmarks of {part} are {}", names.join(", ")),
            None => "plimsoll run --list shows the names".to_owned(),
        },
    };
    other(format!("--only {} matches no case; {hint}", shown(only)))
}

/// Marks a case as infeasible if it has more threads than can take several turns on its CPUs within
/// a sample. A kernel runs each thread for about 3 ms (`base_slice`, sched-debug), so all take
/// turns in 3 ms × threads ÷ CPUs.
fn bound_threads(candidate: &mut Candidate, machine: &Machine) {
    const MOST_PER_CPU: usize = 256;
    let threads = candidate.case.threads();
    if threads <= MOST_PER_CPU || candidate.feasible.is_err() {
        return;
    }
    let mut cpus = cpus_of_case(machine, &candidate.case);
    cpus.sort_unstable();
    cpus.dedup();
    let (cpus, most) = (cpus.len(), cpus.len().max(1) * MOST_PER_CPU);
    // If no CPU is known, the benchmark reports it.
    if cpus > 0 && threads > most {
        candidate.feasible = Err(CannotMeasure::not_here(format!(
            "--threads must be at most {most} on {}: {threads} would take minutes for a sample",
            format_count(cpus, "CPU")
        )));
    }
}

/// Returns the cases in order of measurement: as planned, or with repetitions each in random order.
pub fn in_turn(plan: &Plan, planned: &[Planned]) -> Vec<Planned> {
    if plan.repeat <= 1 {
        return planned.to_vec();
    }
    let repeats = (1..=plan.repeat).flat_map(|repeat| {
        let mut all: Vec<Planned> = planned.iter().map(|p| Planned { repeat, ..p.clone() }).collect();
        all.shuffle(&mut Seed::new(plan.seed, "order of the cases", &repeat.to_string()).generator());
        all
    });
    repeats.collect()
}

/// Returns the hash that identifies a plan with its cases: 16 hexadecimal digits.
pub fn hash(plan: &Plan, planned: &[Planned]) -> String {
    let mut text = write::text(&plan.file);
    for planned in planned {
        text.push('\n');
        text += planned.candidate.case.id().as_str();
    }
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

fn of_group(group: &Group, machine: &Machine, filters: &[Pattern]) -> Result<Vec<Candidate>, UsageError> {
    let mut candidates = Vec::new();
    for name in &group.benchmarks {
        let Some(benchmark) = plimsoll_bench::find(name) else { continue };
        // A benchmark that is not selected must not refuse the typed values.
        if !filters.is_empty() && !filters.iter().any(|f| f.may_match(name)) {
            continue;
        }
        // Checked before expansion: the named lists alone already multiply to this many cases.
        let least = group.lists.values().fold(1u64, |n, list| n.saturating_mul(list.len() as u64));
        if least > MOST_CASES {
            return Err(in_group(&group.places, "benchmark", None, too_many(least).to_string()));
        }
        let sweeps = plimsoll_bench::subsystem_of(&Case::of(name)).sweeps_sizes;
        if !sweeps && group.words("size", &[]).iter().any(|size| size == SWEEP) {
            let why = format!("{name}: --size sweep is not supported on {name}: write bytes, such as 1G");
            return Err(in_group(&group.places, "size", None, why));
        }
        let more =
            benchmark.cases(machine, group).map_err(|e| wrong(benchmark, machine, group, filters, &e))?;
        let is_meant = |case: &Case| filters.iter().any(|f| f.matches(case.id().as_str()));
        candidates.extend(more.into_iter().filter(|c| filters.is_empty() || is_meant(&c.case)));
    }
    Ok(candidates)
}

/// Fails if a parameter of the group would be ignored because none of its cases has it.
fn check_ignored_keys(group: &Group, cases: &[Candidate]) -> Result<(), UsageError> {
    let is_ignored = |(key, values): &(&&'static str, &Vec<Value>)| {
        !values.iter().all(|value| is_neutral_value(key, value))
            && cases.iter().all(|c| c.case.get(key).is_none())
    };
    let ignored = group.lists.iter().find(is_ignored).filter(|_| !cases.is_empty());
    ignored.map_or(Ok(()), |(key, _)| {
        let names = group.benchmarks.join(", ");
        let why = format!("--{key} has no effect on these cases of {names}: leave it out");
        Err(in_group(&group.places, key, None, why))
    })
}

/// Returns `why`, an error of `benchmark`, at its place in the plan: parameter and refused value.
fn wrong(
    benchmark: &dyn Benchmark,
    machine: &Machine,
    group: &Group,
    filters: &[Pattern],
    why: &str,
) -> UsageError {
    let named = why.trim_start_matches('-').split([':', ' ']).next().unwrap_or_default();
    let key = group.lists.get_key_value(named).map(|(key, _)| *key);
    let elsewhere = key.and_then(|key| operation_of_another(benchmark, machine, group, filters, key));
    let elsewhere = match elsewhere {
        Some(Err(why)) if !group.places.known() => return other(why),
        Some(Ok(advice)) => advice,
        _ => String::new(),
    };
    let message = |option: &str| format!("{}: {option}{why}{elsewhere}", benchmark.name());
    let Some((key, values)) = group.lists.get_key_value(named) else {
        return in_group(&group.places, "benchmark", None, message(""));
    };
    if !group.places.keys.contains_key(*key) {
        return other(message(if why.starts_with("--") { "" } else { "--" }));
    }
    let message = message("");
    let refused = |value: &Value| {
        let mut alone = group.clone();
        alone.lists.insert(key, vec![value.clone()]);
        benchmark.cases(machine, &alone).is_err()
    };
    in_group(&group.places, key, values.iter().position(refused), message)
}

/// Returns advice if another benchmark of the subsystem has the refused operations of `key`. The
/// error is a message if one is a benchmark's name or similar to another benchmark's operation.
fn operation_of_another(
    refusing: &dyn Benchmark,
    machine: &Machine,
    group: &Group,
    filters: &[Pattern],
    key: &'static str,
) -> Option<Result<String, String>> {
    let typed = group.lists.get(key).filter(|_| key == "op")?;
    let part = subsystem_of(refusing.name());
    let siblings = || benchmarks().filter(|one| subsystem_of(one.name()) == part);
    let takes = |one: &&dyn Benchmark, typed: &[Value]| {
        let asked = Group::default().with(key, typed.to_vec());
        one.keys().contains(&key) && one.cases(machine, &asked).is_ok()
    };
    for value in typed {
        let word = value.to_string();
        let is_called_so =
            |one: &&dyn Benchmark| one.name().split_once('.').is_some_and(|(_, last)| last == word);
        let takers = || siblings().filter(|one| takes(one, std::slice::from_ref(value)));
        match siblings().find(is_called_so).map(|one| one.name()) {
            Some(name) if takers().all(|one| !one.descriptor().by_default) => {
                return Some(Err(format!("--op: '{word}' is a benchmark: write --only {name} instead")));
            }
            _ if takers().next().is_some() => continue,
            _ => {}
        }
        let all = Group::default().with(key, vec![Value::Word("all".to_owned())]);
        let operations = siblings().filter(|one| one.keys().contains(&key)).flat_map(|one| {
            let cases = one.cases(machine, &all).unwrap_or_default();
            cases.into_iter().filter_map(move |c| Some((one.name(), c.case.word(key)?.to_owned())))
        });
        let operations: Vec<(&str, String)> = operations.collect();
        let Some(near) = nearest(&word, operations.iter().map(|(_, operation)| operation.as_str())) else {
            let defaults = siblings().filter(|one| one.keys().contains(&key) && one.descriptor().by_default);
            let why = format!(
                "--op: plimsoll {part} has no operation '{}'; plimsoll {part} --help-all lists the operations of each benchmark",
                shown(&word)
            );
            return (defaults.count() > 1).then_some(Err(why));
        };
        let (name, near) = operations.iter().find(|(_, operation)| *operation == near)?;
        let is_refused = siblings()
            .filter(|one| one.keys().contains(&key) && one.descriptor().by_default)
            .filter(|one| filters.is_empty() || filters.iter().any(|f| f.may_match(one.name())))
            .any(|one| !takes(&one, &[Value::Word(near.to_owned())]));
        return (*name != refusing.name() || is_refused).then(|| {
            let shown = shown(&word);
            Err(format!(
                "--op: plimsoll {part} has no operation '{shown}'; did you mean {near}, with --only {name}?"
            ))
        });
    }
    let name = siblings().find(|one| one.name() != refusing.name() && takes(one, typed))?.name();
    Some(Ok(format!("; {name} has it: write --only {name}")))
}

fn sampling(plan: &Plan, group: &Group) -> Sampling {
    let how = &group.how;
    let series = how.series.map(|n| scale::series(n, plan.scale));
    let usual = plan.sampling.sample_time;
    let time = how.sample_time.map_or(usual, |time| time.as_secs_f64());
    Sampling {
        samples: how.samples.or(series).or(plan.sampling.samples),
        sample_time: if series.is_some() { scale::series_sample_time(time, plan.scale, usual) } else { time },
        warm_up: how.warm_up.map(|time| time.as_secs_f64()),
        precision: how.precision.unwrap_or(plan.sampling.precision),
    }
}

fn against(plan: &Plan, group: &Group) -> Result<Against, UsageError> {
    let of_plan = plan.file.how.against.as_deref().unwrap_or_default();
    let (own, places) = match group.how.against.as_deref() {
        Some(own) => (own, &group.places),
        None if plan.file.places.keys.contains_key("against") => (of_plan, &plan.file.places),
        None => return Against::parse("--against", of_plan).map_err(other),
    };
    match Against::parse("against", own).map_err(|why| in_group(places, "against", None, why))? {
        Against::Named(names) if plan.scale < 1.0 && group.how.against.is_some() => {
            Ok(Against::NamedOrQuicker(names))
        }
        against => Ok(against),
    }
}

const MOST_CASES: u64 = 10_000;

fn too_many(cases: u64) -> UsageError {
    other(format!(
        "the lists of values multiply to {cases} cases: at most {MOST_CASES} are measured, shorten the lists"
    ))
}
