//! plimsoll measures a machine's CPU, memory, disk and network, and says for every figure how far it is from its limit.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → store → report.
//! `docs/architecture.md` draws it; `tests/layering.rs` holds it.
#![forbid(unsafe_code)]

pub mod app;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod compare;
pub mod doctor;
pub mod document;
pub mod evaluate;
pub mod event;
pub mod finding;
#[cfg(test)]
mod fixture;
pub mod output;
pub mod peer;
pub mod published;
pub mod report;
pub mod resolve;
pub mod run;
pub mod store;
pub mod worker;

pub use plimsoll_bench as bench;
pub use plimsoll_bench::label;
pub use plimsoll_machine as machine;
pub use plimsoll_model::{case, limit, measurement, metric, place, plan, sample, view, warning, words};
pub use plimsoll_server::{serve, traffic, wire};
pub use plimsoll_stats as stats;
pub use plimsoll_system::{leftover, links, program, random, trust, wall};
pub use plimsoll_units::{quantity, text};
