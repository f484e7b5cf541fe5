//! Limits from the user, such as data sheet values: `--limits examples/limits-vm.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use plimsoll_units::quantity::Unit;
use plimsoll_units::text::{LinePositions, read_small, shown, shown_path};
use serde::Deserialize;

use super::{Input, Limit, LimitKind, LimitSource, formula};
use crate::case::{Case, Pattern};
use crate::metric::Metric;

/// Advice for limits of virtual disks and links, which software cannot see.
pub const OF_VIRTUAL_DEVICES: &str = "give it with --limits FILE, such as examples/limits-vm.toml";

const MAX_BYTES: u64 = 1 << 20;

/// Limits from the user.
#[derive(Clone, Debug, Default)]
pub struct UserLimits {
    given: Vec<GivenLimit>,
}

#[derive(Clone, Debug)]
struct GivenLimit {
    matches: Pattern,
    row: UserLimit,
    value: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    limit: Vec<UserLimit>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserLimit {
    #[serde(rename = "match")]
    glob: String,
    metric: String,
    unit: Unit,
    value: Option<f64>,
    formula: Option<String>,
    #[serde(default)]
    inputs: BTreeMap<String, f64>,
    kind: LimitKind,
    source: String,
    note: Option<String>,
}

/// Mistake in a limits file. `Display` continues a line that ends in the file's name.
#[derive(Debug, thiserror::Error)]
#[error(", {position}: {why}")]
pub struct UserLimitError {
    position: String,
    /// Reason.
    pub why: String,
}

impl UserLimitError {
    /// Creates the error `why` about the limit number `index` (from 0) in a limits file.
    fn of_limit(index: usize, why: String) -> Self {
        Self { position: format!("limit {}", index + 1), why }
    }
}

impl UserLimits {
    /// Reads a limits file (TOML); the error is one line, with line and column if possible.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = shown_path(path);
        let text = read_small(path, MAX_BYTES).map_err(|why| format!("--limits {file}: {why}"))?;
        Self::parse(&text).map_err(|why| format!("--limits {file}{why}"))
    }

    /// Adds the limits of `more`.
    pub fn extend(&mut self, more: Self) {
        self.given.extend(more.given);
    }

    /// Parses the text of a limits file.
    pub fn parse(text: &str) -> Result<Self, UserLimitError> {
        if text.trim_start().starts_with('{') {
            let why = "it is JSON, and must be TOML: [[limit]], then match, metric, value and unit";
            return Err(UserLimitError { position: "line 1".to_owned(), why: why.to_owned() });
        }
        let file: File = toml::from_str(text).map_err(|e| {
            let start = e.span().map_or(0, |span| span.start);
            let (line, column) = LinePositions::new(text).position(start);
            let line_of_key = text.lines().nth(line - 1).and_then(|line| line.split_once('='));
            let why = name_position(e.message(), line_of_key.map_or("limit", |(key, _)| key.trim()));
            UserLimitError { position: format!("line {line}, column {column}"), why: shown(&why) }
        })?;
        let given = file.limit.into_iter().enumerate();
        let given =
            given.map(|(i, row)| GivenLimit::new(row).map_err(|why| UserLimitError::of_limit(i, why)));
        Ok(Self { given: given.collect::<Result<_, _>>()? })
    }

    /// Fails if a limit matches none of `benchmarks`, each a name with the benchmark's metrics.
    pub fn fit(&self, benchmarks: &[(&str, &[Metric])]) -> Result<(), UserLimitError> {
        let mut given = self.given.iter().enumerate();
        given.try_for_each(|(i, g)| g.fit(benchmarks).map_err(|why| UserLimitError::of_limit(i, why)))
    }

    /// Returns the limits that match the case and the name and unit of `metric`; may be empty.
    pub fn of(&self, case: &Case, metric: &Metric) -> Vec<Limit> {
        let id = case.id();
        let fits = |g: &&GivenLimit| {
            metric.name == g.row.metric && g.row.unit == metric.unit && g.matches.matches(id.as_str())
        };
        self.given.iter().filter(fits).map(|g| g.row.limit(g.value)).collect()
    }
}

impl GivenLimit {
    fn new(row: UserLimit) -> Result<Self, String> {
        let value = row.known_value()?;
        let matches = Pattern::parse(&row.glob).map_err(|why| format!("match: {why}"))?;
        Ok(Self { matches, row, value })
    }

