//! Requirements on results, such as `memory.bandwidth/* bandwidth >= 80% of limit` or `cpu rate >=
//! 95% of baseline`. A requirement that cannot be checked is not met.

use std::collections::HashSet;

use serde::Serialize;

use plimsoll_bench::Metric;
use plimsoll_model::case::{Case, CaseId, Pattern};
use plimsoll_model::limit::median;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::format::USUAL_DIGITS;
use plimsoll_units::quantity::{Quantity, Unit, percent, write_distinct};

/// A parsed requirement.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// Text as typed, safe to print.
    pub text: String,
    pattern: Pattern,
    /// Name of the metric; `None`: the headline.
    metric: Option<String>,
    relation: Relation,
    bound: RequiredBound,
}

type Relation = fn(&f64, &f64) -> bool;

const RELATIONS: [(&str, Relation); 4] = [(">=", f64::ge), ("<=", f64::le), (">", f64::gt), ("<", f64::lt)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum RequiredBound {
    OfLimit(f64),
    OfBaseline(f64),
    Figure(f64, Option<Unit>),
    /// Largest distance of a node's result from the median of all nodes, as a share.
    OfMachines(f64),
}

/// Check of a requirement against one result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequirementResult {
    /// Text of the requirement.
    pub requirement: String,
    /// Case id; null if no result was found.
    pub case: Option<String>,
    /// Whether it is met.
    pub met: bool,
    /// Description of the result.
    pub found: String,
}

const GRAMMAR: &str = "write CASES METRIC >= VALUE, such as 'memory.bandwidth/* bandwidth >= 80% of limit', 'disk.io/* latency <= 200us' or 'cpu rate >= 95% of baseline'";

/// Puts blanks around the first `<`, `<=`, `>` or `>=`, so that `iops>=5` becomes three words.
fn separate_relation(text: &str) -> String {
    let Some(start) = text.find(['<', '>']) else { return text.to_owned() };
    let (before, rest) = text.split_at(start);
    let (relation, after) = rest.split_at(if rest[1..].starts_with('=') { 2 } else { 1 });
    format!("{before} {relation} {after}")
}

