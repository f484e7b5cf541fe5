//! Reads run documents from untrusted files; an invalid document is rejected as a whole.

use std::path::Path;

use plimsoll_units::text::{read_small, shown, shown_path, shown_within};

use super::sound::{LONGEST_RUN, check, find_duplicate, is_span};
use super::{RUN_SCHEMA, Run, in_page};

/// Limit of file size, in bytes; a document of 5000 nodes needs half.
const MAX_BYTES: u64 = 2 << 30;

/// Limit of all uncompressed documents in a page, in bytes; a page holds 8 MiB of compressed ones.
const MAX_HELD: u64 = 256 << 20;

impl Run {
    /// Reads the only run document of a JSON file or HTML page. Fails, with one line, if it is
    /// unreadable or invalid, or the page has several.
    pub fn read(path: &Path) -> Result<Self, String> {
        let mut runs = Self::read_all(path)?;
        match (runs.pop(), runs.len()) {
            (Some(run), 0) => Ok(run),
            (_, others) => Err(format!(
                "{}: holds {} runs: import it with plimsoll import, and name one by its id",
                shown_path(path),
                others + 1
            )),
        }
    }

    /// Reads the run document of a JSON file, or all (at least one) of an HTML page.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, String> {
        let file = shown_path(path);
        let runs = read_small(path, MAX_BYTES).and_then(|text| {
            if !text.trim_start().starts_with('<') {
                return Ok(vec![Self::parse(&text)?]);
            }
            let held = in_page::embedded_documents(&text, MAX_HELD)?;
            if held.is_empty() {
                let why = "this page holds no run document; give the document that --json wrote";
                return Err(why.to_owned());
            }
            held.iter().map(|document| Self::parse(document)).collect()
        });
        let pattern = if file.contains('*') { "; the shell replaces * if it is not quoted" } else { "" };
        runs.map_err(|why| format!("{file}: {why}{pattern}"))
    }

    /// Parses a run document in JSON. Fails, with one line, if it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Most documents have this schema, and are read once.
        if let Some(run) = serde_json::from_str::<Self>(text).ok().filter(|run| run.schema == RUN_SCHEMA) {
            return run.checked();
        }
        let head: Head = serde_json::from_str(text).map_err(|e| {
            let other = match e.is_syntax() {
                true => "; plimsoll run --json and plimsoll export write one, plimsoll check reads results of other tools",
                false => "",
            };
            format!("not a plimsoll run (JSON): {}{other}", shown(&e.to_string()))
        })?;
        Self::of_schema(&head, text)
    }

    fn of_schema(head: &Head, text: &str) -> Result<Self, String> {
        match head.schema.as_str() {
            Some(RUN_SCHEMA) => serde_json::from_str::<Self>(text)
                .map_err(|e| format!("not a plimsoll run (JSON): {}", shown(&e.to_string())))?
                .checked(),
            Some(other) => {
                let other = shown_within(other, 60);
                Err(format!("has schema '{other}', and this plimsoll reads {RUN_SCHEMA}"))
            }
            None => Err("not a plimsoll run (JSON): it has no schema; for a result of another tool use plimsoll check".to_owned()),
        }
    }

    /// Parses each run document in `text`, such as a log; skips other text. A document starts with
    /// a brace at the start of a line or after another document. `Err`: it is invalid or cut off.
    pub fn parse_all(text: &str) -> impl Iterator<Item = Result<Self, String>> {
        let (mut at, mut all_whole) = (0, true);
        std::iter::from_fn(move || {
            loop {
                let begin = next_document(text, at)?;
                let rest = &text[begin..];
                // Fast path: most documents are complete and have this schema.
                let read = (all_whole && begins_as_run(rest)).then(|| whole::<Self>(rest)).flatten();
                if let Some((run, bytes)) = read.filter(|(run, _)| run.schema == RUN_SCHEMA) {
                    at = begin + bytes;
                    return Some(run.checked());
                }
                // Skimming has no depth limit. After a truncated document, at most 128 levels are
                // parsed, so that a text of braces is not skimmed to its end from each brace.
                let skimmed = all_whole.then(|| whole(rest)).flatten();
                all_whole = skimmed.is_some();
                let found = skimmed.or_else(|| {
                    let (mut value, bytes) = whole::<serde_json::Value>(rest)?;
                    let schema = value.get_mut("schema").map(serde_json::Value::take);
                    Some((Head { schema: schema.unwrap_or_default() }, bytes))
                });
                at = begin + found.as_ref().map_or(1, |(_, bytes)| *bytes);
                let end = if found.is_some() { at } else { next_document(text, at).unwrap_or(text.len()) };
                let piece = &text[begin..end];
                let Some((head, _)) = found else {
                    if begins_as_run(piece) {
                        return Some(Self::parse(piece));
                    }
                    continue;
                };
                if head.schema.as_str().is_some_and(|name| name.starts_with(OF_RUNS)) {
                    return Some(Self::of_schema(&head, piece));
                }
            }
        })
    }

    /// Returns the run unchanged, or the reason why its id, times or results cannot be right.
    fn checked(self) -> Result<Self, String> {
        // Another spelling of the same id would count as another run.
        let id = uuid::Uuid::try_parse(&self.id);
        if !id.is_ok_and(|id| id.hyphenated().to_string() == self.id) {
            return Err(format!("'{}' is not the id of a run", shown_within(&self.id, 60)));
        }
        if self.started.parse::<jiff::Timestamp>().is_err() {
            return Err(format!("'{}' is not a time", shown_within(&self.started, 60)));
        }
        if !is_span(self.elapsed_s) {
            let took = self.elapsed_s;
            return Err(format!("elapsed_s is {took:?}, which no run takes: 0 to {LONGEST_RUN:e} s"));
        }
        if !is_span(self.plan.sample_time) || !self.plan.budget.is_none_or(is_span) {
            let range = format!("between 0 and {LONGEST_RUN:e} s");
            return Err(format!("sample_time and budget of its plan must be {range}"));
        }
        if let Some(double) = find_duplicate(&self) {
            return Err(format!("has {double} twice"));
        }
        check(&self).map(|()| self)
    }
}

