use crate::document::SteadyDocument;
use crate::judge::SteadyAnswer;
use plimsoll_system::wall::unix_seconds;
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest name of a result in characters.
const MAX_NAME_CHARACTERS: usize = 200;
/// Seconds by which the time of a file may be before that of the clock.
const FILE_TIME_TOLERANCE_S: f64 = 0.1;

/// Result file of another tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkedFile {
    /// Path.
    pub file: String,
    /// Tool that wrote it; `None` if it could not be read.
    pub tool: Option<String>,
    /// Reason why it could not be read, or why the disturbed samples are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Results in it.
    pub results: Vec<MarkedResult>,
}

impl MarkedFile {
    /// Creates the entry for a file that could not be read, with the reason.
    pub fn unread(file: String, why: &str) -> Self {
        Self { file, tool: None, why: Some(shown_within(why, MAX_NAME_CHARACTERS)), results: Vec::new() }
    }
}

/// A result of another tool, with the samples that fell into a disturbed time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkedResult {
    /// Name in the file.
    pub name: String,
    /// Number of samples.
    pub samples: usize,
    /// Positions of the disturbed samples, from 0; `None` if they are unknown.
    pub disturbed: Option<Vec<usize>>,
}

/// Disturbed times of a command. All times are in seconds since 1970.
#[derive(Debug)]
pub struct ResultMarker {
    /// Start of the command.
    pub start: f64,
    spans: Vec<[f64; 2]>,
    /// Reason why the times are unknown.
    unknown: Option<String>,
}

impl ResultMarker {
    /// Reads the times of the disturbed spans from the verdict on a command.
    pub fn new(document: &SteadyDocument) -> Self {
        let mut spans = Vec::new();
        for run in &document.runs {
            let start = unix_seconds(&run.started).unwrap_or(0.0);
            let unix = |at: f64| {
                let before = run.intervals.iter().filter(|one| one.to <= at);
                start + at + before.map(|one| one.suspended).sum::<f64>()
            };
            spans.extend(run.verdict.spans.iter().map(|span| [unix(span.from), unix(span.to)]));
        }
        let is_known = document.answer == SteadyAnswer::HeldStill
            || document.answer != SteadyAnswer::Unknown && !spans.is_empty();
        let unknown = (!is_known).then(|| document.line.clone());
        Self { start: unix_seconds(&document.started).unwrap_or(0.0), spans, unknown }
    }

    /// Returns whether the command can have written a file with this time.
    pub fn is_new(&self, time: f64) -> bool {
        time >= self.start - FILE_TIME_TOLERANCE_S
    }

    /// Marks the disturbed samples in `report`, the JSON document of a tool that ran between the
    /// times `whole`; `file` is its path. The tool is `None` if no known one wrote it.
    pub fn mark(&self, report: &Value, whole: [f64; 2], file: String) -> MarkedFile {
        let is_disturbed = |from: f64, to: f64| self.spans.iter().any(|span| from < span[1] && to > span[0]);
        let result = |name: &Value, samples: usize, disturbed: Option<Vec<usize>>| MarkedResult {
            name: shown_within(name.as_str().unwrap_or_default(), MAX_NAME_CHARACTERS),
            samples,
            disturbed: disturbed.filter(|_| self.unknown.is_none()),
        };
        let timed = |name: &Value, times: Vec<[f64; 2]>| {
            let is_hit = |at: &usize| times.get(*at).is_some_and(|[from, to]| is_disturbed(*from, *to));
            result(name, times.len(), Some((0..times.len()).filter(is_hit).collect()))
        };
        let date = report["context"]["date"].as_str().and_then(unix_seconds);
        let is_calm = !is_disturbed(date.unwrap_or(whole[0]).max(whole[0]), whole[1]);
        let untimed = |name: &Value, samples: usize| result(name, samples, is_calm.then(Vec::new));
        let list = |key: &str| report[key].as_array().into_iter().flatten();
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let len = |value: &Value| value.as_array().map_or(0, Vec::len);
        let has = |key: &str| report.get(key).is_some();
        let timestamp = &report["start"]["timestamp"];
        let (tool, results): (_, Vec<MarkedResult>) = if has("fio version") {
            let job = |job: &Value| match fio_time(report, job) {
                Some(time) => timed(&job["jobname"], vec![time]),
                None => untimed(&job["jobname"], 1),
            };
            ("fio", list("jobs").map(job).collect())
        } else if let Some(second) = timestamp["timesecs"].as_f64() {
            // Without milliseconds it started within the second.
            let start = timestamp["timemillisecs"].as_f64();
            let [from, to] = start.map_or([second, second + 1.0], |start| [start / 1e3; 2]);
            let omitted = number(&report["start"]["test_start"]["omit"]);
            let time = |one: &Value| {
                // After the omitted intervals their times start at 0 again.
                let after = if one["sum"]["omitted"] == true { 0.0 } else { omitted };
                [from + after + number(&one["sum"]["start"]), to + after + number(&one["sum"]["end"])]
            };
            ("iperf3", vec![timed(&"intervals".into(), list("intervals").map(time).collect())])
        } else if has("machine_info") {
            let rounds = |one: &Value| number(&one["stats"]["rounds"]) as usize;
            ("pytest-benchmark", list("benchmarks").map(|one| untimed(&one["name"], rounds(one))).collect())
        } else if has("context") {
            let all = list("benchmarks").filter(|one| one["run_type"] != "aggregate");
            ("google-benchmark", all.map(|one| untimed(&one["name"], 1)).collect())
        } else if has("results") {
            ("hyperfine", list("results").map(|one| untimed(&one["command"], len(&one["times"]))).collect())
        } else if has("sampling_mode") {
            ("criterion", vec![untimed(&"samples".into(), len(&report["times"]))])
        } else {
            return MarkedFile::unread(file, "no known tool wrote it");
        };
        let together = || format!("{tool} records no time of a sample; the verdict holds for all together");
        let is_known = results.iter().all(|one| one.disturbed.is_some());
        let why = (!is_known).then(|| self.unknown.clone().unwrap_or_else(together));
        MarkedFile { file, tool: Some(tool.to_owned()), why, results }
    }
}

