//! Resolves typed options, plan file and defaults to a [`Plan`], and expands it to cases.

mod cases;
mod refusals;

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_bench::{Benchmark, benchmarks};
use plimsoll_bench_disk::fio::{self, JobFile, Unsupported};
use plimsoll_model::case::{Key, Pattern, ValueKind, nearest};
use plimsoll_model::plan::file::{self, FileError, PlanFile};
use plimsoll_model::plan::{Group, Plan, PlanPositions, Sampling, built_in};
use plimsoll_units::quantity::{Quantity, Unit};

use crate::cli::{Common, Measurable};

pub use cases::{hash, in_turn, planned};
use plimsoll_model::plan::scale::SCALED_KEYS;
use plimsoll_units::text::shown_bytes;
use refusals::{of_this_command, refuse_unknown_names, refused_by_a_named_one, unsupported_by_all};

const SAMPLE_TIME: Duration = Duration::from_millis(200);
/// Default relative half-width of the confidence interval at which sampling stops.
const PRECISION: f64 = 0.01;

/// Invalid command line or plan: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// Invalid plan file.
    #[error("{0}")]
    File(#[from] FileError),
    /// Other error, in one line.
    #[error("{0}")]
    Other(String),
    /// Several errors; `Display` writes the first.
    #[error("{}", .0.iter().take(1).map(ToString::to_string).collect::<String>())]
    Several(Vec<UsageError>),
}

impl UsageError {
    /// Returns whether it is a mistake in a plan file.
    pub fn is_of_file(&self) -> bool {
        match self {
            Self::Several(all) => all.iter().any(Self::is_of_file),
            one => matches!(one, Self::File(_)),
        }
    }

    /// Returns all errors, one line each.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Several(all) => all.iter().flat_map(Self::lines).collect(),
            one => vec![one.to_string()],
        }
    }
}

impl From<Vec<FileError>> for UsageError {
    fn from(all: Vec<FileError>) -> Self {
        Self::Several(all.into_iter().map(Self::File).collect())
    }
}

fn none_of(mistakes: Vec<UsageError>) -> Result<(), UsageError> {
    if mistakes.is_empty() { Ok(()) } else { Err(UsageError::Several(mistakes)) }
}

fn other(text: impl Into<String>) -> UsageError {
    UsageError::Other(text.into())
}

fn in_group(places: &PlanPositions, key: &str, index: Option<usize>, why: String) -> UsageError {
    if !places.known() {
        return other(why);
    }
    let at = places.of(key, index);
    let why = why.replace('\n', " ");
    if let Some(description) = places.description(key) {
        return other(format!("{description}: {why}"));
    }
    FileError::at(&places.file, at, &why).into()
}

/// Resolves the command line to a plan with all defaults. Fails for invalid plans or options.
pub fn plan(what: &Measurable, common: &Common) -> Result<Plan, UsageError> {
    let file = file(what, common)?;
    let times = common.sample_time.zip(file.how.budget);
    if let Some((sample_time, budget)) = times.filter(|(sample_time, budget)| sample_time > budget) {
        let [sample_time, budget] =
            [sample_time, budget].map(|time| Quantity::new(time.as_secs_f64(), Unit::Second));
        return Err(other(format!(
            "--sample-time {sample_time} is longer than the budget for all samples, {budget}: give a longer --budget, too"
        )));
    }
    let budget = file.how.budget.map(|b| b.as_secs_f64());
    let mut groups = file.groups.clone();
    for group in &mut groups {
        group.budget = group.how.budget.map(|b| b.as_secs_f64()).or(budget);
    }
    Ok(Plan {
        name: file.name.clone().unwrap_or_default(),
        groups,
        sampling: Sampling {
            samples: file.how.samples,
            sample_time: file.how.sample_time.unwrap_or(SAMPLE_TIME).as_secs_f64(),
            warm_up: None,
            precision: file.how.precision.unwrap_or(PRECISION),
        },
        repeat: file.repeat.unwrap_or(1),
        scale: file.scale.unwrap_or(1.0),
        budget,
        dir: common.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
        // JSON readers represent integers exactly up to 2^53.
        seed: file.seed.unwrap_or_else(|| plimsoll_system::random::unique_number() >> 11),
        file,
    })
}

