//! Links that were lost while a case ran: such a result does not show what the link carries.

use std::fmt;

use crate::warning::NetworkWarning;
use plimsoll_bench_api::prelude::*;
use plimsoll_server::traffic::link_watch::LinkLoss;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostLink {
    pub(super) is_servers: bool,
    pub(super) loss: LinkLoss,
}

pub(super) fn lost_links(near: Vec<LinkLoss>, server: &[LinkLoss]) -> Vec<LostLink> {
    let near = near.into_iter().map(|loss| LostLink { is_servers: false, loss });
    let server = server.iter().map(|loss| LostLink { is_servers: true, loss: loss.clone() });
    near.chain(server).collect()
}

/// Adds a warning for each of `links`; marks the case invalid if all packets take one of them.
pub(super) fn add_warnings(links: Vec<LostLink>, facts: &mut Facts) {
    let whole = links.iter().find(|link| link.loss.carries_all);
    if let Some(link) = whole.filter(|_| facts.invalid.is_none()) {
        facts.invalid =
            Some(format!("{link}: the figure holds an outage, so it is not what the link carries"));
    }
    facts.warnings.extend(links.into_iter().map(|link| NetworkWarning::LinkFlapped(link).into()));
}

impl LostLink {
    pub(super) const fn remedy(&self) -> &'static str {
        match self.is_servers {
            false => "check cable and port, see `ip -s link`, and run the case again",
            true => "check the server's cable and port, see `ip -s link` there, and run the case again",
        }
    }
}

impl fmt::Display for LostLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkLoss { interface, times, nanos, .. } = &self.loss;
        let interface = plimsoll_units::text::shown_within(interface, 32);
        let whose = if self.is_servers { "the server's interface " } else { "" };
        let link = format!("{whose}{interface}");
        let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
        write!(f, "the link of {} was lost {times} during the case", link.trim_end())?;
        match nanos {
            0 => Ok(()),
            nanos => write!(f, ", for {} in all", Quantity::new(*nanos as f64 * 1e-9, Unit::Second)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(interface: &str, carries_all: bool) -> LinkLoss {
        LinkLoss { interface: interface.to_owned(), carries_all, times: 2, nanos: 1_500_000_000, is_up: true }
    }

    #[test]
    fn a_lost_link_of_all_packets_makes_the_case_invalid_and_each_is_a_warning() {
        let mut facts = Facts::default();
        add_warnings(lost_links(Vec::new(), &[]), &mut facts);
        assert_eq!(facts, Facts::default());
        add_warnings(lost_links(vec![loss("eth1", false)], &[]), &mut facts);
        assert_eq!((facts.invalid.clone(), facts.warnings.len()), (None, 1), "one port of several");
        add_warnings(lost_links(vec![loss("eth0", true)], &[loss("ens5", true)]), &mut facts);
        let why = facts.invalid.unwrap();
        assert!(why.contains("eth0") && why.contains("2 times") && why.contains("1.50 s"), "{why}");
        assert!(facts.warnings.iter().all(|warning| warning.code() == "link-flapped"));
        assert!(facts.warnings[2].to_string().contains("server's interface ens5"));
    }
}
