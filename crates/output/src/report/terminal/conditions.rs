//! Conditions of the whole machine, shown once above the table with their remedy.

use plimsoll_machine::Machine;
use plimsoll_machine::virtualisation::GVISOR;
use plimsoll_model::measurement::Note;
use plimsoll_units::quantity::percent;
use plimsoll_units::text::format_count;

/// CPU pressure over the last ten seconds (share of time) from which the machine is busy.
const BUSY_SHARE: f64 = 0.1;
/// Load per CPU from which the machine is busy, if the kernel does not measure pressure.
const LOADED: f64 = 0.5;
/// Share of time stolen since boot from which stealing is usual.
const STOLEN: f64 = 0.05;

/// Returns notes on conditions that disturb a run from its start (sandbox, quota, load, steal,
/// shared cache). Each has the code of the warnings that it causes.
pub(crate) fn whole(machine: &Machine) -> Vec<Note> {
    let notes = [sandbox(machine), quota(machine), busy(machine), stolen(machine), cache(machine)];
    notes.into_iter().flatten().collect()
}

fn note(code: &str, text: String) -> Note {
    Note { code: code.to_owned(), text }
}

fn sandbox(machine: &Machine) -> Option<Note> {
    let container = machine.virtualisation.container.as_deref();
    container.filter(|container| *container == GVISOR)?;
    let text = "gVisor sandbox: disk and network figures are those of the sandbox, not of the machine; threads may leave the CPUs that they \
                are pinned to; CPU time of the sandbox itself may appear as stolen time or memory contention; run plimsoll outside the \
                sandbox to measure the machine";
    Some(note("sandbox", text.to_owned()))
}

fn quota(machine: &Machine) -> Option<Note> {
    let cpus = machine.cpu.allowed.len();
    let quota = machine.cgroup.cpu_quota.as_ref()?.cpus();
    let of = format_count(cpus, "CPU");
    let text = format!(
        "CPU quota: the control group allows {quota:.2} of {of}, so figures are those of the quota; raise it (cpu.max, \
         cpu.cfs_quota_us) to measure the machine"
    );
    (quota < cpus as f64).then(|| note("cpu-quota", text))
}

fn busy(machine: &Machine) -> Option<Note> {
    let cpus = machine.cpu.allowed.len().max(1);
    let (is_busy, evidence) = match (machine.state.pressure.cpu, machine.state.load) {
        (Some(share), _) => {
            let waited = percent(share, 2);
            let evidence = format!("threads waited for a CPU in {waited} of the 10 s before the run");
            (share >= BUSY_SHARE, evidence)
        }
        (None, load) => {
            let load = load?.minute_1;
            (load >= LOADED * cpus as f64, format!("the load is {load:.1} on {}", format_count(cpus, "CPU")))
        }
    };
    is_busy.then(|| note("preempted", format!("busy machine: {evidence}; measure when it is idle")))
}

fn stolen(machine: &Machine) -> Option<Note> {
    let share = machine.state.steal_since_boot.filter(|share| *share >= STOLEN)?;
    let text = format!(
        "busy host: {} of the CPU time since boot went to other guests (steal); choose a quieter or dedicated host",
        percent(share, 2)
    );
    Some(note("stolen", text))
}

fn cache(machine: &Machine) -> Option<Note> {
    let effective = machine.cpu.effective_cache?.bytes;
    let (bytes, instances) = machine.cpu.last_level_of(&machine.cpu.allowed)?;
    let one = bytes / instances.max(1);
    let (mine, of) = (effective >> 20, one >> 20);
    let text = "of last-level cache; memory cases use more than that";
    let text = format!("shared cache: one CPU gets {mine} of {of} MiB {text}");
    (effective < one).then(|| note("cache-shared", text))
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::EffectiveCache;
    use plimsoll_machine::fixture::{Fault, Fixture};

    use super::*;

    #[test]
    fn conditions_of_the_machine_are_told_with_their_remedy() -> Result<(), Fault> {
        let mut machine = Fixture::open("firecracker-zen4")?.machine();
        machine.state.pressure.cpu = Some(0.0);
        machine.state.steal_since_boot = Some(0.0);
        machine.cgroup.cpu_quota = None;
        assert!(whole(&machine).is_empty());
        machine.state.pressure.cpu = Some(0.8);
        machine.state.steal_since_boot = Some(0.09);
        let (quota_us, period_us, group) = (50_000, 100_000, "/a".to_owned());
        machine.cgroup.cpu_quota = Some(plimsoll_machine::cgroup::CpuQuota { quota_us, period_us, group });
        machine.cpu.effective_cache = Some(EffectiveCache { bytes: 8 << 20, fill_rate: 1e9 });
        machine.virtualisation.container = Some(GVISOR.to_owned());
        let sandbox = whole(&machine).remove(0);
        assert_eq!(sandbox.code, "sandbox");
        assert!(sandbox.text.contains("run plimsoll outside the sandbox"), "{sandbox:?}");
        machine.virtualisation.container = Some("docker".to_owned());
        let reported = whole(&machine);
        let codes: Vec<&str> = reported.iter().map(|note| note.code.as_str()).collect();
        assert_eq!(codes, ["cpu-quota", "preempted", "stolen", "cache-shared"]);
        let quota = &reported[0].text;
        assert!(quota.starts_with("CPU quota: the control group allows 0.50 of 2 CPUs"), "{quota}");
        assert!(reported.iter().all(|note| !note.text.contains('\n')));
        Ok(())
    }
}
