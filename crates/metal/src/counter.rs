//! AES-256 in counter mode, as `aes` and `ctr` have it.
//!
//! Their code is generic: it is made where it is called, and must become one piece with the loop around it to be quick. This crate is
//! built as one unit at full optimisation; elsewhere it took fifty times as long.

use std::fmt;

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

/// A keystream that goes on from call to call.
pub struct Counter(Ctr128BE<Aes256>);

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").finish_non_exhaustive()
    }
}

impl Counter {
    /// With this key, from this counter block on.
    #[must_use]
    pub fn new(key: &[u8; 32], start: &[u8; 16]) -> Self {
        Self(Ctr128BE::new(key.into(), start.into()))
    }

    /// Adds the keystream to the block; `None` where there is no more of it.
    pub fn apply(&mut self, block: &mut [u8]) -> Option<()> {
        self.0.try_apply_keystream(block).ok()
    }

    /// Begins again; `None` where that is out of reach, which it never is.
    pub fn rewind(&mut self) -> Option<()> {
        self.0.try_seek(0_u64).ok()
    }
}
