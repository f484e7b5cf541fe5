//! Operands of a kernel: aligned rows of two constants, then one row per accumulator.

use crate::kernel::random::{STEP, mixed};

use super::{ComputeKernel, Element, Number, Recurrence, TileSize};

const OPERANDS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
struct AlignedLine([u8; 64]);

#[derive(Debug, PartialEq)]
pub(crate) struct Vectors {
    lines: Vec<AlignedLine>,
    element: Element,
    pub(crate) lanes: usize,
    pub(crate) accumulators: usize,
}

impl Clone for Vectors {
    fn clone(&self) -> Self {
        Self { lines: self.lines.clone(), ..*self }
    }

    /// Copies `source` without an allocation, because it happens between two timed slices.
    fn clone_from(&mut self, source: &Self) {
        self.lines.clone_from(&source.lines);
        (self.element, self.lanes, self.accumulators) = (source.element, source.lanes, source.accumulators);
    }
}

impl Vectors {
    /// Returns the kernel's initial operands, different in each accumulator and lane: floats from 1
    /// to 2, which stay below 4 in a slice and change in every step, or random integers.
    pub(crate) fn seeded(kernel: &ComputeKernel) -> Self {
        let (lanes, accumulators) = (kernel.lanes as usize, kernel.accumulators as usize);
        let bytes = (OPERANDS + accumulators) * lanes * kernel.result().bytes();
        let lines = vec![AlignedLine([0; 64]); bytes.div_ceil(64)];
        let mut vectors = Self { lines, element: kernel.result(), lanes, accumulators };
        for lane in 0..lanes {
            let [a, b] = constants(kernel, lane);
            vectors.set(0, lane, a);
            vectors.set(1, lane, b);
            for accumulator in 0..accumulators {
                let place = accumulator * lanes + lane;
                let start = initial_bits(kernel, place, accumulators * lanes);
                vectors.set(OPERANDS + accumulator, lane, start);
            }
        }
        vectors
    }