/// Resolves the command line to a plan file: the named plan, changed by the typed options.
pub fn file(what: &Measurable, common: &Common) -> Result<PlanFile, UsageError> {
    let mut typed = Group::default();
    let (mut file, narrow) = match what {
        Measurable::Plan(name) => (named_plan(name, common)?, false),
        Measurable::Kept => return Err(other("--resume requires the id of a run")),
        Measurable::Text { name, text } => (file::parse_kept(name, text)?, false),
        Measurable::Subsystem { name, lists } => {
            for (key, texts) in lists {
                refuse_missing_units(name, key, texts)?;
                read_list(&mut typed, key, texts)?;
            }
            let groups = groups_of(|b| b.descriptor().by_default && subsystem_of(b.name()) == name);
            (PlanFile { name: Some(name.clone()), groups, ..PlanFile::default() }, true)
        }
    };
    refuse_empty_items("only", &common.only)?;
    if !common.threads.is_empty() {
        if let Measurable::Subsystem { name, .. } = what
            && let Some(instead) = plimsoll_bench::subsystem(name).and_then(|part| part.instead_of_threads)
        {
            return Err(other(format!("--threads is not supported on plimsoll {name}: {instead}")));
        }
        read_list(&mut typed, "threads", &common.threads)?;
    }
    if !common.server.is_empty() {
        read_list(&mut typed, file::SERVER, &common.server)?;
        measures_networks(&file.groups, &common.only)?;
    }
    if let Measurable::Subsystem { name, .. } = what {
        of_this_command(name, &common.only)?;
    }
    refuse_unknown_names(what, &common.only)?;
    if let Some(key) = SCALED_KEYS.into_iter().find(|key| typed.asked(key))
        && common.sample_time.is_some()
    {
        return Err(other(format!("--{key} and --sample-time are mutually exclusive")));
    }
    if !common.only.is_empty() {
        file.only.clone_from(&common.only);
    }
    let extras = named_extras(&file.groups, &file.only);
    file.groups.extend(extras);
    refused_by_a_named_one(&file.only, &typed)?;
    file.groups = overridden(std::mem::take(&mut file.groups), &typed, narrow)?;
    sampled(&mut file, common);
    file.name.get_or_insert_with(|| "unnamed".to_owned());
    Ok(file)
}

/// Fails if `--server` has no effect: the plan has no network benchmark, or `only` selects none.
fn measures_networks(groups: &[Group], only: &[String]) -> Result<(), UsageError> {
    let patterns: Vec<Pattern> = only.iter().filter_map(|name| Pattern::parse(name).ok()).collect();
    let names = groups.iter().flat_map(|group| &group.benchmarks);
    let measured =
        names.filter(|name| patterns.is_empty() || patterns.iter().any(|pattern| pattern.may_match(name)));
    let mut known = measured.filter_map(|name| plimsoll_bench::find(name));
    let found = known.find(|benchmark| benchmark.keys().contains(&file::SERVER)).map(drop);
    found.ok_or_else(|| other("--server requires a network benchmark in the plan"))
}

/// Fails if a size has probably lost its unit (`--block 4`, if the subsystem `name` is on files),
/// and for a decimal comma (`--size 1,5G`).
fn refuse_missing_units(name: &str, key: &str, texts: &[String]) -> Result<(), UsageError> {
    let is_slip = |text: &&String| text.parse::<u64>().is_ok_and(|bytes| (1..512).contains(&bytes));
    let on_files = plimsoll_bench::subsystem(name).is_some_and(|part| part.on_files);
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let why = match (texts, texts.iter().find(is_slip)) {
        ([whole, part], Some(slip))
            if (key == "size" || key == "volume" || key == "block" && on_files)
                && slip == whole
                && is_number(part)
                && !is_slip(&part) =>
        {
            let part = plimsoll_units::text::shown(part);
            format!(
                "'{whole},{part}' is a list, and {whole} has no unit: write {whole}.{part}, or {whole}B,{part}"
            )
        }
        (_, Some(slip)) if key == "block" && on_files => {
            format!("'{slip}' has no unit: write {slip}K, or {slip}B for bytes")
        }
        _ => return Ok(()),
    };
    Err(other(format!("--{key}: {why}")))
}

/// Fails if the list `texts` of `option` has several items, of which one is empty.
fn refuse_empty_items(option: &str, texts: &[String]) -> Result<(), UsageError> {
    if texts.len() < 2 || texts.iter().all(|text| !text.is_empty()) {
        return Ok(());
    }
    let kept: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let [typed, kept] = [texts.join(","), kept.join(",")].map(|list| plimsoll_units::text::shown(&list));
    Err(other(format!("--{option} {typed} has a comma with nothing before or after it: write {kept}")))
}

/// Replaces the sampling of the plan and its groups by typed options.
fn sampled(file: &mut PlanFile, common: &Common) {
    for how in file.groups.iter_mut().map(|group| &mut group.how).chain([&mut file.how]) {
        how.samples = how.samples.filter(|_| common.samples.is_none());
        how.series = how.series.filter(|_| common.samples.is_none());
        how.sample_time = how.sample_time.filter(|_| common.sample_time.is_none());
        how.precision = how.precision.filter(|_| common.precision.is_none());
        how.against = how.against.take().filter(|_| common.against.is_empty());
    }
    let how = &mut file.how;
    how.samples = common.samples.or(how.samples);
    how.sample_time = common.sample_time.or(how.sample_time);
    how.precision = common.precision.or(how.precision);
    how.against = how.against.take().or((!common.against.is_empty()).then(|| common.against.clone()));
    how.budget = common.budget.or(how.budget);
    file.margin = common.margin.or(file.margin);
    file.repeat = common.repeat.or(file.repeat);
    file.scale = common.scale.or(file.scale);
    file.seed = common.seed.or(file.seed);
}

