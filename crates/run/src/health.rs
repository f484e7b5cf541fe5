//! Hardware events during a case, the runs of its reference tools included.

use plimsoll_machine::health::HealthCounters;

use crate::remark::CaseRemark;

/// Dropped packets per second from which drops are reported: a few are normal on any network.
const MANY_DROPS: f64 = 10.0;

/// Returns notable hardware events of a case of `seconds` s; of interfaces if `uses_interfaces`.
pub(super) fn remarks(change: &HealthCounters, seconds: f64, uses_interfaces: bool) -> Vec<CaseRemark> {
    let mut reported = Vec::new();
    let times = change.throttled();
    reported.extend((times > 0).then_some(CaseRemark::ThermalThrottling { times }));
    let names: Vec<&str> = change.controllers.iter().map(|one| one.name.as_str()).take(4).collect();
    let controllers = names.join(", ");
    let [corrected, uncorrected] = change.memory_errors();
    if uncorrected > 0 {
        let controllers = controllers.clone();
        reported.push(CaseRemark::MemoryUncorrected { count: uncorrected, controllers });
    }
    if corrected > 0 {
        reported.push(CaseRemark::MemoryCorrected { count: corrected, controllers });
    }
    for one in change.interfaces.iter().filter(|_| uses_interfaces) {
        let interface = || one.name.clone();
        if one.rx_errors > 0 || one.tx_errors > 0 {
            let (received, sent) = (one.rx_errors, one.tx_errors);
            reported.push(CaseRemark::NicErrors { interface: interface(), received, sent });
        }
        let (received, sent) = (one.rx_dropped, one.tx_dropped);
        if received.saturating_add(sent) as f64 > MANY_DROPS * seconds.max(1.0) {
            reported.push(CaseRemark::NicDrops { interface: interface(), received, sent });
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::health::{Controller, Interface, Throttled};
    use plimsoll_model::warning::Note;

    use super::*;

    fn codes(change: &HealthCounters, uses_interfaces: bool) -> Vec<String> {
        let reported = remarks(change, 2.0, uses_interfaces).into_iter().map(Note::from);
        reported.map(|note| note.code().to_owned()).collect()
    }

    #[test]
    fn each_counter_has_its_warning() {
        assert!(codes(&HealthCounters::default(), true).is_empty());
        let (cores, packages) = ([("0:1".to_owned(), 3)].into(), [("0".to_owned(), 5)].into());
        let port = Interface { name: "eth0".to_owned(), rx_errors: 1, ..Interface::default() };
        let change = HealthCounters {
            throttled: Some(Throttled { cores, packages }),
            controllers: vec![Controller { name: "mc1".to_owned(), corrected: 2, uncorrected: 1 }],
            interfaces: vec![Interface { rx_dropped: 21, ..port }],
            ..HealthCounters::default()
        };
        let memory = ["thermal-throttling", "memory-errors-uncorrected", "memory-errors-corrected"];
        assert_eq!(codes(&change, false), memory);
        assert_eq!(codes(&change, true)[3..], ["nic-errors", "nic-drops"]);
        let text = remarks(&change, 2.0, false)[0].to_string();
        assert!(text.starts_with("too hot 5: ") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn a_few_drops_are_usual() {
        let interfaces = vec![Interface { name: "eth0".to_owned(), rx_dropped: 20, ..Interface::default() }];
        let few = HealthCounters { interfaces, ..HealthCounters::default() };
        assert!(codes(&few, true).is_empty());
    }
}
