//! Network benchmarks. Without `--server` the server is a second process on this machine, and
//! results are labelled: loopback measures the kernel and memory, not a link.
#![forbid(unsafe_code)]

mod amount;
pub mod condition;
mod end_conditions;
pub(crate) mod fact;
mod findings;
#[cfg(test)]
mod fixture;
mod held;
mod iperf3;
mod job;
mod latency;
mod limit;
mod lost_link;
mod part;
mod path;
mod process;
mod server;
mod session;
mod setup;
mod stream_case;
mod sustained;
mod tcp;
mod udp;
mod warning;

use std::net::SocketAddr;

use fact::{FAR_END, FAR_END_CPUS, LINK, NEAR_END_CPUS};
pub use job::{NetworkJob, to_server};
pub use latency::{NetworkLatency, RoundTrips};
pub use part::SUBSYSTEM;
pub use server::Address;
pub use session::{ServerLocation, ServerSession};
pub use setup::NetworkSetup;
pub use tcp::{Streams, Tcp};
pub use udp::{Datagrams, Udp};
use warning::NetworkWarning;

use plimsoll_bench_api::prelude::*;
use plimsoll_model::metric::Form;
use plimsoll_model::sample::Numbers;
use plimsoll_model::warning::Note;
use plimsoll_server::traffic::{Fnv, PinnedCpus, random_bytes};

const STREAM: &str = "stream of bytes";

/// Name of the metric for bits that arrive per second.
pub const GOODPUT: &str = "goodput";
/// Name of the metric for messages or datagrams that arrive per second.
pub const MESSAGES_METRIC: &str = "messages";
/// Name of the metric for CPU time per byte.
pub const CPU_METRIC: &str = "cpu";
/// Name of the metric for the variation of the transit time.
pub const JITTER: &str = "jitter";
/// Name of the metric for the round-trip time.
pub const RTT: &str = "rtt";
/// Name of the metric for round trips per second.
pub const RATE_METRIC: &str = "rate";
/// Name of the metric for the rate of the concurrent load.
pub const LOAD: &str = "load";

const LOSS: Metric = Metric::new("loss", Unit::One, Better::Lower)
    .about("share of what was sent that did not arrive")
    .shown_after("loss", Form::ShareAboveZero);

fn new_sample(elapsed: f64, values: impl IntoIterator<Item = (&'static str, f64)>, more: Numbers) -> Sample {
    Sample {
        elapsed,
        values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        conditions: Conditions { more, ..Conditions::default() },
        ..Sample::default()
    }
}

fn message_sizes(group: &Group, default: u32) -> Result<Vec<u64>, String> {
    let sizes = group.numbers("message", &[u64::from(default)]);
    let most = u64::from(plimsoll_server::wire::MAX_MESSAGE);
    match sizes.iter().find(|bytes| !(1..=most).contains(*bytes)) {
        Some(bytes) => Err(format!("message must be between 1 and {}: {bytes} is not", format_size(most))),
        None => Ok(sizes),
    }
}

fn fit_a_datagram(sizes: &[u64], protocol: &str) -> Result<(), String> {
    let most = u64::from(plimsoll_server::wire::MAX_DATAGRAM);
    match sizes.iter().find(|bytes| **bytes > most) {
        Some(bytes) => Err(format!(
            "message must be between 1 and {most} with {protocol} (65535 of IPv4, less headers of 28): {bytes} is not"
        )),
        None => Ok(()),
    }
}

fn seed(cx: &Context<'_>, case: &Case) -> u64 {
    Fnv(cx.options.seed).append(case.id().as_str().as_bytes()).0
}

/// CPUs of the threads of both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndPlacement {
    /// CPUs of the client's threads, in turn.
    pub near: PinnedCpus,
    /// CPUs of a private server's threads; empty for a remote server.
    pub far: PinnedCpus,
}

impl EndPlacement {
    /// Returns the placement of two ends on this machine that use all CPUs in the same order.
    pub fn together(machine: &Machine) -> Self {
        let near = Self::on_separate_cpus(machine).near;
        EndPlacement { far: near.clone(), near }
    }

    /// Returns the placement of two ends on this machine with one stream: on two cores if possible.
    pub fn on_two_cores(machine: &Machine) -> Self {
        let near = Self::on_separate_cpus(machine).near;
        EndPlacement { far: near.starting_at(1), near }
    }

    /// Returns the placement for a remote server: the client uses all CPUs of this machine.
    pub fn on_separate_cpus(machine: &Machine) -> Self {
        let near = PinnedCpus(spread_cpus(machine, machine.cpu.allowed.len()));
        EndPlacement { near, far: PinnedCpus::default() }
    }

    fn offer(&self, streams: usize) -> Offer {
        let used = |cpus: &PinnedCpus| {
            let mut used: Vec<usize> = cpus.0.iter().copied().take(streams.max(1)).collect();
            used.sort_unstable();
            used
        };
        Offer { cpus: used(&self.near), far_cpus: used(&self.far), ..Offer::default() }
    }

    fn facts(&self, link: &str, far: SocketAddr) -> Facts {
        let mut facts = Facts::default();
        facts.achieved.set(&LINK, link);
        facts.achieved.set(&FAR_END, far.to_string());
        facts.achieved.set(&NEAR_END_CPUS, self.near.0.clone());
        facts.achieved.set(&FAR_END_CPUS, self.far.0.clone());
        if let ([near], [far]) = (self.near.0.as_slice(), self.far.0.as_slice())
            && near == far
        {
            facts.warnings.push(NetworkWarning::EndsShareCpu { cpu: *near }.into());
        }
        facts
    }
}

/// Fails if `changed`, the number of echoes with other bytes, is positive.
fn check_echoes(operation: &str, detail: &str, changed: u64) -> Result<(), CannotMeasure> {
    if changed == 0 {
        return Ok(());
    }
    let wrong = WrongAnswer::new(WrongAnswerSource::Network, operation, "other bytes").detail(detail);
    Err(WrongAnswer { count: changed, ..wrong }.into())
}

/// Returns a warning if `count`, the number of datagrams of other senders, is positive.
fn foreign_datagrams(count: u64) -> Option<Note> {
    (count > 0).then(|| NetworkWarning::ForeignDatagrams { count }.into())
}

#[cfg(test)]
mod tests;
