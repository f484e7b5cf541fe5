//! plimsoll measures a machine's CPU, memory, disk and network, and says for every figure how far it is from its limit.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → store → report.
//! `docs/architecture.md` draws it; `tests/layering.rs` holds it.
#![forbid(unsafe_code)]

pub mod app;
pub mod output;

pub use plimsoll_bench as bench;
pub use plimsoll_bench::label;
pub use plimsoll_cluster as cluster;
pub use plimsoll_command::{cli, resolve};
pub use plimsoll_compare as compare;
pub use plimsoll_doctor as doctor;
pub use plimsoll_history as store;
pub use plimsoll_machine as machine;
pub use plimsoll_model::{case, limit, measurement, metric, place, plan, sample, view, warning, words};
pub use plimsoll_output::report;
pub use plimsoll_published as published;
pub use plimsoll_reference as peer;
pub use plimsoll_result::{document, evaluate, event, finding};
pub use plimsoll_run as run;
pub use plimsoll_run::{clock, worker};
pub use plimsoll_server::{serve, traffic, wire};
pub use plimsoll_stats as stats;
pub use plimsoll_system::{leftover, links, program, random, trust, wall};
pub use plimsoll_units::{quantity, text};

#[cfg(test)]
use plimsoll_result::fixture;
