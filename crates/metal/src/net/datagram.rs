//! Batches of UDP datagrams with `sendmmsg` and `recvmmsg`. With offload (`UDP_SEGMENT`, `UDP_GRO`)
//! up to 64 datagrams are one message with a segment length.

use std::os::fd::{AsFd, AsRawFd};
use std::{io, ptr};

/// Largest UDP payload over IPv4 in bytes: 65535 less 20 of IP and 8 of UDP header.
pub const MAX_DATAGRAM: usize = 65_507;
/// `UDP_SEGMENT` of `linux/udp.h`.
const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;
/// `UDP_MAX_SEGMENTS` of kernels up to 6.8; later ones take 128.
const MAX_SEGMENTS: usize = 64;
const MESSAGES_PER_CALL: usize = 64;
/// Bytes per system call; more do not fit in a level-2 cache.
const CALL_BYTES: usize = 256 << 10;
const CONTROL: usize = 64;
/// Index of the drops in `SO_MEMINFO` (`SK_MEMINFO_DROPS` of `linux/sock_diag.h`).
const DROPS: usize = 8;

/// Enables receive offload (`UDP_GRO`) on a UDP socket. Needs Linux 5.0.
pub fn enable_receive_offload(socket: impl AsFd) -> io::Result<()> {
    super::set(socket, libc::SOL_UDP, UDP_GRO, 1)
}

/// Returns the number of datagrams dropped because the socket's receive buffer was full.
pub fn dropped_at_socket(socket: impl AsFd) -> io::Result<u32> {
    let mut numbers = [0u32; 16];
    if super::get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut numbers)? < (DROPS + 1) * size_of::<u32>()
    {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(numbers[DROPS])
}

/// Whether the kernel splits messages into datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// A message is up to 64 datagrams.
    Kernel,
    /// A message is one datagram.
    None,
}

/// Datagrams of one size, to fill and send.
#[derive(Debug)]
pub struct SendBatch {
    bytes: Vec<u8>,
    datagram: usize,
    per_message: usize,
}

impl SendBatch {
    /// Creates one call's zeroed datagrams of `datagram` bytes, clamped to 1..=[`MAX_DATAGRAM`].
    pub fn new(datagram: usize, segmentation: Segmentation) -> Self {
        let datagram = datagram.clamp(1, MAX_DATAGRAM);
        let per_message = match segmentation {
            Segmentation::Kernel => (MAX_DATAGRAM / datagram).clamp(1, MAX_SEGMENTS),
            Segmentation::None => 1,
        };
        let messages = (CALL_BYTES / (datagram * per_message)).clamp(1, MESSAGES_PER_CALL);
        SendBatch { bytes: vec![0; messages * per_message * datagram], datagram, per_message }
    }

    /// Sets whether `socket` splits messages into datagrams of this batch's size. Fails before
    /// Linux 4.18; if the device cannot segment, only [`SendBatch::send`] fails, `EIO` or `EINVAL`.
    pub fn prepare(&self, socket: impl AsFd) -> io::Result<()> {
        // At most 65507, so it fits. 0 disables segmentation.
        let bytes = if self.per_message > 1 { self.datagram as libc::c_int } else { 0 };
        super::set(socket, libc::SOL_UDP, UDP_SEGMENT, bytes)
    }

    /// Returns the number of datagrams in the batch, which one call sends.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len() / self.datagram
    }

    /// Returns the number of datagrams per message: 1 without segmentation.
    #[inline]
    pub fn per_message(&self) -> usize {
        self.per_message
    }

    /// Returns the payload of datagram `index`, to fill; panics unless below
    /// [`SendBatch::capacity`].
    #[inline]
    pub fn datagram_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * self.datagram..][..self.datagram]
    }

    /// Sends the datagrams with the indices `datagrams` on a connected socket by one system call.
    /// Returns the number that the kernel accepted, at least 1 (0 for an empty range).
    pub fn send(&self, socket: impl AsFd, datagrams: std::ops::Range<usize>) -> io::Result<usize> {
        let last = datagrams.end.min(self.capacity());
        let Some(rest) = self.bytes.get(datagrams.start * self.datagram..last * self.datagram) else {
            return Ok(0);
        };
        let mut pieces = [const { libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 } }; MESSAGES_PER_CALL];
        let mut headers = empty();
        let mut messages = 0;
        let slots = pieces.iter_mut().zip(&mut headers);
        for (bytes, (piece, header)) in rest.chunks(self.per_message * self.datagram).zip(slots) {
            *piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            messages += 1;
        }
        if messages == 0 {
            return Ok(0);
        }
        let fd = socket.as_fd().as_raw_fd();
        let taken = count_of(|| {
            // SAFETY: `headers` and `pieces` outlive the call; pieces are within `self.bytes`.
            unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), messages, libc::MSG_NOSIGNAL as _) }
        })?;
        Ok((taken * self.per_message).min(last - datagrams.start))
    }
}