/// Reads the fio job file `name`. The error contains all mistakes of the file.
pub fn job_file(name: &str, common: &Common) -> Result<JobFile, UsageError> {
    let unsupported = if common.ignore_unsupported { Unsupported::Ignored } else { Unsupported::Refused };
    let read = fio::read(std::path::Path::new(name), unsupported);
    read.map_err(|all| UsageError::Several(all.into_iter().map(UsageError::Other).collect()))
}

/// Returns whether `name` is a file name of a fio job, and not a built-in plan.
pub fn is_job_file(name: &str) -> bool {
    built_in::find(name).is_none() && fio::is_job_file(name)
}

fn named_plan(name: &str, common: &Common) -> Result<PlanFile, UsageError> {
    let is_job_file = is_job_file(name);
    if !is_job_file && common.ignore_unsupported {
        return Err(other("--ignore-unsupported requires a fio job file, FILE.fio"));
    }
    if !is_job_file && common.target.is_some() {
        let why =
            "--target requires a fio job file, FILE.fio, or the command disk: plimsoll disk --target DEVICE";
        return Err(other(why));
    }
    if let Some(plan) = built_in::find(name) {
        return Ok(file::parse(plan.name, plan.text)?);
    }
    if is_job_file {
        let mut plan = job_file(name, common)?.plan;
        let stem = std::path::Path::new(name).file_stem().unwrap_or_default();
        plan.name = Some(fio::plan_name(&stem.to_string_lossy()));
        return Ok(plan);
    }
    let looks_like_a_file = name.ends_with(".toml") || name.contains('/');
    if !looks_like_a_file && !std::path::Path::new(name).exists() {
        let names = built_in::names();
        let shown = plimsoll_units::text::shown(name);
        let titled: Vec<&str> = built_in::titled(name).iter().map(|plan| plan.name).collect();
        let near =
            if titled.is_empty() { Vec::from_iter(nearest(name, names.iter().copied())) } else { titled };
        let near =
            if near.is_empty() { String::new() } else { format!("did you mean '{}'? ", near.join("' or '")) };
        let is_command = |word: &str| plimsoll_bench::commands().any(|command| command == word);
        let is_tool = |word: &str| plimsoll_reference::find(word).is_some();
        if common.only.is_empty() && is_command(name) {
            return Err(other(format!("'{shown}' is a command, not a plan: write plimsoll {shown}")));
        }
        if benchmarks().any(|benchmark| benchmark.name() == name) {
            return Err(other(format!(
                "'{shown}' is a benchmark, not a plan: write plimsoll run --only {shown}"
            )));
        }
        let in_list = [
            ("only", &common.only, name.split(',').all(is_command)),
            ("against", &common.against, !common.against.is_empty() && is_tool(name)),
            ("threads", &common.threads, !common.threads.is_empty() && name.parse::<u64>().is_ok()),
        ];
        if let Some((option, typed, _)) = in_list.into_iter().find(|(.., fits)| *fits) {
            let list = typed.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(",");
            let list = plimsoll_units::text::shown(&list);
            return Err(other(format!("no plan '{shown}': write plimsoll run --{option} {list}")));
        }
        return Err(other(format!(
            "no plan '{shown}': {near}plans are {}, a TOML file, or a fio job file (FILE.fio); plimsoll plan list describes them",
            names.join(", ")
        )));
    }
    let mut plan = file::read(std::path::Path::new(name))?;
    let stem = std::path::Path::new(name).file_stem().map(|s| shown_bytes(s.as_encoded_bytes()));
    plan.name = plan.name.or(stem);
    Ok(plan)
}

fn subsystem_of(benchmark: &str) -> &str {
    benchmark.split('.').next().unwrap_or_default()
}

/// Returns a group for each benchmark that `--only` names in full and that is in none of `groups`.
fn named_extras(groups: &[Group], only: &[String]) -> Vec<Group> {
    let there = |name: &str| groups.iter().any(|g| g.benchmarks.iter().any(|b| b == name));
    groups_of(|b| only.iter().any(|o| o.split('/').next() == Some(b.name())) && !there(b.name()))
}

