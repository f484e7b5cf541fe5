//! Warnings of several subsystems.

use std::fmt;

use plimsoll_model::warning::Warn;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PagesDiffer {
    pub(crate) wanted: &'static str,
    pub(crate) got: String,
}

impl Warn for PagesDiffer {
    fn code(&self) -> &'static str {
        "pages-differ"
    }
}

impl fmt::Display for PagesDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, got } = self;
        write!(
            f,
            "the kernel gave {got} instead of {wanted} pages; see /sys/kernel/mm/transparent_hugepage/enabled"
        )
    }
}
