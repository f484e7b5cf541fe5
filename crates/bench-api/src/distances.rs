//! Latency between the CPUs of a guest while a case is measured: it shows if the hypervisor moved
//! vCPUs. vCPUs that share a core halve their joint arithmetic rate; vCPUs on different caches
//! double their memory bandwidth.

use std::time::Duration;

use plimsoll_metal::handover::{HandoverMethod, ThreadPair};

use plimsoll_machine::{CpuSet, Machine};
use plimsoll_model::sample::Conditions;
use plimsoll_model::warning::{Warn, Warning};
use plimsoll_stats::median;
use plimsoll_units::quantity::{Quantity, Unit};

const PAIR_LOOK_TIME: Duration = Duration::from_micros(500);
const MOST_PAIRS: usize = 8;

/// Topology that must stay constant for the results of a case to be comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedTopology {
    /// Sharing of cores, which determines arithmetic results.
    OnCores,
    /// Sharing of caches, which determines memory results.
    AtCaches,
}

impl FixedTopology {
    /// Returns whether CPUs moved between the two probes: for `OnCores` if only one of them shows a
    /// shared core, for `AtCaches` if their latencies differ by more than 50 %.
    #[must_use]
    pub fn has_moved(self, one: CpuDistance, other: CpuDistance) -> bool {
        const ANOTHER_CACHE: f64 = 1.5;
        match self {
            Self::OnCores => one.is_within_core() != other.is_within_core(),
            Self::AtCaches => one.seconds.max(other.seconds) > ANOTHER_CACHE * one.seconds.min(other.seconds),
        }
    }
}

/// Distance between CPUs: latency from one to the next, and the core clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuDistance {
    /// One-way latency in seconds.
    pub seconds: f64,
    /// Core clock in Hz; `None` if unknown.
    pub clock_hz: Option<f64>,
}

impl CpuDistance {
    /// Returns the core-to-core latency and clock recorded in `conditions` of a sample or case;
    /// `None` without a recorded latency.
    #[must_use]
    pub fn of(conditions: &Conditions) -> Option<Self> {
        conditions.core_to_core.map(|seconds| Self { seconds, clock_hz: conditions.clock_hz })
    }

    /// Returns the median latency and clock recorded in `of`; `None` if no latency is recorded.
    #[must_use]
    pub fn median<'a>(of: impl Iterator<Item = &'a Conditions>) -> Option<Self> {
        let looks: Vec<Self> = of.filter_map(Self::of).collect();
        let seconds = median(looks.iter().map(|look| look.seconds).collect())?;
        Some(Self { seconds, clock_hz: median(looks.iter().filter_map(|look| look.clock_hz).collect()) })
    }

    /// Returns whether the latency is one between threads of a core: below 75 cycles (15 ns if the
    /// clock is unknown). Measured: 40 to 62 within a core, 105 between neighbouring cores.
    #[must_use]
    pub fn is_within_core(self) -> bool {
        const SAME_CORE_CYCLES: f64 = 75.0;
        /// `SAME_CORE_CYCLES` at 5 GHz, the highest clock, so that two cores are not taken for one.
        const SAME_CORE_SECONDS: f64 = 15e-9;
        self.seconds < self.clock_hz.map_or(SAME_CORE_SECONDS, |hz| SAME_CORE_CYCLES / hz)
    }
}

/// Probes the distance between neighbouring CPUs of a case.
pub struct NeighbourDistances {
    topology: FixedTopology,
    pairs: Vec<ThreadPair>,
    shows_distances: bool,
    seen: Option<[CpuDistance; 2]>,
}

impl NeighbourDistances {
    /// Creates probes for up to 8 pairs of neighbouring CPU numbers in `cpus`. No pairs on bare
    /// metal, where CPUs do not move. `topology` determines which changes count as a move.
    pub fn of(machine: &Machine, topology: FixedTopology, cpus: &[usize]) -> Self {
        let set: CpuSet = cpus.iter().copied().collect();
        let cpus: Vec<usize> = set.iter().collect();
        let virtually = machine.virtualisation.is_virtual == Some(true);
        let neighbours = cpus.windows(2).filter(|_| virtually).take(MOST_PAIRS);
        let pairs = neighbours.filter_map(|pair| ThreadPair::new([pair[0], pair[1]]).ok()).collect();
        let shows_distances = machine.cpu.cores_of(&set) == Some(cpus.len());
        Self { topology, pairs, shows_distances, seen: None }
    }

    /// Probes all pairs of CPUs and returns the mean one-way latency in seconds; `None` if no pair
    /// answers. `clock_hz` is the core clock of the last sample.
    pub fn probe(&mut self, clock_hz: Option<f64>) -> Option<f64> {
        let mut times = Vec::with_capacity(self.pairs.len());
        self.pairs.retain_mut(|pair| {
            let bounced = pair.bounce(HandoverMethod::CompareAndSwap, PAIR_LOOK_TIME).ok();
            let time = bounced.and_then(|bounced| bounced.into_iter().reduce(f64::min));
            times.extend(time);
            time.is_some()
        });
        let seconds = (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)?;
        self.see(CpuDistance { seconds, clock_hz });
        Some(seconds)
    }

    fn see(&mut self, look: CpuDistance) {
        let [near, far] = self.seen.unwrap_or([look; 2]);
        let nearer = |a: CpuDistance, b: CpuDistance| if a.seconds <= b.seconds { [a, b] } else { [b, a] };
        self.seen = Some([nearer(near, look)[0], nearer(far, look)[1]]);
    }

