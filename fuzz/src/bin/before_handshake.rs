//! Fuzzes messages of an unauthenticated peer; see `targets.rs`.
#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::before_handshake(bytes));
