//! Tests with real faults: killed writers, damaged files, links, forbidden directories.

mod query;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use plimsoll_result::fixture;

use super::*;

fn at(directory: &tempfile::TempDir) -> Location {
    Location::Named(directory.path().join("history"))
}

fn open(location: &Location) -> Store {
    Store::open(location, Default::default()).unwrap()
}

/// Returns a store with this many runs.
fn store(runs: usize) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&at(&directory));
    (0..runs).for_each(|n| stored(&mut store, &run(n)));
    (directory, store)
}

fn read(directory: &tempfile::TempDir) -> Store {
    Store::read(&at(directory)).unwrap()
}

fn ids(store: &Store) -> Vec<String> {
    store.list().unwrap().into_iter().map(|line| line.id).collect()
}

fn run_with_id(id: &str) -> Run {
    Run { id: id.to_owned(), ..fixture::run() }
}

fn run(n: usize) -> Run {
    let id = format!("019aa5c3-{n:04x}-7c40-9d21-5b0c3f6a7e88");
    Run { id, started: format!("2026-11-{:02}T08:00:00Z", n % 28 + 1), ..fixture::run() }
}

fn stored(store: &mut Store, run: &Run) {
    store.begin(run).unwrap();
    store.finish(run).unwrap();
}

fn as_read(run: &Run) -> Run {
    serde_json::from_str(&serde_json::to_string(run).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { found.extend(files(&entry)) } else { found.push(entry) }
    }
    found.sort();
    found
}

fn documents_of(directory: &tempfile::TempDir) -> Vec<PathBuf> {
    files(&directory.path().join("history/runs"))
}

fn unfinished(directory: &tempfile::TempDir) -> Vec<PathBuf> {
    files(&directory.path().join("history/unfinished"))
}

/// Returns an unfinished run of three cases, and its file.
fn cut_off() -> (tempfile::TempDir, Run, PathBuf) {
    let ((directory, mut store), run) = (store(0), fixture::run());
    store.begin(&run.header()).unwrap();
    store.add(&run.measurements[..3]).unwrap();
    let file = unfinished(&directory).remove(0);
    (directory, run, file)
}

#[test]
fn a_run_comes_back_as_it_was_from_a_file_that_gzip_unpacks() {
    let ((directory, mut store), run) = (store(0), fixture::run());
    stored(&mut store, &run);
    let store = read(&directory);
    assert_eq!(store.load(fixture::ID).unwrap(), as_read(&run));
    assert_eq!(store.load("last").unwrap(), as_read(&run));
    let documents = documents_of(&directory);
    let named = format!("history/runs/2026/11/21T0819Z-{}.json.gz", fixture::ID);
    assert_eq!(documents, [directory.path().join(named)]);
    let unpacked = std::process::Command::new("gzip").args(["-dc"]).arg(&documents[0]).output().unwrap();
    assert_eq!(Run::parse(std::str::from_utf8(&unpacked.stdout).unwrap()).unwrap(), as_read(&run));
}

#[test]
fn the_usual_place_is_private() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::default_location(Some(directory.path().join("share").into()), None).unwrap();
    assert!(matches!(Store::read(&location), Err(StoreError::Missing(_))));
    assert!(!directory.path().join("share").exists(), "reading makes nothing");
    stored(&mut open(&location), &fixture::run());
    assert_eq!(mode(location.directory()), 0o700);
    for file in files(location.directory()) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn an_unfinished_run_is_partial_and_holds_what_was_added() {
    let ((directory, mut store), run) = (store(0), fixture::run());
    store.begin(&run.header()).unwrap();
    store.add(&run.measurements[..1]).unwrap();
    store.add(&run.measurements[1..2]).unwrap();
    let other = read(&directory);
    let part = other.load("last").unwrap();
    assert_eq!((part.status, &part.measurements[..]), (RunStatus::Partial, &as_read(&run).measurements[..2]));
    let line = &other.list().unwrap()[0];
    assert_eq!((line.status, line.counts.ok), (RunStatus::Partial, 2));
    assert!(documents_of(&directory).is_empty());
    store.finish(&run).unwrap();
    assert_eq!(read(&directory).load("last").unwrap(), as_read(&run));
    assert!(unfinished(&directory).is_empty());
}

