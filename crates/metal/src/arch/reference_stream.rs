use std::hint::black_box;

use crate::isa::Isa;
use crate::stream::{ELEMENT, StoreKind, StreamKernel, StreamOp, Terms};

const COPY_BLOCK: usize = 64;

/// Applies `op` with scalar `s` to the first `elements` elements of `a` (destination), `b` and `c`,
/// in order. Returns the wrapping sum of the bits for `Read`, otherwise 0.
#[inline]
pub(crate) fn apply(op: StreamOp, elements: usize, a: &mut [f64], b: &[f64], c: &[f64], s: f64) -> u64 {
    let (a, _) = a.split_at_mut(elements.min(a.len()));
    let (b, _) = b.split_at(elements.min(b.len()));
    let pairs = b.iter().zip(c);
    match op {
        StreamOp::Read => return b.iter().fold(0_u64, |sum, b| sum.wrapping_add(b.to_bits())),
        StreamOp::Write => a.iter_mut().for_each(|a| *a = s),
        StreamOp::Copy => {
            for (a, b) in a.chunks_mut(COPY_BLOCK).zip(b.chunks(COPY_BLOCK)) {
                // Opaque, to prevent one memcpy of all, whose kind of stores is unknown.
                for (a, b) in black_box(a).iter_mut().zip(b) {
                    *a = *b;
                }
            }
        }
        StreamOp::Scale => a.iter_mut().zip(b).for_each(|(a, b)| *a = s * b),
        StreamOp::Add => a.iter_mut().zip(pairs).for_each(|(a, (b, c))| *a = b + c),
        StreamOp::Triad => a.iter_mut().zip(pairs).for_each(|(a, (b, c))| *a = b + s * c),
        StreamOp::Update => a.iter_mut().for_each(|a| *a *= s),
    }
    0
}

macro_rules! portable {
    ($row:ident, $name:ident, $op:ident) => {
        static $row: StreamKernel = StreamKernel {
            name: stringify!($name),
            op: StreamOp::$op,
            isa: Isa::Portable,
            store: StoreKind::Ordinary,
            prefetched: 0,
            distances: &[0],
            turn: (COPY_BLOCK * ELEMENT) as u32,
            function: $name,
        };

        /// Runs `terms.passes` passes; returns the sum read. Safety: see `StreamKernel::function`.
        #[inline(never)]
        unsafe fn $name(a: *mut f64, b: *const f64, c: *const f64, terms: Terms) -> u64 {
            let Terms { bytes, passes, scalar, .. } = terms;
            let op = StreamOp::$op;
            let [a_length, b_length, c_length] = op.uses().map(|used| if used { bytes / ELEMENT } else { 0 });
            // SAFETY: the destination, if used, has `bytes` bytes that nothing else borrows.
            let a = unsafe { std::slice::from_raw_parts_mut(a, a_length) };
            // SAFETY: b, if used, has `bytes` bytes.
            let b = unsafe { std::slice::from_raw_parts(b, b_length) };
            // SAFETY: c, if used, has `bytes` bytes.
            let c = unsafe { std::slice::from_raw_parts(c, c_length) };
            let mut sum = 0_u64;
            for _ in 0..passes {
                // Opaque, so that no pass is optimized away as a repetition.
                let (a, b, c) = (black_box(&mut *a), black_box(b), black_box(c));
                sum = sum.wrapping_add(apply(op, bytes / ELEMENT, a, b, c, scalar));
            }
            sum
        }
    };
}

portable!(READ, read_portable, Read);
portable!(WRITE, write_portable, Write);
portable!(COPY, copy_portable, Copy);
portable!(SCALE, scale_portable, Scale);
portable!(ADD, add_portable, Add);
portable!(TRIAD, triad_portable, Triad);
portable!(UPDATE, update_portable, Update);

pub(crate) static KERNELS: [&StreamKernel; 7] = [&READ, &WRITE, &COPY, &SCALE, &ADD, &TRIAD, &UPDATE];
