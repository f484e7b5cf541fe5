//! A pointer chase: loads of which each needs the one before, through one cycle over all nodes of a buffer.
//!
//! The order is random, so no prefetcher can run ahead; one node lies in each stride, at a random line of it, so that
//! nodes neither share lines nor crowd the same cache sets; and the cycle can stay in one group of pages until all
//! its nodes are visited, so that it does not measure address translation. The chase holds addresses, not indices:
//! one step is one `mov r,[r]`, with nothing else in the chain.

use std::hint::black_box;
use std::ptr;

use crate::buffer::{Buffer, BufferError, Pages, Resident};
use crate::sliced::Load;

/// Bytes of a cache line on the processors plimsoll knows; where lines are longer, choose a longer stride.
pub const LINE: usize = 64;
/// Steps in one turn of the walk's loop: the loop's own two instructions hide behind them.
const STEPS_PER_TURN: u64 = 64;
/// Walkers that share a verification: about as many loads as a core keeps in flight.
const ANCHORS: usize = 16;

/// What to chase through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Size of the buffer in bytes.
    pub bytes: usize,
    /// One node lies in each `stride` bytes: a multiple of [`LINE`]. 256 keeps adjacent-line prefetch out.
    pub stride: usize,
    /// Bytes that the cycle stays within until it has visited every node there: a multiple of `stride`. `None`
    /// draws each next node from the whole buffer.
    pub group: Option<usize>,
    /// The page size asked for.
    pub pages: Pages,
    /// Seed of the order: equal shapes give equal cycles, as offsets.
    pub seed: u64,
}

/// Why there is no such chase.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChaseError {
    /// Strides are whole cache lines, and groups whole strides.
    #[error(
        "a chase with stride {stride} and group {group} bytes: strides are multiples of {LINE}, groups of the stride"
    )]
    Uneven {
        /// The stride asked for, in bytes.
        stride: usize,
        /// The group asked for, in bytes.
        group: usize,
    },
    /// Fewer than two nodes, or more than can be numbered.
    #[error(
        "a chase through {bytes} bytes with stride {stride}: the number of nodes must be from 2 to 2^32; change the size"
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
}

/// A cycle of addresses in a buffer of its own, and the place where the last walk ended.
#[derive(Debug)]
pub struct Chase {
    buffer: Buffer,
    nodes: u64,
    /// Nodes at even distances along the cycle, its first node first.
    anchors: Vec<usize>,
    at: usize,
}

impl Chase {
    /// Maps the buffer, makes it resident on the calling thread's memory node, and links the cycle.
    ///
    /// # Errors
    /// [`ChaseError::Uneven`], [`ChaseError::Nodes`], [`ChaseError::Buffer`].
    pub fn new(shape: Shape) -> Result<Self, ChaseError> {
        let group = shape.group.unwrap_or(shape.stride);
        let even =
            shape.stride > 0 && shape.stride.is_multiple_of(LINE) && group.is_multiple_of(shape.stride);
        if !even || group == 0 {
            return Err(ChaseError::Uneven { stride: shape.stride, group });
        }
        let count = u32::try_from(shape.bytes / shape.stride)
            .ok()
            .filter(|count| *count >= 2)
            .ok_or(ChaseError::Nodes { bytes: shape.bytes, stride: shape.stride })?;
        let mut buffer = Buffer::new(shape.bytes, shape.pages)?;
        buffer.touch()?;
        let base = buffer.words_mut().as_mut_ptr().expose_provenance();
        let mut random = SplitMix(shape.seed);
        let nodes_per_group = shape.group.map_or(count as usize, |group| group / shape.stride);
        let mut offsets = order(count, nodes_per_group, &mut random);
        let lines = (shape.stride / LINE) as u64;
        for offset in &mut offsets {
            *offset = *offset * shape.stride + random.below(lines) as usize * LINE;
        }
        link(buffer.words_mut(), base, &offsets);
        let apart = offsets.len().div_ceil(ANCHORS);
        let anchors: Vec<usize> = offsets.iter().step_by(apart).map(|offset| base + offset).collect();
        let at = anchors.first().copied().unwrap_or(base);
        Ok(Self { buffer, nodes: u64::from(count), anchors, at })
    }

