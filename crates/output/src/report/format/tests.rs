//! The list of formats.

use std::collections::HashSet;
use std::path::Path;

use plimsoll_compare::{CompareOptions, ComparedSide, compare};
use plimsoll_result::fixture;

use super::*;

#[test]
fn names_are_unique_and_every_format_writes_something() {
    let all = || FORMATS.iter().copied();
    let names: HashSet<&str> = all().map(|f| f.name).chain(all().filter_map(|f| f.alias)).collect();
    assert_eq!(names.len(), all().count() + all().filter_map(|f| f.alias).count());
    for format in all() {
        assert!(FormatSubject::ALL.into_iter().any(|subject| subject.is_in(format)), "{}", format.name);
        assert_eq!(find(format.name).unwrap().name, format.name);
        let words = [format.name, format.about, format.extension];
        assert!(words.iter().all(|word| !word.is_empty()), "{words:?}");
    }
}

/// Texts that a format writes for a run, its tools, and comparisons of it with itself.
fn texts_of(format: &Format, run: &Run, style: &Style) -> Vec<String> {
    let side = |name: &str| ComparedSide { name: name.to_owned(), runs: vec![run.clone()] };
    let compared = |names: &[&str]| {
        let sides: Vec<ComparedSide> = names.iter().map(|name| side(name)).collect();
        let comparison = &compare(&sides, &[], &CompareOptions::default());
        let (shown, missing) = (ShownMetrics::Telling, Missing::Fail);
        let of = Sides { comparison, sides: &sides, held: &[], shown, missing, style };
        format.comparison.map(|write| write(&of).unwrap())
    };
    let of = OneRun { run, held: &[], style };
    let has_figures = !run.measurements.iter().all(|measurement| (format.leaves_out)(measurement));
    let texts = [
        format.run.filter(|_| has_figures).map(|write| write(&of).unwrap()),
        format.tools.map(|write| write(&of).unwrap()),
        compared(&["before", "after"]),
        compared(&["a", "b", "c"]),
    ];
    texts.into_iter().flatten().collect()
}

#[test]
fn what_is_left_out_is_counted() {
    let run = fixture::run();
    let stated = |name: &str| left_out(find(name).unwrap(), &run);
    assert_eq!(stated("json"), None);
    let without = run.measurements.iter().filter(|m| m.metrics.is_empty()).count();
    assert!(without > 0);
    let what = "cases have no valid figure and are not in csv; --format json has all cases";
    assert_eq!(stated("csv"), Some(format!("{without} of {} {what}", run.measurements.len())));
}

#[test]
fn what_a_format_cannot_write_is_refused_with_those_that_can() {
    let refused =
        |name: &str, subject: FormatSubject| NoFormat { name: name.to_owned(), subject }.to_string();
    assert_eq!(
        refused("ndjson", FormatSubject::Comparison),
        "--format ndjson is not supported on compare (it is for export, export --table tools): use text, html, json, csv, markdown"
    );
    assert_eq!(
        refused("junit", FormatSubject::Tools),
        "--format junit is not supported on export --table tools (it is for export): use csv, ndjson"
    );
    let unknown = refused("\u{1b}[31mpdf", FormatSubject::Tables);
    assert!(unknown.starts_with("--format must be one of text, html, csv, markdown: "), "{unknown}");
    assert!(!unknown.contains('\u{1b}'), "{unknown}");
    assert!(writer("table", FormatSubject::Comparison, |format| format.comparison).is_ok(), "its other name");
    assert!(writer("junit", FormatSubject::Comparison, |format| format.comparison).is_err());
}

#[test]
fn the_docs_name_each_format() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/recipes.md");
    let text = std::fs::read_to_string(file).unwrap();
    let (_, formats) = text.split_once("\n## Formats\n").unwrap();
    for format in FORMATS {
        assert!(formats.contains(&format!("`{}`", format.name)), "{}", format.name);
    }
}

/// A run with a result near its limit, one fifth of it delivered.
fn disturbed() -> Run {
    let mut made = fixture::cpu("f64", 2, 103e9, 104e9);
    (made.conditions.excluded, made.conditions.delivered) = (Some(0.79), Some(22.125e9));
    made.conditions.waited = Some(0.78);
    let (delivered, excluded) = (Some(22.125e9), Some(0.79));
    let point = plimsoll_model::measurement::SamplePoint { delivered, excluded, ..Default::default() };
    made.metrics[0].series = vec![point; made.metrics[0].samples.len()];
    fixture::run_of(vec![made])
}

/// Whether a text contains the delivered value, scaled or in full.
fn has_delivered(text: &str) -> bool {
    ["22.1 GFLOP/s", "22.1 delivered", "22125000000", "2.2125e"].iter().any(|figure| text.contains(figure))
}

#[test]
fn each_writes_what_it_can_and_no_undisturbed_figure_without_what_was_delivered() {
    let (tools, run, style) = (fixture::with_tools(), disturbed(), Style::plain(100));
    for format in FORMATS {
        assert!(texts_of(format, &tools, &style).iter().all(|text| text.len() > 100), "{}", format.name);
        // The run has no tools, so all texts show its result.
        for text in texts_of(&Format { tools: None, ..**format }, &run, &style) {
            assert!(has_delivered(&text), "{}: {text}", format.name);
        }
    }
    assert!(has_delivered(&crate::report::card::card(&run, &style).unwrap()));
}

#[test]
fn the_first_line_of_a_disturbed_run_is_what_it_delivers() {
    let mut run = disturbed();
    run.measurements.extend(["f32", "f16"].map(|element| fixture::cpu(element, 2, 100e9, 104e9)));
    let text = crate::report::terminal::text(&run, &Style::plain(200));
    let first = text.lines().take(2).collect::<Vec<_>>().join(" ");
    let wanted = ["delivers 22.1 GFLOP/s (21 %) of the 103 GFLOP/s", "other processes"];
    assert!(wanted.iter().all(|wanted| first.contains(wanted)), "{first}");
    // Threads that work in turns count only their own time.
    let mut in_turns = disturbed();
    in_turns.measurements[0].conditions.delivered = Some(180e9);
    let delivered = in_turns.measurements[0].delivered().unwrap();
    assert!(delivered.value < delivered.undisturbed, "{delivered:?}");
    // Quiet runs have no such line.
    let quiet = crate::report::terminal::text(&fixture::run(), &Style::plain(200));
    assert!(!quiet.contains("delivers"));
}
