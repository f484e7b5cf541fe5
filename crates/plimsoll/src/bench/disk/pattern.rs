//! In which order a case visits the blocks of its file.
//!
//! Random means a permutation: every block once, then all again in another order. Independent draws would miss
//! 37 % of the blocks in the first pass and hit others twice, which a cache likes. The permutation needs no
//! memory: it is a Feistel network over the block numbers, keyed anew for each pass.

/// A published bijective mixer of 64 bits (SplitMix64: Steele, Lea, Flood, OOPSLA 2014, figure 16).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A seed for one purpose of one case: different purposes and cases get unrelated streams.
pub fn derive(seed: u64, purpose: &str) -> u64 {
    purpose.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)))
}

/// Rounds of the Feistel network, each of which changes one half. Four make a good pseudo-random permutation of a
/// good round function (Luby and Rackoff, SIAM J. Comput. 17, 1988); six make up for a cheap one.
const ROUNDS: usize = 6;

/// A bijection of `0..n` onto itself, in constant memory.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` that `key` names.
    pub fn new(n: u64, key: u64) -> Self {
        // The network permutes 2^bits ≥ n values; fewer than half of them are outside.
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let low_bits = bits / 2;
        let mask = |bits: u32| 1_u64.checked_shl(bits).map_or(u64::MAX, |power| power - 1);
        let mut state = key;
        let keys = std::array::from_fn(|_| {
            state = mix(state);
            state
        });
        Permutation { n, low_bits, low_mask: mask(low_bits), high_mask: mask(bits - low_bits), keys }
    }

    /// Where `index` (below `n`) goes.
    pub fn apply(&self, index: u64) -> u64 {
        let mut x = index;
        // Values outside are permuted on until they come back in: the walk is a cycle, so it ends, and the
        // mapping stays a bijection (Black and Rogaway, CT-RSA 2002, "cycle walking").
        loop {
            x = self.network(x);
            if x < self.n || self.n == 0 {
                return x;
            }
        }
    }

    fn network(&self, x: u64) -> u64 {
        let (mut high, mut low) = (x >> self.low_bits, x & self.low_mask);
        for pair in self.keys.chunks_exact(2) {
            high ^= round(low, pair[0]) & self.high_mask;
            low ^= round(high, pair[1]) & self.low_mask;
        }
        (high << self.low_bits) | low
    }
}

/// The round function: any function will do for a bijection; the high half of a product is well mixed.
fn round(x: u64, key: u64) -> u64 {
    (x ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// The orders there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Ascending, from the first block again after the last.
    Sequential,
    /// Every block once in random order, then all in another random order.
    Random,
}

impl Order {
    /// Every order, with the word that names it.
    pub const ALL: &'static [(&'static str, Order)] =
        &[("sequential", Order::Sequential), ("random", Order::Random)];

    /// The order of that name.
    pub fn from_word(word: &str) -> Option<Order> {
        Order::ALL.iter().find(|(name, _)| *name == word).map(|(_, order)| *order)
    }
}

/// An endless walk over the blocks of a file.
#[derive(Debug, Clone)]
pub struct Walk {
    order: Order,
    blocks: u64,
    next: u64,
    seed: u64,
    pass: u64,
    permutation: Permutation,
}

impl Walk {
    /// A walk over `blocks` blocks (at least 1), the same one for the same seed.
    pub fn new(order: Order, blocks: u64, seed: u64) -> Self {
        let blocks = blocks.max(1);
        Walk { order, blocks, next: 0, seed, pass: 0, permutation: Permutation::new(blocks, mix(seed)) }
    }

