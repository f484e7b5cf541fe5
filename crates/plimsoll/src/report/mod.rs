//! What a person or a program sees of a run: one format a file, nothing is measured or decided here.

mod context;
mod group;
pub mod history;
pub mod json;
pub mod kernels;
mod label;
pub mod machine;
mod machines;
mod out;
pub mod peers;
mod progress;
pub mod published;
mod row;
#[cfg(test)]
mod schema_tests;
mod style;
mod table;
pub mod terminal;
#[cfg(test)]
mod terminal_tests;
mod wrap;

pub use style::{Style, Wishes};
