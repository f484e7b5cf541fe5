//! Documents of an earlier schema, brought to today's where they are read: nothing else knows that there was another.
//!
//! Schema 2 holds each fact once. What schema 1 held again is taken out: a node's machine where it is the run's own,
//! `requested`, which is the case's parameters, the limit that a metric is held to among its `limits`, and the value of a
//! sample in its `series`.

use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value};

use super::{Run, SCHEMA};
use crate::bench;
use crate::measurement::{Measurement, Note};

/// The schema before.
pub(super) const FIRST: &str = "plimsoll.run/1";

/// Whether documents of this schema can be read.
pub fn is_known(schema: &str) -> bool {
    [FIRST, SCHEMA].contains(&schema)
}

/// What the history keeps of its own: the head of a run, or one of its measurements.
pub trait Kept: DeserializeOwned {
    /// Gives metrics and warnings that had another name in an earlier version their names of today.
    fn rename(&mut self);

    /// Brings a document of schema 1 to today's and says whether it was one.
    ///
    /// # Errors
    /// What contradicts itself in it.
    fn upgrade(document: &mut Value) -> Result<bool, String>;

    /// Whether it is today's.
    fn is_current(&self) -> bool;

    /// Reads the text of either.
    ///
    /// # Errors
    /// It is of none.
    fn from_text(text: &str) -> serde_json::Result<Self> {
        let mut kept = Self::as_written(text)?;
        kept.rename();
        Ok(kept)
    }

    /// Reads the text of either, with the names that are in it.
    ///
    /// # Errors
    /// It is of none.
    fn as_written(text: &str) -> serde_json::Result<Self> {
        let kept = serde_json::from_str::<Self>(text);
        match &kept {
            Ok(current) if current.is_current() => return kept,
            Err(e) if !e.is_data() => return kept,
            _ => {}
        }
        let mut document = serde_json::from_str(text)?;
        match Self::upgrade(&mut document) {
            Ok(true) => serde_json::from_value(document),
            Ok(false) => kept,
            Err(why) => Err(serde_json::Error::custom(why)),
        }
    }

    /// Reads the text of one that is known to be of schema 1.
    ///
    /// # Errors
    /// It is not.
    fn from_first(text: &str) -> serde_json::Result<Self> {
        let mut document = serde_json::from_str(text)?;
        Self::upgrade(&mut document).map_err(serde_json::Error::custom)?;
        serde_json::from_value(document)
    }
}

impl Kept for Run {
    fn rename(&mut self) {
        self.measurements.iter_mut().for_each(Kept::rename);
    }

    fn upgrade(document: &mut Value) -> Result<bool, String> {
        let Some(document) = document.as_object_mut() else { return Ok(false) };
        if document.get("schema").and_then(Value::as_str) != Some(FIRST) {
            return Ok(false);
        }
        document.insert("schema".to_owned(), SCHEMA.into());
        let own = document.get("machine").cloned();
        for node in objects(document.get_mut("nodes")) {
            if node.get("machine") == own.as_ref() {
                node.remove("machine");
            }
        }
        let measurements = document.get_mut("measurements").and_then(Value::as_array_mut);
        measurements.into_iter().flatten().try_for_each(|one| Measurement::upgrade(one).map(drop))?;
        Ok(true)
    }

    fn is_current(&self) -> bool {
        self.schema == SCHEMA
    }
}

impl Kept for Measurement {
    fn rename(&mut self) {
        let benchmark = self.case.benchmark();
        let today = |name: &str| bench::metric_name(benchmark, name).to_owned();
        for metric in &mut self.metrics {
            metric.name = today(&metric.name);
            metric.peers.iter_mut().flat_map(|tool| &mut tool.warnings).for_each(Note::rename);
            for point in metric.curve.iter_mut().flatten() {
                *point =
                    std::mem::take(point).into_iter().map(|(name, value)| (today(&name), value)).collect();
            }
        }
    }

    fn upgrade(document: &mut Value) -> Result<bool, String> {
        let Some(document) = document.as_object_mut() else { return Ok(false) };
        let is_old = document.remove("requested").is_some();
        let about = document.get("case").and_then(|case| case["id"].as_str()).unwrap_or_default().to_owned();
        for metric in objects(document.get_mut("metrics")) {
            once(metric).map_err(|what| format!("{}: {what}", crate::text::shown_within(&about, 200)))?;
        }
        Ok(is_old)
    }

    /// One of schema 1 with a metric is not read as one of today's; without one it is the same.
    fn is_current(&self) -> bool {
        true
    }
}

