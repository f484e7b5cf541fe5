use plimsoll_model::sample::CaseFact;

pub(super) const THREAD_BYTES: CaseFact<u64> = CaseFact::new("size", "bytes that each thread works on");
pub(crate) const LEVEL: CaseFact<String> =
    CaseFact::new("level", "what should answer by the size: a cache, or memory");
pub(super) const CPUS: CaseFact<Vec<usize>> = CaseFact::new("cpus", "the CPU of each thread");
pub(super) const CHASE_CPU: CaseFact<Vec<usize>> = CaseFact::new("cpu", "the CPU of the chase");
pub(super) const VARIANT: CaseFact<String> =
    CaseFact::new("variant", "the quickest kernel here, which was measured");
pub(super) const DRAW_SECONDS_PER_BLOCK: CaseFact<f64> = CaseFact::new(
    "draw_seconds_per_block",
    "seconds to draw the place of a block, which are not in the figure",
);
pub(super) const TOUCHED_BYTES: CaseFact<u64> =
    CaseFact::new("touched_bytes", "bytes of the lines that the chase touches");
pub(super) const STRIDE: CaseFact<u64> =
    CaseFact::new("stride", "bytes from one node of the chase to the next in memory");
pub(crate) const EFFECTIVE_CACHE: CaseFact<String> =
    CaseFact::new("effective_cache", "how much of the last cache there really is, where that was measured");
pub(super) const MEMORY_NODES: CaseFact<Vec<usize>> =
    CaseFact::new("memory_nodes", "NUMA nodes that the memory lies on");
pub(super) const CPU_NODES: CaseFact<Vec<usize>> = CaseFact::new("cpu_nodes", "NUMA nodes of the CPUs");
pub(super) const LOAD_VARIANT: CaseFact<String> = CaseFact::new("load_variant", "the kernel of the load");
pub(super) const LOAD_BYTES: CaseFact<u64> =
    CaseFact::new("load_bytes", "bytes that each thread of the load goes over");
pub(super) const LOAD_CPUS: CaseFact<Vec<usize>> =
    CaseFact::new("load_cpus", "the CPU of each thread of the load");
