//! Conditions of network samples. `{}` in a name is `near` (client) or `far`; booleans are 1 or 0.

use plimsoll_bench_api::prelude::*;

/// Whether the path stays within this machine, so no frame crosses a link.
pub const PATH_LOOPBACK: OwnCondition = OwnCondition::new("path_loopback");
/// Whether the path uses IPv6.
pub const PATH_IPV6: OwnCondition = OwnCondition::new("path_ipv6");
/// Whether the outgoing interface has a line.
pub const PATH_LINE: OwnCondition = OwnCondition::new("path_line");
/// Line rate of the interface, bit/s.
pub const PATH_SPEED: OwnCondition = OwnCondition::new("path_speed");
/// MTU of the interface, bytes.
pub const PATH_MTU: OwnCondition = OwnCondition::new("path_mtu");
/// Copy rate of one CPU within its caches, bytes read and written per second.
pub const PATH_COPY: OwnCondition = OwnCondition::new("path_copy");

/// Rate limit of a shaper on the outgoing interface, bit/s.
pub const SHAPED: OwnCondition = OwnCondition::new("path_shaped");
/// Rate limit of a policer on the incoming interface, bit/s.
pub const POLICED: OwnCondition = OwnCondition::new("path_policed");
/// [`SHAPED`] for the server's interface.
pub const FAR_SHAPED: OwnCondition = OwnCondition::new("far_shaped");
/// [`POLICED`] for the server's interface.
pub const FAR_POLICED: OwnCondition = OwnCondition::new("far_policed");
/// Rate limit of the server (`--max-rate`) per direction, bit/s.
pub const SERVER_CAP: OwnCondition = OwnCondition::new("server_max_rate");
/// Sustained rate of a token bucket on the path, bit/s.
pub const BASE_RATE: OwnCondition = OwnCondition::new("path_base_rate");

/// Busy share of an end's threads, mean over the threads.
pub const END_CPU: OwnCondition = OwnCondition::new("{}_cpu");
/// CPU time of an end per byte, s.
pub const END_CPU_PER_BYTE: OwnCondition = OwnCondition::new("{}_cpu_per_byte");
/// CPU time of an end per message, s.
pub const END_CPU_PER_MESSAGE: OwnCondition = OwnCondition::new("{}_cpu_per_message");
/// Number of the busiest CPU of an end.
pub const END_FULLEST_CPU: OwnCondition = OwnCondition::new("{}_fullest_cpu");
/// Busy share of the busiest CPU of an end.
pub const END_FULLEST_CPU_BUSY: OwnCondition = OwnCondition::new("{}_fullest_cpu_busy");
/// Packets dropped by an end's interfaces during the sample.
pub const END_NIC_DROPS: OwnCondition = OwnCondition::new("{}_nic_drops");
/// Errors counted by an end's interfaces during the sample.
pub const END_NIC_ERRORS: OwnCondition = OwnCondition::new("{}_nic_errors");
/// TCP segments retransmitted by an end's kernel during the sample.
pub const END_TCP_RETRANSMITS: OwnCondition = OwnCondition::new("{}_tcp_retransmits");

/// Smoothed round-trip time of the sender (`TCP_INFO`), s.
pub const TCP_RTT: OwnCondition = OwnCondition::new("tcp_rtt");
/// Congestion window of the sender, bytes.
pub const TCP_CWND: OwnCondition = OwnCondition::new("tcp_cwnd");
/// Segments retransmitted by the sender.
pub const TCP_RETRANSMITS: OwnCondition = OwnCondition::new("tcp_retransmits");
/// Payload of a full segment, bytes.
pub const TCP_MSS: OwnCondition = OwnCondition::new("tcp_mss");
/// Whether segments carry timestamps (RFC 7323).
pub const TCP_TIMESTAMPS: OwnCondition = OwnCondition::new("tcp_timestamps");
/// Share of the sending time that was limited by the receiver's window.
pub const TCP_RECEIVER_LIMITED: OwnCondition = OwnCondition::new("tcp_receiver_limited");
/// Share of the sending time that was limited by the send buffer.
pub const TCP_BUFFER_LIMITED: OwnCondition = OwnCondition::new("tcp_buffer_limited");
/// Share of the bytes that the kernel copied despite `--zerocopy`.
pub const COPIED_DESPITE_ZEROCOPY: OwnCondition = OwnCondition::new("copied_although_lent");

/// Offered rate, bit/s.
pub const OFFERED: OwnCondition = OwnCondition::new("offered");
/// Duplicate datagrams.
pub const DUPLICATES: OwnCondition = OwnCondition::new("duplicates");
/// Datagrams that arrived after a later one.
pub const REORDERED: OwnCondition = OwnCondition::new("reordered");
/// Datagrams that arrived after the end of their measurement.
pub const TOO_LATE: OwnCondition = OwnCondition::new("too_late");
/// Datagrams that are not part of the measurement.
pub const FOREIGN: OwnCondition = OwnCondition::new("foreign");
/// Datagrams dropped because the receiver's socket buffer was full.
pub const DROPPED_AT_RECEIVER: OwnCondition = OwnCondition::new("dropped_at_receiver");
/// Messages without an answer within the timeout.
pub const LOST: OwnCondition = OwnCondition::new("lost");
/// Answers that arrived after the timeout.
pub const LATE: OwnCondition = OwnCondition::new("late");
/// Message size, bytes.
pub const MESSAGE_BYTES: OwnCondition = OwnCondition::new("message");
