//! The conditions that network cases tell: the way between the ends, what holds it to a rate, what each end and its TCP say.
//!
//! Of the families `{}` is the end: `near` or `far`. Yes is 1, no 0.

use plimsoll_model::sample::Condition;

const fn row(name: &'static str, unit: &'static str, about: &'static str) -> Condition {
    Condition::new(name, unit, about)
}

/// No frame crosses a link.
pub const PATH_LOOPBACK: Condition = row("path_loopback", "1", "whether the way is within this machine");
/// Packets are of IPv6.
pub const PATH_IPV6: Condition = row("path_ipv6", "1", "whether packets are of IPv6");
/// The interface has a line.
pub const PATH_LINE: Condition =
    row("path_line", "1", "whether the interface that packets leave by has a line");
/// The line's rate.
pub const PATH_SPEED: Condition = row("path_speed", "bit/s", "rate of the line, as /sys/class/net says");
/// The largest packet.
pub const PATH_MTU: Condition = row("path_mtu", "B", "largest packet of the interface");
/// How fast a CPU copies.
pub const PATH_COPY: Condition =
    row("path_copy", "B/s", "bytes read and written by one CPU that copies within its caches, over loopback");

/// What leaves is held to this.
pub const SHAPED: Condition =
    row("path_shaped", "bit/s", "rate that a queueing discipline holds what leaves the interface to");
/// What comes in is held to this.
pub const POLICED: Condition =
    row("path_policed", "bit/s", "rate beyond which a policer drops what comes in by the interface");
/// As [`SHAPED`], at the server.
pub const FAR_SHAPED: Condition = row("far_shaped", "bit/s", "as path_shaped, of the server's interface");
/// As [`POLICED`], at the server.
pub const FAR_POLICED: Condition = row("far_policed", "bit/s", "as path_policed, of the server's interface");
/// What the server allows.
pub const SERVER_CAP: Condition = row(
    "server_max_rate",
    "bit/s",
    "rate that the server allows in each direction, where that is less than without --max-rate, or is reached",
);
/// The base rate of a token bucket.
pub const BASE_RATE: Condition = row(
    "path_base_rate",
    "bit/s",
    "rate at which data arrived for good when the burst of a token bucket was used up",
);

/// Busy share of an end's threads.
pub const END_CPU: Condition =
    row("{}_cpu", "1", "share of the time that the end's threads were busy, mean over them");
/// Processor time of a byte.
pub const END_CPU_PER_BYTE: Condition =
    row("{}_cpu_per_byte", "s", "processor time of the end for each byte");
/// Processor time of a message.
pub const END_CPU_PER_MESSAGE: Condition =
    row("{}_cpu_per_message", "s", "processor time of the end for each message");
/// The end's fullest CPU.
pub const END_FULLEST_CPU: Condition =
    row("{}_fullest_cpu", "1", "number of the CPU of the end that was busiest");
/// How busy that was.
pub const END_FULLEST_CPU_BUSY: Condition =
    row("{}_fullest_cpu_busy", "1", "share of the time that it was busy");
/// Packets dropped.
pub const END_NIC_DROPS: Condition =
    row("{}_nic_drops", "1", "packets that the end's interfaces dropped meanwhile");
/// Errors counted.
pub const END_NIC_ERRORS: Condition =
    row("{}_nic_errors", "1", "errors that the end's interfaces counted meanwhile");
/// Segments sent again by the whole end.
pub const END_TCP_RETRANSMITS: Condition =
    row("{}_tcp_retransmits", "1", "segments that the end's kernel sent again meanwhile");

/// TCP's round trip.
pub const TCP_RTT: Condition = row("tcp_rtt", "s", "smoothed round trip of the sender (TCP_INFO)");
/// TCP's window.
pub const TCP_CWND: Condition = row("tcp_cwnd", "B", "congestion window of the sender");
/// Segments sent again.
pub const TCP_RETRANSMITS: Condition = row("tcp_retransmits", "1", "segments that the sender sent again");
/// TCP's payload.
pub const TCP_MSS: Condition = row("tcp_mss", "B", "payload of a full segment");
/// TCP's option.
pub const TCP_TIMESTAMPS: Condition =
    row("tcp_timestamps", "1", "whether segments carry timestamps (RFC 7323)");
/// Held by the receiver.
pub const TCP_RECEIVER_LIMITED: Condition =
    row("tcp_receiver_limited", "1", "share of the sending time that the receiver's window held it up");
/// Held by the send buffer.
pub const TCP_BUFFER_LIMITED: Condition =
    row("tcp_buffer_limited", "1", "share of the sending time that the send buffer held it up");
/// Copied although lent.
pub const COPIED_ALTHOUGH_LENT: Condition = row(
    "copied_although_lent",
    "1",
    "share of the bytes that the kernel copied although --zerocopy lent them",
);

/// The rate offered.
pub const OFFERED: Condition = row("offered", "bit/s", "rate that was offered to the path");
/// Datagrams that came twice.
pub const DUPLICATES: Condition = row("duplicates", "1", "datagrams that came again");
/// Datagrams that came out of order.
pub const REORDERED: Condition = row("reordered", "1", "datagrams that came after a later one");
/// Datagrams of an earlier measurement.
pub const TOO_LATE: Condition = row("too_late", "1", "datagrams that came when their measurement was over");
/// Datagrams of others.
pub const FOREIGN: Condition = row("foreign", "1", "datagrams that are no part of the measurement");
/// Datagrams that the receiver had no room for.
pub const DROPPED_AT_RECEIVER: Condition =
    row("dropped_at_receiver", "1", "datagrams that the receiver's own socket had no room for");
/// Messages without an answer.
pub const LOST: Condition = row("lost", "1", "messages that were not answered in time");
/// Answers after their time.
pub const LATE: Condition = row("late", "1", "answers that came after their time");
/// Bytes of a message.
pub const MESSAGE_BYTES: Condition = row("message", "B", "bytes of a message");
