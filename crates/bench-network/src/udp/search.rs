//! Search for the highest rate that a path sustains without loss. A trial is judged by its second
//! half, since a path may fill a queue before it loses anything: a delay that grows by more than 1
//! % of the time means too high a rate. If the delays are too noisy, the trial is repeated.

use crate::condition::OFFERED;
use crate::{GOODPUT, LOSS};
use plimsoll_bench_api::prelude::*;
use plimsoll_server::wire::ArrivalTimeline;
use plimsoll_stats::{TimedPoint, Trend};

/// Trials after the first, without longer repetitions of the same rate.
const MAX_RATE_TRIALS: usize = 8;
/// Start of the search relative to what arrived in the first trial at full speed.
const BELOW: f64 = 0.98;
/// Relative distance between the best rate and the lowest lossy one at which the search ends.
const SEARCH_DISTANCE: f64 = 0.01;
/// Largest growth of the delay per second that counts as no queue.
const GROWTH: f64 = 0.01;
/// Shares of the search time: the first trial, each further one, and the maximum of all.
const FIRST: f64 = 1.0 / 3.0;
const EACH: f64 = 1.0 / 12.0;
pub(super) const ALL_TRIALS_SHARE: f64 = 1.5;
const LAST: f64 = 0.5;
const SHORTEST: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateTrial {
    pub(super) offered: f64,
    /// Offered rate per direction, bit/s.
    pub(super) each: f64,
    /// Rate that arrived, bit/s.
    pub(super) goodput: f64,
    pub(super) loss: f64,
    /// Highest rate in the second half of a direction's transfer, bit/s.
    pub(super) arriving: f64,
    /// Growth of the delay in the second half, s/s, of the direction with the most, if known.
    pub(super) growth: Option<Trend>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrialVerdict {
    Lossless,
    TooMuch,
    Unclear,
}

impl RateTrial {
    pub(super) fn point(&self) -> CurvePoint {
        let named = [(OFFERED.name, self.offered), (GOODPUT, self.goodput), (LOSS.name, self.loss)];
        let growth = self.growth.map(|trend| ("delay_growth", trend.slope));
        named.into_iter().chain(growth).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    pub(super) fn verdict(&self) -> TrialVerdict {
        match self.growth {
            _ if self.loss > 0.0 => TrialVerdict::TooMuch,
            None => TrialVerdict::Lossless,
            Some(Trend { slope, error }) if slope - 2.0 * error > GROWTH => TrialVerdict::TooMuch,
            Some(Trend { slope, error }) if slope <= GROWTH && error <= GROWTH => TrialVerdict::Lossless,
            Some(_) => TrialVerdict::Unclear,
        }
    }

    /// Returns the upper bound of the path's capacity per direction that this trial shows, bit/s.
    fn ceiling(&self) -> f64 {
        self.arriving.min(self.each).max(1.0)
    }
}

/// Returns the rate in the second half of the arrivals, bit/s, and the growth of the delay there,
/// s/s; `None` each if there are too few arrivals.
pub(super) fn tail(timeline: &ArrivalTimeline) -> (Option<f64>, Option<Trend>) {
    let seconds = timeline.width as f64 * 1e-9;
    let some = |bytes: &u64| *bytes > 0;
    let (first, last) = (timeline.bytes.iter().position(some), timeline.bytes.iter().rposition(some));
    let Some((first, last)) = first.zip(last) else { return (None, None) };
    // The last stretch may be partial.
    let places = (first + last).div_ceil(2)..last;
    let mut sum = 0.0;
    let arrived = places.clone().filter_map(|place| {
        sum += *timeline.bytes.get(place)? as f64 * 8.0;
        Some(TimedPoint { t: (place + 1) as f64 * seconds, value: sum })
    });
    let arriving = Trend::fit(&arrived.collect::<Vec<_>>()).map(|trend| trend.slope);
    let delays = places.filter_map(|place| {
        let delay = (*timeline.delays.get(place)?)?;
        Some(TimedPoint { t: place as f64 * seconds, value: delay as f64 * 1e-9 })
    });
    (arriving, Trend::fit(&delays.collect::<Vec<_>>()))
}

#[derive(Debug)]
pub(super) struct RateSearch<T> {
    pub(super) tried: Vec<(RateTrial, T)>,
    best: Option<usize>,
    pub(super) proved: bool,
    pub(super) unfinished: bool,
}

impl<T> RateSearch<T> {
    pub(super) fn best(&self) -> Option<&(RateTrial, T)> {
        self.tried.get(self.best?)
    }

    pub(super) fn too_much(&self) -> &'static str {
        let lossy = self.tried.iter().filter(|(trial, _)| trial.loss > 0.0).count();
        match lossy {
            0 => "fills a queue",
            n if n == self.tried.len() => "loses datagrams",
            _ => "fills a queue or loses datagrams",
        }
    }
}

/// Searches the highest rate without loss for about `seconds`. `trial` sends at a rate in bit/s
/// (`None`: full speed) for some seconds; `most` is the known long-term capacity. Bisects until the
/// rate is known to 1 %, then tries the best one for longer. Chance loss only lowers the result.
pub(super) fn search<T>(
    seconds: f64,
    most: Option<f64>,
    trial: impl FnMut(Option<f64>, f64) -> Result<(RateTrial, T), CannotMeasure>,
) -> Result<RateSearch<T>, CannotMeasure> {
    let mut run =
        RateTrials { trial, seconds, left: ALL_TRIALS_SHARE * seconds, tried: Vec::new(), clear: true };
    let (first, verdict) = run.settled(None, FIRST)?;
    let most = most.unwrap_or(f64::INFINITY);
    if verdict == TrialVerdict::Lossless && first.each <= most * (1.0 + SEARCH_DISTANCE) {
        let best = (first.goodput > 0.0).then_some(0);
        return Ok(RateSearch { tried: run.tried, best, proved: true, unfinished: false });
    }
    let (mut low, mut high) = (0.0, first.ceiling().min(most));
    let mut rate = high * BELOW;
    for _ in 0..MAX_RATE_TRIALS {
        if high - low <= SEARCH_DISTANCE * high {
            break;
        }
        match run.settled(Some(rate), EACH)?.1 {
            TrialVerdict::Lossless => low = rate,
            TrialVerdict::TooMuch => high = rate,
            TrialVerdict::Unclear => break,
        }
        rate = (low + high) / 2.0;
    }
    run.prove(&mut low, &mut high)?;
    let proved = run.best(high, |verdict| verdict == TrialVerdict::Lossless);
    // A rate that only lost nothing is a result too; it is marked as unproved.
    let best = proved
        .or_else(|| run.best(high * (1.0 + SEARCH_DISTANCE), |verdict| verdict == TrialVerdict::Unclear));
    let unfinished = best.is_some() && (!run.clear || proved.is_none());
    Ok(RateSearch { tried: run.tried, best, proved: proved.is_some(), unfinished })
}

struct RateTrials<T, F> {
    trial: F,
    seconds: f64,
    left: f64,
    tried: Vec<(RateTrial, T)>,
    clear: bool,
}

impl<T, F: FnMut(Option<f64>, f64) -> Result<(RateTrial, T), CannotMeasure>> RateTrials<T, F> {
    /// Tries a rate in bit/s (`None`: full speed) for the share `part` of the search time, doubled
    /// while the verdict is unclear. Returns the last trial and its verdict.
    fn settled(&mut self, rate: Option<f64>, part: f64) -> Result<(RateTrial, TrialVerdict), CannotMeasure> {
        let mut seconds = (part * self.seconds).max(SHORTEST);
        loop {
            let done = (self.trial)(rate, seconds)?;
            let (trial, verdict) = (done.0, done.0.verdict());
            self.tried.push(done);
            self.left -= seconds;
            seconds *= 2.0;
            let is_clear = verdict != TrialVerdict::Unclear;
            if is_clear || seconds > self.left {
                self.clear &= is_clear;
                return Ok((trial, verdict));
            }
        }
    }

    /// Tries `low`, bit/s, for longer; while that is too much, sets `high` to it and lowers it.
    fn prove(&mut self, low: &mut f64, high: &mut f64) -> Result<(), CannotMeasure> {
        while *low > 0.0 {
            let part = LAST.min(self.left / self.seconds);
            if part < EACH {
                self.clear = false;
                return Ok(());
            }
            if self.settled(Some(*low), part)?.1 != TrialVerdict::TooMuch {
                return Ok(());
            }
            (*high, *low) = (*low, *low * BELOW);
        }
        Ok(())
    }

    /// Returns the index of the last trial at the highest rate below `high` with a wanted verdict.
    fn best(&self, high: f64, wanted: impl Fn(TrialVerdict) -> bool) -> Option<usize> {
        // The offered rate differs slightly from the target rate.
        let below =
            |trial: &RateTrial| trial.goodput > 0.0 && trial.each < high * (1.0 - SEARCH_DISTANCE / 10.0);
        let all = self.tried.iter().enumerate().filter(|(_, (t, _))| below(t) && wanted(t.verdict()));
        let same = |one: f64, other: f64| (one / other - 1.0).abs() < SEARCH_DISTANCE / 10.0;
        all.reduce(|best, next| {
            let (own, other) = (best.1.0.each, next.1.0.each);
            if other > own || same(own, other) { next } else { best }
        })
        .map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests;
