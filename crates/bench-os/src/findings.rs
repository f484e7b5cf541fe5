//! Causes of slow system calls, switches and faults in kernel, process and machine.

use plimsoll_bench_api::prelude::*;
use plimsoll_model::sample::Achieved;
use serde_json::json;

use crate::SUBSYSTEM;
use crate::fact::{CGROUP_DEPTH, HYPERVISOR, MITIGATIONS, NOHZ_FULL, SECCOMP_FILTERS};

/// Depth from which control groups cost a noticeable share of a switch.
const DEEP_CGROUPS: u64 = 4;

/// Returns at most one finding: what makes each system call, switch or fault slower here.
pub(crate) fn kernel_costs(run: &[Measurement]) -> Vec<PlainFinding> {
    let mut measured = run.iter().filter(|made| made.case.subsystem() == SUBSYSTEM.name);
    let Some(state) = measured.next().map(|made| &made.achieved) else { return Vec::new() };
    let causes = causes(state);
    if causes.is_empty() {
        return Vec::new();
    }
    let text = format!("The kernel's services cost more here because of {}", causes.join("; "));
    let evidence = json!({
        "mitigations": state.get(&MITIGATIONS).unwrap_or_default(),
        "seccomp_filters": state.get(&SECCOMP_FILTERS), "cgroup_depth": state.get(&CGROUP_DEPTH),
        "hypervisor": state.get(&HYPERVISOR), "nohz_full": state.get(&NOHZ_FULL),
    });
    vec![PlainFinding { topic: Topic::Limit, code: "kernel-costs", text, evidence }]
}

fn causes(state: &Achieved) -> Vec<String> {
    let mut causes = Vec::new();
    if let Some(names) = state.get(&MITIGATIONS) {
        causes.push(format!("mitigations at each entry or switch ({})", names.join(", ")));
    }
    match state.get(&SECCOMP_FILTERS) {
        None | Some(0) => {}
        Some(1) => causes.push("a seccomp filter that each system call passes".to_owned()),
        Some(filters) => causes.push(format!("{filters} seccomp filters that each system call passes")),
    }
    if let Some(depth) = state.get(&CGROUP_DEPTH).filter(|depth| *depth >= DEEP_CGROUPS) {
        causes.push(format!("control groups {depth} deep, each updated at a switch"));
    }
    if let Some(cpus) = state.get(&NOHZ_FULL) {
        causes.push(format!("time accounting at each entry on CPUs {cpus} (nohz_full)"));
    }
    if let Some(hypervisor) = state.get(&HYPERVISOR) {
        causes.push(format!(
            "{hypervisor}: faults walk two page tables, and timers and wake-ups of idle CPUs leave the guest"
        ));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;
    use plimsoll_units::quantity::Unit;

    fn called(state: &Achieved) -> Measurement {
        let made = measured("os.syscall/op=getppid/threads=1", Unit::Second, Better::Lower, &[1e-7; 9]);
        Measurement { achieved: state.clone(), ..made }
    }

    fn found(measurements: &[Measurement]) -> Vec<String> {
        kernel_costs(measurements).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn what_adds_to_each_call_is_named_once() {
        let mut state = Achieved::default();
        state.set(&MITIGATIONS, vec!["meltdown".to_owned(), "mds".to_owned()]);
        state.set(&SECCOMP_FILTERS, 2_u64);
        state.set(&CGROUP_DEPTH, 6_u64);
        state.set(&HYPERVISOR, "KVM");
        let all = found(&[called(&state), called(&state)]);
        assert_eq!(all.len(), 1);
        for part in ["(meltdown, mds)", "2 seccomp filters", "6 deep", "KVM: faults"] {
            assert!(all[0].contains(part), "{all:?}");
        }
    }

    #[test]
    fn a_plain_machine_and_a_run_without_such_cases_have_no_finding() {
        let mut plain = Achieved::default();
        plain.set(&SECCOMP_FILTERS, 0_u64);
        plain.set(&CGROUP_DEPTH, 2_u64);
        assert!(found(&[called(&plain)]).is_empty());
        assert!(found(&[measured("null", Unit::Second, Better::Lower, &[1.0; 9])]).is_empty());
    }
}
