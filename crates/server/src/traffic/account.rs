//! Counters of a machine during a transfer, from `/proc/stat` (proc(5)), `/proc/net/snmp` (RFC 1213
//! and 4113) and `/sys/class/net/NAME/statistics`. Missing files count as zero.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use super::link_watch::{LinkLoss, LinkWatch};
use crate::wire::EndAccount;
use plimsoll_machine::Root;
use plimsoll_machine::state::{CpuTime, cpu_times};

/// Source of the counters.
#[derive(Debug)]
pub struct CounterSource {
    root: Root,
    interface: Option<String>,
    links: LinkWatch,
}

/// Counters at one time.
#[derive(Clone, Debug)]
pub struct CounterReading {
    at: Instant,
    cpus: BTreeMap<usize, CpuTime>,
    /// Counters since boot and lost links; those of time and CPUs are unused.
    totals: EndAccount,
}

impl CounterSource {
    /// Creates a source of this machine's counters, and starts to monitor links of `interface`.
    pub fn new(interface: Option<String>) -> Self {
        let links = interface.as_deref().map(LinkWatch::start).unwrap_or_default();
        CounterSource { root: Root::live(), interface, links }
    }

    /// Creates a source of this machine's counters, with the interface on the route to `address`.
    pub fn on_route(address: SocketAddr) -> Self {
        Self::new(super::route::outgoing_interface(address))
    }

    /// Returns the monitored links that were lost since this source was created.
    pub fn lost_links(&self) -> Vec<LinkLoss> {
        self.links.losses()
    }

    /// Reads all counters now; those that cannot be read are 0.
    pub fn read(&self) -> CounterReading {
        let snmp = self.root.text("proc/net/snmp").unwrap_or_default();
        let of_nic = |names: [&str; 2]| names.iter().map(|name| self.nic(name)).fold(0, u64::saturating_add);
        let (at, cpus) = (Instant::now(), cpu_times(&self.root));
        let totals = EndAccount {
            nic_drops: of_nic(["rx_dropped", "tx_dropped"]),
            nic_errors: of_nic(["rx_errors", "tx_errors"]),
            tcp_retransmits: snmp_counter(&snmp, "Tcp:", "RetransSegs"),
            udp_buffer_errors: snmp_counter(&snmp, "Udp:", "RcvbufErrors"),
            lost_links: self.lost_links(),
            ..EndAccount::default()
        };
        CounterReading { at, cpus, totals }
    }

    fn nic(&self, name: &str) -> u64 {
        let Some(interface) = &self.interface else { return 0 };
        self.root.number(format!("sys/class/net/{interface}/statistics/{name}")).unwrap_or_default()
    }
}

impl CounterReading {
    /// Returns the increase of each counter from this reading to `later`, and `later`'s lost links.
    pub fn difference_to(&self, later: &CounterReading) -> EndAccount {
        let ticks = |time: &CpuTime| time.total.saturating_sub(time.idle).saturating_sub(time.steal);
        let busy = |(cpu, time): (&usize, &CpuTime)| {
            let before = self.cpus.get(cpu)?;
            let all = time.total.saturating_sub(before.total);
            let busy = ticks(time).saturating_sub(ticks(before));
            let share = busy.saturating_mul(1_000_000).checked_div(all)?.min(1_000_000);
            Some((share as u32, *cpu as u32))
        };
        let since =
            |counter: fn(&EndAccount) -> u64| counter(&later.totals).saturating_sub(counter(&self.totals));
        let (fullest_busy, fullest_cpu) = later.cpus.iter().filter_map(busy).max().unwrap_or_default();
        EndAccount {
            nanos: super::nanos(later.at.saturating_duration_since(self.at)),
            fullest_cpu,
            fullest_busy,
            nic_drops: since(|totals| totals.nic_drops),
            nic_errors: since(|totals| totals.nic_errors),
            tcp_retransmits: since(|totals| totals.tcp_retransmits),
            udp_buffer_errors: since(|totals| totals.udp_buffer_errors),
            lost_links: later.totals.lost_links.clone(),
        }
    }
}

/// Returns counter `name` of `protocol` (`Tcp:`) in `/proc/net/snmp`; 0 if there is none.
fn snmp_counter(snmp: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    columns.find(|(n, _)| *n == name).and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let snmp =
            "Tcp: RtoMin RetransSegs\nTcp: 200 17\nUdp: InDatagrams RcvbufErrors\nUdp: 1 5\nUdpLite: a\n";
        assert_eq!(snmp_counter(snmp, "Tcp:", "RetransSegs"), 17);
        assert_eq!(snmp_counter(snmp, "Udp:", "RcvbufErrors"), 5);
        assert_eq!(snmp_counter(snmp, "Udp:", "None"), 0);
        assert_eq!(snmp_counter("Tcp: a\n", "Tcp:", "a"), 0);
        assert_eq!(snmp_counter("Tcp: a\nTcp: -1\n", "Tcp:", "a"), 0);
    }

    #[test]
    fn the_fullest_cpu_is_named() {
        let look = |cpus| {
            let totals = EndAccount { nic_drops: 5, ..EndAccount::default() };
            CounterReading { at: Instant::now(), cpus, totals }
        };
        let busy = |busy: u64, total: u64| CpuTime { total, idle: total - busy - 1, steal: 1 };
        let before = look(BTreeMap::from([(0, busy(10, 100)), (1, busy(0, 100))]));
        let after = look(BTreeMap::from([(0, busy(20, 200)), (1, busy(90, 200)), (2, busy(5, 6))]));
        let account = before.difference_to(&after);
        assert_eq!((account.fullest_cpu, account.fullest_busy, account.nic_drops), (1, 900_000, 0));
        assert_eq!(after.difference_to(&before).fullest_busy, 0);
    }

    #[test]
    fn this_machine_tells() {
        let ledger = CounterSource::new(Some("lo".to_owned()));
        let look = ledger.read();
        assert!(!look.cpus.is_empty());
        assert!(look.difference_to(&ledger.read()).fullest_busy <= 1_000_000);
    }
}
