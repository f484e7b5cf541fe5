//! Measures the cores' instructions per cycle before a run (100 ms), to check known chip data.

use plimsoll_metal::capability::{Probed, clock_for, fastest_variant, loops, per_cycle};
use plimsoll_metal::clock::CoreClock;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{ComputeKernel, Element, Op, find};
use plimsoll_metal::team::Team;

use plimsoll_machine::Machine;
use plimsoll_machine::cpu::{Ability, Capability};
use plimsoll_model::limit::microarchitecture::ABILITY_RATES;

const SETS: [Isa; 5] = [Isa::Sse2, Isa::Avx2, Isa::Avx512, Isa::Neon, Isa::Sve];

const FLOATING: [Op; 3] = [Op::FMA, Op::ADD, Op::MUL];

/// Measures instruction rates and latencies on one allowed CPU per core type into
/// `machine.cpu.capabilities`, if empty. Skips CPUs that refuse pinning or have an unknown clock.
pub fn measure_capabilities(machine: &mut Machine) {
    if !machine.cpu.capabilities.is_empty() {
        return;
    }
    let allowed = machine.cpu.allowed.iter();
    let first_of_kind = |number: &usize| {
        let kind = machine.cpu.kinds.iter().find(|kind| kind.cpus.contains(*number));
        let first = |kind: &plimsoll_machine::cpu::CoreKind| {
            machine.cpu.allowed.iter().find(|other| kind.cpus.contains(*other)) == Some(*number)
        };
        kind.map_or_else(|| machine.cpu.allowed.first() == Some(*number), first)
    };
    let cpus: Vec<usize> = allowed.filter(first_of_kind).collect();
    let measured = cpus.iter().filter_map(|&cpu| {
        let found = Team::new(&[cpu]).ok()?.run(|_| core_capabilities(cpu)).ok()?;
        found.into_iter().next()
    });
    let measured = measured.flatten().collect();
    machine.cpu.capabilities = measured;
}

fn core_capabilities(cpu: usize) -> Vec<Capability> {
    let mut found = Vec::new();
    for isa in SETS.into_iter().filter(|isa| isa.available().is_ok()) {
        let floating: Vec<_> = FLOATING.iter().filter_map(|op| find(*op, Element::F64, isa)).collect();
        let integer: Vec<_> = find(Op::ADD, Element::I64, isa).into_iter().collect();
        for group in [floating, integer] {
            let Some(clock) = group.first().and_then(|kernel| clock_for(kernel).ok()) else { continue };
            let each = group.iter().filter_map(|kernel| {
                let measured = per_cycle(fastest_variant(kernel).load().ok()?, &clock)?;
                let ability = ability(kernel).unwrap_or(Ability::IntegerAdd);
                let bits = kernel.vector_bits();
                Some(Capability { cpu, ability, isa: isa.name().to_owned(), bits, measured })
            });
            found.extend(each);
            if group.iter().all(|kernel| kernel.element.is_float()) {
                found.extend(loads_and_latencies(cpu, isa, &clock));
            }
        }
    }
    found
}

fn loads_and_latencies(cpu: usize, isa: Isa, clock: &CoreClock) -> Vec<Capability> {
    let each = loops(isa).filter_map(|one| {
        let ability = match one.probed {
            Probed::Loads => Ability::Loads,
            Probed::FmaLatency => Ability::FmaLatency,
            Probed::AddLatency => Ability::AddLatency,
        };
        let measured = one.measure(clock)?;
        Some(Capability { cpu, ability, isa: isa.name().to_owned(), bits: one.bits, measured })
    });
    each.collect()
}

/// Returns the ability of a core that `kernel` measures; `None` if it is no rate of a chip.
pub fn ability(kernel: &ComputeKernel) -> Option<Ability> {
    let key = kernel.rate()?.key;
    ABILITY_RATES.into_iter().find(|(_, rate)| rate.key == key).map(|(ability, _)| ability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::Root;

    #[test]
    fn each_width_is_looked_at_once_and_no_core_does_more_than_eight() {
        let mut machine = Machine::discover(&Root::live());
        measure_capabilities(&mut machine);
        let found = &machine.cpu.capabilities;
        for (place, one) in found.iter().enumerate() {
            let latency = matches!(one.ability, Ability::FmaLatency | Ability::AddLatency);
            let most = if latency { 40.0 } else { 8.2 };
            assert!(one.measured > 0.0 && one.measured < most, "{one:?}");
            assert!(!latency || one.per_cycle().is_none());
            let of = |one: &Capability| (one.cpu, one.ability, one.isa.clone());
            assert_eq!(found.iter().position(|other| of(other) == of(one)), Some(place));
        }
    }
}
