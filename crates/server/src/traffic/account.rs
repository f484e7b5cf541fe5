//! Counters of a machine during a transfer, from `/proc/stat` (proc(5)), `/proc/net/snmp` (RFC 1213
//! and 4113) and `/sys/class/net/NAME/statistics`. Missing files count as zero.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use super::link_watch::{LinkLoss, LinkWatch};
use crate::wire::EndAccount;
use plimsoll_machine::Root;

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
    /// CPU → (busy, total) time, in ticks.
    cpus: BTreeMap<u32, (u64, u64)>,
    nic_drops: u64,
    nic_errors: u64,
    tcp_retransmits: u64,
    udp_buffer_errors: u64,
    lost_links: Vec<LinkLoss>,
}

impl CounterSource {
    /// Creates a source of files below `root`, and starts to monitor the links of `interface`.
    pub fn new(root: Root, interface: Option<String>) -> Self {
        let links = interface.as_deref().map(|name| LinkWatch::start(&root, name)).unwrap_or_default();
        CounterSource { root, interface, links }
    }

    /// Creates a source of this machine's counters, with the interface on the route to `address`.
    pub fn on_route(address: SocketAddr) -> Self {
        Self::new(Root::live(), super::route::outgoing_interface(address))
    }

    /// Returns the monitored links that were lost since this source was created.
    pub fn lost_links(&self) -> Vec<LinkLoss> {
        self.links.losses()
    }

    /// Reads all counters now; those that cannot be read are 0.
    pub fn read(&self) -> CounterReading {
        let snmp = self.root.text("proc/net/snmp").unwrap_or_default();
        let of_nic = |names: [&str; 2]| names.iter().map(|name| self.nic(name)).fold(0, u64::saturating_add);
        CounterReading {
            at: Instant::now(),
            cpus: parse_cpu_ticks(&self.root.text("proc/stat").unwrap_or_default()),
            nic_drops: of_nic(["rx_dropped", "tx_dropped"]),
            nic_errors: of_nic(["rx_errors", "tx_errors"]),
            tcp_retransmits: snmp_counter(&snmp, "Tcp:", "RetransSegs"),
            udp_buffer_errors: snmp_counter(&snmp, "Udp:", "RcvbufErrors"),
            lost_links: self.lost_links(),
        }
    }

    fn nic(&self, name: &str) -> u64 {
        let Some(interface) = &self.interface else { return 0 };
        self.root.number(format!("sys/class/net/{interface}/statistics/{name}")).unwrap_or_default()
    }
}

impl CounterReading {
    /// Returns the increase of each counter from this reading to `later`, and `later`'s lost links.
    pub fn difference_to(&self, later: &CounterReading) -> EndAccount {
        let busy = |(cpu, (busy, all)): (&u32, &(u64, u64))| {
            let (before_busy, before_all) = self.cpus.get(cpu)?;
            let all = all.saturating_sub(*before_all);
            let share = busy.saturating_sub(*before_busy).saturating_mul(1_000_000).checked_div(all)?;
            Some((u32::try_from(share.min(1_000_000)).unwrap_or(1_000_000), *cpu))
        };
        let (fullest_busy, fullest_cpu) = later.cpus.iter().filter_map(busy).max().unwrap_or_default();
        EndAccount {
            nanos: super::nanos(later.at.saturating_duration_since(self.at)),
            fullest_cpu,
            fullest_busy,
            nic_drops: later.nic_drops.saturating_sub(self.nic_drops),
            nic_errors: later.nic_errors.saturating_sub(self.nic_errors),
            tcp_retransmits: later.tcp_retransmits.saturating_sub(self.tcp_retransmits),
            udp_buffer_errors: later.udp_buffer_errors.saturating_sub(self.udp_buffer_errors),
            lost_links: later.lost_links.clone(),
        }
    }
}

/// Parses `/proc/stat`: CPU number → (busy, total) ticks; idle, iowait and steal are not busy.
fn parse_cpu_ticks(stat: &str) -> BTreeMap<u32, (u64, u64)> {
    let cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let number: u32 = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let all = ticks.iter().fold(0, |sum: u64, t| sum.saturating_add(*t));
        let idle = ticks.iter().skip(3).take(2).fold(0, |sum: u64, t| sum.saturating_add(*t));
        let steal = ticks.get(7).copied().unwrap_or_default();
        Some((number, (all.saturating_sub(idle).saturating_sub(steal), all)))
    };
    stat.lines().filter(|line| !line.starts_with("cpu ")).filter_map(cpu).collect()
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
    fn busy_ticks_are_all_but_idle_waiting_and_stolen() {
        let read = parse_cpu_ticks("cpu  9 9 9 9\ncpu0 10 20 30 400 50 6 7 8 0 0\ncpu1 x\ncpuX 1\nintr 5\n");
        assert_eq!(read[&0], (73, 531));
        assert_eq!(read[&1], (0, 0));
        assert_eq!(read.len(), 2);
    }

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
        let look = |cpus| CounterReading {
            at: Instant::now(),
            cpus,
            nic_drops: 5,
            nic_errors: 0,
            tcp_retransmits: 0,
            udp_buffer_errors: 0,
            lost_links: Vec::new(),
        };
        let before = look(BTreeMap::from([(0, (10, 100)), (1, (0, 100))]));
        let after = look(BTreeMap::from([(0, (20, 200)), (1, (90, 200)), (2, (5, 5))]));
        let account = before.difference_to(&after);
        assert_eq!((account.fullest_cpu, account.fullest_busy, account.nic_drops), (1, 900_000, 0));
        assert_eq!(after.difference_to(&before).fullest_busy, 0);
    }

    #[test]
    fn this_machine_tells() {
        let ledger = CounterSource::new(Root::live(), Some("lo".to_owned()));
        let look = ledger.read();
        assert!(!look.cpus.is_empty());
        assert!(look.difference_to(&ledger.read()).fullest_busy <= 1_000_000);
    }
}
