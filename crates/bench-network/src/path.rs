//! The path between the two ends, as far as limits need it.

pub(crate) mod fault;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::condition::{PATH_COPY, PATH_IPV6, PATH_LINE, PATH_LOOPBACK, PATH_MTU, PATH_SPEED, SHAPED};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::sample::Numbers;
use plimsoll_server::traffic::{route, shaper};
use plimsoll_server::wire::Shaping;

/// Bytes copied by the test of the copy rate: with the copy they fit in any second-level cache.
const COPIED: usize = 64 << 10;
const COPYING: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) loopback: bool,
    pub(super) interface: Option<String>,
    pub(super) shaping: Shaping,
    pub(super) conditions: Numbers,
}

impl Path {
    pub(super) fn to(far: SocketAddr, machine: Option<&Machine>) -> Self {
        let loopback = route::is_local(far);
        let interface = route::outgoing_interface(far);
        let shaping = interface.as_deref().map(shaper::read_shaping).unwrap_or_default();
        let nics = machine.map(|m| m.network.as_slice()).unwrap_or_default();
        let nic = nics.iter().find(|nic| Some(&nic.name) == interface.as_ref());
        let line = nic.filter(|nic| !loopback && nic.has_line());
        let speed = line.and_then(|nic| nic.line_rate(machine?.virtualisation.is_virtual));
        let known = [
            (PATH_LOOPBACK, Some(f64::from(u8::from(loopback)))),
            (PATH_IPV6, Some(f64::from(u8::from(far.ip().to_canonical().is_ipv6())))),
            (PATH_LINE, Some(f64::from(u8::from(line.is_some())))),
            (PATH_SPEED, speed.map(|bits| bits as f64)),
            (PATH_MTU, nic.and_then(|nic| nic.mtu_bytes).map(|bytes| bytes as f64)),
            (SHAPED, shaping.out.map(|bits| bits as f64)),
        ];
        Path { loopback, interface, shaping, conditions: known.into_iter().collect() }
    }

    /// If this path is loopback, measures and adds the copy rate of a CPU, its limit; takes 10 ms.
    pub(super) fn with_copy_rate(mut self) -> Self {
        if self.loopback {
            self.conditions.set(&PATH_COPY, copy_rate());
        }
        self
    }

    /// Returns `loopback`, the name of the interface, or `unknown`.
    pub(super) fn name(&self) -> String {
        let name = if self.loopback { Some("loopback") } else { self.interface.as_deref() };
        name.unwrap_or("unknown").to_owned()
    }
}

/// Returns the best copy rate of several short trials, bytes read plus written per second.
fn copy_rate() -> f64 {
    let (from, mut to) = (vec![1u8; COPIED], vec![0u8; COPIED]);
    let until = Instant::now() + COPYING;
    let mut best: f64 = 0.0;
    while Instant::now() < until {
        let started = Instant::now();
        for _ in 0..16 {
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        }
        let seconds = started.elapsed().as_secs_f64().max(1e-9);
        best = best.max(2.0 * 16.0 * COPIED as f64 / seconds);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_way_within_this_machine_has_a_copy_rate_and_no_speed() {
        let path = Path::to(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), None).with_copy_rate();
        let conditions = &path.conditions;
        assert_eq!((path.name().as_str(), conditions.get(&PATH_LOOPBACK)), ("loopback", Some(1.0)));
        assert!(conditions.get(&PATH_COPY).unwrap() > 1e8);
        assert_eq!(conditions.get(&PATH_SPEED), None);
    }
}
