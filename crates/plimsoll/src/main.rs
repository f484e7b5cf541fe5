//! The command line: parse, plan, run, report, exit code.
#![forbid(unsafe_code)]
fn main() {}
