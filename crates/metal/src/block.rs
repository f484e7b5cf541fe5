//! Reads, writes or copies memory block by block, in order or at random. Blocks of 1, 2, 4 and 8
//! bytes are one access; larger ones are whole lines for the kernels of [`crate::stream`].

mod check;
mod permutation;
mod units;

use serde::{Deserialize, Serialize};

use crate::arch::reference_stream;
use crate::buffer::{Buffer, BufferError, Pages, Resident};
use crate::clock::ProbeWork;
use crate::isa::Isa;
use crate::kernel::random;
use crate::stream::{self, ELEMENT, LoadedStream, StreamKernel, StreamOp};

pub use permutation::BlockPermutation;
use units::{BlockUnit, units_of, units_of_mut};

/// Unit of blocks above 8 bytes, in bytes.
pub const LINE_BYTES: usize = 64;
/// Maximum number of blocks drawn at once: 64 KiB of indices, which stay in a level-2 cache.
pub const MOST_DRAWN: u64 = 8192;
/// Bytes between the two regions of a copy, so that a block and its copy differ in page offset.
const COPY_GAP_BYTES: usize = 4096 + 256;

/// Operation on each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockOp {
    /// Loads the whole block and adds it to a sum.
    Read,
    /// Stores to the whole block.
    Write,
    /// Copies the block to the same offset of a second region.
    ReadWrite,
}

/// Order of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockTraversal {
    /// By ascending address.
    Sequential,
    /// Random: each pass visits every block once, in another order.
    Random,
}

/// Parameters of a [`Region`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    /// Operation.
    pub op: BlockOp,
    /// Order of the blocks.
    pub order: BlockTraversal,
    /// Block size in bytes: 1, 2, 4, 8 or a multiple of [`LINE_BYTES`].
    pub block: usize,
    /// Size in bytes, rounded down to blocks; both regions together for [`BlockOp::ReadWrite`].
    pub bytes: usize,
    /// Requested page size.
    pub pages: Pages,
    /// Seed of content and order.
    pub seed: u64,
}

/// Reason why a [`Region`] cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// No kernel processes blocks of this size.
    #[error("blocks of {0} bytes: write 1, 2, 4, 8 or a multiple of {LINE_BYTES}")]
    Block(usize),
    /// The region is smaller than one block.
    #[error(
        "a block of {block} bytes does not fit into a region of {region}: choose a smaller block or a larger size"
    )]
    Room {
        /// Block size in bytes.
        block: usize,
        /// Size of one region in bytes.
        region: usize,
    },
    /// The memory could not be allocated.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}

/// The result of the operations is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{what} after {blocks} blocks: this CPU or its memory is faulty, or the kernel is broken")]
pub struct WrongBlocks {
    /// Description of the error.
    pub what: String,
    /// Blocks processed.
    pub blocks: u64,
}

impl BlockOp {
    /// Returns how many memory regions the operation uses: 2 (source, target) for a copy, else 1.
    pub fn regions(self) -> usize {
        1 + usize::from(self == Self::ReadWrite)
    }

    fn stream(self) -> StreamOp {
        match self {
            Self::Read => StreamOp::Read,
            Self::Write => StreamOp::Write,
            Self::ReadWrite => StreamOp::Copy,
        }
    }
}

/// Returns whether `bytes` is a possible block size: 1, 2, 4, 8 or a multiple of [`LINE_BYTES`].
pub fn is_block(bytes: usize) -> bool {
    matches!(bytes, 1 | 2 | 4 | 8) || (bytes > 0 && bytes.is_multiple_of(LINE_BYTES))
}

/// Implementation of an operation on blocks.
#[derive(Debug, Clone, Copy)]
pub struct BlockKernel {
    op: BlockOp,
    method: Method,
}

#[derive(Debug, Clone, Copy)]
enum Method {
    Unit,
    Stream(LoadedStream),
    /// `memcpy` or `memset` of the linked C library.
    Library,
    /// Plain Rust, for blocks that are no multiple of the portable kernel's bytes per iteration.
    Lines,
}

impl BlockKernel {
    /// Returns the name: `scalar`, `memcpy`, `memset`, `portable_lines`, or such as `nt_avx2`.
    pub fn name(&self) -> String {
        match self.method {
            Method::Unit => "scalar".to_owned(),
            Method::Stream(kernel) => kernel.variant(),
            Method::Library if self.op == BlockOp::Write => "memset".to_owned(),
            Method::Library => "memcpy".to_owned(),
            Method::Lines => "portable_lines".to_owned(),
        }
    }

    /// Returns the kernel's kind of instructions, which a probe of the core clock has to imitate.
    pub fn work(&self) -> ProbeWork {
        match self.method {
            Method::Unit | Method::Library => ProbeWork::SCALAR,
            Method::Stream(kernel) => kernel.work(),
            Method::Lines => ProbeWork::integers(Isa::Portable),
        }
    }
}