/// Returns a group for each benchmark for which `is_meant` returns true.
fn groups_of(is_meant: impl Fn(&dyn Benchmark) -> bool) -> Vec<Group> {
    let meant = benchmarks().filter(|b| is_meant(*b));
    meant.map(|b| Group { benchmarks: vec![b.name().to_owned()], ..Group::default() }).collect()
}

/// Returns advice for a range such as `1..9`, which other tools accept; empty for other text.
fn range_advice(key: &Key, text: &str) -> String {
    let ends = ["..", "-", ":"].iter().find_map(|between| text.split_once(between));
    let valid = |(low, high): &(&str, &str)| {
        key.kind != ValueKind::Word && [low, high].iter().all(|end| key.parse(end).is_ok())
    };
    let Some((low, high)) = ends.filter(valid) else { return String::new() };
    format!("; ranges are not supported: list the values, as in {}", listed(low, high))
}

/// Returns a range as a list: all whole numbers if they are few, otherwise powers of two times
/// `low`, and `high`; `low,high` if they are not whole numbers.
fn listed(low: &str, high: &str) -> String {
    let (Ok(from), Ok(to)) = (low.parse::<u64>(), high.parse::<u64>()) else {
        return format!("{low},{high}");
    };
    let values: Vec<u64> = match to.saturating_sub(from) {
        0..=8 => (from..=to).collect(),
        _ => {
            let doubled = std::iter::successors(Some(from.max(1)), |n| n.checked_mul(2));
            doubled.take_while(|n| *n < to).chain([to]).collect()
        }
    };
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn read_list(group: &mut Group, key: &str, texts: &[String]) -> Result<(), UsageError> {
    let key = Key::find(key).map_err(other)?;
    refuse_empty_items(key.name, texts)?;
    let read =
        |text: &String| key.parse(text).map_err(|e| other(format!("--{e}{}", range_advice(key, text))));
    let values = texts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    group.lists.insert(key.name, values);
    Ok(())
}

/// Returns a group per benchmark, its lists replaced by those of `typed`. A benchmark that lacks a
/// typed parameter is dropped if the command line alone selected it (`narrow`), else keeps its own.
fn overridden(groups: Vec<Group>, typed: &Group, narrow: bool) -> Result<Vec<Group>, UsageError> {
    none_of(groups.iter().filter_map(|group| checked(group).err()).collect())?;
    let mut kept = Vec::new();
    for group in &groups {
        for name in &group.benchmarks {
            let Some(benchmark) = plimsoll_bench::find(name) else { continue };
            let takes = |key: &&str| benchmark.keys().contains(key);
            if narrow && !typed.lists.keys().all(takes) {
                continue;
            }
            let mut own = Group { benchmarks: vec![name.clone()], ..group.clone() };
            own.lists.extend(typed.lists.iter().map(|(k, v)| (*k, v.clone())));
            own.lists.retain(|key, _| takes(key));
            own.places.keys.retain(|key, _| !typed.asked(key));
            // The group's budget is divided among its benchmarks.
            own.how.budget = group.how.budget.map(|all| all / group.benchmarks.len().max(1) as u32);
            kept.push(own);
        }
    }
    if kept.is_empty() {
        return Err(unsupported_by_all(&groups, typed));
    }
    Ok(kept)
}

fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

/// Fails for an unknown benchmark or parameter, and for a fixed amount of work with a sample time.
fn checked(group: &Group) -> Result<(), UsageError> {
    for (index, name) in group.benchmarks.iter().enumerate() {
        if plimsoll_bench::find(name).is_none() {
            let hint = hint(nearest(name, benchmarks().map(|b| b.name())));
            let why = format!("no benchmark '{}'{hint}", plimsoll_units::text::shown(name));
            return Err(in_group(&group.places, "benchmark", Some(index), why));
        }
    }
    let known = || group.benchmarks.iter().filter_map(|b| plimsoll_bench::find(b)).flat_map(|b| b.keys());
    if let Some(key) = group.lists.keys().find(|key| !known().any(|known| known == *key)) {
        let hint = hint(nearest(key, known().copied()));
        let part = group.benchmarks.first().map(|name| subsystem_of(name));
        let takes = |b: &&dyn Benchmark| Some(subsystem_of(b.name())) == part && b.keys().contains(key);
        let takers: Vec<&str> = benchmarks().filter(takes).map(|benchmark| benchmark.name()).collect();
        let takers = match takers.is_empty() {
            true => String::new(),
            false => format!(": it is a parameter of {}", takers.join(", ")),
        };
        let why = format!("{key} is not supported on {}{takers}{hint}", group.benchmarks.join(", "));
        return Err(in_group(&group.places, key, None, why));
    }
    if let Some(key) = SCALED_KEYS.into_iter().find(|key| group.asked(key))
        && group.how.sample_time.is_some()
    {
        let why = format!("{key} and sample-time are mutually exclusive");
        return Err(in_group(&group.places, "sample-time", None, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