    fn fit(&self, benchmarks: &[(&str, &[Metric])]) -> Result<(), String> {
        let UserLimit { glob, metric, unit, .. } = &self.row;
        let (glob, metric) = (shown(glob), shown(metric));
        // Pattern of the benchmark; if it is invalid by itself, any benchmark may match.
        let before = Pattern::parse(self.row.glob.split('/').next().unwrap_or_default());
        let meant = |name: &str| before.as_ref().map_or(true, |before| before.matches(name));
        let meant: Vec<_> = benchmarks.iter().filter(|(name, _)| meant(name)).collect();
        if meant.is_empty() {
            return Err(format!(
                "match '{glob}' matches no benchmark; write a name such as memory.bandwidth"
            ));
        }
        let metrics = || meant.iter().flat_map(|(_, metrics)| metrics.iter());
        let called: Vec<&Metric> = metrics().filter(|m| m.name == self.row.metric).collect();
        let joined = |words: BTreeSet<&str>| words.into_iter().collect::<Vec<_>>().join(", ");
        if called.is_empty() {
            let names = joined(metrics().map(|m| m.name).collect());
            return Err(format!("metric '{metric}' is not a metric of '{glob}', which has {names}"));
        }
        if called.iter().all(|m| m.unit != *unit) {
            let units = joined(called.iter().map(|m| m.unit.name()).collect());
            return Err(format!("unit must be {units} for {metric}: {} is not", unit.name()));
        }
        Ok(())
    }
}

/// Rewords serde's error `message` about key `key` in the style of command line errors.
fn name_position(message: &str, key: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let (what, expected) = match message.strip_prefix("wanted ") {
        Some(expected) => ("", expected),
        None => message.split_once(", expected ").unwrap_or((message, "")),
    };
    let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let named = |what: &str| what.split('`').nth(1).unwrap_or_default().to_owned();
    if let Some(what) = what.strip_prefix("unknown field ") {
        if names == ["limit"] {
            return format!(
                "unknown key '{}'; each limit is a table [[limit]], as in examples/limits.toml",
                named(what)
            );
        }
        return format!("unknown key '{}'; valid keys are {}", named(what), names.join(", "));
    }
    if let Some(what) = what.strip_prefix("missing field ") {
        return format!("a limit requires {}", named(what));
    }
    if let Some(what) = what.strip_prefix("unknown variant ") {
        return format!("{key} must be one of {}: '{}' is not", names.join(", "), named(what));
    }
    let expected = match expected {
        "f64" => "a number",
        "a string" | "string or table" => "text in quotes",
        "a map" => "a table",
        "a sequence" => "written as [[limit]], with double brackets",
        _ => return message.to_owned(),
    };
    format!("{key} must be {expected}")
}

impl UserLimit {
    /// Returns `value` or that of `formula`; fails unless exactly one is set, finite and above 0.
    fn known_value(&self) -> Result<f64, String> {
        if let Some((name, value)) = self.inputs.iter().find(|(_, value)| !value.is_finite()) {
            return Err(format!("inputs: {} = {value} is not a finite number", shown(name)));
        }
        match (self.value, &self.formula) {
            (Some(_), Some(_)) => Err("it has a value and a formula; give one of them".to_owned()),
            (None, None) => Err("it has neither a value nor a formula; give one of them".to_owned()),
            (Some(_), None) if !self.inputs.is_empty() => {
                Err("inputs belong to a formula, and there is a value".to_owned())
            }
            (Some(value), None) if value.is_finite() && value > 0.0 => Ok(value),
            (Some(value), None) => Err(format!("value {value} is not a finite number above zero")),
            (None, Some(text)) => {
                formula::evaluate(text, &self.inputs).map_err(|why| format!("formula: {why}"))
            }
        }
    }

