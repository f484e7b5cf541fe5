use crate::document::SteadyDocument;
use crate::judge::SteadyAnswer;
use plimsoll_system::wall::unix_seconds;
use plimsoll_units::text::shown_within;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest name of a result in characters.
const MAX_NAME_CHARACTERS: usize = 200;
/// Most samples of a result that a file may claim without listing them.
const MAX_SAMPLES: f64 = 1e9;
/// Seconds by which the time of a file may be before that of the clock.
const FILE_TIME_TOLERANCE_S: f64 = 0.1;
/// Seconds by which a time in whole seconds may differ.
const WHOLE_SECOND: f64 = 1.0;
/// Reasons why the disturbed samples of a result are unknown.
const WHY_UNTIMED: &str = "it records no time of a sample; the verdict holds for all together";
const WHY_OUTSIDE: &str = "times of samples are unknown, or not within the command";

/// Result file of another tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkedFile {
    /// Path.
    pub file: String,
    /// Tool that wrote it; `None` if it was not marked: it is unreadable, older than the command,
    /// without results or from an unknown tool, or it is a directory with no or too many files.
    pub tool: Option<String>,
    /// Reason why it was not marked, or why disturbed samples are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Results in it.
    pub results: Vec<MarkedResult>,
}

impl MarkedFile {
    /// Creates the entry for a file that is not marked, with the reason.
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

/// Tool, reason if disturbed samples are unknown, and results.
type FoundResults = (&'static str, &'static str, Vec<MarkedResult>);

/// Disturbed times of a command. All times are in seconds since 1970.
#[derive(Debug)]
pub struct ResultMarker {
    /// Start and end of the command.
    pub time: [f64; 2],
    spans: Vec<[f64; 2]>,
    /// Reason why the times are unknown.
    unknown: Option<String>,
}

impl ResultMarker {
    /// Reads the times of the disturbed spans from the verdict on a command.
    pub fn new(document: &SteadyDocument) -> Self {
        let mut spans = Vec::new();
        let mut time = unix_seconds(&document.started).map(|start| [start, start]);
        for run in &document.runs {
            let start = unix_seconds(&run.started);
            let unix = |at: f64| {
                let before = run.intervals.iter().filter(|one| one.to <= at);
                start.unwrap_or_default() + at + before.map(|one| one.suspended).sum::<f64>()
            };
            spans.extend(run.verdict.spans.iter().map(|span| [unix(span.from), unix(span.to)]));
            time = time.filter(|_| start.is_some()).map(|[first, _]| [first, unix(run.elapsed_s)]);
        }
        let has_spans = document.answer != SteadyAnswer::Unknown && !spans.is_empty();
        let is_known = time.is_some() && (document.answer == SteadyAnswer::HeldStill || has_spans);
        let line = time.map_or("the start of the command is unknown", |_| &document.line);
        Self { time: time.unwrap_or_default(), spans, unknown: (!is_known).then(|| line.to_owned()) }
    }

    /// Returns whether the command can have written a file with this time.
    pub fn is_new(&self, time: f64) -> bool {
        time >= self.time[0] - FILE_TIME_TOLERANCE_S
    }

    /// Marks the disturbed samples in `report`, the JSON document of a tool that ran between the
    /// times `written_between`; `file` is its path. The tool is `None` if no known one wrote it, or
    /// if it has no results.
    pub fn mark(&self, report: &Value, written_between: [f64; 2], file: String) -> MarkedFile {
        let Some((tool, why, results)) = self.find_results(report, written_between) else {
            return MarkedFile::unread(file, "no known tool wrote it");
        };
        if results.iter().all(|one| one.samples == 0) {
            return MarkedFile::unread(file, "it has no results");
        }
        let is_known = results.iter().all(|one| one.disturbed.is_some());
        let why = (!is_known).then(|| self.unknown.clone().unwrap_or_else(|| why.to_owned()));
        MarkedFile { file, tool: Some(tool.to_owned()), why, results }
    }

