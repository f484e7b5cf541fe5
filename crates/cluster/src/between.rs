//! Plan of the network measurements between nodes: of two nodes one serves, the other measures. Up
//! to 4 nodes, pairs are measured alone; up to 16, all pairs in rounds of perfect matchings; above,
//! in a fixed number of rounds. Both directions are measured, then the bisection.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::sample::{CannotMeasure, Conditions};

/// Most nodes whose pairs are measured one at a time; the time grows with their square.
const MAX_MACHINES_ONE_PAIR_AT_A_TIME: usize = 4;
/// Most matchings, and thus partners of each node; for 16 nodes these are all.
const MAX_MATCHINGS: usize = 15;

pub use crate::case::{ALL_PAIRS, AT_ONCE, AT_ONCE_BACK};

/// Address and key of a serving node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServingPlace {
    /// Addresses of the node; the client finds out which of them it reaches.
    pub addresses: Vec<IpAddr>,
    /// TCP port.
    pub port: u16,
    /// Session key, hexadecimal.
    pub key: String,
}

/// Result of a case between two nodes: its headline metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairFigure {
    /// One value per sample, in the metric's unit.
    pub samples: Vec<f64>,
    /// Conditions of the measurement.
    pub conditions: Conditions,
}

/// Result of a case between two nodes, or the reason why there is none.
pub type PairAnswer = Result<PairFigure, CannotMeasure>;

/// One node that measures to another, as indices of nodes in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachinePair {
    /// Index of the measuring node.
    pub from: usize,
    /// Index of the serving node.
    pub to: usize,
}

/// Pairs that are measured at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct PairRound {
    /// The pairs; each node is in at most one.
    pub pairs: Vec<MachinePair>,
    /// Kind of the round: [`ALL_PAIRS`], [`AT_ONCE`] or [`AT_ONCE_BACK`].
    pub kind: &'static str,
}

/// Results between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct PairResults {
    /// The two nodes.
    pub pair: MachinePair,
    /// Kind of the round: see [`PairRound::kind`].
    pub kind: &'static str,
    /// One result per case.
    pub answers: Vec<PairAnswer>,
}

/// Replaces the results in `made` that have the pair and kind of round of the retest `again`. A
/// result stays if the retest failed for its case.
pub fn replace(made: &mut [PairResults], again: PairResults) {
    let same = made.iter_mut().find(|one| (one.pair, one.kind) == (again.pair, again.kind));
    for (before, now) in same.into_iter().flat_map(|one| &mut one.answers).zip(again.answers) {
        if now.is_ok() {
            *before = now;
        }
    }
}

/// Returns the rounds for `machines` nodes: disjoint pairs, each in both directions; with more than
/// 3 nodes, then both directions of a bisection, in which one half measures to the other at once.
pub fn rounds(machines: usize) -> Vec<PairRound> {
    let from = |from| (from + 1..machines).map(move |to| vec![MachinePair { from, to }]);
    let matchings = match machines {
        ..=MAX_MACHINES_ONE_PAIR_AT_A_TIME => (0..machines).flat_map(from).collect(),
        _ => matchings(machines),
    };
    let both = |pairs: Vec<MachinePair>, [there, back]: [&'static str; 2]| {
        let turned = pairs.iter().map(|pair| MachinePair { from: pair.to, to: pair.from }).collect();
        [PairRound { pairs, kind: there }, PairRound { pairs: turned, kind: back }]
    };
    let mut rounds: Vec<PairRound> =
        matchings.into_iter().flat_map(|pairs| both(pairs, [ALL_PAIRS; 2])).collect();
    // The bisection of a single pair is that pair.
    if machines > 3 {
        rounds.extend(both(bisection(machines), [AT_ONCE, AT_ONCE_BACK]));
    }
    rounds
}

