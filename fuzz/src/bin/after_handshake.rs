//! Fuzzes messages of an authenticated peer; see `targets.rs`.
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::after_handshake(bytes));
