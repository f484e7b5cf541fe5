use super::*;
use crate::fixture;
use crate::report::json as document;
use proptest::prelude::*;

/// The run of a machine of this name.
fn of(name: &str) -> Run {
    let mut run = fixture::run();
    run.id = crate::wall::run_id();
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
    let mut found = Found::default();
    found.take("log", &log);
    assert_eq!(found.wrong, Vec::<String>::new());
    let of_log: Vec<&str> = found.runs.iter().flat_map(names).collect();
    assert_eq!(of_log, ["a", "b", "c"]);

    let whole = text(&runs[0]);
    let cut = format!("{}\n{}", &whole[..whole.len() / 2], text(&runs[1]));
    let mut found = Found::default();
    found.take("cut", &cut);
    assert_eq!(found.runs.iter().flat_map(names).collect::<Vec<_>>(), ["b"], "{:?}", found.wrong);
    assert_eq!(found.wrong.len(), 1, "{:?}", found.wrong);
    found.take("other", "no document");
    assert_eq!(found.wrong[1], "other: holds no run document");
}

#[test]
fn the_plan_that_most_have_is_gathered() {
    let mut other = of("c");
    other.plan.name = "other".to_owned();
    let kept = alike(vec![of("a"), other, of("b")]).unwrap();
    assert_eq!(kept.iter().flat_map(names).collect::<Vec<_>>(), ["a", "b"]);
    assert!(alike(Vec::new()).is_err());
}

#[test]
fn of_a_machine_that_came_twice_the_later_run_is_taken() {
    let mut later = of("a");
    later.started = "2999-01-01T00:00:00Z".to_owned();
    let kept = once_each(vec![later.clone(), of("a"), of("b")]);
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().any(|run| run.id == later.id));
}

#[test]
fn two_machines_of_one_name_are_told_apart() {
    let mut other = of("localhost");
    other.machine.id = "another".to_owned();
    let runs = renamed(once_each(vec![of("localhost"), other]));
    let named: Vec<&str> = runs.iter().flat_map(names).collect();
    assert_eq!(named, ["localhost", "localhost-2"]);
    assert!(runs[1].measurements.iter().all(|m| m.node == "localhost-2"));
}

#[test]
fn who_is_missing_or_failed_is_a_finding_and_the_run_is_partial() {
    let mut bad = of("b");
    bad.status = RunStatus::Partial;
    bad.measurements.truncate(3);
    let parts = vec![of("a"), bad];
    let lost = [faulty(&parts), missing(&["a".into(), "b".into(), "c".into()], &parts)].concat();
    let texts: Vec<&str> = lost.iter().map(|finding| finding.text.as_str()).collect();
    assert!(texts[0].starts_with("b: its run ended early, with 3 of "), "{texts:?}");
    assert_eq!(texts[1], "c is missing: none of the documents is of it");
    let mut parts = parts.into_iter();
    let run = joined(parts.next().unwrap(), parts.collect(), lost, true);
    assert_eq!((run.status, run.nodes.len()), (RunStatus::Partial, 2));
    assert_eq!(Run::parse(&text(&run)).map(|read| read.nodes.len()), Ok(2), "it is a run document");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[{}\\[\\]\n\":a]{0,200}") {
        let mut found = Found::default();
        found.take("x", &text);
        prop_assert!(found.runs.is_empty() && !found.wrong.is_empty());
    }
}