fn empty() -> [libc::mmsghdr; MESSAGES_PER_CALL] {
    // SAFETY: a header consists of numbers and pointers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// Repeats system call `call` until no signal interrupts it; returns its count or its error.
#[inline]
fn count_of(mut call: impl FnMut() -> libc::c_int) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(count) => return Ok(count),
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    bytes: usize,
    segment: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
struct ControlBuffer([u8; CONTROL]);

/// Datagrams received by one system call.
#[derive(Debug)]
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    slot: usize,
    control: Vec<ControlBuffer>,
    arrived: Vec<Arrived>,
}

impl ReceiveBatch {
    /// Creates room for messages of up to `longest` bytes ([`MAX_DATAGRAM`] for receive offload);
    /// longer messages are cut to `longest` + 1 bytes.
    pub fn new(longest: usize) -> Self {
        let slot = longest.clamp(1, MAX_DATAGRAM) + 1;
        let messages = (2 * CALL_BYTES / slot).clamp(8, MESSAGES_PER_CALL);
        ReceiveBatch {
            bytes: vec![0; messages * slot],
            slot,
            control: vec![ControlBuffer([0; CONTROL]); messages],
            arrived: Vec::with_capacity(messages),
        }
    }

    /// Waits for a message, receives all that are available, and returns their number. Discards
    /// those of the last call. Fails with `WouldBlock` after the timeout of the socket, if any.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.arrived.clear();
        let mut pieces = [const { libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 } }; MESSAGES_PER_CALL];
        let mut headers = empty();
        let mut messages = 0;
        let slots = self.bytes.chunks_exact_mut(self.slot).zip(&mut self.control);
        for ((bytes, control), (piece, header)) in slots.zip(pieces.iter_mut().zip(&mut headers)) {
            *piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
            messages += 1;
        }
        let fd = socket.as_fd().as_raw_fd();
        let count = count_of(|| {
            let (flags, endless) = (libc::MSG_WAITFORONE as _, ptr::null_mut());
            // SAFETY: `headers`, `pieces`, `self.bytes` and `self.control` outlive the call; each
            // header has its own slot of each, with the right length.
            unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), messages, flags, endless) }
        })?;
        for (header, control) in headers[..count].iter().zip(&self.control) {
            let bytes = (header.msg_len as usize).min(self.slot);
            #[allow(clippy::unnecessary_cast)]
            let used = (header.msg_hdr.msg_controllen as usize).min(CONTROL);
            let segment = segment_of(&control.0[..used]).filter(|segment| *segment > 0);
            self.arrived.push(Arrived { bytes, segment: segment.unwrap_or(bytes).max(1) });
        }
        Ok(count)
    }

    /// Returns the datagrams of the last [`Self::receive`] in order of arrival, without empty ones.
    #[inline]
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let slots = self.bytes.chunks_exact(self.slot).zip(&self.arrived);
        slots.flat_map(|(slot, arrived)| slot[..arrived.bytes].chunks(arrived.segment))
    }
}

