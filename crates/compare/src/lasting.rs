//! Lasting losses. The runs since the first one with a loss are excluded from baselines until the
//! user accepts the level or it recovers; otherwise a baseline would accept the loss as normal.

use plimsoll_bench::Better;
use plimsoll_model::case::Case;
use plimsoll_model::limit::median;
use plimsoll_stats::MIN_SEGMENT;

use super::{ComparedMetric, Comparison, ENOUGH_RUNS, Floors, RunNoise, declared_noise, direction_of};

/// Shortest lasting loss, in runs; a shorter one that ended by itself is noise.
const LASTING: usize = MIN_SEGMENT;

/// Share of a loss below which the loss has ended.
const LEFT: f64 = 0.5;

/// One metric of one case in the runs of a plan.
#[derive(Clone, Debug)]
pub struct MetricSeries {
    /// The case.
    pub case: Case,
    /// Name of the metric.
    pub metric: String,
    /// Direction according to the documents.
    pub better: Better,
    /// Index of the run and result; ascending, each run at most once.
    pub figures: Vec<(usize, f64)>,
}

/// A metric that has been worse since a run and was not accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct LastingLoss {
    /// The case.
    pub case: Case,
    /// Name of the metric.
    pub metric: String,
    /// Index of the first run with the loss.
    pub since: usize,
    /// Relative change since then.
    pub change: f64,
}

/// Role of earlier runs of a plan for a later run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Earlier {
    /// Indices of the runs of the baseline, ascending.
    pub baseline: Vec<usize>,
    /// Losses that last to the latest run, oldest first.
    pub open: Vec<LastingLoss>,
}

/// Selects as baseline (to compare with) the latest `count` of the runs `0..runs` without a lasting
/// loss in `all`. Also returns losses that still last. `floors`: noise that doctor measured.
pub fn baseline(all: &[MetricSeries], runs: usize, count: usize, floors: Option<&Floors>) -> Earlier {
    let mut left_out = vec![false; runs];
    let mut open = Vec::new();
    for series in all {
        let Some(better) = direction_of(&series.case, &series.metric, series.better) else { continue };
        let mut walk = SeriesWalk { series, better, count, floors, usual: Vec::new(), loss: Vec::new() };
        for (run, value) in &series.figures {
            for ended in walk.enter(*run, *value) {
                left_out.get_mut(ended).into_iter().for_each(|out| *out = true);
            }
        }
        open.extend(walk.open());
    }
    open.sort_by_key(|loss| loss.since);
    let end = open.first().map_or(runs, |first| first.since);
    let mut baseline: Vec<usize> = (0..end).rev().filter(|run| !left_out[*run]).take(count).collect();
    baseline.reverse();
    Earlier { baseline, open }
}

/// Returns whether `comparison` has, for this metric of the case, a loss of more than half of
/// `change`, the relative change of an earlier lasting loss (-0.1: a tenth less).
pub fn is_still_lost(comparison: &Comparison, case: &Case, metric: &str, change: f64) -> bool {
    let same = |one: &&ComparedMetric| one.case == *case && one.metric == metric;
    comparison.compared.iter().filter(same).any(|one| one.loss() > LEFT * change.abs())
}

struct SeriesWalk<'a> {
    series: &'a MetricSeries,
    better: Better,
    count: usize,
    floors: Option<&'a Floors>,
    usual: Vec<f64>,
    loss: Vec<(usize, f64)>,
}

