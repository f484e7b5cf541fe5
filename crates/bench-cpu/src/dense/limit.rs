//! Limit of `cpu.gemm` and `cpu.linpack`: that of `cpu.peak` for FMA at the measured clock. Memory
//! is no limit, because blocks are reused in caches.

use crate::peak::{self, Peak};
use plimsoll_bench_api::prelude::*;

pub(crate) fn limits(question: &Question<'_>) -> Vec<Limit> {
    // Defaults, then what the case has.
    let peak = Case::of(Peak.name())
        .with_word("op", "fma")
        .with_word("type", "f64")
        .with_word("isa", "")
        .with_word("affinity", "spread")
        .with_count("threads", 1)
        .with_params_of(&question.case.clone().without(&["n", "nb"]));
    let question = Question { case: &peak, ..*question };
    let mut limits = peak::limit::limits(&question);
    if limits.first().is_some_and(|limit| limit.value.is_none()) {
        limits.splice(0..0, peak::limit::capabilities(&question));
    }
    for input in
        limits.iter_mut().flat_map(|limit| &mut limit.inputs).filter(|input| input.name.starts_with("clock"))
    {
        input.from =
            "measured on each thread every 20 ms while it worked; mean of a sample, median of all".to_owned();
    }
    limits
}

#[cfg(test)]
mod tests {
    use plimsoll_metal::isa::Isa;
    use plimsoll_metal::kernel::{self, Element, Op};

    use super::*;
    use crate::fixture::{chip, limits_of, samples};
    use plimsoll_machine::cpu::CoreKind;
    use plimsoll_model::limit::LimitSource;

    fn limit(id: &str, metric: &str) -> Vec<Limit> {
        let mut machine = chip("AuthenticAMD", 25, 17);
        machine.cpu.allowed = "0-1".parse().unwrap();
        machine.cpu.logical.clear();
        limits_of(limits, (&machine, &id.parse().unwrap(), metric), &samples(&[Some(3.0e9)]))
    }

    #[test]
    fn it_is_that_of_multiply_adds_at_the_clock_held() {
        let linpack = &limit("cpu.linpack/n=8000/nb=192/isa=avx512/threads=2", "rate")[0];
        if kernel::find(Op::FMA, Element::F64, Isa::Avx512).is_none() {
            assert_eq!(linpack.source, LimitSource::Unknown);
            return;
        }
        assert_eq!((linpack.value, linpack.source), (Some(2.0 * 16.0 * 3.0e9), LimitSource::Derived));
        let clock = linpack.inputs.iter().find(|input| input.name == "clock").unwrap();
        assert!(clock.from.contains("every 20 ms"), "{clock:?}");
        let one = &limit("cpu.linpack/n=8000/nb=192/isa=avx512/affinity=1/threads=2", "rate")[0];
        assert_eq!(one.value, Some(16.0 * 3.0e9));
        let gemm = &limit("cpu.gemm/type=f32/n=4000/isa=avx2/threads=1", "rate")[0];
        assert_eq!(gemm.value, Some(2.0 * 8.0 * 2.0 * 3.0e9));
    }

    #[test]
    fn on_cores_of_several_kinds_it_is_the_sum_each_at_its_own_clock() {
        if kernel::find(Op::FMA, Element::F64, Isa::Avx2).is_none() {
            return;
        }
        let mut hybrid = chip("GenuineIntel", 6, 0x97);
        hybrid.cpu.logical.clear();
        let kind = |name: &str, cpus: &str| CoreKind { name: name.to_owned(), cpus: cpus.parse().unwrap() };
        hybrid.cpu.kinds = vec![kind("cpu_core", "0-1"), kind("cpu_atom", "2-3")];
        let mut samples = samples(&[Some(4.5e9)]);
        let clocks = [("clock_hz_cpu_core".to_owned(), 5e9), ("clock_hz_cpu_atom".to_owned(), 4e9)];
        samples[0].conditions.more = clocks.into_iter().collect();
        for kind in ["linpack/n=8000/nb=192", "gemm/type=f64/n=4000"] {
            let id = format!("cpu.{kind}/isa=avx2/threads=4").parse().unwrap();
            let limit = &limits_of(limits, (&hybrid, &id, "rate"), &samples)[0];
            assert_eq!(limit.value, Some(2.0 * 2.0 * 8.0 * 5e9 + 2.0 * 8.0 * 4e9), "{limit:?}");
            let clocks = limit.inputs.iter().filter(|input| input.name.starts_with("clock"));
            assert!(clocks.clone().count() == 2 && clocks.clone().all(|clock| clock.from.contains("20 ms")));
        }
    }

    #[test]
    fn a_residual_has_no_limit_and_portable_code_an_unknown_one() {
        assert!(limit("cpu.linpack/n=80/nb=24/isa=avx2/threads=1", "residual").is_empty());
        let portable = &limit("cpu.gemm/type=f64/n=80/isa=portable/threads=1", "rate")[0];
        assert_eq!((portable.value, portable.source), (None, LimitSource::Unknown));
        assert!(portable.reason.as_ref().unwrap().contains("portable"), "{portable:?}");
    }
}