impl Requirement {
    /// Parses `cpu rate >= 95% of limit`. The error is one line with the mistake and the grammar.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown = plimsoll_units::text::shown_within(text, 200);
        let wrong = |why: &str| format!("'{shown}': {why}; {GRAMMAR}");
        if let Some(within) = Self::within(text, &shown) {
            return within.map_err(|why| wrong(&why));
        }
        let text = &separate_relation(text);
        let mut words = text.split_whitespace();
        if let Some(near) = misspelt(text) {
            return Err(format!("'{shown}': there is no such benchmark; did you mean '{near}'?"));
        }
        let (Some(pattern), Some(metric), Some(relation)) = (words.next(), words.next(), words.next()) else {
            return Err(wrong("it must be cases, a metric, a relation and a bound"));
        };
        let known = |word: &str| RELATIONS.iter().find(|(name, _)| *name == word).map(|(_, holds)| *holds);
        let Some(relation) = known(relation) else {
            return Err(wrong(match known(metric) {
                Some(_) if pattern.contains(':') => {
                    "cases and metric must have a blank between them, not ':'"
                }
                Some(_) => "the metric is missing before the relation",
                None => "'>=', '<=', '>' or '<' is missing",
            }));
        };
        let rest: Vec<&str> = words.collect();
        let bound = bound(&rest.join(" ")).map_err(|why| wrong(&why))?;
        Ok(Self {
            pattern: Pattern::parse(pattern).map_err(|why| wrong(&why))?,
            metric: Some(metric.to_owned()),
            text: shown.clone(),
            relation,
            bound,
        })
    }

    /// Parses `CASES [METRIC] within SHARE%`; outer `None` if `text` has no `within`.
    fn within(text: &str, shown: &str) -> Option<Result<Self, String>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (pattern, metric, share) = match words.as_slice() {
            [pattern, "within", share @ ..] => (pattern, None, share.concat()),
            [pattern, metric, "within", share @ ..] => (pattern, Some((*metric).to_owned()), share.concat()),
            _ => return None,
        };
        let percent = share.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        let Some(percent) = percent.filter(|p| p.is_finite() && *p >= 0.0) else {
            return Some(Err("within must be followed by a share, such as 5%".to_owned()));
        };
        let bound = RequiredBound::OfMachines(percent / 100.0);
        let made = |pattern| Self { text: shown.to_owned(), pattern, metric, relation: f64::le, bound };
        Some(Pattern::parse(pattern).map(made))
    }

    /// Returns whether the requirement compares with a baseline (an earlier run).
    pub fn needs_baseline(&self) -> bool {
        matches!(self.bound, RequiredBound::OfBaseline(_))
    }

    /// Returns whether the requirement compares several nodes (machines of one run).
    pub fn needs_machines(&self) -> bool {
        matches!(self.bound, RequiredBound::OfMachines(_))
    }

    /// Checks before measuring whether the requirement fits these cases. Returns a warning if some
    /// matches lack the metric. Fails if no case matches or none has the metric in this unit.
    pub fn fits(&self, cases: &[&Case]) -> Result<Option<String>, String> {
        let wrong = |why: String| format!("'{}': {why}", self.text);
        let meant: Vec<&Case> =
            cases.iter().copied().filter(|case| self.pattern.matches(case.id().as_str())).collect();
        let Some(first) = meant.first() else {
            return Err(wrong("no case of this run matches it; --list lists the cases".to_owned()));
        };
        let rows: Vec<Metric> = meant.iter().filter_map(|case| self.row(case)).collect();
        let name = plimsoll_units::text::shown(self.metric.as_deref().unwrap_or("headline"));
        if rows.is_empty() {
            let metrics =
                plimsoll_bench::find(first.benchmark()).map(|b| b.metrics(first)).unwrap_or_default();
            let names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
            let (benchmark, names) = (plimsoll_units::text::shown(first.benchmark()), names.join(", "));
            return Err(wrong(format!("{benchmark} has no metric '{name}'; it has {names}")));
        }
        self.check_unit(&meant)?;
        let mut without: Vec<&str> =
            meant.iter().filter(|case| self.row(case).is_none()).map(|case| case.benchmark()).collect();
        without.dedup();
        Ok((rows.len() < meant.len()).then(|| {
            format!(
                "--require '{}' checks {} of the {} cases it names: {} has no metric '{name}'",
                self.text,
                rows.len(),
                meant.len(),
                without.join(", ")
            )
        }))
    }

    /// Fails if the bound is a figure that is not in the unit of the metric of a matching case.
    pub fn check_unit(&self, cases: &[&Case]) -> Result<(), String> {
        let RequiredBound::Figure(value, unit) = self.bound else { return Ok(()) };
        let meant = cases.iter().filter(|case| self.pattern.matches(case.id().as_str()));
        let mut rows = meant.filter_map(|case| self.row(case));
        let Some(row) = rows.find(|row| row.unit != unit.unwrap_or(Unit::One)) else { return Ok(()) };
        let given =
            unit.map_or_else(|| format!("{value} has no unit"), |unit| format!("{unit} is another unit"));
        Err(format!("'{}': {} must be given in {}: {given}", self.text, row.name, row.unit))
    }

    /// Returns the metric of a case that the requirement checks, if its benchmark has it.
    fn row(&self, case: &Case) -> Option<Metric> {
        match &self.metric {
            Some(name) => plimsoll_bench::metric(case, name),
            None => plimsoll_bench::find(case.benchmark())?.metrics(case).into_iter().next(),
        }
    }

    /// Returns whether the metric applies: the benchmark has it or is unknown, or a result has it.
    fn is_about(&self, measurement: &Measurement) -> bool {
        let case = &measurement.case;
        plimsoll_bench::find(case.benchmark()).is_none()
            || self.row(case).is_some()
            || self.metric_of(measurement).is_some()
    }

    fn result(&self, case: Option<&Case>, met: bool, found: String) -> RequirementResult {
        let case = case.map(|case| case.id().as_str().to_owned());
        RequirementResult { requirement: self.text.clone(), case, met, found }
    }

    /// Checks each matching measurement of the run; without any, returns one failure. A missing
    /// result fails. `baseline` returns the earlier value of a metric, if there is one.
    pub fn check(
        &self,
        run: &Run,
        baseline: impl Fn(&Measurement, &MetricResult) -> Option<f64>,
    ) -> Vec<RequirementResult> {
        let meant = run.measurements.iter().filter(|m| self.pattern.matches(m.case.id().as_str()));
        let meant: Vec<&Measurement> = meant.filter(|m| self.is_for(m, run)).collect();
        let mut held: Vec<RequirementResult> =
            meant.iter().filter_map(|m| self.held(m, run, &baseline)).collect();
        if held.is_empty() {
            let metric = self.metric.as_deref().unwrap_or("headline");
            let found = match meant.len() {
                0 => "no case of the run has such a name".to_owned(),
                _ => format!("none of these cases has a metric '{}'", plimsoll_units::text::shown(metric)),
            };
            held.push(self.result(None, false, found));
        }
        held
    }

    /// Returns a failure per result that `run`, the last of the second side, lacks but `earlier`
    /// runs of that side or runs of the `first` side have.
    pub fn lost(&self, run: &Run, earlier: &[Run], first: &[Run]) -> Vec<RequirementResult> {
        let many = earlier.iter().chain(first).any(|run| run.nodes.len() > 1) || run.nodes.len() > 1;
        let key = |m: &Measurement| (many.then(|| m.node.clone()), m.case.id());
        let ok = |m: &Measurement| m.effective_status().0 == Status::Ok;
        let reported = |m: &&Measurement| !ok(m) || self.metric_of(m).is_some();
        let mut known: HashSet<(Option<String>, CaseId)> =
            run.measurements.iter().filter(reported).map(key).collect();
        let mut lost = Vec::new();
        let mut look = |runs: &[Run], failures: bool, why: &str| {
            let all = runs.iter().rev().flat_map(|run| run.measurements.iter().map(move |m| (run, m)));
            for (of, one) in all {
                let counts = if ok(one) { self.metric_of(one).is_some() } else { failures };
                let (node, id) = key(one);
                let meant = counts && self.pattern.matches(id.as_str()) && self.is_for(one, of);
                if meant && known.insert((node.clone(), id.clone())) {
                    let node =
                        node.map(|node| format!("{}: ", plimsoll_units::text::shown_within(&node, 64)));
                    lost.push(self.result(Some(&one.case), false, node.unwrap_or_default() + why));
                }
            }
        };
        look(earlier, true, "missing in the last run");
        look(first, false, "missing, and A has it");
        lost
    }

    /// Returns whether the measurement can be checked; "within" needs another node with the case.
    fn is_for(&self, measurement: &Measurement, run: &Run) -> bool {
        let other = |m: &Measurement| m.case == measurement.case && m.node != measurement.node;
        let of_machines = matches!(self.bound, RequiredBound::OfMachines(_)) && run.nodes.len() > 1;
        !of_machines || run.measurements.iter().any(other)
    }

    fn metric_of<'a>(&self, measurement: &'a Measurement) -> Option<&'a MetricResult> {
        match &self.metric {
            Some(name) => measurement.metrics.iter().find(|m| m.name == *name),
            None => measurement.metrics.first(),
        }
    }

    /// Returns the value that a node's result is compared with: the median over all nodes, or of
    /// two nodes the other one's value; `None` for one node.
    fn others(&self, measurement: &Measurement, run: &Run) -> Option<f64> {
        let all =
            run.measurements.iter().filter(|m| m.repeat == measurement.repeat && m.case == measurement.case);
        let all = all.filter(|m| m.effective_status().0 == Status::Ok);
        let figures = all.filter_map(|m| Some((m.node.as_str(), self.metric_of(m)?.summary.median)));
        let figures: Vec<(&str, f64)> = figures.filter(|(_, value)| *value > 0.0).collect();
        match figures.as_slice() {
            [] | [_] => None,
            [one, other] => Some(if one.0 == measurement.node { other.1 } else { one.1 }),
            all => median(all.iter().map(|(_, value)| *value).collect()),
        }
    }

    fn held(
        &self,
        measurement: &Measurement,
        run: &Run,
        baseline: &impl Fn(&Measurement, &MetricResult) -> Option<f64>,
    ) -> Option<RequirementResult> {
        let node = match run.nodes.len() {
            0 | 1 => String::new(),
            _ => format!("{}: ", plimsoll_units::text::shown_within(&measurement.node, 64)),
        };
        let result =
            |met: bool, found: String| Some(self.result(Some(&measurement.case), met, node.clone() + &found));
        if !self.is_about(measurement) {
            return None;
        }
        let (status, reason) = measurement.effective_status();
        if status != Status::Ok {
            let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
            return result(false, format!("{}: {reason}", status.word()));
        }
        let Some(metric) = self.metric_of(measurement) else {
            let name = plimsoll_units::text::shown(self.metric.as_deref().unwrap_or("headline"));
            let found = format!("this case has no figure of '{name}'; name the cases that have");
            return self.row(&measurement.case).and_then(|_| result(false, found));
        };
        let value = metric.summary.median;
        let shown = Quantity::new(value, metric.unit).to_string();
        let of_share = |share: f64, bound: f64, what: &str| {
            let found =
                format!("{shown}, {} {what}", write_distinct([share, bound], USUAL_DIGITS, percent)[0]);
            result((self.relation)(&share, &bound), found)
        };
        match self.bound {
            RequiredBound::OfLimit(bound) => match metric.of_limit {
                Some(share) => of_share(share, bound, "of limit"),
                None => result(false, format!("{shown}, and {}", unknown_limit(metric))),
            },
            RequiredBound::OfBaseline(bound) => {
                match baseline(measurement, metric).filter(|base| *base > 0.0) {
                    Some(base) => of_share(value / base, bound, "of the baseline"),
                    None => result(false, format!("{shown}, but the baseline has no such figure")),
                }
            }
            RequiredBound::OfMachines(bound) => match self.others(measurement, run) {
                Some(middle) => {
                    let side = if value < middle { "below" } else { "above" };
                    of_share((value / middle - 1.0).abs(), bound, &format!("{side} the machines' median"))
                }
                None => result(false, format!("{shown}, but no other machine has such a figure")),
            },
            RequiredBound::Figure(_, Some(unit)) if unit != metric.unit => {
                result(false, format!("{shown}, which is not in {unit}"))
            }
            RequiredBound::Figure(bound, _) => {
                let human = |value, digits| Quantity::new(value, metric.unit).human(digits);
                let [shown, _] = write_distinct([value, bound], USUAL_DIGITS, human);
                result((self.relation)(&value, &bound), shown)
            }
        }
    }
}

