//! Jobs of the memory benchmarks.

use serde::{Deserialize, Serialize};

use super::disk::TransferAmount::{self, Bytes, Transfers};
use super::{Scaling, meaning, scaling};
use crate::case::Case;
use crate::place::Threads;
use plimsoll_metal::block::{BlockOp, BlockTraversal};
use plimsoll_metal::buffer::Pages;
use plimsoll_metal::stream::StreamOp;

/// Names and bytes of base pages; a kernel has one of these sizes. AArch64 supports all three.
pub const SMALL_PAGES: &[(&str, u64)] = &[("4k", 4 << 10), ("16k", 16 << 10), ("64k", 64 << 10)];
/// Name of transparent huge pages.
pub const THP: &str = "thp";
/// Names of the larger pages.
pub const LARGE_PAGES: &[(&str, Pages)] = &[(THP, Pages::Thp), ("2m", Pages::Huge2M), ("1g", Pages::Huge1G)];
/// Variant of a case that selects the fastest kernel by trial.
pub const BEST_VARIANT: &str = "best";
/// Default bytes that a chase visits before it goes on: 64 base pages fit in a level-1 TLB.
pub const CHASE_GROUP: u64 = 64 * 4096;
/// Names of the operations on blocks.
pub const BLOCK_OPS: &[(&str, BlockOp)] =
    &[("read", BlockOp::Read), ("write", BlockOp::Write), ("read-write", BlockOp::ReadWrite)];
/// Names of the orders of blocks.
pub const BLOCK_ORDERS: &[(&str, BlockTraversal)] =
    &[("sequential", BlockTraversal::Sequential), ("random", BlockTraversal::Random)];
/// Names of the layouts of arrays.
pub const ARRAY_LAYOUTS: &[(&str, ArrayLayout)] =
    &[("private", ArrayLayout::Private), ("shared", ArrayLayout::Shared)];
/// Names of the operations between NUMA nodes: whether dependent loads are timed instead of reads.
pub const NUMA_OPS: &[(&str, bool)] = &[("latency", true), ("read", false)];

/// Threads and their memory, a common part of the parameters of memory benchmarks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemorySite {
    /// Number and CPUs of the threads.
    pub threads: Threads,
    /// Bytes per thread; 0 if another tool's result does not show it.
    pub size: u64,
    /// Requested pages.
    pub pages: Pages,
    /// Requested NUMA node; each thread's own if `None`.
    pub node: Option<usize>,
}

impl MemorySite {
    /// Reads threads, size, pages and node of a case; size 0 and transparent huge pages by default.
    pub fn of(case: &Case) -> Self {
        Self {
            threads: Threads::of(case),
            size: case.number("size").unwrap_or(0),
            pages: read_pages(case).unwrap_or(Pages::Thp),
            node: case.number("node").and_then(|node| usize::try_from(node).ok()),
        }
    }

    /// Returns the bytes of all threads together: `size` × threads.
    pub fn total(&self) -> u64 {
        self.size.saturating_mul(self.threads.count as u64)
    }
}

/// Arrays of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrayLayout {
    /// One set of arrays per thread.
    Private,
    /// One set of arrays, as large as all private ones together, of which each thread uses a part.
    Shared,
}

/// A case of `memory.bandwidth`: passes over arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryStream {
    /// Operation of a pass.
    pub op: StreamOp,
    /// Name of a kernel, or [`BEST_VARIANT`].
    pub variant: String,
    /// Arrays of the threads.
    pub layout: ArrayLayout,
    /// Threads and memory.
    pub site: MemorySite,
}

impl MemoryStream {
    /// Reads a `memory.bandwidth` case; fails for other cases, no size or an unknown operation.
    pub fn of(case: &Case) -> Result<Self, String> {
        let is_ours = case.benchmark() == "memory.bandwidth";
        let op = StreamOp::ALL.into_iter().find(|op| is_ours && case.word("op") == Some(op.name()));
        let site = MemorySite::of(case);
        if site.size == 0 {
            return Err("the case has no size".to_owned());
        }
        Ok(Self {
            op: op.ok_or("the operation is unknown")?,
            variant: case.word("variant").unwrap_or(BEST_VARIANT).to_owned(),
            layout: meaning(case, "layout", ARRAY_LAYOUTS, ArrayLayout::Private)
                .unwrap_or(ArrayLayout::Private),
            site,
        })
    }
}

