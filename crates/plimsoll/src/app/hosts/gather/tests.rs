use plimsoll_output::report::json as document;
use plimsoll_result::fixture;

use super::*;
use proptest::prelude::*;

fn of(name: &str) -> Run {
    let mut run = fixture::run();
    run.id = plimsoll_system::wall::run_id();
    run.nodes[0].name = name.to_owned();
    run.measurements.iter_mut().for_each(|m| m.node = name.to_owned());
    run
}

fn text(run: &Run) -> String {
    let mut text = Vec::new();
    document::write(run, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn documents_are_found_one_after_another_and_between_the_lines_of_a_log() {
    let runs = [of("a"), of("b"), of("c")];
    let log = runs.iter().map(|run| format!("2026 starting {{}}\n{}\nend\n", text(run))).collect::<String>();
    let mut found = ReadDocuments::default();
    found.take("log", &log);
    assert_eq!(found.wrong, Vec::<String>::new());
    let of_log: Vec<&str> = found.runs.iter().flat_map(names).collect();
    assert_eq!(of_log, ["a", "b", "c"]);

    let whole = text(&runs[0]);
    let cut = format!("{}\n{}", &whole[..whole.len() / 2], text(&runs[1]));
    let mut found = ReadDocuments::default();
    found.take("cut", &cut);
    assert_eq!(found.runs.iter().flat_map(names).collect::<Vec<_>>(), ["b"], "{:?}", found.wrong);
    assert_eq!(found.wrong.len(), 1, "{:?}", found.wrong);
    found.take("other", "no document");
    let none = "other: holds no run document (the JSON of plimsoll run --json, which must begin at the start of a line)";
    assert_eq!(found.wrong[1], none);
}

#[test]
fn lines_of_a_log_that_are_json_or_no_text_are_passed_over() {
    let of_log = format!(
        "{{\"level\":\"info\"}}\n{{oops\n{} {}\n{{\"schema\":\"other\"}}",
        serde_json::to_string(&of("a")).unwrap(),
        serde_json::to_string(&of("b")).unwrap()
    );
    let mut found = ReadDocuments::default();
    found.take("log", &of_log);
    assert_eq!(found.wrong, Vec::<String>::new());
    assert_eq!(found.runs.iter().flat_map(names).collect::<Vec<_>>(), ["a", "b"], "two on a line");
    assert_eq!(bounded(&b"caf\xe9\n{}"[..]).unwrap(), "caf\u{fffd}\n{}");
}

#[test]
fn a_text_of_braces_holds_no_run() {
    let mut found = ReadDocuments::default();
    found.take("braces", &"{\"a\":[\n".repeat(50_000));
    assert_eq!((found.runs.len(), found.wrong.len()), (0, 1));
}

#[test]
fn the_plan_that_most_have_is_gathered_and_the_others_are_findings() {
    let mut other = of("c");
    other.version = "0.0.9".to_owned();
    let found = ReadDocuments { runs: vec![of("a"), other, of("b")], wrong: Vec::new(), are_many: false };
    let run = run_of(found, &["a", "b", "c"].map(str::to_owned).into()).unwrap();
    assert_eq!(names(&run).collect::<BTreeSet<_>>(), ["a", "b"].into());
    let lost: Vec<&str> =
        run.findings.iter().map(|f| f.text.as_str()).filter(|text| text.starts_with("c ")).collect();
    assert_eq!(lost.len(), 1, "it is left out, and not missing: {:?}", run.findings);
    let start = "c is left out: its document is of plimsoll 0.0.9, most are of ";
    assert!(lost[0].starts_with(start), "{lost:?}");
    assert_eq!(run.status, RunStatus::Partial);
}

#[test]
fn who_is_missing_or_failed_is_a_finding_and_stays_one() {
    let mut bad = of("b");
    bad.status = RunStatus::Partial;
    bad.measurements.truncate(3);
    let found = ReadDocuments {
        runs: vec![of("a"), bad],
        wrong: vec!["x.json: cut off".to_owned()],
        are_many: false,
    };
    let run = run_of(found, &["a", "b", "d"].map(str::to_owned).into()).unwrap();
    let texts = |run: &Run| run.findings.iter().map(|found| found.text.clone()).take(3).collect::<Vec<_>>();
    let all = texts(&run);
    assert!(all[0].starts_with("b: its run ended early, with 3 of "), "{all:?}");
    assert_eq!(all[1], "d is missing: --expect names it, and no document is from it");
    assert_eq!(all[2], "1 document cannot be read, so machines may be missing. The first: x.json: cut off");
    assert_eq!((run.status, run.nodes.len()), (RunStatus::Partial, 2));
    assert_eq!(Run::parse(&text(&run)).map(|read| read.nodes.len()), Ok(2), "it is a run document");
    let with_another = ReadDocuments { runs: vec![run, of("e")], ..ReadDocuments::default() };
    let again = run_of(with_another, &BTreeSet::new()).unwrap();
    assert_eq!((texts(&again), again.nodes.len(), again.status), (all, 3, RunStatus::Partial));
}

proptest! {
    #[test]
    fn no_other_text_has_a_run(text in "[{}\\[\\]\n\":a]{0,200}") {
        let mut found = ReadDocuments::default();
        found.take("x", &text);
        prop_assert!(found.runs.is_empty() && !found.wrong.is_empty());
    }
}
