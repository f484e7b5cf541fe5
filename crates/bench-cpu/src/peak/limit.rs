//! Limit of `cpu.peak`: rate ≤ instructions per cycle × lanes × operations each × clock × cores,
//! per sample. Siblings share a core's units. Chains: instructions per cycle ≤ chains ÷ latency.

use plimsoll_bench_api::identity::ability;
use plimsoll_bench_api::prelude::*;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{ComputeKernel, Element};

use super::PER_CYCLE;
use crate::limit::{Share, UnitRate, max_threads_per_core};
use crate::{KIND_CLOCK, RATE_METRIC, kernel_of, word_of};
use plimsoll_machine::cpu::{Ability, Capability};
use plimsoll_model::limit::common_core::limits_by_core_sharing;
use plimsoll_model::limit::credits::credits;
use plimsoll_model::limit::median;
use plimsoll_model::limit::microarchitecture::Core;
use plimsoll_units::quantity::format::significant;

pub(crate) fn limits(question: &Question<'_>) -> Vec<Limit> {
    if question.metric != RATE_METRIC {
        return Vec::new();
    }
    match limits_by_core_sharing(question, derived) {
        Ok(limits) => {
            let credits: Vec<Limit> = limits.iter().filter_map(|limit| credits(question, limit)).collect();
            limits.into_iter().chain(credits).collect()
        }
        Err(why) => vec![Limit::unknown(LimitKind::Ceiling, why + &measured_instead(question))],
    }
}

fn measured_instead(question: &Question<'_>) -> String {
    let clocks = question.samples.iter().filter_map(|sample| sample.conditions.clock_hz).collect();
    match (question.condition(&PER_CYCLE), median(clocks)) {
        (Some(each), Some(clock)) => format!(
            "; measured: {} operations per cycle of a core at {}",
            significant(each, 3),
            Quantity::new(clock, Unit::Hertz)
        ),
        _ => String::new(),
    }
}

fn derived(question: &Question<'_>) -> Result<Limit, String> {
    let kernel = kernel(question.case)?;
    let cpu = &question.machine.cpu;
    let cpus: CpuSet = cpus_of_case(question.machine, question.case).into_iter().collect();
    if cpu.kinds.iter().filter(|kind| kind.cpus.meets(&cpus)).count() > 1 {
        return mixed(question, kernel, &cpus);
    }
    let share = Share::of(question, &cpus);
    let units = units(question.machine, &cpus, kernel, share.threads_per_core)?;
    let core = &units.core;
    let mut limit = at_the_clock(question, kernel, &share, units.per_cycle, units.formula())?;
    limit.reason = (kernel.chains && latency(kernel, core).is_none()).then(|| {
        format!(
            "the latency of {} of {} is not listed, so this is the limit of the units, however few the chains",
            units.name, core.name
        )
    });
    let cores = match share.cpus > 1.0 {
        true => format!(", {} {}", significant(share.cpus, 3), share.name),
        false => String::new(),
    };
    Ok(core.mark(limit).resting_on(units.fact() + &cores))
}