    /// Nodes of the cycle.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Bytes of the distinct cache lines that the cycle touches: what must exceed a cache to miss it.
    #[must_use]
    pub fn touched_bytes(&self) -> u64 {
        self.nodes * LINE as u64
    }

    /// What is resident now, and in which pages.
    ///
    /// # Errors
    /// [`BufferError`] where the kernel does not tell.
    pub fn resident(&self) -> Result<Resident, BufferError> {
        self.buffer.resident()
    }

    /// Follows `steps` links from where the last walk ended. Each step is one load that needs the one before.
    pub fn walk(&mut self, steps: u64) {
        // A walk ends where the next begins, so no compiler can leave one out.
        self.at = black_box(walk(self.at, steps));
    }

    /// Walks once around: after exactly as many steps as there are nodes it must be back at the first node, and not
    /// sooner. It then passed every node once.
    ///
    /// The walk is shared among walkers that each go from one anchor to the next, at the same time: to wait for one
    /// load after the other would take as long as the measurement.
    ///
    /// # Errors
    /// [`ChaseError::NotOneCycle`].
    pub fn verify(&self) -> Result<(), ChaseError> {
        let nodes = self.nodes;
        let apart = nodes.div_ceil(ANCHORS as u64);
        let first = self.anchors.first().copied();
        let mut walkers = self.anchors.clone();
        for step in 1..=apart {
            for (index, at) in walkers.iter_mut().enumerate() {
                let steps = index as u64 * apart + step;
                if steps <= nodes {
                    *at = walk(*at, 1);
                }
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
        Ok(())
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
    /// Makes the chase, on the memory node of the calling thread. For `spread` see [`Load::spread`].
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
}

/// Follows `steps` links from the node at address `at`.
///
/// Private: only [`Chase`] calls it, with an address of a node of its own living buffer.
fn walk(mut at: usize, steps: u64) -> usize {
    let follow = |at: usize| {
        // SAFETY: `at` is the address of a node in a living Chase, whose provenance was exposed; a node is an aligned
        // word that holds the address of a node. Volatile: the load is the work.
        unsafe { ptr::with_exposed_provenance::<usize>(at).read_volatile() }
    };
    for _ in 0..steps / STEPS_PER_TURN {
        for _ in 0..STEPS_PER_TURN {
            at = follow(at);
        }
    }
    for _ in 0..steps % STEPS_PER_TURN {
        at = follow(at);
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn shape(bytes: usize, stride: usize) -> Shape {
        Shape { bytes, stride, group: None, pages: Pages::Small, seed: 1 }
    }

    /// The byte offsets of the nodes in the order that the walk finds them.
    fn walked(chase: &mut Chase) -> Vec<usize> {
        let base = chase.buffer.bytes().as_ptr().addr();
        (0..chase.nodes)
            .map(|_| {
                chase.walk(1);
                chase.at - base
            })
            .collect()
    }

    proptest! {
        #[test]
        fn every_stride_is_visited_once_in_one_turn(
            nodes in 2_usize..600, lines in 1_usize..5, per_group in proptest::option::of(1_usize..80), seed: u64,
        ) {
            let stride = lines * LINE;
            let group = per_group.map(|per_group| per_group * stride);
            let mut chase =
                Chase::new(Shape { bytes: nodes * stride + 8, stride, group, pages: Pages::Small, seed }).unwrap();
            prop_assert_eq!(chase.nodes(), nodes as u64);
            chase.verify().unwrap();
            let offsets = walked(&mut chase);
            prop_assert!(offsets.iter().all(|offset| offset % LINE == 0));
            let strides: HashSet<usize> = offsets.iter().map(|offset| offset / stride).collect();
            prop_assert_eq!(strides.len(), nodes);
        }

        #[test]
        fn a_group_is_left_only_when_all_of_it_was_visited(nodes in 2_usize..600, per_group in 1_usize..80, seed: u64) {
            let group = per_group * 256;
            let bytes = nodes * 256;
            let mut chase =
                Chase::new(Shape { bytes, stride: 256, group: Some(group), pages: Pages::Small, seed }).unwrap();
            let groups: Vec<usize> = walked(&mut chase).iter().map(|offset| offset / group).collect();
            // The walk begins behind the first node, so its group may be seen at both ends.
            let mut changes = groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
            changes += usize::from(groups.first() != groups.last());
            let expected = nodes.div_ceil(per_group);
            prop_assert_eq!(changes, if expected == 1 { 0 } else { expected });
        }

        #[test]
        fn walks_add_up(first in 0_u64..1000, second in 0_u64..1000) {
            let mut chase = Chase::new(shape(64 << 10, 256)).unwrap();
            chase.walk(first);
            chase.walk(second);
            let apart = chase.at;
            chase.walk(2 * chase.nodes() - (first + second) % chase.nodes());
            prop_assert_eq!(chase.at, chase.anchors[0]);
            chase.walk(first + second);
            prop_assert_eq!(chase.at, apart);
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let build = |seed| walked(&mut Chase::new(Shape { seed, ..shape(1 << 20, 256) }).unwrap());
        assert_eq!(build(7), build(7));
        assert_ne!(build(7), build(8));
    }

    #[test]
    fn nodes_lie_on_all_lines_of_their_strides() {
        let lines: HashSet<usize> = walked(&mut Chase::new(shape(1 << 20, 256)).unwrap())
            .iter()
            .map(|offset| offset % 256 / LINE)
            .collect();
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn a_damaged_cycle_is_found_out_wherever_it_is() {
        let nodes = 1024;
        for position in [0, 1, 9, 63, 64, 65, 500, 1022, 1023] {
            for short_cut in [0, 1, 64, 100, 1023] {
                let mut chase = Chase::new(shape(nodes * LINE, LINE)).unwrap();
                let base = chase.buffer.bytes().as_ptr().addr();
                chase.walk(short_cut);
                let target = chase.at;
                chase.walk(nodes as u64 - short_cut + position);
                let damaged = (chase.at - base) / 8;
                let whole = chase.buffer.words()[damaged] == target as u64;
                chase.buffer.words_mut()[damaged] = target as u64;
                assert_eq!(chase.verify().is_ok(), whole, "node {position} leads to node {short_cut}");
            }
        }
    }

    #[test]
    fn a_chaser_walks_on_from_where_it_stopped() {
        let mut chaser = Chaser::new(shape(64 << 10, 256), 0.05);
        let first = chaser.chase().unwrap().anchors[0];
        assert_eq!(chaser.chase().unwrap().at, first);
        chaser.run(100);
        chaser.settle(100);
        assert_ne!(chaser.chase().unwrap().at, first);
        chaser.run(256 - 100);
        assert_eq!(chaser.chase().unwrap().at, first);
        let mut none = Chaser::new(shape(64, 256), 0.05);
        none.run(100);
        assert!(matches!(none.chase(), Err(ChaseError::Nodes { .. })));
    }

    #[test]
    fn uneven_and_empty_shapes_are_refused() {
        for (stride, group) in [(0, None), (60, None), (96, None), (256, Some(0)), (256, Some(300))] {
            let result = Chase::new(Shape { group, ..shape(1 << 20, stride) });
            assert!(matches!(result, Err(ChaseError::Uneven { .. })), "{stride} {group:?}");
        }
        assert!(matches!(Chase::new(shape(256, 256)), Err(ChaseError::Nodes { .. })));
    }
}
