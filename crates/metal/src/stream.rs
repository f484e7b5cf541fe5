//! Bandwidth kernels: passes over whole arrays of f64, filled with numbers on which every operation
//! is exact, so that each element is compared.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::arch::{native, reference_stream};
use crate::clock::ProbeWork;
use crate::isa::{Absence, Isa};
use crate::kernel::random::{STEP, mixed};

/// Size of an element in bytes.
pub const ELEMENT: usize = size_of::<f64>();
/// Gap between two arrays in bytes, not a multiple of 4 KiB: else a load waits for the store before
/// it (4 KiB aliasing), and equal elements share a cache set.
const ARRAY_GAP_BYTES: usize = 4096 + 256;
const SMALL_GAP: usize = 256;
const SMALL_BUFFER_BYTES: usize = 256 << 10;
const ARRAY_BLOCK: usize = 64;
const LINE_BYTES: usize = 64;

/// Operation of a pass on the arrays a (destination), b and c, with the scalar s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StreamOp {
    /// Reads b and sums its bit patterns as integers.
    Read,
    /// a = s
    Write,
    /// a = b
    Copy,
    /// a = s·b
    Scale,
    /// a = b + c
    Add,
    /// a = b + s·c
    Triad,
    /// a = s·a
    Update,
}

/// Store instructions of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreKind {
    /// Through the caches; a line not cached is read first (write-allocate).
    Ordinary,
    /// Bypassing the caches, in whole lines.
    NonTemporal,
    /// String instruction (`rep movsb`, `rep stosb`): the processor decides by the length.
    String,
}

/// Description of a kernel.
#[derive(Debug)]
pub struct StreamKernel {
    /// Unique name, also of the function's symbol.
    pub name: &'static str,
    /// Operation.
    pub op: StreamOp,
    /// Instruction set.
    pub isa: Isa,
    /// Store instructions; ordinary if the kernel does not write.
    pub store: StoreKind,
    /// Number of source arrays it prefetches; 0 = hardware prefetching only.
    pub prefetched: u32,
    /// Prefetch distances in bytes; only 0 without prefetching.
    pub distances: &'static [u32],
    /// Bytes of each array per loop iteration.
    pub turn: u32,
    /// Runs passes over the arrays and returns the sum of the elements read. Requires `isa`, valid
    /// [`Terms`], and arrays of `bytes` bytes for those that `op` uses; unused ones may be empty
    /// slices. The destination starts on a cache line and overlaps no other array.
    pub(crate) function: StreamFunction,
}

pub(crate) type StreamFunction = unsafe fn(*mut f64, *const f64, *const f64, Terms) -> u64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Bytes per array: a multiple of the kernel's `turn`, not 0.
    pub(crate) bytes: usize,
    pub(crate) passes: u64,
    /// Prefetch distance in bytes, if it prefetches.
    pub(crate) ahead: usize,
    pub(crate) scalar: f64,
}

impl StreamOp {
    /// All operations.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Copy, Self::Scale, Self::Add, Self::Triad, Self::Update];

    /// Returns the operation's name in options and results, such as `triad`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
            Self::Update => "update",
        }
    }

    /// Returns the number of arrays that a pass reads, 0 to 2.
    pub fn loads(self) -> u64 {
        match self {
            Self::Write => 0,
            Self::Read | Self::Copy | Self::Scale | Self::Update => 1,
            Self::Add | Self::Triad => 2,
        }
    }

    /// Returns the number of arrays that a pass writes: 0 for `Read`, otherwise 1.
    pub fn stores(self) -> u64 {
        u64::from(self != Self::Read)
    }

    /// Returns the number of different arrays; [`Update`](Self::Update) writes the array it reads.
    pub fn arrays(self) -> u64 {
        self.loads() + self.stores() - u64::from(self == Self::Update)
    }

    /// Returns whether a pass uses the arrays a, b and c.
    pub(crate) fn uses(self) -> [bool; 3] {
        [self.stores() > 0, self.loads() > 0 && self != Self::Update, self.loads() > 1]
    }

    /// Returns the floating-point operations per element, 0 to 2.
    pub fn flops(self) -> u64 {
        match self {
            Self::Read | Self::Write | Self::Copy => 0,
            Self::Scale | Self::Add | Self::Update => 1,
            Self::Triad => 2,
        }
    }

    /// Returns the operation's scalar, chosen so that results are exact: 3, −1 for
    /// [`Update`](Self::Update), eight equal bytes for [`Write`](Self::Write) (`rep stosb`).
    pub fn scalar(self) -> f64 {
        match self {
            Self::Update => -1.0,
            Self::Write => f64::from_bits(0x4040_4040_4040_4040),
            _ => 3.0,
        }
    }
}

