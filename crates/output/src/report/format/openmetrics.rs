//! OpenMetrics 1.0
//! (<https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>). Scraped,
//! for node_exporter: no timestamps. Timed, for import: the run's time on each line, state sets.

use std::collections::BTreeMap;

use plimsoll_compare::RequirementResult;
use plimsoll_model::limit::LimitKind;
use plimsoll_model::measurement::{Measurement, MetricResult, Status};
use plimsoll_result::document::Run;
use plimsoll_units::quantity::Unit;

use super::Format;
use crate::report::tool_results::VERDICTS;

pub(super) static SCRAPED: Format = Format {
    name: "openmetrics",
    about: "gauges for Prometheus and the textfile collector of node_exporter: results, limits, verdicts",
    extension: "prom",
    run: Some(|of| Ok(text(&[(of.run, of.held)], false))),
    ..Format::NONE
};

pub(super) static TIMED: Format = Format {
    name: "openmetrics-timed",
    about: "OpenMetrics 1.0 with timestamps and state sets, for import by promtool or VictoriaMetrics; for a tag, all its runs",
    extension: "om",
    run: Some(|of| Ok(text(&[(of.run, of.held)], true))),
    runs: Some(|runs| Ok(several(runs))),
    ..Format::NONE
};

/// A run with the requirements evaluated against it.
type JudgedRun<'a> = (&'a Run, &'a [RequirementResult]);

/// Formats runs with timestamps, in order of start; of those with the same start only one, as the
/// times of a series must rise.
fn several(runs: &[Run]) -> String {
    let mut all: Vec<JudgedRun<'_>> = runs.iter().map(|run| (run, &[][..])).collect();
    all.sort_by(|(a, _), (b, _)| began(a).total_cmp(&began(b)).then_with(|| a.id.cmp(&b.id)));
    all.dedup_by(|(later, _), (earlier, _)| began(later) <= began(earlier));
    text(&all, true)
}

fn began(run: &Run) -> f64 {
    since_1970(&run.started)
}

/// Converts an RFC 3339 time to seconds since 1970; 0 if invalid.
pub(crate) fn since_1970(time: &str) -> f64 {
    time.parse::<jiff::Timestamp>().map_or(0.0, |t| t.as_millisecond() as f64 / 1e3)
}

