//! Fuzzes all code that reads bytes from the network, before and after the handshake.
//!
//! `make fuzz` calls these functions with libFuzzer, the tests with the corpus and seeded changes
//! to it. Any bytes must be read or refused, with bounded memory; what was read must have the same
//! meaning when it is written again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

use plimsoll_server::wire::frame::{FrameError, Inbox, MAX, seal};
use plimsoll_server::wire::handshake::{HandshakeError, Initiator, LENGTH, respond};
use plimsoll_server::wire::{Message, SharedKey};

/// The first bytes of an unauthenticated peer, to the server and to the client.
///
/// Byte 0 selects the receiver and whether the rest is a message by itself or is combined by
/// exclusive or with a valid message, so that every stage after the authentication is reached.
pub(crate) fn before_handshake(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let key = SharedKey::open();
    let (near, first) = Initiator::new(&key).expect("a first message");
    if choice & 1 == 0 {
        let message = laid_over(first, rest, choice & 2 != 0);
        match respond(&key, &message) {
            Ok(answer) => {
                assert_eq!(answer.message.len(), LENGTH, "never more than was received");
                assert_eq!(message, first, "only one who knows the key is answered");
            }
            Err(error) => assert_eq!(error, HandshakeError::Refused),
        }
    } else {
        let answer = respond(&key, &first).expect("an answer").message;
        let message = laid_over(answer, rest, choice & 2 != 0);
        match near.finish(&message) {
            Ok(_) => assert_eq!(message, answer, "only a server that has the key is believed"),
            Err(error) => assert_eq!(error, HandshakeError::Refused),
        }
    }
    // A frame's length is refused before memory is allocated for it.
    let mut inbox = Inbox::default();
    inbox.push(&rest[..rest.len().min(4)]);
    match inbox.missing_bytes() {
        Ok(wanted) => assert!(wanted <= MAX + 4),
        Err(error) => assert!(matches!(error, FrameError::Length(_))),
    }
}

/// `rest` as a message, or as changes to `good`; missing bytes change nothing.
fn laid_over(good: [u8; LENGTH], rest: &[u8], changes: bool) -> [u8; LENGTH] {
    let mut message = if changes { good } else { [0; LENGTH] };
    message.iter_mut().zip(rest).for_each(|(byte, change)| *byte ^= change);
    message
}

/// Frames of an authenticated but hostile peer.
///
/// Byte 0 even: the rest are texts of messages, one per line, sealed and cut into pieces of byte
/// 1's size. Odd: the rest are raw bytes of the connection.
pub(crate) fn after_handshake(bytes: &[u8]) {
    let [choice, cut, rest @ ..] = bytes else { return };
    let (mut near, mut far) = ends();
    let mut inbox = Inbox::default();
    if choice & 1 == 1 {
        inbox.push(rest);
        // Bytes that were not sealed never give a message.
        assert!(!matches!(inbox.next_message(&mut far), Ok(Some(_))));
        return;
    }
    let texts: Vec<&[u8]> = rest.split(|byte| *byte == b'\n').collect();
    let wire: Vec<u8> = texts
        .iter()
        .filter(|text| text.len() <= MAX - 16)
        .flat_map(|text| seal(&mut near, text).expect("a frame"))
        .collect();
    let mut taken = Vec::new();
    let mut left = wire.as_slice();
    while !left.is_empty() {
        let missing_bytes = inbox.missing_bytes().expect("a sound length");
        let (piece, after) = left.split_at(missing_bytes.min(usize::from(*cut) + 1).min(left.len()));
        inbox.push(piece);
        left = after;
        taken.extend(inbox.next_message(&mut far).expect("a sound seal"));
    }
    assert!(taken.iter().eq(texts.iter().filter(|text| text.len() <= MAX - 16)), "as it was sent");
    taken.iter().for_each(|text| read(text));
}

/// A message is in range, has the same meaning when it is written again, and fits in a frame; a
/// refusal is one short line without control characters.
fn read(text: &[u8]) {
    match Message::parse(text) {
        Ok(message) => {
            let again = message.to_json();
            assert!(again.len() <= MAX - 16);
            assert_eq!(Message::parse(&again).as_ref(), Ok(&message));
            let times = match &message {
                Message::Tcp(work) => work.time(),
                Message::Udp(work) => work.time(),
                _ => None,
            };
            // Both ends can compute the time.
            let _ = times.map(|time| time.as_secs_f64());
        }
        Err(why) => assert!(why.chars().count() <= 300 && !why.chars().any(char::is_control), "{why}"),
    }
}

fn ends() -> (snow::TransportState, snow::TransportState) {
    let key = SharedKey::open();
    let (near, first) = Initiator::new(&key).expect("a first message");
    let answer = respond(&key, &first).expect("an answer");
    let far = answer.transport.expect("one version");
    (near.finish(&answer.message).expect("the answer of the key's owner"), far)
}
