//! Reference tools from the command line: `--against` and `plimsoll references`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, never};
use plimsoll_bench_network::Address;
use plimsoll_command::cli::{Common, Install};
use plimsoll_machine::Machine;
use plimsoll_model::plan::Plan;
use plimsoll_output::report::tool_results::{ListedTool, listed};
use plimsoll_output::report::{Style, StyleOptions};
use plimsoll_reference::process::{SelfLauncher, become_program};
use plimsoll_reference::supervise::{end_as, supervise};
use plimsoll_reference::{
    Against, FarServer, InstalledTool, Package, ProgramSearch, REF_TOOLS, RefTool, ReferenceTools, Selection,
    Trust, how_to_get,
};
use plimsoll_run::{Planned, TOOLS_PER_BUDGET};
use plimsoll_system::leftover::{Reaped, Registry};
use plimsoll_units::text::{shown_bytes, shown_path};

use super::prepared::PreparedRun;
use super::{Failure, printed};

/// Parses `--against`, and checks the related options.
pub(super) fn against(common: &Common) -> Result<Against, Failure> {
    let against = Against::parse("--against", &common.against).map_err(Failure::usage)?;
    named(&common.reference_path)?;
    servers(&common.reference_server)?;
    Ok(against)
}

/// Fails if an option of reference tools, such as --margin, is typed without `--against`.
pub(super) fn asked(common: &Common, planned: &[Planned]) -> Result<(), Failure> {
    if planned.iter().any(|planned| planned.against != Against::NoTool) {
        return Ok(());
    }
    let typed = [
        ("--margin", common.margin.is_some()),
        ("--reference-path", !common.reference_path.is_empty()),
        ("--reference-server", !common.reference_server.is_empty()),
    ];
    match typed.iter().find(|(_, typed)| *typed) {
        Some((option, _)) => Err(Failure::usage(format!("{option} requires --against"))),
        None => Ok(()),
    }
}

fn servers(typed: &[(String, String)]) -> Result<BTreeMap<String, FarServer>, Failure> {
    let known = || REF_TOOLS.iter().filter_map(|ref_tool| Some((ref_tool.name, ref_tool.port?)));
    let read = |(name, place): &(String, String)| {
        let (_, usual) = known().find(|(known, _)| known == name).ok_or_else(|| {
            let names: Vec<&str> = known().map(|(name, _)| name).collect();
            let shown = plimsoll_units::text::shown(name);
            format!("--reference-server must name one of {}: '{shown}' is not", names.join(", "))
        })?;
        let address =
            Address::parse_with(place, usual).map_err(|e| format!("--reference-server {name} {e}"))?;
        Ok((name.clone(), FarServer { host: address.host, port: address.port }))
    };
    typed.iter().map(read).collect::<Result<_, String>>().map_err(Failure::usage)
}

fn named(paths: &[(String, PathBuf)]) -> Result<BTreeMap<String, PathBuf>, Failure> {
    for (name, _) in paths {
        Against::parse("--reference-path", std::slice::from_ref(name)).map_err(Failure::usage)?;
    }
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

fn search(paths: &[(String, PathBuf)]) -> Result<ProgramSearch, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(ProgramSearch::new(&path, named(paths)?, Trust::here()))
}

pub(super) fn passed_over() -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    plimsoll_reference::untrusted_programs(&ProgramSearch::new(&path, BTreeMap::new(), Trust::here()))
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

/// Returns the estimated seconds of all reference tools, at most a share of the plan's budget.
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

/// Prepares the reference tools; `None` if none is requested. `plimsoll` is this program's path.
pub(super) fn reference_tools(
    common: &Common,
    plimsoll: &Path,
    interrupts: Receiver<()>,
    prepared: &PreparedRun,
) -> Result<Option<ReferenceTools>, Failure> {
    if prepared.planned.iter().all(|planned| planned.against == Against::NoTool) {
        return Ok(None);
    }
    let parent = std::env::temp_dir();
    let launcher = SelfLauncher { plimsoll: plimsoll.to_owned() };
    let selection = selection(common, &prepared.plan, &prepared.planned)?;
    let mut reference_tools = ReferenceTools::new(selection, launcher, parent, interrupts);
    reference_tools.registry = Registry::here();
    reference_tools.disk = prepared.plan.dir.clone();
    reference_tools.servers = servers(&common.reference_server)?;
    Ok(Some(reference_tools))
}

