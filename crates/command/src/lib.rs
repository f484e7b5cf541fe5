//! The command line as typed (`cli`), and its resolution to a plan and cases (`resolve`).
#![forbid(unsafe_code)]

pub mod cli;
pub mod resolve;