#[test]
fn a_file_that_a_kill_cut_off_anywhere_holds_the_cases_before() {
    let (directory, run, file) = cut_off();
    let text = fs::read(&file).unwrap();
    let ends: Vec<usize> = text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).collect();
    for cut in (ends[0]..=text.len()).step_by(97) {
        fs::write(&file, &text[..cut]).unwrap();
        let part = read(&directory).load("last").unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(part.measurements, as_read(&run).measurements[..whole], "{cut}");
    }
}

#[test]
fn a_run_that_goes_on_keeps_what_it_measured() {
    let ((directory, mut store), run) = (store(0), fixture::run());
    let part =
        Run { status: RunStatus::Partial, measurements: run.measurements[..2].to_vec(), ..run.clone() };
    assert!(matches!(store.resume(&run.header()), Err(StoreError::NoSuchRun(_))));
    stored(&mut store, &part);
    store.resume(&run.header()).unwrap();
    assert_eq!(store.load("last").unwrap().measurements.len(), 2);
    store.add(&run.measurements[2..3]).unwrap();
    let mut store = open(&at(&directory));
    assert_eq!(store.load("last").unwrap().measurements.len(), 3);
    store.resume(&run.header()).unwrap();
    store.add(&run.measurements[3..4]).unwrap();
    assert_eq!(store.load("last").unwrap().measurements, as_read(&run).measurements[..4]);
    assert_eq!(store.list().unwrap().len(), 1);
    store.finish(&run).unwrap();
    assert_eq!(store.load("last").unwrap(), as_read(&run));
    assert!(store.resume(&run.header()).is_err(), "it is complete");
}

#[test]
fn each_machine_of_many_is_entered_when_it_ends_and_once() {
    let ((directory, mut store), run) = (store(0), fixture::run());
    let on = |name: &str, count: usize| {
        let measurements = run.measurements[..count].to_vec();
        fixture::on_nodes(&Run { measurements, ..run.clone() }, &[name])
    };
    store.begin(&Run { nodes: Vec::new(), ..run.header() }).unwrap();
    for (name, count) in [("a", 1), ("b", 3), ("a", 2)] {
        let part = on(name, count);
        store.add_machine(run.elapsed_s, part.nodes[0].clone(), &part).unwrap();
    }
    let part = read(&directory).load("last").unwrap();
    let measurements = [on("b", 3), on("a", 2)].map(|part| part.measurements).concat();
    assert_eq!(part.measurements, as_read(&Run { measurements, ..run.clone() }).measurements);
    assert_eq!(part.nodes.len(), 2);
}

#[test]
fn a_document_beside_what_was_left_of_its_run_is_the_run() {
    let ((directory, mut store), run) = (store(0), fixture::run());
    store.begin(&run).unwrap();
    let left = unfinished(&directory).remove(0);
    let text = fs::read(&left).unwrap();
    store.finish(&run).unwrap();
    // A kill before the other file was removed.
    fs::write(&left, text).unwrap();
    let store = read(&directory);
    assert_eq!((store.load("last").unwrap(), store.list().unwrap().len()), (as_read(&run), 1));
}

#[test]
fn runs_of_one_millisecond_have_short_ids_of_their_own() {
    let (_directory, mut store) = store(0);
    let ids = ["019aa5c3-2f1b-7000-8000-000000000001", "019aa5c3-2f1b-7000-8001-000000000001"];
    stored(&mut store, &run_with_id(ids[0]));
    assert_eq!(store.short_id(ids[0], 13).unwrap(), "019aa5c3-2f1b");
    stored(&mut store, &run_with_id(ids[1]));
    for id in ids {
        let short = store.short_id(id, 13).unwrap();
        assert_eq!((short.len(), store.load(&short).unwrap().id.as_str()), (23, id));
    }
    stored(&mut store, &run_with_id("019aa5c3-2f1b-7001-8001-000000000001"));
    assert_eq!(store.short_id("019aa5c3-2f1b-7001-8001-000000000001", 14).unwrap(), "019aa5c3-2f1b-7001");
}

