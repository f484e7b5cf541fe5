//! plimsoll measures a machine's CPU, memory, disk and network, and says for every figure how far it is from its limit.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → store → report.
//! Each of these is a crate of its own, which `docs/architecture.md` draws: here they are put together, a file a command (`app`).
#![forbid(unsafe_code)]

pub mod app;
pub mod output;

pub use plimsoll_bench as bench;
pub use plimsoll_bench::label;
pub use plimsoll_check as check;
pub use plimsoll_cluster as cluster;
pub use plimsoll_command::{cli, resolve};
pub use plimsoll_compare as compare;
pub use plimsoll_doctor as doctor;
pub use plimsoll_gate as gate;
pub use plimsoll_history as store;
pub use plimsoll_machine as machine;
pub use plimsoll_model::{case, limit, measurement, plan, sample, warning};
pub use plimsoll_output::report;
pub use plimsoll_published as published;
pub use plimsoll_reference as peer;
pub use plimsoll_result::{document, evaluate, event, finding, fleet};
pub use plimsoll_run as run;
pub use plimsoll_run::{clock, worker};
pub use plimsoll_server::{serve, traffic, wire};
pub use plimsoll_system::{leftover, program, random, wall};
pub use plimsoll_units::{quantity, text};
pub use plimsoll_watch as watch;

#[cfg(test)]
use plimsoll_result::fixture;
