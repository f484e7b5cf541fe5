//! Measures a machine's CPU, memory, disk and network, and compares every result with its
//! theoretical limit.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → history →
//! report. Each step is a crate (see `docs/src/architecture.md`); here they are combined, one file
//! per command (`app`).
#![forbid(unsafe_code)]

pub mod app;
pub mod output;
