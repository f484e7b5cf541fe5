//! Cases of the memory benchmarks.

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::place::Threads;
use plimsoll_metal::buffer::Pages;
use plimsoll_metal::stream::StreamOp;

/// Names of the pages of ordinary memory, with their bytes: a kernel has one of them. AArch64 has all three.
pub const SMALL_PAGES: &[(&str, u64)] = &[("4k", 4 << 10), ("16k", 16 << 10), ("64k", 64 << 10)];
/// Name of transparent huge pages.
pub const THP: &str = "thp";
/// Names of the larger pages.
pub const LARGE_PAGES: &[(&str, Pages)] = &[(THP, Pages::Thp), ("2m", Pages::Huge2M), ("1g", Pages::Huge1G)];
/// The variant of a case that leaves the kernel open: the fastest is tried out.
pub const BEST: &str = "best";
/// Bytes within which a pointer chase stays before it goes on, by default: 64 small pages.
///
/// The nearest translation buffers hold that many. Small pages also for huge ones, because a hypervisor may hold those in
/// small ones beneath.
pub const CHASE_GROUP: u64 = 64 * 4096;

/// Threads, the memory that each works on, and where it lies: a part of each memory benchmark's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemorySite {
    /// Their number and CPUs.
    pub threads: Threads,
    /// Bytes of each thread; 0 where another tool's result does not say.
    pub size: u64,
    /// Pages that are asked for.
    pub pages: Pages,
    /// The NUMA node that is asked for; each thread's own without.
    pub node: Option<usize>,
}

impl MemorySite {
    /// That of a case.
    pub fn of(case: &Case) -> Self {
        Self {
            threads: Threads::of(case),
            size: case.number("size").unwrap_or(0),
            pages: case.word("pages").and_then(pages_named).unwrap_or(Pages::Thp),
            node: case.number("node").and_then(|node| usize::try_from(node).ok()),
        }
    }

    /// Bytes of all threads.
    pub fn total(&self) -> u64 {
        self.size.saturating_mul(self.threads.count as u64)
    }
}

/// Whose arrays the threads pass over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrayLayout {
    /// Each thread has arrays of its own.
    Private,
    /// One set of arrays, as large as all private ones together; each thread works on a part of it.
    Shared,
}

/// A case of `memory.bandwidth`: passes over arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryStream {
    /// What a pass does.
    pub op: StreamOp,
    /// A kernel, or [`BEST`].
    pub variant: String,
    /// Whose the arrays are.
    pub layout: ArrayLayout,
    /// Its threads and memory.
    pub site: MemorySite,
}

impl MemoryStream {
    /// That of a case.
    ///
    /// # Errors
    /// The case is of another benchmark or without a size, or its operation is unknown.
    pub fn of(case: &Case) -> Result<Self, String> {
        let is_ours = case.benchmark() == "memory.bandwidth";
        let op = case.word("op").filter(|_| is_ours).and_then(|op| op.parse().ok());
        let shared = case.word("layout") == Some("shared");
        let site = MemorySite::of(case);
        if site.size == 0 {
            return Err("the case has no size".to_owned());
        }
        Ok(Self {
            op: op.ok_or("the operation is unknown")?,
            variant: case.word("variant").unwrap_or(BEST).to_owned(),
            layout: if shared { ArrayLayout::Shared } else { ArrayLayout::Private },
            site,
        })
    }
}

/// A case of `memory.latency`: loads of which each needs the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointerChase {
    /// Chains of dependent loads at once.
    pub chases: usize,
    /// Bytes that the cycle stays within before it goes on.
    pub group: usize,
    /// Its thread and memory.
    pub site: MemorySite,
}

impl PointerChase {
    /// That of a case; `None` where it is of another benchmark or without a size.
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

/// The pages of a word in a case.
pub fn pages_named(word: &str) -> Option<Pages> {
    let small = SMALL_PAGES.iter().map(|(name, _)| (*name, Pages::Small));
    small.chain(LARGE_PAGES.iter().copied()).find(|(name, _)| *name == word).map(|(_, pages)| pages)
}
