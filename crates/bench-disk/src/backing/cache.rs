//! How a file or device is opened: past the page cache, or through it.

use plimsoll_model::job::disk::CacheMode;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// Whether the page cache stands between the case and the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// Bypassed with `O_DIRECT`.
    Direct,
    /// Used.
    Buffered,
}

impl From<CacheMode> for Cache {
    fn from(mode: CacheMode) -> Self {
        match mode {
            CacheMode::Direct => Self::Direct,
            CacheMode::Buffered | CacheMode::Cold => Self::Buffered,
        }
    }
}

impl Cache {
    /// What open(2) needs for it.
    pub(super) fn open_flags(self) -> OFlags {
        match self {
            Cache::Direct => OFlags::DIRECT,
            Cache::Buffered => OFlags::empty(),
        }
    }
}
