//! Fuzz target of job files as a plain test: the corpus, and a bounded number of seeded changes to
//! it. `make fuzz` runs the same function guided by coverage.
#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/job_files.rs"]
mod job_files;

use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const TRIES: usize = 500;

const WORDS: &[&str] = &[
    "=",
    "\n",
    ":",
    "/",
    ",",
    "%",
    "[",
    "]",
    "${X}",
    "$ncpus",
    "include self\n",
    "-",
    "k",
    "99999999999999999999",
    "0",
    "\u{1b}",
    "bssplit=4k/50:8k\n",
    "rw=randrw:8\n",
    "size=50%\n",
    "[global]\n",
    "stonewall\n",
    "numjobs=64\n",
    "filename=/dev/vdb\n",
];

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
    corpus.iter().for_each(|bytes| job_files::job_file(bytes));
    let mut rng = SmallRng::seed_from_u64(3);
    let mut below = move |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    for _ in 0..TRIES {
        let mut bytes = corpus[below(corpus.len())].clone();
        for _ in 0..=below(5) {
            let at = below(bytes.len() + 1);
            let end = (at + 1 + below(16)).min(bytes.len());
            match below(4) {
                0 => drop(bytes.drain(at..end.max(at))),
                1 => drop(bytes.splice(at..at, WORDS[below(WORDS.len())].bytes())),
                2 => {
                    let other = &corpus[below(corpus.len())];
                    let from = below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend(&other[from..]);
                }
                _ if at < bytes.len() => bytes[at] = below(256) as u8,
                _ => {}
            }
        }
        job_files::job_file(&bytes);
    }
}
