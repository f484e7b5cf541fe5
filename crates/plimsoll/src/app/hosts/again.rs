//! Retests outlier nodes, each together with a node with a usual result as control.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_cluster::ssh::pairs::ConnectedMachines;
use plimsoll_model::measurement::Measurement;
use plimsoll_result::document::Run;
use plimsoll_result::finding::{self, OutlierRetest, SuspectFigure};

use super::Together;

/// Time limit for retests: this, and [`MORE`] per node.
const MAX_RETEST_TIME: Duration = Duration::from_secs(30);
const MORE: Duration = Duration::from_millis(500);

/// Repeats results in `run` that differ from other nodes', to rule out chance, and records which of
/// them are confirmed. Returns whether it was interrupted.
pub(super) fn measured(
    run: &mut Run,
    together: &Together<'_, '_>,
    connected: &mut ConnectedMachines<'_>,
) -> bool {
    let numbers = together.names.iter().enumerate().map(|(number, name)| (name.as_str(), number));
    let most = MAX_RETEST_TIME + MORE * u32::try_from(together.names.len()).unwrap_or(u32::MAX);
    let mut machines = RetestMachines { connected, numbers: numbers.collect(), controls: BTreeMap::new() };
    let mut tried = Vec::new();
    let (begun, mut interrupted) = (Instant::now(), false);
    loop {
        let suspects = finding::next_retests(run, &tried);
        let before = tried.len();
        if suspects.is_empty() || interrupted || begun.elapsed() > most {
            break;
        }
        machines.controls.clear();
        (_, interrupted) = together.fleet.run_supervised(|goes_on| {
            let all = suspects.len();
            for (index, suspect) in suspects.into_iter().enumerate() {
                let line =
                    format!("measuring again what differs: {} of {all}, on {}", index + 1, suspect.node);
                if begun.elapsed() > most || !goes_on(Some(line)) {
                    break;
                }
                tried.extend(machines.retest(suspect));
            }
        });
        if tried.len() == before {
            break;
        }
    }
    finding::apply_retests(run, &tried);
    interrupted
}

struct RetestMachines<'a, 'b> {
    connected: &'a mut ConnectedMachines<'b>,
    numbers: BTreeMap<&'a str, usize>,
    controls: BTreeMap<(String, String), Measurement>,
}

impl RetestMachines<'_, '_> {
    /// Repeats the case of `suspect` on its node, then on its control node; `None` if either fails.
    fn retest(&mut self, suspect: SuspectFigure) -> Option<OutlierRetest> {
        let own = self.again(&suspect.node, &suspect.case)?;
        let key = (suspect.control.clone(), suspect.case.clone());
        let control = match self.controls.get(&key) {
            Some(control) => control.clone(),
            None => self.again(&suspect.control, &suspect.case)?,
        };
        self.controls.insert(key, control.clone());
        Some(OutlierRetest { suspect, own, control })
    }

    /// Repeats the case with the id `case` on the node named `node`; `None` if that fails.
    fn again(&mut self, node: &str, case: &str) -> Option<Measurement> {
        let session = self.connected.get_mut(self.numbers.get(node)?)?;
        let run = session.again(vec![case.to_owned()], node).ok()?;
        run.measurements.into_iter().find(|measurement| measurement.case.id().as_str() == case)
    }
}