fn mixed(question: &Question<'_>, kernel: &ComputeKernel, cpus: &CpuSet) -> Result<Limit, String> {
    let machine = question.machine;
    if machine.cgroup.cpu_quota.as_ref().is_some_and(|quota| quota.cpus() < cpus.len() as f64) {
        let why = "under a CPU quota nothing tells which kinds of core the time is spent on; measure each kind alone";
        return Err(why.to_owned());
    }
    let mut inputs = Vec::new();
    let mut per_sample = vec![0.0; question.samples.len()];
    let (mut mark, mut facts) = (None, Vec::new());
    for kind in &machine.cpu.kinds {
        let here = kind.cpus.common(cpus);
        if here.is_empty() {
            continue;
        }
        let units = units(machine, &here, kernel, max_threads_per_core(&machine.cpu, &here))?;
        let clock = |sample: &Sample| sample.conditions.more.get_of(&KIND_CLOCK, &word_of(kind));
        let clocks: Option<Vec<f64>> = question.samples.iter().map(clock).collect();
        let clocks = clocks.filter(|clocks| !clocks.is_empty());
        let unmeasured = || format!("the clock of cores of kind {} was not measured", kind.name);
        let clocks = clocks.ok_or_else(unmeasured)?;
        let cores = machine.cpu.cores_of(&here).unwrap_or(here.len()) as f64;
        let operations = units.per_cycle * f64::from(kernel.lanes) * operations(kernel);
        per_sample.iter_mut().zip(&clocks).for_each(|(sum, clock)| *sum += operations * cores * clock);
        let row = units.source();
        let name = |what: &str| format!("{what} of {}", units.core.name);
        let clock = median(clocks).unwrap_or(f64::NAN);
        inputs.extend([
            Input::new(&name("operations per cycle"), operations, "1/cycle", &row),
            Input::new(&name("clock"), clock, "Hz", "measured between the slices; median"),
            Input::new(&name("cores"), cores, "1", &format!("of CPUs {here}")),
        ]);
        facts.push(units.fact());
        mark = mark.or(Some(units.core).filter(|core| core.note.is_some()));
    }
    let formula = "the sum over kinds of core: operations per cycle × clock × cores";
    let limit = Limit::of_samples(LimitKind::Ceiling, per_sample, formula, inputs);
    Ok(mark.map_or(limit.clone(), |core| core.mark(limit)).resting_on(facts.join(" or ")))
}

/// Returns the limit of cores that start `instructions` of the kernel per cycle, at the clock of
/// each sample; `share` has the number of cores, `rate` is `instructions` in the formula.
fn at_the_clock(
    question: &Question<'_>,
    kernel: &ComputeKernel,
    share: &Share,
    instructions: f64,
    (rate, mut inputs): (String, Vec<Input>),
) -> Result<Limit, String> {
    let (lanes, operations) = (f64::from(kernel.lanes), operations(kernel));
    inputs.push(Input::new("lanes", lanes, "1", &format!("{} of {}", kernel.isa, kernel.element)));
    let times = if operations > 1.0 { format!(" × {operations}") } else { String::new() };
    let formula = format!("{rate} × lanes{times}");
    share.at_the_clock(question, instructions * lanes * operations, &formula, inputs)
}

/// Returns the limit from the capability measured before the run, for chips without listed rates;
/// empty if not measured. A result may exceed it.
pub(crate) fn capabilities(question: &Question<'_>) -> Vec<Limit> {
    limits_by_core_sharing(question, |question| capability(question).ok_or(())).unwrap_or_default()
}

fn capability(question: &Question<'_>) -> Option<Limit> {
    let kernel = kernel(question.case).ok()?;
    let cpu = &question.machine.cpu;
    let rate = kernel.rate()?;
    let is_multiply_add = |one: &Ability| matches!(one, Ability::Fma | Ability::MultiplyAndAdd);
    let ability = ability(kernel).filter(is_multiply_add)?;
    let same = |one: &&Capability| one.ability == ability && one.bits == kernel.vector_bits();
    let found = cpu.capabilities.iter().find(same).filter(|_| cpu.kinds.is_empty())?;
    let cpus: CpuSet = cpus_of_case(question.machine, question.case).into_iter().collect();
    let share = Share::of(question, &cpus);
    let measured = significant(found.measured, 4);
    let from = format!("measured capability: {measured} on CPU {} before the run", found.cpu);
    let name = format!("{} per cycle", rate.name);
    let inputs = vec![Input::new(&name, found.per_cycle()?, "1/cycle", &from)];
    let limit = at_the_clock(question, kernel, &share, found.per_cycle()?, (name, inputs)).ok()?;
    let reason = Some("measured capability of these cores".to_owned());
    // Other load may have slowed the measurement before the run: a higher result refutes it.
    Some(Limit { source: LimitSource::Inferred, reason, ..limit }.resting_on(from))
}

