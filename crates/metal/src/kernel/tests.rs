use std::collections::HashSet;
use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::effort;

/// Returns the kernels that this processor can run; prints the remaining ones in any case.
fn runnable() -> Vec<LoadedKernel> {
    let load = |kernel: &'static ComputeKernel| {
        let skip = |why: &Absence| writeln!(std::io::stderr(), "skipped {}: {why}", kernel.name).unwrap();
        kernel.load().inspect_err(skip).ok()
    };
    kernels().filter_map(load).collect()
}

proptest! {
    #![proptest_config(effort::cases(24))]

    #[test]
    fn every_kernel_equals_the_reference_bit_by_bit_and_a_turn_too_few_or_too_many_is_found(
        turns in prop_oneof![0_u64..40, 0_u64..800],
    ) {
        for mut kernel in runnable() {
            kernel.run(turns);
            prop_assert_eq!(kernel.verify(&kernel.snapshot(), turns), Ok(()));
            prop_assert!(turns == 0 || kernel.verify(&kernel.snapshot(), turns - 1).is_err());
            prop_assert!(kernel.verify(&kernel.snapshot(), turns + 1).is_err());
        }
    }

    #[test]
    fn two_runs_continue_as_one(first in 0_u64..500, second in 0_u64..500) {
        for mut kernel in runnable() {
            kernel.run(first);
            kernel.run(second);
            prop_assert_eq!(kernel.verify(&kernel.snapshot(), first + second), Ok(()));
            let there = kernel.snapshot();
            kernel.reset();
            // Binary16 values return to the start after a few iterations.
            let comes_back = kernel.kernel().element == Element::F16;
            prop_assert!(comes_back || kernel.equals(&there) == (first + second == 0));
            kernel.run(first + second);
            prop_assert!(kernel.equals(&there));
        }
    }
}

/// Compares the chained kernels with the reference after few and many iterations.
#[test]
fn chains_equal_the_reference_bit_by_bit_and_a_turn_too_few_or_too_many_is_found() {
    for kernel in chained() {
        let Ok(mut loaded) = kernel.load() else { continue };
        for turns in [1, 2, 23] {
            loaded.reset();
            loaded.run(turns);
            assert_eq!(loaded.verify(&loaded.snapshot(), turns), Ok(()));
            // A value that changes its sign in each step is back after two.
            if kernel.steps % 2 == 1 || kernel.element != Element::F16 {
                assert!(loaded.verify(&loaded.snapshot(), turns - 1).is_err(), "{}", kernel.name);
                assert!(loaded.verify(&loaded.snapshot(), turns + 1).is_err(), "{}", kernel.name);
            }
        }
    }
}

#[test]
fn chains_are_there_for_each_operation_in_each_width_from_one_on() {
    let names: HashSet<&str> = kernels().chain(chained()).map(|kernel| kernel.name).collect();
    assert_eq!(names.len(), kernels().count() + chained().count(), "names are unique");
    for kernel in kernels().filter(|kernel| kernel.isa != Isa::Portable) {
        let alike = |other: &&ComputeKernel| {
            (other.op, other.element, other.isa) == (kernel.op, kernel.element, kernel.isa)
                && other.vector_bits() == kernel.vector_bits()
        };
        let numbers: Vec<u32> = chained().filter(alike).map(|other| other.accumulators).collect();
        let most = match kernel.isa {
            _ if kernel.is_general() => 12,
            Isa::Amx => 6,
            _ => 14,
        };
        assert!(numbers.last() >= Some(&most), "{}: {numbers:?}", kernel.name);
        let step = if kernel.op == Op::MIX { 2 } else { 1 };
        assert!(numbers.iter().eq((1..=numbers.len() as u32).map(|n| n * step).collect::<Vec<_>>().iter()));
        let each = |k: &ComputeKernel| k.parts.iter().map(|part| part.operations).max();
        for other in chained().filter(alike) {
            assert_eq!(each(other), each(kernel), "{}", other.name);
            let counted: u32 = other.parts.iter().filter(|p| p.operations > 0).map(|p| p.count).sum();
            let twice = kernel.op == Op::FMA && kernel.isa == Isa::Sse2;
            let steps = other.accumulators * other.steps;
            assert_eq!(counted, if twice { 2 * steps } else { steps }, "{}", other.name);
            assert!(steps >= if kernel.isa == Isa::Amx { 6 } else { 12 }, "{}", other.name);
        }
    }
    let scalar = |element| chained().any(|kernel| kernel.is_scalar() && kernel.element == element);
    let built = kernels().any(|kernel| kernel.isa != Isa::Portable);
    assert_eq!([scalar(Element::F64), scalar(Element::F32)], [built; 2]);
    assert_eq!([scalar(Element::I64), scalar(Element::I32)], [built, false]);
}

