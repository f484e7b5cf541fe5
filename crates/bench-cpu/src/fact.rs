use plimsoll_model::sample::CaseFact;

pub(super) const KERNEL: CaseFact<String> = CaseFact::new("kernel");
pub(crate) const CPUS: CaseFact<Vec<usize>> = CaseFact::new("cpus");
pub(super) const WORK: CaseFact<u64> = CaseFact::new("work");
/// Columns of a block of A, rows of a strip of B.
pub(super) const CHAIN_DEPTH: CaseFact<usize> = CaseFact::new("depth");
pub(super) const ROWS: CaseFact<usize> = CaseFact::new("rows");
pub(super) const MEASURED_PAIRS: CaseFact<usize> = CaseFact::new("pairs");
pub(super) const NB: CaseFact<usize> = CaseFact::new("nb");
/// Bytes of the matrix and of the working memory.
pub(super) const BYTES: CaseFact<usize> = CaseFact::new("bytes");
