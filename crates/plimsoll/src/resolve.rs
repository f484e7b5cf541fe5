//! From what was typed, a plan file and the defaults to a [`Plan`], and from there to the list of cases.
//!
//! All mistakes end here, before anything is measured.

use std::path::PathBuf;
use std::time::Duration;

use globset::{GlobBuilder, GlobMatcher};

use crate::bench::{self, BENCHMARKS, Candidate};
use crate::case::{CaseError, Key, SWEEP, nearest};
use crate::cli::{Common, What};
use crate::machine::Machine;
use crate::plan::file::{self, FileError, PlanFile};
use crate::plan::{Group, Plan, Sampling};

/// Plans that are built in, by name.
pub const BUILT_IN: &[(&str, &str)] = &[("quick", include_str!("plan/quick.toml"))];

/// Something typed, or in a plan, that cannot be: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// A parameter.
    #[error("{0}")]
    Case(#[from] CaseError),
    /// A plan file.
    #[error("{0}")]
    File(#[from] FileError),
    /// Anything else, in one line.
    #[error("{0}")]
    Other(String),
}

fn other(text: impl Into<String>) -> UsageError {
    UsageError::Other(text.into())
}

/// What was typed, with all defaults filled in.
///
/// # Errors
/// A wrong plan, parameter or combination.
pub fn plan(what: &What, common: &Common) -> Result<Plan, UsageError> {
    let mut typed = Group::default();
    let (file, narrow) = match what {
        What::Plan(name) => (named_plan(name)?, false),
        What::Subsystem { name, lists } => {
            for (key, texts) in lists {
                read_list(&mut typed, key, texts)?;
            }
            (subsystem_plan(name, common), true)
        }
    };
    if !common.threads.is_empty() {
        if matches!(what, What::Subsystem { name, .. } if name == "network") {
            return Err(other(
                "--threads is not for network: a stream has a thread of its own; use --streams",
            ));
        }
        read_list(&mut typed, "threads", &common.threads)?;
    }
    if let Some(key) = ["work", "volume", "count"].into_iter().find(|key| typed.asked(key))
        && common.sample_time.is_some()
    {
        return Err(other(format!(
            "--{key} fixes how much a sample does, --sample-time how long it takes: give one"
        )));
    }
    let mut groups = file.groups;
    groups.extend(named_extras(&groups, &common.only));
    let budget = common.budget.or(file.budget).map(|b| b.as_secs_f64());
    let mut groups = overridden(groups, &typed, narrow)?;
    groups.iter_mut().for_each(|group| group.budget = budget);
    Ok(Plan {
        name: file.name.unwrap_or_else(|| "unnamed".to_owned()),
        groups,
        sampling: Sampling {
            samples: common.samples.or(file.samples),
            sample_time: common
                .sample_time
                .or(file.sample_time)
                .unwrap_or(Duration::from_millis(200))
                .as_secs_f64(),
            precision: common.precision.or(file.precision).unwrap_or(0.01),
        },
        budget,
        dir: common.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
        // JSON readers hold integers up to 2^53 exactly.
        seed: common.seed.or(file.seed).unwrap_or_else(|| rand::random::<u64>() >> 11),
    })
}

fn named_plan(name: &str) -> Result<PlanFile, UsageError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        return Ok(file::parse(name, text)?);
    }
    let looks_like_a_file = name.ends_with(".toml") || name.contains('/');
    if !looks_like_a_file && !std::path::Path::new(name).exists() {
        let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        let shown = crate::text::shown(name);
        return Err(other(format!("no plan '{shown}'; there is {}, or give a TOML file", names.join(", "))));
    }
    let mut plan = file::read(std::path::Path::new(name))?;
    let stem = std::path::Path::new(name).file_stem().map(|s| crate::text::shown_bytes(s.as_encoded_bytes()));
    plan.name = plan.name.or(stem);
    Ok(plan)
}

/// The plan of `plimsoll cpu` and its like: the subsystem's default benchmarks.
fn subsystem_plan(subsystem: &str, _: &Common) -> PlanFile {
    let benchmarks = BENCHMARKS
        .iter()
        .filter(|b| b.by_default() && subsystem_of(b.name()) == subsystem)
        .map(|b| Group { benchmarks: vec![b.name().to_owned()], ..Group::default() });
    PlanFile { name: Some(subsystem.to_owned()), groups: benchmarks.collect(), ..PlanFile::default() }
}

/// The part of a benchmark's name before the dot.
pub fn subsystem_of(benchmark: &str) -> &str {
    benchmark.split('.').next().unwrap_or_default()
}

/// Benchmarks that do not run by default and that `--only` names in full.
fn named_extras(groups: &[Group], only: &[String]) -> Vec<Group> {
    let there = |name: &str| groups.iter().any(|g| g.benchmarks.iter().any(|b| b == name));
    BENCHMARKS
        .iter()
        .filter(|b| only.iter().any(|o| o == b.name()) && !there(b.name()))
        .map(|b| Group { benchmarks: vec![b.name().to_owned()], ..Group::default() })
        .collect()
}

