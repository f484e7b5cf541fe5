//! What a figure above its limit says of the limit, where it does not refute itself.

use std::fmt;

use super::{MetricResult, TOLERANCE};
use crate::warning::Warn;

/// What a figure above its limit says of the limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Doubt {
    /// It is refuted.
    Refuted {
        /// Why, in a sentence.
        why: String,
    },
    /// The figure cannot refute it: the clock was not precise enough, or a quota, which counts by periods, had time left over
    /// from before a sample.
    Uncertain {
        /// The metric.
        metric: String,
        /// Share of its limit.
        share: f64,
        /// Whether the limit is a quota.
        is_quota: bool,
    },
}

impl Doubt {
    pub(super) fn of(metric: &MetricResult) -> Option<Self> {
        let share = metric.of_limit.filter(|share| *share > TOLERANCE)?;
        let limit = metric.limit.as_ref().filter(|limit| limit.fact.is_some())?;
        Some(Self::Uncertain { metric: metric.name.clone(), share, is_quota: limit.burst.is_some() })
    }
}

impl Warn for Doubt {
    fn code(&self) -> &'static str {
        match self {
            Self::Refuted { .. } => "limit-refuted",
            Self::Uncertain { .. } => "limit-uncertain",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (metric, share, is_quota) = match self {
            Self::Refuted { why } => return f.write_str(why),
            Self::Uncertain { metric, share, is_quota } => (metric, share, is_quota),
        };
        let why = match is_quota {
            true => {
                "a CPU quota holds for the mean over its periods, and a sample of few periods can have more; take longer \
                 samples (--sample-time)"
            }
            false => {
                "another thread or guest used the same core while the clock was probed, so clock and limit read low; measure on \
                 an idle core"
            }
        };
        write!(f, "{metric} is {:.1} % of its limit: {why}", share * 100.0)
    }
}
