//! What a message of a round trip carries, and what is to be thought of an echo. Pure.
//!
//! The number stands at the beginning (as many of its 8 bytes as fit), then 4 bytes of check, 8 random bytes that are the
//! token of this path, then bytes that stay the same. An echo is compared whole; number and check only tell a late echo
//! from a changed one. In a message below 8 bytes numbers repeat, after 256 messages in the smallest.
//!
//! Anybody can send datagrams under the address of the other end. Only what carries the token was a message of ours, so
//! only that can have been changed on the way; all else is somebody else's. A message without room for the token cannot
//! be told from somebody else's.

use super::super::Fnv;

/// Bytes of the number.
const NUMBER: usize = 8;
/// Bytes of the check.
const CHECK: usize = 4;
/// Bytes of the token: nobody guesses 64 random bits.
const TOKEN: usize = 8;
/// So many of them must be right: what breaks a message may break its token, too. That others have so many by chance
/// happens once in 10¹³ messages: C(8,2) · 255² / 256⁸.
const RIGHT: usize = 6;
/// Where it is.
const TOKEN_AT: std::ops::Range<usize> = NUMBER + CHECK..NUMBER + CHECK + TOKEN;

/// One message, stamped anew for each round trip.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Vec<u8>,
    /// Hash of the bytes that stay the same.
    filler: u64,
    number: u64,
    /// Earlier messages that did not come back in time: they may still come.
    pub(super) missing: u64,
}

/// What an echo is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Byte for byte what was sent last.
    Right,
    /// An earlier message, whole.
    Late,
    /// A message of ours, broken on the way.
    Wrong,
    /// None of ours, as far as can be told.
    Foreign,
}

impl Payload {
    /// Bytes of the smallest message that has a token.
    pub const WITH_TOKEN: usize = TOKEN_AT.end;

    /// A message of these bytes, at least one.
    pub fn new(mut filler: Vec<u8>) -> Self {
        if filler.is_empty() {
            filler.push(0);
        }
        // Not of the run's seed, which others may know.
        if let Some(place) = filler.get_mut(TOKEN_AT) {
            place.copy_from_slice(&plimsoll_system::random::distinct::<TOKEN>());
        }
        let rest = filler.get(NUMBER + CHECK..).unwrap_or_default();
        let hash = Fnv::EMPTY.with(rest).0;
        let mut payload = Payload { bytes: filler, filler: hash, number: 0, missing: 0 };
        payload.stamp(0);
        payload
    }

    /// Makes it the message with this number.
    pub fn stamp(&mut self, number: u64) {
        self.number = number;
        let numbered = self.bytes.len().min(NUMBER);
        let check = check(self.filler, number);
        self.bytes[..numbered].copy_from_slice(&number.to_le_bytes()[..numbered]);
        if let Some(place) = self.bytes.get_mut(NUMBER..NUMBER + CHECK) {
            place.copy_from_slice(&check.to_le_bytes());
        }
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What `echo` is.
    pub fn judge(&self, echo: &[u8]) -> Judgement {
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
                whole && number < self.number && sum == check(self.filler, number).to_le_bytes()
            }
            // Without a check, all that can be said is that the bytes behind the number are right.
            _ => echo.iter().skip(NUMBER).eq(self.bytes.iter().skip(NUMBER)),
        };
        if own { Judgement::Late } else { self.broken(echo) }
    }

    /// Whose message it is that is none that was sent.
    fn broken(&self, echo: &[u8]) -> Judgement {
        let (Some(own), Some(other)) = (self.bytes.get(TOKEN_AT), echo.get(TOKEN_AT)) else {
            return Judgement::Foreign;
        };
        let right = own.iter().zip(other).filter(|(own, other)| own == other).count();
        if right >= RIGHT { Judgement::Wrong } else { Judgement::Foreign }
    }
}

/// Mixes number and filler (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
fn check(filler: u64, number: u64) -> u32 {
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
            prop_assert_eq!(now.judge(now.bytes()), Judgement::Right);
            prop_assert_eq!(now.judge(earlier.bytes()), Judgement::Late);
            prop_assert_eq!(earlier.judge(now.bytes()), Judgement::Wrong, "from the future");
            for sent in [&earlier, &now] {
                let mut changed = sent.bytes().to_vec();
                changed[at.index(size)] ^= 1 << bit;
                prop_assert_eq!(now.judge(&changed), Judgement::Wrong);
            }
            let shorter = &now.bytes()[..Payload::WITH_TOKEN - usize::from(bit)];
            prop_assert_eq!(now.judge(shorter) == Judgement::Foreign, bit > 0);
        }

        #[test]
        fn what_carries_another_token_is_somebody_elses(size in 1usize..200, number: u32, bytes in prop::collection::vec(any::<u8>(), 0..220)) {
            let own = payload(size, u64::from(number));
            // The same program with the same seed, at the same message: all but the token is the same.
            let mut another = payload(size, u64::from(number));
            prop_assert_eq!(own.judge(another.bytes()) == Judgement::Foreign, size >= Payload::WITH_TOKEN);
            another.stamp(u64::from(number) + 1);
            prop_assert!(own.judge(another.bytes()) != Judgement::Wrong);
            prop_assert!(own.judge(&bytes) != Judgement::Wrong);
        }

        #[test]
        fn any_echo_of_any_length_is_judged(size in 1usize..40, echo in prop::collection::vec(any::<u8>(), 0..40)) {
            let now = payload(size, 1);
            let judgement = now.judge(&echo);
            prop_assert_eq!(judgement == Judgement::Right, echo == now.bytes());
            prop_assert!(echo.len() == size || matches!(judgement, Judgement::Wrong | Judgement::Foreign));
        }
    }

    #[test]
    fn one_byte_still_has_a_number() {
        let (one, two) = (payload(1, 1), payload(1, 2));
        assert_eq!(two.judge(two.bytes()), Judgement::Right);
        assert_eq!(two.judge(one.bytes()), Judgement::Late);
        assert_eq!(Payload::new(Vec::new()).bytes().len(), 1);
    }
}