impl fmt::Display for StreamOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl StreamKernel {
    /// Returns the kernel's name without the operation, such as `nt_avx2`.
    pub fn variant(&self) -> &'static str {
        let rest = self.name.strip_prefix(self.op.name()).and_then(|rest| rest.strip_prefix('_'));
        rest.unwrap_or(self.name)
    }

    /// Returns the bytes loaded and stored by a pass over arrays of `elements` elements each.
    pub fn program_bytes(&self, elements: u64) -> u64 {
        elements * ELEMENT as u64 * (self.op.loads() + self.op.stores())
    }

    /// Returns the bytes on the memory bus in a pass over uncached arrays of `elements` elements:
    /// ordinary stores first read the line, except on Arm (Neoverse N1 Technical Reference Manual,
    /// write streaming mode). Too high on Intel since Ice Lake, which skips some reads (SpecI2M).
    pub fn bus_bytes(&self, elements: u64) -> u64 {
        let allocated = match self.store {
            StoreKind::Ordinary if native::READS_BEFORE_OVERWRITING => self.op.arrays() - self.op.loads(),
            StoreKind::Ordinary | StoreKind::NonTemporal | StoreKind::String => 0,
        };
        self.program_bytes(elements) + elements * ELEMENT as u64 * allocated
    }

    /// Returns the kernel with its first prefetch distance; fails without its instruction set.
    pub fn load(&'static self) -> Result<LoadedStream, Absence> {
        self.isa.available()?;
        Ok(LoadedStream { kernel: self, ahead: self.distances.first().copied().unwrap_or(0) })
    }

    /// Returns the variant's name for each prefetch distance, such as `nt_ahead1536_avx2`.
    pub fn variants(&'static self) -> impl Iterator<Item = String> {
        self.distances.iter().map(|ahead| variant(self, *ahead))
    }
}

fn variant(kernel: &StreamKernel, ahead: u32) -> String {
    match kernel.prefetched {
        0 => kernel.variant().to_owned(),
        _ => kernel.variant().replace("ahead", &format!("ahead{ahead}")),
    }
}

/// Returns all bandwidth kernels for this architecture, also those that this CPU cannot run.
pub fn kernels() -> impl Iterator<Item = &'static StreamKernel> {
    reference_stream::KERNELS.into_iter().chain(native::STREAM_KERNELS.into_iter().flatten())
}

/// Returns the kernels for `op` that this CPU can run, per prefetch distance, portable ones first.
pub fn available(op: StreamOp) -> impl Iterator<Item = LoadedStream> {
    let loaded = kernels().filter(move |kernel| kernel.op == op).filter_map(|kernel| kernel.load().ok());
    loaded.flat_map(|kernel| {
        kernel.kernel.distances.iter().map(move |ahead| LoadedStream { ahead: *ahead, ..kernel })
    })
}

/// A kernel that this processor can run, with its prefetch distance.
#[derive(Debug, Clone, Copy)]
pub struct LoadedStream {
    kernel: &'static StreamKernel,
    ahead: u32,
}

/// Arrays of one operation in one buffer; unused arrays are empty.
#[derive(Debug)]
pub struct Arrays<'memory> {
    op: StreamOp,
    a: &'memory mut [f64],
    b: &'memory mut [f64],
    c: &'memory mut [f64],
}

/// An element with a wrong value after the passes.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "{op} left {got:e} in element {element} of array {array}, where {wanted:e} belongs: this CPU or its memory is \
     faulty, or the kernel is broken"
)]
pub struct WrongElement {
    /// Operation of the kernel.
    pub op: StreamOp,
    /// Array: a (the destination), b or c.
    pub array: char,
    /// Index of the element, from 0.
    pub element: usize,
    /// Value found.
    pub got: f64,
    /// Expected value.
    pub wanted: f64,
}

impl<'memory> Arrays<'memory> {
    /// Divides `memory` into the arrays that `op` needs: equally long multiples of 64 elements,
    /// with gaps between them that avoid cache conflicts.
    #[must_use]
    pub fn divide(op: StreamOp, memory: &'memory mut [f64]) -> Self {
        let arrays = op.arrays() as usize;
        let gap = gap(memory.len() * ELEMENT) / ELEMENT;
        let length = memory.len().saturating_sub((arrays - 1) * gap) / arrays / ARRAY_BLOCK * ARRAY_BLOCK;
        let mut rest = memory;
        let [a, b, c] = op.uses().map(|used| {
            let array = front(&mut rest, if used { length } else { 0 });
            front(&mut rest, if used { gap } else { 0 });
            array
        });
        Self { op, a, b, c }
    }

    /// Returns the number of elements per array.
    pub fn elements(&self) -> usize {
        if self.op.stores() > 0 { self.a.len() } else { self.b.len() }
    }

