//! The table with each kind of row, at several widths, in ASCII and colour, and live.

use std::io;

use plimsoll_history::Location;
use plimsoll_model::limit::{Limit, LimitKind, LimitSource};
use plimsoll_model::measurement::{Measurement, Status};
use plimsoll_result::document::{Run, RunStatus};
use plimsoll_result::event::RunEvent;
use plimsoll_result::fixture;
use plimsoll_units::quantity::Unit;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::super::style::Style;
use super::super::terminal::{Live, RunPlace, SHORT_ID, text as printed, warnings};

fn of_width(width: usize) -> String {
    printed(&fixture::run(), &Style::plain(width))
}

#[test]
fn the_table_at_several_widths() {
    insta::assert_snapshot!("at_100_columns", of_width(100));
    insta::assert_snapshot!("at_80_columns", of_width(80));
    insta::assert_snapshot!("at_60_columns", of_width(60));
    insta::assert_snapshot!("at_20_columns", of_width(20));
}

#[test]
fn explained() {
    insta::assert_snapshot!(printed(&fixture::run(), &Style { explain: true, ..Style::plain(100) }));
}

#[test]
fn an_invalid_figure_without_a_share_says_so_without_colour() {
    let mut made = fixture::measured("memory.latency/size=1G", "latency", Unit::Second, 1e-7);
    (made.status, made.reason) = (Status::Invalid, Some("93 % of the time was excluded".to_owned()));
    let text = printed(&fixture::run_of(vec![made]), &Style::plain(80));
    let is_it = |line: &str| line.starts_with("  latency 1 GiB") && line.ends_with(" invalid");
    assert!(text.lines().any(is_it), "{text}");
}

#[test]
fn a_figure_with_most_of_its_time_excluded_is_marked() {
    let mut made = fixture::cpu("f64", 2, 117.4e9, 118e9);
    made.conditions.excluded = Some(0.7);
    for (code, figure) in [("mostly-excluded", " ~117 GFLOP/s"), ("preempted", "  117 GFLOP/s")] {
        made.warnings = vec![fixture::note(code, "")];
        let text = printed(&fixture::run_of(vec![made.clone()]), &Style::plain(100));
        assert!(text.contains(figure) && text.contains("(~)") == figure.contains('~'), "{text}");
    }
}

#[test]
fn in_ascii() {
    let text = printed(&fixture::run(), &Style { unicode: false, ..Style::plain(80) });
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn in_colour() {
    let text = printed(&fixture::run(), &Style { colour: true, ..Style::plain(80) });
    assert_eq!(without_colour(&text), of_width(80));
    insta::assert_snapshot!(text.replace('\u{1b}', "␛"));
}

/// The text without SGR codes (ECMA-48 8.3.117).
fn without_colour(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('m').expect("a code that is not SGR");
        assert!(code.bytes().all(|b| b.is_ascii_digit() || b == b';'), "{code}");
        plain += rest;
    }
    plain
}

/// Output of a live run to stdout and stderr, for `events` and the end of `run`.
fn live(style: Style, events: &[RunEvent], run: &Run) -> [String; 2] {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut live = Live::new(&mut out, &mut err, style, &Run { measurements: Vec::new(), ..run.clone() });
    events.iter().for_each(|event| live.event(event));
    let location = Location::Usual("/home/a/.local/share/plimsoll".into());
    let place = RunPlace { location: &location, id: run.id.chars().take(SHORT_ID).collect() };
    live.finish(run, Some(&place), None).unwrap();
    drop(live);
    [out, err].map(|text| String::from_utf8(text).unwrap())
}

fn events(measurements: &[Measurement]) -> Vec<RunEvent> {
    let cases = measurements.len();
    let mut events = vec![RunEvent::Started { run: fixture::ID.to_owned(), cases, expected_s: 48.0 }];
    for (index, measurement) in measurements.iter().enumerate() {
        let case = measurement.case.id();
        events.push(RunEvent::Preparing { case: case.clone(), index, cases, left_s: 125.0 });
        events.push(RunEvent::Sampled { case, n: 1, value: 1.0 });
        events.push(RunEvent::Measured { measurement: Box::new(measurement.clone()) });
    }
    events
}

