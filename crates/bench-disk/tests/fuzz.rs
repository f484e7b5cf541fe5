//! Fuzz target of job files as a plain test: the corpus, and a bounded number of seeded changes to
//! it. `make fuzz` runs the same function guided by coverage.
#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/job_files.rs"]
mod job_files;
#[path = "../../check/tests/fuzz/mutation.rs"]
mod mutation;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const TRIES: usize = 500;

const WORDS: &str = "=|\n|:|/|,|%|[|]|${X}|$ncpus|include self\n|-|k|99999999999999999999|0|\u{1b}|\
    bssplit=4k/50:8k\n|rw=randrw:8\n|size=50%\n|[global]\n|stonewall\n|numjobs=64\n|filename=/dev/vdb\n";

#[test]
fn job_files_are_read_or_refused() {
    let corpus = mutation::corpus(&["../../fuzz/corpus/job-file"]);
    assert!(corpus.len() >= 10, "the corpus is there");
    let words: Vec<&str> = WORDS.split('|').collect();
    let mut rng = SmallRng::seed_from_u64(3);
    mutation::drive(&corpus, &words, TRIES, || rng.next_u64(), job_files::job_file);
}
