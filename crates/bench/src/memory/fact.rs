//! What memory cases tell of themselves.

use crate::sample::Fact;

/// Bytes worked on.
pub(super) const SIZE: Fact<u64> = Fact::new("size", "bytes that each thread works on");
/// Where they are by their size.
pub(crate) const LEVEL: Fact<String> =
    Fact::new("level", "what should answer by the size: a cache, or memory");
/// Where the threads ran.
pub(super) const CPUS: Fact<Vec<usize>> = Fact::new("cpus", "the CPU of each thread");
/// Where a chase ran.
pub(super) const CPU: Fact<Vec<usize>> = Fact::new("cpu", "the CPU of the chase");
/// The kernel that ran.
pub(super) const VARIANT: Fact<String> = Fact::new("variant", "the quickest kernel here, which was measured");
/// What a random order takes.
pub(super) const DRAW_SECONDS_PER_BLOCK: Fact<f64> =
    Fact::new("draw_seconds_per_block", "seconds to draw the place of a block, which are not in the figure");
/// Bytes of lines.
pub(super) const TOUCHED_BYTES: Fact<u64> =
    Fact::new("touched_bytes", "bytes of the lines that the chase touches");
/// Between nodes of a chase.
pub(super) const STRIDE: Fact<u64> =
    Fact::new("stride", "bytes from one node of the chase to the next in memory");
/// Bytes in huge pages.
pub(super) const HUGE_BYTES: Fact<u64> = Fact::new("huge_bytes", "bytes that lie in huge pages");
/// The pages that the kernel gave.
pub(super) const PAGES: Fact<String> = Fact::new("pages", "pages that the kernel gave");
/// What of a cache there is.
pub(crate) const EFFECTIVE_CACHE: Fact<String> =
    Fact::new("effective_cache", "how much of the last cache there really is, where that was measured");
/// Nodes of memory.
pub(super) const MEMORY_NODES: Fact<Vec<usize>> =
    Fact::new("memory_nodes", "NUMA nodes that the memory lies on");
/// Nodes of CPUs.
pub(super) const CPU_NODES: Fact<Vec<usize>> = Fact::new("cpu_nodes", "NUMA nodes of the CPUs");
/// The kernel of a load.
pub(super) const LOAD_VARIANT: Fact<String> = Fact::new("load_variant", "the kernel of the load");
/// Bytes of a load.
pub(super) const LOAD_BYTES: Fact<u64> =
    Fact::new("load_bytes", "bytes that each thread of the load goes over");
/// Where a load ran.
pub(super) const LOAD_CPUS: Fact<Vec<usize>> = Fact::new("load_cpus", "the CPU of each thread of the load");