fn text(runs: &[JudgedRun<'_>], timed: bool) -> String {
    let mut families = Families::default();
    for (run, held) in runs {
        families.time = timed.then(|| began(run));
        families.run(run);
        run.measurements.iter().for_each(|measurement| families.measurement(run, measurement));
        families.requirements(held);
    }
    families.text()
}

#[derive(Default)]
pub(crate) struct Families {
    /// Time of the lines that are added, in seconds since 1970; `None` for scraping.
    time: Option<f64>,
    all: BTreeMap<String, Family>,
}

pub(crate) type Labels<'a> = Vec<(&'a str, &'a str)>;

impl Families {
    /// Formats all metric families, sorted by name, with the final `# EOF`.
    pub(crate) fn text(&self) -> String {
        self.all.iter().map(|(name, family)| family.text(name)).collect::<String>() + "# EOF\n"
    }

    /// Adds a value of gauge `name`, which must end with `unit`, with these (name, value) labels.
    pub(crate) fn gauge(&mut self, name: &str, unit: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.lines(name, ["gauge", unit, help], &labelled(labels), &[(labelled(labels), value)]);
    }

    /// Adds `lines` (labels, value) to the family `name`, created with `about` (type, unit, help)
    /// if it is new. Lines with the same `metric` (label text) are formatted together.
    fn lines(&mut self, name: &str, about: [&str; 3], metric: &str, lines: &[(String, f64)]) {
        let new = || Family { about: about.map(str::to_owned), ..Family::default() };
        let family = self.all.entry(name.to_owned()).or_insert_with(new);
        if !family.lines.contains_key(metric) {
            family.metrics.push(metric.to_owned());
        }
        let time = self.time.map(|time| format!(" {time:.3}")).unwrap_or_default();
        let lines = lines.iter().map(|(rest, value)| format!("{name}{rest} {}{time}\n", number(*value)));
        family.lines.entry(metric.to_owned()).or_default().extend(lines);
    }

    /// Adds an enumeration: a line per state (name, whether it is current) with the value 1 or 0.
    /// The state's name is in label `label` without timestamps (gauge), else in `name` (state set).
    pub(crate) fn state(
        &mut self,
        name: &str,
        help: &str,
        labels: &Labels<'_>,
        label: &str,
        states: &[(&str, bool)],
    ) {
        let (kind, label) = if self.time.is_some() { ("stateset", name) } else { ("gauge", label) };
        let line = |(state, is): &(&str, bool)| {
            (labelled(&with(labels, [(label, *state)])), f64::from(u8::from(*is)))
        };
        let lines: Vec<(String, f64)> = states.iter().map(line).collect();
        self.lines(name, [kind, "", help], &labelled(labels), &lines);
    }

    fn run(&mut self, run: &Run) {
        let labels = [("run", run.id.as_str()), ("plan", &run.plan.name), ("version", &run.version)];
        if self.time.is_some() {
            let line = format!("_info{}", labelled(&labels));
            let about = ["info", "", "the run of these figures"];
            self.lines("plimsoll_run", about, &line, &[(line.clone(), 1.0)]);
        } else {
            let help = "when the run began, seconds since 1970";
            self.gauge("plimsoll_run_started_timestamp_seconds", "seconds", help, &labels, began(run));
        }
        let bad = run.measurements.iter().filter(|m| matches!(m.status, Status::Failed | Status::Invalid));
        let help = "cases that failed or are invalid";
        self.gauge("plimsoll_run_bad_cases", "", help, &[], bad.count() as f64);
        let wrong = run.measurements.iter().filter(|m| m.wrong_answer.is_some());
        let help = "cases whose answer is wrong: a CPU, memory or storage that is not to be trusted";
        self.gauge("plimsoll_run_wrong_answers", "", help, &[], wrong.count() as f64);
    }

    fn measurement(&mut self, run: &Run, measurement: &Measurement) {
        let (case, repeat) = (measurement.case.id(), measurement.repeat.to_string());
        let mut labels: Labels<'_> = vec![("case", case.as_str()), ("node", &measurement.node)];
        // One series per repetition; otherwise a scraper would see duplicates.
        labels.extend((run.plan.repeat > 1).then_some(("repeat", repeat.as_str())));
        for code in measurement.warning_codes() {
            let (help, labels) = ("1: the case carries this warning", with(&labels, [("code", code)]));
            self.gauge("plimsoll_case_warning", "", help, &labels, 1.0);
        }
        let states = [Status::Ok, Status::Invalid, Status::Failed, Status::Skipped];
        let states = states.map(|status| (status.word(), measurement.status == status));
        let help = "what became of the case; of an invalid one no figure is believed";
        self.state("plimsoll_case_status", help, &labels, "status", &states);
        if let Some(wrong) = &measurement.wrong_answer {
            let help = "1: the answer of the case is wrong; the reason names CPU or file";
            let cpu = wrong.cpu().map(|cpu| cpu.to_string()).unwrap_or_default();
            let reason = wrong.headline();
            let labels = with(&labels, [("cpu", cpu.as_str()), ("reason", &reason)]);
            self.gauge("plimsoll_case_wrong_answer", "", help, &labels, 1.0);
        }
        for metric in measurement.metrics.iter().filter(|_| measurement.status == Status::Ok) {
            self.figure(measurement, metric, &labels);
        }
    }

    /// Adds a metric's median, limit, value with interruptions, share of limit, ratios to tools.
    fn figure(&mut self, measurement: &Measurement, metric: &MetricResult, labels: &Labels<'_>) {
        let unit = unit_name(metric.unit);
        let benchmark = measurement.case.benchmark();
        let named = |middle: &str| {
            let end = if unit.is_empty() { String::new() } else { format!("_{unit}") };
            format!("plimsoll_{}_{}{middle}{end}", word(benchmark), word(&metric.name))
        };
        let of = &metric.name;
        let help = format!("{of} of {benchmark}, median of the samples");
        self.gauge(&named(""), unit, &help, labels, metric.summary.median);
        if let Some((limit, value)) = metric.limit.as_ref().and_then(|limit| Some((limit, limit.value?))) {
            let meaning = "at most, where the kind is ceiling; at least, where it is floor";
            let help = format!("limit of {of} of {benchmark}: {meaning}");
            let kind = if limit.kind == LimitKind::Ceiling { "ceiling" } else { "floor" };
            self.gauge(&named("_limit"), unit, &help, &with(labels, [("kind", kind)]), value);
        }
        let is_headline = measurement.metrics.first().is_some_and(|headline| headline.name == metric.name);
        if let Some(delivered) = measurement.delivered().filter(|_| is_headline) {
            let what = "that a program got, interruptions included; the figure itself excludes them";
            let help = format!("{of} of {benchmark} {what}");
            self.gauge(&named("_delivered"), unit, &help, labels, delivered.value);
            let help = "share of the time that is excluded from the figure";
            self.gauge("plimsoll_excluded_ratio", "ratio", help, labels, delivered.excluded);
        }
        if let Some(share) = metric.of_limit {
            let labels = with(labels, [("metric", of.as_str())]);
            let help = "share of the physical limit, 1 is best";
            self.gauge("plimsoll_of_limit_ratio", "ratio", help, &labels, share);
        }
        for (tool, ratio) in metric.tool_results.iter().filter_map(|tool| Some((tool, tool.ratio?))) {
            let labels = with(labels, [("metric", of.as_str()), ("reference", tool.tool.as_str())]);
            let help = "own figure divided by the reference tool's, median of the pairs";
            self.gauge("plimsoll_reference_ratio", "ratio", help, &labels, ratio.median);
            let states = VERDICTS.map(|(verdict, word)| (word, tool.verdict == verdict));
            let help = "own figure compared with the reference tool's, by a test of equivalence";
            self.state("plimsoll_reference_verdict", help, &labels, "verdict", &states);
        }
    }

    /// Adds per requirement and case the state `met` (by all results of the case) or `unmet`.
    fn requirements(&mut self, held: &[RequirementResult]) {
        let mut met: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for one in held {
            let key = (one.requirement.as_str(), one.case.as_deref().unwrap_or_default());
            *met.entry(key).or_insert(true) &= one.met;
        }
        for ((requirement, case), met) in met {
            let labels = vec![("requirement", requirement), ("case", case)];
            let help = "whether the figure meets the requirement";
            self.state("plimsoll_requirement", help, &labels, "verdict", &[("met", met), ("unmet", !met)]);
        }
    }
}

fn with<'a, const N: usize>(labels: &Labels<'a>, more: [(&'a str, &'a str); N]) -> Labels<'a> {
    labels.iter().copied().chain(more).collect()
}

