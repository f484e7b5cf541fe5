//! What is written: bytes that can neither be compressed nor deduplicated, and that say where they belong.
//!
//! Every 512-byte sector begins with its own number and a serial number, both scrambled by the run's secret, so
//! no two sectors ever written are equal, and a read can be checked against the place it claims to come from.
//! The rest is pseudo-random; a block about to be written gets only new sector heads, which costs a thousandth of
//! making it anew, so that the measured CPU time is not the generator's.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::pattern::{derive, mix};

/// The unit that carries an address: the smallest block of any disk.
pub const SECTOR: usize = 512;

/// Bytes of a sector's head: its scrambled number and its scrambled serial number.
const HEAD: usize = 16;

/// Makes and checks test data.
#[derive(Debug)]
pub struct Noise {
    rng: SmallRng,
    secret: u64,
    serial: u64,
}

impl Noise {
    /// Data of one test file. Whoever writes to it or checks it needs the same `seed`; no two writers may have the
    /// same `writer`, or they would write the same bytes.
    pub fn new(seed: u64, writer: &str) -> Self {
        let own = derive(derive(seed, "data"), writer);
        Noise { rng: SmallRng::seed_from_u64(own), secret: derive(seed, "sectors"), serial: mix(own) }
    }

    /// Fills `buffer`, which will be written at `offset`, with new bytes throughout.
    pub fn fill(&mut self, buffer: &mut [u8], offset: u64) {
        self.rng.fill_bytes(buffer);
        self.address(buffer, offset);
    }

    /// Makes `buffer`, once filled, different from all that was written before and at home at `offset`.
    pub fn address(&mut self, buffer: &mut [u8], offset: u64) {
        let first = offset / SECTOR as u64;
        for (number, sector) in (first..).zip(buffer.chunks_exact_mut(SECTOR)) {
            self.serial = self.serial.wrapping_add(1);
            sector[..HEAD / 2].copy_from_slice(&mix(self.secret ^ number).to_le_bytes());
            sector[HEAD / 2..HEAD]
                .copy_from_slice(&mix(self.secret.rotate_left(32) ^ self.serial).to_le_bytes());
        }
    }

    /// The offset of the first sector in `buffer`, read at `offset`, that does not belong there.
    pub fn stranger(&self, buffer: &[u8], offset: u64) -> Option<u64> {
        let first = offset / SECTOR as u64;
        (first..)
            .zip(buffer.chunks_exact(SECTOR))
            .find(|(number, sector)| sector[..HEAD / 2] != mix(self.secret ^ number).to_le_bytes())
            .map(|(number, _)| number * SECTOR as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What was made for a place is accepted there and nowhere else, filled or only addressed anew.
        #[test]
        fn data_is_at_home_where_it_was_made_for(seed: u64, sector in 0_u64..1 << 40, other in 0_u64..1 << 40) {
            let mut noise = Noise::new(seed, "fill");
            let mut buffer = vec![0; 8 * SECTOR];
            let offset = sector * SECTOR as u64;
            noise.fill(&mut buffer, offset);
            prop_assert_eq!(noise.stranger(&buffer, offset), None);
            noise.address(&mut buffer, other * SECTOR as u64);
            prop_assert_eq!(noise.stranger(&buffer, other * SECTOR as u64), None);
            if sector != other {
                prop_assert_eq!(noise.stranger(&buffer, offset), Some(offset));
            }
        }

        /// One wrong bit in a head is found, with the offset of its sector.
        #[test]
        fn a_flipped_bit_in_a_head_is_found(seed: u64, sector in 0_usize..8, bit in 0_usize..64) {
            let mut noise = Noise::new(seed, "fill");
            let mut buffer = vec![0; 8 * SECTOR];
            noise.fill(&mut buffer, 1 << 20);
            buffer[sector * SECTOR + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(noise.stranger(&buffer, 1 << 20), Some((1 << 20) + (sector * SECTOR) as u64));
        }
    }

    #[test]
    fn no_two_sectors_are_ever_equal() {
        let mut noise = Noise::new(1, "fill");
        let mut again = Noise::new(1, "case");
        let mut buffer = vec![0; 64 * SECTOR];
        let mut seen = HashSet::new();
        noise.fill(&mut buffer, 0);
        for _ in 0..10 {
            for sector in buffer.chunks_exact(SECTOR) {
                assert!(seen.insert(sector.to_vec()));
            }
            noise.address(&mut buffer, 0);
        }
        again.fill(&mut buffer, 0);
        assert!(buffer.chunks_exact(SECTOR).all(|sector| seen.insert(sector.to_vec())));
        assert_eq!(noise.stranger(&buffer, 0), None);
    }

    #[test]
    fn zeros_and_another_runs_data_are_strangers() {
        let noise = Noise::new(1, "fill");
        assert_eq!(noise.stranger(&[0; 4096], 8192), Some(8192));
        let mut foreign = vec![0; 4096];
        Noise::new(2, "fill").fill(&mut foreign, 8192);
        assert_eq!(noise.stranger(&foreign, 8192), Some(8192));
    }

    /// Every byte value is about as frequent as any other, heads included: nothing is left for a compressor.
    #[test]
    fn the_bytes_are_evenly_spread() {
        let mut noise = Noise::new(3, "fill");
        let mut buffer = vec![0; 1 << 20];
        noise.fill(&mut buffer, 0);
        noise.address(&mut buffer, 1 << 20);
        let mut counts = [0_u32; 256];
        buffer.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4096 expected, standard deviation 64: six of them.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 384), "{counts:?}");
    }
}
