//! The search for the highest rate that a path carries without loss in the long run: pure, over whatever a trial of a rate
//! tells.
//!
//! A rate above what the path serves need not lose anything at first: what is too much waits in a queue, and the datagrams are
//! on the way longer and longer. So a trial is judged by its tail: a delay that grows by more than 1 % of the time says that
//! more is offered than is served. Where the delays are too rough to tell, the trial is made again for longer, and where the
//! time for that is used up, the search says so.

use crate::condition::OFFERED;
use crate::{GOODPUT, LOSS};
use plimsoll_model::sample::{CannotMeasure, Point};
use plimsoll_server::wire::Course;
use plimsoll_stats::{Timed, Trend};

/// Trials of rates after the first, longer ones of the same rate not counted.
const TRIALS: usize = 8;
/// The first trial goes as fast as it can; the search begins below what arrived of it.
const BELOW: f64 = 0.98;
/// The search ends when the highest rate without loss and the lowest with loss are this near.
const NEAR: f64 = 0.01;
/// The most that a queue may add: the delay grows by this share of the time.
const GROWTH: f64 = 0.01;
/// Of the time of a search: the first trial, each further one, and all of them together, longer ones included.
const FIRST: f64 = 1.0 / 3.0;
const EACH: f64 = 1.0 / 12.0;
pub(super) const ALL: f64 = 1.5;
/// The best rate is tried once more for this long.
const LAST: f64 = 0.5;
/// Shortest trial, in seconds.
const SHORTEST: f64 = 0.05;

/// What a trial told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    /// Bits per second that were offered, in all directions together.
    pub(super) offered: f64,
    /// The same of one direction.
    pub(super) each: f64,
    /// Bits per second that arrived.
    pub(super) goodput: f64,
    /// Share that was lost.
    pub(super) loss: f64,
    /// Bits per second that arrived in the tail, in the direction with the most.
    pub(super) arriving: f64,
    /// How the delay grew in the tail, in seconds a second, in the direction where it grew most; none where datagrams carry no
    /// time or came too seldom.
    pub(super) growth: Option<Trend>,
}

/// What follows from a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The path serves what was offered.
    Lossless,
    /// More was offered than it serves.
    TooMuch,
    /// The delays are too rough to tell.
    Unclear,
}

impl Trial {
    /// As a point of the curve.
    pub(super) fn point(&self) -> Point {
        let named = [(OFFERED.name, self.offered), (GOODPUT, self.goodput), (LOSS.name, self.loss)];
        let growth = self.growth.map(|trend| ("delay_growth", trend.slope));
        named.into_iter().chain(growth).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.growth {
            _ if self.loss > 0.0 => Verdict::TooMuch,
            None => Verdict::Lossless,
            Some(Trend { slope, error }) if slope - 2.0 * error > GROWTH => Verdict::TooMuch,
            Some(Trend { slope, error }) if slope <= GROWTH && error <= GROWTH => Verdict::Lossless,
            Some(_) => Verdict::Unclear,
        }
    }

    /// The most that the path can serve, as far as this trial tells.
    fn ceiling(&self) -> f64 {
        self.arriving.min(self.each).max(1.0)
    }
}

/// The rate in the tail of a course, in bits per second, and the growth of the delay there.
pub(super) fn tail(course: &Course) -> (Option<f64>, Option<Trend>) {
    let seconds = course.width as f64 * 1e-9;
    let some = |bytes: &u64| *bytes > 0;
    let (first, last) = (course.bytes.iter().position(some), course.bytes.iter().rposition(some));
    let Some((first, last)) = first.zip(last) else { return (None, None) };
    // The last stretch may be a part of one.
    let places = (first + last).div_ceil(2)..last;
    let mut sum = 0.0;
    let arrived = places.clone().filter_map(|place| {
        sum += *course.bytes.get(place)? as f64 * 8.0;
        Some(Timed { t: (place + 1) as f64 * seconds, value: sum })
    });
    let arriving = Trend::of(&arrived.collect::<Vec<_>>()).map(|trend| trend.slope);
    let delays = places.filter_map(|place| {
        let delay = (*course.delays.get(place)?)?;
        Some(Timed { t: place as f64 * seconds, value: delay as f64 * 1e-9 })
    });
    (arriving, Trend::of(&delays.collect::<Vec<_>>()))
}

/// All trials of a search, in order.
#[derive(Debug)]
pub(super) struct Search<T> {
    pub(super) tried: Vec<(Trial, T)>,
    best: Option<usize>,
    /// Whether that trial showed that the path serves it; else only that nothing was lost.
    pub(super) proved: bool,
    /// Whether the time ended before the rate was known within 1 %.
    pub(super) unfinished: bool,
}

impl<T> Search<T> {
    /// The trial with the highest rate that the path carries.
    pub(super) fn best(&self) -> Option<&(Trial, T)> {
        self.tried.get(self.best?)
    }

