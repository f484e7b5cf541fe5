//! Order in which a case visits the blocks of its file. Random means a permutation, because
//! independent draws miss 37 % of the blocks in the first pass, which favours a cache. A Feistel
//! network over the block numbers, keyed per pass, needs no memory.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};

use plimsoll_model::job::disk::{BlockOrder, FileZones, STRIDE_BLOCKS};

/// Returns SplitMix64 of `x`, a bijective hash (Steele, Lea, Flood, OOPSLA 2014, figure 16).
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Inverts [`mix`]: returns the number whose hash is `x`.
pub(crate) fn unmix(x: u64) -> u64 {
    /// Returns the inverse of `odd` modulo 2^64 by Newton's iteration, from three correct bits on.
    const fn inverse(odd: u64) -> u64 {
        let mut guess = odd;
        let mut step = 0;
        while step < 5 {
            guess = guess.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(guess)));
            step += 1;
        }
        guess
    }
    let x = x ^ (x >> 31) ^ (x >> 62);
    let x = x.wrapping_mul(const { inverse(0x94D0_49BB_1331_11EB) });
    let x = x ^ (x >> 27) ^ (x >> 54);
    let x = x.wrapping_mul(const { inverse(0xBF58_476D_1CE4_E5B9) });
    let x = x ^ (x >> 30) ^ (x >> 60);
    x.wrapping_sub(0x9E37_79B9_7F4A_7C15)
}

/// Derives a seed for a `purpose`, such as "data", that is independent of those for other purposes.
pub(crate) fn derive(seed: u64, purpose: &str) -> u64 {
    purpose.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)))
}

/// Rounds of the Feistel network. Four suffice with a good round function (Luby and Rackoff, SIAM
/// J. Comput. 17, 1988); six compensate for a cheap one.
const FEISTEL_ROUNDS: usize = 6;

/// A bijection of `0..n` onto itself, in constant memory.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    n: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; FEISTEL_ROUNDS],
}

