//! Calls on one block as sliced work. Slices of equal length must end with equal blocks.

use std::ops::Range;

use plimsoll_metal::clock::ProbeWork;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::sliced::SlicedLoad;
use xxhash_rust::xxh3::xxh3_128;

use super::burst::fill;
use super::op::{Cipher, CryptoInstructions, CryptoOp, CryptoSetup, Tag};
use super::reference;
use plimsoll_model::sample::{CannotMeasure, WrongAnswer, WrongAnswerSource};

/// A full slice and the two lengths of a fixed amount.
const RESULTS_KEPT: usize = 3;
const ALIGNMENT: usize = 64;
const MAX_CACHED_BLOCK_BYTES: usize = 256 << 10;
const FAR_SPREAD: f64 = 0.25;

pub(super) struct Blocks {
    op: CryptoOp,
    means: Option<CryptoInstructions>,
    cipher: Option<Cipher<'static>>,
    initial: Vec<u8>,
    memory: Vec<u8>,
    place: Range<usize>,
    left: Tag,
    refused: bool,
    results: Vec<Left>,
    /// Last result that differed from an earlier slice of its length.
    deviant: Option<Left>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Left {
    calls: u64,
    tag: Tag,
    block: u128,
}

impl Blocks {
    pub(super) fn new(op: CryptoOp, means: Option<CryptoInstructions>, bytes: usize) -> Self {
        let mut memory = vec![0; bytes + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let (mut initial, place) = (vec![0; bytes], start..start + bytes);
        fill(0, &mut initial);
        memory[place.clone()].copy_from_slice(&initial);
        let cipher = Cipher::new(op, CryptoSetup::MEASURED).ok();
        let (results, left) = (Vec::with_capacity(RESULTS_KEPT), [0; 32]);
        Self { op, means, cipher, initial, memory, place, left, refused: false, results, deviant: None }
    }

    /// Checks the results of CPU `cpu` by the reference, except those in `proven`; adds them there.
    pub(super) fn verify(&self, cpu: usize, proven: &mut Vec<Left>) -> Result<(), CannotMeasure> {
        if self.refused {
            let wrong = WrongAnswer::new(WrongAnswerSource::Cpu(cpu), self.op.name(), "a rejected block");
            return Err(wrong.into());
        }
        for left in self.deviant.iter().chain(&self.results) {
            if proven.contains(left) {
                continue;
            }
            let mut block = self.initial.clone();
            let tag = reference::apply_calls(self.op, CryptoSetup::MEASURED, &mut block, left.calls)?;
            let right = Left { calls: left.calls, tag, block: xxh3_128(&block) };
            if *left != right {
                let tag = |left: &Left| format!("tag {}", hex(&left.tag));
                let wrong = WrongAnswer::new(WrongAnswerSource::Cpu(cpu), self.op.name(), tag(left));
                let detail = format!("after {} calls", left.calls);
                return Err(wrong.expected(tag(&right)).detail(detail).into());
            }
            proven.push(right);
        }
        Ok(())
    }
}

fn hex(tag: &Tag) -> String {
    tag.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl SlicedLoad for Blocks {
    fn run(&mut self, turns: u64) {
        let block = &mut self.memory[self.place.clone()];
        let Some(cipher) = &mut self.cipher else {
            self.refused = true;
            return;
        };
        for call in 0..turns {
            match cipher.call(call, block) {
                Ok(left) => self.left = left,
                Err(_) => self.refused = true,
            }
        }
    }

    fn settle(&mut self, turns: u64) {
        let left = Left { calls: turns, tag: self.left, block: xxh3_128(&self.memory[self.place.clone()]) };
        match self.results.iter().find(|result| result.calls == turns) {
            Some(result) if *result == left => {}
            Some(_) => self.deviant = Some(left),
            None => {
                if self.results.len() == RESULTS_KEPT {
                    self.results.remove(0);
                }
                self.results.push(left);
            }
        }
        self.memory[self.place.clone()].copy_from_slice(&self.initial);
        self.refused |= self.cipher.iter_mut().any(|cipher| cipher.reset().is_err());
    }

    fn work(&self) -> ProbeWork {
        match self.means.map(|means| means.bits) {
            Some(512) => ProbeWork::integers(Isa::Avx512),
            Some(256) => ProbeWork::integers(Isa::Avx2),
            _ => ProbeWork::integers(Isa::Portable),
        }
    }

    fn spread(&self) -> f64 {
        if self.initial.len() <= MAX_CACHED_BLOCK_BYTES { 0.05 } else { FAR_SPREAD }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_any_length_are_proven_and_a_wrong_one_is_found() {
        for (_, op) in CryptoOp::ALL_OPS {
            for bytes in [1, 16, 64, 1000, 16 << 10] {
                let mut load = Blocks::new(op, None, bytes);
                for turns in [1, 3, 1, 4, 3] {
                    load.run(turns);
                    load.settle(turns);
                }
                let mut proven = Vec::new();
                assert_eq!(load.verify(0, &mut proven), Ok(()), "{op:?} {bytes}");
                assert_eq!(proven.len(), 3);
                load.run(3);
                let middle = load.place.start + bytes / 2;
                load.memory[middle] ^= 1;
                load.settle(3);
                let wrong = load.verify(0, &mut proven).unwrap_err().wrong.unwrap();
                assert!(wrong.cpu() == Some(0) && wrong.detail == "after 3 calls", "{wrong:?}");
            }
        }
    }
}
