//! From samples to results: measurements (`evaluate`), the run document (`document`), conclusions
//! (`finding`), runs of several nodes (`fleet`) and events of the run loop (`event`).
#![forbid(unsafe_code)]

pub mod document;
pub mod evaluate;
pub mod event;
pub mod finding;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub mod fleet;
