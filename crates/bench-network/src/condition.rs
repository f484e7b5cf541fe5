//! Conditions of network samples. `{}` in a name is `near` (client) or `far`; booleans are 1 or 0.

use plimsoll_bench_api::prelude::*;

const fn row(name: &'static str, unit: &'static str, about: &'static str) -> OwnCondition {
    OwnCondition::new(name, unit, about)
}

/// Whether the path stays within this machine, so no frame crosses a link.
pub const PATH_LOOPBACK: OwnCondition = row("path_loopback", "1", "whether the way is within this machine");
/// Whether the path uses IPv6.
pub const PATH_IPV6: OwnCondition = row("path_ipv6", "1", "whether packets are of IPv6");
/// Whether the outgoing interface has a line.
pub const PATH_LINE: OwnCondition =
    row("path_line", "1", "whether the interface that packets leave by has a line");
/// Line rate of the interface, bit/s.
pub const PATH_SPEED: OwnCondition = row("path_speed", "bit/s", "rate of the line, as /sys/class/net says");
/// MTU of the interface, bytes.
pub const PATH_MTU: OwnCondition = row("path_mtu", "B", "largest packet of the interface");
/// Copy rate of one CPU within its caches, bytes read and written per second.
pub const PATH_COPY: OwnCondition =
    row("path_copy", "B/s", "bytes read and written by one CPU that copies within its caches, over loopback");

/// Rate limit of a shaper on the outgoing interface, bit/s.
pub const SHAPED: OwnCondition =
    row("path_shaped", "bit/s", "rate that a queueing discipline holds what leaves the interface to");
/// Rate limit of a policer on the incoming interface, bit/s.
pub const POLICED: OwnCondition =
    row("path_policed", "bit/s", "rate beyond which a policer drops what comes in by the interface");
/// [`SHAPED`] for the server's interface.
pub const FAR_SHAPED: OwnCondition = row("far_shaped", "bit/s", "as path_shaped, of the server's interface");
/// [`POLICED`] for the server's interface.
pub const FAR_POLICED: OwnCondition =
    row("far_policed", "bit/s", "as path_policed, of the server's interface");
/// Rate limit of the server (`--max-rate`) per direction, bit/s.
pub const SERVER_CAP: OwnCondition = row(
    "server_max_rate",
    "bit/s",
    "rate that the server allows in each direction, where that is less than without --max-rate, or is reached",
);
/// Sustained rate of a token bucket on the path, bit/s.
pub const BASE_RATE: OwnCondition = row(
    "path_base_rate",
    "bit/s",
    "rate at which data arrived for good when the burst of a token bucket was used up",
);

/// Busy share of an end's threads, mean over the threads.
pub const END_CPU: OwnCondition =
    row("{}_cpu", "1", "share of the time that the end's threads were busy, mean over them");
/// CPU time of an end per byte, s.
pub const END_CPU_PER_BYTE: OwnCondition =
    row("{}_cpu_per_byte", "s", "processor time of the end for each byte");
/// CPU time of an end per message, s.
pub const END_CPU_PER_MESSAGE: OwnCondition =
    row("{}_cpu_per_message", "s", "processor time of the end for each message");
/// Number of the busiest CPU of an end.
pub const END_FULLEST_CPU: OwnCondition =
    row("{}_fullest_cpu", "1", "number of the CPU of the end that was busiest");
/// Busy share of the busiest CPU of an end.
pub const END_FULLEST_CPU_BUSY: OwnCondition =
    row("{}_fullest_cpu_busy", "1", "share of the time that it was busy");
/// Packets dropped by an end's interfaces during the sample.
pub const END_NIC_DROPS: OwnCondition =
    row("{}_nic_drops", "1", "packets that the end's interfaces dropped meanwhile");
/// Errors counted by an end's interfaces during the sample.
pub const END_NIC_ERRORS: OwnCondition =
    row("{}_nic_errors", "1", "errors that the end's interfaces counted meanwhile");
/// TCP segments retransmitted by an end's kernel during the sample.
pub const END_TCP_RETRANSMITS: OwnCondition =
    row("{}_tcp_retransmits", "1", "segments that the end's kernel sent again meanwhile");

/// Smoothed round-trip time of the sender (`TCP_INFO`), s.
pub const TCP_RTT: OwnCondition = row("tcp_rtt", "s", "smoothed round trip of the sender (TCP_INFO)");
/// Congestion window of the sender, bytes.
pub const TCP_CWND: OwnCondition = row("tcp_cwnd", "B", "congestion window of the sender");
/// Segments retransmitted by the sender.
pub const TCP_RETRANSMITS: OwnCondition = row("tcp_retransmits", "1", "segments that the sender sent again");
/// Payload of a full segment, bytes.
pub const TCP_MSS: OwnCondition = row("tcp_mss", "B", "payload of a full segment");
/// Whether segments carry timestamps (RFC 7323).
pub const TCP_TIMESTAMPS: OwnCondition =
    row("tcp_timestamps", "1", "whether segments carry timestamps (RFC 7323)");
/// Share of the sending time that was limited by the receiver's window.
pub const TCP_RECEIVER_LIMITED: OwnCondition =
    row("tcp_receiver_limited", "1", "share of the sending time that the receiver's window held it up");
/// Share of the sending time that was limited by the send buffer.
pub const TCP_BUFFER_LIMITED: OwnCondition =
    row("tcp_buffer_limited", "1", "share of the sending time that the send buffer held it up");
/// Share of the bytes that the kernel copied despite `--zerocopy`.
pub const COPIED_DESPITE_ZEROCOPY: OwnCondition = row(
    "copied_although_lent",
    "1",
    "share of the bytes that the kernel copied although --zerocopy lent them",
);

/// Offered rate, bit/s.
pub const OFFERED: OwnCondition = row("offered", "bit/s", "rate that was offered to the path");
/// Duplicate datagrams.
pub const DUPLICATES: OwnCondition = row("duplicates", "1", "datagrams that came again");
/// Datagrams that arrived after a later one.
pub const REORDERED: OwnCondition = row("reordered", "1", "datagrams that came after a later one");
/// Datagrams that arrived after the end of their measurement.
pub const TOO_LATE: OwnCondition =
    row("too_late", "1", "datagrams that came when their measurement was over");
/// Datagrams that are not part of the measurement.
pub const FOREIGN: OwnCondition = row("foreign", "1", "datagrams that are no part of the measurement");
/// Datagrams dropped because the receiver's socket buffer was full.
pub const DROPPED_AT_RECEIVER: OwnCondition =
    row("dropped_at_receiver", "1", "datagrams that the receiver's own socket had no room for");
/// Messages without an answer within the timeout.
pub const LOST: OwnCondition = row("lost", "1", "messages that were not answered in time");
/// Answers that arrived after the timeout.
pub const LATE: OwnCondition = row("late", "1", "answers that came after their time");
/// Message size, bytes.
pub const MESSAGE_BYTES: OwnCondition = row("message", "B", "bytes of a message");
