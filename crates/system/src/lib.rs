//! This process and its files, whatever it measures: its own program, whose programs and links are trusted, what a killed
//! run leaves behind, random bytes, the wall clock.
#![forbid(unsafe_code)]

pub mod leftover;
pub mod links;
pub mod program;
pub mod random;
pub mod trust;
pub mod wall;

use plimsoll_units::text;
