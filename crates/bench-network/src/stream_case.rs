//! State and sampling that prepared cases of streams and of datagrams share.

use std::time::Instant;

use crate::amount::{FixedTransfer, check_server_limits};
use crate::held::RateBounds;
use crate::job::NetworkJob;
use crate::path::Path;
use crate::session::ServerSession;
use crate::setup::NetworkSetup;
use crate::sustained::BucketDetector;
use crate::{EndPlacement, GOODPUT, MESSAGES_METRIC, lost_link};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::warning::Note;
use plimsoll_server::wire::{ArrivalTimeline, EndReport};

const MAX_BURST_REPEATS: usize = 2;

/// Session of a case, its path, and the rate limits of the path.
#[derive(Debug)]
pub(super) struct StreamCase {
    pub(super) session: ServerSession,
    pub(super) placement: EndPlacement,
    pub(super) path: Path,
    pub(super) fixed: Option<FixedTransfer>,
    pub(super) held: RateBounds,
    pub(super) watch: BucketDetector,
}

/// Sample of one transfer, bit/s per direction, and whether a burst lasts for too much of it.
pub(super) type JudgedSample = (Sample, Vec<f64>, bool);

impl StreamCase {
    pub(super) fn open(setup: &NetworkSetup, job: &NetworkJob) -> Result<Self, CannotMeasure> {
        let session = ServerSession::open(&setup.place, job.from)?;
        check_server_limits(&session.welcome, job.work.streams, job.work.message)?;
        let path = Path::to(session.address, setup.machine.as_ref()).with_copy_rate();
        let held = RateBounds::of(job, &path.name(), path.shaping, Some(&session.welcome));
        let watch = BucketDetector::new(job.work.direction, !path.loopback || held.is_shaped());
        let fixed = job.messages.map(FixedTransfer::new);
        Ok(StreamCase { session, placement: setup.placement.clone(), path, fixed, held, watch })
    }

    /// Judges a transfer that started at `began` by `ways`, arrivals and overall rate (bit/s) of
    /// each direction. Sets the rate after a burst in `sample`; each message has `bits` bits.
    pub(super) fn judge(
        &mut self,
        mut sample: Sample,
        began: Instant,
        ways: &[(&ArrivalTimeline, f64)],
        bits: f64,
    ) -> JudgedSample {
        self.watch.note(began, &ways.iter().map(|(timeline, _)| *timeline).collect::<Vec<_>>());
        let whole = || ways.iter().map(|(_, whole)| *whole).collect();
        let judged = self.watch.sustained(ways);
        if let Some(rates) = &judged {
            let goodput = rates.iter().sum::<f64>();
            // The overall rate, which other tools show, becomes `delivered`.
            sample.conditions.delivered = sample.values.insert(GOODPUT.to_owned(), goodput);
            sample.values.insert(MESSAGES_METRIC.to_owned(), goodput / bits);
        }
        let is_spoilt = judged.is_none() && self.watch.is_found();
        (sample, judged.unwrap_or_else(whole), is_spoilt)
    }

    /// Records `came`, the rates per direction in bit/s, and adds what limits them to `sample`.
    pub(super) fn record(&mut self, sample: &mut Sample, came: &[f64]) {
        self.held.add_rates(came);
        sample.conditions.more.add(self.held.conditions());
        sample.conditions.more.add(self.watch.condition());
    }

    /// Returns the facts of the case, with warnings of `foreign` datagrams and of the `search`.
    pub(super) fn facts(&self, foreign: Option<Note>, search: Option<Note>) -> Facts {
        let mut facts = self.placement.facts(&self.path.name(), self.session.address);
        facts.warnings.extend(foreign);
        if let Some(fixed) = &self.fixed {
            fixed.note(&mut facts);
        }
        facts.warnings.extend(self.held.warnings().into_iter().map(Note::from).chain(search));
        self.watch.record_facts(&mut facts);
        lost_link::add_warnings(self.session.lost_links(), &mut facts);
        facts
    }
}

/// A prepared case whose samples are transfers.
pub(super) trait StreamTransfers {
    fn case(&mut self) -> &mut StreamCase;

    fn transfer(&mut self, amount: SampleAmount) -> Result<JudgedSample, CannotMeasure>;

    /// If the transfers so far show a new token bucket, runs further ones to prove it. Returns
    /// whether that succeeds: then the caller discards the rates so far, and samples again.
    fn detect_bucket(&mut self) -> bool;

    /// Takes a sample; repeats it after a new token bucket was found, and while a burst covers it.
    fn settled(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let (mut sample, mut came, mut spoilt) = self.transfer(amount)?;
        let found = self.detect_bucket();
        if found {
            self.case().held.forget();
        }
        for _ in 0..MAX_BURST_REPEATS {
            if found && !sample.renewed || spoilt {
                (sample, came, spoilt) = self.transfer(amount)?;
                sample.renewed = found;
            }
        }
        self.case().watch.judged(spoilt);
        self.case().record(&mut sample, &came);
        Ok(sample)
    }
}

/// Returns the results of the sender and of the receiver in each direction, upload first.
pub(super) fn directions<'a, S, R>(
    here: &'a EndReport<S, R>,
    there: &'a EndReport<S, R>,
) -> impl Iterator<Item = (&'a S, &'a R)> {
    let direction = |from: &'a EndReport<S, R>, to: &'a EndReport<S, R>| {
        Some((from.sent.as_ref()?, to.received.as_ref()?))
    };
    [direction(here, there), direction(there, here)].into_iter().flatten()
}