/// A case of `memory.latency`: chains of dependent loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointerChase {
    /// Number of parallel chains.
    pub chases: usize,
    /// Bytes that a chain visits completely before it goes on.
    pub group: usize,
    /// Thread and memory.
    pub site: MemorySite,
}

impl PointerChase {
    /// Reads a `memory.latency` case; `None` for another benchmark or without a size.
    pub fn of(case: &Case) -> Option<Self> {
        let number = |key| case.number(key).and_then(|n| usize::try_from(n).ok());
        let site = MemorySite::of(case);
        (case.benchmark() == "memory.latency" && site.size > 0).then(|| Self {
            chases: number("chases").unwrap_or(1),
            group: number("group").unwrap_or(CHASE_GROUP as usize),
            site,
        })
    }
}

/// A case of `memory.block`: passes over the blocks of a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockJob {
    /// Operation on each block.
    pub op: BlockOp,
    /// Order of the blocks.
    pub order: BlockTraversal,
    /// Bytes per block; 0 if the case names no block.
    pub block: u64,
    /// Name of a kernel, or [`BEST_VARIANT`].
    pub variant: String,
    /// Fixed amount per sample, a volume or a number of blocks.
    pub amount: Option<TransferAmount>,
    /// Scope of the fixed amount.
    pub scaling: Scaling,
    /// Threads and memory.
    pub site: MemorySite,
}

impl BlockJob {
    /// Reads a `memory.block` case; sequential reads by default. Fails for an unknown word.
    pub fn of(case: &Case) -> Result<Self, String> {
        Ok(Self {
            op: meaning(case, "op", BLOCK_OPS, BlockOp::Read)?,
            order: meaning(case, "pattern", BLOCK_ORDERS, BlockTraversal::Sequential)?,
            block: case.number("block").unwrap_or(0),
            variant: case.word("variant").unwrap_or(BEST_VARIANT).to_owned(),
            amount: case.number("volume").map(Bytes).or(case.number("count").map(Transfers)),
            scaling: scaling(case)?,
            site: MemorySite::of(case),
        })
    }

    /// Returns whether a block is a single access: 1 to 8 bytes.
    pub fn is_small(&self) -> bool {
        (1..=8).contains(&self.block)
    }

    /// Returns the bytes read plus the bytes written per block.
    pub fn bytes_per_block(&self) -> u64 {
        self.block.saturating_mul(self.op.regions() as u64)
    }

    /// Returns how many blocks a sample has, by `scaling` per thread or in total, if fixed.
    pub fn fixed_blocks(&self) -> Option<u64> {
        Some(match self.amount? {
            Bytes(bytes) => bytes / self.bytes_per_block().max(1),
            Transfers(blocks) => blocks,
        })
    }
}

/// A case of `memory.numa`: loads or reads from each NUMA node to each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumaJob {
    /// Whether dependent loads are timed instead of reads.
    pub latency: bool,
    /// Memory of each node.
    pub site: MemorySite,
}

impl NumaJob {
    /// Reads a `memory.numa` case; reads by default and for an unknown operation.
    pub fn of(case: &Case) -> Self {
        Self { latency: meaning(case, "op", NUMA_OPS, false) == Ok(true), site: MemorySite::of(case) }
    }
}

/// Returns the kind of pages that a case names; `None` if it names none or unknown ones.
pub fn read_pages(case: &Case) -> Option<Pages> {
    let word = case.word("pages")?;
    let small = SMALL_PAGES.iter().map(|(name, _)| (*name, Pages::Small));
    small.chain(LARGE_PAGES.iter().copied()).find(|(name, _)| *name == word).map(|(_, pages)| pages)
}
