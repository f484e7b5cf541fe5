use super::{ASSUMED_LAST_LEVEL, TIMES_LAST_LEVEL, human};
use plimsoll_model::warning::Warn;
use plimsoll_units::quantity::{Quantity, Unit, format_size};

/// A warning of a memory case. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum MemoryWarning {
    #[error(
        "the size of the last-level caches is unknown ({} is assumed); use a --size well above them",
        format_size(ASSUMED_LAST_LEVEL)
    )]
    CachesUnknown,
    /// The last-level cache may hold some of the touched lines; `size` would avoid it.
    #[error(
        "fits in cache: the lines that a latency case touches ({}) are less than {TIMES_LAST_LEVEL} × the caches of level 2 and the last level ({}), which may answer in part; use a --size of {} for memory alone",
        human(*.touched), human(*.cache), format_size(*.size)
    )]
    LinesInCache { touched: u64, cache: u64, size: u64 },
    /// The last-level cache may hold a part of the arrays; `size` would avoid it.
    #[error(
        "fits in cache: each array of a bandwidth case is less than {TIMES_LAST_LEVEL} × the caches of level 2 and the last level ({}), which answer in part; use a --size of {} for memory alone",
        human(*.cache), format_size(*.size)
    )]
    ArraysInCache { cache: u64, size: u64 },
    #[error("node {node} of CPU {cpu} has no memory: another node's was measured")]
    NodeWithoutMemory { node: usize, cpu: usize },
    /// Number of checked pages that are not on the measured node.
    #[error(
        "{pages} of the pages checked are not on node {node}, so the figure is not that node's; see numactl --hardware"
    )]
    PagesElsewhere { pages: usize, node: usize },
    /// The longest sample ended before all bytes were moved.
    #[error(
        "only {} of {} were moved in {seconds} s, the longest sample; use a smaller --volume or --count, or larger blocks",
        Quantity::new(*.moved, Unit::Byte), Quantity::new(*.wanted, Unit::Byte)
    )]
    VolumeCut { moved: f64, wanted: f64, seconds: u64 },
}

impl Warn for MemoryWarning {
    fn code(&self) -> &'static str {
        match self {
            Self::CachesUnknown => "caches-unknown",
            Self::LinesInCache { .. } | Self::ArraysInCache { .. } => "fits-in-cache",
            Self::NodeWithoutMemory { .. } => "node-without-memory",
            Self::PagesElsewhere { .. } => "pages-elsewhere",
            Self::VolumeCut { .. } => "volume-cut",
        }
    }
}