/// Returns the kernels that this CPU can run for `op` on blocks of `block` bytes; at least one.
pub fn available(op: BlockOp, block: usize) -> Vec<BlockKernel> {
    let kernel = |method| BlockKernel { op, method };
    if block <= ELEMENT {
        return vec![kernel(Method::Unit)];
    }
    let fits = |stream: &LoadedStream| block.is_multiple_of(stream.kernel().turn as usize);
    let mut all: Vec<BlockKernel> =
        stream::available(op.stream()).filter(fits).map(|stream| kernel(Method::Stream(stream))).collect();
    if op != BlockOp::Read {
        all.push(kernel(Method::Library));
    }
    if all.is_empty() { vec![kernel(Method::Lines)] } else { all }
}

/// Returns the [`available`] kernels except portable (plain Rust) ones; all if all are portable.
pub fn candidates(op: BlockOp, block: usize) -> Vec<BlockKernel> {
    let is_portable = |kernel: &BlockKernel| match kernel.method {
        Method::Stream(stream) => stream.kernel().isa == Isa::Portable,
        Method::Unit | Method::Library | Method::Lines => false,
    };
    let (portable, others): (Vec<_>, Vec<_>) = available(op, block).into_iter().partition(is_portable);
    if others.is_empty() { portable } else { others }
}

/// Returns the names of the kernels for `op` on `block` bytes, also of those this CPU cannot run.
pub fn kernel_names(op: BlockOp, block: u64) -> Vec<String> {
    if block <= ELEMENT as u64 {
        return vec![BlockKernel { op, method: Method::Unit }.name()];
    }
    let library = (op != BlockOp::Read).then(|| BlockKernel { op, method: Method::Library }.name());
    let streams = stream::kernels()
        .filter(move |kernel| kernel.op == op.stream() && block.is_multiple_of(u64::from(kernel.turn)));
    streams.flat_map(StreamKernel::variants).chain(library).collect()
}

/// A memory region of blocks, with the progress of the operation on them.
#[derive(Debug)]
pub struct Region {
    buffer: Buffer,
    shape: BlockShape,
    /// Blocks per pass; of a copy, in the source.
    count: u64,
    target: usize,
    /// Indices of the next blocks in the order drawn; empty in sequential order.
    places: Vec<u64>,
    pending: u64,
    done: u64,
    /// Sum of all words read, and the sum of one pass.
    sum: u64,
    pass_sum: u64,
}

#[derive(Clone, Copy)]
struct BlockStretch {
    pass: u64,
    first: u64,
    drawn: usize,
    blocks: u64,
}

impl Region {
    /// Allocates memory of `shape`, resident on the calling thread's NUMA node, with random bytes
    /// to read or copy. Fails for an invalid or too large block size, or without memory.
    pub fn new(shape: BlockShape) -> Result<Self, BlockError> {
        let BlockShape { block, bytes, op, .. } = shape;
        if !is_block(block) {
            return Err(BlockError::Block(block));
        }
        let region = bytes / op.regions();
        let used = region / block * block;
        if used == 0 {
            return Err(BlockError::Room { block, region });
        }
        let target =
            if op == BlockOp::ReadWrite { used.next_multiple_of(LINE_BYTES) + COPY_GAP_BYTES } else { 0 };
        let mut buffer = Buffer::touched(target + used, shape.pages)?;
        if op != BlockOp::Write {
            let mut state = shape.seed;
            buffer.bytes_mut()[..used].chunks_mut(ELEMENT).for_each(|chunk| {
                let word = random::next(&mut state).to_le_bytes();
                chunk.iter_mut().zip(word).for_each(|(byte, of)| *byte = of);
            });
        }
        let count = (used / block) as u64;
        let (places, pass_sum) = (Vec::with_capacity(MOST_DRAWN as usize), 0);
        let mut made = Self { buffer, shape, count, target, places, pending: 0, done: 0, sum: 0, pass_sum };
        if op == BlockOp::Read {
            made.pass_sum = made.sum_of_all();
        }
        Ok(made)
    }

    /// Returns the bytes loaded plus the bytes stored for each block.
    pub fn bytes_per_block(&self) -> u64 {
        (self.shape.block * self.shape.op.regions()) as u64
    }

    /// Returns the size of all blocks in bytes; for a copy, of source and target together.
    pub fn bytes(&self) -> u64 {
        self.count * self.bytes_per_block()
    }

    /// Returns how many bytes of the region are resident, by page size (`/proc/self/smaps`).
    pub fn resident(&self) -> Result<Resident, BufferError> {
        self.buffer.resident()
    }

