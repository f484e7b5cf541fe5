//! Pointer chase: dependent loads through random cycles over the nodes of a buffer. Each stride has
//! one node, on a random line of it, so that nodes do not crowd the same cache sets. A cycle can
//! stay in a group of pages until all its nodes are visited, to exclude address translation.

use std::hint::black_box;
use std::ptr;

use crate::buffer::{Buffer, BufferError, Pages, Resident};
use crate::kernel::random;
use crate::numa::{NumaError, on_node};
use crate::sliced::SlicedLoad;

/// Bytes of a cache line; on processors with longer lines choose a longer stride.
pub const LINE_BYTES: usize = 64;
/// Steps per iteration: they hide the loop's own two instructions.
const STEPS_PER_TURN: u64 = 64;
/// Walkers that share a verification: about as many loads as a core keeps in flight.
const ANCHORS: usize = 16;
/// Maximum number of chases at once: their addresses fit in registers on every architecture.
pub const MOST_CHASES: usize = 10;

/// Parameters of a [`Chase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChaseShape {
    /// Buffer size in bytes.
    pub bytes: usize,
    /// Bytes per node: a multiple of [`LINE_BYTES`]. 256 avoids adjacent-line prefetch.
    pub stride: usize,
    /// Size in bytes of the groups that the cycle visits one after another, a multiple of `stride`;
    /// `None` for a single group.
    pub group: Option<usize>,
    /// Requested page size.
    pub pages: Pages,
    /// Number of chases at once, from 1 to [`MOST_CHASES`].
    pub chases: usize,
    /// Seed of the order: equal shapes have equal cycles, as offsets.
    pub seed: u64,
    /// NUMA node of the buffer; `None` for the node of the calling thread.
    pub node: Option<usize>,
}

/// Reason why a chase cannot be made, or is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ChaseError {
    /// The stride is not a multiple of the cache line, or the group not one of the stride.
    #[error(
        "stride must be a multiple of {LINE_BYTES} bytes, and group one of the stride: {stride} and {group} are not"
    )]
    Uneven {
        /// Requested stride in bytes.
        stride: usize,
        /// Requested group in bytes.
        group: usize,
    },
    /// The number of chases is zero or too large.
    #[error("the number of chases must be from 1 to {MOST_CHASES}: {0} is not")]
    Chases(usize),
    /// A cycle has fewer than two nodes, or there are more than 2^32.
    #[error(
        "a chase through {bytes} bytes with stride {stride} has too few or too many nodes (at least 2 for each chase, at most 2^32 in all); \
         change the size"
    )]
    Nodes {
        /// Requested size in bytes.
        bytes: usize,
        /// Requested stride in bytes.
        stride: usize,
    },
    /// The memory could not be allocated.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The memory could not be allocated on the given NUMA node.
    #[error(transparent)]
    Node(#[from] NumaError),
    /// The walk returns to its start too early or not at all: the memory was damaged.
    #[error(
        "the chase is not one cycle over its {nodes} nodes: it goes wrong within {steps} steps; is the memory sound?"
    )]
    NotOneCycle {
        /// Steps from the first node to the detection.
        steps: u64,
        /// Nodes of the cycle.
        nodes: u64,
    },
    /// The cycle is right, but the walk ended at another node: a load returned a wrong value.
    #[error("the chase is at another node than {0} steps lead to; is the processor sound?")]
    Astray(u64),
}

/// Cycles of addresses in a buffer, with the current position in each.
#[derive(Debug)]
pub struct Chase {
    buffer: Buffer,
    cycles: Vec<Cycle>,
    at: Vec<usize>,
    /// Steps walked in each cycle from its first node.
    steps: u64,
}

#[derive(Debug)]
struct Cycle {
    nodes: u64,
    /// Addresses of nodes at even distances along the cycle, its first node first.
    anchors: Vec<usize>,
}

