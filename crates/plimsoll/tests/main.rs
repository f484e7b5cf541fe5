//! All integration tests in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cli;
mod disk;
mod faults;
mod layering;
mod memory;
mod network;
mod peers;
mod quick;
mod quota;
mod store;
mod support;
