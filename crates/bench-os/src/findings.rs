//! Causes of slow system calls, switches and faults in kernel, process and machine.

use plimsoll_model::view::{PlainFinding, RunView, Topic};
use serde_json::json;

use crate::SUBSYSTEM;
use crate::kernel_state::KernelState;

/// Depth from which control groups cost a noticeable share of a switch.
const DEEP_CGROUPS: u64 = 4;

/// Returns at most one finding: the properties that add to each call, switch or fault.
pub(crate) fn kernel_costs(run: &RunView<'_>) -> Vec<PlainFinding> {
    let mut measured = run.measurements().iter().filter(|made| made.case.subsystem() == SUBSYSTEM.name);
    let Some(state) = measured.next().map(|made| KernelState::of(&made.achieved)) else { return Vec::new() };
    let causes = causes(&state);
    if causes.is_empty() {
        return Vec::new();
    }
    let text = format!("The kernel's services cost more here because of {}", causes.join("; "));
    let evidence = json!({
        "mitigations": state.mitigations, "seccomp_filters": state.seccomp_filters,
        "cgroup_depth": state.cgroup_depth, "hypervisor": state.hypervisor, "nohz_full": state.nohz_full,
    });
    vec![PlainFinding { topic: Topic::Limit, code: "kernel-costs", text, evidence }]
}

fn causes(state: &KernelState) -> Vec<String> {
    let mut causes = Vec::new();
    if !state.mitigations.is_empty() {
        causes.push(format!("mitigations at each entry or switch ({})", state.mitigations.join(", ")));
    }
    match state.seccomp_filters {
        None | Some(0) => {}
        Some(1) => causes.push("a seccomp filter that each system call passes".to_owned()),
        Some(filters) => causes.push(format!("{filters} seccomp filters that each system call passes")),
    }
    if let Some(depth) = state.cgroup_depth.filter(|depth| *depth >= DEEP_CGROUPS) {
        causes.push(format!("control groups {depth} deep, each updated at a switch"));
    }
    if let Some(cpus) = &state.nohz_full {
        causes.push(format!("time accounting at each entry on CPUs {cpus} (nohz_full)"));
    }
    if let Some(hypervisor) = &state.hypervisor {
        causes.push(format!(
            "{hypervisor}: faults walk two page tables, and timers and wake-ups of idle CPUs leave the guest"
        ));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::measurement::Measurement;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;
    use plimsoll_units::quantity::Unit;

    fn called(state: &KernelState) -> Measurement {
        let mut made = measured("os.syscall/op=getppid/threads=1", Unit::Second, Better::Lower, &[1e-7; 9]);
        state.clone().record(&mut made.achieved);
        made
    }

    fn found(measurements: &[Measurement]) -> Vec<String> {
        kernel_costs(&RunView::new(measurements)).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn what_adds_to_each_call_is_named_once() {
        let state = KernelState {
            mitigations: vec!["meltdown".to_owned(), "mds".to_owned()],
            seccomp_filters: Some(2),
            cgroup_depth: Some(6),
            hypervisor: Some("KVM".to_owned()),
            ..KernelState::default()
        };
        let all = found(&[called(&state), called(&state)]);
        assert_eq!(all.len(), 1);
        for part in ["(meltdown, mds)", "2 seccomp filters", "6 deep", "KVM: faults"] {
            assert!(all[0].contains(part), "{all:?}");
        }
    }

    #[test]
    fn a_plain_machine_and_a_run_without_such_cases_have_no_finding() {
        let plain = KernelState { seccomp_filters: Some(0), cgroup_depth: Some(2), ..KernelState::default() };
        assert!(found(&[called(&plain)]).is_empty());
        assert!(found(&[measured("null", Unit::Second, Better::Lower, &[1.0; 9])]).is_empty());
    }
}
