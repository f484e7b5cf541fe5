//! plimsoll measures a machine's CPU, memory, disk and network, and says for every figure how far it is from its limit.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → store → report.
//! `docs/architecture.md` draws it; `tests/layering.rs` holds it.
#![forbid(unsafe_code)]

pub mod app;
pub mod bench;
pub mod case;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod compare;
pub mod doctor;
pub mod document;
pub mod event;
pub mod finding;
#[cfg(test)]
mod fixture;
pub mod label;
pub mod leftover;
pub mod limit;
pub mod links;
pub mod measurement;
pub mod output;
pub mod peer;
pub mod place;
pub mod plan;
pub mod program;
pub mod published;
pub mod random;
pub mod report;
pub mod resolve;
pub mod run;
pub mod sample;
pub mod serve;
pub mod store;
pub mod traffic;
pub mod trust;
pub mod wall;
pub mod warning;
pub mod wire;
pub mod worker;

pub use plimsoll_machine as machine;
pub use plimsoll_stats as stats;
pub use plimsoll_units::{quantity, text};
