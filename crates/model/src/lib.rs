//! The plain, serialisable values that cross plimsoll from left to right: what is asked for (`plan`), a point of the matrix
//! and its parameters (`case`), what was measured (`sample`), and what the reader must know of it (`warning`).
#![forbid(unsafe_code)]

pub mod case;
pub mod plan;
pub mod sample;
pub mod warning;

use plimsoll_stats as stats;
use plimsoll_units::{quantity, text};
