//! `--resume`: an interrupted run goes on where it stopped, on the same machine and with the same plan, or not at all.

use super::prepared::Prepared;
use super::{Failure, store_failure};
use crate::cli::{Common, What};
use crate::document::{Run, RunStatus};
use crate::output;
use crate::resolve::{self, Planned};
use crate::store::Store;

/// The run as far as it got.
///
/// # Errors
/// There is no such run, or nothing in it is left to do.
pub(super) fn begun(wanted: &str, common: &Common) -> Result<Run, Failure> {
    let location = output::location(common.store.as_deref()).map_err(|e| store_failure(&e))?;
    let location = location.ok_or_else(|| Failure::usage("--resume: --store none names no history"))?;
    let store = Store::read(&location).map_err(|e| store_failure(&e))?;
    let run = store.load(wanted).map_err(|e| store_failure(&e))?;
    match run.status {
        RunStatus::Complete => {
            Err(Failure::usage(format!("--resume: run {} is complete; nothing is left to measure", run.id)))
        }
        RunStatus::Partial if run.plan.text.is_empty() => Err(Failure::usage(format!(
            "--resume: run {} was stored by version {}, which kept no plan; measure it anew",
            run.id, run.version
        ))),
        RunStatus::Partial => Ok(run),
    }
}

/// The plan that the run has kept.
///
/// # Errors
/// It has kept none.
pub(super) fn plan_of(run: &Run) -> Result<What, Failure> {
    Ok(What::Text { name: crate::text::shown(&run.plan.name), text: run.plan.text.clone() })
}

/// Refuses another machine and another plan; what was random in the run is so again.
///
/// # Errors
/// What differs.
pub(super) fn same(run: &Run, prepared: &mut Prepared) -> Result<(), Failure> {
    let (then, now) = (&run.machine, &prepared.machine);
    if (&then.id, &then.host) != (&now.id, &now.host) {
        return Err(Failure::usage(format!(
            "--resume: run {} was begun on another machine ({} {}, and this is {} {}); measure it anew here",
            run.id,
            crate::text::shown(then.host.as_deref().unwrap_or("unnamed")),
            crate::text::shown(&then.id),
            crate::text::shown(now.host.as_deref().unwrap_or("unnamed")),
            now.id
        )));
    }
    let mount = |machine: &crate::machine::Machine| {
        let storage = machine.storage.as_ref()?;
        Some((storage.device.clone(), storage.file_system.as_ref().map(|fs| fs.mount_point.clone())))
    };
    let uses_disk = prepared.planned.iter().any(|p| p.candidate.case.subsystem() == "disk");
    if uses_disk && mount(then) != mount(now) {
        let path = then.storage.as_ref().map(|storage| crate::text::shown(&storage.path)).unwrap_or_default();
        return Err(Failure::usage(format!(
            "--resume: run {} has its files on another disk; give --dir {path}",
            run.id
        )));
    }
    let hash = resolve::hash(&prepared.plan, &prepared.planned);
    if run.plan.hash != hash {
        return Err(Failure::usage(format!(
            "--resume: run {} has another plan or other cases ({}, and this is {hash}); name neither a plan nor flags that change it",
            run.id,
            crate::text::shown(&run.plan.hash)
        )));
    }
    prepared.plan.seed = run.seed;
    Ok(())
}

/// Whether the run has this case already, in this repeat.
pub(super) fn measured(run: &Run, planned: &Planned) -> bool {
    run.measurements.iter().any(|m| m.repeat == planned.repeat && m.case == planned.candidate.case)
}