    /// Returns the address of the operands: rows of `lanes` numbers without gaps, 64-byte aligned.
    pub(crate) fn rows(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    pub(crate) fn first_row(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    pub(crate) fn accumulator(&self, which: usize, lane: usize) -> u64 {
        self.get(OPERANDS + which, lane)
    }

    pub(crate) fn set_accumulator(&mut self, which: usize, lane: usize, bits: u64) {
        self.set(OPERANDS + which, lane, bits);
    }

    /// Inverts one bit of one accumulator, both chosen by the number `random`.
    pub(super) fn invert_bit(&mut self, random: u64) {
        let which = random as usize % self.accumulators;
        let lane = (random >> 16) as usize % self.lanes;
        let bit = (random >> 32) % (8 * self.element.bytes() as u64);
        self.set_accumulator(which, lane, self.accumulator(which, lane) ^ 1 << bit);
    }

    /// Returns the first number that differs: index of the accumulator from 0 (also 0 for the two
    /// constants), lane, and values in `self` and `other`, in this order. `None` if all are equal.
    pub(super) fn first_difference(&self, other: &Self) -> Option<(usize, usize, [Number; 2])> {
        let rows = OPERANDS + self.accumulators;
        let mut places = (0..rows).flat_map(|row| (0..self.lanes).map(move |lane| (row, lane)));
        let (row, lane) = places.find(|(row, lane)| self.get(*row, *lane) != other.get(*row, *lane))?;
        let both = [self, other].map(|vectors| Number::from_bits(self.element, vectors.get(row, lane)));
        Some((row.saturating_sub(OPERANDS), lane, both))
    }

    pub(crate) fn get(&self, row: usize, lane: usize) -> u64 {
        let (line, start) = self.place(row, lane);
        let bytes = self.lines.get(line).and_then(|line| line.0.get(start..start + self.element.bytes()));
        bytes.unwrap_or_default().iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
    }

    fn set(&mut self, row: usize, lane: usize, bits: u64) {
        let (line, start) = self.place(row, lane);
        let size = self.element.bytes();
        let bytes = self.lines.get_mut(line).and_then(|line| line.0.get_mut(start..start + size));
        bytes.into_iter().flatten().zip(bits.to_le_bytes()).for_each(|(to, from)| *to = from);
    }

    fn place(&self, row: usize, lane: usize) -> (usize, usize) {
        let byte = (row * self.lanes + lane) * self.element.bytes();
        (byte / 64, byte % 64)
    }
}

/// Returns the bits of constants a and b for `lane` that keep the recurrence changing: `FusedScale`
/// is half way to its limit, between 3 and 4, after 90 000 steps. A sum grows by 1 in 260 000
/// steps, a product by a factor of e in 400 000, a root's square by 1 in 30 000.
fn constants(kernel: &ComputeKernel, lane: usize) -> [u64; 2] {
    let part = lane as f64 / f64::from(kernel.lanes);
    let nearest = |a: f64, b: f64| [a, b].map(|value| Number::nearest(kernel.result(), value).bits());
    let [first, second] = [0, 1].map(|which| random(2 * lane as u64 + which));
    let rate = (-19.0_f64).exp2() * (1.0 + part / 3.0);
    let addend = (-18.0_f64).exp2() * (0.7 + part / 3.0);
    match kernel.recurrence {
        // Exact period: numbers from 1 to 2 stay there, or change their sign.
        Recurrence::From | Recurrence::FromOrProduct => nearest(3.0, -1.0),
        Recurrence::Product if kernel.result() == Element::F16 => nearest(3.0, -1.0),
        // An odd summand reaches every number, a factor of 5 modulo 8 every odd one of its kind.
        Recurrence::Sum | Recurrence::Product if !kernel.result().is_float() => [first | 1, second & !7 | 5],
        Recurrence::FusedScale | Recurrence::RoundedScale => {
            let rate = (-17.0_f64).exp2() * (1.0 + part / 2.0);
            nearest(1.0 - rate, (3.1 + part * 0.8) * rate)
        }
        Recurrence::FusedSum => {
            let root = (-9.0_f64).exp2();
            nearest(root * (1.0 + part / 3.0), root * (0.7 + part / 5.0))
        }
        Recurrence::Sum | Recurrence::Product | Recurrence::SumOrProduct => nearest(addend, 1.0 + rate),
        Recurrence::Quotient => nearest(addend, 1.0 - rate),
        Recurrence::FusedRoot | Recurrence::RoundedRoot => {
            nearest(addend, (-15.0_f64).exp2() * (0.6 + part / 2.0))
        }
        Recurrence::ExactDot => cancelling_pairs([lane % CANCELLING_PAIRS; 2]),
        Recurrence::Tile if kernel.result().is_float() => {
            cancelling_pairs(TileSize::of(kernel.isa).map_or([lane, lane], |tile| tile.depth_of(lane)))
        }
        // Odd, so that a sum takes every value before it repeats.
        Recurrence::RingOrSum => [first | 1, second],
        Recurrence::NextSum
        | Recurrence::NextProduct
        | Recurrence::NextDot
        | Recurrence::NextSignedDot
        | Recurrence::Dot
        | Recurrence::SignedDot
        | Recurrence::Own
        | Recurrence::Tile => [first, second],
        // x ← b − x² is chaotic near b = 2, and numbers below b stay there.
        Recurrence::SquareFrom | Recurrence::NextFromOrSquare => nearest(addend, 1.8 + 0.15 * part),
        Recurrence::Flip => nearest(addend, 2.0),
        Recurrence::NextFrom | Recurrence::QuotientFrom => nearest(addend, 3.0 + 0.04 * part),
        // Their product is −1 to within half a step of the largest number, so the sequence repeats.
        Recurrence::NextScale => nearest(1.5, -1.0 / 1.5),
        Recurrence::FusedCircle | Recurrence::RoundedCircle => nearest(addend, 4.5 + 0.1 * part),
    }
}

/// More would have mantissas of more than 8 bits.
const CANCELLING_PAIRS: usize = 16;

/// Returns two bfloat16 pairs, m for each by its index in `which`, with 8-bit mantissas. If the
/// indices are equal, the products add up to (m² − (m² − 16))·2⁻²² = 2⁻¹⁸.
fn cancelling_pairs(which: [usize; 2]) -> [u64; 2] {
    let unit = (-11.0_f64).exp2();
    let pair = |low: f64, high: f64| {
        let [low, high] = [low, high].map(|value| Number::nearest(Element::Bf16, value * unit).bits());
        high << 16 | low
    };
    let [first, second] = which.map(|which| 133.0 + 7.0 * which as f64);
    [pair(first, 4.0 - first), pair(second, second + 4.0)]
}

/// Returns the initial bits of number `place` of all `places` in accumulators and lanes.
fn initial_bits(kernel: &ComputeKernel, place: usize, places: usize) -> u64 {
    let widest = match kernel.recurrence {
        Recurrence::SquareFrom | Recurrence::NextFromOrSquare => 0.6,
        _ => 0.9,
    };
    let value = 1.05 + widest * place as f64 / places as f64;
    match kernel.recurrence {
        Recurrence::NextProduct => random(place as u64) | 1,
        _ if !kernel.result().is_float() => random(place as u64),
        // On the grid of the products, so that their sums are exact.
        Recurrence::ExactDot | Recurrence::Tile => {
            let grid = 22.0_f64.exp2();
            Number::nearest(kernel.result(), (value * grid).round() / grid).bits()
        }
        _ => Number::nearest(kernel.result(), value).bits(),
    }
}

/// Returns number `index` (from 0) of the SplitMix64 sequence with seed 0.
fn random(index: u64) -> u64 {
    mixed((index + 1).wrapping_mul(STEP))
}
