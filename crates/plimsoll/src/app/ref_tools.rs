//! Reference tools from the command line: `--against` and `plimsoll references`.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, never};
use plimsoll_bench_network::Address;
use plimsoll_command::cli::{Common, LaunchFlags, ReferenceFlags};
use plimsoll_machine::Machine;
use plimsoll_model::plan::Plan;
use plimsoll_output::report::tool_results::{ListedTool, listed};
use plimsoll_output::report::{Style, StyleOptions};
use plimsoll_reference::process::{SelfLauncher, become_program};
use plimsoll_reference::supervise::{end_as, supervise};
use plimsoll_reference::{
    Against, InstalledTool, Package, ProgramSearch, REF_TOOLS, RefTool, ReferenceTools, Selection, Trust,
    how_to_get,
};
use plimsoll_run::{Planned, TOOLS_PER_BUDGET};
use plimsoll_system::leftover::{Reaped, Registry};
use plimsoll_units::text::{shown_bytes, shown_path};

use super::prepared::PreparedRun;
use super::{Failure, printed};

/// Fails if `--against`, `--reference-path` or `--reference-server` has a wrong value.
pub(super) fn check_options(common: &Common) -> Result<(), Failure> {
    Against::parse("--against", &common.against).map_err(Failure::usage)?;
    named(&common.reference_path)?;
    servers(&common.reference_server).map(drop)
}

/// Fails for `--margin`, `--reference-path` or `--reference-server` if no case has reference tools,
/// and for `--against` if the named tools can check no case.
pub(super) fn asked(common: &Common, prepared: &PreparedRun) -> Result<(), Failure> {
    let idle = idle(prepared);
    if let Some(line) = idle.first().filter(|_| idle.len() == common.against.len()) {
        return Err(Failure::usage(format!("{line}; plimsoll references lists what each tool checks")));
    }
    if prepared.planned.iter().any(|planned| planned.against != Against::NoTool) {
        return Ok(());
    }
    let typed = [
        ("--margin", common.margin.is_some()),
        ("--reference-path", !common.reference_path.is_empty()),
        ("--reference-server", !common.reference_server.is_empty()),
    ];
    let Some((option, _)) = typed.iter().find(|(_, typed)| *typed) else { return Ok(()) };
    Err(Failure::usage(format!("{option} requires --against")))
}

fn servers(typed: &[(String, String)]) -> Result<BTreeMap<String, Address>, Failure> {
    let known = || REF_TOOLS.iter().filter_map(|ref_tool| Some((ref_tool.name, ref_tool.port?)));
    let read = |(name, place): &(String, String)| {
        let (_, usual) = known().find(|(known, _)| known == name).ok_or_else(|| {
            let names: Vec<&str> = known().map(|(name, _)| name).collect();
            let shown = plimsoll_units::text::shown(name);
            format!("--reference-server must name one of {}: '{shown}' is not", names.join(", "))
        })?;
        let address = Address::parse_with(place, usual);
        Ok((name.clone(), address.map_err(|e| format!("--reference-server {name} {e}"))?))
    };
    typed.iter().map(read).collect::<Result<_, String>>().map_err(Failure::usage)
}

fn named(paths: &[(String, PathBuf)]) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let read = |(name, _): &(String, PathBuf)| {
        Against::parse("--reference-path", std::slice::from_ref(name)).map(drop)
    };
    paths.iter().try_for_each(read).map_err(Failure::usage)?;
    for (name, path) in paths {
        let why = match path.metadata() {
            Ok(there) if there.is_dir() => "it is a directory".to_owned(),
            Ok(_) => continue,
            Err(e) => e.to_string(),
        };
        let shown = shown_path(path);
        return Err(Failure::usage(format!("--reference-path {name}={shown} must name a program: {why}")));
    }
    Ok(paths.iter().cloned().collect())
}

pub(super) fn search(paths: &[(String, PathBuf)]) -> Result<ProgramSearch, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(ProgramSearch::new(&path, named(paths)?, Trust::here()))
}

/// Prepares to run the tools in `selection`; starts none. A message on `interrupts` ends a tool.
pub(super) fn started(selection: Selection, interrupts: Receiver<()>) -> Result<ReferenceTools, Failure> {
    let launcher = SelfLauncher { plimsoll: super::own_program()? };
    let mut tools = ReferenceTools::new(selection, launcher, std::env::temp_dir(), interrupts);
    tools.registry = Registry::here();
    Ok(tools)
}

pub(super) fn idle(prepared: &PreparedRun) -> Vec<String> {
    let asked = prepared.planned.iter().map(|planned| (&planned.against, &planned.candidate.case));
    plimsoll_reference::tools_without_cases(asked, &prepared.machine)
}

fn selection(common: &Common, plan: &Plan, planned: &[Planned]) -> Result<Selection, Failure> {
    let benchmarks = planned.iter().map(|planned| planned.candidate.case.benchmark().to_owned());
    Ok(Selection {
        search: search(&common.reference_path)?,
        benchmarks: benchmarks.collect(),
        is_scaled_down: plan.scale < 1.0,
    })
}

/// Returns the estimated seconds of all reference tools, at most [`TOOLS_PER_BUDGET`] × the budget.
pub(super) fn expected_seconds(
    common: &Common,
    plan: &Plan,
    planned: &[Planned],
    machine: &Machine,
) -> Result<f64, Failure> {
    let selection = selection(common, plan, planned)?;
    let feasible = planned.iter().filter(|planned| planned.candidate.feasible.is_ok());
    let seconds = feasible.map(|p| selection.seconds(&p.against, &p.candidate.case, machine));
    // An empty sum is -0 in Rust.
    let all = (0.0 + seconds.sum::<f64>()) * f64::from(plan.repeat);
    Ok(plan.budget.map_or(all, |budget| all.min(budget * TOOLS_PER_BUDGET)))
}

