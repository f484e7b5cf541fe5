//! Jobs: the parameters of a case as typed values.

pub mod cpu;
pub mod disk;
pub mod memory;
pub mod mpi;
pub mod network;
pub mod os;
mod word;

pub use memory::{ArrayLayout, BlockJob, MemorySite, MemoryStream, NumaJob, PointerChase};

use serde::{Deserialize, Serialize};

use crate::case::{Case, find_word};

/// Scope of a fixed amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scaling {
    /// Per thread: the work grows with the threads.
    Weak,
    /// In total: the work is divided among the threads.
    Strong,
}

/// Returns the case's scaling: fixed work per thread (weak, default) or in total; else fails.
pub fn scaling(case: &Case) -> Result<Scaling, String> {
    meaning(case, "scaling", &[("weak", Scaling::Weak), ("strong", Scaling::Strong)], Scaling::Weak)
}

/// Returns the value of the case's word `key` in `known`; `default` without it. Fails if unknown.
fn meaning<T: Copy>(case: &Case, key: &str, known: &[(&'static str, T)], default: T) -> Result<T, String> {
    case.word(key).map_or(Ok(default), |given| Ok(find_word(key, given, known)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_is_weak_unless_it_is_strong() {
        let case = Case::of("disk.io");
        assert_eq!(scaling(&case), Ok(Scaling::Weak));
        assert_eq!(scaling(&case.clone().with_word("scaling", "strong")), Ok(Scaling::Strong));
        assert!(scaling(&case.with_word("scaling", "amdahl")).is_err());
    }
}
