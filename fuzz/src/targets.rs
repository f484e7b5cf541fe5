//! What is fuzzed: all that reads bytes from the wire, before the handshake is over and after it.
//!
//! `make fuzz` drives these functions with libFuzzer, guided by coverage; the tests include this file and drive them
//! with the corpus and with a bounded number of seeded changes to it. Both take any bytes: each must be read or
//! refused, with bounded memory, and what is read must mean the same when it is written again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

use plimsoll_server::wire::frame::{FrameError, Inbox, MAX, seal};
use plimsoll_server::wire::handshake::{HandshakeError, Initiator, LENGTH, respond};
use plimsoll_server::wire::{Key, Message};

/// The first bytes of a stranger to the far end, and of a stranger to the near end.
///
/// Byte 0 chooses who reads and what the rest is laid over: nothing, or a message of somebody who knows the key, whose
/// bytes are changed by exclusive or. So every stage past the seal is within reach.
pub(crate) fn before_handshake(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let key = Key::open();
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
    // What comes instead of a frame: lengths are refused before there is memory for them.
    let mut inbox = Inbox::default();
    inbox.push(&rest[..rest.len().min(4)]);
    match inbox.wanted() {
        Ok(wanted) => assert!(wanted <= MAX + 4),
        Err(error) => assert!(matches!(error, FrameError::Length(_))),
    }
}

/// `rest` as a message, or as changes to `good`; what is missing of it changes nothing.
fn laid_over(good: [u8; LENGTH], rest: &[u8], changes: bool) -> [u8; LENGTH] {
    let mut message = if changes { good } else { [0; LENGTH] };
    message.iter_mut().zip(rest).for_each(|(byte, change)| *byte ^= change);
    message
}

/// Frames of one who knows the key, but is no friend.
///
/// Byte 0 chooses. Even: the rest is the text of one message for each line, sealed, and cut into pieces of byte 1's size.
/// Odd: the rest are the bytes of the connection as they are, in place of frames.
pub(crate) fn after_handshake(bytes: &[u8]) {
    let [choice, cut, rest @ ..] = bytes else { return };
    let (mut near, mut far) = ends();
    let mut inbox = Inbox::default();
    if choice & 1 == 1 {
        inbox.push(rest);
        // The seal stands before everything else: nothing that was not sealed is ever taken out.
        assert!(!matches!(inbox.take(&mut far), Ok(Some(_))));
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
        let wanted = inbox.wanted().expect("a sound length");
        let (piece, after) = left.split_at(wanted.min(usize::from(*cut) + 1).min(left.len()));
        inbox.push(piece);
        left = after;
        taken.extend(inbox.take(&mut far).expect("a sound seal"));
    }
    assert!(taken.iter().eq(texts.iter().filter(|text| text.len() <= MAX - 16)), "as it was sent");
    taken.iter().for_each(|text| read(text));
}

/// What is read is in range, means the same when it is written again, and fits in a frame; what is refused is refused
/// in one short line without control characters.
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
            // What both ends compute from it, they can.
            let _ = times.map(|time| time.as_secs_f64());
        }
        Err(why) => assert!(why.chars().count() <= 300 && !why.chars().any(char::is_control), "{why}"),
    }
}

fn ends() -> (snow::TransportState, snow::TransportState) {
    let key = Key::open();
    let (near, first) = Initiator::new(&key).expect("a first message");
    let answer = respond(&key, &first).expect("an answer");
    let far = answer.transport.expect("one version");
    (near.finish(&answer.message).expect("the answer of the key's owner"), far)
}