    /// Returns the whole buffer: for copies the source, a gap and the target.
    pub fn memory(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Selects the next `blocks` blocks (random: at most [`MOST_DRAWN`]) for [`Region::work`].
    pub fn draw(&mut self, blocks: u64) {
        self.places.clear();
        if self.shape.order == BlockTraversal::Sequential {
            self.pending = blocks;
            return;
        }
        self.pending = blocks.min(MOST_DRAWN);
        let mut places = std::mem::take(&mut self.places);
        for BlockStretch { pass, first, blocks, .. } in self.stretches() {
            let order = self.order_of(pass);
            places.extend((first..first + blocks).map(|place| order.at(place)));
        }
        self.places = places;
    }

    /// Reads, writes or copies the blocks that [`Region::draw`] selected, and returns their number.
    /// `kernel` must come from [`available`] for this operation and block size.
    pub fn work(&mut self, kernel: BlockKernel) -> u64 {
        for stretch in self.stretches() {
            match (self.shape.block, kernel.method) {
                (1, _) => self.units::<u8>(stretch),
                (2, _) => self.units::<u16>(stretch),
                (4, _) => self.units::<u32>(stretch),
                (8, _) => self.units::<u64>(stretch),
                (_, method) => self.lines(stretch, method),
            }
        }
        let blocks = std::mem::take(&mut self.pending);
        self.done += blocks;
        blocks
    }

    fn stretches(&self) -> impl Iterator<Item = BlockStretch> + use<> {
        let (count, end) = (self.count, self.done + self.pending);
        let begin = self.done;
        let mut at = begin;
        std::iter::from_fn(move || {
            let (pass, first) = (at / count, at % count);
            let blocks = (count - first).min(end - at);
            let drawn = (at - begin) as usize;
            at += blocks;
            (blocks > 0).then_some(BlockStretch { pass, first, drawn, blocks })
        })
    }

    fn order_of(&self, pass: u64) -> BlockPermutation {
        BlockPermutation::new(self.count, self.shape.seed.wrapping_add(pass))
    }

    fn units<T: BlockUnit>(&mut self, stretch: BlockStretch) {
        let length = self.count as usize;
        let (first, blocks) = (stretch.first as usize, stretch.blocks as usize);
        let random = self.shape.order == BlockTraversal::Random;
        let places = if random { &self.places[stretch.drawn..stretch.drawn + blocks] } else { &[] };
        let (source, target) = self.buffer.bytes_mut().split_at_mut(self.target);
        let (target, _) = units_of_mut::<T>(target, length).split_at_mut(length);
        let value = T::of(unit_value(stretch.pass));
        match (self.shape.op, random) {
            (BlockOp::Read, false) => {
                self.sum = self.sum.wrapping_add(units::block_read(&target[first..first + blocks]));
            }
            (BlockOp::Write, false) => units::block_write(&mut target[first..first + blocks], value),
            (BlockOp::ReadWrite, false) => {
                let source = &units_of::<T>(source, length)[first..first + blocks];
                units::block_copy(source, &mut target[first..first + blocks]);
            }
            (BlockOp::Read, true) => {
                // SAFETY: places come from a permutation of the blocks: one per unit.
                self.sum = self.sum.wrapping_add(unsafe { units::block_read_at(target, places) });
            }
            (BlockOp::Write, true) => {
                // SAFETY: as above.
                unsafe { units::block_write_at(target, places, value) };
            }
            (BlockOp::ReadWrite, true) => {
                let source = units_of::<T>(source, length);
                // SAFETY: as above, and both slices have the same length.
                unsafe { units::block_copy_at(source, target, places) };
            }
        }
    }

    fn lines(&mut self, stretch: BlockStretch, method: Method) {
        let (op, block, s) = (self.shape.op.stream(), self.shape.block, line_value(stretch.pass));
        let elements = block / ELEMENT;
        for index in 0..stretch.blocks {
            let place = match self.places.get(stretch.drawn + index as usize) {
                Some(place) => *place,
                None => stretch.first + index,
            };
            let start = place as usize * elements;
            let (source, target) = self.buffer.elements_mut::<f64>().split_at_mut(self.target / ELEMENT);
            let target = &mut target[start..start + elements];
            let source = if source.is_empty() { &[] } else { &source[start..start + elements] };
            // A read uses its region as the second array, b.
            let (a, b): (&mut [f64], &[f64]) =
                if self.shape.op == BlockOp::Read { (&mut [], target) } else { (target, source) };
            let sum = match method {
                Method::Stream(kernel) => {
                    // SAFETY: `available` returns it for blocks of whole iterations; the arrays
                    // used have `block` bytes; the target is line-aligned and overlaps nothing.
                    unsafe { kernel.raw(a.as_mut_ptr(), b.as_ptr(), b.as_ptr(), 1, block, s) }
                }
                Method::Library if op == StreamOp::Copy => {
                    a.copy_from_slice(b);
                    0
                }
                Method::Library if op == StreamOp::Write => {
                    // SAFETY: every bit pattern is a valid f64.
                    unsafe { a.as_mut_ptr().write_bytes(s.to_le_bytes()[0], elements) };
                    0
                }
                Method::Library | Method::Lines | Method::Unit => {
                    reference_stream::apply(op, elements, a, b, &[], s)
                }
            };
            self.sum = self.sum.wrapping_add(sum);
        }
    }
}

/// Returns the word whose low bytes pass number `pass` (from 0) stores to blocks of 1 to 8 bytes.
fn unit_value(pass: u64) -> u64 {
    pass.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns what pass `pass` (from 0) stores to larger blocks: 8 equal bytes, never 0 or NaN.
fn line_value(pass: u64) -> f64 {
    let byte = 1 + (pass % 0x7f) as u8;
    f64::from_bits(u64::from_ne_bytes([byte; ELEMENT]))
}

#[cfg(test)]
mod tests;
