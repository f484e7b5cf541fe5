//! AES-256 in counter mode, from the crates `aes` and `ctr`. Their generic code is instantiated
//! here, because without inlining at full optimization it took fifty times as long.

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

/// An AES-256-CTR keystream that continues from call to call.
pub struct CounterKeystream(Ctr128BE<Aes256>);

impl CounterKeystream {
    /// Creates the AES-256-CTR keystream of `key` whose first counter block is `start`.
    #[must_use]
    pub fn new(key: &[u8; 32], start: &[u8; 16]) -> Self {
        Self(Ctr128BE::new(key.into(), start.into()))
    }

    /// XORs the next bytes of the keystream into `block`; `None` if the keystream is exhausted.
    pub fn apply(&mut self, block: &mut [u8]) -> Option<()> {
        self.0.try_apply_keystream(block).ok()
    }

    /// Restarts the keystream at its first byte. `None` cannot occur.
    pub fn rewind(&mut self) -> Option<()> {
        self.0.try_seek(0_u64).ok()
    }
}
