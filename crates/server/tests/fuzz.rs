//! The fuzz targets as plain tests: the corpus, and seeded mutations. `make fuzz` uses coverage.
#![allow(clippy::unwrap_used)]

#[path = "../../check/tests/fuzz/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const TRIES: usize = 2000;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15, "the corpus is there");
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn drive(name: &str, seed: u64, target: fn(&[u8])) {
    let corpus = corpus(name);
    corpus.iter().for_each(|bytes| target(bytes));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    (0..TRIES).for_each(|_| target(&mutation::changed(&corpus, &[""], &mut below)));
}

#[test]
fn frames_before_the_handshake_are_read_or_refused() {
    drive("before-handshake", 1, targets::before_handshake);
}

#[test]
fn frames_after_the_handshake_are_read_or_refused() {
    drive("after-handshake", 2, targets::after_handshake);
}