#[test]
fn runs_are_listed_latest_first_and_found_by_prefix() {
    let (_directory, mut store) = store(0);
    assert!(matches!(store.load("last"), Err(StoreError::NoSuchRun(_))));
    assert_eq!(store.list().unwrap(), []);
    let [earlier, later] = ["019aa5c0-0000-7000-8000-000000000002", "019aa5c3-2f1b-7000-8000-000000000001"];
    [later, earlier].iter().for_each(|id| stored(&mut store, &run_with_id(id)));
    assert_eq!(ids(&store), [later, earlier]);
    let counts = CaseCounts { ok: 10, invalid: 1, failed: 1, skipped: 1 };
    assert_eq!(store.list().unwrap()[0].counts, counts);
    assert_eq!(counts.total(), fixture::run().measurements.len());
    for (wanted, id) in [("last", later), ("last~1", earlier), ("019AA5C3", later), (earlier, earlier)] {
        assert_eq!(store.load(wanted).unwrap().id, id);
    }
    let ambiguous = store.load("019aa5c").err().unwrap();
    assert!(matches!(ambiguous, StoreError::Ambiguous(_)));
    assert!([earlier, later].iter().all(|id| ambiguous.to_string().contains(id)), "{ambiguous}");
    for wanted in ["01ff", "", "%", "latest", "last~2", "../runs", "é"] {
        assert!(matches!(store.load(wanted), Err(StoreError::NoSuchRun(_))), "{wanted}");
    }
}

#[test]
fn the_index_may_be_missing_damaged_or_foreign_at_any_time() {
    let (directory, _) = store(4);
    let all = || {
        let store = read(&directory);
        let asked = TrendQuery { all: true, ..query::asked("*") };
        (store.list().unwrap(), store.trends(&asked).unwrap(), store.problems().unwrap())
    };
    let wanted = all();
    assert!(wanted.0.len() == 4 && wanted.1.len() > 10 && wanted.2.is_empty());
    let index = at(&directory).directory().join("index.json");
    let whole = fs::read(&index).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    for content in [
        &whole[..whole.len() / 2],
        b"",
        b"my notes",
        text.replace("plimsoll.index/3", "plimsoll.index/9").as_bytes(),
        text.replacen("\"series\":[{", "\"series\":[],\"x\":[{", 1).as_bytes(),
        text.replacen("\"size\":", "\"size\":9", 1).as_bytes(),
    ] {
        fs::write(&index, content).unwrap();
        assert_eq!(all(), wanted);
        assert_eq!(all(), wanted, "the new one");
    }
    fs::remove_file(&index).unwrap();
    symlink("/dev/zero", &index).unwrap();
    assert_eq!(all(), wanted);
}

#[test]
fn histories_are_joined_and_backed_up_by_copying_files() {
    let ((here, mut first), (there, mut second)) = (store(0), store(0));
    stored(&mut first, &run(1));
    stored(&mut first, &run(2));
    let mut elsewhere = run(3);
    elsewhere.machine.host = Some("elsewhere".to_owned());
    stored(&mut second, &elsewhere);
    stored(&mut second, &run(1));
    assert_eq!(first.list().unwrap().len(), 2);
    let places = [at(&there).directory().join("runs"), at(&here).directory().to_owned()];
    let copied = std::process::Command::new("cp").arg("-r").args(places).status();
    assert!(copied.unwrap().success());
    let joined = read(&here);
    assert_eq!(ids(&joined), [&elsewhere, &run(2), &run(1)].map(|run| run.id.clone()));
    assert_eq!(joined.load("last").unwrap(), as_read(&elsewhere));
    assert!(joined.problems().unwrap().is_empty());
    assert_eq!(joined.baseline(&run(4), 10).unwrap().runs, [run(1).id, run(2).id]);
    assert_eq!(joined.count_skipped(&run(4)).unwrap().imported, 1);
}

