//! Files of a case: filled, shared by the cases of a run, lent to reference tools.

mod case_files;
mod file;
mod fill;
mod precondition;
mod tool_files;
mod trim;

pub(crate) use case_files::{CaseFiles, renewal};
pub(crate) use file::{
    Filled, check_not_in_memory, check_test_dir, memory_warning, named_file_warning, requested_size,
};
pub(crate) use fill::{CHUNK, refill};
pub(crate) use tool_files::ToolFiles;
