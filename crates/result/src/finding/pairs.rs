//! "n3 is slow sending: 9.5 Mbit/s, 95 % below the median …": pairs of nodes that are slower than
//! the false-alarm threshold of 1 % ([`outlier_distance`]), 3 %, and 3.5 robust standard
//! deviations. A node most of whose pairs in one direction are slow is reported once.

mod cause;

use plimsoll_bench::label::full;
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Flow, Matrix, Measurement, MetricResult};
use plimsoll_model::metric::Better;
use plimsoll_model::sample::{Cell, Numbers};
use plimsoll_stats::outlier_distance;
use plimsoll_units::quantity::{Quantity, percent};
use serde_json::json;

use super::because;
use super::evidence::{SlowNodeEvidence, SlowPairEvidence};
use super::outlier::{FLOOR, from_median};
use crate::document::Finding;
use cause::KnownLinks;

/// Robust standard deviations by which a slow pair or node must stand out.
const DEVIATIONS: f64 = 3.5;
/// Standard deviation of a normal distribution, in median absolute deviations.
const NORMAL: f64 = 1.4826;
const MAX_LISTED_PAIRS: usize = 8;
/// Least relative difference between the two directions of a single pair.
const LONE: f64 = 0.1;
/// Pairs of other nodes from which their deviation is reliable.
const MANY: usize = 16;
const SLOW_PAIRS_OF_NODE: usize = 2;

/// Conditions of both ends of a connection while it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairPath {
    /// Number of the client node.
    pub from: u32,
    /// Number of the server node.
    pub to: u32,
    /// Conditions by name: `near_…` and `path_…` come from the client, `far_…` from the server.
    pub conditions: Numbers,
}

#[derive(Clone, Copy, Debug)]
struct Slow {
    row: u32,
    column: u32,
    value: f64,
    /// Relative distance from the usual value; 0.5 is 50 % above.
    away: f64,
    threshold: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PairRole {
    Client,
    Server,
}

impl PairRole {
    /// Returns the role in words: sending or receiving; as client or server if data go both ways.
    const fn word(self, flow: Flow) -> &'static str {
        match (flow, self) {
            (Flow::Up, Self::Client) | (Flow::Down, Self::Server) => "sending",
            (Flow::Up, Self::Server) | (Flow::Down, Self::Client) => "receiving",
            (Flow::Both, Self::Client) => "as client",
            (Flow::Both, Self::Server) => "as server",
        }
    }

    /// Returns whether a node in this role sends the data of the test.
    const fn sends(self, flow: Flow) -> bool {
        !matches!((flow, self), (Flow::Up, Self::Server) | (Flow::Down, Self::Client))
    }

    const fn of(self, place: (u32, u32)) -> u32 {
        match self {
            Self::Client => place.0,
            Self::Server => place.1,
        }
    }
}

struct UsualPair {
    centre: f64,
    /// Distance that chance reaches, in logarithms.
    reach: f64,
    places: usize,
    pairs: usize,
}

struct Judged<'a> {
    measurement: &'a Measurement,
    metric: &'a MetricResult,
    matrix: &'a Matrix,
    names: &'a [&'a str],
    known: KnownLinks,
    flow: Flow,
    usual: UsualPair,
}

/// Returns up to 8 findings, the furthest from usual first: per slow node and direction, and per
/// other slow pair. `names` are indexed by node number; `paths` has known conditions of pairs.
pub fn pairs(measurement: &Measurement, names: &[&str], paths: &[PairPath]) -> Vec<Finding> {
    let Some((metric, matrix)) = measurement.headline().and_then(|m| Some((m, m.matrix.as_ref()?))) else {
        return Vec::new();
    };
    let Some(usual) = UsualPair::of(matrix, metric.better) else { return Vec::new() };
    let flow = Flow::of(&measurement.case, metric.better == Better::Higher);
    let judged = Judged { measurement, metric, matrix, names, known: KnownLinks::of(paths), flow, usual };
    let mut found = Vec::new();
    let mut listed: Vec<(u32, u32)> = Vec::new();
    for part in [PairRole::Client, PairRole::Server] {
        for (number, own) in judged.machines(part) {
            listed.extend(own.iter().map(|s| (s.row, s.column)));
            found.extend(judged.machine(number, part, &own));
        }
    }
    let alone = judged.slow(judged.usual.centre, judged.usual.reach);
    found.extend(
        alone.iter().filter(|s| !listed.contains(&(s.row, s.column))).map(|s| (s.away.abs(), judged.pair(s))),
    );
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().take(MAX_LISTED_PAIRS).map(|(_, finding)| finding).collect()
}

