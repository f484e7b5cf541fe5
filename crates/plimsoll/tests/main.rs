//! All integration tests in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod disk;
mod layering;
mod network;
mod support;
