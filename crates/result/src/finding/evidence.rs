//! Evidence of findings that later steps read again: retests, the page, and tools over runs.

use serde::{Deserialize, Serialize};

/// Evidence of an outlier: one node's result of a case against the median of all nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OutlierEvidence {
    /// Node.
    pub node: String,
    /// Case id.
    pub case: String,
    /// Metric.
    pub metric: String,
    /// Result of the node, in the metric's unit.
    pub value: f64,
    /// Whether results with interruptions were compared.
    pub delivered: bool,
    /// Median of all nodes.
    pub median: f64,
    /// Number of results that were tested for outliers.
    pub looked_at: usize,
    /// Result ÷ median − 1.
    pub away: f64,
    /// Distance below the median at which a result is an outlier, as a share.
    pub below: f64,
    /// Distance above the median at which a result is an outlier, as a share.
    pub above: f64,
    /// Likely cause.
    pub cause: Option<String>,
    /// Whether the result is worse than the median.
    pub worse: bool,
    /// Retest nearest to a usual result, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<RetestEvidence>,
}

/// A retest of an outlier beside a control node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RetestEvidence {
    /// Result of the outlier's node.
    pub value: f64,
    /// Control node.
    pub control: String,
    /// Result of the control node.
    pub control_value: f64,
    /// Result ÷ result of the control node − 1.
    pub away: f64,
    /// Number of retests.
    pub times: usize,
}

/// Evidence of a pair of nodes that is slower than the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlowPairEvidence {
    /// Node of the client.
    pub from: String,
    /// Node of the server.
    pub to: String,
    /// Whether the client sends or receives.
    pub orientation: String,
    /// Case id.
    pub case: String,
    /// Metric.
    pub metric: String,
    /// Result of the pair, in the metric's unit.
    pub value: f64,
    /// Median of all pairs.
    pub median: f64,
    /// Result at which a pair is slow.
    pub threshold: f64,
    /// Result ÷ median − 1.
    pub away: f64,
    /// Likely cause.
    pub cause: Option<String>,
    /// Whether the result is worse than the median: always.
    pub worse: bool,
}

/// Evidence of a node that is slow with most others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlowNodeEvidence {
    /// Node.
    pub node: String,
    /// Slow direction, such as "sending".
    pub direction: String,
    /// Nodes at the other end of its slow pairs.
    pub others: Vec<String>,
    /// Its slow pairs: node of the client, node of the server.
    pub pairs: Vec<[String; 2]>,
    /// Case id.
    pub case: String,
    /// Metric.
    pub metric: String,
    /// Median result of its slow pairs, in the metric's unit.
    pub value: f64,
    /// Median of all pairs.
    pub median: f64,
    /// Result ÷ median − 1.
    pub away: f64,
    /// Likely cause.
    pub cause: Option<String>,
    /// Whether the result is worse than the median: always.
    pub worse: bool,
}

#[derive(Deserialize)]
pub(crate) struct CasesOfFinding {
    pub(crate) cases: Option<serde_json::Value>,
    pub(crate) case: Option<serde_json::Value>,
}