/// Returns the `UDP_GRO` segment length in bytes from control messages; `None` if there is none.
fn segment_of(control: &[u8]) -> Option<usize> {
    const CONTROL_HEADER_BYTES: usize = 16;
    let mut rest = control;
    while rest.len() >= CONTROL_HEADER_BYTES {
        let length = usize::try_from(u64::from_ne_bytes(rest[..8].try_into().ok()?)).ok()?;
        let level = i32::from_ne_bytes(rest[8..12].try_into().ok()?);
        let kind = i32::from_ne_bytes(rest[12..16].try_into().ok()?);
        if (level, kind) == (libc::SOL_UDP, UDP_GRO) {
            let value = rest.get(CONTROL_HEADER_BYTES..CONTROL_HEADER_BYTES + 4)?;
            return usize::try_from(i32::from_ne_bytes(value.try_into().ok()?)).ok();
        }
        rest = rest.get(length.max(CONTROL_HEADER_BYTES).checked_next_multiple_of(8)?..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        b.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (a, b)
    }

    fn exchanged(size: usize, count: usize, segmentation: Segmentation, offload: bool) -> Vec<u8> {
        let (a, b) = pair();
        if offload {
            enable_receive_offload(&b).unwrap();
        }
        let mut batch = SendBatch::new(size, segmentation);
        batch.prepare(&a).unwrap();
        assert!(count <= batch.capacity());
        for index in 0..count {
            let datagram = batch.datagram_mut(index);
            datagram.fill(0xa5);
            datagram[0] = index as u8;
        }
        let mut sent = 0;
        while sent < count {
            sent += batch.send(&a, sent..count).unwrap();
        }
        let mut arrived = ReceiveBatch::new(if offload { MAX_DATAGRAM } else { size });
        let mut numbers = Vec::new();
        while numbers.len() < count {
            arrived.receive(&b).unwrap();
            for datagram in arrived.datagrams() {
                assert_eq!(datagram.len(), size);
                assert!(datagram[1..].iter().all(|byte| *byte == 0xa5));
                numbers.push(datagram[0]);
            }
        }
        numbers
    }

    #[test]
    fn all_ways_carry_the_same_datagrams_in_order() {
        for (size, count) in [(1, 64), (17, 40), (1024, 63), (1024, 50), (9000, 7), (MAX_DATAGRAM, 2)] {
            let expected: Vec<u8> = (0..count).map(|n| n as u8).collect();
            for segmentation in [Segmentation::Kernel, Segmentation::None] {
                for offload in [false, true] {
                    let seen = exchanged(size, count, segmentation, offload);
                    assert_eq!(seen, expected, "{size} bytes, {segmentation:?}, offload {offload}");
                }
            }
        }
    }

    #[test]
    fn a_longer_datagram_is_not_taken_for_an_expected_one() {
        let (a, b) = pair();
        a.send(&[0; 300]).unwrap();
        let mut arrived = ReceiveBatch::new(100);
        assert_eq!(arrived.receive(&b).unwrap(), 1);
        assert_eq!(arrived.datagrams().map(<[u8]>::len).collect::<Vec<_>>(), [101]);
    }

    #[test]
    fn nothing_is_left_after_an_error_and_empty_ranges_send_nothing() {
        let (a, b) = pair();
        a.send(&[1]).unwrap();
        let mut arrived = ReceiveBatch::new(1);
        arrived.receive(&b).unwrap();
        b.set_nonblocking(true).unwrap();
        assert_eq!(arrived.receive(&b).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(arrived.datagrams().count(), 0);
        let batch = SendBatch::new(1, Segmentation::None);
        assert_eq!([0..0, 5000..6000].map(|none| batch.send(&a, none).unwrap()), [0; 2]);
    }

    #[test]
    fn a_full_socket_counts_what_it_drops() {
        let (a, b) = pair();
        assert_eq!(dropped_at_socket(&b).unwrap(), 0);
        rustix::net::sockopt::set_socket_recv_buffer_size(&b, 4096).unwrap();
        for _ in 0..100 {
            a.send(&[0; 1000]).unwrap();
        }
        assert!(dropped_at_socket(&b).unwrap() > 0);
    }

    #[test]
    fn control_messages_of_any_bytes_give_a_length_or_none() {
        let kind = [libc::SOL_UDP.to_ne_bytes(), UDP_GRO.to_ne_bytes(), 1024i32.to_ne_bytes()].concat();
        let good = [&20u64.to_ne_bytes()[..], &kind[..]].concat();
        assert_eq!(segment_of(&good), Some(1024));
        let mut behind = vec![0; 24];
        behind[0] = 20;
        behind.extend(&good);
        assert_eq!(segment_of(&behind), Some(1024));
        assert!((0..good.len()).all(|cut| segment_of(&good[..cut]).is_none()));
        assert_eq!([0xff, 0].map(|byte| segment_of(&[byte; CONTROL])), [None; 2]);
    }
}