/// Returns up to [`MAX_MATCHINGS`] rounds of disjoint pairs by the circle method: one node is
/// fixed, the rest rotates. With an odd number of nodes, one node pauses in each round.
fn matchings(machines: usize) -> Vec<Vec<MachinePair>> {
    let places = machines.next_multiple_of(2);
    let turns = places - 1;
    let rounds = turns.min(MAX_MATCHINGS);
    let matching = |round: usize| -> Vec<MachinePair> {
        let turn = round * turns / rounds;
        let at = |place: usize| if place == 0 { 0 } else { (place - 1 + turn) % turns + 1 };
        let pairs = (0..places / 2).map(|k| MachinePair { from: at(k), to: at(places - 1 - k) });
        pairs.filter(|pair| pair.from < machines && pair.to < machines).collect()
    };
    (0..rounds).map(matching).collect()
}

/// Pairs the first half of the nodes with the second; an odd node in the middle pauses.
fn bisection(machines: usize) -> Vec<MachinePair> {
    let half = machines / 2;
    (0..half).map(|from| MachinePair { from, to: machines - half + from }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn nobody_is_twice_in_a_round_and_each_pair_is_measured_once_in_each_direction(machines in 0..300_usize) {
            let mut seen = BTreeSet::new();
            for round in rounds(machines) {
                let mut busy = BTreeSet::new();
                for MachinePair { from, to } in round.pairs {
                    prop_assert!(from < machines && to < machines && from != to);
                    prop_assert!(busy.insert(from) && busy.insert(to));
                    prop_assert!(round.kind != ALL_PAIRS || seen.insert([from, to]));
                }
            }
            prop_assert!(seen.iter().all(|[from, to]| seen.contains(&[*to, *from])));
        }

        #[test]
        fn the_bisection_takes_each_machine_once(machines in 0..99_usize) {
            let pairs = bisection(machines);
            let rounds = rounds(machines);
            let of = |kind| rounds.iter().find(|round| round.kind == kind).map(|round| round.pairs.clone());
            prop_assert_eq!(of(AT_ONCE), (machines > 3).then(|| pairs.clone()));
            let turned = pairs.iter().map(|pair| MachinePair { from: pair.to, to: pair.from }).collect();
            prop_assert_eq!(of(AT_ONCE_BACK), (machines > 3).then_some(turned));
            let busy: BTreeSet<usize> = pairs.iter().flat_map(|pair| [pair.from, pair.to]).collect();
            prop_assert_eq!(busy.len(), machines / 2 * 2);
            prop_assert!(pairs.iter().all(|pair| pair.from < machines / 2 && pair.to >= machines.div_ceil(2)));
        }
    }

    #[test]
    fn up_to_16_machines_measure_every_pair_and_more_a_fixed_number_of_rounds() {
        let of = |machines| {
            let rounds = rounds(machines);
            let pairs: usize = rounds.iter().map(|round| round.pairs.len()).sum();
            (rounds.len(), pairs)
        };
        assert_eq!([0, 1, 2, 3].map(of), [(0, 0), (0, 0), (2, 2), (6, 6)]);
        assert_eq!([4, 5, 8, 16].map(of), [(14, 16), (12, 24), (16, 64), (32, 256)]);
        assert_eq!(of(17), (2 * MAX_MATCHINGS + 2, 2 * MAX_MATCHINGS * 8 + 16));
        assert_eq!(of(2000), (2 * MAX_MATCHINGS + 2, 2 * MAX_MATCHINGS * 1000 + 2000));
    }

    #[test]
    fn a_pair_that_is_measured_again_keeps_what_it_has_no_figure_for_now() {
        let figure = |value: f64| Ok(PairFigure { samples: vec![value], ..PairFigure::default() });
        let one = |to, answers| PairResults { pair: MachinePair { from: 0, to }, kind: ALL_PAIRS, answers };
        let mut made = vec![one(1, vec![figure(1.0), figure(2.0)]), one(2, vec![figure(3.0), figure(4.0)])];
        replace(&mut made, one(2, vec![figure(5.0), Err(CannotMeasure::server_failed("gone"))]));
        assert_eq!(made, [one(1, vec![figure(1.0), figure(2.0)]), one(2, vec![figure(5.0), figure(4.0)])]);
    }
}
