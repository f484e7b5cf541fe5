use super::*;
use crate::buffer::{Buffer, Pages};
use proptest::prelude::*;
use std::collections::HashSet;

const MARGIN: usize = 40;
const UNTOUCHED: f64 = -7.0;

struct Field {
    buffer: Buffer,
    starts: [usize; 3],
    length: usize,
}

impl Field {
    fn new(length: usize, offsets: [usize; 3]) -> Self {
        let room = (length + 2 * MARGIN + 16).next_multiple_of(8);
        let mut buffer = Buffer::new(3 * room * ELEMENT, Pages::Small).unwrap();
        buffer.elements_mut::<f64>().fill(UNTOUCHED);
        let starts = [0, 1, 2].map(|which| which * room + MARGIN + offsets[which]);
        let mut field = Self { buffer, starts, length };
        let [a, b, c] = field.arrays();
        for (element, ((a, b), c)) in a.iter_mut().zip(b).zip(c).enumerate() {
            (*a, *b, *c) = (number(5, 0, element), number(5, 1, element), number(5, 2, element));
        }
        field
    }

    fn arrays(&mut self) -> [&mut [f64]; 3] {
        let ranges = self.starts.map(|start| start..start + self.length);
        self.buffer.elements_mut::<f64>().get_disjoint_mut(ranges).unwrap()
    }
}

fn equals_reference(kernel: &LoadedStream, length: usize, offsets: [usize; 3], passes: u64) {
    let [mut got, mut wanted] = [0, 1].map(|_| Field::new(length, offsets));
    let op = kernel.kernel().op;
    let s = op.scalar();
    let [a, b, c] = got.arrays();
    let sum = kernel.pass(a, b, c, s, passes);
    let [a, b, c] = wanted.arrays();
    let each = (0..passes).map(|_| reference_stream::apply(op, length, a, b, c, s));
    let reference = each.fold(0, u64::wrapping_add);
    let name = kernel.kernel().name;
    assert_eq!(sum, reference, "{name}: sum of {length} elements at {offsets:?}");
    let (got, wanted) = (got.buffer.elements::<f64>(), wanted.buffer.elements::<f64>());
    let difference = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
    assert_eq!(difference, None, "{name}: {length} elements at {offsets:?}");
}

proptest! {
    #[test]
    fn every_kernel_equals_the_reference(
        length in 0_usize..700, a in 0_usize..8, b in 0_usize..8, c in 0_usize..8, passes in 1_u64..4,
    ) {
        for kernel in StreamOp::ALL.into_iter().flat_map(available) {
            equals_reference(&kernel, length, [a, b, c], passes);
        }
    }

    #[test]
    fn arrays_are_equal_apart_and_within_the_memory(elements in 0_usize..50_000, which in 0_usize..7) {
        let op = StreamOp::ALL[which];
        let mut memory = vec![0.0; elements];
        let bounds = memory.as_ptr_range();
        let arrays = Arrays::divide(op, &mut memory);
        let all = [&*arrays.a, &*arrays.b, &*arrays.c];
        let used: Vec<&[f64]> = all.into_iter().filter(|array| !array.is_empty()).collect();
        let length = arrays.elements();
        prop_assert_eq!(length % ARRAY_BLOCK, 0);
        prop_assert_eq!(used.len(), if length == 0 { 0 } else { op.arrays() as usize });
        prop_assert!(used.iter().all(|array| array.len() == length));
        prop_assert!(used.iter().all(|array| bounds.start <= array.as_ptr() && array.as_ptr_range().end <= bounds.end));
        for pair in used.windows(2) {
            let apart = pair[1].as_ptr().addr() - pair[0].as_ptr_range().end.addr();
            prop_assert_eq!(apart, gap(elements * ELEMENT));
        }
        let needed = (length + ARRAY_BLOCK) * op.arrays() as usize + (op.arrays() as usize - 1) * gap(elements * ELEMENT) / ELEMENT;
        prop_assert!(needed >= elements);
    }

    #[test]
    fn parts_cover_the_arrays_in_order(elements in 0_usize..20_000, which in 0_usize..7, parts in 1_usize..9) {
        let op = StreamOp::ALL[which];
        let mut memory = vec![0.0; elements];
        let whole = Arrays::divide(op, &mut memory);
        let (length, starts) = (whole.elements(), [whole.a.as_ptr(), whole.b.as_ptr(), whole.c.as_ptr()]);
        let split = whole.split(parts);
        prop_assert_eq!(split.len(), parts);
        prop_assert_eq!(split.iter().map(Arrays::elements).sum::<usize>(), length);
        let mut before = 0;
        for part in &split {
            prop_assert_eq!(part.elements() % ARRAY_BLOCK, 0);
            prop_assert!(part.elements() + ARRAY_BLOCK >= length / parts);
            for (array, start) in [&*part.a, &*part.b, &*part.c].into_iter().zip(starts) {
                if !array.is_empty() {
                    prop_assert_eq!(array.len(), part.elements());
                    prop_assert_eq!(array.as_ptr(), start.wrapping_add(before));
                }
            }
            before += part.elements();
        }
    }
}

