//! Errors for parameters that benchmarks do not have, with the benchmarks that have them.

use plimsoll_bench::benchmarks;
use plimsoll_model::case::Pattern;
use plimsoll_model::plan::Group;

use super::{Measurable, UsageError, other, subsystem_of};

/// Fails if a benchmark that `only` names in full lacks a parameter of `typed`.
pub(super) fn refused_by_a_named_one(only: &[String], typed: &Group) -> Result<(), UsageError> {
    for benchmark in only.iter().filter_map(|name| plimsoll_bench::find(name)) {
        if let Some(key) = typed.lists.keys().find(|key| !benchmark.keys().contains(*key)) {
            let keys: Vec<String> = benchmark.keys().iter().map(|key| format!("--{key}")).collect();
            let keys = if keys.is_empty() { "no parameters".to_owned() } else { keys.join(", ") };
            let part = subsystem_of(benchmark.name());
            let same = benchmarks().filter(|other| subsystem_of(other.name()) == part);
            let takers: Vec<&str> =
                same.filter(|other| other.keys().contains(key)).map(|other| other.name()).collect();
            let instead = match takers.is_empty() {
                true => format!("it takes {keys}"),
                false => format!("it is an option of {}", takers.join(", ")),
            };
            return Err(other(format!("--{key} is not supported on {}: {instead}", benchmark.name())));
        }
    }
    Ok(())
}

/// Fails if a name in `only` is the second half of benchmarks' names, such as `latency`, or a
/// synonym. The message names the benchmarks, of the subsystem `what` if possible.
pub(super) fn refuse_unknown_names(what: &Measurable, only: &[String]) -> Result<(), UsageError> {
    for name in only.iter().filter(|name| plimsoll_bench::find(name).is_none()) {
        if name.starts_with('!') {
            return Err(other(format!(
                "--only {}: nothing can be excluded; name what is to be measured, such as --only cpu,memory",
                plimsoll_units::text::shown(name)
            )));
        }
        if let Some(benchmark) = benchmarks().find(|b| b.descriptor().synonyms.contains(&name.as_str())) {
            let benchmark = benchmark.name();
            return Err(other(format!("--only {name} matches no case; did you mean {benchmark}?")));
        }
        let ends_so = |full: &&str| full.split_once('.').is_some_and(|(_, last)| last == name);
        let mut meant: Vec<&str> = benchmarks().map(|benchmark| benchmark.name()).filter(ends_so).collect();
        let is_own =
            |full: &str| matches!(what, Measurable::Subsystem { name, .. } if name == subsystem_of(full));
        if meant.iter().any(|full| is_own(full)) {
            meant.retain(|full| is_own(full));
        }
        if !meant.is_empty() {
            let (shown, meant) = (plimsoll_units::text::shown(name), meant.join(" or "));
            return Err(other(format!("--only {shown} matches no case; did you mean {meant}?")));
        }
    }
    Ok(())
}

/// Fails if a name in `only` matches only benchmarks of other commands than `command`.
pub(super) fn of_this_command(command: &str, only: &[String]) -> Result<(), UsageError> {
    for name in only {
        let Ok(pattern @ Pattern::Name(_)) = Pattern::parse(name.split('/').next().unwrap_or_default())
        else {
            continue;
        };
        let meant = || benchmarks().filter(|b| pattern.may_match(b.name())).map(|b| subsystem_of(b.name()));
        let Some(belongs) = meant().next().filter(|_| meant().all(|part| part != command)) else { continue };
        if plimsoll_bench::commands().any(|other| other == belongs) {
            let shown = plimsoll_units::text::shown(name);
            return Err(other(format!(
                "--only {shown} is not supported on plimsoll {command}: it belongs to plimsoll {belongs}; write plimsoll {belongs} --only {shown}"
            )));
        }
    }
    Ok(())
}

/// Returns the error for parameters that no default benchmark has; it names benchmarks with them.
pub(super) fn unsupported_by_all(groups: &[Group], typed: &Group) -> UsageError {
    let keys: Vec<String> = typed.lists.keys().map(|k| format!("--{k}")).collect();
    let keys = keys.join(" and ");
    let mut here: Vec<&str> =
        groups.iter().flat_map(|g| &g.benchmarks).map(|name| subsystem_of(name)).collect();
    here.dedup();
    let own = || benchmarks().filter(|b| here.contains(&subsystem_of(b.name())));
    let able = own().filter(|b| typed.lists.keys().all(|key| b.keys().contains(key)));
    let names: Vec<&str> = able.map(|b| b.name()).collect();
    if !names.is_empty() {
        let (verb, it) = if typed.lists.len() == 1 { ("requires", "it") } else { ("require", "them") };
        return other(format!("{keys} {verb} a benchmark that takes {it}: --only {}", names.join(",")));
    }
    let takers = typed.lists.keys().map(|key| {
        let names: Vec<&str> = own().filter(|b| b.keys().contains(key)).map(|b| b.name()).collect();
        format!("--{key} is an option of {}", names.join(", "))
    });
    let takers: Vec<String> = takers.collect();
    other(format!("{keys} are mutually exclusive: {}; leave out one of them", takers.join("; ")))
}
