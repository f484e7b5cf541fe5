//! Network benchmarks. Both ends are ours: the far end is a second process (`far_end`), so that what is reported
//! is what the receiver saw.
//!
//! The far end is on this machine for now, and every result is labelled so: over loopback it is the kernel and
//! memory that are measured, not a link.

mod far_end;
mod latency;
mod near_end;
mod pin;
mod protocol;
mod tcp;

use std::path::PathBuf;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

pub use far_end::{FarEndError, serve};
pub use latency::{Latency, RoundTrips};
pub use near_end::FarEnd;
pub use tcp::{Stream, Tcp};

use crate::bench::{Better, Metric, place};
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::{Unit, format_size};
use crate::sample::{CannotMeasure, Facts};
use crate::warning::Warning;

const fn metric(name: &'static str, unit: Unit, better: Better) -> Metric {
    Metric { name, unit, better }
}

/// This very program, also when its file has been replaced since it started.
fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// The message sizes asked for, or the default.
fn message_sizes(group: &Group, default: u64) -> Result<Vec<u64>, String> {
    let sizes = group.numbers("message", &[default]);
    let most = u64::from(protocol::MAX_MESSAGE);
    match sizes.iter().find(|bytes| !(1..=most).contains(*bytes)) {
        Some(bytes) => {
            Err(format!("message: {bytes} is out of range; write a size from 1 to {}", format_size(most)))
        }
        None => Ok(sizes),
    }
}

/// The message size of a case, held to what both ends can keep.
fn message_of(case: &Case, default: u64) -> u32 {
    let bytes = case.number("message").unwrap_or(default);
    u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, protocol::MAX_MESSAGE)
}

/// Refuses every value but the one that this version measures.
fn only_number(group: &Group, key: &str, only: u64) -> Result<(), String> {
    match group.numbers(key, &[only]).iter().find(|n| **n != only) {
        Some(n) => Err(format!("{key}: {n} is not measured yet; write {only}")),
        None => Ok(()),
    }
}

/// Refuses every word but the one that this version measures.
fn only_word(group: &Group, key: &str, only: &str) -> Result<(), String> {
    match group.words(key, &[only]).iter().find(|word| *word != only) {
        Some(word) => Err(format!("{key}: '{}' is not measured yet; write {only}", crate::text::shown(word))),
        None => Ok(()),
    }
}

/// Bytes that nothing can compress, the same for the same seed and case.
fn random_bytes(count: usize, seed: u64, case: &Case) -> Vec<u8> {
    let hash = protocol::Fnv(seed).with(case.id().as_str().as_bytes());
    let mut bytes = vec![0; count];
    ChaCha8Rng::seed_from_u64(hash.0).fill_bytes(&mut bytes);
    bytes
}

/// Where the two ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The CPU of the near end; `None` where none is known.
    pub near: Option<usize>,
    /// The CPU of the far end.
    pub far: Option<usize>,
}

impl Placement {
    /// On two cores where the machine has them, else on the one CPU that is allowed.
    pub fn new(machine: &Machine) -> Self {
        let cpus = place(machine, 2);
        Placement { near: cpus.first().copied(), far: cpus.get(1).copied() }
    }

    fn pin_near(self) -> Result<Option<pin::Pinned>, CannotMeasure> {
        let pinned = self.near.map(|cpu| {
            let refused = |e| {
                CannotMeasure::environment(format!(
                    "cannot pin the near end to CPU {cpu}: {e}; see taskset or cpuset"
                ))
            };
            pin::Pinned::to(cpu).map_err(refused)
        });
        pinned.transpose()
    }

    /// The label of every figure over loopback, and the CPUs used.
    fn facts(self) -> Facts {
        let mut facts = Facts::default();
        facts.achieved.insert("link".to_owned(), "loopback".into());
        facts.achieved.insert("near_end_cpu".to_owned(), self.near.into());
        facts.achieved.insert("far_end_cpu".to_owned(), self.far.into());
        if let (Some(near), true) = (self.near, self.near == self.far) {
            facts.warnings.push(Warning::Other {
                code: "ends-share-cpu".to_owned(),
                text: format!(
                    "both ends run on CPU {near}, in turn; allow this process a second CPU to measure more"
                ),
            });
        }
        facts
    }
}

#[cfg(test)]
mod tests;
