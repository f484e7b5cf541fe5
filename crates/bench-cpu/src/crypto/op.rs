//! Operations of `cpu.crypto` and their instructions. AES-256-CTR comes from `aes` and `ctr`, all
//! other operations from `ring`, with the widest vectors that they support.

use plimsoll_metal::counter::CounterKeystream;
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use ring::error::Unspecified;

use plimsoll_machine::Cpu;
pub(super) use plimsoll_model::job::cpu::CryptoOp;

/// A 16-byte tag or 32-byte digest, padded with zeros.
pub(super) type Tag = [u8; 32];

/// Bytes of a key: AES-128 takes the first 16.
pub(super) const KEY_BYTES: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct CryptoSetup<'a> {
    pub(super) key: &'a [u8; KEY_BYTES],
    /// Nonce of the first call in the first 12 bytes; for AES-256-CTR the counter block.
    pub(super) start: &'a [u8; 16],
    pub(super) aad: &'a [u8],
}

impl CryptoSetup<'static> {
    /// The counter block ends like the first one of AES-GCM, which checks it. The authenticated
    /// data has the length of a TLS record header.
    pub(super) const MEASURED: Self = Self {
        key: b"0123456789abcdef0123456789abcdef",
        start: b"of no matter\0\0\0\x02",
        aad: b"thirteen byte",
    };
}

impl CryptoSetup<'_> {
    /// Returns the nonce of call number `call`, unique as long as `start` stays the same.
    pub(super) fn nonce(&self, call: u64) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&self.start[..NONCE_LEN]);
        for (byte, count) in nonce.iter_mut().rev().zip(call.to_le_bytes()) {
            *byte ^= count;
        }
        nonce
    }
}

pub(super) struct Cipher<'a> {
    setup: CryptoSetup<'a>,
    by: By,
}

enum By {
    Seal(LessSafeKey),
    Counter(CounterKeystream),
    Digest,
}

impl<'a> Cipher<'a> {
    pub(super) fn new(op: CryptoOp, setup: CryptoSetup<'a>) -> Result<Self, Unspecified> {
        let sealing = |algorithm: &'static ring::aead::Algorithm| -> Result<By, Unspecified> {
            let key = UnboundKey::new(algorithm, &setup.key[..algorithm.key_len()])?;
            Ok(By::Seal(LessSafeKey::new(key)))
        };
        let by = match op {
            CryptoOp::Gcm => sealing(&AES_128_GCM)?,
            CryptoOp::ChaCha => sealing(&CHACHA20_POLY1305)?,
            CryptoOp::Ctr => By::Counter(CounterKeystream::new(setup.key, setup.start)),
            CryptoOp::Sha256 => By::Digest,
        };
        Ok(Self { setup, by })
    }

    /// Runs call `number` on the block in place; returns its tag or digest. Fails if the block is
    /// too long. A digest overwrites the start of the block, so calls are dependent.
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

    /// Resets the cipher to its first call. Fails if the keystream cannot start again.
    pub(super) fn reset(&mut self) -> Result<(), Unspecified> {
        match &mut self.by {
            By::Counter(counter) => counter.rewind().ok_or(Unspecified),
            By::Seal(_) | By::Digest => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CryptoInstructions {
    pub(super) name: &'static str,
    pub(super) bits: u32,
}

/// Operation, required CPU flags, instructions; the first match applies (ring 0.17, aes 0.9).
const MEANS: &[(CryptoOp, &[&str], &str, u32)] = &[
    (CryptoOp::Gcm, &["avx2", "vaes", "vpclmulqdq"], "VAES and VPCLMULQDQ", 256),
    (CryptoOp::Gcm, &["aes", "pclmulqdq", "ssse3"], "AESENC and PCLMULQDQ", 128),
    (CryptoOp::Gcm, &["aes", "pmull"], "AESE and PMULL", 128),
    (CryptoOp::Ctr, &["avx512f", "vaes"], "VAES", 512),
    (CryptoOp::Ctr, &["avx", "vaes"], "VAES", 256),
    (CryptoOp::Ctr, &["aes", "sse2"], "AESENC", 128),
    (CryptoOp::Ctr, &["aes", "asimd"], "AESE", 128),
    (CryptoOp::Sha256, &["sha_ni", "ssse3"], "SHA256RNDS2", 128),
    (CryptoOp::Sha256, &["sha2"], "SHA256H", 128),
    (CryptoOp::ChaCha, &["avx2", "bmi2"], "AVX2", 256),
    (CryptoOp::ChaCha, &["sse4_1"], "SSE4.1", 128),
];

impl CryptoInstructions {
    /// Returns the special instructions for `op` that this CPU shows; `None` if it has none.
    pub(super) fn of(op: CryptoOp, cpu: &Cpu) -> Option<Self> {
        let has = |features: &[&str]| features.iter().all(|feature| cpu.flags.contains(*feature));
        let row = MEANS.iter().find(|(of, features, ..)| *of == op && has(features));
        row.map(|&(.., name, bits)| Self { name, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::case::find_word;

    fn means(op: CryptoOp, flags: &[&str]) -> Option<u32> {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        CryptoInstructions::of(op, &Cpu { flags, ..Cpu::default() }).map(|means| means.bits)
    }

    #[test]
    fn the_widest_vectors_that_there_is_code_for_are_taken() {
        let zen5 = "sse2 ssse3 sse4_1 aes pclmulqdq avx avx2 bmi2 avx512f vaes vpclmulqdq"
            .split(' ')
            .collect::<Vec<_>>();
        assert_eq!(
            CryptoOp::ALL_OPS.map(|(_, op)| means(op, &zen5)),
            [Some(256), Some(512), None, Some(256)]
        );
        let haswell = ["sse2", "ssse3", "sse4_1", "aes", "pclmulqdq", "avx", "avx2", "bmi2"];
        assert_eq!(
            CryptoOp::ALL_OPS.map(|(_, op)| means(op, &haswell)),
            [Some(128), Some(128), None, Some(256)]
        );
        let graviton = ["asimd", "aes", "pmull", "sha1", "sha2"];
        let wanted = [Some(128), Some(128), Some(128), None];
        assert_eq!(CryptoOp::ALL_OPS.map(|(_, op)| means(op, &graviton)), wanted);
        assert_eq!(CryptoOp::ALL_OPS.map(|(_, op)| means(op, &["sse2"])), [None; 4]);
    }

    #[test]
    fn no_two_calls_have_the_same_nonce() {
        let nonces = [0, 1, 255, 256, u64::MAX].map(|call| CryptoSetup::MEASURED.nonce(call));
        assert!(nonces.iter().enumerate().all(|(at, nonce)| !nonces[..at].contains(nonce)));
        assert_eq!(nonces[0], CryptoSetup::MEASURED.start[..12]);
    }

    #[test]
    fn an_unknown_operation_lists_those_there_are() {
        let error = find_word("op", "rc4\n", &CryptoOp::ALL_OPS).unwrap_err();
        let wanted = "op must be one of aes-128-gcm, aes-256-ctr, sha256, chacha20-poly1305: ";
        assert!(error.starts_with(wanted), "{error}");
        assert!(!error.contains('\n') && CryptoOp::ALL_OPS.iter().all(|(name, op)| op.name() == *name));
    }
}
