use super::units::{BlockUnit, units_of};
use super::{BlockOp, BlockTraversal, Region, WrongBlocks, line_value, unit_value};
use crate::stream::ELEMENT;

impl Region {
    /// Checks all operations since the region was made, except blocks drawn and not processed.
    pub fn verify(&self) -> Result<(), WrongBlocks> {
        let (passes, rest) = (self.done / self.count, self.done % self.count);
        let order = (self.shape.order == BlockTraversal::Random).then(|| self.order_of(passes));
        let visited = |number: u64| self.block_at(order.as_ref(), number);
        let wrong = |what: String| Err(WrongBlocks { what, blocks: self.done });
        match self.shape.op {
            BlockOp::Read => {
                let partly = self.sum_of((0..rest).map(visited));
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
                    None => self.target_block(place).iter().all(|byte| *byte == 0),
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
                let differs = |place: &u64| self.source_block(*place) != self.target_block(*place);
                match (0..all).map(visited).find(differs) {
                    None => Ok(()),
                    Some(place) => wrong(format!("block {place} is not equal to what it was copied from")),
                }
            }
        }
    }

    fn source_block(&self, place: u64) -> &[u8] {
        let start = place as usize * self.shape.block;
        &self.buffer.bytes()[start..start + self.shape.block]
    }

    fn target_block(&self, place: u64) -> &[u8] {
        let start = self.target + place as usize * self.shape.block;
        &self.buffer.bytes()[start..start + self.shape.block]
    }

    fn holds(&self, place: u64, pass: u64) -> bool {
        let block = self.target_block(place);
        if self.shape.block > ELEMENT {
            let value = line_value(pass).to_bits();
            return block.chunks(ELEMENT).all(|chunk| word_of(chunk) == value);
        }
        let unused = u64::BITS - 8 * self.shape.block as u32;
        word_of(block) == unit_value(pass) << unused >> unused
    }

    /// Returns the wrapping sum of the units or 8-byte words of the blocks at indices `places`.
    fn sum_of(&self, places: impl Iterator<Item = u64>) -> u64 {
        places
            .flat_map(|place| self.target_block(place).chunks(ELEMENT))
            .map(word_of)
            .fold(0, u64::wrapping_add)
    }

    /// Returns [`sum_of`](Self::sum_of) for all blocks, faster.
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
