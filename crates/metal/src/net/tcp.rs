//! TCP socket features missing in std and rustix. Names and units as in tcp(7) and `linux/tcp.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// State of a connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Largest payload of a sent segment, in bytes.
    pub send_mss: u32,
    /// Consecutive retransmission timeouts without an acknowledgement.
    pub timeouts: u8,
    /// Segments sent but not acknowledged.
    pub unacknowledged: u32,
    /// Whether segments carry timestamps (12 bytes of options each).
    pub timestamps: bool,
    /// Milliseconds since the peer's last acknowledgement.
    pub last_ack_ms: u32,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Shortest round-trip time of the last minutes in microseconds (Linux 4.6).
    pub shortest_rtt_us: Option<u32>,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Path MTU in bytes.
    pub path_mtu: u32,
    /// Segments retransmitted since the connection was opened.
    pub total_retransmits: u32,
    /// Bytes acknowledged by the peer (Linux 4.1).
    pub acknowledged: Option<u64>,
    /// Bytes received from the peer (Linux 4.1).
    pub received: Option<u64>,
    /// Recent rate of delivery to the peer in bytes per second (Linux 4.9); 0 before any.
    pub delivery_rate: Option<u64>,
    /// Time with data to send, in microseconds (Linux 4.9).
    pub busy_us: Option<u64>,
    /// Part of `busy_us` limited by the receive window.
    pub receiver_limited_us: Option<u64>,
    /// Part of `busy_us` limited by the send buffer.
    pub buffer_limited_us: Option<u64>,
}

const MAX_OPTION_BYTES: usize = 256;

impl TcpInfo {
    /// Reads the state of a TCP socket from the kernel.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0u8; MAX_OPTION_BYTES];
        let length = super::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
        Ok(Self::read(&bytes[..length]))
    }

    /// Returns the round-trip time of the path in µs: the shortest if known, because the smoothed
    /// one includes queueing and delayed acknowledgements.
    pub fn path_rtt_us(&self) -> u32 {
        self.shortest_rtt_us.map_or(self.rtt_us, |shortest| shortest.min(self.rtt_us))
    }

    fn read(bytes: &[u8]) -> Self {
        /// `TCPI_OPT_TIMESTAMPS`.
        const TIMESTAMPS: u8 = 1;
        let narrow = |at: usize| number_at(bytes, at);
        let wide = |at: usize| bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_ne_bytes);
        Self {
            timeouts: bytes.get(2).copied().unwrap_or_default(),
            unacknowledged: narrow(24),
            timestamps: bytes.get(5).is_some_and(|options| options & TIMESTAMPS != 0),
            send_mss: narrow(16),
            last_ack_ms: narrow(56),
            path_mtu: narrow(60),
            rtt_us: narrow(68),
            shortest_rtt_us: (bytes.len() >= 152).then(|| narrow(148)).filter(|&us| us != u32::MAX),
            cwnd: narrow(80),
            total_retransmits: narrow(100),
            acknowledged: wide(120),
            received: wide(128),
            delivery_rate: wide(160),
            busy_us: wide(168),
            receiver_limited_us: wide(176),
            buffer_limited_us: wide(184),
        }
    }
}

/// Returns the number in the four bytes from `at`; 0 beyond the end.
fn number_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// Sets the maximum segment size in bytes (`TCP_MAXSEG`), announced to the peer on connecting.
pub fn set_max_segment(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    super::set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, libc::c_int::from(bytes))
}

