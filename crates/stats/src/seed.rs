//! Seeds from a hash of the summarised data, for the same intervals on every platform.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::SeedableRng;

/// Seed of one resampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

/// FNV-1a, 64 bit: <http://www.isthe.com/chongo/tech/comp/fnv/>.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

impl Seed {
    /// Creates the seed for `metric` of the benchmark `case_id` in a run with the seed `run_seed`.
    pub fn new(run_seed: u64, case_id: &str, metric: &str) -> Self {
        let hash = fnv1a(FNV_OFFSET, &run_seed.to_le_bytes());
        let hash = fnv1a(hash, case_id.as_bytes());
        // UTF-8 has no byte 0xff, so ("ab", "c") and ("a", "bc") differ.
        Seed(fnv1a(fnv1a(hash, &[0xff]), metric.as_bytes()))
    }

    /// Returns a generator with the same stream on every platform and library version: ChaCha8 is a
    /// published cipher, and its key is filled here.
    pub fn generator(self) -> ChaCha8Rng {
        let mut key = [0u8; 32];
        let mut hash = self.0;
        for chunk in key.chunks_exact_mut(8) {
            hash = fnv1a(hash, &self.0.to_le_bytes());
            chunk.copy_from_slice(&hash.to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::rand_core::Rng;

    #[test]
    fn the_hash_is_the_published_one() {
        // Test vectors of the FNV page.
        let hashes = ["", "a", "foobar"].map(|text| fnv1a(FNV_OFFSET, text.as_bytes()));
        assert_eq!(hashes, [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
    }

    #[test]
    fn every_part_counts() {
        let base = Seed::new(1, "cpu.peak/op=fma", "rate");
        assert_eq!(base, Seed::new(1, "cpu.peak/op=fma", "rate"));
        assert_ne!(base, Seed::new(2, "cpu.peak/op=fma", "rate"));
        assert_ne!(base, Seed::new(1, "cpu.peak/op=add", "rate"));
        assert_ne!(base, Seed::new(1, "cpu.peak/op=fm", "arate"));
    }

    #[test]
    fn the_stream_is_the_same_for_ever() {
        let mut generator = Seed::new(42, "null", "time").generator();
        let drawn = [generator.next_u32(), generator.next_u32(), generator.next_u32()];
        assert_eq!(drawn, [3_737_688_374, 4_253_590_120, 309_127_037]);
    }
}