    /// Fills each array that the operation reads with integers below 2^40, which depend on seed,
    /// array and index; fills a destination that it only writes with NaN.
    pub fn fill(&mut self, seed: u64) {
        let Self { op, a, b, c } = self;
        for (element, a) in a.iter_mut().enumerate() {
            *a = if *op == StreamOp::Update { number(seed, 0, element) } else { f64::NAN };
        }
        for (array, source) in [(1, b), (2, c)] {
            for (element, source) in source.iter_mut().enumerate() {
                *source = number(seed, array, element);
            }
        }
    }

    /// Checks every element, after [`fill`](Self::fill) with `seed` and then `passes` passes of the
    /// operation; fails with the first wrong element.
    pub fn verify(&self, seed: u64, passes: u64) -> Result<(), WrongElement> {
        let op = self.op;
        let check = |array, element, got: f64, wanted: f64| {
            if got == wanted { Ok(()) } else { Err(WrongElement { op, array, element, got, wanted }) }
        };
        for (element, got) in self.b.iter().enumerate() {
            check('b', element, *got, number(seed, 1, element))?;
        }
        for (element, got) in self.c.iter().enumerate() {
            check('c', element, *got, number(seed, 2, element))?;
        }
        if passes == 0 && op != StreamOp::Update {
            return Ok(());
        }
        self.verify_written(0..self.a.len(), seed, passes)
    }

    /// Checks like [`verify`](Self::verify) the destination's last 64 elements before `to` (in
    /// units of 1/[`PASS`](Self::PASS) of its length), before the next pass overwrites them.
    pub fn verify_last_block(&self, to: u64, seed: u64, passes: u64) -> Result<(), WrongElement> {
        let end = self.element_at(to);
        self.verify_written(end.saturating_sub(ARRAY_BLOCK)..end, seed, passes)
    }

    fn verify_written(&self, elements: Range<usize>, seed: u64, passes: u64) -> Result<(), WrongElement> {
        let (op, s) = (self.op, self.op.scalar());
        let written = self.a.get(elements.clone()).unwrap_or_default();
        for (element, got) in elements.zip(written) {
            let source = |array| number(seed, array, element);
            let wanted = match op {
                StreamOp::Read => break,
                StreamOp::Write => s,
                StreamOp::Copy => source(1),
                StreamOp::Scale => s * source(1),
                StreamOp::Add => source(1) + source(2),
                StreamOp::Triad => source(1) + s * source(2),
                StreamOp::Update => source(0) * if passes.is_multiple_of(2) { 1.0 } else { s },
            };
            if *got != wanted {
                return Err(WrongElement { op, array: 'a', element, got: *got, wanted });
            }
        }
        Ok(())
    }

    /// Splits the arrays into `parts` consecutive sets of 64-element blocks, as equal as possible.
    pub fn split(self, parts: usize) -> Vec<Self> {
        let blocks = self.elements() / ARRAY_BLOCK;
        let Self { op, mut a, mut b, mut c } = self;
        let parts = parts.max(1);
        (0..parts)
            .map(|part| {
                let length = (blocks / parts + usize::from(part < blocks % parts)) * ARRAY_BLOCK;
                Self { op, a: front(&mut a, length), b: front(&mut b, length), c: front(&mut c, length) }
            })
            .collect()
    }

    /// Returns the part of each array from `from` to `to`, in units of 1/[`PASS`](Self::PASS) of
    /// its length, rounded down to blocks of 64 elements: ranges that meet leave no gap.
    pub fn part(&mut self, from: u64, to: u64) -> Arrays<'_> {
        let start = self.element_at(from);
        let end = self.element_at(to).max(start);
        let Self { op, a, b, c } = self;
        Arrays {
            op: *op,
            a: a.get_mut(start..end).unwrap_or_default(),
            b: b.get_mut(start..end).unwrap_or_default(),
            c: c.get_mut(start..end).unwrap_or_default(),
        }
    }

    /// Returns the first index of the block of 64 at `part`/[`PASS`](Self::PASS), or the length.
    fn element_at(&self, part: u64) -> usize {
        let elements = self.elements();
        match part {
            whole if whole >= Self::PASS => elements,
            part => {
                let exact = elements as u128 * u128::from(part) / u128::from(Self::PASS);
                exact as usize / ARRAY_BLOCK * ARRAY_BLOCK
            }
        }
    }

    /// Units into which [`part`](Self::part) divides an array.
    pub const PASS: u64 = 1 << 20;

    /// Returns the sum that a `Read` pass returns after [`fill`](Self::fill) with `seed`, else 0.
    pub fn checksum(&self, seed: u64) -> u64 {
        if self.op != StreamOp::Read {
            return 0;
        }
        (0..self.b.len()).fold(0, |sum, element| sum.wrapping_add(number(seed, 1, element).to_bits()))
    }
}

fn gap(bytes: usize) -> usize {
    if bytes <= SMALL_BUFFER_BYTES { SMALL_GAP } else { ARRAY_GAP_BYTES }
}

