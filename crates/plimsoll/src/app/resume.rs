//! `--resume`: continues an interrupted run on the same machine with the same plan.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use plimsoll_command::cli::{Common, Measurable};
use plimsoll_command::resolve;
use plimsoll_history::Store;
use plimsoll_machine::Machine;
use plimsoll_machine::storage::Storage;
use plimsoll_model::plan::{file, write};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_run::Planned;
use plimsoll_units::text::shown_within;

use super::Failure;
use super::prepared::{PreparedRun, is_on_files};
use crate::output;

/// Lock on a run: a name in the abstract namespace of Unix sockets (unix(7)), freed by the kernel;
/// `None` if the system has no such names.
pub(super) type RunLock = Option<UnixListener>;

/// Locks the run with the id `run` until the result is dropped. Fails if another process locked it.
pub(super) fn lock(run: &str) -> Result<RunLock, Failure> {
    let name = SocketAddr::from_abstract_name(format!("plimsoll-run-{run}"));
    match name.and_then(|name| UnixListener::bind_addr(&name)) {
        Err(e) if e.kind() == ErrorKind::AddrInUse => Err(Failure::usage(format!(
            "--resume: run {run} is still running in another process; wait until it ends, or interrupt it"
        ))),
        taken => Ok(taken.ok()),
    }
}

pub(super) struct ResumedRun {
    pub(super) run: Run,
    pub(super) held: RunLock,
    /// Whether it was imported, so that this user did not type its plan.
    pub(super) imported: bool,
}

impl ResumedRun {
    pub(super) fn new(prepared: &PreparedRun) -> Result<Self, Failure> {
        let run = super::document(prepared);
        Ok(Self { held: lock(&run.id)?, run, imported: false })
    }

    /// Returns `run`, an earlier part that the launcher sent to this node, with the plan of
    /// `prepared`. It is not locked: the launcher, perhaps on this node, holds the lock.
    pub(super) fn sent(run: Run, prepared: &PreparedRun) -> Self {
        let plan = super::document(prepared).plan;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { run: Run { plan, version, ..run }, held: None, imported: false }
    }
}

/// Locks and loads the stored run `wanted`. Fails if it is missing, still running or complete.
pub(super) fn begun(wanted: &str, common: &Common) -> Result<ResumedRun, Failure> {
    let location = output::location(common.store.as_deref())?;
    let location =
        location.ok_or_else(|| Failure::usage("--resume and --store none are mutually exclusive"))?;
    let store = Store::read(&location)?;
    let found = store.load(wanted)?;
    let held = lock(&found.id)?;
    // It may have measured more until it was unlocked.
    let store = Store::read(&location)?;
    let run = store.load(&found.id)?;
    match run.status {
        RunStatus::Complete => {
            Err(Failure::usage(format!("--resume: run {} is complete; nothing is left to measure", run.id)))
        }
        RunStatus::Partial if run.plan.text.is_empty() => Err(Failure::usage(format!(
            "--resume: run {} was stored by plimsoll {}, which kept no plan: start a new run",
            run.id, run.version
        ))),
        RunStatus::Partial => Ok(ResumedRun { imported: store.is_imported(&run.id)?, run, held }),
    }
}

/// Returns the stored plan. Fails if an imported run's plan names a server without `--server`.
pub(super) fn plan_of(begun: &ResumedRun, common: &Common) -> Result<Measurable, Failure> {
    let run = &begun.run;
    let (name, text) = (plimsoll_units::text::shown(&run.plan.name), run.plan.text.clone());
    if begun.imported && common.server.is_empty() {
        let servers = file::parse_kept(&name, &text).map(|plan| plan.servers()).unwrap_or_default();
        if let Some(server) = servers.first() {
            let server = shown_within(server, 128);
            return Err(Failure::usage(format!(
                "--resume: run {} was imported, and its plan names a server; to connect to it, add --server {server}",
                run.id
            )));
        }
    }
    Ok(Measurable::Text { name, text })
}

/// Copies the seed of `run` to `prepared`. Fails if machine, disk or plan hash of the two differ.
pub(super) fn same(run: &Run, prepared: &mut PreparedRun) -> Result<(), Failure> {
    let (before, hash) = (&run.plan.hash, resolve::hash(&prepared.plan, &prepared.planned));
    let how = format!("its hash is {}, now it is {hash}", plimsoll_units::text::shown(before));
    take_seed(run, prepared, (*before != hash).then_some(how))
}

/// Like [`same`], but compares plan texts: one node of many has another hash than the joint run.
pub(super) fn same_text(run: &Run, prepared: &mut PreparedRun) -> Result<(), Failure> {
    let differs = run.plan.text != write::text(&prepared.plan.file);
    take_seed(run, prepared, differs.then(|| "its text differs".to_owned()))
}

fn take_seed(run: &Run, prepared: &mut PreparedRun, difference: Option<String>) -> Result<(), Failure> {
    let (id, then, now) = (&run.id, &run.machine, &prepared.machine);
    if (&then.id, &then.host) != (&now.id, &now.host) {
        let [then, now] = [then, now].map(|machine| {
            let host = machine.host.as_deref().unwrap_or("unnamed");
            [host, &machine.id].map(plimsoll_units::text::shown).join(" ")
        });
        return Err(Failure::usage(format!(
            "--resume: run {id} was started on another machine ({then}; this is {now}): start a new run here"
        )));
    }
    let mount = |machine: &Machine| {
        let storage = machine.storage.as_ref()?;
        Some((storage.device.clone(), storage.file_system.as_ref().map(|fs| fs.mount_point.clone())))
    };
    // A watch without --dir measures no disk and checks no directory.
    let looked = now.storage.is_some();
    let on_files = looked && prepared.planned.iter().any(is_on_files);
    if on_files && mount(then) != mount(now) {
        return Err(Failure::usage(format!("--resume: run {id} {}", elsewhere(then.storage.as_ref()))));
    }
    if let Some(how) = difference {
        return Err(Failure::usage(format!(
            "--resume: run {id} was made with another plan or options ({how}): leave out the plan and options that change cases"
        )));
    }
    prepared.plan.seed = run.seed;
    Ok(())
}

/// Returns the end of an error for a run on another disk: `has its files on another disk: add --dir
/// /mnt`; `storage` is the disk of that run.
fn elsewhere(storage: Option<&Storage>) -> String {
    let path = storage.map(|storage| plimsoll_units::text::shown(&storage.path)).unwrap_or_default();
    // A raw device has no file system.
    let is_device = storage.is_some_and(|storage| storage.file_system.is_none() && storage.device.is_some());
    match is_device {
        true => format!(
            "measures the device {path} itself: type its plimsoll disk command again with --resume and --target {path} (and --destroy-data-on {path}:SERIAL if it writes)"
        ),
        false => format!("has its files on another disk: add --dir {path}"),
    }
}

pub(super) fn measured(run: &Run, planned: &Planned) -> bool {
    run.measurements.iter().any(|m| m.repeat == planned.repeat && m.case == planned.candidate.case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_measured_itself_is_named_by_its_flags() {
        let device = Storage { path: "/dev/sdx".into(), device: Some("sdx".into()), ..Storage::default() };
        let advice = elsewhere(Some(&device));
        assert!(advice.contains("--target /dev/sdx") && advice.contains("--destroy-data-on /dev/sdx:SERIAL"));
        let file_system = Some(plimsoll_machine::fixture::mounted("ext4"));
        let advice = elsewhere(Some(&Storage { path: "/data".to_owned(), file_system, ..device }));
        assert!(advice.contains("--dir /data") && !advice.contains("--target"), "{advice}");
    }
}