fn read_list(group: &mut Group, key: &str, texts: &[String]) -> Result<(), UsageError> {
    let key = Key::find(key)?;
    let values = texts.iter().map(|t| key.parse(t)).collect::<Result<Vec<_>, _>>()?;
    group.lists.insert(key.name, values);
    Ok(())
}

/// Puts the typed lists over the plan's. A benchmark that lacks a typed parameter is dropped where the command
/// line alone chose the benchmarks (`narrow`), and keeps its own lists where a plan did.
fn overridden(groups: Vec<Group>, typed: &Group, narrow: bool) -> Result<Vec<Group>, UsageError> {
    let mut kept = Vec::new();
    for group in groups {
        for name in &group.benchmarks {
            let benchmark = bench::find(name).ok_or_else(|| {
                let near = nearest(name, BENCHMARKS.iter().map(|b| b.name()));
                let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                other(format!("no benchmark '{}'{hint}", crate::text::shown(name)))
            })?;
            let takes = |key: &&str| benchmark.keys().contains(key);
            if narrow && !typed.lists.keys().all(takes) {
                continue;
            }
            let mut own = Group { benchmarks: vec![name.clone()], ..Group::default() };
            let lists = group.lists.iter().chain(&typed.lists).filter(|(k, _)| takes(k));
            own.lists.extend(lists.map(|(k, v)| (*k, v.clone())));
            kept.push(own);
        }
        let nobody = |key: &&&str| {
            !group.benchmarks.iter().filter_map(|b| bench::find(b)).any(|b| b.keys().contains(*key))
        };
        if let Some(key) = group.lists.keys().find(nobody) {
            return Err(other(format!(
                "no benchmark of the group takes '{key}': {}",
                group.benchmarks.join(", ")
            )));
        }
    }
    if kept.is_empty() {
        let keys: Vec<String> = typed.lists.keys().map(|k| format!("--{k}")).collect();
        return Err(other(format!(
            "no default benchmark takes {} together; name one by --only",
            keys.join(" and ")
        )));
    }
    Ok(kept)
}

/// Expands the plan's groups into cases, and keeps those that `only` names.
///
/// # Errors
/// A value that no machine could measure, or nothing left.
pub fn candidates(plan: &Plan, machine: &Machine, only: &[String]) -> Result<Vec<Candidate>, UsageError> {
    let filters = only.iter().map(|o| Only::parse(o)).collect::<Result<Vec<_>, _>>()?;
    let mut candidates: Vec<Candidate> = Vec::new();
    for group in &plan.groups {
        for name in &group.benchmarks {
            let Some(benchmark) = bench::find(name) else { continue };
            // What is not asked for may not take the typed values, and must not refuse them.
            if !filters.is_empty() && !filters.iter().any(|f| f.may_keep(name)) {
                continue;
            }
            // Before they are multiplied out: the product of what was named is the least that there will be.
            let least = group.lists.values().fold(1u64, |n, list| n.saturating_mul(list.len() as u64));
            if least > MOST_CASES {
                return Err(too_many(least));
            }
            if group.words("size", &[]).iter().any(|size| size == SWEEP) && subsystem_of(name) != "memory" {
                return Err(other(format!("{name}: size: sweep is for memory; write bytes, such as 1G")));
            }
            let more = benchmark.cases(machine, group).map_err(|e| other(format!("{name}: {e}")))?;
            candidates.extend(
                more.into_iter().filter(|c| filters.is_empty() || filters.iter().any(|f| f.keeps(c))),
            );
        }
    }
    let mut seen = std::collections::HashSet::new();
    candidates.retain(|c| seen.insert(c.case.id()));
    match candidates.len() {
        0 => Err(other(format!(
            "--only {} matches nothing that takes the parameters named; the same command with --list and without --only names the cases",
            crate::text::shown(&only.join(","))
        ))),
        n if n as u64 <= MOST_CASES => Ok(candidates),
        n => Err(too_many(n as u64)),
    }
}

/// Most cases of one run.
const MOST_CASES: u64 = 10_000;

fn too_many(cases: u64) -> UsageError {
    other(format!("the lists multiply to {cases} cases; {MOST_CASES} is the most, shorten them"))
}

/// One `--only`: whole dotted components of a benchmark's name, or a glob on case ids.
enum Only {
    Name(String),
    Glob(GlobMatcher),
}

impl Only {
    fn parse(text: &str) -> Result<Self, UsageError> {
        if !text.contains(['*', '?', '[', '{', '/', '=']) {
            return Ok(Only::Name(text.to_owned()));
        }
        let glob = GlobBuilder::new(text).literal_separator(false).build();
        let glob = glob.map_err(|e| other(format!("--only: {}", crate::text::shown(&e.to_string()))))?;
        Ok(Only::Glob(glob.compile_matcher()))
    }

    fn keeps(&self, candidate: &Candidate) -> bool {
        match self {
            Only::Glob(glob) => glob.is_match(candidate.case.id().as_str()),
            Only::Name(_) => self.may_keep(candidate.case.benchmark()),
        }
    }

    /// Whether a case of this benchmark might be kept.
    fn may_keep(&self, benchmark: &str) -> bool {
        match self {
            Only::Glob(_) => true,
            Only::Name(name) => {
                let rest = benchmark.strip_prefix(name.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
        }
    }
}