impl Permutation {
    /// Creates the permutation of the numbers below `n` that `key` selects.
    pub(crate) fn new(n: u64, key: u64) -> Self {
        // The network permutes 2^bits ≥ n values; fewer than half are outside.
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

    /// Returns the number to which the permutation maps `index`, both below `n`.
    pub(crate) fn apply(&self, index: u64) -> u64 {
        let [place] = self.apply_all([index]);
        place
    }

    /// Like [`Permutation::apply`], for several indices at once, so that CPU latencies overlap.
    fn apply_all<const N: usize>(&self, indices: [u64; N]) -> [u64; N] {
        let mut places = self.network(indices);
        if self.high_mask.count_ones() + self.low_bits != self.n.trailing_zeros() {
            for x in &mut places {
                // Permute values outside until they are inside: the walk is a cycle, so the mapping
                // stays bijective ("cycle walking", Black and Rogaway, CT-RSA 2002).
                while *x >= self.n && self.n > 0 {
                    [*x] = self.network([*x]);
                }
            }
        }
        places
    }

    #[inline]
    fn network<const N: usize>(&self, all: [u64; N]) -> [u64; N] {
        let mut high = all.map(|x| x >> self.low_bits);
        let mut low = all.map(|x| x & self.low_mask);
        for pair in self.keys.chunks_exact(2) {
            for (high, low) in high.iter_mut().zip(&mut low) {
                *high ^= round(*low, pair[0]) & self.high_mask;
                *low ^= round(*high, pair[1]) & self.low_mask;
            }
        }
        std::array::from_fn(|i| (high[i] << self.low_bits) | low[i])
    }
}

/// Returns the Feistel round function of half `x` (at most 32 bits, which vector units multiply).
/// One product gives a poor order: three times too many of 64 blocks preceded a neighbour.
#[inline]
fn round(x: u64, key: u64) -> u64 {
    let product = ((x ^ key) & LOW) * ((key >> 32) | 1);
    (((product ^ (product >> 32)) & LOW) * GOLDEN) >> 16
}

const LOW: u64 = u32::MAX as u64;

/// 2^32 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9E37_79B1;

/// Returns a position below `places`: the random number `which` selects a zone by its share of the
/// transfers, `within` a position in that zone.
fn zoned(zones: &FileZones, places: u64, [which, within]: [u64; 2]) -> u64 {
    let mut left = which % 100;
    let mut before = 0;
    let at = |hundredths: u64| (u128::from(places) * u128::from(hundredths) / 100) as u64;
    for (transfers, of_file) in zones.parts() {
        match left.checked_sub(transfers) {
            Some(less) => (left, before) = (less, before + of_file),
            None => {
                let (first, end) = (at(before), at(before + of_file));
                return (first + within % (end - first).max(1)).min(places.saturating_sub(1));
            }
        }
    }
    0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkExtent {
    pub(crate) start: u64,
    /// Bytes; at least `largest`.
    pub(crate) bytes: u64,
    /// Divisor of all offsets from `start`, in bytes: the block, or the common divisor of a mix.
    pub(crate) unit: u64,
    pub(crate) largest: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextBlock {
    /// Offset in bytes.
    pub(crate) offset: u64,
    /// Whether it is the first of a pass after the first pass.
    pub(crate) begins_anew: bool,
}

/// Places of a random walk that are computed at once.
const AHEAD: u64 = 16;

/// An endless walk over an extent.
#[derive(Debug, Clone)]
pub(crate) struct BlockWalk {
    pub(super) order: BlockOrder,
    /// Range of the file that it visits.
    pub(super) extent: WalkExtent,
    places: u64,
    /// Sequential and backward: bytes passed. Otherwise: places visited in this pass.
    next: u64,
    phase: u64,
    pub(super) seed: u64,
    pass: u64,
    permutation: Permutation,
    /// Random: places of the steps from `next / AHEAD * AHEAD` on.
    ahead: [u64; AHEAD as usize],
    rng: SmallRng,
    ranks: Option<Zipf<f64>>,
}

impl BlockWalk {
    /// Creates a walk over `extent` in `order`; equal seeds give equal walks.
    pub(crate) fn new(order: BlockOrder, extent: WalkExtent, seed: u64) -> Self {
        let places = extent.bytes.saturating_sub(extent.largest) / extent.unit.max(1) + 1;
        let ranks = match order {
            BlockOrder::Zipf(theta) => Zipf::new(places as f64, theta).ok(),
            _ => None,
        };
        BlockWalk {
            order,
            extent,
            places,
            next: 0,
            phase: 0,
            seed,
            pass: 0,
            permutation: Permutation::new(places, mix(seed)),
            ahead: [0; AHEAD as usize],
            rng: SmallRng::seed_from_u64(derive(seed, "zipf")),
            ranks,
        }
    }

    /// Returns the offset of the next `len` ≤ `extent.largest` bytes, and if another pass starts.
    #[inline(always)]
    pub(crate) fn step(&mut self, len: u64) -> NextBlock {
        let before = self.pass;
        let from_start = match self.order {
            BlockOrder::Random => self.shuffled() * self.extent.unit,
            BlockOrder::Sequential | BlockOrder::SequentialEach => self.pass_bytes(len),
            BlockOrder::Backward => {
                let passed = self.pass_bytes(len);
                let end = self.extent.bytes - self.extent.bytes % self.extent.unit.max(1);
                end - passed - len
            }
            BlockOrder::Strided => self.strided() * self.extent.unit,
            BlockOrder::Same => 0,
            BlockOrder::Zipf(_) => self.zipf() * self.extent.unit,
            BlockOrder::Zoned(zones) => {
                let random = std::array::from_fn(|_| self.rng.next_u64());
                zoned(&zones, self.places, random) * self.extent.unit
            }
        };
        NextBlock { offset: self.extent.start + from_start, begins_anew: self.pass != before }
    }

    /// Advances a contiguous walk by `len` bytes and returns the bytes passed before them in this
    /// pass; starts another pass if fewer than `len` are left.
    fn pass_bytes(&mut self, len: u64) -> u64 {
        if self.next + len > self.extent.bytes {
            (self.next, self.pass) = (0, self.pass + 1);
        }
        let passed = self.next;
        self.next += len;
        passed
    }

    /// Returns the next position of a random walk, in multiples of the extent's unit.
    #[inline(always)]
    fn shuffled(&mut self) -> u64 {
        if self.next == self.places {
            self.shuffle();
        }
        if self.next.is_multiple_of(AHEAD) {
            self.look_ahead();
        }
        self.next += 1;
        self.ahead[((self.next - 1) % AHEAD) as usize]
    }

    fn zipf(&mut self) -> u64 {
        let rank = self.ranks.map_or(1.0, |ranks| ranks.sample(&mut self.rng));
        // The cast saturates, and ranks count from 1.
        self.permutation.apply((rank as u64).clamp(1, self.places) - 1)
    }

    #[inline(never)]
    fn shuffle(&mut self) {
        (self.next, self.pass) = (0, self.pass + 1);
        self.permutation = Permutation::new(self.places, mix(self.seed ^ mix(self.pass)));
    }

    #[inline(never)]
    fn look_ahead(&mut self) {
        let (first, last) = (self.next, self.places.saturating_sub(1));
        let mut indices = std::array::from_fn(|i| first.wrapping_add(i as u64));
        if first.saturating_add(AHEAD) > self.places {
            indices = indices.map(|index| index.min(last));
        }
        self.ahead = self.permutation.apply_all(indices);
    }

    fn strided(&mut self) -> u64 {
        let places = self.places;
        let per_block = (self.extent.largest / self.extent.unit.max(1)).max(1);
        let stride = STRIDE_BLOCKS * per_block;
        if self.next >= places {
            self.phase += per_block;
            if self.phase >= stride.min(places) {
                (self.phase, self.pass) = (0, self.pass + 1);
            }
            self.next = self.phase;
        }
        self.next += stride;
        self.next - stride
    }
}

#[cfg(test)]
mod tests;
