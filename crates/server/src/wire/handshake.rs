//! The handshake: `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`, two messages of [`LENGTH`] bytes.
//! Message 2 proves that the server has the key, the first frame that the client is no replay.
//! Message 1 can be replayed, so it must not contain a request.

use snow::{Builder, HandshakeState, TransportState};

use super::{PROTOCOL_VERSION, SharedKey};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Separates this handshake from those of other programs with the same key.
const PROLOGUE: &[u8] = b"plimsoll";

/// Length of the payload: version, and two reserved bytes that must be zero.
const PAYLOAD: usize = 4;

/// Length of each message: a public key, the sealed payload, its seal.
pub const LENGTH: usize = 32 + PAYLOAD + 16;

/// Reason why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The other end does not know the key, or uses another protocol.
    #[error("the key was refused")]
    Refused,
    /// The other end has another version.
    #[error(
        "it uses protocol version {0}, and this plimsoll uses version {PROTOCOL_VERSION}: use the same build on client and server"
    )]
    Version(u16),
    /// The cryptographic library failed.
    #[error("the handshake could not be computed on this machine")]
    Internal,
}

pub(super) fn begin(key: &SharedKey) -> Option<Builder<'_>> {
    let builder = Builder::new(PATTERN.parse().ok()?);
    builder.prologue(PROLOGUE).ok()?.psk(0, key.bytes()).ok()
}

fn read(state: &mut HandshakeState, message: &[u8; LENGTH]) -> Result<u16, HandshakeError> {
    let mut stated = [0; LENGTH];
    match state.read_message(message, &mut stated) {
        Ok(PAYLOAD) => Ok(u16::from_be_bytes([stated[0], stated[1]])),
        _ => Err(HandshakeError::Refused),
    }
}

fn write(state: &mut HandshakeState) -> Result<[u8; LENGTH], HandshakeError> {
    let (mut message, [high, low]) = ([0; LENGTH], PROTOCOL_VERSION.to_be_bytes());
    match state.write_message(&[high, low, 0, 0], &mut message) {
        Ok(LENGTH) => Ok(message),
        _ => Err(HandshakeError::Internal),
    }
}

const fn same(version: u16) -> Result<(), HandshakeError> {
    if version == PROTOCOL_VERSION { Ok(()) } else { Err(HandshakeError::Version(version)) }
}

/// The connecting end.
#[derive(Debug)]
pub struct Initiator(HandshakeState);

impl Initiator {
    /// Starts the client's handshake. Returns its state and message 1, to be sent.
    pub fn new(key: &SharedKey) -> Result<(Self, [u8; LENGTH]), HandshakeError> {
        let state = begin(key).and_then(|b| b.build_initiator().ok());
        let mut state = state.ok_or(HandshakeError::Internal)?;
        let message = write(&mut state)?;
        Ok((Initiator(state), message))
    }

    /// Completes the handshake with message 2, `answer`. Fails for another key or version.
    pub fn finish(mut self, answer: &[u8; LENGTH]) -> Result<TransportState, HandshakeError> {
        same(read(&mut self.0, answer)?)?;
        self.0.into_transport_mode().map_err(|_| HandshakeError::Internal)
    }
}

/// Answer of the listening end.
#[derive(Debug)]
pub struct HandshakeAnswer {
    /// Message 2. A client with the key gets it even if its version differs, to report that.
    pub message: [u8; LENGTH],
    /// The sealed connection; an error if the versions differ.
    pub transport: Result<TransportState, HandshakeError>,
}

/// Answers message 1 of a client. Fails if the client does not have the key: no answer may be sent.
pub fn respond(key: &SharedKey, message: &[u8; LENGTH]) -> Result<HandshakeAnswer, HandshakeError> {
    let state = begin(key).and_then(|b| b.build_responder().ok());
    let mut state = state.ok_or(HandshakeError::Internal)?;
    let version = read(&mut state, message)?;
    let message = write(&mut state)?;
    let transport =
        same(version).and_then(|()| state.into_transport_mode().map_err(|_| HandshakeError::Internal));
    Ok(HandshakeAnswer { message, transport })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{ends, message_of_version};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_ends_agree_and_seal() {
        let (mut near, mut far) = ends();
        let (mut sealed, mut opened) = ([0; 64], [0; 64]);
        let n = near.write_message(b"hello", &mut sealed).unwrap();
        let m = far.read_message(&sealed[..n], &mut opened).unwrap();
        assert_eq!(&opened[..m], b"hello");
    }

    #[test]
    fn a_wrong_key_a_reflection_and_a_replayed_answer_are_refused() {
        let key = SharedKey::random().unwrap();
        let (near, first) = Initiator::new(&key).unwrap();
        assert_eq!(respond(&SharedKey::random().unwrap(), &first).unwrap_err(), HandshakeError::Refused);
        assert_eq!(near.finish(&first).unwrap_err(), HandshakeError::Refused);
        let recorded = respond(&key, &first).unwrap().message;
        let (near, _) = Initiator::new(&key).unwrap();
        assert_eq!(near.finish(&recorded).unwrap_err(), HandshakeError::Refused);
    }

    #[test]
    fn another_version_is_answered_and_named() {
        let key = SharedKey::random().unwrap();
        let answer = respond(&key, &message_of_version(&key, 1)).unwrap();
        assert_eq!(answer.transport.unwrap_err(), HandshakeError::Version(1));
        let reported = HandshakeError::Version(1).to_string();
        let both = format!("version 1, and this plimsoll uses version {PROTOCOL_VERSION}");
        assert!(reported.contains(&both), "{reported}");
    }

    proptest! {
        #[test]
        fn no_unauthenticated_answer(bytes in prop::collection::vec(any::<u8>(), LENGTH)) {
            let message: [u8; LENGTH] = bytes.try_into().unwrap();
            prop_assert!(respond(&SharedKey::random().unwrap(), &message).is_err());
        }

        #[test]
        fn a_changed_byte_is_found(at in 0..LENGTH, bit in 0u32..8) {
            let key = SharedKey::open();
            let (_, mut first) = Initiator::new(&key).unwrap();
            first[at] ^= 1u8 << bit;
            // X25519 ignores the highest bit of a public key, but the hash over it does not.
            prop_assert!(respond(&key, &first).is_err());
        }
    }
}
