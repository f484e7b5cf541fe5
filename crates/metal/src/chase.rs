//! A pointer chase: loads of which each needs the one before, through one cycle over all nodes of a buffer. Several
//! chases at once go through cycles of their own, which share the nodes evenly.
//!
//! The order is random, so no prefetcher can run ahead; one node lies in each stride, at a random line of it, so that
//! nodes neither share lines nor crowd the same cache sets; and the cycle can stay in one group of pages until all
//! its nodes are visited, so that it does not measure address translation. The chase holds addresses, not indices:
//! one step is one `mov r,[r]`, with nothing else in the chain.

use std::hint::black_box;
use std::ptr;

use crate::buffer::{Buffer, BufferError, Pages, Resident};
use crate::numa::{NumaError, on_node};
use crate::sliced::Load;

/// Bytes of a cache line on the processors plimsoll knows; where lines are longer, choose a longer stride.
pub const LINE_BYTES: usize = 64;
/// Steps in one turn of the walk's loop: the loop's own two instructions hide behind them.
const STEPS_PER_TURN: u64 = 64;
/// Walkers that share a verification: about as many loads as a core keeps in flight.
const ANCHORS: usize = 16;
/// The most chases at once: so many addresses fit in the registers of every architecture with a loop counter.
pub const MOST_CHASES: usize = 10;

/// What to chase through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Size of the buffer in bytes.
    pub bytes: usize,
    /// One node lies in each `stride` bytes: a multiple of [`LINE_BYTES`]. 256 keeps adjacent-line prefetch out.
    pub stride: usize,
    /// Bytes that the cycle stays within until it has visited every node there: a multiple of `stride`. `None`
    /// draws each next node from the whole buffer.
    pub group: Option<usize>,
    /// The page size asked for.
    pub pages: Pages,
    /// Chases at once, from 1 to [`MOST_CHASES`].
    pub chases: usize,
    /// Seed of the order: equal shapes give equal cycles, as offsets.
    pub seed: u64,
    /// The NUMA node that the buffer is to lie on; the calling thread's own without.
    pub node: Option<usize>,
}

/// Why there is no such chase.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChaseError {
    /// Strides are whole cache lines, and groups whole strides.
    #[error(
        "stride must be a multiple of {LINE_BYTES} bytes, and group one of the stride: {stride} and {group} are not"
    )]
    Uneven {
        /// The stride asked for, in bytes.
        stride: usize,
        /// The group asked for, in bytes.
        group: usize,
    },
    /// No chase, or more than there are registers for.
    #[error("the number of chases must be from 1 to {MOST_CHASES}: {chases} is not")]
    Chases {
        /// The number asked for.
        chases: usize,
    },
    /// Fewer than two nodes in a cycle, or more than can be numbered.
    #[error(
        "a chase through {bytes} bytes with stride {stride} has too few or too many nodes (at least 2 for each chase, at most 2^32 in all); \
         change the size"
    )]
    Nodes {
        /// The size asked for, in bytes.
        bytes: usize,
        /// The stride asked for, in bytes.
        stride: usize,
    },
    /// The memory could not be had.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// Nor could it be had on that node.
    #[error(transparent)]
    Node(#[from] NumaError),
    /// The walk came back to its start too soon, or not at all: the memory was damaged.
    #[error(
        "the chase is not one cycle over its {nodes} nodes: it goes wrong within {steps} steps; is the memory sound?"
    )]
    NotOneCycle {
        /// Steps from the first node after which that was seen.
        steps: u64,
        /// Nodes of the chase.
        nodes: u64,
    },
    /// The cycle is whole, and the walk through it did not end where it must: a load returned something else.
    #[error("the chase is at another node than {steps} steps lead to; is the processor sound?")]
    Astray {
        /// Steps that were walked.
        steps: u64,
    },
}

/// Cycles of addresses in a buffer of their own, and the places where the last walk ended.
#[derive(Debug)]
pub struct Chase {
    buffer: Buffer,
    cycles: Vec<Cycle>,
    /// Where each cycle's walk ended.
    at: Vec<usize>,
    /// Steps that each cycle was walked, from its first node.
    steps: u64,
}

/// One cycle of a chase.
#[derive(Debug)]
struct Cycle {
    nodes: u64,
    /// Nodes at even distances along the cycle, its first node first.
    anchors: Vec<usize>,
}

impl Chase {
    /// Maps the buffer, makes it resident on its memory node, and links the cycles.
    ///
    /// # Errors
    /// [`ChaseError::Uneven`], [`ChaseError::Chases`], [`ChaseError::Nodes`], [`ChaseError::Buffer`], [`ChaseError::Node`].
    pub fn new(shape: Shape) -> Result<Self, ChaseError> {
        let group = shape.group.unwrap_or(shape.stride);
        let even =
            shape.stride > 0 && shape.stride.is_multiple_of(LINE_BYTES) && group.is_multiple_of(shape.stride);
        if !even || group == 0 {
            return Err(ChaseError::Uneven { stride: shape.stride, group });
        }
        if !(1..=MOST_CHASES).contains(&shape.chases) {
            return Err(ChaseError::Chases { chases: shape.chases });
        }
        let count = u32::try_from(shape.bytes / shape.stride)
            .ok()
            .filter(|count| *count as usize >= 2 * shape.chases)
            .ok_or(ChaseError::Nodes { bytes: shape.bytes, stride: shape.stride })?;
        let touched = || {
            let mut buffer = Buffer::new(shape.bytes, shape.pages)?;
            buffer.touch()?;
            Ok::<Buffer, BufferError>(buffer)
        };
        let mut buffer = match shape.node {
            Some(node) => on_node(node, touched)??,
            None => touched()?,
        };
        let base = buffer.words_mut().as_mut_ptr().expose_provenance();
        let mut random = SplitMix(shape.seed);
        let nodes_per_group = shape.group.map_or(count as usize, |group| group / shape.stride);
        let mut offsets = order(count, nodes_per_group, &mut random);
        let lines = (shape.stride / LINE_BYTES) as u64;
        for offset in &mut offsets {
            *offset = *offset * shape.stride + random.below(lines) as usize * LINE_BYTES;
        }
        // Consecutive parts of the one order, so that each cycle, too, stays within a group.
        let mut rest = offsets.as_slice();
        let mut cycles = Vec::with_capacity(shape.chases);
        for left in (1..=shape.chases).rev() {
            let (own, behind) = rest.split_at(rest.len().div_ceil(left));
            rest = behind;
            link(buffer.words_mut(), base, own);
            let apart = own.len().div_ceil(ANCHORS);
            let anchors = own.iter().step_by(apart).map(|offset| base + offset).collect();
            cycles.push(Cycle { nodes: own.len() as u64, anchors });
        }
        let at = cycles.iter().filter_map(|cycle| cycle.anchors.first().copied()).collect();
        Ok(Self { buffer, cycles, at, steps: 0 })
    }