    fn limit(&self, value: f64) -> Limit {
        let from = shown(&self.source);
        let input = |name: &str, value, unit: &str| Input::new(&shown(name), value, unit, &from);
        let (formula, inputs) = match &self.formula {
            Some(text) => {
                let inputs = self.inputs.iter().map(|(name, value)| input(name, *value, "1"));
                (shown(text), inputs.collect())
            }
            None => ("as given".to_owned(), vec![input("value", value, self.unit.name())]),
        };
        let mut limit = Limit::fixed(self.kind, LimitSource::User, value, &formula, inputs);
        limit.reason = self.note.as_deref().map(shown);
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Better;

    const BANDWIDTH: Metric = Metric::new("bandwidth", Unit::BytePerSecond, Better::Higher);

    fn file(kind: &str, value: &str) -> String {
        format!(
            "[[limit]]\nmatch = \"memory.bandwidth/*\"\nmetric = \"bandwidth\"\nunit = \"B/s\"\nvalue = {value}\nkind = \"{kind}\"\nsource = \"data sheet\"\n"
        )
    }

    #[test]
    fn a_limit_is_for_the_cases_and_metric_that_it_names() {
        let limits = UserLimits::parse(&file("ceiling", "5e10")).unwrap();
        let case: Case = "memory.bandwidth/op=read".parse().unwrap();
        let found = limits.of(&case, &BANDWIDTH);
        let Limit { value, source, kind, .. } = found[0];
        assert_eq!((value, source, kind), (Some(5e10), LimitSource::User, LimitKind::Ceiling));
        assert!(limits.of(&case, &Metric { name: "bus_bandwidth", ..BANDWIDTH }).is_empty());
        assert!(limits.of(&"memory.latency".parse().unwrap(), &BANDWIDTH).is_empty());
        let of_all_cases = UserLimits::parse(&file("ceiling", "5e10").replace("/*", "")).unwrap();
        assert_eq!(of_all_cases.of(&case, &BANDWIDTH).len(), 1);
    }

    #[test]
    fn a_limit_that_no_figure_has_is_refused_by_what_is_wrong() {
        let fit = |from: &str, to: &str| {
            let limits = UserLimits::parse(&file("ceiling", "1").replace(from, to)).unwrap();
            let fits = limits.fit(&[("memory.bandwidth", &[BANDWIDTH]), ("memory.latency", &[])]);
            fits.map_err(|error| error.to_string())
        };
        for name in ["memory.bandwidth", "memory.bandwidth/*", "memory", "*", "memory.*/op=read*"] {
            assert_eq!(fit("memory.bandwidth/*", name), Ok(()), "{name}");
        }
        let no_metric = "metric 'rate' is not a metric of 'memory.bandwidth/*', which has bandwidth";
        let wrong = [
            ("memory.bandwidth/*", "memory.bandwith", "match 'memory.bandwith' matches no benchmark"),
            ("\"bandwidth\"", "\"rate\"", no_metric),
            ("\"B/s\"", "\"s\"", "unit must be B/s for bandwidth: s is not"),
        ];
        for (from, to, why) in wrong {
            let error = fit(from, to).unwrap_err();
            assert!(error.starts_with(", limit 1: ") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_formula_is_computed_and_kept_with_its_inputs() {
        let given = |value: &str| file("ceiling", "1").replace("value = 1", value);
        let text =
            given("formula = \"channels * 8 * transfers\"\ninputs = { channels = 2, transfers = 4.8e9 }");
        let case: Case = "memory.bandwidth/op=read".parse().unwrap();
        let limit = UserLimits::parse(&text).unwrap().of(&case, &BANDWIDTH).remove(0);
        assert_eq!((limit.value, limit.formula.as_str()), (Some(76.8e9), "channels * 8 * transfers"));
        let names: Vec<&str> = limit.inputs.iter().map(|input| input.name.as_str()).collect();
        assert_eq!((names, limit.inputs[0].from.as_str()), (vec!["channels", "transfers"], "data sheet"));
        let wrong = [
            ("formula = \"channels\"", "limit 1: formula: 'channels' is not among the inputs"),
            ("formula = \"2\"\nvalue = 2", "a value and a formula"),
            ("note = \"\"", "neither a value nor a formula"),
            ("value = 2\ninputs = { a = 1 }", "inputs belong to a formula"),
            ("formula = \"a\"\ninputs = { a = inf }", "inputs: a = inf"),
        ];
        for (text, why) in wrong {
            let error = UserLimits::parse(&given(text)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let error = |text: &str| UserLimits::parse(text).unwrap_err().to_string();
        let roof = error(&file("roof", "1"));
        assert!(roof.starts_with(", line 6, column 8: "), "{roof}");
        assert!(error(&file("ceiling", "-1")).contains("above zero"));
        assert!(error(&file("ceiling", "nan")).contains("above zero"));
        let unknown = error(&format!("{}colour = 1\n", file("floor", "1")));
        let text = "line 8, column 1: unknown key 'colour'; valid keys are match, metric,";
        assert!(unknown.contains(text), "{unknown}");
        let wrong = [
            ("\"ceiling\"", "\"roof\"", "kind must be one of ceiling, floor"),
            ("\"ceiling\"", "3", "kind must be text in quotes"),
            ("\"B/s\"", "\"parsec\"", "unit must be one of B/s, "),
            ("\"B/s\"", "3", "unit must be text in quotes"),
            ("\"data sheet\"", "[]", "source must be text in quotes"),
            ("value = 1", "value = \"much\"", "value must be a number"),
            ("value = 1", "inputs = 1", "inputs must be a table"),
            ("unit = \"B/s\"\n", "", "line 1, column 1: a limit requires unit"),
            ("[[limit]]", "[limit]", "limit must be written as [[limit]], with double brackets"),
        ];
        for (from, to, why) in wrong {
            let error = error(&file("ceiling", "1").replace(from, to));
            assert!(error.contains(why), "{to}: {error}");
        }
    }
}
