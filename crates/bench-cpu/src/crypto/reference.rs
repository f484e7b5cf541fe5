//! Reference implementations: published test vectors, and another library per operation (for
//! AES-128-GCM single calls of `aes`, for AES-256-CTR the keystream of `ring`'s AES-256-GCM).

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use chacha20poly1305::aead::{AeadInPlace, KeyInit as _};
use chacha20poly1305::{ChaCha20Poly1305, Nonce as ChaChaNonce};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::{Digest, Sha256};

use super::op::{Cipher, CryptoOp, CryptoSetup, KEY_BYTES, Tag};
use plimsoll_model::sample::CannotMeasure;

/// Applies `op` to the block `calls` times; returns the last tag. Fails if the block is too long.
pub(super) fn apply_calls(
    op: CryptoOp,
    setup: CryptoSetup<'_>,
    block: &mut [u8],
    calls: u64,
) -> Result<Tag, CannotMeasure> {
    let refused = || {
        CannotMeasure::environment(format!(
            "{}: the reference implementation refuses a block this long; use a smaller --block",
            op.name()
        ))
    };
    let mut left = [0; 32];
    match op {
        CryptoOp::Gcm => {
            let aes = Gcm::new(setup.key);
            for call in 0..calls {
                left[..16].copy_from_slice(&aes.seal(setup.nonce(call), setup.aad, block));
            }
        }
        CryptoOp::Ctr => counter(setup, block, calls).ok_or_else(refused)?,
        CryptoOp::Sha256 => {
            for _ in 0..calls {
                left = Sha256::digest(&*block).into();
                block.iter_mut().zip(left).for_each(|(byte, digest)| *byte = digest);
            }
        }
        CryptoOp::ChaCha => {
            let cipher = ChaCha20Poly1305::new(setup.key.into());
            for call in 0..calls {
                let nonce = ChaChaNonce::from(setup.nonce(call));
                let tag =
                    cipher.encrypt_in_place_detached(&nonce, setup.aad, block).map_err(|_| refused())?;
                left[..16].copy_from_slice(&tag);
            }
        }
    }
    Ok(left)
}

/// Applies AES-256-CTR `calls` times; its counter starts like AES-256-GCM's: 2 in the last 32 bits.
/// `None` if the block is too long.
fn counter(setup: CryptoSetup<'_>, block: &mut [u8], calls: u64) -> Option<()> {
    let mut keystream = vec![0; block.len().checked_mul(usize::try_from(calls).ok()?)?];
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, setup.key).ok()?);
    let nonce = Nonce::assume_unique_for_key(setup.nonce(0));
    let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut keystream).ok();
    for keystream in keystream.chunks(block.len().max(1)) {
        block.iter_mut().zip(keystream).for_each(|(byte, key)| *byte ^= key);
    }
    tag.map(|_| ())
}

/// AES-128-GCM as defined in NIST SP 800-38D, one block at a time.
struct Gcm {
    aes: Aes128,
    h: u128,
}

impl Gcm {
    fn new(key: &[u8; KEY_BYTES]) -> Self {
        let mut first = [0; 16];
        first.copy_from_slice(&key[..16]);
        let aes = Aes128::new(&first.into());
        let h = encrypted(&aes, 0);
        Self { aes, h }
    }

    fn seal(&self, nonce: [u8; 12], aad: &[u8], block: &mut [u8]) -> [u8; 16] {
        let mut first = [0; 16];
        first[..12].copy_from_slice(&nonce);
        let first = u128::from_be_bytes(first) + 1;
        for (count, part) in (first + 1..).zip(block.chunks_mut(16)) {
            let keystream = encrypted(&self.aes, count).to_be_bytes();
            part.iter_mut().zip(keystream).for_each(|(byte, key)| *byte ^= key);
        }
        let bits = |bytes: &[u8]| bytes.len() as u128 * 8;
        let lengths = bits(aad) << 64 | bits(block);
        let blocks = aad.chunks(16).chain(block.chunks(16)).map(padded).chain([lengths]);
        let hash = blocks.fold(0, |hash, block| product(hash ^ block, self.h));
        (hash ^ encrypted(&self.aes, first)).to_be_bytes()
    }
}

fn encrypted(aes: &Aes128, block: u128) -> u128 {
    let mut block = block.to_be_bytes().into();
    aes.encrypt_block(&mut block);
    u128::from_be_bytes(block.into())
}

fn padded(part: &[u8]) -> u128 {
    let mut block = [0; 16];
    block.iter_mut().zip(part).for_each(|(byte, part)| *byte = *part);
    u128::from_be_bytes(block)
}

