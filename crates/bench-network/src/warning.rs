//! Warnings about network cases.

use crate::lost_link::LostLink;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::warning::Warn;
use plimsoll_stats::Bucket;
use plimsoll_units::quantity::significant;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum NetworkWarning {
    #[error("client and server run on CPU {cpu}, in turn; allow this process a second CPU")]
    EndsShareCpu { cpu: usize },
    #[error(
        "excluded {} that other senders sent to the ports of the measurement",
        plimsoll_units::text::format_count(*.count, "datagram")
    )]
    ForeignDatagrams { count: u64 },
    #[error(
        "only {moved} of {wanted} messages were moved in {seconds} s, the longest sample; use a smaller --volume or --count"
    )]
    VolumeCut { moved: u64, wanted: u64, seconds: u64 },
    /// Number of searches, of `all`, that ended before the lossless rate was known to 1 %.
    #[error(
        "not converged: the time of {searches} of {all} searches ended before the lossless rate was known to 1 %, so the figure is a lower bound; use a longer --sample-time"
    )]
    SearchNotConverged { searches: usize, all: usize },
    /// A token bucket (`up` or `down`), in bits and seconds.
    #[error(
        "token bucket on the path ({direction}): burst of {} for {} s ({} above the base rate), then {}; the figure is the base rate",
        bits(.bucket.burst), significant(.bucket.until, 2), Quantity::new(.bucket.tokens / 8.0, Unit::Byte),
        bits(.bucket.base)
    )]
    TokenBucket { direction: &'static str, bucket: Bucket },
    /// The burst of a token bucket lasts through this number of samples.
    #[error(
        "the token bucket's burst lasts through {samples} of the samples: they show more than the base rate; use a longer --sample-time"
    )]
    BurstInSample { samples: usize },
    #[error("{}; {}", .0, .0.remedy())]
    LinkFlapped(LostLink),
    /// A rate limit below the link, which the result shows or has refuted.
    #[error("{}{}", .holder.text(bits(*.rate)), .holder.effect(*.refuted_by))]
    Held { holder: Holder, rate: f64, refuted_by: Option<f64> },
}

/// Origin of a rate limit: an interface of this machine, or (`None`) of the server; or the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Holder {
    Shaper(Option<String>),
    Policer(Option<String>),
    ServerCap,
}

impl Warn for NetworkWarning {
    fn code(&self) -> &'static str {
        match self {
            Self::EndsShareCpu { .. } => "ends-share-cpu",
            Self::ForeignDatagrams { .. } => "foreign-datagrams",
            Self::VolumeCut { .. } => "volume-cut",
            Self::SearchNotConverged { .. } => "search-not-converged",
            Self::TokenBucket { .. } => "token-bucket",
            Self::BurstInSample { .. } => "burst-in-sample",
            Self::LinkFlapped(_) => "link-flapped",
            Self::Held { holder, refuted_by, .. } => match (holder, refuted_by) {
                (Holder::Shaper(_), None) => "shaped",
                (Holder::Shaper(_), Some(_)) => "shaped-refuted",
                (Holder::Policer(_), None) => "policed",
                (Holder::Policer(_), Some(_)) => "policed-refuted",
                (Holder::ServerCap, None) => "server-cap",
                (Holder::ServerCap, Some(_)) => "server-cap-refuted",
            },
        }
    }
}

impl Holder {
    fn text(&self, rate: Quantity) -> String {
        let (whose, interface) = match self {
            Self::Shaper(Some(own)) | Self::Policer(Some(own)) => ("this machine's kernel", own.as_str()),
            _ => ("the server's kernel", "its interface"),
        };
        match self {
            Self::Shaper(_) => format!("{whose} shapes what leaves {interface} to {rate}"),
            Self::Policer(_) => format!("a policer of {whose} on {interface} drops traffic above {rate}"),
            Self::ServerCap => format!("the server allows {rate} in each direction"),
        }
    }

    fn effect(&self, refuted_by: Option<f64>) -> String {
        match refuted_by {
            Some(came) => format!(", but {} arrived: it is no limit of this figure", bits(came)),
            None => format!(": the figure shows this limit, not the link; {}", self.remedy()),
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::Shaper(_) => "see `tc qdisc` and `tc class` there",
            Self::Policer(_) => "see `tc filter` there",
            Self::ServerCap => "start it with a higher --max-rate",
        }
    }
}

fn bits(rate: f64) -> Quantity {
    Quantity { value: rate, unit: Unit::BitPerSecond }
}
