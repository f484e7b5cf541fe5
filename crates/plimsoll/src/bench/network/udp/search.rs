//! The search for the highest rate without loss: pure, over whatever a trial of a rate tells.

use crate::sample::{CannotMeasure, Point};

/// Trials after the first.
const TRIALS: usize = 8;
/// The first trial goes as fast as it can; the search begins below what arrived of it.
const BELOW: f64 = 0.98;

/// What a trial told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    /// Bits per second that were offered.
    pub(super) offered: f64,
    /// Bits per second that arrived.
    pub(super) goodput: f64,
    /// Share that was lost.
    pub(super) loss: f64,
}

impl Trial {
    /// As a point of the curve.
    pub(super) fn point(&self) -> Point {
        let named = [("offered", self.offered), ("goodput", self.goodput), ("loss", self.loss)];
        named.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// Tries rates (`None`: as fast as it goes) and returns all trials, in order. The best is [`best`] of them.
///
/// The interval between the highest rate without loss and the lowest with loss is halved each time, so that after all
/// trials it is within 1 % of the highest rate that arrived. Loss that falls by chance in one trial is not tried again:
/// the result is a lower bound.
pub(super) fn search<T>(
    mut trial: impl FnMut(Option<f64>) -> Result<(Trial, T), CannotMeasure>,
) -> Result<Vec<(Trial, T)>, CannotMeasure> {
    let first = trial(None)?;
    let mut tried = vec![first];
    let Some((first, _)) = tried.first() else { return Ok(tried) };
    if first.loss == 0.0 {
        return Ok(tried);
    }
    let (mut low, mut high) = (0.0, first.goodput.max(1.0));
    let mut rate = high * BELOW;
    for _ in 0..TRIALS {
        let done = trial(Some(rate))?;
        if done.0.loss == 0.0 {
            low = rate
        } else {
            high = rate
        }
        tried.push(done);
        rate = (low + high) / 2.0;
    }
    Ok(tried)
}

/// The trial with the highest goodput among those that lost nothing.
pub(super) fn best<T>(tried: &[(Trial, T)]) -> Option<&(Trial, T)> {
    let lossless = tried.iter().filter(|(trial, _)| trial.loss == 0.0 && trial.goodput > 0.0);
    lossless.max_by(|a, b| a.0.goodput.total_cmp(&b.0.goodput))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A link that carries up to `capacity` and loses the rest, fed by a sender that manages `fastest`.
    fn link(capacity: f64, fastest: f64) -> impl Fn(Option<f64>) -> Result<(Trial, ()), CannotMeasure> {
        move |rate| {
            let offered = rate.unwrap_or(f64::INFINITY).min(fastest);
            let goodput = offered.min(capacity);
            Ok((Trial { offered, goodput, loss: 1.0 - goodput / offered }, ()))
        }
    }

    proptest! {
        #[test]
        fn the_capacity_is_found_within_a_hundredth_and_never_exceeded(capacity in 1e4f64..1e11, factor in 0.1f64..30.0) {
            let fastest = capacity * factor;
            let tried = search(link(capacity, fastest)).unwrap();
            let found = best(&tried).unwrap().0.goodput;
            let expected = capacity.min(fastest);
            prop_assert!(found <= expected && found >= expected * 0.985, "{found} of {expected}");
            prop_assert!(tried.len() <= TRIALS + 1);
        }
    }

    #[test]
    fn where_everything_loses_there_is_no_such_rate() {
        let tried = search(|rate| Ok((Trial { offered: rate.unwrap_or(1e9), goodput: 1e6, loss: 0.1 }, ())));
        assert_eq!(best(&tried.unwrap()), None);
        assert!(search(|_| Err::<(Trial, ()), _>(CannotMeasure::far_end("gone"))).is_err());
    }
}
