//! The operations: what a call does to a block, and by which instructions that is done.
//!
//! AES-128-GCM, ChaCha20-Poly1305 and SHA-256 are those of `ring`, AES-256-CTR that of `aes` and `ctr` (in `metal`, where
//! code is built as one piece); both look at the
//! processor when they start and take the widest vectors that they have code for.

use std::fmt;

use plimsoll_metal::counter::Counter;
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use ring::error::Unspecified;
use serde::{Deserialize, Serialize};

use plimsoll_machine::Cpu;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Op {
    /// AES-128-GCM: encryption with a tag.
    Gcm,
    /// AES-256-CTR: encryption alone.
    Ctr,
    /// SHA-256.
    Sha256,
    /// ChaCha20-Poly1305: encryption with a tag.
    ChaCha,
}

impl Op {
    /// All, in the order of cases.
    pub(super) const ALL: [Self; 4] = [Self::Gcm, Self::Ctr, Self::Sha256, Self::ChaCha];

    /// Its name, as `openssl` has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gcm => "aes-128-gcm",
            Self::Ctr => "aes-256-ctr",
            Self::Sha256 => "sha256",
            Self::ChaCha => "chacha20-poly1305",
        }
    }

    /// The operation of that name.
    ///
    /// # Errors
    /// There is none, in one line.
    pub(super) fn find(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|op| op.name() == word).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("op must be one of {names}: '{}' is not", plimsoll_units::text::shown(word))
        })
    }
}

/// What a call leaves beside the block: a tag of 16 bytes or a digest of 32; the rest is zero.
pub(super) type Tag = [u8; 32];

/// Bytes of a key: AES-128 takes the first 16.
pub(super) const KEY_BYTES: usize = 32;

/// What a series of calls begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    pub(super) key: &'a [u8; KEY_BYTES],
    /// The nonce of the first call, in the first 12 bytes; of AES-256-CTR the counter block.
    pub(super) start: &'a [u8; 16],
    /// What is authenticated beside the block.
    pub(super) aad: &'a [u8],
}

impl Setup<'static> {
    /// Of what is measured. The counter block ends as that of the first block of AES-GCM does, by which it is checked. What is
    /// authenticated is as long as the header of a TLS record.
    pub(super) const MEASURED: Self = Self {
        key: b"0123456789abcdef0123456789abcdef",
        start: b"of no matter\0\0\0\x02",
        aad: b"thirteen byte",
    };
}

impl Setup<'_> {
    /// The nonce of a call: no two calls of a series have the same.
    pub(super) fn nonce(&self, call: u64) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&self.start[..NONCE_LEN]);
        for (byte, count) in nonce.iter_mut().rev().zip(call.to_le_bytes()) {
            *byte ^= count;
        }
        nonce
    }
}

/// What does an operation, with its key.
pub(super) struct Cipher<'a> {
    setup: Setup<'a>,
    by: By,
}

enum By {
    Seal(LessSafeKey),
    Counter(Counter),
    Digest,
}

impl fmt::Debug for Cipher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").finish_non_exhaustive()
    }
}

impl<'a> Cipher<'a> {
    /// The operation with this key.
    ///
    /// # Errors
    /// The key is not one of the algorithm.
    pub(super) fn new(op: Op, setup: Setup<'a>) -> Result<Self, Unspecified> {
        let sealing = |algorithm: &'static ring::aead::Algorithm| -> Result<By, Unspecified> {
            let key = UnboundKey::new(algorithm, &setup.key[..algorithm.key_len()])?;
            Ok(By::Seal(LessSafeKey::new(key)))
        };
        let by = match op {
            Op::Gcm => sealing(&AES_128_GCM)?,
            Op::ChaCha => sealing(&CHACHA20_POLY1305)?,
            Op::Ctr => By::Counter(Counter::new(setup.key, setup.start)),
            Op::Sha256 => By::Digest,
        };
        Ok(Self { setup, by })
    }

    /// Does it to the block, in place, as the call of this number. What follows of a digest takes the place of the beginning of
    /// the block, so that the next call waits for it.
    ///
    /// # Errors
    /// The block is longer than the algorithm allows.
    pub(super) fn call(&mut self, number: u64, block: &mut [u8]) -> Result<Tag, Unspecified> {
        let mut left = [0; 32];
        match &mut self.by {
            By::Seal(key) => {
                let nonce = Nonce::assume_unique_for_key(self.setup.nonce(number));
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(self.setup.aad), block)?;
                left.iter_mut().zip(tag.as_ref()).for_each(|(left, byte)| *left = *byte);
            }
            By::Counter(counter) => counter.apply(block).ok_or(Unspecified)?,
            By::Digest => {
                let digest = digest::digest(&digest::SHA256, block);
                left.copy_from_slice(digest.as_ref());
                block.iter_mut().zip(left).for_each(|(byte, digest)| *byte = digest);
            }
        }
        Ok(left)
    }

    /// Makes it ready for the first call again.
    ///
    /// # Errors
    /// None: the beginning of a keystream is never out of reach.
    pub(super) fn reset(&mut self) -> Result<(), Unspecified> {
        match &mut self.by {
            By::Counter(counter) => counter.rewind().ok_or(Unspecified),
            By::Seal(_) | By::Digest => Ok(()),
        }
    }
}

