//! This process and its files: program, trusted paths, cleanup, random bytes, wall clock.
#![forbid(unsafe_code)]

pub mod leftover;
pub mod links;
pub mod program;
pub mod random;
pub mod trust;
pub mod wall;

use plimsoll_units::text;
