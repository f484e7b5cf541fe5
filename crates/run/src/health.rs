//! Hardware events during a case, the runs of its reference tools included.

use std::fmt;

use plimsoll_machine::health::{HealthChange, Interface};
use plimsoll_model::warning::{Warn, Warning};

/// Dropped packets per second from which drops are reported: a few are normal on any network.
const MANY_DROPS: f64 = 10.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum HealthRemark {
    ThermalThrottling { times: u64 },
    MemoryCorrected { count: u64, controllers: String },
    MemoryUncorrected { count: u64, controllers: String },
    NicErrors { interface: String, received: u64, sent: u64 },
    NicDrops { interface: String, received: u64, sent: u64 },
}

/// Returns the notable events of a case of `seconds`; of interfaces only if `uses_interfaces`.
pub(super) fn remarks(change: &HealthChange, seconds: f64, uses_interfaces: bool) -> Vec<HealthRemark> {
    let mut reported = Vec::new();
    let times = change.throttled();
    reported.extend((times > 0).then_some(HealthRemark::ThermalThrottling { times }));
    let [corrected, uncorrected] = change.memory_errors();
    let controllers = || {
        let names: Vec<&str> = change.controllers.iter().map(|one| one.name.as_str()).take(4).collect();
        names.join(", ")
    };
    if uncorrected > 0 {
        reported.push(HealthRemark::MemoryUncorrected { count: uncorrected, controllers: controllers() });
    }
    if corrected > 0 {
        reported.push(HealthRemark::MemoryCorrected { count: corrected, controllers: controllers() });
    }
    let interfaces = if uses_interfaces { change.interfaces.as_slice() } else { &[] };
    reported.extend(interfaces.iter().flat_map(|one| of_interface(one, seconds)));
    reported
}

fn of_interface(change: &Interface, seconds: f64) -> impl Iterator<Item = HealthRemark> {
    let interface = || change.name.clone();
    let errors = HealthRemark::NicErrors {
        interface: interface(),
        received: change.rx_errors,
        sent: change.tx_errors,
    };
    let drops = HealthRemark::NicDrops {
        interface: interface(),
        received: change.rx_dropped,
        sent: change.tx_dropped,
    };
    let has_errors = change.rx_errors > 0 || change.tx_errors > 0;
    let dropped = change.rx_dropped.saturating_add(change.tx_dropped) as f64;
    let has_drops = dropped > MANY_DROPS * seconds.max(1.0);
    has_errors.then_some(errors).into_iter().chain(has_drops.then_some(drops))
}

impl Warn for HealthRemark {
    fn code(&self) -> &'static str {
        match self {
            Self::ThermalThrottling { .. } => Warning::TOO_HOT,
            Self::MemoryCorrected { .. } => "memory-errors-corrected",
            Self::MemoryUncorrected { .. } => "memory-errors-uncorrected",
            Self::NicErrors { .. } => "nic-errors",
            Self::NicDrops { .. } => "nic-drops",
        }
    }
}

impl fmt::Display for HealthRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThermalThrottling { times } => write!(
                f,
                "too hot {times}: so many times the processor slowed itself down because of its temperature (thermal_throttle), so a cooler one is faster; check fans, heat sinks and the room"
            ),
            Self::MemoryCorrected { count, controllers } => write!(
                f,
                "memory errors {count}: so many were corrected during the case ({controllers}, EDAC), and each correction takes time; replace the module that the kernel log names if more follow"
            ),
            Self::MemoryUncorrected { count, controllers } => write!(
                f,
                "uncorrected memory errors {count}: so many during the case ({controllers}, EDAC), so results may be wrong; replace the module that the kernel log names"
            ),
            Self::NicErrors { interface, received, sent } => write!(
                f,
                "NIC errors: {interface} received {received} damaged packets and failed to send {sent} during the case, and each is sent again or lost; check cable, transceiver and switch port"
            ),
            Self::NicDrops { interface, received, sent } => write!(
                f,
                "NIC drops: {interface} dropped {received} received packets and {sent} to be sent during the case; use a lower rate; ethtool -g shows the sizes of its rings"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::health::Controller;
    use plimsoll_model::warning::Note;

    use super::*;

    fn codes(change: &HealthChange, uses_interfaces: bool) -> Vec<String> {
        let reported = remarks(change, 2.0, uses_interfaces).into_iter().map(Note::from);
        reported.map(|note| note.code().to_owned()).collect()
    }

    #[test]
    fn each_counter_has_its_warning() {
        assert!(codes(&HealthChange::default(), true).is_empty());
        let change = HealthChange {
            cores_throttled: [("0:1".to_owned(), 3)].into(),
            packages_throttled: [("0".to_owned(), 5)].into(),
            controllers: vec![Controller { name: "mc1".to_owned(), corrected: 2, uncorrected: 1 }],
            interfaces: vec![Interface {
                name: "eth0".to_owned(),
                rx_errors: 1,
                rx_dropped: 21,
                ..Interface::default()
            }],
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
        let few = HealthChange { interfaces, ..HealthChange::default() };
        assert!(codes(&few, true).is_empty());
    }
}