#[test]
fn a_live_run_reads_like_a_stored_one() {
    let run = fixture::run();
    let [out, err] = live(Style::plain(80), &events(&run.measurements), &run);
    let (live, kept) = out.rsplit_once("kept in ").unwrap();
    let explained = "explained: plimsoll history show 019aa5c3-2f1b --explain";
    assert_eq!(kept, format!("/home/a/.local/share/plimsoll; {explained}\n"));
    // A live run has its verdict below the table, a stored one above.
    let stored = of_width(80);
    let is_verdict = |line: &&str| !line.starts_with("plimsoll ");
    let verdict: Vec<&str> = stored.lines().take_while(is_verdict).filter(|line| !line.is_empty()).collect();
    let without_verdict = |text: &str| {
        let is_kept = |line: &&str| !line.is_empty() && !verdict.contains(line);
        text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
    };
    assert!(live.contains(&verdict.join("\n")), "{live}");
    assert_eq!(without_verdict(live), without_verdict(&stored));
    assert_eq!(err, "");
}

#[test]
fn a_named_store_is_named_again() {
    let (mut out, run) = (Vec::new(), fixture::run());
    let mut live = Live::new(&mut out, io::sink(), Style::plain(200), &run);
    let location = Location::Named("my runs".into());
    live.finish(&run, Some(&RunPlace { location: &location, id: "019aa5c3-2f1b".to_owned() }), None).unwrap();
    drop(live);
    let wanted = "plimsoll history show 019aa5c3-2f1b --explain --store 'my runs'\n";
    assert!(String::from_utf8(out).unwrap().ends_with(wanted));
}

#[test]
fn the_progress_line_is_erased_before_each_row() {
    let run = fixture::run();
    let style = Style { progress: Some(80), ..Style::plain(80) };
    let [_, err] = live(style, &events(&run.measurements[..1]), &run);
    let lines: Vec<&str> = err.split("\r\u{1b}[2K").collect();
    assert_eq!(lines, ["", "[1/1] fma f64 avx512 · preparing · 2 min 5 s left", lines[2], ""]);
    let sampled = lines[2];
    let lead = "[1/1] fma f64 avx512 · 1 sample";
    assert!(sampled.starts_with(lead) && sampled.ends_with(" left"), "{sampled}");
}

#[test]
fn rows_that_the_end_of_the_run_changes_are_printed_again() {
    let made = fixture::measured("cpu.peak/op=fma/threads=1", "rate", Unit::FlopPerSecond, 2e9);
    let early = vec![made.clone().limited(Limit::unknown(LimitKind::Ceiling, "not yet known"))];
    let limit = Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, 1e9, "as measured later", Vec::new());
    let mut later = made.limited(limit);
    later.status = Status::Invalid;
    later.reason = Some("rate is 200 % of its limit: impossible".to_owned());
    let [out, _] = live(Style::plain(80), &events(&early), &fixture::run_of(vec![later]));
    insta::assert_snapshot!(out);
}

/// The star is in the gap before the limit, unless the limit fills its column.
#[test]
fn the_star_of_a_wide_interval_moves_no_column() {
    let made = |limit: f64, half: f64| {
        let mut made = fixture::measured("cpu.peak/op=fma/threads=1", "rate", Unit::FlopPerSecond, 9e8);
        made.metrics[0].summary.ci95 = Some([9e8 * (1.0 - half), 9e8 * (1.0 + half)]);
        made.warnings = vec![fixture::note("not-converged", "not converged: too short; measure longer")];
        made.limited(Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, limit, "as given", Vec::new()))
    };
    for (limit, half, cells) in [
        (9.5e8, 0.036, "900 MFLOP/s  ± 3.6 %* 950 MFLOP/s"),
        (1e9, 0.036, "900 MFLOP/s ± 3.6 %* 1.00 GFLOP/s"),
        (1e9, 0.0036, "900 MFLOP/s ±0.36 %* 1.00 GFLOP/s"),
    ] {
        let run = fixture::run_of(vec![made(limit, half)]);
        let text = printed(&run, &Style::plain(80));
        assert!(text.contains(cells), "{text}");
    }
}

