use std::collections::HashSet;
use std::io::Write;

use proptest::prelude::*;

use super::*;

/// The kernels this processor can run; the others are named on the terminal, also in a test that passes.
fn runnable() -> Vec<LoadedKernel> {
    let mut loaded = Vec::new();
    for kernel in kernels() {
        match kernel.load() {
            Ok(kernel) => loaded.push(kernel),
            Err(absence) => {
                writeln!(std::io::stderr(), "skipped {}: {absence}", kernel.name).unwrap();
            }
        }
    }
    loaded
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_kernel_equals_the_reference_bit_by_bit(turns in prop_oneof![0_u64..40, 0_u64..3_000]) {
        for mut kernel in runnable() {
            kernel.run(turns);
            prop_assert_eq!(kernel.verify(&kernel.snapshot(), turns), Ok(()));
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
            prop_assert_eq!(kernel.equals(&there), first + second == 0);
            kernel.run(first + second);
            prop_assert!(kernel.equals(&there));
        }
    }

    #[test]
    fn a_turn_too_few_or_too_many_is_found(turns in 1_u64..2_000) {
        for mut kernel in runnable() {
            kernel.run(turns);
            prop_assert!(kernel.verify(&kernel.snapshot(), turns - 1).is_err());
            prop_assert!(kernel.verify(&kernel.snapshot(), turns + 1).is_err());
        }
    }
}

/// More turns than a slice of a quarter of a millisecond holds on any processor so far.
const MORE_THAN_A_SLICE: u64 = 250_000;

#[test]
fn numbers_stay_alive_distinct_and_ordinary_for_longer_than_a_slice() {
    for mut kernel in runnable() {
        let name = kernel.kernel().name;
        let numbers = |kernel: &LoadedKernel| -> Vec<f64> {
            let vectors = &kernel.vectors;
            let accumulators = 0..vectors.accumulators();
            accumulators
                .flat_map(|which| (0..vectors.lanes()).map(move |lane| vectors.accumulator(which, lane)))
                .collect()
        };
        let start = numbers(&kernel);
        let distinct: HashSet<u64> = start.iter().map(|x| x.to_bits()).collect();
        assert_eq!(distinct.len(), start.len(), "{name}");
        kernel.run(MORE_THAN_A_SLICE);
        let there = numbers(&kernel);
        assert!(there.iter().all(|x| (1.0..4.0).contains(x)), "{name}: {there:?}");
        kernel.run(1);
        let next = numbers(&kernel);
        let moved = there.iter().zip(&next).filter(|(before, after)| before != after).count();
        assert_eq!(moved, there.len(), "{name}: a step no longer changes every number");
    }
}

#[test]
fn a_wrong_number_is_named() {
    let mut kernel = find(Op::Fma, Element::F64, Isa::Portable).unwrap().load().unwrap();
    kernel.run(10);
    kernel.vectors.set_accumulator(3, 0, 1.5);
    let error = kernel.verify(&kernel.snapshot(), 10).unwrap_err();
    assert_eq!((error.accumulator, error.lane, error.got), (3, 0, 1.5));
    assert!(
        error.to_string().starts_with("fma_f64_portable computed 1.5e0 where the reference has 1."),
        "{error}"
    );
}

#[test]
fn rows_are_unique_and_whole() {
    let names: HashSet<&str> = kernels().map(|kernel| kernel.name).collect();
    assert_eq!(names.len(), kernels().count());
    for kernel in kernels() {
        let Counts { fma, multiply, add, .. } = kernel.counts;
        assert_eq!(kernel.name, format!("{}_{}_{}", kernel.op, kernel.element, kernel.isa));
        assert!(std::ptr::eq(find(kernel.op, kernel.element, kernel.isa).unwrap(), kernel));
        assert_eq!(multiply, add, "{}", kernel.name);
        assert_eq!(u64::from(fma.max(multiply)), kernel.steps_per_turn() * u64::from(kernel.accumulators));
        assert!(kernel.steps_per_turn() > 0 && (fma == 0) != (multiply == 0), "{}", kernel.name);
        assert_eq!(fma > 0, kernel.recurrence != Recurrence::RoundedScale, "{}", kernel.name);
    }
}

#[test]
fn every_type_has_a_portable_kernel_and_one_for_the_best_instruction_set() {
    for op in Op::ALL {
        assert_eq!(op.name().parse(), Ok(op));
        for element in Element::ALL {
            assert_eq!(element.name().parse(), Ok(element));
            assert!(find(op, element, Isa::Portable).is_some());
            assert!(find(op, element, Isa::best()).is_some());
        }
    }
    assert_eq!(
        "i9".parse::<Element>().unwrap_err().to_string(),
        "unknown type of number \"i9\": choose f64 or f32"
    );
}

#[test]
fn operations_are_derived_from_the_counts() {
    let portable = find(Op::Fma, Element::F32, Isa::Portable).unwrap();
    assert_eq!(portable.flops_per_turn(), 96);
    for kernel in kernels().filter(|kernel| kernel.isa == Isa::Avx512) {
        assert_eq!(kernel.flops_per_turn() * kernel.element.bytes() as u64, 16 * 2 * 64, "{}", kernel.name);
    }
}