/// Prepares, without starting, the tools such as fio that `--against` selects; `None` if none.
pub(super) fn reference_tools(
    common: &Common,
    interrupts: Receiver<()>,
    prepared: &PreparedRun,
) -> Result<Option<ReferenceTools>, Failure> {
    if prepared.planned.iter().all(|planned| planned.against == Against::NoTool) {
        return Ok(None);
    }
    let mut tools = started(selection(common, &prepared.plan, &prepared.planned)?, interrupts)?;
    tools.disk = prepared.plan.dir.clone();
    tools.servers = servers(&common.reference_server)?;
    Ok(Some(tools))
}

/// Time limit for [`reaped`]: a file system that hangs must not block the command.
const REAPING: Duration = Duration::from_secs(2);

/// Removes files that killed runs of this user left; returns which. `None` if it takes over 2 s.
pub(super) fn reaped() -> Option<Reaped> {
    let (sender, receiver) = bounded(1);
    let work = move || drop(sender.send(Registry::here().remove_abandoned()));
    std::thread::Builder::new().name("leftovers".to_owned()).spawn(work).ok()?;
    receiver.recv_timeout(REAPING).ok()
}

/// Prints a table of all reference tools; with `--install` calls [`installed`] for missing ones.
pub(super) fn list(typed: &ReferenceFlags) -> Result<ExitCode, Failure> {
    let search = search(&typed.named)?;
    let mut reference_tools = started(Selection::all(search.clone()), never())?;
    let look = |tool: &&'static RefTool| (*tool, InstalledTool::find_programs(tool, &search));
    let looked: Vec<_> = REF_TOOLS.iter().map(look).collect();
    if typed.install {
        let missing = looked.iter().filter(|(_, found)| found.is_err()).map(|(ref_tool, _)| ref_tool.package);
        return installed(&missing.collect::<Vec<_>>(), typed.yes);
    }
    let row = |(ref_tool, found): (&'static RefTool, Result<InstalledTool, String>)| ListedTool {
        name: ref_tool.name,
        checks: ref_tool.checks,
        version: found.as_ref().ok().and_then(|found| reference_tools.version(found)),
        get: match &found {
            Ok(_) => how_to_get(ref_tool.package),
            Err(why) => plimsoll_reference::remedy(ref_tool, &search, why),
        },
        place: found.map(|found| found.program),
    };
    let rows: Vec<ListedTool> = looked.into_iter().map(row).collect();
    let untrusted = plimsoll_reference::untrusted_programs(&search);
    printed(&listed(&rows, &untrusted, &Style::detect(StyleOptions::default())))
}

/// Prints the `apt-get` command that installs the packages `missing`, or, if `runs`, runs it.
fn installed(missing: &[Package], runs: bool) -> Result<ExitCode, Failure> {
    let package = |package: &Package| match package {
        Package::Debian(name) | Package::DebianNonFree(name) => Some(*name),
        Package::Source(_) => None,
    };
    let packages: Vec<&str> = missing.iter().filter_map(package).collect();
    if packages.is_empty() {
        return printed(
            "all tools that are Debian packages are installed; plimsoll references shows how to get the others\n",
        );
    }
    let words: Vec<&str> = ["apt-get", "install", "--yes"].into_iter().chain(packages).collect();
    let line = words.join(" ");
    if !runs {
        let non_free = missing.iter().any(|package| matches!(package, Package::DebianNonFree(_)));
        let first =
            "# iozone3, lmbench and netperf need Debian's section non-free among the sources of apt\n";
        return printed(&format!("{line}\n{}", if non_free { first } else { "" }));
    }
    let program = Trust::here().program(Path::new("/usr/bin/apt-get")).map_err(Failure::environment)?;
    match Command::new(program).args(&words[1..]).status() {
        Ok(status) if status.success() => Ok(ExitCode::SUCCESS),
        Ok(status) => Err(Failure::environment(format!(
            "'{line}' failed ({status}); for iozone3, lmbench and netperf enable Debian's non-free section in the APT sources"
        ))),
        Err(e) => Err(Failure::environment(format!("'{line}' cannot be run: {e}"))),
    }
}

/// Runs the program bound to CPUs until it ends, kills what it leaves running, and returns its exit
/// code; with `becomes`, replaces this process by the program instead.
pub(super) fn launch(typed: &LaunchFlags) -> Result<ExitCode, Failure> {
    if typed.becomes {
        return Err(become_tool(typed));
    }
    let mut tool = Command::new(super::own_program()?);
    tool.arg0("plimsoll").args(["launch", "--become", "--cpus", &typed.cpus, "--"]).args(&typed.command);
    let status = supervise(tool).map_err(|e| {
        Failure::environment(format!("cannot start a process for a reference tool: {e}; see `ulimit -u`"))
    })?;
    Ok(ExitCode::from(end_as(status)))
}

/// Replaces this process by the program, bound to its CPUs. Returns only on failure.
fn become_tool(typed: &LaunchFlags) -> Failure {
    let Some((program, arguments)) = typed.command.split_first() else {
        return Failure::usage("launch: no program");
    };
    let cpus: Vec<usize> = typed.cpus.split(',').filter_map(|cpu| cpu.parse().ok()).collect();
    let error = become_program(&cpus, Path::new(program), arguments);
    let shown = shown_bytes(program.as_encoded_bytes());
    Failure::environment(format!("{shown} cannot be started: {error}"))
}
