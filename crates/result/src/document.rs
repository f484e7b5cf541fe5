//! The run document: a plan executed on a machine, as `--json` prints it and the history keeps it.

mod bounded;
mod double;
mod in_page;
mod read;
mod redact;
mod sound;

use std::io::{self, BufWriter, Write};

use serde::{Deserialize, Serialize};

use plimsoll_machine::{Health, Machine};
use plimsoll_model::measurement::Measurement;
use plimsoll_model::view;
use plimsoll_system::wall::Step;

use bounded::at_most;
pub use in_page::IN_PAGE;

/// The schema's name; it changes when a name, unit or code does.
pub const RUN_SCHEMA: &str = "plimsoll.run/1";

/// Most machines of a document.
const MOST_NODES: usize = 50_000;

/// Most measurements of a document: those of five thousand machines with forty cases.
const MOST_MEASUREMENTS: usize = 200_000;

/// Whether all of the plan was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Every case ended by itself.
    Complete,
    /// Interrupted; what was finished is here.
    Partial,
}

impl RunStatus {
    /// The word of the run document and the history.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
        }
    }

    /// That word read; what is none is partial.
    pub fn of(word: &str) -> Self {
        if word == Self::Complete.word() { Self::Complete } else { Self::Partial }
    }
}

/// The plan, as far as the document tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanInfo {
    /// Its name.
    pub name: String,
    /// Samples asked for; null when adaptive.
    pub samples: Option<u32>,
    /// Seconds of one sample.
    pub sample_time: f64,
    /// Half-width asked for.
    pub precision: f64,
    /// Seconds for the whole run.
    pub budget: Option<f64>,
    /// Number of cases, repeats included.
    pub cases: usize,
    /// How often all of it was measured.
    pub repeat: u32,
    /// What volumes, work and file sizes were multiplied with.
    pub scale: f64,
    /// 16 hexadecimal digits of the plan file and the cases that came of it.
    pub hash: String,
    /// The plan file: flags are in it, the seed only where it was named.
    pub text: String,
    /// What the reader must know: how figures are counted, what was scaled.
    pub notes: Vec<String>,
}

/// One machine of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What was discovered there; `None` for the run's own machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// What a machine's system showed of its hardware's health when the run ended there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeHealth {
    /// Name of the machine.
    pub node: String,
    /// What was shown.
    pub shown: Health,
}

/// A sentence that plimsoll computed, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable code.
    pub code: String,
    /// The sentence.
    pub text: String,
    /// The figures it rests on.
    pub evidence: serde_json::Value,
}

impl From<view::Finding> for Finding {
    fn from(found: view::Finding) -> Self {
        Self { code: found.code.to_owned(), text: found.text, evidence: found.evidence }
    }
}

/// The whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// Unique, ordered by time (UUID version 7).
    pub id: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// Seconds from begin to end.
    pub elapsed_s: f64,
    /// When the wall clock was set in the course of the run: `started` and times of day are to be read with that, no duration is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_steps: Vec<Step>,
    /// The hardware's health on each machine whose system shows anything of it.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "at_most::<_, _, MOST_NODES>"
    )]
    pub health: Vec<NodeHealth>,
    /// Version of plimsoll.
    pub version: String,
    /// Seed of all that was random.
    pub seed: u64,
    /// Complete or partial.
    pub status: RunStatus,
    /// The plan.
    pub plan: PlanInfo,
    /// This machine.
    pub machine: Machine,
    /// All machines of the run; one, unless in a cluster.
    #[serde(deserialize_with = "at_most::<_, _, MOST_NODES>")]
    pub nodes: Vec<Node>,
    /// What the figures say.
    pub findings: Vec<Finding>,
    /// One a case.
    #[serde(deserialize_with = "at_most::<_, _, MOST_MEASUREMENTS>")]
    pub measurements: Vec<Measurement>,
}

impl Run {
    /// The machine of a node.
    pub fn machine_of<'a>(&'a self, node: &'a Node) -> &'a Machine {
        node.machine.as_ref().unwrap_or(&self.machine)
    }

    /// Its nodes, as they stand in a run whose own machine is this one.
    pub fn nodes_beside(&self, own: &Machine) -> Vec<Node> {
        let beside = |node: &Node| {
            let machine = self.machine_of(node);
            Node { name: node.name.clone(), machine: (machine != own).then(|| machine.clone()) }
        };
        self.nodes.iter().map(beside).collect()
    }

    /// Writes it as JSON on one line: of many machines the indentation alone would be more than half of it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_on_one_line(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, to);
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// All but the measurements, which may be those of thousands of machines.
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