#[test]
fn a_damaged_document_is_named_and_costs_itself_alone() {
    let (directory, _) = store(3);
    let file = documents_of(&directory).remove(1);
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let packed = |text: &[u8]| {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    };
    let newer = serde_json::to_string(&run(1)).unwrap().replace("plimsoll.run/1", "plimsoll.run/9");
    for (content, why) in [
        (&b""[..], ""),
        (b"these are my notes, please keep them", "gzip"),
        (&whole[..whole.len() / 2], ""),
        (&whole[..whole.len() - 1], ""),
        (&flipped, ""),
        (&[whole.as_slice(), b"more"].concat(), ""),
        (&packed(b"{}"), "schema"),
        (&packed(b"\xff"), "UTF-8"),
        (&packed(newer.as_bytes()), "plimsoll.run/9"),
    ] {
        fs::write(&file, content).unwrap();
        for _ in 0..2 {
            let store = read(&directory);
            assert_eq!(ids(&store), [run(2).id, run(0).id]);
            let problems = store.problems().unwrap();
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            let is_named = problem.contains(file.file_name().unwrap().to_str().unwrap());
            assert!(is_named && problem.contains(why) && !problem.contains('\n'), "{problem}");
            assert_eq!(store.load("last~1").unwrap(), as_read(&run(0)));
        }
        assert_eq!(fs::read(&file).unwrap(), content, "it is left as it is");
    }
    fs::write(&file, &whole).unwrap();
    let store = read(&directory);
    assert_eq!((store.list().unwrap().len(), store.problems().unwrap().len()), (3, 0));
}

