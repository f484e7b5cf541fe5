//! Machines that stand out measure those cases again, one at a time, each with a machine whose figure is usual.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Together;
use crate::cluster::ssh::pairs::Connected;
use crate::document::Run;
use crate::finding::{self, Suspect, Tried};
use crate::measurement::Measurement;

/// After this time what is left is not measured again.
const MOST: Duration = Duration::from_secs(30);

/// Measures again what stands out, and writes into the run's findings what came of it. Whether it was interrupted.
pub(super) fn measured(run: &mut Run, together: &Together<'_, '_>, connected: &mut Connected<'_>) -> bool {
    let suspects = finding::suspects(run);
    if suspects.is_empty() {
        return false;
    }
    let numbers = together.roster.members.iter().map(|member| (member.name.as_str(), member.rank));
    let mut machines = Machines { connected, numbers: numbers.collect(), controls: BTreeMap::new() };
    let (tried, interrupted) = together.fleet.heeded(|goes_on| {
        let (begun, all) = (Instant::now(), suspects.len());
        let mut tried = Vec::new();
        for (index, suspect) in suspects.into_iter().enumerate() {
            let line = format!("measuring again what differs: {} of {all}, on {}", index + 1, suspect.node);
            if begun.elapsed() > MOST || !goes_on(Some(line)) {
                break;
            }
            tried.extend(machines.tried(suspect));
        }
        tried
    });
    finding::judged(run, &tried);
    interrupted
}

/// Those that can be asked.
struct Machines<'a, 'b> {
    connected: &'a mut Connected<'b>,
    numbers: BTreeMap<&'a str, usize>,
    /// What usual machines have measured again, by machine and case.
    controls: BTreeMap<(String, String), Measurement>,
}

impl Machines<'_, '_> {
    /// Both of them, one after the other; none where one cannot.
    fn tried(&mut self, suspect: Suspect) -> Option<Tried> {
        let own = self.again(&suspect.node, &suspect.case)?;
        let key = (suspect.control.clone(), suspect.case.clone());
        let control = match self.controls.get(&key) {
            Some(control) => control.clone(),
            None => self.again(&suspect.control, &suspect.case)?,
        };
        self.controls.insert(key, control.clone());
        Some(Tried { suspect, own, control })
    }

    /// A machine that is lost meanwhile is told of when all have ended.
    fn again(&mut self, node: &str, case: &str) -> Option<Measurement> {
        let session = self.connected.get_mut(self.numbers.get(node)?)?;
        let run = session.again(vec![case.to_owned()], node).ok()?;
        run.measurements.into_iter().find(|measurement| measurement.case.id().as_str() == case)
    }
}
