//! Hardware events during a case, the runs of its reference tools included.

use std::fmt;

use plimsoll_machine::health::{HealthChange, Interface};
use plimsoll_model::warning::{Warn, Warning};

/// Dropped packets per second from which drops are reported: a few are normal on any network.
const MANY_DROPS: f64 = 10.0;

/// A notable event: the code and text of its warning.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HealthRemark {
    code: &'static str,
    text: String,
}

/// Returns the notable events of a case of `seconds`; of interfaces only if `uses_interfaces`.
pub(super) fn remarks(change: &HealthChange, seconds: f64, uses_interfaces: bool) -> Vec<HealthRemark> {
    let mut reported = Vec::new();
    let mut remark = |code, text| reported.push(HealthRemark { code, text });
    let times = change.throttled();
    if times > 0 {
        remark(
            Warning::TOO_HOT,
            format!(
                "too hot {times}: so many times the processor slowed itself down because of its temperature (thermal_throttle), so a cooler one is faster; check fans, heat sinks and the room"
            ),
        );
    }
    let [corrected, uncorrected] = change.memory_errors();
    let names: Vec<&str> = change.controllers.iter().map(|one| one.name.as_str()).take(4).collect();
    let names = names.join(", ");
    if uncorrected > 0 {
        remark(
            "memory-errors-uncorrected",
            format!(
                "uncorrected memory errors {uncorrected}: so many during the case ({names}, EDAC), so results may be wrong; replace the module that the kernel log names"
            ),
        );
    }
    if corrected > 0 {
        remark(
            "memory-errors-corrected",
            format!(
                "memory errors {corrected}: so many were corrected during the case ({names}, EDAC), and each correction takes time; replace the module that the kernel log names if more follow"
            ),
        );
    }
    for Interface { name, rx_errors, tx_errors, rx_dropped, tx_dropped, .. } in &change.interfaces {
        if !uses_interfaces {
            break;
        }
        if *rx_errors > 0 || *tx_errors > 0 {
            remark(
                "nic-errors",
                format!(
                    "NIC errors: {name} received {rx_errors} damaged packets and failed to send {tx_errors} during the case, and each is sent again or lost; check cable, transceiver and switch port"
                ),
            );
        }
        if rx_dropped.saturating_add(*tx_dropped) as f64 > MANY_DROPS * seconds.max(1.0) {
            remark(
                "nic-drops",
                format!(
                    "NIC drops: {name} dropped {rx_dropped} received packets and {tx_dropped} to be sent during the case; use a lower rate; ethtool -g shows the sizes of its rings"
                ),
            );
        }
    }
    reported
}

impl Warn for HealthRemark {
    fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for HealthRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