/// Capability of one core with a kernel, per cycle.
pub struct PerCycle {
    /// Instructions started.
    pub instructions: f64,
    /// Operations.
    pub operations: f64,
}

/// Returns what a core like CPU `number` can do per cycle with a kernel, or why that is unknown.
pub fn per_cycle(machine: &Machine, number: usize, kernel: &ComputeKernel) -> Result<PerCycle, String> {
    compiled_by_us(kernel)?;
    let units = units(machine, &[number].into_iter().collect(), kernel, 1)?;
    let operations = units.per_cycle * f64::from(kernel.lanes) * operations(kernel);
    Ok(PerCycle { instructions: units.per_cycle, operations })
}

fn kernel(case: &Case) -> Result<&'static ComputeKernel, String> {
    let kernel = kernel_of(case).map_err(|_| format!("this version has no kernel for {case}"))?;
    compiled_by_us(kernel).map(|()| kernel)
}

fn compiled_by_us(kernel: &ComputeKernel) -> Result<(), String> {
    if kernel.isa != Isa::Portable {
        return Ok(());
    }
    let why = "the compiler chose the instructions of the portable kernel; name an instruction set (--isa)";
    Err(why.to_owned())
}

/// Returns what a core of `cpus`, all of one kind, can do of `kernel` with `threads` threads on it.
fn units(
    machine: &Machine,
    cpus: &CpuSet,
    kernel: &ComputeKernel,
    threads: usize,
) -> Result<UnitRate, String> {
    let core = Core::of_all(machine, &cpus.iter().collect::<Vec<_>>())?;
    let unlisted = || format!("no rate is listed for {} of {} in any row", kernel.op, kernel.element);
    let rate = kernel.rate().ok_or_else(unlisted)?;
    if kernel.isa == Isa::Sve && !rate.same_in_sve {
        return Err(format!("the rate of SVE {} of {} is not known", rate.name, core.name));
    }
    if kernel.is_scalar() && !rate.same_in_scalars {
        return Err(format!("the rate of scalar {} of {} is not known", rate.name, core.name));
    }
    let bits = kernel.vector_bits();
    // A scalar occupies a 128-bit unit.
    let started = core.per_cycle(rate, bits.max(LEAST_VECTOR_BITS), &machine.cpu)?;
    let chains = f64::from(kernel.accumulators) * threads as f64;
    let chained = latency(kernel, &core).map(|latency| (chains, latency));
    Ok(UnitRate::new(core, rate.name, bits, started, chained))
}

/// Returns the cycles from a step of a chain to the next (of two instructions: two latencies).
fn latency(kernel: &ComputeKernel, core: &Core) -> Option<f64> {
    let rate = kernel.rate().filter(|_| kernel.chains && kernel.element != Element::F16)?;
    core.latency(rate)
}

const LEAST_VECTOR_BITS: u32 = 128;