#[test]
fn an_interrupted_run_says_so() {
    let mut run = fixture::run();
    run.status = RunStatus::Partial;
    run.measurements.truncate(2);
    let mut before = events(&run.measurements);
    before.push(RunEvent::Interrupted);
    let [out, _] = live(Style::plain(80), &before, &run);
    assert!(out.contains("partial: 2 of 13 cases in 47 s: 2 ok"), "{out}");
}

#[test]
fn a_reader_that_has_gone_is_a_quiet_end_and_other_troubles_are_told_at_the_end() {
    struct Broken(io::ErrorKind, usize);
    impl io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }
    let run = fixture::run();
    let ended = |kind: io::ErrorKind| {
        let (mut out, style) = (Broken(kind, 0), Style { progress: Some(80), ..Style::plain(80) });
        let mut live = Live::new(&mut out, Broken(io::ErrorKind::BrokenPipe, 0), style, &run);
        events(&run.measurements).iter().for_each(|event| live.event(event));
        let ended = live.finish(&run, None, None);
        drop(live);
        assert_eq!(out.1, 1, "nothing is written after an error");
        ended
    };
    ended(io::ErrorKind::BrokenPipe).unwrap();
    assert_eq!(ended(io::ErrorKind::StorageFull).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn warnings_stand_alone_where_there_is_no_table() {
    let run = fixture::run();
    let text = warnings(&run.measurements[4], &Style::plain(80));
    assert_eq!(text.lines().count(), 2);
    assert!(text.starts_with("read 512 MiB ×2: not converged"), "{text}");
    let failed = warnings(&run.measurements[9], &Style::plain(80));
    assert!(failed.starts_with("seq. write 1 MiB depth 8: no space"), "{failed}");
}

/// A run with all external texts set to `text`.
fn hostile(text: &str) -> Run {
    let mut run = fixture::run();
    let text = || text.to_owned();
    run.machine.host = Some(text());
    run.machine.cpu.model_name = Some(text());
    run.machine.virtualisation.hypervisor = Some(text());
    let storage = run.machine.storage.as_mut().unwrap();
    (storage.path, storage.disks[0].name, storage.disks[0].model) = (text(), text(), Some(text()));
    storage.file_system.as_mut().unwrap().fs_type = text();
    (run.plan.name, run.version, run.started, run.findings[0].text) = (text(), text(), text(), text());
    for measurement in &mut run.measurements {
        measurement.case = measurement.case.clone().with_word("engine", &text());
        measurement.achieved.put("link", text());
        measurement.reason = measurement.reason.as_ref().map(|_| text());
        measurement.warnings.iter_mut().for_each(|w| w.text = text());
        for metric in &mut measurement.metrics {
            metric.limit.iter_mut().for_each(|limit| (limit.reason, limit.formula) = (Some(text()), text()));
        }
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn hostile_names_reach_no_terminal(text in "\\p{Any}{0,60}(\\x1b\\[2J|\\u{202e}|\\n|\\x07)?\\p{Any}{0,20}", width in 1usize..200) {
        let style = Style { colour: true, ..Style::plain(width) };
        let run = hostile(&text);
        let shown = printed(&run, &style) + &warnings(&run.measurements[4], &style);
        let plain = without_colour(&shown);
        prop_assert!(!plain.chars().any(|c| c.is_control() && c != '\n'));
        let turned = ['\u{202e}', '\u{2066}', '\u{2028}'];
        prop_assert!(!plain.contains(turned));
        let ascii = printed(&run, &Style { unicode: false, ..Style::plain(width) });
        prop_assert!(ascii.is_ascii());
    }

}

#[test]
fn no_width_panics_and_no_line_is_wider_than_the_terminal_or_ends_in_blanks() {
    for (width, unicode) in (1..=200).flat_map(|width| [(width, true), (width, false)]) {
        let text = printed(&fixture::run(), &Style { unicode, ..Style::plain(width) });
        assert!(text.lines().all(|line| line == line.trim_end()), "{width}");
        assert!(width < 20 || text.lines().all(|line| line.width() <= width), "{width}: {text}");
    }
}
