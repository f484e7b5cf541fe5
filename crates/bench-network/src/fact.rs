//! Facts that network cases record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use plimsoll_model::sample::CaseFact;

pub(crate) const LINK: CaseFact<String> = CaseFact::new("link");
pub(super) const FAR_END: CaseFact<String> = CaseFact::new("server_address");
/// Program of the server, if it is not plimsoll.
pub(super) const FAR_END_PROGRAM: CaseFact<String> = CaseFact::new("server_program");
pub(super) const NEAR_END_CPUS: CaseFact<Vec<usize>> = CaseFact::new("client_cpus");
pub(super) const FAR_END_CPUS: CaseFact<Vec<usize>> = CaseFact::new("server_cpus");
pub(super) const MESSAGE_COUNT: CaseFact<u64> = CaseFact::new("messages");
/// `kernel` if it gets many datagrams in one call (`UDP_SEGMENT`).
pub(super) const SEGMENTATION: CaseFact<String> = CaseFact::new("segmentation");
/// Place of the CPUs to each other: one CPU, two of a core, a cache or a socket.
pub(crate) const PLACEMENT: CaseFact<String> = CaseFact::new("placement");
/// Seconds of a round trip by placement, for all that were tried.
pub(crate) const PLACEMENTS: CaseFact<BTreeMap<String, f64>> = CaseFact::new("placements");
pub(super) const TOKEN_BUCKET_UP: CaseFact<TokenBucket> = CaseFact::new("token_bucket_up");
pub(super) const TOKEN_BUCKET_DOWN: CaseFact<TokenBucket> = CaseFact::new("token_bucket_down");

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
