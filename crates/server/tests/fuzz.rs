//! The fuzz targets as plain tests: the corpus, and seeded mutations. `make fuzz` uses coverage.
#![allow(clippy::unwrap_used)]

#[path = "../../check/tests/fuzz/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

const TRIES: usize = 2000;

fn drive(name: &str, seed: u64, target: fn(&[u8])) {
    let corpus = mutation::corpus(&[&format!("../../fuzz/corpus/{name}")]);
    assert!(corpus.len() >= 15, "the corpus is there");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    mutation::drive(&corpus, &[""], TRIES, || rng.next_u64(), target);
}

#[test]
fn frames_before_the_handshake_are_read_or_refused() {
    drive("before-handshake", 1, targets::before_handshake);
}

#[test]
fn frames_after_the_handshake_are_read_or_refused() {
    drive("after-handshake", 2, targets::after_handshake);
}