    /// Returns a warning if the CPUs moved during the case, or shared one core in all probes though
    /// the machine shows a core for each CPU; `None` otherwise and without a probe.
    pub fn warning(&self) -> Option<MovedCpus> {
        let [near, far] = self.seen?;
        let together =
            self.topology == FixedTopology::OnCores && self.shows_distances && far.is_within_core();
        if self.topology.has_moved(near, far) {
            Some(MovedCpus::Moved { least: near.seconds, most: far.seconds })
        } else {
            together.then_some(MovedCpus::OnOneCore { most: far.seconds })
        }
    }
}

/// A topology other than the one shown by the hypervisor. Values: one-way latency in seconds.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MovedCpus {
    /// The CPUs moved during the case.
    #[error(
        "CPUs moved: the hypervisor moved the vCPUs during the case (core-to-core latency changed from {} to {}), \
         so its samples are not comparable; measure again, or on a dedicated host",
        time(*least),
        time(*most)
    )]
    Moved {
        /// Shortest latency.
        least: f64,
        /// Longest latency.
        most: f64,
    },
    /// The CPUs were threads of one core.
    #[error(
        "CPUs on one core: the hypervisor shows a core for each CPU, but ran them on one core (at most {} from one to the \
         next, as between threads of a core); the limit counts a core for each; measure again, or on a dedicated host",
        time(*most)
    )]
    OnOneCore {
        /// Longest latency.
        most: f64,
    },
}

fn time(seconds: f64) -> Quantity {
    Quantity::new(seconds, Unit::Second)
}

impl MovedCpus {
    const MOVED: &str = Warning::CPUS_MOVED;
    const ON_ONE_CORE: &str = "cpus-on-one-core";
    /// Both warning codes.
    pub const WARNING_CODES: [&str; 2] = [Self::MOVED, Self::ON_ONE_CORE];
}

impl Warn for MovedCpus {
    fn code(&self) -> &'static str {
        match self {
            Self::Moved { .. } => Self::MOVED,
            Self::OnOneCore { .. } => Self::ON_ONE_CORE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::{Root, Virtualisation};

    fn machine(is_virtual: Option<bool>) -> Machine {
        let machine = Machine::discover(&Root::at("/nonexistent"));
        Machine { virtualisation: Virtualisation { is_virtual, ..machine.virtualisation.clone() }, ..machine }
    }

    #[test]
    fn neighbours_of_a_guest_are_looked_at_and_told_apart() {
        let allowed: Vec<usize> = Machine::discover(&Root::live()).cpu.allowed.iter().take(2).collect();
        let mut distances = NeighbourDistances::of(&machine(Some(true)), FixedTopology::AtCaches, &allowed);
        assert_eq!(distances.pairs.len(), allowed.len() - 1);
        if let Some(seconds) = distances.probe(None) {
            assert!(seconds > 0.0 && distances.seen == Some([CpuDistance { seconds, clock_hz: None }; 2]));
            assert_eq!(distances.warning(), None, "one place is no move");
        }
        for (is_virtual, cpus) in [(false, allowed.as_slice()), (true, &[0, 0])] {
            let none = NeighbourDistances::of(&machine(Some(is_virtual)), FixedTopology::AtCaches, cpus);
            assert!(none.pairs.is_empty());
        }
    }

    fn seen(topology: FixedTopology, times: &[f64], clock_hz: Option<f64>) -> Option<MovedCpus> {
        let mut distances =
            NeighbourDistances { topology, pairs: Vec::new(), shows_distances: true, seen: None };
        times.iter().for_each(|seconds| distances.see(CpuDistance { seconds: *seconds, clock_hz }));
        distances.warning()
    }

    #[test]
    fn a_move_is_told_with_both_times() {
        assert_eq!(seen(FixedTopology::AtCaches, &[50e-9, 60e-9], None), None);
        assert_eq!(seen(FixedTopology::OnCores, &[27e-9, 110e-9], None), None);
        assert!(matches!(seen(FixedTopology::OnCores, &[10e-9, 27e-9], None), Some(MovedCpus::Moved { .. })));
        let reported =
            seen(FixedTopology::AtCaches, &[130e-9, 60e-9, 50e-9], None).expect("moved").to_string();
        assert!(reported.contains("50") && reported.contains("130"), "{reported}");
    }

    #[test]
    fn threads_of_one_core_are_known_by_cycles() {
        let one_core = |times: &[f64], hz| {
            matches!(seen(FixedTopology::OnCores, times, Some(hz)), Some(MovedCpus::OnOneCore { .. }))
        };
        // Measured on one core of a busy host, and between cores of two chips.
        assert!(one_core(&[15.6e-9, 15.9e-9], 3.9e9));
        assert!(one_core(&[10e-9, 15.6e-9], 3.9e9) && one_core(&[25e-9], 2.5e9));
        assert!(!one_core(&[17e-9], 5.5e9) && !one_core(&[27e-9], 3.9e9) && !one_core(&[42e-9], 2.5e9));
        let moved = seen(FixedTopology::OnCores, &[15.6e-9, 27e-9], Some(3.9e9));
        assert!(matches!(moved, Some(MovedCpus::Moved { .. })));
        let of_memory = seen(FixedTopology::AtCaches, &[15.6e-9], Some(3.9e9));
        assert_eq!(of_memory, None, "memory does not depend on it");
    }
}
