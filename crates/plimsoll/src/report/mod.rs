//! What a person or a program sees of a run: one format a file, nothing is measured or decided here.

pub mod json;
pub mod machine;
#[cfg(test)]
mod schema_tests;