/// More iterations than fit in a slice of a quarter of a millisecond on any processor so far.
const MORE_THAN_A_SLICE: u64 = 250_000;
/// Steps of a single floating-point chain, at least two cycles each.
const MORE_STEPS_THAN_A_SLICE: u64 = 750_000;
const MORE_THAN_A_SLICE_OF_TILES: u64 = 40_000;
/// Iterations of the slow reference for kernels that this processor cannot run.
const BY_REFERENCE: u64 = 20_000;

struct Moving {
    kernel: &'static ComputeKernel,
    loaded: Option<LoadedKernel>,
    vectors: Vectors,
}

impl Moving {
    fn run(&mut self, turns: u64) {
        match &mut self.loaded {
            Some(loaded) => {
                loaded.run(turns);
                self.vectors = loaded.vectors.clone();
            }
            None => reference::advance(self.kernel, turns, &mut self.vectors),
        }
    }

    fn many(&self) -> u64 {
        let steps = u64::from(self.kernel.steps);
        effort::of(match self.kernel.recurrence {
            _ if self.loaded.is_none() => BY_REFERENCE / steps,
            Recurrence::Tile => MORE_THAN_A_SLICE_OF_TILES / steps,
            _ if !self.kernel.chains => MORE_THAN_A_SLICE,
            // Multiplications and additions take at least four cycles.
            Recurrence::FusedScale | Recurrence::RoundedScale => MORE_STEPS_THAN_A_SLICE / 2 / steps,
            _ => MORE_STEPS_THAN_A_SLICE / steps,
        })
    }

    fn numbers(&self) -> Vec<Number> {
        let vectors = &self.vectors;
        let lanes = |which| (0..vectors.lanes).map(move |lane| vectors.accumulator(which, lane));
        let bits = (0..vectors.accumulators).flat_map(lanes);
        bits.map(|bits| Number::from_bits(self.kernel.result(), bits)).collect()
    }
}

#[test]
fn numbers_stay_alive_distinct_and_ordinary_for_longer_than_a_slice() {
    // One chain makes the most steps in a slice.
    for kernel in kernels().chain(chained().filter(|kernel| [1, 2].contains(&kernel.accumulators))) {
        let mut moving = Moving { kernel, loaded: kernel.load().ok(), vectors: Vectors::seeded(kernel) };
        let (name, element) = (kernel.name, kernel.result());
        let start = moving.numbers();
        let distinct: HashSet<u64> = start.iter().map(|x| x.bits()).collect();
        // Narrow integers have too few values.
        let enough = if element.bytes() < 4 { start.len().min(200) / 2 } else { start.len() };
        assert!(distinct.len() >= enough, "{name}: {} of {}", distinct.len(), start.len());
        moving.run(moving.many());
        let there = moving.numbers();
        if element == Element::F16 {
            assert!(there.iter().all(|x| x.value().abs() < 4.0), "{name}: {there:?}");
        } else if element.is_float() {
            // Fewer chains make more steps in a slice.
            let bounds = if kernel.chains { 0.5..16.0 } else { 1.0..4.0 };
            assert!(there.iter().all(|x| bounds.contains(&x.value())), "{name}: {there:?}");
        }
        let distinct: HashSet<u64> = there.iter().map(|x| x.bits()).collect();
        assert!(distinct.len() >= enough * 9 / 10, "{name}: {} after many turns", distinct.len());
        moving.run(1);
        let next = moving.numbers();
        let moved = there.iter().zip(&next).filter(|(before, after)| before != after).count();
        // A sum with zero, or a product with one, changes nothing: one in 256 of the narrowest
        // integers; and some binary16 values are at a fixed point.
        let least =
            if element.is_float() && element != Element::F16 { there.len() } else { there.len() * 19 / 20 };
        assert!(moved >= least, "{name}: a step changes only {moved} of {}", there.len());
    }
}

#[test]
fn a_wrong_number_is_named() {
    let mut kernel = find(Op::FMA, Element::F64, Isa::Portable).unwrap().load().unwrap();
    kernel.run(10);
    kernel.vectors.set_accumulator(3, 0, 1.5_f64.to_bits());
    let error = kernel.verify(&kernel.snapshot(), 10).unwrap_err();
    assert_eq!((error.accumulator, error.lane, error.got.value()), (3, 0, 1.5));
    let start = "fma_f64_portable computed 1.5e0 where the reference has 1.";
    assert!(error.to_string().starts_with(start), "{error}");
}

#[test]
fn fma_has_a_portable_kernel_and_one_for_the_best_instruction_set() {
    for element in [Element::F64, Element::F32] {
        assert!(find(Op::FMA, element, Isa::Portable).is_some());
        assert!(find(Op::FMA, element, Isa::best()).is_some());
    }
}

