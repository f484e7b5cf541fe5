//! plimsoll measures a machine's CPU, memory, disk and network, and says for every figure how far it is from its limit.
//!
//! Data flows one way: arguments → plan → cases → samples → limits → measurements → run → store → report.
//! `docs/architecture.md` draws it; `tests/layering.rs` holds it.
#![forbid(unsafe_code)]

pub mod machine;
pub mod quantity;
pub mod stats;
pub mod text;
