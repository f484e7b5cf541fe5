//! Fuzzes results of other tools; see `results.rs`.
#![no_main]

#[path = "../results.rs"]
mod results;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| results::results(bytes));
