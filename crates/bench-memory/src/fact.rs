//! Facts that memory cases record.

use plimsoll_model::sample::Fact;

pub(super) const SIZE: Fact<u64> = Fact::new("size", "bytes that each thread works on");
pub(crate) const LEVEL: Fact<String> =
    Fact::new("level", "what should answer by the size: a cache, or memory");
pub(super) const CPUS: Fact<Vec<usize>> = Fact::new("cpus", "the CPU of each thread");
pub(super) const CPU: Fact<Vec<usize>> = Fact::new("cpu", "the CPU of the chase");
pub(super) const VARIANT: Fact<String> = Fact::new("variant", "the quickest kernel here, which was measured");
pub(super) const DRAW_SECONDS_PER_BLOCK: Fact<f64> =
    Fact::new("draw_seconds_per_block", "seconds to draw the place of a block, which are not in the figure");
pub(super) const TOUCHED_BYTES: Fact<u64> =
    Fact::new("touched_bytes", "bytes of the lines that the chase touches");
pub(super) const STRIDE: Fact<u64> =
    Fact::new("stride", "bytes from one node of the chase to the next in memory");
pub(crate) const EFFECTIVE_CACHE: Fact<String> =
    Fact::new("effective_cache", "how much of the last cache there really is, where that was measured");
pub(super) const MEMORY_NODES: Fact<Vec<usize>> =
    Fact::new("memory_nodes", "NUMA nodes that the memory lies on");
pub(super) const CPU_NODES: Fact<Vec<usize>> = Fact::new("cpu_nodes", "NUMA nodes of the CPUs");
pub(super) const LOAD_VARIANT: Fact<String> = Fact::new("load_variant", "the kernel of the load");
pub(super) const LOAD_BYTES: Fact<u64> =
    Fact::new("load_bytes", "bytes that each thread of the load goes over");
pub(super) const LOAD_CPUS: Fact<Vec<usize>> = Fact::new("load_cpus", "the CPU of each thread of the load");