/// Returns an element's initial value: a random integer below 2^40, so that all results are exact.
fn number(seed: u64, array: u64, element: usize) -> f64 {
    let place = (element as u64).wrapping_mul(STEP);
    let state = seed.wrapping_add(array.wrapping_mul(0xd1b5_4a32_d192_ed03)).wrapping_add(place);
    (mixed(state) >> 24) as f64
}

impl LoadedStream {
    /// Returns the description of the kernel.
    pub fn kernel(&self) -> &'static StreamKernel {
        self.kernel
    }

    /// Returns the kernel's kind of instructions, which a probe of the core clock imitates.
    pub fn work(&self) -> ProbeWork {
        match (self.kernel.store, self.kernel.op) {
            (StoreKind::String, _) => ProbeWork::SCALAR,
            (_, StreamOp::Read | StreamOp::Write | StreamOp::Copy) => ProbeWork::integers(self.kernel.isa),
            (_, StreamOp::Scale | StreamOp::Add | StreamOp::Triad | StreamOp::Update) => {
                ProbeWork::floating_point(self.kernel.isa)
            }
        }
    }

    /// Returns the name of the variant, such as `nt_avx2` or `nt_ahead1536_avx2`.
    pub fn variant(&self) -> String {
        variant(self.kernel, self.ahead)
    }

    /// Runs `passes` passes; for [`StreamOp::Read`] returns the wrapping sum of the bits of all
    /// elements read, else 0. Does nothing with arrays of another operation.
    pub fn run(&self, arrays: &mut Arrays<'_>, passes: u64) -> u64 {
        if arrays.op != self.kernel.op || passes == 0 {
            return 0;
        }
        let Arrays { op, a, b, c } = arrays;
        self.pass(a, b, c, op.scalar(), passes)
    }

    /// Runs `passes` > 0 passes; returns the sum of the bits read, 0 unless `Read`. Safety: used
    /// arrays have `bytes` > 0, a multiple of `turn`; `a` is line-aligned and overlaps no other.
    pub(crate) unsafe fn raw(
        &self,
        a: *mut f64,
        b: *const f64,
        c: *const f64,
        passes: u64,
        bytes: usize,
        scalar: f64,
    ) -> u64 {
        let terms = Terms { bytes, passes, ahead: self.ahead as usize, scalar };
        // SAFETY: granted by the caller; `load`, the only constructor, proved the instruction set.
        unsafe { (self.kernel.function)(a, b, c, terms) }
    }

    /// Runs `passes` passes with scalar `s`; returns the sum of the bits read, else 0. The kernel
    /// does whole iterations from the first cache line of `a` (or `b`), plain Rust the rest.
    fn pass(&self, a: &mut [f64], b: &[f64], c: &[f64], s: f64, passes: u64) -> u64 {
        let op = self.kernel.op;
        let lengths = op.uses().into_iter().zip([a.len(), b.len(), c.len()]);
        let elements = lengths.filter_map(|(used, length)| used.then_some(length)).min().unwrap_or(0);
        let start = if op.stores() > 0 { a.as_ptr() } else { b.as_ptr() };
        let head = start.align_offset(LINE_BYTES).min(elements);
        let turn = self.kernel.turn as usize / ELEMENT;
        let body = (elements - head) / turn * turn;
        let (a_head, a) = a.split_at_mut(head.min(a.len()));
        let (b_head, b) = b.split_at(head.min(b.len()));
        let (c_head, c) = c.split_at(head.min(c.len()));
        let mut sum = 0_u64;
        // A call for no elements takes 24 cycles per pass, a tenth of a pass over 16 KiB.
        let passes_over = |elements: usize| if elements > 0 { passes } else { 0 };
        for _ in 0..passes_over(head) {
            sum = sum.wrapping_add(reference_stream::apply(op, head, a_head, b_head, c_head, s));
        }
        if body > 0 {
            // SAFETY: `body` is a number of whole iterations within all used slices; `a` starts on
            // a line and, as a &mut slice, overlaps no other; `passes` is not 0.
            let of_body =
                unsafe { self.raw(a.as_mut_ptr(), b.as_ptr(), c.as_ptr(), passes, body * ELEMENT, s) };
            sum = sum.wrapping_add(of_body);
        }
        let tail = elements - head - body;
        let (_, a) = a.split_at_mut(body.min(a.len()));
        let (_, b) = b.split_at(body.min(b.len()));
        let (_, c) = c.split_at(body.min(c.len()));
        for _ in 0..passes_over(tail) {
            sum = sum.wrapping_add(reference_stream::apply(op, tail, a, b, c, s));
        }
        sum
    }
}

fn front<'memory>(array: &mut &'memory mut [f64], length: usize) -> &'memory mut [f64] {
    let length = length.min(array.len());
    array.split_off_mut(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests;