    /// Over how many blocks it goes.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The next block's number, below `blocks`.
    pub fn step(&mut self) -> u64 {
        let index = self.next;
        self.next += 1;
        if self.next == self.blocks {
            self.next = 0;
        }
        match self.order {
            Order::Sequential => index,
            Order::Random => {
                let block = self.permutation.apply(index);
                if self.next == 0 {
                    self.pass += 1;
                    self.permutation = Permutation::new(self.blocks, mix(self.seed ^ mix(self.pass)));
                }
                block
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Onto and one to one, for any size and key.
        #[test]
        fn a_permutation_hits_every_number_once(n in 1_u64..5000, key: u64) {
            let permutation = Permutation::new(n, key);
            let mut seen = vec![false; n as usize];
            for index in 0..n {
                let image = permutation.apply(index);
                prop_assert!(image < n);
                prop_assert!(!std::mem::replace(&mut seen[image as usize], true), "{image} twice");
            }
        }

        /// Also where the domain cannot be walked through: no two of many indices meet, and all stay inside.
        #[test]
        fn a_huge_permutation_is_one_to_one(n in 1_u64 << 32..u64::MAX, key: u64, first: u64) {
            let permutation = Permutation::new(n, key);
            let images: HashSet<u64> =
                (0..500).map(|i| permutation.apply(first.wrapping_add(i) % n)).collect();
            let indices: HashSet<u64> = (0..500).map(|i| first.wrapping_add(i) % n).collect();
            prop_assert_eq!(images.len(), indices.len());
            prop_assert!(images.iter().all(|image| *image < n));
        }

        /// A random walk visits all blocks before any of them again, in every pass, each pass in its own order.
        #[test]
        fn a_random_walk_is_a_new_permutation_each_pass(blocks in 1_u64..2000, seed: u64) {
            let mut walk = Walk::new(Order::Random, blocks, seed);
            let passes: Vec<Vec<u64>> = (0..3).map(|_| (0..blocks).map(|_| walk.step()).collect()).collect();
            for pass in &passes {
                prop_assert_eq!(pass.iter().collect::<HashSet<_>>().len() as u64, blocks);
            }
            if blocks > 30 {
                prop_assert_ne!(&passes[0], &passes[1]);
                prop_assert_ne!(&passes[1], &passes[2]);
            }
        }

        #[test]
        fn a_sequential_walk_counts_and_begins_again(blocks in 1_u64..2000, seed: u64, steps in 0_u64..5000) {
            let mut walk = Walk::new(Order::Sequential, blocks, seed);
            for step in 0..steps {
                prop_assert_eq!(walk.step(), step % blocks);
            }
        }
    }

    /// A read-ahead or a cache must not be able to follow: neighbours are as rare as in a random order (about 2 in
    /// a pass), and the distances fill the file.
    #[test]
    fn a_random_walk_does_not_creep() {
        let blocks = 1 << 18;
        let mut walk = Walk::new(Order::Random, blocks, 7);
        let order: Vec<u64> = (0..blocks).map(|_| walk.step()).collect();
        let neighbours = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        assert!(neighbours < 20, "{neighbours} neighbours");
        let mean = order.windows(2).map(|pair| pair[0].abs_diff(pair[1]) as f64).sum::<f64>() / blocks as f64;
        // Two independent uniform points are a third of the length apart.
        assert!((mean / blocks as f64 - 1.0 / 3.0).abs() < 0.01, "mean distance {mean}");
        let lower_half_first = order[..1 << 17].iter().filter(|block| **block < 1 << 17).count();
        assert!(lower_half_first.abs_diff(1 << 16) < 1500, "{lower_half_first} of the lower half come first");
    }

    #[test]
    fn seeds_and_purposes_give_different_walks() {
        let first = |seed| {
            let mut walk = Walk::new(Order::Random, 1 << 20, seed);
            [walk.step(), walk.step(), walk.step()]
        };
        assert_eq!(first(derive(1, "a")), first(derive(1, "a")));
        assert_ne!(first(derive(1, "a")), first(derive(2, "a")));
        assert_ne!(first(derive(1, "a")), first(derive(1, "b")));
    }

    /// The mixer against the published sequence of SplitMix64 from seed 1234567 (Vigna's reference program).
    #[test]
    fn the_mixer_is_the_published_one() {
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        let sequence: Vec<u64> =
            (0..3_u64).map(|i| mix(1_234_567_u64.wrapping_add(step.wrapping_mul(i)))).collect();
        assert_eq!(
            sequence,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
