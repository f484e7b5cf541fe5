//! Plain, serialisable values that plimsoll's crates exchange: requests (`plan`), cases (`case`),
//! their typed parameters (`job`) and CPUs (`place`), measured values (`sample`) with their caveats
//! (`warning`) and limits (`limit`), and results (`measurement`, `view`). Benchmarks describe
//! themselves in rows (`metric`, `words`).
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
