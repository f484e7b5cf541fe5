//! The operands of a kernel: rows of one vector each, in memory aligned for any vector width.
//!
//! Row 0 and row 1 are the two constant operands, the rest are the accumulators.

use super::{Element, Kernel, Recurrence};

/// Rows before the accumulators.
const OPERANDS: usize = 2;

/// One cache line, for its alignment.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
struct Line([u8; 64]);

#[derive(Debug, PartialEq)]
pub(crate) struct Vectors {
    lines: Vec<Line>,
    element: Element,
    lanes: usize,
    accumulators: usize,
}

/// Where two sets of accumulators differ.
pub(super) struct Difference {
    pub(super) accumulator: usize,
    pub(super) lane: usize,
    pub(super) left: f64,
    pub(super) right: f64,
}

impl Clone for Vectors {
    fn clone(&self) -> Self {
        Self { lines: self.lines.clone(), ..*self }
    }

    /// Without a new allocation, as it stands between two timed slices.
    fn clone_from(&mut self, source: &Self) {
        self.lines.clone_from(&source.lines);
        (self.element, self.lanes, self.accumulators) = (source.element, source.lanes, source.accumulators);
    }
}

impl Vectors {
    /// Operands at the beginning of a kernel's recurrence, distinct in each accumulator and lane.
    ///
    /// A scale converges to a point between 3 and 4 from one between 1 and 2, with a rate of 2⁻¹⁷ a step: half way
    /// after 90 000 steps, so that in binary32 too every step of a slice still changes the number. A sum grows by
    /// some 2⁻¹⁸ a step: by 1 in 260 000.
    pub(super) fn seeded(kernel: &Kernel) -> Self {
        let (lanes, accumulators) = (kernel.lanes as usize, kernel.accumulators as usize);
        let bytes = (OPERANDS + accumulators) * lanes * kernel.element.bytes();
        let lines = vec![Line([0; 64]); bytes.div_ceil(64)];
        let mut vectors = Self { lines, element: kernel.element, lanes, accumulators };
        for lane in 0..lanes {
            let part = lane as f64 / lanes as f64;
            let (first, second) = match kernel.recurrence {
                Recurrence::FusedScale | Recurrence::RoundedScale => {
                    let rate = (-17.0_f64).exp2() * (1.0 + part / 2.0);
                    (1.0 - rate, (3.1 + part * 0.8) * rate)
                }
                Recurrence::FusedSum => {
                    let root = (-9.0_f64).exp2();
                    (root * (1.0 + part / 3.0), root * (0.7 + part / 5.0))
                }
            };
            vectors.set(0, lane, first);
            vectors.set(1, lane, second);
            for accumulator in 0..accumulators {
                let place = (accumulator * lanes + lane) as f64 / (accumulators * lanes) as f64;
                vectors.set(OPERANDS + accumulator, lane, 1.05 + 0.9 * place);
            }
        }
        vectors
    }

    /// The first row, for a kernel: aligned to 64 bytes, rows without gaps.
    pub(crate) fn rows(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    pub(crate) fn accumulators(&self) -> usize {
        self.accumulators
    }

    /// A constant operand, 0 or 1.
    pub(crate) fn operand(&self, which: usize, lane: usize) -> f64 {
        self.get(which, lane)
    }

    pub(crate) fn accumulator(&self, which: usize, lane: usize) -> f64 {
        self.get(OPERANDS + which, lane)
    }

    pub(crate) fn set_accumulator(&mut self, which: usize, lane: usize, value: f64) {
        self.set(OPERANDS + which, lane, value);
    }

    /// Compares all rows bit by bit; a difference in an operand is reported as its lane of accumulator 0.
    pub(super) fn first_difference(&self, other: &Self) -> Option<Difference> {
        let rows = OPERANDS + self.accumulators;
        let places = (0..rows).flat_map(|row| (0..self.lanes).map(move |lane| (row, lane)));
        places.map(|(row, lane)| (row, lane, self.get(row, lane), other.get(row, lane))).find_map(
            |(row, lane, left, right)| {
                let accumulator = row.saturating_sub(OPERANDS);
                (left.to_bits() != right.to_bits()).then_some(Difference { accumulator, lane, left, right })
            },
        )
    }

    /// The number at a place; binary32 widens exactly. Rows and lanes come from loops over this object's own sizes.
    fn get(&self, row: usize, lane: usize) -> f64 {
        let (line, start) = self.place(row, lane);
        let Some(bytes) = self.lines.get(line).and_then(|line| line.0.get(start..)) else { return f64::NAN };
        match self.element {
            Element::F64 => bytes.first_chunk().map_or(f64::NAN, |bytes| f64::from_ne_bytes(*bytes)),
            Element::F32 => {
                bytes.first_chunk().map_or(f64::NAN, |bytes| f64::from(f32::from_ne_bytes(*bytes)))
            }
        }
    }

    fn set(&mut self, row: usize, lane: usize, value: f64) {
        let (line, start) = self.place(row, lane);
        let Some(bytes) = self.lines.get_mut(line).and_then(|line| line.0.get_mut(start..)) else { return };
        match self.element {
            Element::F64 => bytes.iter_mut().zip(value.to_ne_bytes()).for_each(|(to, from)| *to = from),
            Element::F32 => {
                bytes.iter_mut().zip((value as f32).to_ne_bytes()).for_each(|(to, from)| *to = from)
            }
        }
    }

    fn place(&self, row: usize, lane: usize) -> (usize, usize) {
        let byte = (row * self.lanes + lane) * self.element.bytes();
        (byte / 64, byte % 64)
    }
}