#[derive(Default)]
struct Family {
    about: [String; 3],
    metrics: Vec<String>,
    lines: BTreeMap<String, Vec<String>>,
}

impl Family {
    fn text(&self, name: &str) -> String {
        let [kind, unit, help] = &self.about;
        let unit = if unit.is_empty() { String::new() } else { format!("# UNIT {name} {unit}\n") };
        let text = format!("# TYPE {name} {kind}\n{unit}# HELP {name} {}\n", escaped(help));
        let lines = self.metrics.iter().filter_map(|metric| self.lines.get(metric)).flatten();
        text + &lines.map(String::as_str).collect::<String>()
    }
}

/// Returns the suffix of metric names for a unit, `bytes_per_second`; empty for plain numbers.
pub(super) fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::BytePerSecond => "bytes_per_second",
        Unit::BitPerSecond => "bits_per_second",
        Unit::FlopPerSecond => "flop_per_second",
        Unit::OpPerSecond => "operations_per_second",
        Unit::IoPerSecond => "io_per_second",
        Unit::PerSecond => "per_second",
        Unit::Second => "seconds",
        Unit::One => "",
        Unit::Byte => "bytes",
        Unit::Hertz => "hertz",
    }
}

fn word(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v => v.to_string(),
    }
}

fn labelled(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let one = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
    format!("{{{}}}", labels.iter().map(one).collect::<Vec<_>>().join(","))
}