/// The instructions by which an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Means {
    pub(super) name: &'static str,
    /// Bits of the vectors that they work on.
    pub(super) bits: u32,
}

/// (operation, features that it takes, by the kernel's names, and what it is done by then), the first that holds: as ring 0.17 and aes
/// 0.9 choose.
const MEANS: &[(Op, &[&str], Means)] = &[
    (Op::Gcm, &["avx2", "vaes", "vpclmulqdq"], Means { name: "VAES and VPCLMULQDQ", bits: 256 }),
    (Op::Gcm, &["aes", "pclmulqdq", "ssse3"], Means { name: "AESENC and PCLMULQDQ", bits: 128 }),
    (Op::Gcm, &["aes", "pmull"], Means { name: "AESE and PMULL", bits: 128 }),
    (Op::Ctr, &["avx512f", "vaes"], Means { name: "VAES", bits: 512 }),
    (Op::Ctr, &["avx", "vaes"], Means { name: "VAES", bits: 256 }),
    (Op::Ctr, &["aes", "sse2"], Means { name: "AESENC", bits: 128 }),
    (Op::Ctr, &["aes", "asimd"], Means { name: "AESE", bits: 128 }),
    (Op::Sha256, &["sha_ni", "ssse3"], Means { name: "SHA256RNDS2", bits: 128 }),
    (Op::Sha256, &["sha2"], Means { name: "SHA256H", bits: 128 }),
    (Op::ChaCha, &["avx2", "bmi2"], Means { name: "AVX2", bits: 256 }),
    (Op::ChaCha, &["sse4_1"], Means { name: "SSE4.1", bits: 128 }),
];

impl Means {
    /// By which it is done on these processors; `None` where that is code in which no instruction decides.
    pub(super) fn of(op: Op, cpu: &Cpu) -> Option<Self> {
        let has = |features: &[&str]| features.iter().all(|feature| cpu.flags.contains(*feature));
        MEANS.iter().find(|(of, features, _)| *of == op && has(features)).map(|(.., means)| *means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(op: Op, flags: &[&str]) -> Option<u32> {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Means::of(op, &Cpu { flags, ..Cpu::default() }).map(|means| means.bits)
    }

    #[test]
    fn the_widest_vectors_that_there_is_code_for_are_taken() {
        let zen5 = [
            "sse2",
            "ssse3",
            "sse4_1",
            "aes",
            "pclmulqdq",
            "avx",
            "avx2",
            "bmi2",
            "avx512f",
            "vaes",
            "vpclmulqdq",
        ];
        assert_eq!(Op::ALL.map(|op| means(op, &zen5)), [Some(256), Some(512), None, Some(256)]);
        let haswell = ["sse2", "ssse3", "sse4_1", "aes", "pclmulqdq", "avx", "avx2", "bmi2"];
        assert_eq!(Op::ALL.map(|op| means(op, &haswell)), [Some(128), Some(128), None, Some(256)]);
        let graviton = ["asimd", "aes", "pmull", "sha1", "sha2"];
        assert_eq!(Op::ALL.map(|op| means(op, &graviton)), [Some(128), Some(128), Some(128), None]);
        assert_eq!(Op::ALL.map(|op| means(op, &["sse2"])), [None; 4]);
    }

    #[test]
    fn no_two_calls_have_the_same_nonce() {
        let nonces = [0, 1, 255, 256, u64::MAX].map(|call| Setup::MEASURED.nonce(call));
        assert!(nonces.iter().enumerate().all(|(at, nonce)| !nonces[..at].contains(nonce)));
        assert_eq!(nonces[0], Setup::MEASURED.start[..12]);
    }

    #[test]
    fn an_unknown_operation_lists_those_there_are() {
        let error = Op::find("rc4\n").unwrap_err();
        assert!(
            error.starts_with("op must be one of aes-128-gcm, aes-256-ctr, sha256, chacha20-poly1305: "),
            "{error}"
        );
        assert!(!error.contains('\n') && Op::ALL.iter().all(|op| Op::find(op.name()) == Ok(*op)));
    }
}
