//! Sequence of transfers for one load: operation, offset, length.

use crate::load::pattern::{BlockWalk, derive, mix};
use plimsoll_metal::uring::RequestKind;
use plimsoll_model::job::disk::{BlockOrder, BlockSizes, DiskOperation, WriteThrough};

/// Returns a block size in bytes, which the number `random` selects by the weights of the sizes.
fn pick_block_size(blocks: &BlockSizes, random: u64) -> u64 {
    let BlockSizes::Mixed(mix) = blocks else { return blocks.largest() };
    let weights: u64 = mix.parts().iter().map(|part| u64::from(part.weight)).sum();
    let mut left = random % weights.max(1);
    for part in mix.parts() {
        match left.checked_sub(u64::from(part.weight)) {
            Some(less) => left = less,
            None => return part.bytes,
        }
    }
    blocks.largest()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) op: RequestKind,
    /// Offset in bytes.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: usize,
    /// Whether all blocks have been visited before it.
    pub(crate) begins_anew: bool,
}

/// An endless sequence of transfers.
#[derive(Debug, Clone)]
pub(crate) struct TransferSource {
    /// Operation of the case, such as a mix of reads and writes.
    pub(super) operation: DiskOperation,
    blocks: BlockSizes,
    pub(super) walk: BlockWalk,
    /// Walk of writes, if it is separate.
    writes: Option<BlockWalk>,
    op: RequestKind,
    /// Request of writes: plain, O_DSYNC or O_SYNC.
    pub(super) write: RequestKind,
    random: u64,
}

impl TransferSource {
    /// Creates an endless sequence of transfers along `walk`; `through`: whether writes are durable
    /// on completion. Equal walks give equal sequences.
    pub(crate) fn new(
        operation: DiskOperation,
        through: WriteThrough,
        blocks: BlockSizes,
        walk: BlockWalk,
    ) -> Self {
        let write = match through {
            WriteThrough::No => RequestKind::Write,
            WriteThrough::Yes => RequestKind::WriteThrough,
            WriteThrough::Whole => RequestKind::WriteSync,
        };
        let op = match operation {
            DiskOperation::Read | DiskOperation::Copy | DiskOperation::Mixed { .. } => RequestKind::Read,
            DiskOperation::Write | DiskOperation::Append => write,
            DiskOperation::Trim => RequestKind::Trim,
        };
        let separate_walks =
            walk.order == BlockOrder::SequentialEach && matches!(operation, DiskOperation::Mixed { .. });
        let writes = separate_walks.then(|| walk.clone());
        let random = derive(walk.seed, "mix");
        TransferSource { operation, blocks, walk, writes, op, write, random }
    }

    /// Draws the next transfer: kind, offset, length, and whether it starts another pass.
    #[inline(always)]
    pub(crate) fn draw(&mut self) -> Next {
        let len = match &self.blocks {
            BlockSizes::One(bytes) => *bytes,
            BlockSizes::Mixed(_) => {
                let random = self.random();
                pick_block_size(&self.blocks, random)
            }
        };
        let op = match self.operation {
            DiskOperation::Mixed { read_share } => {
                let reads = self.random() % 100 < u64::from(read_share);
                if reads { self.op } else { self.write }
            }
            _ => self.op,
        };
        let walk = match &mut self.writes {
            Some(writes) if op.is_write() => writes,
            _ => &mut self.walk,
        };
        let step = walk.step(len);
        Next { op, offset: step.offset, len: len as usize, begins_anew: step.begins_anew }
    }

    fn random(&mut self) -> u64 {
        self.random = mix(self.random);
        self.random >> 8
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::load::WalkExtent;
    use plimsoll_units::quantity::parse_sizes;

    fn source(operation: DiskOperation, blocks: BlockSizes) -> TransferSource {
        let extent = WalkExtent { start: 0, bytes: 1 << 30, unit: blocks.unit(), largest: blocks.largest() };
        let walk = BlockWalk::new(BlockOrder::Random, extent, 3);
        TransferSource::new(operation, WriteThrough::No, blocks, walk)
    }

    fn near(count: u64, of: u64, share: f64) -> bool {
        let expected = of as f64 * share;
        (count as f64 - expected).abs() < 5.0 * (expected * (1.0 - share)).sqrt()
    }

    #[test]
    fn blocks_come_by_weight_and_operations_by_share() {
        let blocks = parse_sizes("4K@60+64K@30+512@10").unwrap();
        let mut source = source(DiskOperation::Mixed { read_share: 70 }, blocks);
        let mut counts: HashMap<(RequestKind, usize), u64> = HashMap::new();
        for _ in 0..100_000 {
            let next = source.draw();
            *counts.entry((next.op, next.len)).or_default() += 1;
        }
        for (len, weight) in [(4096, 0.6), (65536, 0.3), (512, 0.1)] {
            assert!(near(counts[&(RequestKind::Read, len)], 100_000, 0.7 * weight), "{counts:?}");
            assert!(near(counts[&(RequestKind::Write, len)], 100_000, 0.3 * weight), "{counts:?}");
        }
        assert_eq!(counts.len(), 6);
    }

    #[test]
    fn the_ends_of_the_share_are_only_reads_and_only_writes() {
        for (read_share, op) in [(100, RequestKind::Read), (0, RequestKind::Write)] {
            let mut source = source(DiskOperation::Mixed { read_share }, BlockSizes::One(4096));
            assert!((0..1000).all(|_| source.draw().op == op));
        }
    }

    #[test]
    fn reads_and_writes_of_a_mix_can_ascend_each_on_their_own() {
        let extent = WalkExtent { start: 0, bytes: 1 << 20, unit: 4096, largest: 4096 };
        let operation = DiskOperation::Mixed { read_share: 50 };
        let walk = BlockWalk::new(BlockOrder::SequentialEach, extent, 3);
        let mut source = TransferSource::new(operation, WriteThrough::No, BlockSizes::One(4096), walk);
        let mut next = HashMap::from([(RequestKind::Read, 0), (RequestKind::Write, 0)]);
        for _ in 0..1000 {
            let drawn = source.draw();
            let place = next.get_mut(&drawn.op).expect("a read or a write");
            assert_eq!(drawn.offset, *place);
            *place = (*place + 4096) % (1 << 20);
        }
    }

    #[test]
    fn a_mix_has_a_unit_that_divides_all_its_blocks() {
        for (text, unit, most) in [("4K@1+6K@1", 2048, 6144), ("4K@1+1@1", 1, 4096), ("12K", 12288, 12288)] {
            let blocks = parse_sizes(text).unwrap();
            assert_eq!((blocks.unit(), blocks.largest()), (unit, most), "{text}");
        }
    }
}
