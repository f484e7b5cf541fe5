//! Sockets: streams and datagrams.

pub mod datagram;
pub mod tcp;