fn escaped(text: &str) -> String {
    plimsoll_units::text::shown_within(text, 1000).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{self, Write as _};
    use std::process::{Command, Stdio};

    use plimsoll_result::fixture;

    use super::*;

    fn scraped(run: &Run) -> String {
        text(&[(run, &[])], false)
    }

    fn whole() -> Run {
        let mut run = fixture::with_tools();
        run.measurements.extend(fixture::run().measurements);
        run
    }

    fn required() -> Vec<RequirementResult> {
        let one = |case: Option<&str>, met| {
            let (requirement, found) = ("cpu rate >= 80% of \"limit\"\n".to_owned(), "found".to_owned());
            RequirementResult { requirement, case: case.map(str::to_owned), met, found }
        };
        vec![one(Some("cpu.peak/op=fma"), true), one(Some("cpu.peak/op=fma"), false), one(None, false)]
    }

    /// The run with each case measured twice.
    fn repeated(mut run: Run) -> Run {
        let again = run.measurements.clone().into_iter().map(|made| Measurement { repeat: 1, ..made });
        run.measurements.extend(again);
        run.plan.repeat = 2;
        run
    }

    fn timed() -> String {
        let run = |n: usize| {
            let mut run = Run { started: format!("2026-11-0{n}T08:00:00.5Z"), ..whole() };
            run.id = format!("019aa5c3-000{n}-7c40-9d21-5b0c3f6a7e88");
            repeated(run)
        };
        several(&[run(3), run(1), run(2), run(2)])
    }

    #[test]
    fn the_text_of_a_run() {
        insta::assert_snapshot!(scraped(&fixture::run()));
    }

    #[test]
    fn a_limit_stands_beside_its_figure_and_verdicts_are_states() {
        let run = whole();
        let held = required();
        let both = [false, true].map(|timed| text(&[(&run, &held)], timed));
        for text in &both {
            let lines = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
            let valid = run.measurements.iter().filter(|m| m.status == Status::Ok).flat_map(|m| &m.metrics);
            let limits = valid.filter_map(|metric| metric.limit.as_ref()?.value);
            let all = text.lines().filter(|line| !line.starts_with('#') && line.contains(",kind=\"")).count();
            assert!(all > 0 && all == limits.count(), "{text}");
            assert_eq!(lines("plimsoll_case_status{"), 4 * run.measurements.len());
            let verdicts = lines("plimsoll_reference_verdict{");
            assert!(verdicts >= 4 && verdicts % 4 == 0);
            assert_eq!(lines("plimsoll_requirement{"), 4, "one of a case, one without");
        }
        let [scraped, timed] = both;
        let failed = r#"case="cpu.peak/op=fma",verdict="met"} 0"#;
        assert!(scraped.contains(failed), "one of two figures failed: {scraped}");
        for wanted in [
            "# TYPE plimsoll_case_status stateset\n",
            "plimsoll_case_status=\"ok\"} 1 ",
            "# TYPE plimsoll_run info\n",
            "\nplimsoll_run_info{run=",
        ] {
            assert!(timed.contains(wanted), "{wanted}: {timed}");
        }
        assert!(!scraped.contains("stateset") && !scraped.contains(" info\n"));
    }

    #[test]
    fn times_rise_within_a_metric_and_metrics_stand_together() {
        let text = timed();
        let mut last: Option<(String, f64)> = None;
        let mut done: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (rest, time) = line.rsplit_once(' ').unwrap();
            let (series, time) = (rest.rsplit_once(' ').unwrap().0, time.parse::<f64>().unwrap());
            let name = series.split('{').next().unwrap();
            let (metric, least) = match series.split_once(&format!(",{name}=\"")) {
                Some((metric, _)) => (metric, 0.0),
                None => (series, 1.0),
            };
            match &last {
                Some((known, before)) if known == metric => assert!(time - before >= least, "{line}"),
                _ => {
                    assert!(!done.iter().any(|known| known == metric), "{metric} stands in two places");
                    done.push(metric.to_owned());
                }
            }
            last = Some((metric.to_owned(), time));
        }
        assert!(text.contains(" 1793520000.500\n"), "the first run's: {text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("plimsoll_run_bad_cases ")).count(), 3);
    }

    fn parsed(module: &str, text: &str) -> Option<String> {
        const SCRIPT: &str = "import sys, importlib\n\
            parser = importlib.import_module(sys.argv[1])\n\
            found = list(parser.text_string_to_metric_families(sys.stdin.read()))\n\
            series = {(of.name, *sorted(of.labels.items())) for one in found for of in one.samples}\n\
            print(len(series), len(found), *sorted({one.type for one in found}))";
        let python = std::env::var("PLIMSOLL_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let has =
            Command::new(&python).args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            return None;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let input = file.reopen().unwrap();
        let output = Command::new(&python).args(["-c", SCRIPT, module]).stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    #[test]
    fn the_parsers_of_prometheus_read_all_of_it() {
        let held = required();
        let run = whole();
        let of = |timed| text(&[(&run, &held)], timed);
        let stated = |text: &str, types: &str| {
            let series = |line: &str| line.rfind('}').map_or("plimsoll_run_bad_cases".len(), |at| at + 1);
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let series: BTreeSet<&str> = lines.map(|line| &line[..series(line)]).collect();
            let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
            format!("{} {families} {types}", series.len())
        };
        for (module, text, types) in [
            ("prometheus_client.openmetrics.parser", of(false), "gauge"),
            ("prometheus_client.parser", of(false), "gauge"),
            ("prometheus_client.openmetrics.parser", of(true), "gauge info stateset"),
            ("prometheus_client.openmetrics.parser", timed(), "gauge info stateset"),
        ] {
            let Some(found) = parsed(module, &text) else {
                return skipped("needs python3 with prometheus_client; PLIMSOLL_TEST_PYTHON names a python");
            };
            assert_eq!(found, stated(&text, types), "{module}");
        }
    }

    fn skipped(why: &str) {
        let line = format!("format::openmetrics::the_parsers_of_prometheus_read_all_of_it: {why}\n");
        let _ = write!(io::stderr(), "skipped: {line}");
        if let Some(list) = std::env::var_os("PLIMSOLL_SKIPPED") {
            let mut list = std::fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
            list.write_all(line.as_bytes()).unwrap();
        }
    }

    #[test]
    fn every_family_stands_together_and_ends_in_its_unit_and_no_series_stands_twice() {
        for run in [fixture::run(), repeated(fixture::run())] {
            let text = scraped(&run);
            assert!(text.ends_with("# EOF\n"));
            let lines = || text.lines().filter(|l| !l.starts_with('#')).map(|l| l.rsplit_once(' ').unwrap());
            assert_eq!(lines().map(|(series, _)| series).collect::<BTreeSet<_>>().len(), lines().count());
            let mut names: Vec<&str> = lines().map(|(l, _)| l.split('{').next().unwrap()).collect();
            names.dedup();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "in two places: {names:?}");
            assert!(names.len() > 5 && lines().all(|(_, value)| value.parse::<f64>().is_ok()));
            for (name, unit) in text.lines().filter_map(|l| l.strip_prefix("# UNIT ")?.split_once(' ')) {
                assert!(name.ends_with(unit), "{name} {unit}");
            }
        }
    }

    #[test]
    fn hostile_labels_stay_in_their_quotes() {
        let mut run = fixture::run();
        run.measurements[0].node = "a\"} 1\n# EOF\n\\".to_owned();
        let text = scraped(&run);
        assert_eq!(text.matches("\n# EOF").count(), 1);
        assert!(text.contains(r#"node="a\"} 1\\u{a}# EOF\\u{a}\\""#), "{text}");
    }
}
