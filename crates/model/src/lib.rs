//! The plain, serialisable values that cross plimsoll from left to right: what is asked for (`plan`), a point of the matrix
//! and its parameters (`case`), typed (`job`), and where its threads run (`place`), what was measured (`sample`) and what the reader must know
//! of it (`warning`), what bounds it (`limit`), and what follows of all of these (`measurement`, `view`). What a benchmark says
//! of itself are rows (`metric`, `words`); no benchmark is known here but by name in the help of parameters.
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

use plimsoll_machine as machine;
use plimsoll_stats as stats;
use plimsoll_units::{quantity, text};