#[test]
fn long_arrays_are_exact_too() {
    for kernel in StreamOp::ALL.into_iter().flat_map(available) {
        equals_reference(&kernel, 20_011, [3, 0, 5], 2);
    }
}

#[test]
fn filled_arrays_verify_after_any_number_of_passes() {
    for kernel in StreamOp::ALL.into_iter().flat_map(available) {
        let op = kernel.kernel().op;
        let mut memory = vec![0.0; 5000];
        let mut arrays = Arrays::divide(op, &mut memory);
        arrays.fill(11);
        let mut passes = 0;
        for more in 0..4 {
            arrays.verify(11, passes).unwrap();
            let wanted = arrays.checksum(11).wrapping_mul(more);
            assert_eq!(kernel.run(&mut arrays, more), wanted, "{}", kernel.variant());
            passes += more;
        }
        arrays.verify(11, passes).unwrap();
    }
}

#[test]
fn one_wrong_element_anywhere_is_found() {
    for op in StreamOp::ALL {
        let kernel = available(op).last().unwrap();
        for (array, element) in [('a', 0), ('a', 777), ('b', 0), ('b', 777), ('c', 1), ('c', 700)] {
            let mut memory = vec![0.0; 5000];
            let mut arrays = Arrays::divide(op, &mut memory);
            arrays.fill(3);
            let sum = kernel.run(&mut arrays, 1);
            let target = match array {
                'a' => &mut *arrays.a,
                'b' => &mut *arrays.b,
                _ => &mut *arrays.c,
            };
            let Some(number) = target.get_mut(element) else { continue };
            *number += 1.0;
            let found = arrays.verify(3, 1).unwrap_err();
            assert_eq!((found.array, found.element), (array, element), "{op}");
            if op == StreamOp::Read {
                assert_ne!(kernel.run(&mut arrays, 1), sum);
            }
        }
    }
}

#[test]
fn variants_are_told_apart_by_their_distance() {
    for op in StreamOp::ALL {
        let names: Vec<String> = available(op).map(|kernel| kernel.variant()).collect();
        let usable = kernels().filter(|kernel| kernel.op == op && kernel.load().is_ok());
        assert_eq!(names, usable.flat_map(|kernel| kernel.variants()).collect::<Vec<_>>());
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{op}");
    }
}

#[test]
fn any_scalar_is_written_by_string_instructions_too() {
    for kernel in available(StreamOp::Write) {
        for scalar in [0.0, -3.5, StreamOp::Write.scalar()] {
            let mut memory = vec![1.0; 600];
            kernel.pass(&mut memory, &[], &[], scalar, 1);
            assert!(memory.iter().all(|element| *element == scalar), "{} {scalar}", kernel.variant());
        }
    }
}

#[test]
fn arrays_of_another_operation_are_left_alone() {
    let mut memory = vec![1.0; 1000];
    let mut arrays = Arrays::divide(StreamOp::Read, &mut memory);
    assert_eq!(available(StreamOp::Write).last().unwrap().run(&mut arrays, 1), 0);
    assert!(memory.iter().all(|element| *element == 1.0));
}

#[test]
fn bytes_are_derived_from_the_row() {
    let bytes = |op, store| {
        let kernel = kernels().find(|kernel| kernel.op == op && kernel.store == store).unwrap();
        (kernel.program_bytes(10), kernel.bus_bytes(10))
    };
    let read_first = if cfg!(target_arch = "aarch64") { 0 } else { 80 };
    let ordinary = StreamOp::ALL.map(|op| bytes(op, StoreKind::Ordinary));
    let wanted = [(80, 0), (80, 1), (160, 1), (160, 1), (240, 1), (240, 1), (160, 0)];
    assert_eq!(ordinary, wanted.map(|(program, first)| (program, program + first * read_first)));
    if Isa::best() != Isa::Portable && kernels().any(|kernel| kernel.store == StoreKind::NonTemporal) {
        assert_eq!(bytes(StreamOp::Copy, StoreKind::NonTemporal), (160, 160));
        assert_eq!(bytes(StreamOp::Triad, StoreKind::NonTemporal), (240, 240));
    }
    if kernels().any(|kernel| kernel.store == StoreKind::String) {
        assert_eq!(bytes(StreamOp::Copy, StoreKind::String), (160, 160));
        assert_eq!(bytes(StreamOp::Write, StoreKind::String), (80, 80));
    }
}

#[test]
fn the_table_is_complete_and_its_names_are_unique() {
    let names: HashSet<_> = kernels().map(|kernel| kernel.name).collect();
    assert_eq!(names.len(), kernels().count());
    for kernel in kernels() {
        assert_eq!(kernel.name, format!("{}_{}", kernel.op, kernel.variant()));
        assert_eq!(kernel.variant().ends_with(kernel.isa.name()), kernel.store != StoreKind::String);
        assert_eq!(kernel.prefetched > 0, kernel.variant().contains("ahead"), "{}", kernel.name);
        assert_eq!(kernel.distances.contains(&0), kernel.prefetched == 0, "{}", kernel.name);
    }
    for op in StreamOp::ALL {
        assert!(available(op).any(|kernel| kernel.kernel().isa == Isa::Portable), "{op}");
    }
}
