//! Files of a case: filled, shared by the cases of a run, lent to reference tools.

pub(crate) mod case_files;
pub(crate) mod file;
pub(crate) mod fill;
pub(crate) mod precondition;
pub(crate) mod tool_files;
pub(crate) mod trim;
