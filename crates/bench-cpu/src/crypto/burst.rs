//! Operations of `cpu.crypto` as bursts with known answers, from the reference implementations.

use std::sync::Arc;

use super::op::{Cipher, CryptoOp, CryptoSetup, Tag};
use super::reference;
use crate::integrity::{Burst, BurstMaker, WrongBurst};
use plimsoll_model::sample::CannotMeasure;

const BLOCK_BYTES: usize = 512;

#[derive(Clone, Debug, PartialEq)]
struct Sealed {
    block: Vec<u8>,
    tag: Tag,
}

struct CipherBurst {
    op: CryptoOp,
    cipher: Option<Cipher<'static>>,
    answer: Sealed,
    expected: Arc<[Sealed]>,
}

/// Returns a [`BurstMaker`] per crypto operation, whose bursts take turns with `inputs` blocks.
pub(crate) fn ciphers(inputs: u64) -> Result<Vec<BurstMaker>, CannotMeasure> {
    let maker = |(_, op)| -> Result<BurstMaker, CannotMeasure> {
        let expected: Arc<[_]> = (0..inputs).map(|input| sealed(op, input)).collect::<Result<_, _>>()?;
        Ok(Box::new(move |_| {
            let cipher = Cipher::new(op, CryptoSetup::MEASURED).ok();
            let answer = Sealed { block: vec![0; BLOCK_BYTES], tag: Tag::default() };
            Ok(Box::new(CipherBurst { op, cipher, answer, expected: Arc::clone(&expected) }))
        }))
    };
    CryptoOp::ALL_OPS.into_iter().map(maker).collect()
}

/// Fills `block` with the bytes of input number `input`; each cache line differs.
pub(super) fn fill(input: u64, block: &mut [u8]) {
    block.iter_mut().zip(input * 7..).for_each(|(byte, at)| *byte = (at.wrapping_mul(167) >> 3) as u8);
}

fn sealed(op: CryptoOp, input: u64) -> Result<Sealed, CannotMeasure> {
    let mut block = vec![0; BLOCK_BYTES];
    fill(input, &mut block);
    let tag = reference::apply_calls(op, CryptoSetup::MEASURED, &mut block, 1)?;
    Ok(Sealed { block, tag })
}

impl Burst for CipherBurst {
    fn name(&self) -> &str {
        self.op.name()
    }

    fn run(&mut self, input: u64) {
        let Self { cipher, answer, .. } = self;
        fill(input % self.expected.len() as u64, &mut answer.block);
        let tag = cipher.as_mut().and_then(|cipher| {
            cipher.reset().ok()?;
            cipher.call(0, &mut answer.block).ok()
        });
        answer.tag = tag.unwrap_or([0xff; 32]);
    }

    fn invert_bit(&mut self, random: u64) {
        self.answer.block[random as usize % BLOCK_BYTES] ^= 1 << (random >> 32 & 7);
    }

    fn compare(&self, input: u64) -> Result<(), WrongBurst> {
        let expected = &self.expected[input as usize % self.expected.len()];
        if self.answer == *expected {
            return Ok(());
        }
        let shown = |sealed: &Sealed, at: usize| format!("{:02x}", sealed.block[at]);
        let mut bytes = self.answer.block.iter().zip(&expected.block);
        Err(match bytes.position(|(got, right)| got != right) {
            Some(at) => {
                let place = format!("byte {at} of the block");
                WrongBurst::new(shown(&self.answer, at), shown(expected, at), place)
            }
            None => WrongBurst::new("a wrong tag", "the tag of the reference", String::new()),
        })
    }

    fn confirm(&mut self, input: u64) -> bool {
        let at = input % self.expected.len() as u64;
        sealed(self.op, at).is_ok_and(|sealed| sealed == self.expected[at as usize])
    }
}
