use plimsoll_model::sample::Fact;

pub(super) const KERNEL: Fact<String> = Fact::new("kernel", "the kernel that ran");
pub(crate) const CPUS: Fact<Vec<usize>> = Fact::new("cpus", "the CPUs that threads ran on");
pub(super) const WORK: Fact<u64> = Fact::new("work", "operations of each sample, over all threads");
pub(super) const DEPTH: Fact<usize> = Fact::new("depth", "columns of a block of A, rows of a strip of B");
pub(super) const ROWS: Fact<usize> = Fact::new("rows", "rows of a block of A");
pub(super) const PAIRS: Fact<usize> = Fact::new("pairs", "pairs of CPUs that are measured");
pub(super) const NB: Fact<usize> = Fact::new("nb", "columns of a panel");
pub(super) const BYTES: Fact<usize> = Fact::new("bytes", "bytes of the matrix and of the working memory");
