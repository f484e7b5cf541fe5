//! Fuzz target of job files as a plain test: the corpus, and a bounded number of seeded changes to
//! it. `make fuzz` runs the same function guided by coverage.
#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/job_files.rs"]
mod job_files;
#[path = "../../check/tests/fuzz/mutation.rs"]
mod mutation;

use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const TRIES: usize = 500;

const WORDS: &str = "=|\n|:|/|,|%|[|]|${X}|$ncpus|include self\n|-|k|99999999999999999999|0|\u{1b}|\
    bssplit=4k/50:8k\n|rw=randrw:8\n|size=50%\n|[global]\n|stonewall\n|numjobs=64\n|filename=/dev/vdb\n";

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/job-file");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "the corpus is there");
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn job_files_are_read_or_refused() {
    let corpus = corpus();
    let words: Vec<&str> = WORDS.split('|').collect();
    corpus.iter().for_each(|bytes| job_files::job_file(bytes));
    let mut rng = SmallRng::seed_from_u64(3);
    let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    (0..TRIES).for_each(|_| job_files::job_file(&mutation::changed(&corpus, &words, &mut below)));
}
