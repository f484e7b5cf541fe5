use super::units::{BlockUnit, units_of};
use super::{BlockOp, BlockTraversal, Region, WrongBlocks, line_value, unit_value};
use crate::stream::ELEMENT;

impl Region {
    /// Checks the results of all blocks processed since the region was made; fails if one is wrong.
    pub fn verify(&self) -> Result<(), WrongBlocks> {
        let (passes, rest) = (self.done / self.count, self.done % self.count);
        let order = (self.shape.order == BlockTraversal::Random).then(|| self.order_of(passes));
        let visited = |number: u64| order.as_ref().map_or(number, |order| order.at(number));
        let wrong = |what: String| Err(WrongBlocks { what, blocks: self.done });
        match self.shape.op {
            BlockOp::Read => {
                let blocks =
                    (0..rest).map(visited).flat_map(|place| self.block(self.target, place).chunks(ELEMENT));
                let partly = blocks.map(word_of).fold(0, u64::wrapping_add);
                let wanted = self.pass_sum.wrapping_mul(passes).wrapping_add(partly);
                match self.sum == wanted {
                    true => Ok(()),
                    false => wrong(format!("what was read adds up to {:#x} and not {wanted:#x}", self.sum)),
                }
            }
            BlockOp::Write => {
                let new = |place: u64| self.holds(place, passes);
                let old = |place: u64| match passes.checked_sub(1) {
                    Some(pass) => self.holds(place, pass),
                    None => self.block(self.target, place).iter().all(|byte| *byte == 0),
                };
                let visited_new = (0..rest).map(visited).all(new);
                let is_new = (0..self.count).filter(|place| new(*place)).count() as u64;
                let is_old = (0..self.count).filter(|place| old(*place)).count() as u64;
                match visited_new && is_new == rest && is_old == self.count - rest {
                    true => Ok(()),
                    false => wrong(format!(
                        "{is_new} blocks are written of {rest} in this pass, and {is_old} untouched of {}",
                        self.count - rest
                    )),
                }
            }
            BlockOp::ReadWrite => {
                let all = if passes > 0 { self.count } else { rest };
                let visited = |number| if passes > 0 { number } else { visited(number) };
                let differs = |place: &u64| self.block(0, *place) != self.block(self.target, *place);
                match (0..all).map(visited).find(differs) {
                    None => Ok(()),
                    Some(place) => wrong(format!("block {place} is not equal to what it was copied from")),
                }
            }
        }
    }

    /// Returns block number `place` of source or target, whose first byte in the buffer is `from`.
    fn block(&self, from: usize, place: u64) -> &[u8] {
        let start = from + place as usize * self.shape.block;
        &self.buffer.bytes()[start..start + self.shape.block]
    }

    fn holds(&self, place: u64, pass: u64) -> bool {
        let block = self.block(self.target, place);
        if self.shape.block > ELEMENT {
            let value = line_value(pass).to_bits();
            return block.chunks(ELEMENT).all(|chunk| word_of(chunk) == value);
        }
        let unused = u64::BITS - 8 * self.shape.block as u32;
        word_of(block) == unit_value(pass) << unused >> unused
    }

    /// Returns the wrapping sum of all blocks as integers of the block's size, at most 8 bytes.
    pub(super) fn sum_of_all(&self) -> u64 {
        let bytes = &self.buffer.bytes()[self.target..];
        let length = self.count as usize;
        match self.shape.block {
            1 => sum(units_of::<u8>(bytes, length)),
            2 => sum(units_of::<u16>(bytes, length)),
            4 => sum(units_of::<u32>(bytes, length)),
            block => sum(units_of::<u64>(bytes, length * block / ELEMENT)),
        }
    }
}

fn sum<T: BlockUnit>(units: &[T]) -> u64 {
    units.iter().fold(0, |sum: u64, unit| sum.wrapping_add((*unit).into()))
}

fn word_of(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        _ => bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)),
    }
}