impl Chase {
    /// Allocates memory of `shape`, resident on its NUMA node, and links its nodes to random cycles
    /// of pointers. Fails if the shape is out of range, or without memory.
    pub fn new(shape: ChaseShape) -> Result<Self, ChaseError> {
        let group = shape.group.unwrap_or(shape.stride);
        let even =
            shape.stride > 0 && shape.stride.is_multiple_of(LINE_BYTES) && group.is_multiple_of(shape.stride);
        if !even || group == 0 {
            return Err(ChaseError::Uneven { stride: shape.stride, group });
        }
        if !(1..=MOST_CHASES).contains(&shape.chases) {
            return Err(ChaseError::Chases(shape.chases));
        }
        let count = u32::try_from(shape.bytes / shape.stride)
            .ok()
            .filter(|count| *count as usize >= 2 * shape.chases)
            .ok_or(ChaseError::Nodes { bytes: shape.bytes, stride: shape.stride })?;
        let mut buffer = on_node(shape.node, || Buffer::touched(shape.bytes, shape.pages))??;
        let base = buffer.elements_mut::<u64>().as_mut_ptr().expose_provenance();
        let mut random = SplitMix(shape.seed);
        let nodes_per_group = shape.group.map_or(count as usize, |group| group / shape.stride);
        let mut offsets = shuffled_order(count, nodes_per_group, &mut random);
        let lines = (shape.stride / LINE_BYTES) as u64;
        for offset in &mut offsets {
            *offset = *offset * shape.stride + random.below(lines) as usize * LINE_BYTES;
        }
        // Consecutive parts of one order, so that each cycle also stays within a group.
        let mut rest = offsets.as_slice();
        let mut cycles = Vec::with_capacity(shape.chases);
        for left in (1..=shape.chases).rev() {
            let (own, behind) = rest.split_at(rest.len().div_ceil(left));
            rest = behind;
            link(buffer.elements_mut::<u64>(), base, own);
            let spacing = own.len().div_ceil(ANCHORS);
            let anchors = own.iter().step_by(spacing).map(|offset| base + offset).collect();
            cycles.push(Cycle { nodes: own.len() as u64, anchors });
        }
        let at = cycles.iter().filter_map(|cycle| cycle.anchors.first().copied()).collect();
        Ok(Self { buffer, cycles, at, steps: 0 })
    }

    /// Returns the number of nodes (pointers) in all cycles together.
    pub fn nodes(&self) -> u64 {
        self.cycles.iter().map(|cycle| cycle.nodes).sum()
    }

    /// Returns the bytes of all cache lines with a node. Walks miss in caches smaller than that.
    pub fn touched_bytes(&self) -> u64 {
        self.nodes() * LINE_BYTES as u64
    }

    /// Returns the buffer's resident bytes by page size, from `/proc/self/smaps`.
    pub fn resident(&self) -> Result<Resident, BufferError> {
        self.buffer.resident()
    }

    /// Returns the whole buffer that contains the cycles, as bytes.
    pub fn memory(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Follows `steps` pointers in each cycle, all cycles at once, from the end of the last walk.
    pub fn walk(&mut self, steps: u64) {
        self.steps = self.steps.wrapping_add(steps);
        match self.at.len() {
            1 => self.walk_all::<1>(steps),
            2 => self.walk_all::<2>(steps),
            3 => self.walk_all::<3>(steps),
            4 => self.walk_all::<4>(steps),
            5 => self.walk_all::<5>(steps),
            6 => self.walk_all::<6>(steps),
            7 => self.walk_all::<7>(steps),
            8 => self.walk_all::<8>(steps),
            9 => self.walk_all::<9>(steps),
            _ => self.walk_all::<MOST_CHASES>(steps),
        }
    }

    fn walk_all<const CHASES: usize>(&mut self, steps: u64) {
        if let Some(at) = self.at.first_chunk_mut::<CHASES>() {
            // A walk ends at the start of the next one, so the compiler cannot omit one.
            *at = black_box(walk(*at, steps));
        }
    }

    /// Checks that each cycle visits all of its nodes once, and that the walks ended correctly.
    pub fn verify(&self) -> Result<(), ChaseError> {
        self.cycles.iter().zip(&self.at).try_for_each(|(cycle, at)| cycle.verify(self.steps, *at))
    }
}

impl Cycle {
    /// Checks that the cycle visits all of its nodes once, and that `walked` steps from its first
    /// node lead to address `end`. Follows several stretches of the cycle at once, to be fast.
    fn verify(&self, walked: u64, end: usize) -> Result<(), ChaseError> {
        let nodes = self.nodes;
        let last = walked % nodes;
        let spacing = nodes.div_ceil(ANCHORS as u64);
        let first = self.anchors.first().copied();
        let mut is_right = last == 0 && Some(end) == first;
        let mut walkers = self.anchors.clone();
        for step in 1..=spacing {
            for (index, at) in walkers.iter_mut().enumerate() {
                let steps = index as u64 * spacing + step;
                if steps <= nodes {
                    [*at] = walk([*at], 1);
                }
                is_right |= steps == last && *at == end;
                if steps < nodes && Some(*at) == first {
                    return Err(ChaseError::NotOneCycle { steps, nodes });
                }
            }
        }
        let next = self.anchors.iter().skip(1).chain(self.anchors.first());
        for (index, (at, next)) in walkers.iter().zip(next).enumerate() {
            if at != next {
                return Err(ChaseError::NotOneCycle { steps: (index as u64 + 1) * spacing, nodes });
            }
        }
        if is_right { Ok(()) } else { Err(ChaseError::Astray(walked)) }
    }
}

/// A chase as a [`SlicedLoad`]: an iteration is a step. If the chase failed, it does nothing.
#[derive(Debug)]
pub struct Chaser {
    chase: Result<Chase, ChaseError>,
    spread: f64,
}

impl Chaser {
    /// Makes a [`Chase`] as a load; [`chase`](Self::chase) returns the error if that fails.
    /// `spread` is the tolerated relative deviation of a slice's time ([`SlicedLoad::spread`]).
    #[must_use]
    pub fn new(shape: ChaseShape, spread: f64) -> Self {
        Self { chase: Chase::new(shape), spread }
    }

