use plimsoll_bench_api::Subsystem;
use plimsoll_machine::Machine;

use crate::kernel_state::KernelState;

/// The benchmarks of the kernel.
pub static SUBSYSTEM: Subsystem = Subsystem {
    name: "os",
    benchmarks: &[
        &crate::Syscall,
        &crate::Switch,
        &crate::Wake,
        &crate::Process,
        &crate::PageFault,
        &crate::Noise,
        &crate::FileNames,
    ],
    title: "Operating system",
    synonyms: &["kernel"],
    about: "System calls, switches, wake-ups, page faults, noise",
    context: |machine, measurement| context(machine, &KernelState::of(&measurement.achieved)),
    asked_first: &["op", "between", "distance", "threads"],
    ..Subsystem::USUAL
};

fn context(machine: &Machine, state: &KernelState) -> Vec<String> {
    let mut parts = vec![match &machine.kernel.release {
        Some(release) => format!("Linux {release}"),
        None => "unknown kernel".to_owned(),
    }];
    parts.extend(state.preemption.clone());
    parts.extend(state.tick_hz.map(|hz| format!("tick {hz} Hz")));
    parts.extend(machine.virtualisation.hypervisor.clone());
    parts
}
