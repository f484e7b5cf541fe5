//! Stores each node's result when the node ends: a killed launcher loses none of them.

use std::time::Instant;

use plimsoll_result::document::{Run, RunStatus};
use plimsoll_system::wall;

use crate::output::Outputs;

pub(super) struct JointRun<'a> {
    outputs: &'a mut Outputs,
    header: Option<Run>,
    resumed: bool,
    id: String,
    started: String,
    began: Instant,
    before_s: f64,
}

impl<'a> JointRun<'a> {
    /// Creates the joint run of all nodes with the id `id`, or continues `earlier` (same id).
    pub(super) fn new(outputs: &'a mut Outputs, id: String, earlier: Option<&Run>) -> Self {
        Self {
            outputs,
            header: earlier.map(Run::header),
            resumed: earlier.is_some(),
            id,
            started: earlier.map_or_else(|| wall::now().to_string(), |run| run.started.clone()),
            began: Instant::now(),
            before_s: earlier.map_or(0.0, |run| run.elapsed_s),
        }
    }

    pub(super) fn ended(&mut self, part: &Run) {
        let elapsed_s = self.elapsed_s();
        let header = self.header.get_or_insert_with(|| Run {
            id: self.id.clone(),
            started: self.started.clone(),
            status: RunStatus::Partial,
            nodes: Vec::new(),
            clock_steps: Vec::new(),
            health: Vec::new(),
            findings: Vec::new(),
            ..part.header()
        });
        header.elapsed_s = elapsed_s;
        for node in part.other_nodes(&header.machine) {
            header.put_node(node.clone(), part.health.clone(), part.clock_steps.clone());
            self.outputs.machine_ended(header, self.resumed, node, part);
        }
    }

    /// Gives `run`, the joint run, its id, start and duration, and starts the outputs with it.
    pub(super) fn complete(self, run: &mut Run) -> &'a mut Outputs {
        run.elapsed_s = self.elapsed_s();
        (run.id, run.started) = (self.id, self.started);
        self.outputs.begin(&run.header(), self.resumed);
        self.outputs
    }

    fn elapsed_s(&self) -> f64 {
        self.before_s + self.began.elapsed().as_secs_f64()
    }
}
