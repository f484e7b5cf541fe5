//! Direct or buffered access to a file or device.

use rustix::fs::OFlags;

use plimsoll_model::job::disk::CacheMode;

/// Use of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCacheMode {
    /// Bypassed with `O_DIRECT`.
    Direct,
    /// Used.
    Buffered,
}

impl From<CacheMode> for PageCacheMode {
    fn from(mode: CacheMode) -> Self {
        match mode {
            CacheMode::Direct => Self::Direct,
            CacheMode::Buffered | CacheMode::Cold => Self::Buffered,
        }
    }
}

impl PageCacheMode {
    pub(super) fn open_flags(self) -> OFlags {
        match self {
            PageCacheMode::Direct => OFlags::DIRECT,
            PageCacheMode::Buffered => OFlags::empty(),
        }
    }
}