/// Time limit for [`reaped`]: a file system that hangs must not block the command.
const REAPING: Duration = Duration::from_secs(2);

/// Removes what killed runs of this user left behind; `None` if that takes too long.
pub(super) fn reaped() -> Option<Reaped> {
    let (sender, receiver) = bounded(1);
    let work = move || {
        let _ = sender.send(Registry::here().remove_abandoned());
    };
    std::thread::Builder::new().name("leftovers".to_owned()).spawn(work).ok()?;
    receiver.recv_timeout(REAPING).ok()
}

pub(super) fn tools(common: &Common) -> Result<(ProgramSearch, SelfLauncher), Failure> {
    Ok((search(&common.reference_path)?, SelfLauncher { plimsoll: super::own_program()? }))
}

/// Lists or installs the reference tools. `paths` has programs that are not on PATH, by tool.
pub(super) fn list(paths: &[(String, PathBuf)], install: Install) -> Result<ExitCode, Failure> {
    let search = search(paths)?;
    let launcher = SelfLauncher { plimsoll: super::own_program()? };
    let parent = std::env::temp_dir();
    let mut reference_tools = ReferenceTools::new(Selection::all(search.clone()), launcher, parent, never());
    reference_tools.registry = Registry::here();
    let look = |tool: &&'static RefTool| (*tool, InstalledTool::find_programs(tool, &search));
    let looked: Vec<_> = REF_TOOLS.iter().map(look).collect();
    if install != Install::No {
        let missing = looked.iter().filter(|(_, found)| found.is_err()).map(|(ref_tool, _)| ref_tool.package);
        return installed(&missing.collect::<Vec<_>>(), install);
    }
    let row = |(ref_tool, found): (&'static RefTool, Result<InstalledTool, String>)| ListedTool {
        name: ref_tool.name,
        checks: ref_tool.checks,
        version: found.as_ref().ok().and_then(|found| reference_tools.version(found)),
        get: match &found {
            Ok(_) => how_to_get(ref_tool.package),
            Err(why) => plimsoll_reference::remedy(ref_tool, &search, why),
        },
        place: found.map(|found| found.programs.into_iter().flatten().next().unwrap_or_default()),
    };
    let rows: Vec<ListedTool> = looked.into_iter().map(row).collect();
    let untrusted = plimsoll_reference::untrusted_programs(&search);
    printed(&listed(&rows, &untrusted, &Style::detect(StyleOptions::default())))
}

/// Prints or runs the command that installs these packages, as `install` requests.
fn installed(missing: &[Package], install: Install) -> Result<ExitCode, Failure> {
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
    if install == Install::Show {
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

/// Runs a program bound to `cpus`, supervises it, and ends with its exit code.
pub(super) fn launch(cpus: &[usize], command: &[OsString]) -> Result<ExitCode, Failure> {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let mut tool = Command::new(super::own_program()?);
    tool.arg0("plimsoll").args(["launch", "--become", "--cpus", &cpus.join(","), "--"]).args(command);
    let status = supervise(tool).map_err(|e| {
        Failure::environment(format!("cannot start a process for a reference tool: {e}; see `ulimit -u`"))
    })?;
    Ok(ExitCode::from(end_as(status)))
}

/// Replaces this process by the program `command`, bound to `cpus`. Returns only on failure.
pub(super) fn become_tool(cpus: &[usize], command: &[OsString]) -> Failure {
    let Some((program, arguments)) = command.split_first() else {
        return Failure::usage("launch: no program");
    };
    let error = become_program(cpus, Path::new(program), arguments);
    let shown = shown_bytes(program.as_encoded_bytes());
    Failure::environment(format!("{shown} cannot be started: {error}"))
}
