//! plimsoll measures a machine's CPU, memory, disk and network, and says for every figure how far it is from its limit.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → store → report.
//! Each of these is a crate of its own, which `docs/architecture.md` draws: here they are put together, a file a command (`app`).
#![forbid(unsafe_code)]

pub mod app;
pub mod output;
