//! The fuzz target as a plain test, with a bounded number of seeded mutations of the corpus.
#![allow(clippy::unwrap_used)]

#[path = "fuzz/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/results.rs"]
mod results;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use proptest::prelude::*;

const TRIES: usize = 1500;

const WORDS: &[&str] =
    &["0", "-1", "1e308", "1e999", "-nan", "null", "\"\"", "{}", "[]", "18446744073709551616", "\\u001b"];

#[test]
fn results_are_read_or_refused() {
    let corpus = mutation::corpus(&["tests/corpus", "tests/tools"]);
    assert!(corpus.len() >= 40);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    mutation::drive(&corpus, WORDS, TRIES, || rng.next_u64(), results::results);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_survived(text in "\\PC{0,300}") {
        results::results(text.as_bytes());
    }

    #[test]
    fn a_rate_that_follows_from_bytes_and_seconds_is_not_contradicted(
        bytes in 1_u64..1_000_000_000_000, micros in 1000_u64..100_000_000_000,
    ) {
        let seconds = micros as f64 * 1e-6;
        let rate = bytes as f64 * 8.0 / seconds;
        let text = format!(
            "{{\"start\": {{\"version\": \"iperf 3.9\", \"test_start\": {{\"protocol\": \"TCP\", \"num_streams\": 1}}}}, \
             \"end\": {{\"sum_received\": {{\"seconds\": {seconds}, \"bytes\": {bytes}, \"bits_per_second\": {rate}}}}}}}"
        );
        let stated = plimsoll_reference::stated::read(&text, None).unwrap();
        let root = plimsoll_machine::Root::at("/nonexistent");
        let machine = plimsoll_machine::Machine::discover(&root);
        let place = plimsoll_check::CheckedMachine { machine: &machine, root: &root, is_named: true, limits: &plimsoll_model::limit::user::UserLimits::default() };
        let row = plimsoll_check::check("x", None, &stated, &place).rows.remove(0);
        prop_assert_eq!(row.cause, None, "{}", row.reason);
    }
}
