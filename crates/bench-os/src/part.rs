use plimsoll_bench_api::prelude::*;
use plimsoll_model::sample::Achieved;

use crate::fact::{PREEMPTION, TICK_HZ};

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
    context: |machine, measurement| context(machine, &measurement.achieved),
    asked_first: &["op", "between", "distance", "threads"],
    ..Subsystem::USUAL
};

fn context(machine: &Machine, state: &Achieved) -> Vec<String> {
    let kernel = machine.kernel.release.as_ref().map(|release| format!("Linux {release}"));
    let mut parts = vec![kernel.unwrap_or_else(|| "unknown kernel".to_owned())];
    parts.extend(state.get(&PREEMPTION));
    parts.extend(state.get(&TICK_HZ).map(|hz| format!("tick {hz} Hz")));
    parts.extend(machine.virtualisation.hypervisor.clone());
    parts
}
