//! Reference tools measured next to one case. Each round samples plimsoll and every tool once in a
//! seeded random order, so drift favours none. A tool that fails is not run again.

use std::collections::BTreeMap;

use chacha20::ChaCha8Rng;
use rand::seq::SliceRandom;

use plimsoll_bench::Prepared;
use plimsoll_model::sample::{CannotMeasure, FailureCause, Paired, Sample, SampleAmount, ToolRun};
use plimsoll_reference::{PreparedTool, fact};
use plimsoll_stats::Seed;

use crate::remark::CaseRemark;

pub(super) struct ReferenceRuns {
    all: Vec<PreparedTool>,
    fresh: Vec<BTreeMap<String, f64>>,
    generator: ChaCha8Rng,
    /// Seconds that the tools may take; slower tools give fewer pairs.
    allowed: f64,
    pub(super) seconds: f64,
}

/// Pairs that are taken regardless of time: fewer give no confidence interval.
const MIN_PAIRS: usize = 3;

impl ReferenceRuns {
    /// Creates the state for the tools `all`, which may take `allowed` s in total, if given.
    pub(super) fn new(all: Vec<PreparedTool>, seed: Seed, allowed: Option<f64>) -> Self {
        let fresh = vec![BTreeMap::new(); all.len()];
        let allowed = allowed.unwrap_or(f64::INFINITY);
        Self { all, fresh, generator: seed.generator(), allowed, seconds: 0.0 }
    }

    fn is_late(&self) -> bool {
        self.seconds >= self.allowed
    }

    fn wants(&self, prepared: &PreparedTool) -> bool {
        let most = if self.is_late() { prepared.pairs.min(MIN_PAIRS) } else { prepared.pairs };
        prepared.prepared.is_some() && prepared.about.pairs.len() < most
    }

    pub(super) fn want_more(&self) -> bool {
        self.all.iter().any(|prepared| self.wants(prepared))
    }

    /// Returns which tools (indices) run before and after plimsoll's sample, in random order.
    pub(super) fn order(&mut self) -> (Vec<usize>, Vec<usize>) {
        let mut turns: Vec<Option<usize>> =
            (0..self.all.len()).filter(|i| self.wants(&self.all[*i])).map(Some).chain([None]).collect();
        turns.shuffle(&mut self.generator);
        let own = turns.iter().position(Option::is_none).unwrap_or(0);
        let tools = |turns: &[Option<usize>]| turns.iter().copied().flatten().collect();
        (tools(&turns[..own]), tools(&turns[own..]))
    }

    /// Runs the tools with indices `turns` while the case `own` is paused. Fails if interrupted.
    pub(super) fn take_readings(
        &mut self,
        turns: &[usize],
        own: &mut dyn Prepared,
    ) -> Result<(), CannotMeasure> {
        if turns.is_empty() {
            return Ok(());
        }
        own.pause();
        let result = turns.iter().try_for_each(|i| self.take_reading(*i));
        own.resume();
        result
    }

    fn take_reading(&mut self, index: usize) -> Result<(), CannotMeasure> {
        let PreparedTool { about, prepared, .. } = &mut self.all[index];
        let Some(tool) = prepared else { return Ok(()) };
        match tool.sample(SampleAmount::Seconds(0.0)) {
            Ok(sample) => self.fresh[index] = sample.values,
            Err(interrupt) if interrupt.cause == FailureCause::Interrupted => return Err(interrupt),
            Err(cannot) => {
                about.unavailable = Some(cannot.reason);
                *prepared = None;
            }
        }
        Ok(())
    }

    /// Deletes all pairs of results, this round's too: the case has started over in another state.
    pub(super) fn forget(&mut self) {
        self.fresh.fill(BTreeMap::new());
        for PreparedTool { about, passes, .. } in &mut self.all {
            [about].into_iter().chain(passes).for_each(|run| run.pairs.clear());
        }
    }

    pub(super) fn pair(&mut self, sample: &Sample, headline: Option<&str>) {
        for (prepared, fresh) in self.all.iter_mut().zip(&mut self.fresh) {
            let fresh = std::mem::take(fresh);
            let Some(tool) = fresh.get(&prepared.about.metric).copied() else { continue };
            match comparable(sample, &prepared.about.metric, headline) {
                Some(own) => {
                    prepared.about.pairs.push(Paired { own, tool });
                    for pass in &mut prepared.passes {
                        pass.pairs.extend(fresh.get(&pass.name).map(|tool| Paired { own, tool: *tool }));
                    }
                }
                None => {
                    prepared.about.unavailable = Some("the case has no such metric".to_owned());
                    prepared.prepared = None;
                }
            }
        }
    }

    pub(super) fn finish(self) -> Vec<ToolRun> {
        let late = self.is_late();
        let reported = |prepared: PreparedTool| {
            let hurried = late && prepared.prepared.is_some() && prepared.about.pairs.len() < prepared.pairs;
            let (mut about, wanted, mut passes) = (prepared.about, prepared.pairs, prepared.passes);
            let facts = prepared.prepared.and_then(|mut tool| tool.verify().ok()).unwrap_or_default();
            (about.warnings, about.achieved) = (facts.warnings, facts.achieved);
            if about.achieved.get(&fact::STATISTIC).as_deref() == Some(plimsoll_reference::BEST_STATISTIC) {
                // The tool prints only its best figure.
                for run in [&mut about].into_iter().chain(&mut passes) {
                    let best = run.pairs.iter().map(|pair| pair.own).fold(f64::NEG_INFINITY, f64::max);
                    run.pairs.iter_mut().for_each(|pair| pair.own = best);
                }
            }
            if hurried {
                let taken = about.pairs.len();
                about.warnings.push(CaseRemark::FewPairs { taken, wanted }.into());
            }
            // Some tools report their version only with their results.
            let version = about.achieved.take(&fact::VERSION);
            about.version = about.version.or(version);
            with_passes(about, passes)
        };
        self.all.into_iter().flat_map(reported).collect()
    }
}

/// Returns `about`, a tool's run, then its further `passes`; only `about` if it gave no result.
fn with_passes(about: ToolRun, passes: Vec<ToolRun>) -> Vec<ToolRun> {
    let gave = !about.pairs.is_empty();
    let mut all = vec![about.clone()];
    for pass in passes.into_iter().filter(|_| gave) {
        let ToolRun { version, achieved, warnings, unavailable, .. } = about.clone();
        let none = || pass.pairs.is_empty().then(|| "its output has no usable figure".to_owned());
        let unavailable = unavailable.or_else(none);
        all.push(ToolRun { version, achieved, warnings, unavailable, ..pass });
    }
    all
}

/// Returns plimsoll's value of `metric` to compare with a tool's value: the delivered one, if
/// known, for the metric `headline`. `None` if the sample lacks the metric.
fn comparable(sample: &Sample, metric: &str, headline: Option<&str>) -> Option<f64> {
    let value = sample.values.get(metric).copied()?;
    let delivered = sample.conditions.delivered;
    Some(delivered.filter(|_| headline == Some(metric)).unwrap_or(value))
}