impl UsualPair {
    fn of(matrix: &Matrix, better: Better) -> Option<Self> {
        let values: Vec<f64> = matrix.measured().map(|pair| pair.value).collect();
        let (places, pairs) = matrix.counted();
        // For the two directions of a single pair, the better one is the reference.
        let centre = match (&values[..], pairs) {
            ([one, other], 1) => Some(better.gain(better.gain(*one).max(better.gain(*other)))),
            _ => median(values.clone()),
        };
        let centre = centre.filter(|centre| *centre > 0.0)?;
        let logarithms: Vec<f64> = values.iter().map(|value| (value / centre).ln()).collect();
        let reach = if pairs == 1 { 0.0 } else { outlier_distance(&logarithms, logarithms.len()) };
        Some(Self { centre, reach, places, pairs })
    }

    /// Formats "60 % below the median of all 12 measurements"; `away` is value ÷ centre − 1.
    fn describe(&self, away: f64) -> String {
        match (self.places, self.pairs) {
            (2, 1) => {
                let side = if away < 0.0 { "below" } else { "above" };
                format!("{} {side} the other direction", percent(away.abs(), 2))
            }
            (places, pairs) if places == pairs => {
                format!("{} of {pairs} pairs of machines", from_median(away))
            }
            (places, _) => format!("{} of all {places} measurements", from_median(away)),
        }
    }
}