#[test]
fn rows_are_whole() {
    for kernel in kernels() {
        let name = kernel.name;
        let plain = format!("{}_{}_{}", kernel.op, kernel.element, kernel.isa);
        let first = find(kernel.op, kernel.element, kernel.isa).unwrap();
        assert_eq!(first.name, plain);
        assert_eq!(kernel.is_variant(), !std::ptr::eq(first, kernel), "{name}");
        // Variants have the same limit, and names that distinguish them.
        assert!(name == plain || name.starts_with(&(plain + "_")), "{name}");
        let most = |kernel: &ComputeKernel| kernel.parts.iter().map(|part| part.operations).max();
        assert_eq!((kernel.lanes, most(kernel)), (first.lanes, most(first)), "{name}");
        assert!(kernel.parts.iter().all(|part| part.count > 0), "{name}");
        let counted = kernel.parts.iter().filter(|part| part.operations > 0).map(|part| part.count);
        let apart = kernel.recurrence == Recurrence::RoundedScale && kernel.parts.len() == 2;
        let each = if apart { 2 } else { 1 };
        assert_eq!(counted.sum::<u32>(), kernel.accumulators * kernel.steps * each, "{name}");
        let bits = match kernel.isa {
            _ if kernel.is_general() => 8 * kernel.element.bytes() as u32,
            Isa::Sse2 | Isa::Neon | Isa::Mmla => 128,
            Isa::Sve => find(Op::ADD, Element::I8, Isa::Sve).unwrap().lanes.next_multiple_of(16) * 8,
            Isa::Amx => 8192,
            Isa::Avx2 => 256,
            Isa::Avx512 => 512,
            Isa::Portable => 8 * kernel.element.bytes() as u32,
        };
        assert_eq!(kernel.vector_bits(), bits, "{name}");
    }
}

#[test]
fn every_kernel_has_a_rate_or_is_the_compilers() {
    for kernel in kernels().chain(chained()) {
        let rate = kernel.rate().unwrap_or_else(|| panic!("{}: no rate", kernel.name));
        assert!(rates().any(|listed| listed == rate), "{}: {rate:?}", kernel.name);
    }
}

#[test]
fn rows_of_operations_are_whole_and_the_docs_have_them() {
    const BEGIN: &str =
        "<!-- operations: made by PLIMSOLL_WRITE_DOCS=1 cargo test -p plimsoll-metal operations -->\n";
    const END: &str = "<!-- operations end -->\n";
    let mut table =
        String::from("| op | one instruction counts, for each lane; of which types |\n| --- | --- |\n");
    for op in Op::ALL {
        let row = op.row();
        assert!(!row.rates.is_empty() && !row.about.is_empty(), "{op}");
        table += &format!("| `{op}` | {} |\n", row.about);
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/method.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (kept, after) = rest.split_once(END).unwrap();
    if std::env::var_os("PLIMSOLL_WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(kept, table, "docs/src/method.md is stale; PLIMSOLL_WRITE_DOCS=1 writes it");
    }
}

#[test]
fn operations_are_derived_from_the_parts() {
    let operations = |op, element, isa| find(op, element, isa).map(ComputeKernel::operations_per_turn);
    assert_eq!(operations(Op::FMA, Element::F32, Isa::Portable), Some(96));
    if Isa::Avx512.available() == Err(Absence::Architecture(Isa::Avx512)) {
        return;
    }
    let of_avx512 = |(op, element)| operations(op, element, Isa::Avx512).unwrap() / 24;
    let float = [(Op::FMA, Element::F64), (Op::MIX, Element::F32), (Op::SQRT, Element::F64)];
    let whole = [(Op::ADD, Element::I8), (Op::DOT, Element::I8), (Op::DOT, Element::Bf16)];
    assert_eq!([float, whole].map(|three| three.map(of_avx512)), [[16, 16, 8], [64, 128, 64]]);
    assert_eq!(operations(Op::MUL, Element::I8, Isa::Avx512), None);
    assert_eq!(operations(Op::FMA, Element::I32, Isa::Avx2), None);
}

#[test]
fn what_a_kernel_needs_is_named_where_it_is_missing() {
    for kernel in kernels() {
        match kernel.available() {
            Err(Absence::Kernel { feature, .. }) => {
                let text = kernel.load().unwrap_err().to_string();
                assert_eq!(text, format!("{} is not supported by this CPU: needs {feature}", kernel.name));
            }
            Err(absence) => assert_eq!(kernel.isa.available(), Err(absence)),
            Ok(()) => assert!(kernel.load().is_ok()),
        }
    }
}
