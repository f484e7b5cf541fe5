//! Frames: a length of four bytes and a sealed message. Memory grows with the received bytes.

use snow::TransportState;

/// Largest frame without its length, bytes: the limit of Noise.
pub const MAX: usize = 65_535;
/// Length of the authentication tag of a frame, bytes; also that of the shortest frame.
const SEAL: usize = 16;
const LENGTH_BYTES: usize = 4;

/// Fault of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is out of range.
    #[error("a frame of {0} bytes, where {SEAL} to {MAX} are allowed")]
    Length(u32),
    /// The frame was not sealed by the other end, or is out of order.
    #[error("a frame that is not authentic: it was changed on the way, or another key made it")]
    Seal,
    /// The message does not fit in a frame.
    #[error("a message of {0} bytes does not fit in a frame")]
    TooLong(usize),
}

/// Assembles frames from pieces of any size.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns how many bytes are missing from the length or the frame in progress; 0 if complete.
    pub fn missing_bytes(&self) -> Result<usize, FrameError> {
        let whole = self.length()?.map_or(LENGTH_BYTES, |length| LENGTH_BYTES + length);
        Ok(whole.saturating_sub(self.bytes.len()))
    }

    /// Returns whether some bytes of the next frame have arrived.
    pub fn has_begun(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let stated = u32::from_be_bytes(*head);
        match usize::try_from(stated) {
            Ok(length) if (SEAL..=MAX).contains(&length) => Ok(Some(length)),
            _ => Err(FrameError::Length(stated)),
        }
    }

    /// Removes and decrypts the next message; `None` while incomplete. An error is final.
    pub fn next_message(&mut self, transport: &mut TransportState) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(length) = self.length()? else { return Ok(None) };
        if self.bytes.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        let rest = self.bytes.split_off(LENGTH_BYTES + length);
        let frame = std::mem::replace(&mut self.bytes, rest);
        let mut opened = vec![0; length];
        let n = transport.read_message(&frame[LENGTH_BYTES..], &mut opened).map_err(|_| FrameError::Seal)?;
        opened.truncate(n);
        Ok(Some(opened))
    }
}

/// Encrypts `message` into a frame with its length. Fails if it is too long.
pub fn seal(transport: &mut TransportState, message: &[u8]) -> Result<Vec<u8>, FrameError> {
    let length = message.len() + SEAL;
    let stated =
        u32::try_from(length).ok().filter(|_| length <= MAX).ok_or(FrameError::TooLong(message.len()))?;
    let mut frame = vec![0; LENGTH_BYTES + length];
    frame[..LENGTH_BYTES].copy_from_slice(&stated.to_be_bytes());
    transport.write_message(message, &mut frame[LENGTH_BYTES..]).map_err(|_| FrameError::Seal)?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixture::ends;
    use proptest::prelude::*;

    #[test]
    fn lengths_out_of_range_are_refused_at_once() {
        for stated in [0u32, 15, 65_536, u32::MAX] {
            let mut inbox = Inbox::default();
            inbox.push(&stated.to_be_bytes());
            assert_eq!(inbox.missing_bytes(), Err(FrameError::Length(stated)));
            assert_eq!(inbox.next_message(&mut ends().1), Err(FrameError::Length(stated)));
        }
    }

    #[test]
    fn the_longest_message_fits_and_one_byte_more_does_not() {
        let (mut near, mut far) = ends();
        let longest = vec![7; MAX - SEAL];
        let mut inbox = Inbox::default();
        inbox.push(&seal(&mut near, &longest).unwrap());
        assert_eq!(inbox.next_message(&mut far).unwrap(), Some(longest));
        assert_eq!(seal(&mut near, &vec![7; MAX - SEAL + 1]), Err(FrameError::TooLong(MAX - SEAL + 1)));
    }

    #[test]
    fn a_replayed_frame_is_refused() {
        let (mut near, mut far) = ends();
        let frame = seal(&mut near, b"once").unwrap();
        let mut inbox = Inbox::default();
        inbox.push(&frame);
        inbox.push(&frame);
        assert!(inbox.next_message(&mut far).unwrap().is_some());
        assert_eq!(inbox.next_message(&mut far), Err(FrameError::Seal));
    }

    proptest! {
        #[test]
        fn frames_arrive_whole_however_they_are_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
            cuts in prop::collection::vec(1usize..90, 1..20),
        ) {
            let (mut near, mut far) = ends();
            let bytes: Vec<u8> = messages.iter().flat_map(|m| seal(&mut near, m).unwrap()).collect();
            let (mut inbox, mut seen, mut rest) = (Inbox::default(), Vec::new(), bytes.as_slice());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let wanted = inbox.missing_bytes().unwrap();
                let (piece, after) = rest.split_at((*cut).min(wanted).min(rest.len()));
                inbox.push(piece);
                if let Some(message) = inbox.next_message(&mut far).unwrap() { seen.push(message); }
                rest = after;
            }
            prop_assert_eq!(seen, messages);
            prop_assert!(!inbox.has_begun());
        }

        #[test]
        fn noise_is_no_frame(bytes in prop::collection::vec(any::<u8>(), 20..200)) {
            let mut inbox = Inbox::default();
            inbox.push(&bytes);
            prop_assert!(!matches!(inbox.next_message(&mut ends().1), Ok(Some(_))));
        }
    }
}
