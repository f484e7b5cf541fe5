//! A run document from a file: another machine's, an older one's, a forger's. Whatever is wrong with it is told in a
//! line, and nothing of it is used.

use std::path::Path;

use super::{Run, SCHEMA};
use crate::limit::median;
use crate::measurement::{Measurement, MetricResult};

/// Largest file that is read: a run on two thousand machines is half of it.
const MAX_BYTES: u64 = 256 << 20;

/// Most measurements of one document.
const MAX_MEASUREMENTS: usize = 200_000;

/// Longest run that is believed, in seconds: ten years.
const LONGEST_RUN: f64 = 3.2e8;

/// Whether a run may have taken so many seconds.
fn is_span(seconds: f64) -> bool {
    (0.0..=LONGEST_RUN).contains(&seconds)
}

/// How far a stored median may be from that of its samples: rounding of the last digits.
const ROUNDING: f64 = 1e-9;

impl Run {
    /// Reads a run document from a file.
    ///
    /// # Errors
    /// One line on what is wrong with it, where JSON is with line and column.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = crate::text::shown_bytes(path.as_os_str().as_encoded_bytes());
        let text = crate::text::read_small(path, MAX_BYTES).map_err(|why| format!("{file}: {why}"))?;
        Self::parse(&text).map_err(|why| format!("{file}: {why}"))
    }

    /// Reads a run document.
    ///
    /// # Errors
    /// As [`Run::read`].
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        struct Head {
            schema: Option<String>,
        }
        let shown = |e: serde_json::Error| crate::text::shown(&e.to_string());
        let head: Head = serde_json::from_str(text).map_err(|e| format!("no run document: {}", shown(e)))?;
        match head.schema.as_deref() {
            Some(SCHEMA) => {}
            Some(other) => {
                let other = crate::text::shown_within(other, 60);
                return Err(format!("has schema '{other}', and this plimsoll reads {SCHEMA}"));
            }
            None => return Err("no run document: it has no schema".to_owned()),
        }
        let run: Self = serde_json::from_str(text).map_err(|e| format!("no run document: {}", shown(e)))?;
        run.sound()?;
        Ok(run)
    }

    /// What types do not hold: that it is one run, with figures that follow from their samples.
    fn sound(&self) -> Result<(), String> {
        // Other ways to write the same id would make another run of it.
        let id = uuid::Uuid::try_parse(&self.id);
        if !id.is_ok_and(|id| id.hyphenated().to_string() == self.id) {
            return Err(format!("'{}' is no id of a run", crate::text::shown_within(&self.id, 60)));
        }
        if self.started.parse::<jiff::Timestamp>().is_err() {
            return Err(format!("'{}' is no time", crate::text::shown_within(&self.started, 60)));
        }
        if !is_span(self.elapsed_s) {
            return Err(format!(
                "elapsed_s is {}, which no run takes: 0 to {LONGEST_RUN:e} s",
                self.elapsed_s
            ));
        }
        if self.measurements.len() > MAX_MEASUREMENTS {
            return Err(format!("has more than {MAX_MEASUREMENTS} measurements"));
        }
        if let Some(double) = self.double() {
            return Err(format!("has {double} twice"));
        }
        self.measurements.iter().try_for_each(sound)
    }
}

fn sound(measurement: &Measurement) -> Result<(), String> {
    let metric = |m: &MetricResult| {
        let about = |what: &str| {
            let name = crate::text::shown_within(&m.name, 40);
            format!("{} {name}: {what}", measurement.case.id())
        };
        let middle = median(m.samples.clone()).ok_or_else(|| about("has no sample"))?;
        let far = (middle - m.summary.median).abs() > ROUNDING * middle.abs();
        if far || m.summary.n != m.samples.len() {
            return Err(about("its summary is not that of its samples: the document was changed by hand"));
        }
        if !m.series.iter().all(|point| is_span(point.t)) {
            return Err(about("a sample was taken before the run or long after it: see t in its series"));
        }
        Ok(())
    };
    measurement.metrics.iter().try_for_each(metric)
}

#[cfg(test)]
mod tests {
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
        let mut run = fixture::run();
        // The cause of a failure is not stored.
        run.measurements.iter_mut().for_each(|m| m.cause = None);
        assert_eq!(Run::parse(&text()).unwrap(), run);
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line() {
        let told =
            |error: String, word: &str| assert!(error.contains(word) && !error.contains('\n'), "{error}");
        told(Run::parse("").unwrap_err(), "line 1");
        told(Run::parse("{}").unwrap_err(), "no schema");
        told(Run::parse(&text()[..2000]).unwrap_err(), "column");
        told(Run::parse(&text().replacen("42", "NaN", 1)).unwrap_err(), "no run document");
        told(Run::parse(&"[".repeat(10_000)).unwrap_err(), "no run document");
        told(changed(|v| v["schema"] = "plimsoll.run/9".into()), "plimsoll.run/9");
        told(changed(|v| v["id"] = "../../etc".into()), "no id");
        told(changed(|v| v["started"] = "yesterday".into()), "no time");
        for elapsed in [-3596.0, -0.001, 1e9] {
            told(changed(|v| v["elapsed_s"] = elapsed.into()), "elapsed_s is");
        }
        told(
            changed(|v| v["measurements"][0]["metrics"][0]["series"][0]["t"] = (-1.0).into()),
            "before the run",
        );
        told(changed(|v| v["measurements"][0]["case"]["id"] = "cpu.peak/op".into()), "no run document");
        told(changed(|v| v["measurements"][0]["metrics"][0]["unit"] = "furlong".into()), "no run document");
        told(changed(|v| v["measurements"][0]["metrics"][0]["summary"]["median"] = 1e12.into()), "by hand");
        told(changed(|v| v["measurements"][0]["metrics"][0]["samples"] = serde_json::json!([])), "no sample");
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
        // Another repetition, or machine, is another figure.
        let mut run = fixture::run();
        let first = run.measurements[0].clone();
        run.measurements.push(Measurement { repeat: 1, ..first.clone() });
        run.measurements.push(Measurement { node: "bench-2".to_owned(), ..first });
        Run::parse(&serde_json::to_string(&run).unwrap()).unwrap();
        for id in ["019AA5C3-2F1B-7C40-9D21-5B0C3F6A7E88", "{019aa5c3-2f1b-7c40-9d21-5b0c3f6a7e88}"] {
            assert!(changed(|v| v["id"] = id.into()).contains("no id of a run"));
        }
    }

    #[test]
    fn a_file_is_named_in_what_is_said_of_it() {
        let error = Run::read(Path::new("/nonexistent/run.json")).unwrap_err();
        assert!(error.starts_with("/nonexistent/run.json: "), "{error}");
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