    /// Returns the chase, or the reason why it could not be made.
    pub fn chase(&self) -> Result<&Chase, &ChaseError> {
        self.chase.as_ref()
    }
}

impl SlicedLoad for Chaser {
    fn run(&mut self, turns: u64) {
        if let Ok(chase) = &mut self.chase {
            chase.walk(turns);
        }
    }

    fn settle(&mut self, _: u64) {}

    fn spread(&self) -> f64 {
        self.spread
    }

    fn shares_memory(&self) -> bool {
        true
    }
}

/// Returns the addresses reached from those in `at` (nodes of a living [`Chase`]) by `steps` loads.
#[inline(always)]
fn walk<const CHASES: usize>(mut at: [usize; CHASES], steps: u64) -> [usize; CHASES] {
    let follow = |at: usize| {
        // SAFETY: `at` is the address of a node in a living Chase, with exposed provenance; a node
        // is an aligned word with the address of a node. Volatile, because the load is the work.
        unsafe { ptr::with_exposed_provenance::<usize>(at).read_volatile() }
    };
    for _ in 0..steps / STEPS_PER_TURN {
        for _ in 0..STEPS_PER_TURN {
            at = at.map(follow);
        }
    }
    for _ in 0..steps % STEPS_PER_TURN {
        at = at.map(follow);
    }
    at
}

/// Returns 0..`count` as shuffled groups of `nodes_per_group` successive numbers, each shuffled.
fn shuffled_order(count: u32, nodes_per_group: usize, random: &mut SplitMix) -> Vec<usize> {
    let count = count as usize;
    let mut groups: Vec<usize> = (0..count).step_by(nodes_per_group.max(1)).collect();
    random.shuffle(&mut groups);
    let mut order = Vec::with_capacity(count);
    for start in groups {
        let from = order.len();
        order.extend(start..(start + nodes_per_group).min(count));
        if let Some(group) = order.get_mut(from..) {
            random.shuffle(group);
        }
    }
    order
}

/// Links the byte `offsets` in `words` to a cycle: stores `base` plus the next offset at each.
fn link(words: &mut [u64], base: usize, offsets: &[usize]) {
    let next = offsets.iter().skip(1).chain(offsets.first());
    for (offset, next) in offsets.iter().zip(next) {
        if let Some(word) = words.get_mut(offset / size_of::<u64>()) {
            *word = (base + next) as u64;
        }
    }
}

struct SplitMix(u64);

impl SplitMix {
    /// Returns a random number below `bound`, with a bias of at most bound ÷ 2^64.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(random::next(&mut self.0)) * u128::from(bound)) >> 64) as u64
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests;