    /// Nodes of all cycles.
    pub fn nodes(&self) -> u64 {
        self.cycles.iter().map(|cycle| cycle.nodes).sum()
    }

    /// Bytes of the distinct cache lines that the cycle touches: what must exceed a cache to miss it.
    pub fn touched_bytes(&self) -> u64 {
        self.nodes() * LINE_BYTES as u64
    }

    /// What is resident now, and in which pages.
    ///
    /// # Errors
    /// [`BufferError`] where the kernel does not tell.
    pub fn resident(&self) -> Result<Resident, BufferError> {
        self.buffer.resident()
    }

    /// The memory that the cycles go through.
    pub fn memory(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Follows `steps` links of each cycle from where the last walk ended. Each step is one load that needs the one
    /// before; those of different cycles need nothing of each other.
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
            // A walk ends where the next begins, so no compiler can leave one out.
            *at = black_box(walk(*at, steps));
        }
    }

    /// Walks once around each cycle: after exactly as many steps as it has nodes it must be back at the first node, and
    /// not sooner. It then passed every node once. The earlier walks must have ended at the node that lies as many steps
    /// from the first.
    ///
    /// # Errors
    /// [`ChaseError::NotOneCycle`], [`ChaseError::Astray`].
    pub fn verify(&self) -> Result<(), ChaseError> {
        self.cycles.iter().zip(&self.at).try_for_each(|(cycle, at)| cycle.verify(self.steps, *at))
    }
}

impl Cycle {
    /// Checks the cycle, and that `walked` steps from the first node end at `end`. The walk is shared among walkers that
    /// each go from one anchor to the next, at the same time: to wait for one load after the other would take as long as
    /// the measurement.
    fn verify(&self, walked: u64, end: usize) -> Result<(), ChaseError> {
        let nodes = self.nodes;
        let last = walked % nodes;
        let apart = nodes.div_ceil(ANCHORS as u64);
        let first = self.anchors.first().copied();
        let mut is_right = last == 0 && Some(end) == first;
        let mut walkers = self.anchors.clone();
        for step in 1..=apart {
            for (index, at) in walkers.iter_mut().enumerate() {
                let steps = index as u64 * apart + step;
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
                return Err(ChaseError::NotOneCycle { steps: (index as u64 + 1) * apart, nodes });
            }
        }
        if is_right { Ok(()) } else { Err(ChaseError::Astray { steps: walked }) }
    }
}

/// A chase as a load to be measured in slices: a turn is a step. One that could not be made does nothing; ask
/// [`chase`](Self::chase) before measuring.
#[derive(Debug)]
pub struct Chaser {
    chase: Result<Chase, ChaseError>,
    spread: f64,
}

impl Chaser {
    /// Makes the chase. For `spread` see [`Load::spread`].
    #[must_use]
    pub fn new(shape: Shape, spread: f64) -> Self {
        Self { chase: Chase::new(shape), spread }
    }

    /// The chase, or why there is none.
    ///
    /// # Errors
    /// [`ChaseError`] of its making.
    pub fn chase(&self) -> Result<&Chase, &ChaseError> {
        self.chase.as_ref()
    }
}

impl Load for Chaser {
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

/// Follows `steps` links from each of the nodes at the addresses `at`.
///
/// Private: only a [`Chase`] calls it, with addresses of nodes of its own living buffer.
#[inline(always)]
fn walk<const CHASES: usize>(mut at: [usize; CHASES], steps: u64) -> [usize; CHASES] {
    let follow = |at: usize| {
        // SAFETY: `at` is the address of a node in a living Chase, whose provenance was exposed; a node is an aligned
        // word that holds the address of a node. Volatile: the load is the work.
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

/// The node numbers 0..count in the order of the cycle: groups in random order, nodes random within each.
fn order(count: u32, nodes_per_group: usize, random: &mut SplitMix) -> Vec<usize> {
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

/// Writes into each node, at its byte offset, the address of the next; into the last, that of the first.
fn link(words: &mut [u64], base: usize, offsets: &[usize]) {
    let next = offsets.iter().skip(1).chain(offsets.first());
    for (offset, next) in offsets.iter().zip(next) {
        if let Some(word) = words.get_mut(offset / size_of::<u64>()) {
            *word = (base + next) as u64;
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, seeded, good enough to order nodes.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias, at most bound ÷ 2^64, does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Fisher and Yates' shuffle.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests;