/// Makes the socket unwritable while over `bytes` bytes are unsent (`TCP_NOTSENT_LOWAT`).
pub fn set_unsent_limit(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    super::set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Makes reads wait until `bytes` bytes are available (`SO_RCVLOWAT`).
pub fn set_read_at_least(socket: impl AsFd, bytes: i32) -> io::Result<()> {
    super::set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// Allows [`send_zerocopy`] on this socket (`SO_ZEROCOPY`). Needs Linux 4.14.
pub fn enable_zerocopy(socket: impl AsFd) -> io::Result<()> {
    super::set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
}

/// Sends `bytes` without copying (`MSG_ZEROCOPY`) and returns how many were accepted; do not change
/// them until [`read_completion`] reports the call. Fails with `ENOBUFS` if too many calls are
/// pending.
pub fn send_zerocopy(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    // SAFETY: pointer and length of a live slice; the kernel takes its own reference to the pages.
    let sent = unsafe { libc::send(socket.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Completed zero-copy sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZerocopyCompletion {
    /// Calls of [`send_zerocopy`] whose bytes may be reused.
    pub calls: u64,
    /// How many of these calls the kernel copied after all.
    pub copied: u64,
}

/// One extended error with address (`sock_extended_err`, `sockaddr_in6`), aligned like `cmsghdr`.
#[repr(C, align(8))]
struct ErrorRoom([u8; 128]);

/// Reads, without waiting, one notification of completed zero-copy sends from the error queue of
/// the socket; `None` if there is none.
pub fn read_completion(socket: impl AsFd) -> io::Result<Option<ZerocopyCompletion>> {
    let mut control = ErrorRoom([0; 128]);
    // SAFETY: all zeros is a valid msghdr: no name, no vectors, no control.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header's only pointer is to `control`, whose length it holds.
    let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    if got < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    Ok(Some(parse_completion(&control.0[..(header.msg_controllen as usize).min(control.0.len())])))
}

/// Returns the numbers of completed and of copied calls from a `cmsghdr` (16 bytes) and the
/// `sock_extended_err` after it, whose `ee_info` and `ee_data` are the first and last completed
/// call (Documentation/networking/msg_zerocopy.rst). Both are 0 for another error.
fn parse_completion(control: &[u8]) -> ZerocopyCompletion {
    const CONTROL_HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    /// `SO_EE_ORIGIN_ZEROCOPY`.
    const ORIGIN_ZEROCOPY: u8 = 5;
    /// `SO_EE_CODE_ZEROCOPY_COPIED`.
    const COPIED: u8 = 1;
    let Some(error) =
        control.get(CONTROL_HEADER_BYTES..CONTROL_HEADER_BYTES + 16).filter(|e| e[4] == ORIGIN_ZEROCOPY)
    else {
        return ZerocopyCompletion::default();
    };
    let calls = u64::from(number_at(error, 12).wrapping_sub(number_at(error, 8))) + 1;
    ZerocopyCompletion { calls, copied: if error[6] == COPIED { calls } else { 0 } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn the_kernel_tells_of_a_connection() {
        let (mut near, mut far) = pair();
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        let info = TcpInfo::of(&near).unwrap();
        assert!(info.send_mss > 500 && info.cwnd > 0 && info.path_mtu > info.send_mss, "{info:?}");
        assert!(info.acknowledged.unwrap() >= 1, "{info:?}");
        assert!(info.busy_us.is_some());
        assert!(info.shortest_rtt_us.is_some_and(|shortest| shortest > 0), "{info:?}");
        assert!(info.path_rtt_us() <= info.rtt_us, "{info:?}");
        assert!(TcpInfo::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn a_shorter_structure_lacks_what_is_new() {
        let info = TcpInfo::read(&[1; 104]);
        assert_eq!((info.total_retransmits, info.acknowledged), (0x0101_0101, None));
        assert_eq!(TcpInfo::read(&[]), TcpInfo::default());
        assert_eq!(TcpInfo::read(&[1; 151]).shortest_rtt_us, None);
        assert_eq!(TcpInfo::read(&[1; 152]).shortest_rtt_us, Some(0x0101_0101));
        assert_eq!(TcpInfo::read(&[0xff; 152]).shortest_rtt_us, None, "nothing measured yet");
    }

    #[test]
    fn a_queue_does_not_make_the_way_longer() {
        let info = TcpInfo { rtt_us: 40_000, shortest_rtt_us: Some(30), ..TcpInfo::default() };
        assert_eq!(info.path_rtt_us(), 30);
        assert_eq!(TcpInfo { shortest_rtt_us: None, ..info }.path_rtt_us(), 40_000);
    }

    #[test]
    fn a_segment_size_holds() {
        let (near, _far) = pair();
        set_max_segment(&near, 500).unwrap();
        assert!(set_max_segment(&near, 1).is_err());
        assert!(set_max_segment(std::fs::File::open("/dev/null").unwrap(), 500).is_err());
    }

    #[test]
    fn what_is_lent_arrives_and_comes_back() {
        let (near, mut far) = pair();
        if enable_zerocopy(&near).is_err() {
            return;
        }
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(read_completion(&near).unwrap(), None);
        let sent = send_zerocopy(&near, &bytes).unwrap();
        let mut seen = vec![0; sent];
        far.read_exact(&mut seen).unwrap();
        assert_eq!(seen, bytes[..sent]);
        let mut back = ZerocopyCompletion::default();
        while back.calls == 0 {
            if let Some(more) = read_completion(&near).unwrap() {
                back = more;
            }
        }
        assert_eq!(back.calls, 1);
    }

    #[test]
    fn a_notice_of_something_else_is_none() {
        assert_eq!(parse_completion(&[0; 128]), ZerocopyCompletion::default());
        assert_eq!(parse_completion(&[5; 10]), ZerocopyCompletion::default());
    }
}
