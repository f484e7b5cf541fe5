use plimsoll_bench_api::Subsystem;
use plimsoll_bench_api::distances::FixedTopology;
use plimsoll_machine::{Cpu, Machine};
use plimsoll_model::limit::microarchitecture::Core;
use plimsoll_model::warning::Loss;
use plimsoll_units::text::format_count;

/// The subsystem of the CPU benchmarks.
pub static SUBSYSTEM: Subsystem = Subsystem {
    name: "cpu",
    benchmarks: &[
        &crate::Peak,
        &crate::CoreToCore,
        &crate::MatrixProduct,
        &crate::Linpack,
        &crate::Hpl,
        &crate::Crypto,
        &crate::Integrity,
    ],
    title: "CPU",
    about: "Peak FLOP/s, GEMM, LINPACK, core to core",
    context: |machine, _| context(machine),
    asked_first: &["op", "type", "threads", "isa", "n", "affinity"],
    help: &[(
        "scaling",
        "with --work: weak (each thread does that amount) or strong (the threads divide it) [default: weak]",
    )],
    second_cost: Loss::SiblingBusy,
    topology: FixedTopology::OnCores,
    ..Subsystem::USUAL
};

fn context(machine: &Machine) -> Vec<String> {
    let cpu = &machine.cpu;
    let mut parts = vec![cpu.model_name.clone().unwrap_or_else(|| "unknown model".to_owned())];
    let core = Core::of(machine, cpu.allowed.first().unwrap_or(0)).ok();
    parts.extend(core.map(|core| core.name));
    parts.push(cpus(cpu));
    parts.extend(machine.virtualisation.hypervisor.clone());
    parts
}

fn cpus(cpu: &Cpu) -> String {
    let allowed = match cpu.allowed.len() {
        n if n < cpu.threads => format!("{n} of {}", format_count(cpu.threads, "CPU")),
        n => format_count(n, "CPU"),
    };
    match cpu.cores_of(&cpu.allowed).or(cpu.cores) {
        Some(cores) => format!("{allowed} on {}", format_count(cores, "core")),
        None => allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::fixture;

    #[test]
    fn cpus_that_are_not_allowed_are_told() {
        let mut machine = fixture::machine();
        machine.cpu.threads = 64;
        machine.cpu.cores = Some(32);
        assert_eq!(cpus(&machine.cpu), "2 of 64 CPUs on 32 cores");
        machine.cpu.cores = None;
        assert_eq!(cpus(&machine.cpu), "2 of 64 CPUs");
    }
}