    /// What was too much of every rate, in words.
    pub(super) fn too_much(&self) -> &'static str {
        let lossy = self.tried.iter().filter(|(trial, _)| trial.loss > 0.0).count();
        match lossy {
            0 => "fills a queue",
            n if n == self.tried.len() => "loses datagrams",
            _ => "fills a queue or loses datagrams",
        }
    }
}

/// Tries rates (`None`: as fast as it goes) for so many seconds each, for about `seconds` in all.
///
/// The interval between the highest rate without loss and the lowest with loss is halved each time, until they are within
/// 1 %; then the best rate is tried once more for longer. Loss that falls by chance in one trial is not tried again: the
/// result is a lower bound. `most` is what the path is known to carry in the long run.
pub(super) fn search<T>(
    seconds: f64,
    most: Option<f64>,
    trial: impl FnMut(Option<f64>, f64) -> Result<(Trial, T), CannotMeasure>,
) -> Result<Search<T>, CannotMeasure> {
    let mut run = Run { trial, seconds, left: ALL * seconds, tried: Vec::new(), clear: true };
    let (first, verdict) = run.settled(None, FIRST)?;
    let most = most.unwrap_or(f64::INFINITY);
    if verdict == Verdict::Lossless && first.each <= most * (1.0 + NEAR) {
        return Ok(Search {
            best: (first.goodput > 0.0).then_some(0),
            tried: run.tried,
            proved: true,
            unfinished: false,
        });
    }
    let (mut low, mut high) = (0.0, first.ceiling().min(most));
    let mut rate = high * BELOW;
    for _ in 0..TRIALS {
        if high - low <= NEAR * high {
            break;
        }
        match run.settled(Some(rate), EACH)?.1 {
            Verdict::Lossless => low = rate,
            Verdict::TooMuch => high = rate,
            // There is no time left, and a lower rate would tell no more.
            Verdict::Unclear => break,
        }
        rate = (low + high) / 2.0;
    }
    run.prove(&mut low, &mut high)?;
    let proved = run.best(high, |verdict| verdict == Verdict::Lossless);
    // What only lost nothing is a figure as well; that nothing more is known of it is told.
    let best = proved.or_else(|| run.best(high * (1.0 + NEAR), |verdict| verdict == Verdict::Unclear));
    let unfinished = best.is_some() && (!run.clear || proved.is_none());
    Ok(Search { tried: run.tried, best, proved: proved.is_some(), unfinished })
}

struct Run<T, F> {
    trial: F,
    /// What the search may take in all, as the parts of it count, and what is left of the most that it may take.
    seconds: f64,
    left: f64,
    tried: Vec<(Trial, T)>,
    /// Whether every trial could be told.
    clear: bool,
}

impl<T, F: FnMut(Option<f64>, f64) -> Result<(Trial, T), CannotMeasure>> Run<T, F> {
    /// One rate for this part of the time, and for longer and longer while it is unclear what follows.
    fn settled(&mut self, rate: Option<f64>, part: f64) -> Result<(Trial, Verdict), CannotMeasure> {
        let mut seconds = (part * self.seconds).max(SHORTEST);
        loop {
            let done = (self.trial)(rate, seconds)?;
            let (trial, verdict) = (done.0, done.0.verdict());
            self.tried.push(done);
            self.left -= seconds;
            seconds *= 2.0;
            if verdict != Verdict::Unclear {
                return Ok((trial, verdict));
            }
            if seconds > self.left {
                self.clear = false;
                return Ok((trial, verdict));
            }
        }
    }

    /// Tries the best rate once more for longer: what a short trial could not tell shows there. A rate that fails gives way to
    /// a lower one while there is time.
    fn prove(&mut self, low: &mut f64, high: &mut f64) -> Result<(), CannotMeasure> {
        while *low > 0.0 {
            let part = LAST.min(self.left / self.seconds);
            if part < EACH {
                self.clear = false;
                return Ok(());
            }
            if self.settled(Some(*low), part)?.1 != Verdict::TooMuch {
                return Ok(());
            }
            (*high, *low) = (*low, *low * BELOW);
        }
        Ok(())
    }

    /// The last trial of the highest rate below `high` among those with a verdict that is wanted.
    fn best(&self, high: f64, wanted: impl Fn(Verdict) -> bool) -> Option<usize> {
        // What is offered is never quite what was asked for.
        let below = |trial: &Trial| trial.goodput > 0.0 && trial.each < high * (1.0 - NEAR / 10.0);
        let all = self.tried.iter().enumerate().filter(|(_, (t, _))| below(t) && wanted(t.verdict()));
        let same = |one: f64, other: f64| (one / other - 1.0).abs() < NEAR / 10.0;
        all.reduce(|best, next| {
            let (own, other) = (best.1.0.each, next.1.0.each);
            if other > own || same(own, other) { next } else { best }
        })
        .map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests;
