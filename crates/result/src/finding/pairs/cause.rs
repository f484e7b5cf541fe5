//! Cause of a slow node: its conditions against those of the other nodes.

use std::collections::BTreeMap;

use plimsoll_bench_network::condition::{
    END_FULLEST_CPU_BUSY, END_NIC_DROPS, END_NIC_ERRORS, PATH_SPEED, SHAPED,
};
use plimsoll_model::limit::median;
use plimsoll_model::measurement::Flow;
use plimsoll_model::sample::OwnCondition;
use plimsoll_units::quantity::{Quantity, Unit, percent};

use super::{PairPath, PairRole};

/// Relative rate difference that explains a result.
const LOWER: f64 = 0.02;
/// Busy share from which a CPU is saturated.
const SATURATED_SHARE: f64 = 0.95;
/// Busy share below which the other nodes' CPUs are not saturated.
const ROOM: f64 = 0.85;

#[derive(Clone, Debug, Default)]
struct LinkFacts {
    shaped: Option<f64>,
    speed: Option<f64>,
    errors: f64,
    drops: f64,
    busy: Vec<f64>,
}

pub(super) struct KnownLinks(BTreeMap<u32, LinkFacts>);

impl KnownLinks {
    pub(super) fn of(paths: &[PairPath]) -> Self {
        let mut nodes: BTreeMap<u32, LinkFacts> = BTreeMap::new();
        for path in paths {
            let own = nodes.entry(path.from).or_default();
            own.shaped = own.shaped.or(path.conditions.get(&SHAPED));
            own.speed = own.speed.or(path.conditions.get(&PATH_SPEED));
            for (number, end) in [(path.from, "near"), (path.to, "far")] {
                let of = |row: &OwnCondition| path.conditions.get_of(row, end);
                let node = nodes.entry(number).or_default();
                node.errors += of(&END_NIC_ERRORS).unwrap_or_default();
                node.drops += of(&END_NIC_DROPS).unwrap_or_default();
                node.busy.extend(of(&END_FULLEST_CPU_BUSY));
            }
        }
        Self(nodes)
    }

    /// Returns in words why node `number` is slow in the role `part`, if a cause is visible.
    pub(super) fn cause(&self, number: u32, part: PairRole, flow: Flow) -> Option<String> {
        let node = self.0.get(&number)?;
        let shaped = if part.sends(flow) { self.shaped(number, node) } else { None };
        let slower_link = || {
            let (own, all) = (node.speed?, self.usual(number, |node| node.speed)?);
            let shown = |value| Quantity { value, unit: Unit::BitPerSecond };
            (own < all * (1.0 - LOWER))
                .then(|| format!("its link runs at {}, the others' at {}", shown(own), shown(all)))
        };
        shaped.or_else(slower_link).or_else(|| self.counted(number, node)).or_else(|| self.full(number, node))
    }

    /// Returns the median of what `read` returns for all nodes except node `number`.
    fn usual(&self, number: u32, read: impl Fn(&LinkFacts) -> Option<f64>) -> Option<f64> {
        let others = self.0.iter().filter(|(other, _)| **other != number);
        median(others.filter_map(|(_, node)| read(node)).collect())
    }

    fn shaped(&self, number: u32, node: &LinkFacts) -> Option<String> {
        let own = node.shaped?;
        let shown = |value| Quantity { value, unit: Unit::BitPerSecond };
        let held = format!("a shaper (queueing discipline) limits its interface to {}", shown(own));
        match self.usual(number, |node| node.shaped) {
            Some(others) if own < others * (1.0 - LOWER) => {
                Some(format!("{held}, the others' to {}", shown(others)))
            }
            Some(_) => None,
            None => Some(held),
        }
    }

    /// Describes interface errors or drops of node `number` above twice the usual count.
    fn counted(&self, number: u32, node: &LinkFacts) -> Option<String> {
        let more = |own: f64, read: fn(&LinkFacts) -> f64| {
            own > 0.0 && self.usual(number, |node| Some(read(node))).is_none_or(|others| own > 2.0 * others)
        };
        let reported = |count: f64, what: &str| format!("its interface counted {} {what}", count.ceil());
        if more(node.errors, |node| node.errors) {
            return Some(reported(node.errors, "errors"));
        }
        more(node.drops, |node| node.drops).then(|| reported(node.drops, "dropped packets"))
    }

    fn full(&self, number: u32, node: &LinkFacts) -> Option<String> {
        let busy = |node: &LinkFacts| median(node.busy.clone());
        let own = busy(node).filter(|own| *own >= SATURATED_SHARE)?;
        let others = self.usual(number, busy).filter(|others| *others < ROOM)?;
        let (own, others) = (percent(own, 2), percent(others, 2));
        Some(format!("its CPU is the limit: the fullest one is {own} busy, the others' {others}"))
    }
}
