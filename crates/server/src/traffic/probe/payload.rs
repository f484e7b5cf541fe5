//! Content of the messages of round trips, and the check of an echo. A message has its number (as
//! much of 8 bytes as fits), 4 bytes of check, an 8-byte random token of this path, and filler.
//! Datagrams can be forged: only one with the token can be a changed message, any other is foreign.

use super::super::Fnv;

const NUMBER: usize = 8;
const CHECK: usize = 4;
/// Length of the token, bytes: 64 random bits cannot be guessed.
const TOKEN: usize = 8;
/// Bytes of the token that must match, since a fault may damage the token too. Foreign messages
/// match by chance once in 10¹³: C(8,2) · 255² / 256⁸.
const RIGHT: usize = 6;
const TOKEN_AT: std::ops::Range<usize> = NUMBER + CHECK..NUMBER + CHECK + TOKEN;

/// A message, stamped again for each round trip.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Vec<u8>,
    /// Hash of the constant bytes.
    filler: u64,
    number: u64,
    pub(super) missing: u64,
}

/// Result of the check of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Identical to the last message.
    Right,
    /// An earlier message, unchanged.
    Late,
    /// An own message, changed on the path.
    Wrong,
    /// Not an own message, as far as is known.
    Foreign,
}

impl Payload {
    /// Length of the smallest message with a token, bytes.
    pub const WITH_TOKEN: usize = TOKEN_AT.end;

    /// Creates a message from `filler` (one byte if empty), with a random token in it if that fits.
    pub fn new(mut filler: Vec<u8>) -> Self {
        if filler.is_empty() {
            filler.push(0);
        }
        // Not derived from the run's seed, which may be known.
        if let Some(place) = filler.get_mut(TOKEN_AT) {
            place.copy_from_slice(&plimsoll_system::random::unique_bytes::<TOKEN>());
        }
        let rest = filler.get(NUMBER + CHECK..).unwrap_or_default();
        let hash = Fnv::EMPTY.append(rest).0;
        let mut payload = Payload { bytes: filler, filler: hash, number: 0, missing: 0 };
        payload.stamp(0);
        payload
    }

    /// Writes `number`, the number of the next message, and its check value into the message.
    pub fn stamp(&mut self, number: u64) {
        self.number = number;
        let numbered = self.bytes.len().min(NUMBER);
        let check = check_value(self.filler, number);
        self.bytes[..numbered].copy_from_slice(&number.to_le_bytes()[..numbered]);
        if let Some(place) = self.bytes.get_mut(NUMBER..NUMBER + CHECK) {
            place.copy_from_slice(&check.to_le_bytes());
        }
    }

    /// Returns the whole message, as stamped last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Classifies an echo: equal to the current message, an earlier one, a changed one, or foreign.
    pub fn classify(&self, echo: &[u8]) -> Judgement {
        if echo == self.bytes {
            return Judgement::Right;
        }
        if echo.len() != self.bytes.len() {
            return self.broken(echo);
        }
        let own = match (echo.first_chunk::<NUMBER>(), echo.get(NUMBER..NUMBER + CHECK)) {
            (Some(number), Some(sum)) => {
                let number = u64::from_le_bytes(*number);
                let whole = echo[NUMBER + CHECK..] == self.bytes[NUMBER + CHECK..];
                whole && number < self.number && sum == check_value(self.filler, number).to_le_bytes()
            }
            // Without a check, only the bytes after the number can be compared.
            _ => echo.iter().skip(NUMBER).eq(self.bytes.iter().skip(NUMBER)),
        };
        if own { Judgement::Late } else { self.broken(echo) }
    }

    fn broken(&self, echo: &[u8]) -> Judgement {
        let (Some(own), Some(other)) = (self.bytes.get(TOKEN_AT), echo.get(TOKEN_AT)) else {
            return Judgement::Foreign;
        };
        let right = own.iter().zip(other).filter(|(own, other)| own == other).count();
        if right >= RIGHT { Judgement::Wrong } else { Judgement::Foreign }
    }
}

/// Returns a hash of a message's number and filler (SplitMix64; Steele, Lea and Flood 2014).
fn check_value(filler: u64, number: u64) -> u32 {
    let mut z = filler ^ number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payload(size: usize, number: u64) -> Payload {
        let mut payload = Payload::new((0..size).map(|n| n as u8 ^ 0x5a).collect());
        payload.stamp(number);
        payload
    }

    proptest! {
        #[test]
        fn echoes_are_told_apart(size in Payload::WITH_TOKEN..200, first: u32, later in 1u64..1 << 40, at: prop::sample::Index, bit in 0u8..8) {
            let earlier = payload(size, u64::from(first));
            let mut now = earlier.clone();
            now.stamp(u64::from(first) + later);
            prop_assert_eq!(now.classify(now.bytes()), Judgement::Right);
            prop_assert_eq!(now.classify(earlier.bytes()), Judgement::Late);
            prop_assert_eq!(earlier.classify(now.bytes()), Judgement::Wrong, "from the future");
            for sent in [&earlier, &now] {
                let mut changed = sent.bytes().to_vec();
                changed[at.index(size)] ^= 1 << bit;
                prop_assert_eq!(now.classify(&changed), Judgement::Wrong);
            }
            let shorter = &now.bytes()[..Payload::WITH_TOKEN - usize::from(bit)];
            prop_assert_eq!(now.classify(shorter) == Judgement::Foreign, bit > 0);
        }

        #[test]
        fn what_carries_another_token_is_somebody_elses(size in 1usize..200, number: u32, bytes in prop::collection::vec(any::<u8>(), 0..220)) {
            let own = payload(size, u64::from(number));
            // Another program with the same seed, at the same message: only the token differs.
            let mut another = payload(size, u64::from(number));
            prop_assert_eq!(own.classify(another.bytes()) == Judgement::Foreign, size >= Payload::WITH_TOKEN);
            another.stamp(u64::from(number) + 1);
            prop_assert!(own.classify(another.bytes()) != Judgement::Wrong);
            prop_assert!(own.classify(&bytes) != Judgement::Wrong);
        }

        #[test]
        fn any_echo_of_any_length_is_judged(size in 1usize..40, echo in prop::collection::vec(any::<u8>(), 0..40)) {
            let now = payload(size, 1);
            let judgement = now.classify(&echo);
            prop_assert_eq!(judgement == Judgement::Right, echo == now.bytes());
            prop_assert!(echo.len() == size || matches!(judgement, Judgement::Wrong | Judgement::Foreign));
        }
    }

    #[test]
    fn one_byte_still_has_a_number() {
        let (one, two) = (payload(1, 1), payload(1, 2));
        assert_eq!(two.classify(two.bytes()), Judgement::Right);
        assert_eq!(two.classify(one.bytes()), Judgement::Late);
        assert_eq!(Payload::new(Vec::new()).bytes().len(), 1);
    }
}
