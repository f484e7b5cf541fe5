//! Measures a machine's CPU, memory, disk and network, and compares results with their limits.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → history →
//! report. Each step is a crate (`docs/src/architecture.md`); `app` has one file per command.
#![forbid(unsafe_code)]

pub mod app;
mod failure;
pub mod output;
