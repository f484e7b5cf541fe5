//! Fuzzes fio job files; see `job_files.rs`.
#![no_main]

#[path = "../job_files.rs"]
mod job_files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| job_files::job_file(bytes));
