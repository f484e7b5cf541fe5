//! Search for the saturation point: doubles depth and threads until the rate stops growing.

use crate::fact::{DEEPEST_QUEUE, FIGURE_THREADS};
use crate::io::search::point;
use crate::io::transfers::{Probe, Transfers};
use crate::metrics;
use plimsoll_bench_api::prelude::*;

/// Least growth of the rate over a doubling.
const GROWS: f64 = 1.05;

/// Share of the highest rate that defines the saturation point.
const SATURATION_SHARE: f64 = 0.95;

pub(crate) struct SaturationSweep {
    /// Each has another number of threads.
    pub(crate) teams: Vec<Transfers>,
    pub(crate) chosen: Option<usize>,
    pub(crate) curve: Vec<CurvePoint>,
}

impl SaturationSweep {
    fn sweep(&mut self, amount: SampleAmount) -> Result<usize, CannotMeasure> {
        let mut before = 0.0;
        for transfers in &mut self.teams {
            let probes = probe_doubling_depths(transfers.reachable_depth(), GROWS * before, |depth| {
                transfers.probe(depth, amount, 0.99)
            })?;
            transfers.pause();
            self.curve.extend(probes.iter().map(|probe| point(probe, transfers.job.threads, "p99")));
            let best = probes.iter().map(|probe| probe.rate).fold(0.0, f64::max);
            if best < GROWS * before {
                break;
            }
            before = best;
        }
        let none = || CannotMeasure::environment("the sweep has no point");
        let saturation = saturation(&self.curve).ok_or_else(none)?;
        let is_it = |team: &Transfers| team.job.threads as f64 == saturation[metrics::THREADS_METRIC];
        let index = self.teams.iter().position(is_it).ok_or_else(none)?;
        // Depths are small whole numbers.
        self.teams[index].settle_at(saturation[metrics::DEPTH_METRIC] as u64)?;
        self.chosen = Some(index);
        Ok(index)
    }
}

/// Probes depths 1, 2, 4 … up to `deepest` until the rate stops growing; probes the best depth
/// again if its rate is below `enough` transfers/s. Returns all probes by depth.
fn probe_doubling_depths<E>(
    deepest: u64,
    enough: f64,
    mut probe: impl FnMut(u64) -> Result<Probe, E>,
) -> Result<Vec<Probe>, E> {
    let (mut best, mut flat, mut depth) = (0.0_f64, 0, 1);
    let mut probes = Vec::new();
    while depth <= deepest && flat < 2 {
        let made = probe_confirmed(GROWS * best, || probe(depth))?;
        flat = if made.rate < GROWS * best { flat + 1 } else { 0 };
        best = best.max(made.rate);
        probes.push(made);
        depth *= 2;
    }
    if let Some(most) = probes.iter_mut().max_by(|a, b| a.rate.total_cmp(&b.rate))
        && most.rate < enough
    {
        *most = better(*most, probe(most.depth)?);
    }
    Ok(probes)
}

/// Calls `probe`, and once more if its rate is below `enough` transfers/s, because disturbances
/// only slow down; returns the result with the higher rate.
fn probe_confirmed<E>(enough: f64, mut probe: impl FnMut() -> Result<Probe, E>) -> Result<Probe, E> {
    let first = probe()?;
    if first.rate >= enough { Ok(first) } else { Ok(better(first, probe()?)) }
}

fn better(one: Probe, other: Probe) -> Probe {
    if other.rate > one.rate { other } else { one }
}

/// Returns the point with the fewest transfers in flight among those with at least 95 % of the
/// highest rate, of equals the one with the lowest latency; `None` if `curve` is empty.
fn saturation(curve: &[CurvePoint]) -> Option<&CurvePoint> {
    let most = curve.iter().map(|point| point[metrics::RATE_METRIC]).fold(0.0, f64::max);
    let near = curve.iter().filter(|point| point[metrics::RATE_METRIC] >= SATURATION_SHARE * most);
    let in_flight = |point: &CurvePoint| point[metrics::THREADS_METRIC] * point[metrics::DEPTH_METRIC];
    let latency = |point: &CurvePoint| point[metrics::LATENCY_METRIC];
    near.min_by(|a, b| in_flight(a).total_cmp(&in_flight(b)).then(latency(a).total_cmp(&latency(b))))
}

impl Prepared for SaturationSweep {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let index = self.chosen.map_or_else(|| self.sweep(amount), Ok)?;
        let mut sample = self.teams[index].sample(amount)?;
        sample.values.insert(metrics::THREADS_METRIC.to_owned(), self.teams[index].job.threads as f64);
        sample.curve = self.curve.clone();
        Ok(sample)
    }

    fn pause(&mut self) {
        self.teams.iter_mut().for_each(Transfers::pause);
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.teams.iter_mut().try_for_each(Transfers::check)?;
        let Some(index) = self.chosen else { return Ok(Facts::default()) };
        let chosen = &self.teams[index];
        let mut facts = chosen.judged();
        facts.achieved.set(&FIGURE_THREADS, chosen.job.threads);
        facts.achieved.set(&DEEPEST_QUEUE, chosen.job.depth);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn one_disturbed_probe_ends_no_branch(
            full in 1_u64..8, before in 0.0_f64..1.0, disturbed in 1_usize..30, slowed in 0.0_f64..1.0,
        ) {
            let full = 1 << full;
            let rate = |depth: u64| depth.min(full) as f64;
            let mut made = 0;
            let probes = probe_doubling_depths(256, before * full as f64, |depth| {
                made += 1;
                let share = if made == disturbed { slowed } else { 1.0 };
                Ok::<_, ()>(Probe { depth, rate: share * rate(depth), latency: 1.0, percentile_ns: 1 })
            }).expect("probes");
            let depths: Vec<u64> = probes.iter().map(|probe| probe.depth).collect();
            prop_assert!(depths.contains(&full), "{depths:?}");
            prop_assert!(depths.len() as u32 <= full.ilog2() + 4, "{depths:?}");
            let best = probes.iter().map(|probe| probe.rate).fold(0.0, f64::max);
            prop_assert_eq!(best, full as f64);
        }
    }

    #[test]
    fn a_branch_that_falls_short_is_asked_once_more_at_its_best() {
        let mut asked = Vec::new();
        let probes = probe_doubling_depths(1, 10.0, |depth| {
            asked.push(depth);
            let rate = [4.0, 11.0][asked.len() - 1];
            Ok::<_, ()>(Probe { depth, rate, latency: 1.0, percentile_ns: 1 })
        });
        assert_eq!(probes.expect("probes")[0].rate, 11.0);
        assert_eq!(asked, [1, 1]);
    }

    #[test]
    fn the_knee_is_the_least_in_flight_near_the_highest_rate() {
        let at = |(threads, depth, rate): (f64, f64, f64)| {
            let pairs =
                [("threads", threads), ("depth", depth), ("rate", rate), ("latency", threads * depth / rate)];
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<CurvePoint>()
        };
        let all = [(1.0, 1.0, 10.0), (1.0, 2.0, 20.0), (1.0, 4.0, 38.0), (1.0, 8.0, 39.0), (2.0, 2.0, 38.5)];
        let curve = all.map(at);
        let saturation = saturation(&curve).expect("a knee");
        assert_eq!((saturation["threads"], saturation["depth"]), (2.0, 2.0));
        assert!(super::saturation(&[]).is_none());
    }
}
