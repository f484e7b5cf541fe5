//! Hardware faults of each node, and health data that this user may not read.

use std::collections::BTreeSet;

use plimsoll_machine::health::HardwareFault;
use plimsoll_units::text::shown;

use crate::document::{Finding, NodeHealth};

const MAX_LISTED_FAULTS: usize = 4;

/// Returns the hardware faults of each node, then one finding with all unreadable sources.
pub fn health(machines: &[NodeHealth]) -> Vec<Finding> {
    machines.iter().flat_map(|one| of_machine(one, machines.len() > 1)).chain(missing(machines)).collect()
}

fn of_machine(one: &NodeHealth, is_one_of_many: bool) -> Vec<Finding> {
    let who = if is_one_of_many { format!("{}: ", shown(&one.node)) } else { String::new() };
    let faults = one.shown.faults();
    let of_code = |code: &&str| {
        let of_it: Vec<&HardwareFault> = faults.iter().filter(|fault| fault.code() == *code).collect();
        let first = of_it.first()?;
        let stated: Vec<String> = of_it.iter().take(MAX_LISTED_FAULTS).map(ToString::to_string).collect();
        let more = of_it.len().saturating_sub(MAX_LISTED_FAULTS);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let text = format!("{who}{}{more}. {}", stated.join("; "), first.meaning());
        Some(Finding::new(code, text, serde_json::json!({ "node": one.node, "faults": of_it })))
    };
    HardwareFault::FAULT_CODES.iter().filter_map(of_code).collect()
}

/// Returns one finding with the sources of all nodes that only root can read; `None` without any.
fn missing(machines: &[NodeHealth]) -> Option<Finding> {
    let lacks: BTreeSet<&str> =
        machines.iter().flat_map(|one| &one.shown.missing).map(String::as_str).collect();
    let lacks: Vec<&str> = lacks.into_iter().collect();
    let text = format!("not read, because only root may: {}", lacks.join("; "));
    let evidence = serde_json::json!({ "missing": lacks });
    (!lacks.is_empty()).then(|| Finding::new("health-rights", text, evidence))
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::Health;
    use plimsoll_machine::health::{Controller, Drive, Smart};

    use super::*;

    fn machine(node: &str, errors: &[u64]) -> NodeHealth {
        let mut page = [1_u8; 512];
        page[0] = 0;
        page[5] = 3;
        let drive = |(n, errors): (usize, &u64)| {
            let smart = Smart { media_errors: *errors, ..Smart::parse(&page).unwrap() };
            Drive { name: format!("nvme{n}"), smart }
        };
        let drives = errors.iter().enumerate().map(drive).collect();
        NodeHealth { node: node.to_owned(), shown: Health { drives, ..Health::default() } }
    }

    #[test]
    fn faults_are_told_with_their_remedy_and_machine() {
        assert_eq!(health(&[]), []);
        assert_eq!(health(&[machine("a", &[0])]), []);
        let found = health(&[machine("a", &[0, 2])]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, "nvme-media-errors");
        assert!(found[0].text.starts_with("nvme1: media errors: 2. At some time"), "{}", found[0].text);
        let found = health(&[machine("a", &[0]), machine("b", &[1, 1, 1, 1, 1, 1])]);
        assert!(found[0].text.starts_with("b: nvme0: media errors: 1; nvme1"), "{}", found[0].text);
        assert!(found[0].text.contains("nvme3: media errors: 1; and 2 more. "), "{}", found[0].text);
        assert_eq!(found[0].evidence["faults"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn missing_rights_are_told_once() {
        let mut machines = [machine("a", &[]), machine("b", &[])];
        for one in &mut machines {
            one.shown.missing = vec!["energy".to_owned()];
            one.shown.counters.controllers =
                vec![Controller { name: "mc0".to_owned(), corrected: 3, uncorrected: 0 }];
        }
        let found = health(&machines);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "not read, because only root may: energy");
    }
}
