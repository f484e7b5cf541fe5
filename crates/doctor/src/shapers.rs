//! Check of kernel rate limits on network interfaces.

use plimsoll_server::wire::Shaping;
use plimsoll_units::quantity::{Quantity, Unit};
use plimsoll_units::text::shown;

use super::{MachineCheck, costs, good};

/// Checks for rate limits of network interfaces; `held` has each interface's name and limits.
pub fn shapers(held: &[(String, Shaping)]) -> MachineCheck {
    let rate = |bits: u64| Quantity::new(bits as f64, Unit::BitPerSecond);
    let of = |(name, shaping): &(String, Shaping)| {
        let rates = [
            (shaping.out, "sends at most"),
            (shaping.each_out, "sends of each connection at most"),
            (shaping.into, "receives at most"),
        ];
        let rates = rates.into_iter().filter_map(|(bits, what)| Some(format!("{what} {}", rate(bits?))));
        let rates = rates.collect::<Vec<String>>().join(", ");
        (!rates.is_empty()).then(|| format!("{} {rates}", shown(name)))
    };
    let found: Vec<String> = held.iter().filter_map(of).collect();
    let check = match found.is_empty() {
        true => good("none on any network interface"),
        false => costs(
            found.join("; "),
            "network figures over these interfaces are those of the rate; see tc qdisc show and tc filter show",
        ),
    };
    MachineCheck { name: "shapers", ..check }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckState;

    #[test]
    fn each_rate_is_named_with_its_interface() {
        let eth0 = Shaping { out: Some(20_000_000), into: Some(10_000_000), ..Shaping::default() };
        let found = shapers(&[("lo".to_owned(), Shaping::default()), ("eth0".to_owned(), eth0)]);
        assert_eq!(found.state, CheckState::Costs);
        assert_eq!(found.found, "eth0 sends at most 20.0 Mbit/s, receives at most 10.0 Mbit/s");
        assert_eq!(shapers(&[("lo".to_owned(), Shaping::default())]).state, CheckState::Good);
    }
}
