//! Built-in plans and plan files: list, menu, generation.

pub(crate) mod generate;
pub(crate) mod plan_menu;
pub(crate) mod plans;
