//! Facts that network cases record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use plimsoll_model::sample::Fact;

pub(crate) const LINK: Fact<String> = Fact::new("link", "loopback, or the interface that packets leave by");
pub(super) const FAR_END: Fact<String> = Fact::new("server_address", "address of the server");
pub(super) const FAR_END_PROGRAM: Fact<String> =
    Fact::new("server_program", "the program at the server, where it is not plimsoll");
pub(super) const NEAR_END_CPUS: Fact<Vec<usize>> = Fact::new("client_cpus", "CPUs of the client's threads");
pub(super) const FAR_END_CPUS: Fact<Vec<usize>> =
    Fact::new("server_cpus", "CPUs of the server's threads, where it is on this machine");
pub(super) const MESSAGES: Fact<u64> =
    Fact::new("messages", "messages of each sample, where their number is fixed");
pub(super) const SEGMENTATION: Fact<String> =
    Fact::new("segmentation", "kernel: it is given many datagrams at once (UDP_SEGMENT)");
pub(crate) const PLACEMENT: Fact<String> = Fact::new(
    "placement",
    "where the CPUs of client and server are to each other: one CPU, two of a core, a cache or a socket",
);
pub(crate) const PLACEMENTS: Fact<BTreeMap<String, f64>> =
    Fact::new("placements", "round-trip time in seconds of each placement that was tried");
pub(super) const TOKEN_BUCKET_UP: Fact<TokenBucket> =
    Fact::new("token_bucket_up", "the token bucket on the way to the server");
pub(super) const TOKEN_BUCKET_DOWN: Fact<TokenBucket> =
    Fact::new("token_bucket_down", "the token bucket on the way from the server");

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TokenBucket {
    /// Rate while tokens are left, bit/s.
    pub(super) burst_rate: f64,
    /// Sustained rate, bit/s.
    pub(super) base_rate: f64,
    /// Bytes of the burst above the base rate.
    pub(super) burst_bytes: f64,
    /// Duration of the burst, s.
    pub(super) until_s: f64,
}
