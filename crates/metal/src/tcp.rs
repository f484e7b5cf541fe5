//! What std and rustix do not tell or set of a TCP socket: `TCP_INFO`, the segment size, and sending without a copy.
//!
//! Names and units as `tcp(7)` and `linux/tcp.h`; the structure is read by its offsets, so that an older kernel's
//! shorter one gives `None` for what it lacks.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// What the kernel knows of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Payload of the largest segment sent, in bytes.
    pub send_mss: u32,
    /// Retransmission timeouts in a row, without an acknowledgement between them.
    pub timeouts: u8,
    /// Segments that were sent and are not acknowledged.
    pub unacknowledged: u32,
    /// Whether segments carry timestamps: 12 bytes of options in each.
    pub timestamps: bool,
    /// Milliseconds since the other end's kernel last acknowledged anything.
    pub last_ack_ms: u32,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// The shortest round trip of the last minutes, in microseconds (Linux 4.6); `None` before one was measured.
    pub shortest_rtt_us: Option<u32>,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Path MTU in bytes.
    pub path_mtu: u32,
    /// Segments sent again since the connection began.
    pub total_retransmits: u32,
    /// Bytes that the other end has acknowledged (Linux 4.1).
    pub acknowledged: Option<u64>,
    /// Bytes that arrived from the other end (Linux 4.1).
    pub received: Option<u64>,
    /// Bytes per second that lately arrived at the other end (Linux 4.9); 0 before any did.
    pub delivery_rate: Option<u64>,
    /// Microseconds in which there was something to send (Linux 4.9).
    pub busy_us: Option<u64>,
    /// Of these, held up by the receiver's window.
    pub receiver_limited_us: Option<u64>,
    /// Of these, held up by the send buffer.
    pub buffer_limited_us: Option<u64>,
}

/// Longest structure that is asked for.
const MAX_OPTION_BYTES: usize = 256;

impl TcpInfo {
    /// Asks the kernel.
    ///
    /// # Errors
    /// It is no TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0u8; MAX_OPTION_BYTES];
        let mut length = MAX_OPTION_BYTES as libc::socklen_t;
        // SAFETY: the pointers are to a buffer of `length` bytes and to the length; the kernel writes no more.
        let done = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::read(&bytes[..(length as usize).min(MAX_OPTION_BYTES)]))
    }

    /// How long the way there and back is by itself, in microseconds. The smoothed time also holds what waited in
    /// queues, and an end that only receives keeps the one of its last few bytes, which may have been acknowledged late.
    pub fn way_us(&self) -> u32 {
        self.shortest_rtt_us.map_or(self.rtt_us, |shortest| shortest.min(self.rtt_us))
    }

    fn read(bytes: &[u8]) -> Self {
        /// `TCPI_OPT_TIMESTAMPS`.
        const TIMESTAMPS: u8 = 1;
        let narrow = |at: usize| {
            let field = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
            field.map(u32::from_ne_bytes).unwrap_or_default()
        };
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

fn set(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer is to an int that lives through the call, and the length is its.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the largest segment (`TCP_MAXSEG`); before connecting, it is also announced to the other end.
///
/// # Errors
/// Out of the kernel's range.
pub fn set_max_segment(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, libc::c_int::from(bytes))
}

/// Limits the bytes that wait in the send buffer and have not been sent yet (`TCP_NOTSENT_LOWAT`).
///
/// # Errors
/// The kernel is older than 3.12.
pub fn set_unsent_limit(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Has reads wait until this many bytes are there (`SO_RCVLOWAT`).
///
/// # Errors
/// Refused by the kernel.
pub fn set_read_at_least(socket: impl AsFd, bytes: i32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// Allows [`send_lent`] on this socket (`SO_ZEROCOPY`).
///
/// # Errors
/// The kernel is older than 4.14.
pub fn allow_lending(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
}

/// Sends bytes without copying them (`MSG_ZEROCOPY`): the kernel holds their pages until [`returned`] tells.
///
/// Whatever is written to them before goes out instead; the memory stays valid all the same, for the kernel keeps the
/// pages.
///
/// # Errors
/// `ENOBUFS` when too much is lent; all that `send` gives.
pub fn send_lent(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    // SAFETY: the pointer and length are of a slice that lives through the call; the kernel takes its own hold on the
    // pages.
    let sent = unsafe { libc::send(socket.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// What came back of what was lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// Calls of [`send_lent`] whose bytes are free again.
    pub calls: u64,
    /// Of these, how many the kernel copied after all.
    pub copied: u64,
}

/// Room for one extended error and the address after it (`sock_extended_err`, `sockaddr_in6`), aligned as `cmsghdr`.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Takes one notice from the socket's error queue without waiting; `None` when there is none.
///
/// # Errors
/// All that `recvmsg` gives but `EAGAIN`.
pub fn returned(socket: impl AsFd) -> io::Result<Option<Returned>> {
    let mut control = Control([0; 128]);
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
    Ok(Some(notice(&control.0[..(header.msg_controllen as usize).min(control.0.len())])))
}

/// Reads a notice: `cmsghdr` (16 bytes), then `sock_extended_err`, whose `ee_info` to `ee_data` are the numbers of the
/// calls (`Documentation/networking/msg_zerocopy.rst`).
fn notice(control: &[u8]) -> Returned {
    const CONTROL_HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    /// `SO_EE_ORIGIN_ZEROCOPY`.
    const LENT: u8 = 5;
    /// `SO_EE_CODE_ZEROCOPY_COPIED`.
    const COPIED: u8 = 1;
    let Some(error) = control.get(CONTROL_HEADER_BYTES..CONTROL_HEADER_BYTES + 16).filter(|e| e[4] == LENT)
    else {
        return Returned::default();
    };
    let number = |at: usize| {
        error.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes).unwrap_or_default()
    };
    let calls = u64::from(number(12).wrapping_sub(number(8))) + 1;
    Returned { calls, copied: if error[6] == COPIED { calls } else { 0 } }
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
        assert!(
            info.shortest_rtt_us.is_some_and(|shortest| shortest > 0) && info.way_us() <= info.rtt_us,
            "{info:?}"
        );
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
        assert_eq!(info.way_us(), 30);
        assert_eq!(TcpInfo { shortest_rtt_us: None, ..info }.way_us(), 40_000);
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
        if allow_lending(&near).is_err() {
            return;
        }
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(returned(&near).unwrap(), None);
        let sent = send_lent(&near, &bytes).unwrap();
        let mut seen = vec![0; sent];
        far.read_exact(&mut seen).unwrap();
        assert_eq!(seen, bytes[..sent]);
        let mut back = Returned::default();
        while back.calls == 0 {
            if let Some(more) = returned(&near).unwrap() {
                back = more;
            }
        }
        assert_eq!(back.calls, 1);
    }

    #[test]
    fn a_notice_of_something_else_is_none() {
        assert_eq!(notice(&[0; 128]), Returned::default());
        assert_eq!(notice(&[5; 10]), Returned::default());
    }
}