fn unknown_limit(metric: &MetricResult) -> String {
    let reason = metric.limit.as_ref().and_then(|limit| limit.reason.clone());
    reason.map_or("no limit is known".to_owned(), |why| format!("its limit is unknown: {why}"))
}

/// Returns the most similar benchmark name if the first word is `NAME.NAME` but no benchmark.
fn misspelt(text: &str) -> Option<String> {
    let name = text
        .split([' ', '/'])
        .next()
        .filter(|name| name.contains('.') && !name.contains(['*', '?', '[', '{']))?;
    if plimsoll_bench::find(name).is_some() { None } else { plimsoll_bench::nearest_name(name) }
}

fn bound(text: &str) -> Result<RequiredBound, String> {
    let (number, rest) = split_number(text);
    let value: f64 = number.parse().map_err(|_| "the bound must begin with a number".to_owned())?;
    if !value.is_finite() {
        return Err(format!("the bound is too large: {number}"));
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(RequiredBound::Figure(value, None)),
        ["%", "of", "limit"] if value > 100.0 => Err("no result is above 100 % of its limit".to_owned()),
        ["%", "of", "limit"] => Ok(RequiredBound::OfLimit(value / 100.0)),
        ["%", "of", "baseline"] => Ok(RequiredBound::OfBaseline(value / 100.0)),
        ["%"] => Err("a percentage must be 'of limit' or 'of baseline'".to_owned()),
        [unit] => {
            let (factor, unit) = scaled_unit(unit).ok_or_else(|| {
                let is_prefix = scaled_unit(&format!("{unit}IOPS")).is_some();
                let unit = plimsoll_units::text::shown(unit);
                match is_prefix {
                    true => {
                        format!("'{unit}' lacks its unit, as in {number}{unit}IOPS or {number}{unit}bit/s")
                    }
                    false => format!("'{unit}' is not a unit, such as GFLOP/s, GB/s, Gbit/s, kIOPS, us"),
                }
            })?;
            Ok(RequiredBound::Figure(value * factor, Some(unit)))
        }
        _ => Err("the bound must be a number with a unit, 'N% of limit' or 'N% of baseline'".to_owned()),
    }
}