/// Takes out of a metric what is in it again.
fn once(metric: &mut Map<String, Value>) -> Result<(), String> {
    objects(metric.get_mut("series")).for_each(|point| drop(point.remove("value")));
    let Some(Value::Array(mut limits)) = metric.remove("limits") else { return Ok(()) };
    if let Some(limit) = metric.get("limit").filter(|limit| limit.is_object()) {
        match limits.iter().position(|other| is_same(limit, other)) {
            Some(index) => drop(limits.remove(index)),
            None if limit["value"].is_null() => {}
            None => return Err(format!("its limit, {}, is none of its limits", limit["value"])),
        }
    }
    metric.insert("other_limits".to_owned(), limits.into());
    Ok(())
}

/// Whether two limits are one: the one that a metric is held to may say besides why it is that one.
fn is_same(one: &Value, other: &Value) -> bool {
    const SAYS: [&str; 4] = ["value", "kind", "formula", "source"];
    SAYS.iter().all(|key| one.get(key) == other.get(key))
}

/// The objects of a list.
fn objects(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture;

    /// A document as the last version with schema 1 wrote it.
    const EARLIER: &str = include_str!("../../tests/fixtures/runs/earlier.json");

    #[test]
    fn a_document_of_schema_1_is_read_as_todays_and_stays_so() {
        let run = Run::parse(EARLIER).unwrap();
        assert_eq!((run.schema.as_str(), &run.nodes[0].machine), (SCHEMA, &None));
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(Run::parse(&text).unwrap(), run);
        let mut document = serde_json::from_str(&text).unwrap();
        assert_eq!(Run::upgrade(&mut document), Ok(false));
        assert_eq!(document, serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn nothing_is_lost_on_the_way() {
        let before: Value = serde_json::from_str(EARLIER).unwrap();
        let after = serde_json::to_value(Run::parse(EARLIER).unwrap()).unwrap();
        let metrics = |document: &Value| -> Vec<Value> {
            let measurements = document["measurements"].as_array().unwrap().iter();
            measurements.flat_map(|m| m["metrics"].as_array().unwrap().clone()).collect()
        };
        for (before, after) in metrics(&before).iter().zip(metrics(&after)) {
            let limits = before["limits"].as_array().unwrap();
            let others = after["other_limits"].as_array().unwrap();
            let held = usize::from(limits.iter().any(|limit| is_same(limit, &after["limit"])));
            assert_eq!(others.len() + held, limits.len());
            assert!(others.iter().all(|other| limits.contains(other)));
            let values: Vec<&Value> =
                before["series"].as_array().unwrap().iter().map(|p| &p["value"]).collect();
            assert!(
                values.is_empty()
                    || values == after["samples"].as_array().unwrap().iter().collect::<Vec<_>>()
            );
        }
    }

    /// Names of parameters and metrics that were others in documents of the same schema.
    #[test]
    fn earlier_names_are_read_as_todays() {
        let mut run = fixture::run();
        run.measurements[0].case = run.measurements[0].case.clone().with_word("affinity", "0,2");
        let swept = &mut run.measurements[3].metrics[0];
        swept.curve = Some(vec![[("bandwidth".to_owned(), 1e9), ("delay".to_owned(), 0.0)].into()]);
        let today = serde_json::to_string(&run).unwrap();
        let earlier = today
            .replace("/affinity=", "/place=")
            .replace("\"affinity\":", "\"place\":")
            .replace("\"name\":\"bandwidth\"", "\"name\":\"program\"")
            .replace("\"name\":\"bus_bandwidth\"", "\"name\":\"bus\"")
            .replace("\"bandwidth\":1", "\"program\":1");
        for word in ["/place=0", "\"place\":", "\"program\"", "\"bus\"", "\"program\":1"] {
            assert!(earlier.contains(word), "{word}: {today}");
        }
        assert_eq!(Run::parse(&earlier).unwrap(), run);
        let both = earlier.replace("/place=0%2C2", "/place=0%2C2/affinity=1");
        assert!(Run::parse(&both).unwrap_err().contains("twice"), "one parameter under two names");
    }

    #[test]
    fn a_limit_that_is_none_of_its_limits_is_refused() {
        let mut document: Value = serde_json::from_str(EARLIER).unwrap();
        let metrics = document["measurements"][0]["metrics"].as_array_mut().unwrap();
        metrics[0]["limit"] = json!({ "value": 1.0, "kind": "ceiling", "formula": "x", "inputs": [], "source": "user", "reason": null });
        let error = Run::parse(&document.to_string()).unwrap_err();
        assert!(error.contains("its limit, 1.0, is none of its limits") && !error.contains('\n'), "{error}");
    }
}
