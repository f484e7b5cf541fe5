//! A site of all runs of a history: files of one directory, which any web server shows, or a browser from the disk.
//!
//! `directory` is the directory and what is known of it; [`Summary`] is what the site says of a run besides its own page, so that
//! a run that has not changed is not read again. The pages are made by `html::site`.

mod directory;
pub mod names;
#[cfg(test)]
mod tests;

pub use directory::{Directory, MARKER, SiteError};

use serde::{Deserialize, Serialize};

use super::card;
use super::context::{of_whom, title};
use super::html::parts::{self, Told};
use super::row::Row;
use crate::document::Run;
use crate::stats::{Seed, Segment, Timed, median, segments_of_many};
use crate::store::{Entry, Trend};

/// The share of all figures of a machine that are said to change which may be noise.
pub(super) const FALSE_SHARE: f64 = 0.05;

/// What a site says of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Digest of what the history had of the run when its page was made.
    pub digest: String,
    /// Bytes of its page.
    pub bytes: u64,
    /// Name of its plan.
    pub plan: String,
    /// Name of its machine, or how many machines; none where the one machine has no name.
    pub host: Option<String>,
    /// The machine in a line.
    pub machine: String,
    /// How many figures come near their limits.
    pub limits: Told,
    /// Whether the machine was quiet.
    pub quiet: Told,
    /// Its headline figures.
    pub headlines: Vec<Headline>,
}

/// A figure on the index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headline {
    /// Heading of its subsystem.
    pub part: String,
    /// The case in words.
    pub label: String,
    /// The figure.
    pub value: String,
    /// Its interval.
    pub interval: String,
    /// Its share of the limit in words; empty where there is none.
    pub share: String,
    /// Its share of the limit.
    pub of_limit: Option<f64>,
    /// How it stands to the limit: `good`, `fair`, `poor` or `unknown`.
    pub grade: String,
}

impl Summary {
    /// Of a run as it may leave the machine, whose page has so many bytes.
    pub fn of(run: &Run, digest: String, bytes: u64) -> Self {
        let figures = card::telling(run).into_iter().filter_map(|(subsystem, measurement)| {
            let row = Row::of(measurement);
            let figures = row.figures?;
            Some(Headline {
                part: title(subsystem).to_owned(),
                label: row.label,
                share: figures.share(),
                of_limit: figures.of_limit.filter(|share| share.is_finite()),
                grade: figures.grade.class().to_owned(),
                value: figures.both(),
                interval: figures.interval,
            })
        });
        Self {
            digest,
            bytes,
            plan: run.plan.name.clone(),
            host: of_whom(run),
            machine: parts::machine_line(&run.machine),
            limits: parts::limits(run),
            quiet: parts::quiet(run),
            headlines: figures.collect(),
        }
    }
}

/// A stored run on a site.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// What the history says of it.
    pub entry: &'a Entry,
    /// What the site says of it.
    pub summary: &'a Summary,
}

/// A machine on a site.
#[derive(Debug)]
pub struct OfMachine<'a> {
    /// File name of its page, without directory.
    pub page: String,
    /// Its fingerprint.
    pub fingerprint: &'a str,
    /// Its runs, the oldest first; at least one.
    pub runs: Vec<Listed<'a>>,
    /// Its figures over time.
    pub series: Vec<Series>,
    /// Whether what the user said of runs is left out.
    pub redacted: bool,
}

impl OfMachine<'_> {
    /// The run that was entered last.
    pub fn newest(&self) -> Option<&Listed<'_>> {
        self.runs.last()
    }

    /// Its name, or what stands for one.
    pub fn name(&self) -> String {
        let named = self.newest().and_then(|run| run.summary.host.as_deref());
        crate::text::shown_within(named.unwrap_or("machine without a name"), 80)
    }
}

/// A metric of a case over time, a figure a run, with its levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The figures.
    pub trend: Trend,
    /// Its levels, in the places of its points.
    pub levels: Vec<Segment>,
    /// Whether it is the first metric of its case.
    pub headline: bool,
}

/// The figures of one machine with their levels. Of a run that measured a case several times the median counts.
pub fn series(trends: Vec<Trend>) -> Vec<Series> {
    let trends: Vec<Trend> = trends.into_iter().map(of_runs).collect();
    let timed: Vec<Vec<Timed>> = trends.iter().map(timed).collect();
    let asked: Vec<(&[Timed], Seed)> = trends
        .iter()
        .zip(&timed)
        .map(|(trend, timed)| (timed.as_slice(), Seed::new(1, &trend.case, &trend.metric)))
        .collect();
    let levels = segments_of_many(&asked, FALSE_SHARE, &[]);
    let mut before = String::new();
    let one = |(trend, levels): (Trend, Vec<Segment>)| {
        let headline = trend.case != before;
        before.clone_from(&trend.case);
        Series { trend, levels, headline }
    };
    trends.into_iter().zip(levels).map(one).collect()
}

/// By the order of runs: clocks can be set back, the order cannot.
fn timed(trend: &Trend) -> Vec<Timed> {
    trend.points.iter().enumerate().map(|(n, point)| Timed { t: n as f64, value: point.median }).collect()
}

/// The same with one figure for each run.
fn of_runs(mut trend: Trend) -> Trend {
    let same = |a: &crate::store::Point, b: &crate::store::Point| a.run.id == b.run.id;
    let points = trend.points.chunk_by(same).filter_map(|all| {
        let mut point = all.first()?.clone();
        point.median = median(all.iter().map(|one| one.median).collect())?;
        point.of_limit = median(all.iter().filter_map(|one| one.of_limit).collect());
        Some(point)
    });
    trend.points = points.collect();
    trend
}