/// Splits a leading number from the rest. An `e` belongs to the number only if digits follow.
fn split_number(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let exponent = |at: usize| {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit)
    };
    let part = |at: usize| match bytes[at] {
        b'0'..=b'9' | b'.' => true,
        b'+' | b'-' => at == 0 || matches!(bytes[at - 1], b'e' | b'E'),
        b'e' | b'E' => at > 0 && exponent(at),
        _ => false,
    };
    let end = (0..bytes.len()).find(|&at| !part(at)).unwrap_or(bytes.len());
    text.split_at(end)
}

/// Parses a unit with an SI prefix: `Gbit/s` is (10⁹, bit/s); `None` if unknown.
fn scaled_unit(text: &str) -> Option<(f64, Unit)> {
    const VALUE_PREFIXES: &[(&str, f64)] = &[
        ("", 1.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("µ", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
    ];
    let unit = |(prefix, factor): &(&str, f64)| Some((*factor, Unit::from_name(text.strip_prefix(prefix)?)?));
    VALUE_PREFIXES.iter().find_map(unit)
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;
    use proptest::prelude::*;

    use super::*;

    fn held(requirement: &str) -> Vec<(bool, String)> {
        let run = fixture::run();
        let check = Requirement::parse(requirement).unwrap().check(&run, |m, _| {
            m.case.id().as_str().starts_with("cpu.peak/op=fma/type=f64").then_some(110e9)
        });
        check.into_iter().map(|h| (h.met, h.found)).collect()
    }

    #[test]
    fn figures_are_held_against_limit_baseline_and_number() {
        assert!(held("cpu.peak/*f64* rate >= 99% of limit").iter().all(|(met, _)| *met));
        assert!(held("cpu.peak/*f64* rate > 99.9% of limit").iter().any(|(met, _)| !*met));
        let of_baseline = held("cpu.peak/*f64* rate >= 107% of baseline");
        assert_eq!(of_baseline.iter().map(|h| h.0).collect::<Vec<_>>(), [false, true]);
        assert!(of_baseline[1].1.contains("107.4 % of the baseline"), "{of_baseline:?}");
        assert_eq!(held("network.tcp goodput >= 31 Gbit/s"), [(true, "31.4 Gbit/s".to_owned())]);
        assert!(!held("network.tcp goodput >= 32Gbit/s")[0].0);
        assert!(held("network.latency rtt < 13us")[0].0 && !held("network.latency rtt < 1.2e-5")[0].0);
    }

    #[test]
    fn what_cannot_be_checked_is_not_met() {
        let only = |requirement: &str, word: &str| {
            let held = held(requirement);
            assert!(held.iter().all(|(met, found)| !met && found.contains(word)), "{held:?}");
        };
        only("memory.bandwidth bandwidth >= 1% of limit", "limit is unknown");
        only("network.tcp goodput >= 1% of baseline", "the baseline has no such figure");
        only("network.tcp goodput >= 1 B/s", "not in B/s");
        only("gpu rate >= 1", "no case");
        only("network.tcp rate >= 1", "none of these cases");
        only("disk.io/op=write/* rate >= 1", "failed: no space");
        only("cpu.peak/*f32* rate >= 1", "invalid: rate is 110.1 % of its limit");
        only("disk.io/op=read* sync <= 1", "no figure of 'sync'");
    }

    #[test]
    fn what_no_run_of_these_cases_can_meet_is_found_before_it() {
        let cases: Vec<Case> = fixture::run().measurements.into_iter().map(|m| m.case).collect();
        let all: Vec<&Case> = cases.iter().collect();
        let fits = |text: &str| Requirement::parse(text).unwrap().fits(&all);
        assert!(fits("gpu rate >= 1").unwrap_err().contains("no case of this run matches"));
        let other = fits("network.tcp rate >= 1").unwrap_err();
        assert!(other.contains("network.tcp has no metric 'rate'; it has goodput"), "{other}");
        let unit = fits("network.tcp goodput >= 1 B/s").unwrap_err();
        assert!(unit.contains("goodput must be given in bit/s: B/s is another unit"), "{unit}");
        assert_eq!(fits("network.tcp goodput >= 1 Gbit/s"), Ok(None));
        assert_eq!(fits("network.tcp goodput >= 80% of limit"), Ok(None));
        let without = fits("network.tcp goodput >= 100").unwrap_err();
        assert!(without.contains("goodput must be given in bit/s: 100 has no unit"), "{without}");
        let some = fits("network goodput >= 1 bit/s").unwrap();
        assert_eq!(some, None, "every benchmark of network has it");
        let some = fits("* goodput >= 1 bit/s").unwrap().unwrap();
        assert!(some.contains("has no metric 'goodput'") && some.contains("cpu.peak"), "{some}");
    }

    #[test]
    fn what_reaches_its_bound_meets_it_unless_that_is_strict() {
        let mut run = fixture::run();
        run.measurements.truncate(1);
        let mut met = |value: f64, requirement: &str, base: f64| {
            let metric = &mut run.measurements[0].metrics[0];
            (metric.summary.median, metric.of_limit) = (value, Some(value / 100e9));
            Requirement::parse(requirement).unwrap().check(&run, |_, _| Some(base)).remove(0).met
        };
        for (relation, expected) in [
            (">=", [false, true, true]),
            ("<=", [true, true, false]),
            (">", [false, false, true]),
            ("<", [true, false, false]),
        ] {
            for bound in ["100 GFLOP/s", "100% of limit", "100% of baseline"] {
                let text = format!("cpu rate {relation} {bound}");
                assert_eq!([99e9, 100e9, 101e9].map(|value| met(value, &text, 100e9)), expected, "{text}");
            }
        }
        for base in [0.0, -1.0, f64::NAN] {
            assert!(!met(1.0, "cpu rate > 1% of baseline", base), "{base} is no baseline");
        }
    }

    #[test]
    fn a_figure_that_missed_its_bound_never_looks_like_it() {
        let mut run = fixture::run();
        run.measurements.truncate(1);
        let metric = &mut run.measurements[0].metrics[0];
        (metric.summary.median, metric.of_limit) = (99.999_9e9, Some(0.989_999));
        let found = |text: &str| Requirement::parse(text).unwrap().check(&run, |_, _| Some(100e9)).remove(0);
        for (text, looks) in [
            ("cpu rate >= 100 GFLOP/s", "100 GFLOP/s"),
            ("cpu rate >= 99% of limit", "99.0 % of limit"),
            ("cpu rate >= 100% of baseline", "100 % of the baseline"),
        ] {
            let held = found(text);
            assert!(!held.met && !held.found.ends_with(looks), "{held:?}");
        }
        assert!(found("cpu rate >= 99 GFLOP/s").found.starts_with("100 GFLOP/s"));
    }

    #[test]
    fn machines_are_held_against_their_median() {
        let mut run = fixture::run();
        run.measurements.truncate(1);
        run = fixture::on_nodes(&run, &["a", "b", "c"]);
        for (one, share) in run.measurements.iter_mut().zip([1.0, 1.04, 0.9]) {
            one.metrics[0].summary.median *= share;
        }
        let check = |text: &str, run: &Run| -> Vec<(bool, String)> {
            let held = Requirement::parse(text).unwrap().check(run, |_, _| None);
            held.into_iter().map(|h| (h.met, h.found)).collect()
        };
        let held = check("cpu within 5%", &run);
        assert_eq!(held.iter().map(|h| h.0).collect::<Vec<_>>(), [true, true, false]);
        let found = &held[2].1;
        assert!(found.starts_with("c: ") && found.ends_with("10.0 % below the machines' median"), "{found}");
        assert!(check("cpu rate within 10 %", &run).iter().all(|h| h.0));
        run.measurements.truncate(1);
        assert!(!check("cpu within 5%", &run)[0].0, "one machine has no other to compare with");
    }

    #[test]
    fn what_is_missing_is_not_met() {
        let owned = |runs: &[&Run]| -> Vec<Run> { runs.iter().map(|run| (*run).clone()).collect() };
        let all = |text: &str, b: &Run, earlier: &[&Run], a: &[&Run]| -> Vec<(String, String)> {
            let lost = Requirement::parse(text).unwrap().lost(b, &owned(earlier), &owned(a));
            assert!(lost.iter().all(|one| !one.met));
            lost.into_iter().map(|one| (one.case.unwrap(), one.found)).collect()
        };
        let whole = fixture::run();
        let case = |n: usize| whole.measurements[n].case.id().as_str().to_owned();
        let mut less = whole.clone();
        less.measurements.remove(0);
        assert!(all("cpu rate >= 1", &whole, &[&less], &[&less]).is_empty());
        let of_a = [(case(0), "missing, and A has it".to_owned())];
        assert_eq!(all("cpu rate >= 1", &less, &[], &[&whole]), of_a);
        assert!(all("network.tcp rate >= 1", &less, &[], &[&whole]).is_empty());
        let of_b = [(case(0), "missing in the last run".to_owned())];
        let before = [&whole, &whole];
        assert_eq!(all("cpu rate >= 1", &less, &before, &[&whole]), of_b);
        let mut failed = whole.clone();
        (failed.measurements[0].status, failed.measurements[0].reason) = (Status::Failed, None);
        assert_eq!(all("cpu rate >= 1", &less, &[&failed], &[]), of_b);
        assert!(all("cpu rate >= 1", &less, &[], &[&failed]).is_empty(), "A has no figure of it");
        let mut other = whole.clone();
        other.measurements[0].metrics[0].name = "other".to_owned();
        assert_eq!(all("cpu rate >= 1", &other, &[], &[&whole]), of_a);
        let first = Run { measurements: whole.measurements[..1].to_vec(), ..whole.clone() };
        let of = |nodes: &[&str]| fixture::on_nodes(&first, nodes);
        for left in [["a", "c"].as_slice(), &["a"]] {
            let lost = all("cpu rate >= 1", &of(left), &[], &[&of(&["a", "b", "c"])]);
            assert_eq!(lost.len(), 3 - left.len());
            assert_eq!(lost[0], (case(0), "b: missing, and A has it".to_owned()));
        }
        let lost = all("cpu within 5%", &of(&["a", "c"]), &[&of(&["a", "b"])], &[]);
        assert_eq!(lost[0].1, "b: missing in the last run");
        assert!(all("cpu rate >= 1", &of(&["a"]), &[], &[&of(&["b"])]).is_empty());
    }

    #[test]
    fn mistakes_are_told_with_the_grammar() {
        for (wrong, word) in [
            ("", "it must be cases, a metric"),
            ("cpu rate", "it must be cases, a metric"),
            ("cpu rate = 3", "missing"),
            ("memory.bandwith/* bandwidth >= 1 GB/s", "did you mean 'memory.bandwidth'?"),
            ("memory.bandwith >= 1 GB/s", "did you mean 'memory.bandwidth'?"),
            ("cpu:rate >= 3", "a blank between them, not ':'"),
            ("cpu rate >= fast", "begin with a number"),
            ("cpu rate >= 80%", "must be 'of limit'"),
            ("cpu rate >= 80% of hope", "the bound must be"),
            ("cpu rate >= 8 parsec", "'parsec' is not a unit,"),
            ("cpu rate >= 1e999", "too large"),
            ("cpu/[ rate >= 1", "such as"),
            ("cpu within", "within must be"),
            ("cpu rate within 5", "within must be"),
            ("cpu within -5%", "within must be"),
        ] {
            let error = Requirement::parse(wrong).unwrap_err();
            assert!(error.contains(word) && !error.contains('\n'), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
            let _ = Requirement::parse(&text);
        }

        #[test]
        fn numbers_come_through(value in 1e-12f64..1e15) {
            let read = |text: String| bound(&text).unwrap();
            prop_assert_eq!(read(format!("{value}")), RequiredBound::Figure(value, None));
            prop_assert_eq!(read(format!("{value:e} s")), RequiredBound::Figure(value, Some(Unit::Second)));
        }
    }
}
