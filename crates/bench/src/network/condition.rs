//! The conditions that network cases tell: the way between the ends, what holds it to a rate, what each end and its TCP say.
//!
//! Of the families `{}` is the end: `near` or `far`. Yes is 1, no 0.

use crate::sample::Condition;

const fn row(name: &'static str, unit: &'static str, about: &'static str) -> Condition {
    Condition::new(name, unit, about)
}

pub const PATH_LOOPBACK: Condition = row("path_loopback", "1", "whether the way is within this machine");
pub const PATH_IPV6: Condition = row("path_ipv6", "1", "whether packets are of IPv6");
pub const PATH_LINE: Condition =
    row("path_line", "1", "whether the interface that packets leave by has a line");
pub const PATH_SPEED: Condition = row("path_speed", "bit/s", "rate of the line, as /sys/class/net says");
pub const PATH_MTU: Condition = row("path_mtu", "B", "largest packet of the interface");
pub const PATH_COPY: Condition =
    row("path_copy", "B/s", "bytes read and written by one CPU that copies within its caches, over loopback");

pub const SHAPED: Condition =
    row("path_shaped", "bit/s", "rate that a queueing discipline holds what leaves the interface to");
pub const POLICED: Condition =
    row("path_policed", "bit/s", "rate beyond which a policer drops what comes in by the interface");
pub const FAR_SHAPED: Condition = row("far_shaped", "bit/s", "as path_shaped, of the server's interface");
pub const FAR_POLICED: Condition = row("far_policed", "bit/s", "as path_policed, of the server's interface");
pub const SERVER_CAP: Condition = row(
    "server_max_rate",
    "bit/s",
    "rate that the server allows in each direction, where that is less than without --max-rate, or is reached",
);
pub const BASE_RATE: Condition = row(
    "path_base_rate",
    "bit/s",
    "rate at which data arrived for good when the burst of a token bucket was used up",
);

pub const END_CPU: Condition =
    row("{}_cpu", "1", "share of the time that the end's threads were busy, mean over them");
pub const END_CPU_PER_BYTE: Condition =
    row("{}_cpu_per_byte", "s", "processor time of the end for each byte");
pub const END_CPU_PER_MESSAGE: Condition =
    row("{}_cpu_per_message", "s", "processor time of the end for each message");
pub const END_FULLEST_CPU: Condition =
    row("{}_fullest_cpu", "1", "number of the CPU of the end that was busiest");
pub const END_FULLEST_CPU_BUSY: Condition =
    row("{}_fullest_cpu_busy", "1", "share of the time that it was busy");
pub const END_NIC_DROPS: Condition =
    row("{}_nic_drops", "1", "packets that the end's interfaces dropped meanwhile");
pub const END_NIC_ERRORS: Condition =
    row("{}_nic_errors", "1", "errors that the end's interfaces counted meanwhile");
pub const END_TCP_RETRANSMITS: Condition =
    row("{}_tcp_retransmits", "1", "segments that the end's kernel sent again meanwhile");

pub const TCP_RTT: Condition = row("tcp_rtt", "s", "smoothed round trip of the sender (TCP_INFO)");
pub const TCP_CWND: Condition = row("tcp_cwnd", "B", "congestion window of the sender");
pub const TCP_RETRANSMITS: Condition = row("tcp_retransmits", "1", "segments that the sender sent again");
pub const TCP_MSS: Condition = row("tcp_mss", "B", "payload of a full segment");
pub const TCP_TIMESTAMPS: Condition =
    row("tcp_timestamps", "1", "whether segments carry timestamps (RFC 7323)");
pub const TCP_RECEIVER_LIMITED: Condition =
    row("tcp_receiver_limited", "1", "share of the sending time that the receiver's window held it up");
pub const TCP_BUFFER_LIMITED: Condition =
    row("tcp_buffer_limited", "1", "share of the sending time that the send buffer held it up");
pub const COPIED_ALTHOUGH_LENT: Condition = row(
    "copied_although_lent",
    "1",
    "share of the bytes that the kernel copied although --zerocopy lent them",
);

pub const OFFERED: Condition = row("offered", "bit/s", "rate that was offered to the path");
pub const DUPLICATES: Condition = row("duplicates", "1", "datagrams that came again");
pub const REORDERED: Condition = row("reordered", "1", "datagrams that came after a later one");
pub const TOO_LATE: Condition = row("too_late", "1", "datagrams that came when their measurement was over");
pub const FOREIGN: Condition = row("foreign", "1", "datagrams that are no part of the measurement");
pub const DROPPED_AT_RECEIVER: Condition =
    row("dropped_at_receiver", "1", "datagrams that the receiver's own socket had no room for");
pub const LOST: Condition = row("lost", "1", "messages that were not answered in time");
pub const LATE: Condition = row("late", "1", "answers that came after their time");
pub const MESSAGE_BYTES: Condition = row("message", "B", "bytes of a message");
