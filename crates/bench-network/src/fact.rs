//! Facts that network cases record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use plimsoll_model::sample::CaseFact;

pub(crate) const LINK: CaseFact<String> =
    CaseFact::new("link", "loopback, or the interface that packets leave by");
pub(super) const FAR_END: CaseFact<String> = CaseFact::new("server_address", "address of the server");
pub(super) const FAR_END_PROGRAM: CaseFact<String> =
    CaseFact::new("server_program", "the program at the server, where it is not plimsoll");
pub(super) const NEAR_END_CPUS: CaseFact<Vec<usize>> =
    CaseFact::new("client_cpus", "CPUs of the client's threads");
pub(super) const FAR_END_CPUS: CaseFact<Vec<usize>> =
    CaseFact::new("server_cpus", "CPUs of the server's threads, where it is on this machine");
pub(super) const MESSAGE_COUNT: CaseFact<u64> =
    CaseFact::new("messages", "messages of each sample, where their number is fixed");
pub(super) const SEGMENTATION: CaseFact<String> =
    CaseFact::new("segmentation", "kernel: it is given many datagrams at once (UDP_SEGMENT)");
pub(crate) const PLACEMENT: CaseFact<String> = CaseFact::new(
    "placement",
    "where the CPUs of client and server are to each other: one CPU, two of a core, a cache or a socket",
);
pub(crate) const PLACEMENTS: CaseFact<BTreeMap<String, f64>> =
    CaseFact::new("placements", "round-trip time in seconds of each placement that was tried");
pub(super) const TOKEN_BUCKET_UP: CaseFact<TokenBucket> =
    CaseFact::new("token_bucket_up", "the token bucket on the way to the server");
pub(super) const TOKEN_BUCKET_DOWN: CaseFact<TokenBucket> =
    CaseFact::new("token_bucket_down", "the token bucket on the way from the server");

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TokenBucket {
    /// Rate while tokens are left, bit/s.
    pub(super) burst_rate: f64,
    /// Sustained rate, bit/s.
    pub(super) base_rate: f64,
    /// Bytes of the burst above the base rate.
    pub(super) burst_bytes: f64,
    pub(super) until_s: f64,
}