/// Multiplies in GF(2¹²⁸), with the lowest power in the highest bit (SP 800-38D, 6.3).
fn product(x: u128, y: u128) -> u128 {
    const POLYNOMIAL: u128 = 0xe1 << 120;
    let (mut sum, mut power) = (0, y);
    for bit in (0..128).rev() {
        if x >> bit & 1 == 1 {
            sum ^= power;
        }
        power = power >> 1 ^ if power & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    sum
}

struct Vector {
    op: CryptoOp,
    source: &'static str,
    key: &'static str,
    start: &'static str,
    aad: &'static str,
    text: &'static str,
    sealed: &'static str,
    tag: &'static str,
}

const VECTORS: &[Vector] = &[
    Vector {
        op: CryptoOp::Gcm,
        source: "McGrew and Viega, The Galois/Counter Mode of Operation (the submission to NIST), test case 4",
        key: "feffe9928665731c6d6a8f9467308308",
        start: "cafebabefacedbaddecaf888",
        aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        text: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
               1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        sealed: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                 21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        tag: "5bc94fbc3221a5db94fae95ae7121a47",
    },
    Vector {
        op: CryptoOp::Ctr,
        source: "NIST SP 800-38A, F.5.5",
        key: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        start: "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
        aad: "",
        text: "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
               30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        sealed: "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5\
                 2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
        tag: "",
    },
    Vector {
        op: CryptoOp::Sha256,
        source: "FIPS 180-4, examples: 'abc'",
        key: "",
        start: "",
        aad: "",
        text: "616263",
        sealed: "",
        tag: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    },
    Vector {
        op: CryptoOp::ChaCha,
        source: "RFC 8439, 2.8.2",
        key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        start: "070000004041424344454647",
        aad: "50515253c0c1c2c3c4c5c6c7",
        text: "4c616469657320616e642047656e746c656d656e206f662074686520636c6173\
               73206f66202739393a204966204920636f756c64206f6666657220796f75206f\
               6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73\
               637265656e20776f756c642062652069742e",
        sealed: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6\
                 3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36\
                 92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                 3ff4def08e4b7a9de576d26586cec64b6116",
        tag: "1ae10b594f09e26a7e902ecbd0600691",
    },
];

fn bytes(text: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |byte, at| byte << 4 | digit(*at))).collect()
}

fn filled<const N: usize>(text: &str) -> [u8; N] {
    let mut filled = [0; N];
    filled.iter_mut().zip(bytes(text)).for_each(|(byte, given)| *byte = given);
    filled
}

/// Checks the measured implementation of `op` with published vectors; the error names a wrong one.
pub(super) fn check_vectors(op: CryptoOp) -> Result<(), String> {
    for vector in VECTORS.iter().filter(|vector| vector.op == op) {
        let (key, start, aad) = (filled(vector.key), filled(vector.start), bytes(vector.aad));
        let setup = CryptoSetup { key: &key, start: &start, aad: &aad };
        let mut block = bytes(vector.text);
        let wrong = || format!("it is not the result of the published test vector: {}", vector.source);
        let left = Cipher::new(op, setup).and_then(|mut cipher| cipher.call(0, &mut block));
        let left = left.map_err(|_| wrong())?;
        let sealed = vector.sealed.is_empty() || block == bytes(vector.sealed);
        if !sealed || left != filled(vector.tag) {
            return Err(wrong());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_operation_is_as_published() {
        for (_, op) in CryptoOp::ALL_OPS {
            assert!(VECTORS.iter().any(|vector| vector.op == op), "{op:?}");
            assert_eq!(check_vectors(op), Ok(()));
        }
        let lengths = VECTORS.iter().map(|vector| bytes(vector.text).len());
        assert_eq!(lengths.collect::<Vec<_>>(), [60, 64, 3, 114]);
    }

    #[test]
    fn the_reference_is_as_published_too() {
        for vector in VECTORS.iter().filter(|vector| vector.op != CryptoOp::Ctr) {
            let (key, start, aad) = (filled(vector.key), filled(vector.start), bytes(vector.aad));
            let mut block = bytes(vector.text);
            let left =
                apply_calls(vector.op, CryptoSetup { key: &key, start: &start, aad: &aad }, &mut block, 1);
            assert_eq!(left, Ok(filled(vector.tag)), "{}", vector.source);
            assert!(vector.sealed.is_empty() || block == bytes(vector.sealed), "{}", vector.source);
        }
    }

    proptest! {
        #[test]
        fn both_ways_agree_on_any_length_key_and_number_of_calls(
            text in proptest::collection::vec(any::<u8>(), 1..700), key: [u8; 32], nonce: [u8; 12],
            aad in proptest::collection::vec(any::<u8>(), 0..40), calls in 1_u64..5,
        ) {
            let mut start = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
            start[..12].copy_from_slice(&nonce);
            let setup = CryptoSetup { key: &key, start: &start, aad: &aad };
            for (_, op) in CryptoOp::ALL_OPS {
                let (mut ours, mut theirs) = (text.clone(), text.clone());
                let mut cipher = Cipher::new(op, setup).unwrap();
                let left = (0..calls).map(|call| cipher.call(call, &mut ours).unwrap()).last().unwrap();
                prop_assert_eq!(apply_calls(op, setup, &mut theirs, calls), Ok(left), "{:?}", op);
                prop_assert_eq!(&ours, &theirs, "{:?}", op);
                cipher.reset().unwrap();
                let mut again = text.clone();
                for call in 0..calls {
                    cipher.call(call, &mut again).unwrap();
                }
                prop_assert_eq!(again, ours, "{:?}", op);
            }
        }
    }
}