fn operations(kernel: &ComputeKernel) -> f64 {
    f64::from(kernel.parts.iter().map(|part| part.operations).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use plimsoll_metal::kernel::{self, Op};

    use super::*;
    use crate::fixture::{chip, limits_of, samples};
    use plimsoll_machine::Machine;
    use plimsoll_machine::cgroup::CpuQuota;
    use plimsoll_machine::cpu::CoreKind;

    fn machine(model: u32) -> Machine {
        chip("AuthenticAMD", 25, model)
    }

    fn limit(machine: &Machine, id: &str, clocks: &[Option<f64>]) -> Limit {
        limits_of(limits, (machine, &id.parse().unwrap(), "rate"), &samples(clocks)).remove(0)
    }

    /// Returns the limit of FMA on this number of threads at 3 GHz.
    fn on(machine: &Machine, threads: u32) -> Limit {
        let id = format!("cpu.peak/op=fma/type=f64/isa=avx512/threads={threads}");
        limit(machine, &id, &[Some(3.0e9)])
    }

    /// Returns `machine` if the kernels are those of x86-64.
    fn if_built(machine: Machine) -> Option<Machine> {
        let built = kernel::find(Op::FMA, Element::F64, Isa::Avx512).is_some();
        if !built {
            writeln!(std::io::stderr(), "SKIPPED a limit of cpu.peak: needs kernels of x86-64").unwrap();
        }
        built.then_some(machine)
    }

    #[test]
    fn the_limit_counts_units_lanes_clock_and_cores() {
        let Some(zen4) = if_built(machine(17)) else { return };
        let clocks = [Some(3.0e9), Some(3.5e9), Some(3.2e9)];
        let one = limit(&zen4, "cpu.peak/op=fma/type=f64/isa=avx512/threads=1", &clocks);
        assert_eq!((one.value, one.source), (Some(16.0 * 3.2e9), LimitSource::Derived));
        assert_eq!(one.per_sample, [48.0e9, 56.0e9, 51.2e9]);
        assert!(one.inputs[0].from.contains("AMD 57647"), "{:?}", one.inputs[0]);
        let two = limit(&zen4, "cpu.peak/op=fma/type=f32/isa=avx2/threads=2", &clocks);
        assert_eq!(two.value, Some(2.0 * 2.0 * 8.0 * 2.0 * 3.2e9));
        let sse2 = limit(&zen4, "cpu.peak/op=fma/type=f64/isa=sse2/threads=1", &clocks);
        assert_eq!(sse2.value, Some(4.0 * 2.0 * 3.2e9));
        let value = |op: &str, element: &str, isa: &str| {
            let id = format!("cpu.peak/op={op}/type={element}/isa={isa}/threads=1");
            let limit = limit(&zen4, &id, &[Some(1.0)]);
            (limit.value.unwrap_or_else(|| panic!("{id}: {limit:?}")), limit.formula)
        };
        assert_eq!(value("mix", "f32", "avx2").0, 4.0 * 8.0);
        assert_eq!(value("add", "i8", "avx512").0, 2.0 * 64.0);
        assert_eq!(value("mul", "i64", "avx512").0, 8.0);
        assert_eq!(value("div", "f64", "avx2").0, 4.0 / 5.0);
        let dot = value("dot", "i8", "avx512");
        assert_eq!(dot, (128.0, "dot products per cycle × lanes × 8 × clock × cores".to_owned()));
        let lacking = ["avx_vnni", "avx512_fp16", "amx_int8", "amx_bf16"];
        let lacks = |kernel: &&ComputeKernel| kernel.needs.is_some_and(|need| lacking.contains(&need.name));
        for kernel in kernel::kernels().filter(|k| k.isa != Isa::Portable && !lacks(k)) {
            value(kernel.op.name(), kernel.element.name(), kernel.isa.name());
        }
    }

    #[test]
    fn cores_of_several_kinds_give_the_sum_each_at_its_own_clock() {
        let Some(mut hybrid) = if_built(chip("GenuineIntel", 6, 0x97)) else { return };
        hybrid.cpu.logical.clear();
        let kind = |name: &str, cpus: &str| CoreKind { name: name.to_owned(), cpus: cpus.parse().unwrap() };
        hybrid.cpu.kinds = vec![kind("cpu_core", "0-1"), kind("cpu_atom", "2-3")];
        let mut samples = samples(&[Some(4.5e9)]);
        let id = "cpu.peak/op=fma/type=f64/isa=avx2/threads=4".parse().unwrap();
        let ask = |samples: &[Sample]| limits_of(limits, (&hybrid, &id, "rate"), samples).remove(0);
        assert!(ask(&samples).reason.is_some_and(|why| why.contains("clock of cores of kind cpu_core")));
        let more = &mut samples[0].conditions.more;
        more.set_of(&KIND_CLOCK, "cpu_core", 5e9);
        more.set_of(&KIND_CLOCK, "cpu_atom", 4e9);
        assert_eq!(ask(&samples).value, Some(2.0 * 2.0 * 8.0 * 5e9 + 2.0 * 8.0 * 4e9));
    }

    #[test]
    fn chains_bound_the_rate_until_units_times_latency_of_them_are_in_flight() {
        // Zen 4: two 256-bit FMA per cycle or one of 512 bits, latency 4.
        let Some(zen4) = if_built(machine(17)) else { return };
        let of = |kind: &str, chains: u32, threads: u32| {
            let id = format!("cpu.peak/op=fma/type=f64/{kind}/chains={chains}/threads={threads}");
            limit(&zen4, &id, &[Some(1.0)])
        };
        let rate = |kind: &str, chains: u32| of(kind, chains, 1).value.unwrap();
        let wide = [1, 3, 4, 5, 24].map(|n| rate("isa=avx512/width=512", n) / 16.0);
        assert_eq!(wide, [0.25, 0.75, 1.0, 1.0, 1.0]);
        let middle = [1, 7, 8, 14].map(|n| rate("isa=avx2/width=256", n) / 8.0);
        assert_eq!(middle, [0.25, 1.75, 2.0, 2.0]);
        assert_eq!([1, 8].map(|n| rate("isa=avx2/width=128", n) / 4.0), [0.25, 2.0]);
        assert_eq!([1, 8].map(|n| rate("isa=avx2/width=scalar", n) / 2.0), [0.25, 2.0]);
        let apart = [1, 6, 12, 14].map(|n| rate("isa=sse2/width=128", n) / 4.0);
        assert_eq!(apart, [1.0 / 6.0, 1.0, 2.0, 2.0]);
        let both = |chains| of("isa=avx2/width=256/affinity=0,2", chains, 2).value.unwrap() / 8.0;
        assert_eq!([1, 4, 8].map(both), [0.5, 2.0, 2.0]);
        let few = of("isa=avx2/width=256", 3, 1);
        assert_eq!(few.formula, "chains ÷ latency × lanes × 2 × clock × cores");
        let inputs: Vec<(&str, f64)> = few.inputs.iter().map(|i| (i.name.as_str(), i.value)).collect();
        let wanted = [("chains", 3.0), ("latency", 4.0), ("lanes", 4.0), ("clock", 1.0), ("cores", 1.0)];
        assert_eq!(inputs, wanted);
        assert!(few.fact.unwrap().text.contains("4.00 cycles from one of the FMA to the next (Zen 4)"));
        let id = "cpu.peak/op=mul/type=i32/isa=avx2/width=256/chains=1/threads=1";
        let unlisted = limit(&zen4, id, &[Some(1.0)]);
        assert_eq!(unlisted.value, Some(16.0));
        let why = unlisted.reason.unwrap();
        assert!(why.starts_with("the latency of multiplications of Zen 4 is not listed"), "{why}");
    }

    #[test]
    fn siblings_and_threads_beyond_the_cpus_add_no_core() {
        let Some(zen4) = if_built(machine(17)) else { return };
        let cores = [1, 2, 3, 4, 9].map(|threads| on(&zen4, threads).value.unwrap() / 48.0e9);
        assert_eq!(cores, [1.0, 2.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn siblings_that_a_hypervisor_hides_are_one_core_as_inferred() {
        let Some(mut guest) = if_built(machine(17)) else { return };
        for cpu in &mut guest.cpu.logical {
            (cpu.core, cpu.siblings) = (u32::try_from(cpu.id).ok(), CpuSet::single(cpu.id));
        }
        assert_eq!(on(&guest, 2).value, Some(2.0 * 48.0e9));
        guest.cpu.hidden_siblings = vec!["0-1".parse().unwrap()];
        assert_eq!((on(&guest, 1).source, on(&guest, 1).reason), (LimitSource::Derived, None));
        let both = on(&guest, 2);
        assert_eq!((both.value, both.source), (Some(48.0e9), LimitSource::Inferred));
        let wanted =
            "CPUs 0-1 count as one core: they shared it before the run, and the hypervisor hides that";
        assert_eq!(both.reason.as_deref(), Some(wanted));
        let id = "cpu.peak/op=fma/type=f64/isa=avx512/threads=2".parse().unwrap();
        let both = limits_of(limits, (&guest, &id, "rate"), &samples(&[Some(3.0e9)]));
        assert_eq!(both.iter().map(|limit| limit.value).collect::<Vec<_>>(), [Some(48.0e9), Some(96.0e9)]);
        let facts: Vec<_> = both.iter().filter_map(|limit| limit.fact.as_ref()).collect();
        assert!(facts[0].changes == Some(2.0), "{facts:?}");
        assert!(facts[0].text.contains("one core for CPUs 0-1"), "{facts:?}");
        assert!(facts[1].changes.is_none() && facts[1].text.contains("per cycle"), "{facts:?}");
    }

    #[test]
    fn a_quota_scales_the_limit_where_it_gives_less_than_the_cores() {
        let Some(mut zen4) = if_built(machine(17)) else { return };
        let quota = |quota_us| CpuQuota { quota_us, period_us: 100_000, group: "/half".to_owned() };
        zen4.cgroup.cpu_quota = Some(quota(50_000));
        let half = on(&zen4, 2);
        assert_eq!(half.value, Some(24.0e9));
        assert!(half.formula.ends_with("clock × CPUs of the quota"), "{}", half.formula);
        assert_eq!(half.inputs[3].from, "50000 of each 100000 µs, by /half");
        zen4.cgroup.cpu_quota = Some(quota(150_000));
        assert_eq!([1, 2].map(|n| on(&zen4, n).value.unwrap() / 48.0e9), [1.0, 1.5]);
    }

    #[test]
    fn an_unknown_chip_shows_what_was_measured() {
        let unknown = machine(250);
        let mut samples = samples(&[Some(3.0e9)]);
        samples[0].conditions.more.set(&PER_CYCLE, 15.97);
        let id = format!("cpu.peak/op=fma/type=f64/isa={}/threads=1", Isa::best()).parse().unwrap();
        let reason = limits_of(limits, (&unknown, &id, "rate"), &samples).remove(0).reason.unwrap();
        assert!(reason.ends_with("; measured: 16.0 operations per cycle of a core at 3.00 GHz"), "{reason}");
    }

    #[test]
    fn what_is_not_known_is_unknown_with_the_reason() {
        let portable = "cpu.peak/op=fma/type=f64/isa=portable/threads=1";
        let best = format!("cpu.peak/op=fma/type=f64/isa={}/threads=1", Isa::best());
        let reason = |machine: &Machine, id: &str, clocks: &[Option<f64>]| {
            let limit = limit(machine, id, clocks);
            assert_eq!((limit.value, limit.source), (None, LimitSource::Unknown));
            limit.reason.unwrap()
        };
        assert!(reason(&machine(17), portable, &[Some(3.0e9)]).contains("the compiler chose"));
        assert!(reason(&machine(250), &best, &[Some(3.0e9)]).contains("family 25 model 250 is not in"));
        assert!(reason(&machine(17), &best, &[Some(3.0e9), None]).contains("clock could not be measured"));
        assert!(reason(&machine(17), &best, &[]).contains("no sample"));
        let named_badly = "cpu.peak/op=mul/type=i7/isa=best";
        assert!(reason(&machine(17), named_badly, &[Some(3.0e9)]).contains("no kernel"));
        let mut nowhere = machine(17);
        nowhere.cpu.allowed = CpuSet::default();
        assert!(reason(&nowhere, &best, &[Some(3.0e9)]).contains("no CPU is known"));
    }
}
