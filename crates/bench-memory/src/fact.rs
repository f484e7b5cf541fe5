use plimsoll_model::sample::CaseFact;

pub(super) const THREAD_BYTES: CaseFact<u64> = CaseFact::new("size");
/// Cache or memory that answers, by the size.
pub(crate) const LEVEL: CaseFact<String> = CaseFact::new("level");
pub(super) const CPUS: CaseFact<Vec<usize>> = CaseFact::new("cpus");
pub(super) const CHASE_CPU: CaseFact<Vec<usize>> = CaseFact::new("cpu");
pub(super) const VARIANT: CaseFact<String> = CaseFact::new("variant");
/// Seconds to choose the place of a block, which are not in the figure.
pub(super) const DRAW_SECONDS_PER_BLOCK: CaseFact<f64> = CaseFact::new("draw_seconds_per_block");
pub(super) const TOUCHED_BYTES: CaseFact<u64> = CaseFact::new("touched_bytes");
pub(super) const STRIDE: CaseFact<u64> = CaseFact::new("stride");
/// Measured size of the last-level cache.
pub(crate) const EFFECTIVE_CACHE: CaseFact<String> = CaseFact::new("effective_cache");
pub(super) const MEMORY_NODES: CaseFact<Vec<usize>> = CaseFact::new("memory_nodes");
pub(super) const CPU_NODES: CaseFact<Vec<usize>> = CaseFact::new("cpu_nodes");
pub(super) const LOAD_VARIANT: CaseFact<String> = CaseFact::new("load_variant");
pub(super) const LOAD_BYTES: CaseFact<u64> = CaseFact::new("load_bytes");
pub(super) const LOAD_CPUS: CaseFact<Vec<usize>> = CaseFact::new("load_cpus");