impl SeriesWalk<'_> {
    /// Adds the result of run number `run`. Returns the numbers of the runs with a lasting loss
    /// that this result ends; empty if it ends none.
    fn enter(&mut self, run: usize, value: f64) -> Vec<usize> {
        if !(value.is_finite() && value > 0.0) {
            return Vec::new();
        }
        let log = value.ln();
        let lost = self.lost(log);
        if self.loss.is_empty() {
            match lost > 0.0 && self.is_real(lost) {
                true => self.loss.push((run, log)),
                false => self.usual.push(log),
            }
            return Vec::new();
        }
        if lost > LEFT * self.lost_so_far() {
            self.loss.push((run, log));
            return Vec::new();
        }
        let mut ended = std::mem::take(&mut self.loss);
        if ended.len() < LASTING {
            self.usual.extend(ended.drain(..).map(|(_, log)| log));
        }
        self.usual.push(log);
        ended.into_iter().map(|(run, _)| run).collect()
    }

    /// Returns how much worse a result with the logarithm `log` is than usual; negative if better.
    fn lost(&self, log: f64) -> f64 {
        let Some(usual) = median(self.latest().to_vec()) else { return 0.0 };
        self.better.gain(usual - log)
    }

    fn lost_so_far(&self) -> f64 {
        median(self.loss.iter().map(|(_, log)| self.lost(*log)).collect()).unwrap_or(0.0)
    }

    fn latest(&self) -> &[f64] {
        &self.usual[self.usual.len().saturating_sub(self.count)..]
    }

    /// Returns whether the loss `lost` (difference of logarithms) exceeds the noise between runs.
    fn is_real(&self, lost: f64) -> bool {
        let (case, metric) = (&self.series.case, self.series.metric.as_str());
        let latest: Vec<f64> = self.latest().iter().map(|log| log.exp()).collect();
        let measured = || self.floors.and_then(|floors| floors.find(case, metric));
        let noise = match latest.len() >= ENOUGH_RUNS {
            true => RunNoise::of_runs(&latest).map(|(noise, _)| noise),
            false => measured().or_else(|| declared_noise(case)),
        };
        noise.is_some_and(|noise| lost > noise.smallest())
    }

    fn open(&self) -> Option<LastingLoss> {
        let (since, _) = *self.loss.first()?;
        let change = self.better.gain(-self.lost_so_far()).exp_m1();
        let MetricSeries { case, metric, .. } = self.series;
        Some(LastingLoss { case: case.clone(), metric: metric.clone(), since, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(levels: &[f64]) -> MetricSeries {
        let figure = |(run, level): (usize, &f64)| (run, level * (1.0 + 0.004 * (run % 4) as f64));
        MetricSeries {
            case: "memory.bandwidth/op=read/threads=2".parse().unwrap(),
            metric: "bandwidth".to_owned(),
            better: Better::Higher,
            figures: levels.iter().enumerate().map(figure).collect(),
        }
    }

    fn levels(parts: &[(usize, f64)]) -> Vec<f64> {
        parts.iter().flat_map(|(runs, level)| vec![*level; *runs]).collect()
    }

    fn of(parts: &[(usize, f64)]) -> Earlier {
        let levels = levels(parts);
        baseline(&[series(&levels)], levels.len(), 10, None)
    }

    #[test]
    fn a_loss_stays_out_of_the_baseline_however_long_it_lasts() {
        for lasts in [1, 2, 4, 5, 9, 10, 40, 200] {
            let found = of(&[(16, 20e9), (lasts, 17.6e9)]);
            assert_eq!(found.baseline, (6..16).collect::<Vec<_>>(), "{lasts}");
            assert!(found.open.len() == 1 && found.open[0].since == 16, "{found:?}");
            assert!((found.open[0].change + 0.12).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn what_ended_by_itself_counts_as_noise_if_it_was_brief() {
        let brief = of(&[(16, 20e9), (2, 17.6e9), (4, 20e9)]);
        assert!(brief.open.is_empty() && brief.baseline == (12..22).collect::<Vec<_>>(), "{brief:?}");
        let lasting = of(&[(16, 20e9), (8, 17.6e9), (4, 20e9)]);
        assert_eq!(lasting.baseline, [10, 11, 12, 13, 14, 15, 24, 25, 26, 27]);
        assert!(lasting.open.is_empty());
        let twice = of(&[(16, 20e9), (8, 17.6e9), (1, 20e9), (3, 17.6e9)]);
        assert_eq!((twice.open[0].since, twice.baseline.last()), (25, Some(&24)));
        assert!(twice.baseline.iter().all(|run| !(16..24).contains(run)), "{twice:?}");
    }

    #[test]
    fn noise_and_improvements_leave_nothing_out() {
        assert_eq!(of(&[(30, 20e9)]), Earlier { baseline: (20..30).collect(), open: Vec::new() });
        let better = of(&[(16, 20e9), (8, 24e9)]);
        assert!(better.open.is_empty() && better.baseline == (14..24).collect::<Vec<_>>());
        assert_eq!(baseline(&[], 3, 10, None).baseline, [0, 1, 2]);
        assert_eq!(baseline(&[], 0, 10, None), Earlier::default());
    }

    #[test]
    fn a_second_loss_is_found_beside_the_first() {
        let first = series(&levels(&[(12, 20e9), (12, 10e9)]));
        let mut second = series(&levels(&[(20, 20e9), (4, 15e9)]));
        second.case = "memory.bandwidth/op=write/threads=2".parse().unwrap();
        let found = baseline(&[second, first], 24, 10, None);
        assert_eq!(found.open.iter().map(|loss| loss.since).collect::<Vec<_>>(), [12, 20]);
        assert_eq!(found.baseline, (2..12).collect::<Vec<_>>());
    }
}