/// Returns the offset of the next brace from `from` on that starts a line or follows a document.
fn next_document(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let blanks = rest.len() - rest.trim_start().len();
    let is_line = from == 0 || text[..from].ends_with('}');
    if is_line && rest[blanks..].starts_with('{') {
        return Some(from + blanks);
    }
    rest.find("\n{").map(|at| from + at + 1)
}

#[derive(Debug, serde::Deserialize)]
struct Head {
    #[serde(default)]
    schema: serde_json::Value,
}

/// Parses the JSON value at the start of `text`, if complete; also returns its length in bytes.
fn whole<T: serde::de::DeserializeOwned>(text: &str) -> Option<(T, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// Returns whether a truncated or invalid document claims to be a run in its first characters.
fn begins_as_run(piece: &str) -> bool {
    const FIRST_WORDS: usize = 200;
    piece.char_indices().nth(FIRST_WORDS).map_or(piece, |(at, _)| &piece[..at]).contains(OF_RUNS)
}

const OF_RUNS: &str = "plimsoll.run";

#[cfg(test)]
mod tests {
    use plimsoll_model::measurement::Measurement;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    fn text() -> String {
        serde_json::to_string(&fixture::run()).unwrap()
    }

    fn changed(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut value: serde_json::Value = serde_json::from_str(&text()).unwrap();
        change(&mut value);
        Run::parse(&value.to_string()).unwrap_err()
    }

    #[test]
    fn a_document_comes_back_as_it_was() {
        assert_eq!(Run::parse(&text()).unwrap(), fixture::run());
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line() {
        let reported =
            |error: String, word: &str| assert!(error.contains(word) && !error.contains('\n'), "{error}");
        reported(Run::parse("").unwrap_err(), "line 1");
        reported(Run::parse("{}").unwrap_err(), "no schema");
        reported(Run::parse(&text()[..2000]).unwrap_err(), "column");
        reported(Run::parse(&text().replacen("42", "NaN", 1)).unwrap_err(), "not a plimsoll run (JSON)");
        reported(Run::parse(&"[".repeat(10_000)).unwrap_err(), "not a plimsoll run (JSON)");
        reported(changed(|v| v["schema"] = "plimsoll.run/9".into()), "plimsoll.run/9");
        for id in ["../../etc", "x", &fixture::ID.to_uppercase(), &format!("{{{}}}", fixture::ID)] {
            reported(changed(|v| v["id"] = id.into()), "not the id of a run");
        }
        reported(changed(|v| v["started"] = "yesterday".into()), "not a time");
        for elapsed in [-3596.0, -0.001, 1e9] {
            reported(changed(|v| v["elapsed_s"] = elapsed.into()), "elapsed_s is");
        }
        reported(changed(|v| v["elapsed_s"] = 1e300.into()), "elapsed_s is 1e300,");
        let of_first = |place: &str, value: serde_json::Value| {
            changed(|v| *v["measurements"][0].pointer_mut(place).unwrap() = value)
        };
        reported(of_first("/metrics/0/series/0/t", (-1.0).into()), "before the run");
        reported(of_first("/case/id", "cpu.peak/op".into()), "not a plimsoll run (JSON)");
        reported(of_first("/metrics/0/unit", "furlong".into()), "not a plimsoll run (JSON)");
        reported(of_first("/metrics/0/summary/median", 1e12.into()), "by hand");
        reported(of_first("/metrics/0/samples", serde_json::json!([])), "no sample");
        reported(of_first("/case/params", serde_json::json!({ "threads": 64 })), "params contradicts its id");
        reported(of_first("/case/benchmark", "memory.latency".into()), "benchmark contradicts its id");
        let unread = "not a plimsoll run (JSON)";
        for place in ["/id", "/started", "/plan/name", "/machine/id", "/elapsed_s"] {
            reported(changed(|v| *v.pointer_mut(place).unwrap() = serde_json::Value::Null), unread);
        }
        for (key, word) in [("status", "running"), ("elapsed_s", "long")] {
            reported(changed(|v| v[key] = word.into()), unread);
        }
        for place in ["/case/id", "/metrics/0/name", "/metrics/0/unit", "/metrics/0/summary/median"] {
            reported(of_first(place, serde_json::Value::Null), unread);
        }
        let words = [("/status", "good"), ("/metrics/0/better", "wider"), ("/metrics/0/of_limit", "all")];
        words.into_iter().for_each(|(place, word)| reported(of_first(place, word.into()), unread));
        let error = Run::read(Path::new("/nonexistent/run.json")).unwrap_err();
        assert!(error.starts_with("/nonexistent/run.json: "), "{error}");
    }

    #[test]
    fn what_does_not_follow_from_the_samples_is_refused_with_its_place() {
        let reported = |place: &str, value: serde_json::Value, words: &str| {
            let error = changed(|v| {
                let (parent, key) = place.rsplit_once('/').unwrap();
                let parent = v["measurements"].pointer_mut(parent).unwrap();
                parent[key] = value;
            });
            assert!(error.contains(words) && !error.contains('\n') && error.len() < 300, "{place}: {error}");
            assert!(error.starts_with("cpu.peak/"), "{error}");
        };
        reported("/0/metrics/0/better", "lower".into(), "better is lower, and it is higher");
        reported("/0/metrics/0/unit", "B/s".into(), "its unit is B/s");
        reported("/0/metrics/0/of_limit", 0.5.into(), "of_limit is 0.5");
        reported("/0/metrics/0/of_limit", serde_json::Value::Null, "of_limit is null");
        reported("/0/metrics/0/of_limit", 1e300.into(), "of_limit is 1e300");
        reported("/0/metrics/0/limit/value", 1.0.into(), "of_limit is ");
        reported("/0/metrics/0/limit", serde_json::Value::Null, "no limit is known");
        reported("/0/metrics/0/summary/max", 1.0.into(), "summary");
        reported("/0/metrics/0/summary/ci95", serde_json::json!([2.0, 1.0]), "summary");
        reported("/0/conditions/excluded", 7.0.into(), "shares are 0 to 1");
        for share in ["excluded", "steal"] {
            let error = changed(|v| {
                let measurement = &mut v["measurements"][0];
                measurement["conditions"][share] = 0.9.into();
                for point in measurement["metrics"][0]["series"].as_array_mut().unwrap() {
                    point[share] = 0.1.into();
                }
            });
            assert!(error.contains(&format!("{share} of its conditions is 0.9")), "{error}");
        }
        reported("/0/node", "nobody".into(), "node 'nobody' is not in nodes");
        reported("/0/metrics", serde_json::json!([]), "status is ok, and it has no metrics");
    }

    #[test]
    fn what_comes_twice_is_named() {
        let twice = |at: fn(&mut serde_json::Value) -> &mut serde_json::Value| {
            changed(|v| {
                let list = at(v).as_array_mut().unwrap();
                list.push(list[0].clone());
            })
        };
        let metric = twice(|v| &mut v["measurements"][0]["metrics"]);
        assert_eq!(metric, "has metric 'rate' of cpu.peak/op=fma/type=f64/isa=avx512/threads=1 twice");
        let case = twice(|v| &mut v["measurements"]);
        assert!(case.ends_with(" of 'bench-1', repetition 0 twice"), "{case}");
        assert_eq!(twice(|v| &mut v["nodes"]), "has machine 'bench-1' twice");
        // Another repetition or node is another result.
        let mut run = fixture::run();
        let first = run.measurements[0].clone();
        let other = "bench-2".to_owned();
        run.nodes.push(crate::document::Node { name: other.clone(), machine: None });
        run.measurements.push(Measurement { repeat: 1, ..first.clone() });
        run.measurements.push(Measurement { node: other, ..first });
        Run::parse(&serde_json::to_string(&run).unwrap()).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_document_cut_anywhere_is_refused(at in 0usize..1_000_000) {
            let text = text();
            let cut = at % text.len();
            prop_assume!(text.is_char_boundary(cut));
            prop_assert!(Run::parse(&text[..cut]).is_err());
        }
    }
}