impl Judged<'_> {
    fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).copied().unwrap_or("?")
    }

    /// Returns the pairs of nodes that are worse than `centre` by more than `reach`, in logarithms.
    fn slow(&self, centre: f64, reach: f64) -> Vec<Slow> {
        let floor = if self.usual.pairs == 1 { LONE } else { FLOOR };
        let judge = |(pair, spread): (Cell, &f64)| {
            let own = DEVIATIONS * NORMAL * spread / pair.value.max(centre);
            let threshold = reach.max((-floor).ln_1p().abs()).max(own);
            let Cell { row, column, value, .. } = pair;
            let (far, away) = (self.worse(value / centre), value / self.usual.centre - 1.0);
            (far > threshold).then_some(Slow { row, column, value, away, threshold })
        };
        self.matrix.measured().zip(self.matrix.spread.iter().flatten().flatten()).filter_map(judge).collect()
    }

    /// Returns how much worse a result ÷ centre is, in logarithms; negative if better.
    fn worse(&self, share: f64) -> f64 {
        -self.metric.better.gain(share.ln())
    }

    /// Returns the nodes that are slow in the role `part` in most of their pairs, with these pairs.
    fn machines(&self, part: PairRole) -> Vec<(u32, Vec<Slow>)> {
        let mut numbers: Vec<u32> = self.matrix.measured().map(|p| part.of((p.row, p.column))).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let slow = |number: u32| {
            let is_own = |row, column| part.of((row, column)) == number;
            let (own, others): (Vec<Cell>, Vec<Cell>) =
                self.matrix.measured().partition(|p| is_own(p.row, p.column));
            let others: Vec<f64> = others.iter().map(|p| p.value).collect();
            let centre = median(others.clone())?;
            let far: Vec<f64> = others.iter().map(|value| self.worse(value / centre)).collect();
            let mad = median(far.iter().map(|far| far.abs()).collect())?;
            let worst = if far.len() < MANY { far.iter().copied().fold(0.0, f64::max) } else { 0.0 };
            let mut slow = self.slow(centre, worst.max(DEVIATIONS * NORMAL * mad));
            slow.retain(|slow| is_own(slow.row, slow.column));
            (slow.len() >= SLOW_PAIRS_OF_NODE && 2 * slow.len() > own.len()).then_some((number, slow))
        };
        numbers.into_iter().filter_map(slow).collect()
    }

    fn machine(&self, number: u32, part: PairRole, own: &[Slow]) -> Option<(f64, Finding)> {
        let value = median(own.iter().map(|slow| slow.value).collect())?;
        let away = value / self.usual.centre - 1.0;
        let (name, word) = (self.name(number), part.word(self.flow));
        let cause = self.known.cause(number, part, self.flow);
        let (case, shown) = (full(&self.measurement.case), Quantity { value, unit: self.metric.unit });
        let (count, distance, why) = (own.len(), self.usual.describe(away), because(cause.as_deref()));
        let text =
            format!("{name} is slow {word}: {case}: {shown} (median of {count} pairs), {distance}{why}");
        let named = |number| self.name(number).to_owned();
        let other = |s: &Slow| named(if part == PairRole::Client { s.column } else { s.row });
        let evidence = SlowNodeEvidence {
            node: name.to_owned(),
            direction: word.to_owned(),
            others: own.iter().map(other).collect(),
            pairs: own.iter().map(|s| [named(s.row), named(s.column)]).collect(),
            case: self.measurement.case.id().as_str().to_owned(),
            metric: self.metric.name.clone(),
            value,
            median: self.usual.centre,
            away,
            cause,
            worse: true,
        };
        Some((away.abs(), Finding::new("slow-node", text, json!(evidence))))
    }

    fn pair(&self, slow: &Slow) -> Finding {
        let (from, to) = (self.name(slow.row), self.name(slow.column));
        let of = |part: PairRole| {
            let number = part.of((slow.row, slow.column));
            Some(format!("on {}, {}", self.name(number), self.known.cause(number, part, self.flow)?))
        };
        let cause = of(PairRole::Client).or_else(|| of(PairRole::Server));
        let text = format!(
            "{from} to {to}: {}: {}, {}{}",
            full(&self.measurement.case),
            Quantity { value: slow.value, unit: self.metric.unit },
            self.usual.describe(slow.away),
            because(cause.as_deref()),
        );
        let evidence = SlowPairEvidence {
            from: from.to_owned(),
            to: to.to_owned(),
            orientation: self.flow.orientation().to_owned(),
            case: self.measurement.case.id().as_str().to_owned(),
            metric: self.metric.name.clone(),
            value: slow.value,
            median: self.usual.centre,
            threshold: slow.threshold,
            away: slow.away,
            cause,
            worse: true,
        };
        Finding::new("slow-pair", text, json!(evidence))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::measurement::Matrix;
    use plimsoll_model::sample::Sample;
    use plimsoll_model::view::testing::peak;

    use super::*;
    use proptest::prelude::*;

    fn cell(row: u32, column: u32, value: f64) -> Cell {
        Cell { row, column, value, mark: None }
    }

    /// All pairs of four nodes with these values, in three samples that differ by `noise`.
    fn measured(values: [f64; 6], noise: f64) -> Measurement {
        let places = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
        let sample = |share: f64| {
            let cells = places.iter().zip(values);
            let matrix = cells.map(|(place, value)| cell(place.0, place.1, value * share)).collect();
            Sample { matrix, ..Sample::default() }
        };
        let mut made = peak(1, 100.0);
        made.metrics[0].matrix = Matrix::of(&[sample(1.0), sample(1.0 - noise), sample(1.0 + noise)]);
        made
    }

    #[test]
    fn the_slow_pair_is_named_and_no_other_pair_or_machine_is() {
        let found = pairs(&measured([100.0, 101.0, 99.0, 100.0, 40.0, 160.0], 0.01), NAMES, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.starts_with("b to d: cpu "), "{}", found[0].text);
        let ends = "40.0 FLOP/s, 60 % below the median of 6 pairs of machines. Cause unknown";
        assert!(found[0].text.ends_with(ends), "{}", found[0].text);
        assert_eq!((&found[0].evidence["from"], &found[0].evidence["to"]), (&"b".into(), &"d".into()));
        let found = pairs(&both(4, |row, column| ((row, column) == (2, 0)).then_some(5.0)), NAMES, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].code.as_str(), &found[0].evidence["from"]), ("slow-pair", &"c".into()));
    }

    #[test]
    fn a_time_is_worse_when_it_is_longer() {
        let mut made = measured([1.0, 1.0, 1.0, 1.0, 0.5, 3.0], 0.01);
        made.metrics[0].better = Better::Lower;
        let describe = |made: &Measurement| -> Vec<String> {
            pairs(made, NAMES, &[]).into_iter().map(|found| found.text).collect()
        };
        let found = describe(&made);
        assert!(found.len() == 1 && found[0].starts_with("c to d"), "{found:?}");
        let ends = "200 % above the median of 6 pairs of machines. Cause unknown";
        assert!(found[0].ends_with(ends), "{found:?}");
        // A percentage would be hard to read.
        made.metrics[0].matrix = measured([1.0, 1.0, 1.0, 1.0, 0.5, 222.9], 0.01).metrics.remove(0).matrix;
        let found = describe(&made);
        let ends = ", 223 times the median of 6 pairs of machines. Cause unknown";
        assert!(found[0].ends_with(ends), "{found:?}");
    }

    #[test]
    fn pairs_that_vary_more_than_they_differ_are_not_named() {
        let values = [100.0, 101.0, 99.0, 100.0, 70.0, 100.0];
        assert_eq!(pairs(&measured(values, 0.2), &[], &[]), []);
        assert_eq!(pairs(&measured(values, 0.01), &[], &[]).len(), 1);
        assert_eq!(pairs(&peak(1, 100.0), &[], &[]), []);
    }

    /// All pairs of `machines` nodes in both directions, 100 unless `value` overrides it.
    fn both(machines: u32, value: impl Fn(u32, u32) -> Option<f64>) -> Measurement {
        let places = (0..machines).flat_map(|row| (0..machines).map(move |column| (row, column)));
        let cell = |(row, column)| cell(row, column, value(row, column).unwrap_or(100.0));
        let matrix = places.filter(|(row, column)| row != column).map(cell).collect();
        let sample = Sample { matrix, ..Sample::default() };
        let mut made = peak(1, 100.0);
        made.case = "network.tcp/message=64K/streams=1/direction=up/server=nodes".parse().unwrap();
        made.metrics[0].matrix = Matrix::of(&[sample.clone(), sample]);
        made
    }

    fn path(from: u32, to: u32, conditions: &[(&str, f64)]) -> PairPath {
        let conditions = conditions.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        PairPath { from, to, conditions }
    }

    const NAMES: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h"];

    #[test]
    fn a_slow_sender_in_the_last_place_is_named_once_with_its_shaper() {
        let made = both(4, |row, _| (row == 3).then_some(5.0));
        let rate = |from: u32| if from == 3 { 10e6 } else { 200e6 };
        let of = |from: u32| (0..4).map(move |to| path(from, to, &[("path_shaped", rate(from))]));
        let paths: Vec<PairPath> = (0..4).flat_map(of).collect();
        let found = pairs(&made, NAMES, &paths);
        assert_eq!(found.len(), 1, "{found:?}");
        let describe = &found[0];
        let told = (describe.code.as_str(), &describe.evidence["node"], &describe.evidence["direction"]);
        assert_eq!(told, ("slow-node", &"d".into(), &"sending".into()));
        assert!(describe.text.starts_with("d is slow sending: "), "{}", describe.text);
        let ends = "95 % below the median of all 12 measurements. Likely cause: a shaper (queueing discipline) limits its \
                    interface to 10.0 Mbit/s, the others' to 200 Mbit/s";
        assert!(describe.text.ends_with(ends), "{}", describe.text);
        // A node's send path does not affect how it receives.
        let receiver = pairs(&both(4, |_, column| (column == 3).then_some(5.0)), NAMES, &paths);
        assert_eq!(receiver.len(), 1);
        assert!(receiver[0].text.starts_with("d is slow receiving: "), "{}", receiver[0].text);
        assert!(receiver[0].text.ends_with("Cause unknown"), "{}", receiver[0].text);
    }

    #[test]
    fn the_direction_of_the_case_says_who_sends() {
        let mut made = both(4, |_, column| (column == 1).then_some(5.0));
        made.case = "network.tcp/message=64K/streams=1/direction=down/server=nodes".parse().unwrap();
        let found = pairs(&made, NAMES, &[]);
        assert!(found.len() == 1 && found[0].text.starts_with("b is slow sending: "), "{found:?}");
    }

    #[test]
    fn of_two_machines_the_slower_direction_is_told() {
        let made = both(2, |row, _| (row == 1).then_some(10.0));
        let paths = [path(1, 0, &[("near_nic_errors", 7.0)]), path(0, 1, &[("near_nic_errors", 0.0)])];
        let found = pairs(&made, NAMES, &paths);
        assert_eq!(found.len(), 1, "{found:?}");
        let text = &found[0].text;
        assert!(text.starts_with("b to a: ") && text.contains("90 % below the other direction"), "{text}");
        assert!(text.ends_with("Likely cause: on b, its interface counted 7 errors"), "{text}");
        assert_eq!(pairs(&both(2, |_, _| None), NAMES, &[]), []);
        // Two directions differ by a few percent.
        let away = |value: f64| both(2, move |row, _| (row == 1).then_some(value));
        assert_eq!(pairs(&away(92.0), NAMES, &[]), []);
        assert_eq!(pairs(&away(88.0), NAMES, &[]).len(), 1);
    }

    /// Chance makes one pair far, but not both pairs of a node.
    #[test]
    fn of_three_machines_a_slow_one_is_named_and_a_pair_as_slow_is_not() {
        let noise = |row: u32, column: u32| 100.0 + f64::from(row * 3 + column * 2) * 4.0;
        let all = both(3, |row, column| Some(noise(row, column) * if row == 1 { 0.3 } else { 1.0 }));
        let found = pairs(&all, NAMES, &[]);
        assert!(found.len() == 1 && found[0].text.starts_with("b is slow sending: "), "{found:?}");
        let one =
            both(3, |row, column| Some(noise(row, column) * if (row, column) == (1, 0) { 0.3 } else { 1.0 }));
        assert_eq!(pairs(&one, NAMES, &[]), []);
    }

    #[test]
    fn two_slow_machines_do_not_hide_each_other() {
        let noise = |row: u32, column: u32| 100.0 + f64::from((row * 5 + column * 3) % 7);
        for [slow, slower] in [[0.3, 0.3], [0.4, 0.05]] {
            let share = |row| [1.0, slow, 1.0, 1.0, slower, 1.0, 1.0, 1.0][row as usize];
            let found = pairs(&both(8, |row, column| Some(noise(row, column) * share(row))), NAMES, &[]);
            let of = |f: &Finding| f.text.split_once(" is slow sending: ").map(|(name, _)| name.to_owned());
            let mut named: Vec<String> = found.iter().filter_map(of).collect();
            named.sort_unstable();
            assert!(named == ["b", "e"] && found.len() == 2, "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn pairs_within_the_floor_are_never_named(values: [u16; 6]) {
            let near = values.map(|value| 99.0 + 2.0 * f64::from(value) / f64::from(u16::MAX));
            prop_assert_eq!(pairs(&measured(near, 0.0), &[], &[]), []);
        }
    }
}