    /// Reads the results of a tool that wrote `report` between these times.
    fn find_results(&self, report: &Value, [from, to]: [f64; 2]) -> Option<FoundResults> {
        let is_disturbed = |[a, b]: [f64; 2]| self.spans.iter().any(|span| a < span[1] && b > span[0]);
        let result = |name: &Value, samples: usize, disturbed: Option<Vec<usize>>| MarkedResult {
            name: shown_within(name.as_str().unwrap_or_default(), MAX_NAME_CHARACTERS),
            samples,
            disturbed: disturbed.filter(|_| self.unknown.is_none()),
        };
        let timed = |name: &Value, times: Vec<[f64; 2]>, slack: f64| {
            let hits = (0..times.len()).filter(|at| is_disturbed(times[*at])).collect();
            let is_inside = times.iter().all(|time| is_within(*time, self.time, slack));
            result(name, times.len(), is_inside.then_some(hits))
        };
        let to = to.max(from);
        // google-benchmark records its start.
        let start = report["context"]["date"].as_str().and_then(unix_seconds).unwrap_or(from);
        let is_inside =
            is_within([from, to], self.time, 0.0) && is_within([start, to], [from, to], WHOLE_SECOND);
        let is_calm = is_inside && !is_disturbed([start.max(from), to]);
        let untimed = |name: &Value, samples: usize| result(name, samples, is_calm.then(Vec::new));
        let list = |key: &str| report[key].as_array().into_iter().flatten();
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let len = |value: &Value| value.as_array().map_or(0, Vec::len);
        let has = |key: &str| report.get(key).is_some();
        let timestamp = &report["start"]["timestamp"];
        let (tool, results): (_, Vec<_>) = if has("fio version") {
            let time = fio_times(report);
            let job = |job: &Value| timed(&job["jobname"], vec![time(job)], WHOLE_SECOND);
            ("fio", list("jobs").map(job).collect())
        } else if let Some(second) = timestamp["timesecs"].as_f64() {
            // Without milliseconds it started within the second.
            let start = timestamp["timemillisecs"].as_f64();
            let [from, to] = start.map_or([second, second + WHOLE_SECOND], |start| [start / 1e3; 2]);
            let omitted = report["start"]["test_start"]["omit"].as_f64().unwrap_or(0.0);
            let time = |one: &Value| {
                // After the omitted intervals their times start at 0 again.
                let after = if one["sum"]["omitted"] == true { 0.0 } else { omitted };
                [from + after + number(&one["sum"]["start"]), to + after + number(&one["sum"]["end"])]
            };
            ("iperf3", vec![timed(&"intervals".into(), list("intervals").map(time).collect(), to - from)])
        } else if has("machine_info") {
            let rounds = |one: &Value| number(&one["stats"]["rounds"]).clamp(0.0, MAX_SAMPLES) as usize;
            ("pytest-benchmark", list("benchmarks").map(|one| untimed(&one["name"], rounds(one))).collect())
        } else if has("context") {
            let all = list("benchmarks").filter(|one| one["run_type"] != "aggregate");
            ("google-benchmark", all.map(|one| untimed(&one["name"], 1)).collect())
        } else if has("results") {
            ("hyperfine", list("results").map(|one| untimed(&one["command"], len(&one["times"]))).collect())
        } else if has("sampling_mode") {
            ("criterion", vec![untimed(&"samples".into(), len(&report["times"]))])
        } else {
            return None;
        };
        let is_untimed = is_inside && !["fio", "iperf3"].contains(&tool);
        Some((tool, if is_untimed { WHY_UNTIMED } else { WHY_OUTSIDE }, results))
    }
}

/// Returns whether a time is within another one, whose ends may differ by `slack` in seconds beside
/// the tolerance; false if it ends before it starts or is not a number.
fn is_within([from, to]: [f64; 2], [start, end]: [f64; 2], slack: f64) -> bool {
    let slack = slack + FILE_TIME_TOLERANCE_S;
    from <= to && from >= start - slack && to <= end + slack
}

/// Returns a function for the earliest start and the latest end of a job in fio's `report`; unknown
/// ones are not numbers.
fn fio_times(report: &Value) -> impl Fn(&Value) -> [f64; 2] {
    let seconds = |value: &Value| value.as_f64().map_or(f64::NAN, |ms| ms / 1e3);
    // The runtimes of transfers are 0 for engines without, and lack the time to ramp up.
    let runtime = move |job: &Value| {
        let sides = ["read", "write", "trim"].map(|side| &job[side]["runtime"]);
        let all = sides.into_iter().chain([&job["job_runtime"]]).map(seconds);
        all.filter(|time| *time > 0.0).reduce(f64::max).unwrap_or(f64::INFINITY)
    };
    let waits = |job: &Value| ["startdelay", "wait_for"].iter().any(|key| !job["job options"][key].is_null());
    let mut all = report["jobs"].as_array().into_iter().flatten();
    let longest = all.clone().map(runtime).fold(0.0, f64::max);
    let is_one_group = all.all(|job| job["groupid"] == report["jobs"][0]["groupid"] && !waits(job));
    let end = seconds(&report["timestamp_ms"]);
    move |job| {
        let (start, runtime) = (seconds(&job["job_start"]), runtime(job));
        let earliest = end - job["elapsed"].as_f64().unwrap_or(f64::NAN);
        match start.is_nan() {
            // The runtime may be the sum of many jobs.
            false if start < end => [start, end.min(start + runtime)],
            true if is_one_group => [earliest.max(end - longest), end],
            _ => [earliest, end],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandInterval, Disturbance, DisturbedSpan, ObservedRun, SteadyVerdict};

    /// Start of the command: 2026-11-26T01:00:00Z.
    const START: f64 = 1_795_654_800.0;

    /// The marker of a command that ran for an hour and was disturbed between these seconds.
    fn marker(answer: SteadyAnswer, disturbed: &[[f64; 2]]) -> ResultMarker {
        ResultMarker::new(&document(answer, disturbed))
    }

    fn document(answer: SteadyAnswer, disturbed: &[[f64; 2]]) -> SteadyDocument {
        let (cause, lost) = (Disturbance::Quota, Some(0.1));
        let span = |&[from, to]: &[f64; 2]| DisturbedSpan { cause, from, to, lost, by: Vec::new() };
        let spans = disturbed.iter().map(span).collect();
        let verdict = SteadyVerdict { answer, line: "the line".to_owned(), spans, share: 0.1 };
        let (started, intervals) = ("2026-11-26T01:00:00Z".to_owned(), Vec::new());
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
            let wanted = ("iperf3".to_owned(), vec![one("intervals", 2, Some(positions))]);
            assert_eq!(marked(text, &spans), wanted, "{spans:?}");
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
        // 1.001 s from 01:20:36.674.
        let with_start = include_str!("../../check/tests/corpus/fio-3.42-direct.json");
        for (span, positions) in [
            ([1200.0, 1236.7], &[0][..]),
            ([1200.0, 1236.6], &[]),
            ([1237.6, 1300.0], &[0]),
            ([1237.7, 1300.0], &[]),
        ] {
            assert_eq!(marked(with_start, &[span]).1, [one("new", 1, Some(positions))]);
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
        // The jobs of one group start at once, so that the longest one began 30 s before the end.
        let text = text.replace(r#""groupid": 1"#, r#""groupid": 0"#).replacen("10000", "30000", 1);
        // One that waits for its start may have run before the longest one.
        let delayed = text.replace(r#""elapsed""#, r#""job options": {"startdelay": "30"}, "elapsed""#);
        assert_eq!(marked(&delayed, &[[25.0, 29.0]]).1, [one("a", 1, Some(&[0])), one("b", 1, Some(&[0]))]);
        // So of an engine without transfers, such as cpuio.
        let idle = text.replace("30000", "0").replace("10000", "0").replace("unknown", "job_runtime");
        let idle = idle
            .replace(&(ms + 20_000.0).to_string(), "30000")
            .replace(&(ms + 40_000.0).to_string(), "10000");
        for (to, positions) in [(31.0, &[0][..]), (29.0, &[])] {
            let expected = ["a", "b"].map(|name| one(name, 1, Some(positions)));
            assert_eq!([&text, &idle].map(|text| marked(text, &[[25.0, to]]).1), [&expected; 2]);
        }
    }

    #[test]
    fn samples_of_another_time_than_the_command_are_unknown() {
        let iperf3 = |start: f64, more: &str, time: &str| {
            format!(
                r#"{{"start": {{"timestamp": {{"timesecs": {start:e}}}{more}}}, "intervals": [{{"sum": {{{time}}}}}]}}"#
            )
        };
        let second = r#""start": 0, "end": 1"#;
        let fio = |job: &str| {
            format!(
                r#"{{"fio version": "fio-3.36", "timestamp_ms": {}, "jobs": [{{{job}}}]}}"#,
                START * 1e3 + 60e3
            )
        };
        let (_, benchmark, ..) = UNTIMED[2];
        let dated = |date: &str| benchmark.replace("2026-11-26T02:30:00+01:00", date);
        let of_command = [
            iperf3(START - 1.0, "", second),
            iperf3(START + 3599.0, "", second),
            fio(r#""elapsed": 61"#),
            dated("2026-11-26T00:59:59Z"),
        ];
        let of_another_time = [
            iperf3(START - 3.0, "", second),
            iperf3(START + 3700.0, "", second),
            iperf3(1e300, "", second),
            iperf3(-1e300, "", second),
            iperf3(START, r#", "test_start": {"omit": 1e300}"#, second),
            iperf3(START, "", r#""start": 2, "end": -1e300"#),
            iperf3(START, "", r#""start": -1e308, "end": 1e308"#),
            iperf3(START, "", ""),
            fio(r#""elapsed": 100"#),
            fio(r#""elapsed": -100"#),
            fio(r#""job_start": -1e300, "read": {"runtime": 1e300}"#),
            fio(r#""job_start": 1e300, "job_runtime": 1"#),
            dated("2099-01-01T00:00:00Z"),
            dated("2026-11-25T01:30:00Z"),
            dated("2026-11-26T02:30:00Z"),
        ];
        for (all, disturbed) in [(&of_command[..], Some(&[][..])), (&of_another_time, None)] {
            for text in all {
                let found = marked(text, &[[3650.0, 3660.0]]).1;
                assert!(found.iter().all(|one| one.2.as_deref() == disturbed), "{text}: {found:?}");
            }
        }
        // A file that was written after the end of the command, or just before its clock.
        let report: Value = serde_json::from_str(UNTIMED[0].1).unwrap();
        for (written, disturbed) in [(3601.0, None), (-0.05, Some(Vec::new()))] {
            let marker = marker(SteadyAnswer::HeldStill, &[]);
            let file = marker.mark(&report, [START, START + written], String::new());
            assert_eq!(file.results[0].disturbed, disturbed, "{written}");
        }
    }

    #[test]
    fn numbers_of_samples_are_bounded_and_names_made_harmless() {
        let (_, text, name, _) = UNTIMED[1];
        for (rounds, samples) in [("1e300", 1_000_000_000), ("2.5", 2)] {
            let text = text.replace(r#""rounds": 5"#, &format!(r#""rounds": {rounds}"#));
            assert_eq!(marked(&text, &[[1.0, 2.0]]).1, [one(name, samples, None)], "{rounds}");
        }
        let text = r#"{"results": [{"command": "a\u001b[31m\nb", "times": [1]}]}"#;
        let name = marked(text, &[]).1.remove(0).0;
        assert!(name.starts_with('a') && !name.contains(['\u{1b}', '\n']), "{name}");
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
        ("criterion", r#"{"sampling_mode": "Linear", "iters": [1, 2], "times": [10.0, 20.0]}"#, "samples", 2),
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
    fn a_verdict_without_times_or_a_readable_start_leaves_all_unknown_and_a_steady_one_nothing() {
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
        let whole = document(SteadyAnswer::HeldStill, &[]);
        let mut run = whole.clone();
        run.runs[0].started = "soon".to_owned();
        let started = SteadyDocument { started: "soon".to_owned(), ..whole };
        for document in [started, run] {
            let file = ResultMarker::new(&document).mark(&report, [START, START + 1.0], String::new());
            assert_eq!((file.why.is_some(), &file.results[0].disturbed), (true, &None));
        }
    }

    #[test]
    fn what_no_known_tool_wrote_or_has_no_results_is_not_marked() {
        let marker = marker(SteadyAnswer::HeldStill, &[]);
        assert!(marker.is_new(START) && !marker.is_new(START - 1.0));
        let unknown = ["{}", "[]", r#"{"times": [1]}"#, r#"{"start": {"timestamp": 1}, "error": "no"}"#];
        let empty = [
            r#"{"start": {"timestamp": {"timesecs": 1795654800}}, "intervals": [], "error": "no"}"#,
            r#"{"fio version": "fio-3.36"}"#,
            r#"{"machine_info": {}, "benchmarks": [{"stats": {"rounds": -1e300}}, {"stats": {"rounds": "5"}}]}"#,
            r#"{"context": {}, "benchmarks": [{"run_type": "aggregate"}]}"#,
            r#"{"results": 1}"#,
            r#"{"results": [{"passed": true}]}"#,
            r#"{"sampling_mode": "Flat", "times": []}"#,
        ];
        for (all, why) in [(&unknown[..], "no known tool wrote it"), (&empty, "it has no results")] {
            for text in all {
                let file = marker.mark(&serde_json::from_str(text).unwrap(), [START, START], "f".to_owned());
                assert_eq!(file, MarkedFile::unread("f".to_owned(), why), "{text}");
            }
        }
    }

    #[test]
    fn a_suspension_moves_what_follows() {
        let interval =
            |from, to, suspended| CommandInterval { from, to, suspended, ..CommandInterval::default() };
        let mut document = document(SteadyAnswer::Disturbed, &[[10.0, 11.0], [11.0, 20.0]]);
        document.runs[0].intervals =
            vec![interval(0.0, 10.0, 0.0), interval(10.0, 11.0, 60.0), interval(11.0, 20.0, 0.0)];
        let at = |from: f64, to: f64| [START + from, START + to];
        assert_eq!(ResultMarker::new(&document).spans, [at(10.0, 71.0), at(71.0, 80.0)]);
    }
}
