//! Work on blocks: a region of memory is read, written or copied a block at a time, in order or at random.
//!
//! At random each block comes once, then all of them again in another order. The order is drawn apart from the work, a
//! batch ahead ([`Region::draw`]), so that only the work need be timed. Blocks of 1, 2, 4 and 8 bytes are one access of
//! that width each; larger ones are whole cache lines, worked on by the kernels of [`crate::stream`]. All that
//! was done is checked afterwards: that every block was worked on, and what came of it.

mod check;
mod permutation;
mod units;

use serde::{Deserialize, Serialize};

use crate::arch::reference_stream;
use crate::buffer::{Buffer, BufferError, Pages, Resident};
use crate::clock::ProbeWork;
use crate::isa::Isa;
use crate::stream::{self, ELEMENT, LoadedStream, StreamKernel, StreamOp};

pub use permutation::Permutation;
use permutation::mix;
use units::{BYTES, PAIRS, QUADS, Unit, Units, WORDS, units_of, units_of_mut};

/// Blocks above 8 bytes are whole lines of this many bytes.
pub const LINE_BYTES: usize = 64;
/// The most places that are drawn at once: 64 KiB of them, which stay in a second-level cache.
pub const MOST_DRAWN: u64 = 8192;
/// Bytes between the two regions of a copy, so that a block and its copy differ in page offset (see `stream`).
const COPY_GAP_BYTES: usize = 4096 + 256;

/// What is done to each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockOp {
    /// Loads all of it, and adds it up.
    Read,
    /// Stores to all of it.
    Write,
    /// Copies it to the same place of a second region.
    ReadWrite,
}

/// In which order the blocks come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// By address.
    Sequential,
    /// Each once, then all again in another order.
    Random,
}

/// What to work on, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// What is done.
    pub op: BlockOp,
    /// In which order.
    pub order: Order,
    /// Bytes of a block: 1, 2, 4, 8 or a multiple of [`LINE_BYTES`].
    pub block: usize,
    /// Bytes of the region; of both together for [`BlockOp::ReadWrite`]. What is less than a block is left over.
    pub bytes: usize,
    /// The page size asked for.
    pub pages: Pages,
    /// Seed of content and order.
    pub seed: u64,
}

/// Why there is no such region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// No kernel works on blocks of this size.
    #[error("blocks of {block} bytes: write 1, 2, 4, 8 or a multiple of {LINE_BYTES}")]
    Block {
        /// The size asked for.
        block: usize,
    },
    /// Not one block has room.
    #[error(
        "a block of {block} bytes does not fit into a region of {region}: choose a smaller block or a larger size"
    )]
    Room {
        /// The size of a block.
        block: usize,
        /// The size of one region.
        region: usize,
    },
    /// The memory could not be had.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}

/// What was done is not what should have been.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{what} after {blocks} blocks: this CPU or its memory is faulty, or the kernel is broken")]
pub struct WrongBlocks {
    /// What is wrong.
    pub what: String,
    /// Blocks worked on.
    pub blocks: u64,
}

impl BlockOp {
    /// Regions: one, or source and target.
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

/// Whether there are kernels for blocks of this size.
pub fn is_block(bytes: usize) -> bool {
    matches!(bytes, 1 | 2 | 4 | 8) || (bytes > 0 && bytes.is_multiple_of(LINE_BYTES))
}

/// How blocks are worked on.
#[derive(Debug, Clone, Copy)]
pub struct BlockKernel {
    op: BlockOp,
    method: Method,
}

#[derive(Debug, Clone, Copy)]
enum Method {
    /// One access for each block, of its width.
    Unit,
    Stream(LoadedStream),
    /// `memcpy` or `memset` of the C library that the program is linked with.
    Library,
    /// Plain Rust, for blocks that the portable kernel's long turn does not divide.
    Lines,
}

impl BlockKernel {
    /// A name: of the kernel's variant, or of the access.
    pub fn name(&self) -> String {
        match self.method {
            Method::Unit => "scalar".to_owned(),
            Method::Stream(kernel) => kernel.variant(),
            Method::Library if self.op == BlockOp::Write => "memset".to_owned(),
            Method::Library => "memcpy".to_owned(),
            Method::Lines => "portable_lines".to_owned(),
        }
    }

