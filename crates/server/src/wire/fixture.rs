//! Fixtures for tests of the wire protocol.

use std::net::{TcpListener, TcpStream};

use snow::TransportState;

use super::handshake::{self, LENGTH, begin};
use super::{Channel, SharedKey};

pub(crate) fn ends() -> (TransportState, TransportState) {
    let key = SharedKey::random().unwrap();
    let (near, first) = handshake::Initiator::new(&key).unwrap();
    let answer = handshake::respond(&key, &first).unwrap();
    (near.finish(&answer.message).unwrap(), answer.transport.unwrap())
}

pub(crate) fn channels() -> (Channel, Channel) {
    let (near, far) = ends();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Channel::new(stream, near), Channel::new(listener.accept().unwrap().0, far))
}

pub(crate) fn message_of_version(key: &SharedKey, version: u16) -> [u8; LENGTH] {
    let mut state = begin(key).unwrap().build_initiator().unwrap();
    let [high, low] = version.to_be_bytes();
    let mut message = [0; LENGTH];
    state.write_message(&[high, low, 0, 0], &mut message).unwrap();
    message
}