/// Returns start and end of a job of fio; `None` if the document lacks the end of all jobs.
fn fio_time(report: &Value, job: &Value) -> Option<[f64; 2]> {
    let seconds = |value: &Value| value.as_f64().map(|ms| ms / 1e3);
    let end = seconds(&report["timestamp_ms"])?;
    let runtime = ["read", "write", "trim"].map(|side| seconds(&job[side]["runtime"]).unwrap_or(0.0));
    let runtime = runtime.into_iter().fold(0.0, f64::max);
    let mut all = report["jobs"].as_array().into_iter().flatten();
    let is_only_group = all.all(|other| other["groupid"] == job["groupid"]);
    let start = is_only_group.then_some(end - runtime).or_else(|| seconds(&job["job_start"]));
    Some(start.map_or([end - job["elapsed"].as_f64()?, end], |start| [start, start + runtime]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandInterval, Disturbance, DisturbedSpan, ObservedRun, SteadyVerdict};

    /// Start of the command: 2026-11-26T01:00:00Z.
    const START: f64 = 1_795_654_800.0;

    /// The marker of a command that ran for an hour and was disturbed between these seconds.
    fn marker(answer: SteadyAnswer, disturbed: &[[f64; 2]]) -> ResultMarker {
        ResultMarker::new(&document(answer, disturbed, Vec::new()))
    }

    fn document(
        answer: SteadyAnswer,
        disturbed: &[[f64; 2]],
        intervals: Vec<CommandInterval>,
    ) -> SteadyDocument {
        let span = |&[from, to]: &[f64; 2]| DisturbedSpan {
            cause: Disturbance::Quota,
            from,
            to,
            lost: Some(0.1),
            by: Vec::new(),
        };
        let spans = disturbed.iter().map(span).collect();
        let verdict = SteadyVerdict { answer, line: "the line".to_owned(), spans, share: 0.1 };
        let started = "2026-11-26T01:00:00Z".to_owned();
        let run =
            ObservedRun { started: started.clone(), elapsed_s: 3600.0, ended: None, verdict, intervals };
        let runs = vec![run];
        SteadyDocument { started, answer, line: "the line".to_owned(), runs, ..SteadyDocument::default() }
    }

    /// Name, number of samples, and positions of the disturbed ones.
    type ResultFound = (String, usize, Option<Vec<usize>>);

    /// Marks a file that was written at the end of the hour; returns tool, and by result: name,
    /// samples and positions.
    fn marked(text: &str, disturbed: &[[f64; 2]]) -> (String, Vec<ResultFound>) {
        // fio's notes precede its document.
        let report = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let marker = marker(SteadyAnswer::Disturbed, disturbed);
        let file = marker.mark(&report, [START, START + 3600.0], String::new());
        assert_eq!(file.why.is_some(), file.results.iter().any(|one| one.disturbed.is_none()), "{file:?}");
        let all = file.results.into_iter().map(|one| (one.name, one.samples, one.disturbed));
        (file.tool.unwrap(), all.collect())
    }

    fn one(name: &str, samples: usize, disturbed: Option<&[usize]>) -> ResultFound {
        (name.to_owned(), samples, disturbed.map(<[usize]>::to_vec))
    }

    #[test]
    fn intervals_of_iperf3_are_marked_to_the_second_or_better() {
        // A recording of 2 s that started in the second 01:04:05.
        let text = include_str!("../../check/tests/corpus/iperf3-gigabit-tcp.json");
        for (spans, positions) in [
            ([[0.0, 244.9], [248.1, 300.0]], &[][..]),
            ([[244.0, 245.5], [300.0, 301.0]], &[0]),
            ([[246.5, 246.8], [300.0, 301.0]], &[0, 1]),
            ([[247.2, 250.0], [300.0, 301.0]], &[1]),
        ] {
            assert_eq!(
                marked(text, &spans),
                ("iperf3".to_owned(), vec![one("intervals", 2, Some(positions))]),
                "{spans:?}"
            );
        }
        // Newer ones write milliseconds: 01:20:14.049 and 1.001 s.
        let text = include_str!("../../check/tests/corpus/iperf3-3.21-bidir.json");
        for (from, positions) in [(1215.0, &[0][..]), (1215.06, &[])] {
            let found = marked(text, &[[from, 1300.0]]).1;
            assert_eq!(found, [one("intervals", 1, Some(positions))]);
        }
        // A recording of `iperf3 -O 1 -t 2`, shortened: times start again after the omitted second.
        let text = format!(
            r#"{{"start": {{"timestamp": {{"timesecs": {START}, "timemillisecs": {}}}, "test_start": {{"omit": 1}}}}, "intervals": [
                {{"sum": {{"start": 0, "end": 1.016482, "omitted": true}}}}, {{"sum": {{"start": 4e-05, "end": 1.000268, "omitted": false}}}},
                {{"sum": {{"start": 1.000268, "end": 1.983869, "omitted": false}}}}]}}"#,
            START * 1e3
        );
        assert_eq!(marked(&text, &[[2.1, 2.2]]).1, [one("intervals", 3, Some(&[2]))]);
    }

    #[test]
    fn jobs_of_fio_are_marked_by_start_and_runtime() {
        // Two jobs of one group, 1.001 s until 01:01:20.732.
        let groups = include_str!("../../check/tests/corpus/fio-direct-groups.json");
        for (to, positions) in [(79.8, &[0][..]), (79.7, &[])] {
            let found = marked(groups, &[[70.0, to]]);
            assert_eq!(found.0, "fio");
            assert_eq!(found.1, [one("one", 1, Some(positions)), one("two", 1, Some(positions))]);
        }
        // 1.001 s until 01:20:37.816.
        let with_start = include_str!("../../check/tests/corpus/fio-3.42-direct.json");
        for (to, positions) in [(1236.9, &[0][..]), (1236.8, &[])] {
            assert_eq!(marked(with_start, &[[1200.0, to]]).1, [one("new", 1, Some(positions))]);
        }
        // Written by hand after fio's documentation: two groups one after the other (stonewall).
        let ms = START * 1e3;
        let job = |name: &str, group: u64, start: f64| {
            format!(
                r#"{{"jobname": "{name}", "groupid": {group}, "elapsed": 40, "job_start": {start}, "read": {{"runtime": 10000}}}}"#
            )
        };
        let text = format!(
            r#"{{"fio version": "fio-3.36", "timestamp_ms": {}, "jobs": [{}, {}]}}"#,
            ms + 60_000.0,
            job("a", 0, ms + 20_000.0),
            job("b", 1, ms + 40_000.0)
        );
        assert_eq!(marked(&text, &[[25.0, 26.0]]).1, [one("a", 1, Some(&[0])), one("b", 1, Some(&[]))]);
        // fio 2 does not always write the time.
        let untimed = text.replace("timestamp_ms", "unknown");
        assert_eq!(marked(&untimed, &[[25.0, 26.0]]).1, [one("a", 1, None), one("b", 1, None)]);
        // Without its start a job of several groups may have run at any time.
        let text = text.replace("job_start", "unknown");
        assert_eq!(marked(&text, &[[25.0, 26.0]]).1, [one("a", 1, Some(&[0])), one("b", 1, Some(&[0]))]);
    }

    /// Small files after the documentation of the tools.
    const UNTIMED: [(&str, &str, &str, usize); 4] = [
        (
            "hyperfine",
            r#"{"results": [{"command": "sleep 1", "mean": 1.0, "times": [1.0, 1.0, 1.0], "exit_codes": [0, 0, 0]}]}"#,
            "sleep 1",
            3,
        ),
        (
            "pytest-benchmark",
            r#"{"machine_info": {"node": "n"}, "datetime": "2026-11-26T01:30:00+00:00", "benchmarks": [{"name": "test_a", "stats": {"rounds": 5, "data": [1]}}]}"#,
            "test_a",
            5,
        ),
        (
            "google-benchmark",
            r#"{"context": {"date": "2026-11-26T02:30:00+01:00"}, "benchmarks": [
            {"name": "BM_a", "run_name": "BM_a", "run_type": "iteration"},
            {"name": "BM_a_mean", "run_name": "BM_a", "run_type": "aggregate"}]}"#,
            "BM_a",
            1,
        ),
        (
            "criterion",
            r#"{"sampling_mode": "Linear", "iters": [1.0, 2.0], "times": [10.0, 20.0]}"#,
            "samples",
            2,
        ),
    ];

    #[test]
    fn samples_without_times_are_unknown_unless_nothing_disturbed_them() {
        for (tool, text, name, samples) in UNTIMED {
            assert_eq!(marked(text, &[[1900.0, 1950.0]]), (tool.to_owned(), vec![one(name, samples, None)]));
            // After the file was written.
            assert_eq!(marked(text, &[[3700.0, 3800.0]]).1, [one(name, samples, Some(&[]))]);
        }
        // google-benchmark started at 01:30.
        let (_, text, name, samples) = UNTIMED[2];
        assert_eq!(marked(text, &[[10.0, 1700.0]]).1, [one(name, samples, Some(&[]))]);
    }

    #[test]
    fn a_verdict_without_times_leaves_all_unknown_and_a_steady_one_nothing() {
        let report: Value = serde_json::from_str(UNTIMED[0].1).unwrap();
        for (answer, disturbed) in [
            (SteadyAnswer::HeldStill, Some(Vec::new())),
            (SteadyAnswer::Unknown, None),
            (SteadyAnswer::Disturbed, None),
            (SteadyAnswer::AnotherMachine, None),
        ] {
            let file = marker(answer, &[]).mark(&report, [START, START + 1.0], String::new());
            assert_eq!(file.results[0].disturbed, disturbed, "{answer:?}");
            assert_eq!(file.why.as_deref(), disturbed.is_none().then_some("the line"));
        }
    }

    #[test]
    fn what_no_known_tool_wrote_is_not_marked() {
        let marker = marker(SteadyAnswer::HeldStill, &[]);
        assert!(marker.is_new(START) && !marker.is_new(START - 1.0));
        for text in ["{}", "[]", r#"{"times": [1]}"#, r#"{"start": {"timestamp": 1}, "error": "no"}"#] {
            let file = marker.mark(&serde_json::from_str(text).unwrap(), [START, START], "f".to_owned());
            assert_eq!((file.tool, file.why.is_some(), file.results), (None, true, Vec::new()), "{text}");
        }
    }

    #[test]
    fn names_are_made_harmless() {
        let text = r#"{"results": [{"command": "a\u001b[31m\nb", "times": [1]}]}"#;
        let name = marked(text, &[]).1.remove(0).0;
        assert!(name.starts_with('a') && !name.contains(['\u{1b}', '\n']), "{name}");
    }

    #[test]
    fn a_suspension_moves_what_follows() {
        let interval =
            |from, to, suspended| CommandInterval { from, to, suspended, ..CommandInterval::default() };
        let intervals = vec![interval(0.0, 10.0, 0.0), interval(10.0, 11.0, 60.0), interval(11.0, 20.0, 0.0)];
        let document = document(SteadyAnswer::Disturbed, &[[10.0, 11.0], [11.0, 20.0]], intervals);
        let at = |from: f64, to: f64| [START + from, START + to];
        assert_eq!(ResultMarker::new(&document).spans, [at(10.0, 71.0), at(71.0, 80.0)]);
    }
}