    /// The kind of work that it does, for a clock that is probed beside it.
    pub fn work(&self) -> ProbeWork {
        match self.method {
            Method::Unit | Method::Library => ProbeWork::SCALAR,
            Method::Stream(kernel) => kernel.work(),
            Method::Lines => ProbeWork::integers(Isa::Portable),
        }
    }
}

/// Every kernel that this processor can run on blocks of `block` bytes; none of it where [`is_block`] is false.
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

/// The kernels that are tried to find the fastest one: [`available`] without the portable ones if there are others.
pub fn candidates(op: BlockOp, block: usize) -> Vec<BlockKernel> {
    let all = available(op, block);
    let is_portable = |kernel: &BlockKernel| match kernel.method {
        Method::Stream(stream) => stream.kernel().isa == Isa::Portable,
        Method::Unit | Method::Library | Method::Lines => false,
    };
    if all.iter().all(is_portable) {
        all
    } else {
        all.into_iter().filter(|kernel| !is_portable(kernel)).collect()
    }
}

/// The names of all kernels for blocks of `block` bytes, those that this processor cannot run included.
pub fn kernel_names(op: BlockOp, block: u64) -> Vec<String> {
    if block <= ELEMENT as u64 {
        return vec![BlockKernel { op, method: Method::Unit }.name()];
    }
    let library = (op != BlockOp::Read).then(|| BlockKernel { op, method: Method::Library }.name());
    let streams = stream::kernels()
        .filter(move |kernel| kernel.op == op.stream() && block.is_multiple_of(u64::from(kernel.turn)));
    streams.flat_map(StreamKernel::variants).chain(library).collect()
}

/// A region with its blocks, and how far the work on them has come.
#[derive(Debug)]
pub struct Region {
    buffer: Buffer,
    shape: Shape,
    /// Blocks in the region.
    count: u64,
    /// Where the copies begin.
    target: usize,
    /// Places of the blocks that come next, in the order drawn; empty when they come by address.
    places: Vec<u64>,
    /// Blocks drawn and not yet worked on.
    pending: u64,
    /// Blocks worked on.
    done: u64,
    /// Sum of all that was read, and what one pass over all blocks adds to it.
    sum: u64,
    pass_sum: u64,
}

/// Blocks of one pass, of those that were drawn.
#[derive(Clone, Copy)]
struct Stretch {
    pass: u64,
    /// Of the first, within the pass.
    first: u64,
    /// Where it stands in what was drawn.
    drawn: usize,
    blocks: u64,
}

impl Region {
    /// Maps the region, makes it resident on the calling thread's memory node, and fills it.
    ///
    /// # Errors
    /// [`BlockError`].
    pub fn new(shape: Shape) -> Result<Self, BlockError> {
        let Shape { block, bytes, op, .. } = shape;
        if !is_block(block) {
            return Err(BlockError::Block { block });
        }
        let region = bytes / op.regions();
        let used = region / block * block;
        if used == 0 {
            return Err(BlockError::Room { block, region });
        }
        let target =
            if op == BlockOp::ReadWrite { used.next_multiple_of(LINE_BYTES) + COPY_GAP_BYTES } else { 0 };
        let mut buffer = Buffer::new(target + used, shape.pages)?;
        buffer.touch()?;
        if op != BlockOp::Write {
            let mut state = shape.seed;
            buffer.bytes_mut()[..used].chunks_mut(ELEMENT).for_each(|chunk| {
                let word = mix(&mut state).to_le_bytes();
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

    /// Regions that are worked on at once: see [`BlockOp::regions`].
    pub fn regions(&self) -> u64 {
        self.shape.op.regions() as u64
    }

    /// Blocks in the region.
    pub fn blocks(&self) -> u64 {
        self.count
    }

    /// Bytes that the program moves for each block: what it loads and what it stores.
    pub fn bytes_per_block(&self) -> u64 {
        (self.shape.block * self.shape.op.regions()) as u64
    }

    /// Bytes of the region in whole blocks; of both for a copy.
    pub fn bytes(&self) -> u64 {
        self.count * self.bytes_per_block()
    }

    /// Blocks worked on so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// What is resident now, and in which pages.
    ///
    /// # Errors
    /// [`BufferError`] where the kernel does not tell.
    pub fn resident(&self) -> Result<Resident, BufferError> {
        self.buffer.resident()
    }

    /// The memory of the region, and of what is copied from it.
    pub fn memory(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Decides which blocks come next, `blocks` of them; at random at most [`MOST_DRAWN`]. Not to be timed.
    pub fn draw(&mut self, blocks: u64) {
        self.places.clear();
        if self.shape.order == Order::Sequential {
            self.pending = blocks;
            return;
        }
        self.pending = blocks.min(MOST_DRAWN);
        let mut places = std::mem::take(&mut self.places);
        for Stretch { pass, first, blocks, .. } in self.stretches() {
            let order = self.order_of(pass);
            places.extend((first..first + blocks).map(|place| order.at(place)));
        }
        self.places = places;
    }

    /// Works on the blocks that were drawn, with one of the kernels [`available`] for them, and says how many they were. This is
    /// what is timed.
    pub fn work(&mut self, kernel: BlockKernel) -> u64 {
        for stretch in self.stretches() {
            match (self.shape.block, kernel.method) {
                (1, _) => self.units(&BYTES, stretch),
                (2, _) => self.units(&PAIRS, stretch),
                (4, _) => self.units(&QUADS, stretch),
                (8, _) => self.units(&WORDS, stretch),
                (_, method) => self.lines(stretch, method),
            }
        }
        let blocks = std::mem::take(&mut self.pending);
        self.done += blocks;
        blocks
    }

    /// The blocks that were drawn, pass by pass.
    fn stretches(&self) -> impl Iterator<Item = Stretch> + use<> {
        let (count, end) = (self.count, self.done + self.pending);
        let begin = self.done;
        let mut at = begin;
        std::iter::from_fn(move || {
            let (pass, first) = (at / count, at % count);
            let blocks = (count - first).min(end - at);
            let drawn = (at - begin) as usize;
            at += blocks;
            (blocks > 0).then_some(Stretch { pass, first, drawn, blocks })
        })
    }

    fn order_of(&self, pass: u64) -> Permutation {
        Permutation::new(self.count, self.shape.seed.wrapping_add(pass))
    }

    /// The blocks of a pass by place: `None` where the places are the order.
    fn place(&self, order: Option<&Permutation>, number: u64) -> u64 {
        order.map_or(number, |order| order.at(number))
    }

    fn units<T: Unit>(&mut self, units: &Units<T>, stretch: Stretch) {
        let length = self.count as usize;
        let (first, blocks) = (stretch.first as usize, stretch.blocks as usize);
        let random = self.shape.order == Order::Random;
        let places = if random { &self.places[stretch.drawn..stretch.drawn + blocks] } else { &[] };
        let (source, target) = self.buffer.bytes_mut().split_at_mut(self.target);
        // With one region it is all behind an empty source.
        let (target, _) = units_of_mut::<T>(target, length).split_at_mut(length);
        let value = T::of(unit_value(stretch.pass));
        match (self.shape.op, random) {
            (BlockOp::Read, false) => {
                self.sum = self.sum.wrapping_add((units.read)(&target[first..first + blocks]));
            }
            (BlockOp::Write, false) => (units.write)(&mut target[first..first + blocks], value),
            (BlockOp::ReadWrite, false) => {
                let source = &units_of::<T>(source, length)[first..first + blocks];
                (units.copy)(source, &mut target[first..first + blocks]);
            }
            (BlockOp::Read, true) => {
                // SAFETY: places come from a permutation of the blocks, and there are as many units.
                let sum = unsafe { (units.read_at)(target, places) };
                self.sum = self.sum.wrapping_add(sum);
            }
            (BlockOp::Write, true) => {
                // SAFETY: as above.
                unsafe { (units.write_at)(target, places, value) };
            }
            (BlockOp::ReadWrite, true) => {
                let source = units_of::<T>(source, length);
                // SAFETY: as above, and both slices are as long.
                unsafe { (units.copy_at)(source, target, places) };
            }
        }
    }

    fn lines(&mut self, stretch: Stretch, method: Method) {
        let (op, block, s) = (self.shape.op.stream(), self.shape.block, line_value(stretch.pass));
        let elements = block / ELEMENT;
        for index in 0..stretch.blocks {
            let place = match self.places.get(stretch.drawn + index as usize) {
                Some(place) => *place,
                None => stretch.first + index,
            };
            let start = place as usize * elements;
            let (source, target) = self.buffer.floats_mut().split_at_mut(self.target / ELEMENT);
            let target = &mut target[start..start + elements];
            let source = if source.is_empty() { &[] } else { &source[start..start + elements] };
            // A read has its one region as the second array, b.
            let (a, b): (&mut [f64], &[f64]) =
                if self.shape.op == BlockOp::Read { (&mut [], target) } else { (target, source) };
            let sum = match method {
                Method::Stream(kernel) => {
                    // SAFETY: `available` gives it for blocks of whole turns; the arrays that the operation uses have
                    // `block` bytes; the target begins on a line, as the buffer and every block do, and overlaps
                    // nothing.
                    unsafe { kernel.raw(a.as_mut_ptr(), b.as_ptr(), b.as_ptr(), 1, block, s) }
                }
                Method::Library if op == StreamOp::Copy => {
                    a.copy_from_slice(b);
                    0
                }
                Method::Library if op == StreamOp::Write => {
                    // SAFETY: every pattern of bits is a number.
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

/// What a pass writes to units: odd multiples, so that their low bytes differ from pass to pass, and from zero at first.
fn unit_value(pass: u64) -> u64 {
    pass.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What a pass writes to lines, in every element: eight equal bytes, as `rep stosb` needs, another from pass to pass,
/// and never zero or a NaN.
fn line_value(pass: u64) -> f64 {
    let byte = 1 + (pass % 0x7f) as u8;
    f64::from_bits(u64::from_ne_bytes([byte; ELEMENT]))
}

#[cfg(test)]
mod tests;
