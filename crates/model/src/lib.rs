//! Plain, serialisable values that plimsoll's crates exchange: plans, cases, limits, results.
#![forbid(unsafe_code)]

pub mod case;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub mod job;
pub mod limit;
pub mod measurement;
pub mod metric;
pub mod place;
pub mod plan;
pub mod sample;
pub mod view;
pub mod warning;
pub mod words;
