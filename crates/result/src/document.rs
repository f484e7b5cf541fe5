//! The run document: a plan executed on one or more nodes, as `--json` and the history store it.

mod bounded;
mod in_page;
mod read;
mod redact;
mod sound;

use std::io::{BufWriter, Write};

use serde::{Deserialize, Serialize};

use plimsoll_machine::{Health, Machine};
use plimsoll_model::measurement::Measurement;
use plimsoll_model::view;
use plimsoll_system::wall::ClockStep;

use bounded::at_most;
pub use in_page::IN_PAGE;

/// Schema name; changes with any name, unit or code of the document.
pub const RUN_SCHEMA: &str = "plimsoll.run/1";

const MOST_NODES: usize = 50_000;

/// Limit of measurements per document: 5000 nodes with 40 cases each.
const MOST_MEASUREMENTS: usize = 200_000;

/// Whether the plan ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Each case ended by itself.
    Complete,
    /// Interrupted; contains the finished cases.
    Partial,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanInfo {
    /// Plan name.
    pub name: String,
    /// Samples per case; `None` if adaptive.
    pub samples: Option<u32>,
    /// Duration of one sample, in seconds.
    pub sample_time: f64,
    /// Requested relative half-width of the confidence interval.
    pub precision: f64,
    /// Time budget of the whole run, in seconds.
    pub budget: Option<f64>,
    /// Number of cases, repetitions included.
    pub cases: usize,
    /// Repetitions of the whole plan.
    pub repeat: u32,
    /// Factor applied to volumes, work and file sizes.
    pub scale: f64,
    /// Hash of the plan file and its cases, 16 hexadecimal digits.
    pub hash: String,
    /// The plan file with flags applied; contains the seed only if the user set one.
    pub text: String,
    /// Notes for the reader, such as how results are counted and what was scaled.
    pub notes: Vec<String>,
}

/// One node of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Node name.
    pub name: String,
    /// Discovered hardware and system; `None` if they equal [`Run::machine`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// Hardware health of a node at the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeHealth {
    /// Node name.
    pub node: String,
    /// Health facts that the node's system shows.
    pub shown: Health,
}

/// A computed conclusion with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable code.
    pub code: String,
    /// The sentence.
    pub text: String,
    /// Numbers behind the conclusion.
    pub evidence: serde_json::Value,
}

/// Part of the evidence of findings that compare: whether a result is for the worse.
#[derive(Deserialize)]
struct FindingDirection {
    worse: bool,
}

/// Part of the evidence of findings on scaling: speed-up ÷ ratio of the numbers of threads.
#[derive(Deserialize)]
struct ScalingEvidence {
    efficiency: f64,
}

const GOOD_SCALING: f64 = 0.9;

impl Finding {
    /// Returns a finding with this code; `text` is its sentence.
    pub fn new(code: &str, text: String, evidence: serde_json::Value) -> Self {
        Self { code: code.to_owned(), text, evidence }
    }

    /// Converts the finding's evidence to `T`; `None` if the evidence has another form.
    pub fn evidence_as<T: for<'de> Deserialize<'de>>(&self) -> Option<T> {
        T::deserialize(&self.evidence).ok()
    }

    /// Returns whether the finding reports scaling with threads at an efficiency of at least 90 %.
    pub fn is_good_scaling(&self) -> bool {
        self.evidence_as::<ScalingEvidence>().is_some_and(|scaling| scaling.efficiency >= GOOD_SCALING)
    }

    /// Returns whether the finding reports a result that is worse than those it is compared with.
    pub fn is_for_the_worse(&self) -> bool {
        self.evidence_as::<FindingDirection>().is_some_and(|comparison| comparison.worse)
    }
}

impl From<view::PlainFinding> for Finding {
    fn from(found: view::PlainFinding) -> Self {
        Self::new(found.code, found.text, found.evidence)
    }
}

/// The run document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Always [`RUN_SCHEMA`].
    pub schema: String,
    /// UUID version 7: unique, ordered by time.
    pub id: String,
    /// Start time, RFC 3339 in UTC.
    pub started: String,
    /// Duration, in seconds.
    pub elapsed_s: f64,
    /// Steps of the wall clock during the run. They affect times of day, not durations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_steps: Vec<ClockStep>,
    /// Hardware health of each node whose system shows any.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_most::<_, _, MOST_NODES>"
    )]
    pub health: Vec<NodeHealth>,
    /// Version of plimsoll.
    pub version: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether the plan ran to its end.
    pub status: RunStatus,
    /// The plan.
    pub plan: PlanInfo,
    /// The machine that started the run.
    pub machine: Machine,
    /// All nodes; more than one only in a fleet.
    #[serde(deserialize_with = "at_most::<_, _, MOST_NODES>")]
    pub nodes: Vec<Node>,
    /// Conclusions from the results.
    pub findings: Vec<Finding>,
    /// One measurement per case, node and repetition.
    #[serde(deserialize_with = "at_most::<_, _, MOST_MEASUREMENTS>")]
    pub measurements: Vec<Measurement>,
}

impl Run {
    /// Returns the machine of `node`: `node.machine` if present, else the machine of the run.
    pub fn machine_of<'a>(&'a self, node: &'a Node) -> &'a Machine {
        node.machine.as_ref().unwrap_or(&self.machine)
    }

    /// Returns the nodes for a document with the machine `own`; `machine` is `None` if equal to it.
    pub fn other_nodes(&self, own: &Machine) -> Vec<Node> {
        let other_node = |node: &Node| {
            let machine = self.machine_of(node);
            Node { name: node.name.clone(), machine: (machine != own).then(|| machine.clone()) }
        };
        self.nodes.iter().map(other_node).collect()
    }

    /// Adds `node` with its health and clock steps, or replaces those of the node with its name.
    pub fn put_node(&mut self, node: Node, health: Vec<NodeHealth>, clock_steps: Vec<ClockStep>) {
        self.health.retain(|one| one.node != node.name);
        self.health.extend(health);
        self.clock_steps.retain(|one| one.node != node.name);
        self.clock_steps.extend(clock_steps);
        match self.nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) => *known = node,
            None => self.nodes.push(node),
        }
    }

    /// Writes the document to `to` as JSON without line breaks: indentation would double the size.
    /// The only such writer of runs, as each type of writer costs a second of compilation.
    pub fn write_json(&self, to: &mut dyn Write) -> serde_json::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, to);
        serde_json::to_writer(&mut out, self)?;
        out.flush().map_err(serde_json::Error::io)
    }

    /// Returns the document as JSON without line breaks.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut text = Vec::new();
        self.write_json(&mut text)?;
        String::from_utf8(text).map_err(serde::ser::Error::custom)
    }

    /// Returns a copy without the measurements, which may be large.
    pub fn header(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            id: self.id.clone(),
            started: self.started.clone(),
            elapsed_s: self.elapsed_s,
            clock_steps: self.clock_steps.clone(),
            health: self.health.clone(),
            version: self.version.clone(),
            seed: self.seed,
            status: self.status,
            plan: self.plan.clone(),
            machine: self.machine.clone(),
            nodes: self.nodes.clone(),
            findings: self.findings.clone(),
            measurements: Vec::new(),
        }
    }
}