#[test]
fn what_is_no_document_is_not_taken_for_one() {
    let (directory, _) = store(1);
    let file = documents_of(&directory).remove(0);
    let beside = |name: &str| file.with_file_name(name);
    symlink(&file, beside("21T0000Z-link.json.gz")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(beside("21T0000Z-fifo.json.gz")).status();
    assert!(fifo.unwrap().success());
    fs::create_dir(beside("22T0000Z-directory.json.gz")).unwrap();
    symlink(directory.path(), beside("loop")).unwrap();
    fs::write(beside(".plimsoll-half.json.gz"), "half").unwrap();
    fs::write(beside("notes.txt"), "my notes").unwrap();
    fs::write(beside("30T0000Z-plain.json"), "{}").unwrap();
    fs::copy(&file, beside("29T0000Z-again.json.gz")).unwrap();
    let mut store = open(&at(&directory));
    assert_eq!(store.list().unwrap().len(), 1);
    let problems = store.problems().unwrap().join("\n");
    for (name, why) in [
        ("Z-link.json.gz", "symbolic link"),
        ("Z-fifo.json.gz", "not a regular file"),
        ("Z-again.json.gz", "the same run as"),
        ("Z-plain.json", ".json.gz"),
        ("loop", "symbolic link"),
    ] {
        let line = problems.lines().find(|line| line.contains(&format!("{name} ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{name}: {problems}");
    }
    assert_eq!(problems.lines().count(), 5, "{problems}");
    assert_eq!(store.delete(&[run(0).id]).unwrap(), 1);
    assert!(!file.exists() && !beside("29T0000Z-again.json.gz").exists() && beside("notes.txt").exists());
}

#[test]
fn documents_may_be_in_other_directories_and_have_other_names() {
    let (directory, _) = store(3);
    let runs = at(&directory).directory().join("runs");
    let far = runs.join("old/of/the/other/machine");
    fs::create_dir_all(&far).unwrap();
    for (n, file) in documents_of(&directory).into_iter().enumerate() {
        let to = if n == 1 { far.join("a.json.gz") } else { runs.join(format!("z{}.json.gz", 9 - n)) };
        fs::rename(file, to).unwrap();
    }
    let mut store = open(&at(&directory));
    assert_eq!(ids(&store), [2, 1, 0].map(|n| run(n).id));
    assert!(store.problems().unwrap().is_empty());
    assert_eq!(store.delete(&[run(1).id, run(2).id]).unwrap(), 2);
    assert_eq!(documents_of(&directory), [runs.join("z9.json.gz")]);
}

#[test]
fn of_two_documents_of_a_run_the_one_with_more_is_used() {
    let ((directory, mut store), run) = (store(0), fixture::run());
    let part =
        Run { status: RunStatus::Partial, measurements: run.measurements[..2].to_vec(), ..run.clone() };
    stored(&mut store, &part);
    let file = documents_of(&directory).remove(0);
    for name in ["a.json.gz", "z.json.gz"] {
        fs::copy(&file, file.with_file_name(name)).unwrap();
    }
    store.finish(&run).unwrap();
    assert_eq!(store.load("last").unwrap(), as_read(&run));
    assert_eq!((store.list().unwrap().len(), store.problems().unwrap().len()), (1, 2));
    assert_eq!(store.delete(&["last".to_owned()]).unwrap(), 1);
    assert!(documents_of(&directory).is_empty());
}

#[test]
fn a_damaged_line_of_an_unfinished_run_is_named_and_costs_its_case_alone() {
    let (directory, run, file) = cut_off();
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (content, left, named) in [
        (text.clone(), &[0, 1, 2][..], false),
        (text.replacen(lines[2], "{\"measured\":7}\n", 1), &[0, 2], true),
        (text.replacen(lines[1], "\n", 1), &[1, 2], true),
        (text[..text.len() - 2].to_owned(), &[0, 1], false),
    ] {
        fs::write(&file, content).unwrap();
        let store = read(&directory);
        let wanted: Vec<Measurement> = left.iter().map(|n| as_read(&run).measurements[*n].clone()).collect();
        assert_eq!(store.load("last").unwrap().measurements, wanted);
        let problems = store.problems().unwrap();
        assert_eq!(problems.iter().any(|problem| problem.contains(".jsonl")), named, "{problems:?}");
    }
    fs::write(&file, text.replacen(lines[0], "{}\n", 1)).unwrap();
    let store = read(&directory);
    assert_eq!((store.list().unwrap().len(), store.problems().unwrap().len()), (0, 1));
}

#[test]
fn runs_are_deleted_by_name_and_by_age() {
    let (directory, mut store) = store(6);
    store.begin(&run(6).header()).unwrap();
    for n in [0, 2, 3] {
        store.tag(&run(n).id, "kept").unwrap();
    }
    let of = |numbers: &[usize]| numbers.iter().map(|n| run(*n).id).collect::<Vec<_>>();
    assert!(store.delete(&["last".to_owned(), "nothing".to_owned()]).is_err());
    assert_eq!(ids(&store), of(&[6, 5, 4, 3, 2, 1, 0]), "all or none");
    assert_eq!(store.delete(&["last".to_owned()]).unwrap(), 1);
    assert_eq!(ids(&store), of(&[5, 4, 3, 2, 1, 0]));
    let pruned = store.prune("2026-11-03T12:00:00Z", true).unwrap();
    assert_eq!((pruned, ids(&store)), (Pruned { deleted: 1, kept: 2 }, of(&[5, 4, 3, 2, 0])));
    assert_eq!(store.delete(&["kept".to_owned(), "last".to_owned()]).unwrap(), 4);
    assert_eq!(ids(&store), of(&[4]));
    assert!(store.tagged("kept").unwrap().is_empty());
    assert!(!fs::read_to_string(at(&directory).directory().join("notes.json")).unwrap().contains("kept"));
    let pruned = store.prune("2027", false).unwrap();
    let counts = [ids(&store).len(), documents_of(&directory).len()];
    assert_eq!((pruned, counts), (Pruned { deleted: 1, kept: 0 }, [0, 0]));
}

#[test]
fn notes_that_cannot_be_read_are_never_overwritten() {
    let (directory, mut store) = store(1);
    let notes = at(&directory).directory().join("notes.json");
    fs::write(&notes, "my notes").unwrap();
    let error = store.tag("last", "x").unwrap_err();
    assert!(matches!(error, StoreError::Damaged(..)) && error.to_string().contains("notes.json"), "{error}");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "my notes");
    let store = read(&directory);
    assert_eq!(store.list().unwrap().len(), 1, "the runs need no notes");
    assert!(store.problems().unwrap()[0].contains("notes.json"));
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let location = at(&directory);
            scope.spawn(move || {
                let mut store = open(&location);
                stored(&mut store, &run(n));
                store.tag(&run(n).id, "all").unwrap();
                store.list().unwrap();
            });
        }
    });
    let store = read(&directory);
    assert_eq!((store.list().unwrap().len(), store.tagged("all").unwrap().len()), (8, 8));
}

#[test]
fn a_directory_that_refuses_is_named_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let open_to_all = directory.path().join("open");
    fs::create_dir(&open_to_all).unwrap();
    fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Store::read(&Location::Named(open_to_all)).unwrap_err();
    assert!(matches!(error, StoreError::Refused(..)));
    assert!(error.to_string().contains("other users can write"), "{error}");
    let error = Store::open(&Location::Named("/proc/history".into()), Default::default()).unwrap_err();
    let is_refused = matches!(error, StoreError::Refused(..));
    assert!(!is_refused && !error.to_string().contains("os error"), "{error}");
}
