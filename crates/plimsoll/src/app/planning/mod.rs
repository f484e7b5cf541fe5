//! Built-in plans and plan files: list, generation.

pub(crate) mod generate;
pub(crate) mod plans;
