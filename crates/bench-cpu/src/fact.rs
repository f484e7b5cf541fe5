use plimsoll_model::sample::CaseFact;

pub(super) const KERNEL: CaseFact<String> = CaseFact::new("kernel", "the kernel that ran");
pub(crate) const CPUS: CaseFact<Vec<usize>> = CaseFact::new("cpus", "the CPUs that threads ran on");
pub(super) const WORK: CaseFact<u64> = CaseFact::new("work", "operations of each sample, over all threads");
pub(super) const CHAIN_DEPTH: CaseFact<usize> =
    CaseFact::new("depth", "columns of a block of A, rows of a strip of B");
pub(super) const ROWS: CaseFact<usize> = CaseFact::new("rows", "rows of a block of A");
pub(super) const MEASURED_PAIRS: CaseFact<usize> = CaseFact::new("pairs", "pairs of CPUs that are measured");
pub(super) const NB: CaseFact<usize> = CaseFact::new("nb", "columns of a panel");
pub(super) const BYTES: CaseFact<usize> =
    CaseFact::new("bytes", "bytes of the matrix and of the working memory");
