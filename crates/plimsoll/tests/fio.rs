//! Job files of fio: check, list, run, refuse; fio's own examples; the tables of docs/src/fio.md.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_bench_disk::fio::option::{OPTIONS, OptionMeaning};
use serde_json::Value;

use crate::docs;
use crate::support::{document, done, ended, json, list, lossy, plimsoll, scratch, skip, text};

/// Words in examples that need two NUMA nodes, a disk with priorities, or a zoned disk.
const SPECIAL: &[&str] = &["numa_cpu_nodes", "cmdprio", "zonemode=zbd"];

/// Engines of fio that transfer to files and block devices by the kernel's own calls.
const OF_FILES: &[&str] =
    &["sync", "psync", "vsync", "pvsync", "pvsync2", "io_uring", "libaio", "posixaio", "mmap", "splice"];

fn examples() -> Option<Vec<PathBuf>> {
    let named = std::env::var_os("PLIMSOLL_FIO_EXAMPLES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| "/usr/share/doc/fio/examples".into());
    let mut all: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.extension().is_some_and(|ending| ending == "fio"));
    all.sort();
    (!all.is_empty()).then_some(all)
}

/// Whether an example needs an engine or hardware of its own.
fn is_special(text: &str) -> bool {
    let mut lines = text.lines().map(|line| line.split([';', '#']).next().unwrap_or_default().trim());
    let needs = |line: &str| match line.strip_prefix("ioengine=") {
        Some(engine) => !OF_FILES.contains(&engine.trim()),
        None => SPECIAL.iter().any(|word| line.starts_with(word)),
    };
    text.contains("xnvme") || lines.any(needs)
}

/// Option names as one code span.
fn code<S: std::borrow::Borrow<str>>(names: &[S]) -> String {
    format!("`{}`", names.join(" "))
}

/// The table of options that become parameters.
fn options() -> String {
    let mut text = "| options | become |\n| --- | --- |\n".to_owned();
    for rows in OPTIONS.chunk_by(|a, b| a.means == b.means) {
        if let OptionMeaning::Taken(here) = rows[0].means {
            let names = rows.iter().flat_map(|row| [row.name].into_iter().chain(row.aliases.iter().copied()));
            text += &format!("| {} | {here} |\n", code(&names.collect::<Vec<_>>()));
        }
    }
    text
}

const OPTIONS_BEGIN: &str = "## Options\n\n";
const EXAMPLES_BEGIN: &str = "\n## fio's own examples\n\n";

/// Compares a part of the page with what is made.
fn is_current_part(begin: &str, end: Option<&str>, part: &str) {
    let page = docs::text("docs/src/fio.md");
    let (head, rest) = page.split_once(begin).expect("the heading is there");
    let tail = end.and_then(|end| rest.find(end).map(|at| &rest[at..])).unwrap_or_default();
    docs::is_current("docs/src/fio.md", &format!("{head}{begin}{part}{tail}"));
}

#[test]
fn docs_list_what_becomes_of_each_option() {
    is_current_part(OPTIONS_BEGIN, Some(EXAMPLES_BEGIN), &options());
}

/// Every example is a plan or is refused by line; most without special needs are plans.
#[test]
fn docs_list_which_of_fios_examples_run() {
    let Some(examples) = examples() else { return skip("needs fio-examples or PLIMSOLL_FIO_EXAMPLES=DIR") };
    let dir = scratch();
    let (mut ordinary, mut refused) = (0, Vec::new());
    for path in &examples {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        fs::copy(path, dir.path().join("job.fio")).unwrap();
        let output = plimsoll(dir.path()).args(["plan", "check", "job.fio"]).output().unwrap();
        let runs = output.status.success();
        let reported = lossy(&output.stderr);
        assert!(runs || output.status.code() == Some(2), "{name}: {reported}");
        assert!(runs || reported.lines().all(|l| l.starts_with("plimsoll: job.fio:")), "{name}: {reported}");
        if is_special(&fs::read_to_string(path).unwrap()) {
            assert!(!runs, "{name} needs an engine or hardware of its own");
        } else {
            ordinary += 1;
            refused.extend((!runs).then_some(name));
        }
    }
    let run = ordinary - refused.len();
    assert!(run * 100 >= ordinary * 60, "{run} of {ordinary}");
    let text = format!(
        "fio 3.33 has {} examples (Debian's package `fio-examples`); {} need an engine or hardware that plimsoll does not have. \
         {run} of the other {ordinary} run ({:.0} %). These are refused: {}\n",
        examples.len(),
        examples.len() - ordinary,
        100.0 * run as f64 / ordinary as f64,
        code(&refused),
    );
    is_current_part(EXAMPLES_BEGIN, None, &text);
}

fn with_job(text: &str) -> tempfile::TempDir {
    let dir = scratch();
    fs::write(dir.path().join("job.fio"), text).unwrap();
    dir
}

fn measured(dir: &Path, line: &str) -> Value {
    document(dir, &format!("run job.fio {line} --json - --store none --quiet"), 0)
}

const SMALL: &str = "[global]\nsize=16m\nioengine=libaio\ndirect=1\nrw=randread\n";

#[test]
fn a_job_file_is_run_and_its_document_says_what_was_left_out() {
    let dir = with_job(&format!(
        "{SMALL}[a]\nbs=4k\niodepth=8\nthinktime=5\nruntime=1\ntime_based\n[b]\nstonewall\nrw=randwrite\n"
    ));
    let document = measured(dir.path(), "--ignore-unsupported --samples 2");
    let cases: Vec<&str> = list(&document["measurements"]).iter().map(|m| text(&m["case"]["id"])).collect();
    let wanted = [
        "disk.io/op=read/pattern=random/block=4K/depth=8/size=16M/threads=1/engine=libaio/cache=direct",
        "disk.io/op=write/pattern=random/block=4K/depth=1/size=16M/threads=1/engine=libaio/cache=direct/volume=16M",
    ];
    assert_eq!(cases, wanted);
    let ignored = "a: job.fio:9: ignored: option thinktime=5 has no counterpart: transfers follow each other without pauses, or at --rate";
    assert_eq!(document["plan"]["notes"], serde_json::json!(["a fio job file: job.fio", ignored]));
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["job.fio"], "no test file is left");
}

#[test]
fn a_job_file_is_listed_checked_and_shown_like_any_plan() {
    let dir = with_job(&format!("{SMALL}[a]\nbs=4k\nruntime=1\ntime_based\nramp_time=2\n"));
    let (list, _) = done(dir.path(), "run job.fio --list", 0);
    assert_eq!(list.lines().count(), 1);
    // A job file is recognised by its content.
    for name in ["job.fio", "job.job", "job.ini", "job"] {
        let text = fs::read(dir.path().join("job.fio")).unwrap();
        fs::write(dir.path().join(name), text).unwrap();
        let (checked, _) = done(dir.path(), &format!("plan check {name}"), 0);
        assert_eq!(checked, format!("{name}: valid, 1 case\n"));
    }
    let (shown, _) = done(dir.path(), "plan show job.fio", 0);
    let plan: toml::Table = shown.parse().unwrap();
    assert_eq!(plan["group"][0]["warm-up"].as_str(), Some("2s"), "{shown}");
    fs::write(dir.path().join("shown.toml"), shown).unwrap();
    assert_eq!(done(dir.path(), "run shown.toml --list", 0).0, list);
}

/// A variable in a text that is only kept is not read from the environment; what is needed is.
#[test]
fn what_the_environment_holds_is_not_in_the_document() {
    let dir = with_job(&format!("{SMALL}[a]\ndescription=${{CASE_SECRET}}\nbs=${{CASE_BLOCK}}\n"));
    let mut run = plimsoll(dir.path());
    run.args("run job.fio --samples 1 --json - --store none --quiet".split(' '));
    let (text, _) = ended(run.env("CASE_SECRET", "s3cret").env("CASE_BLOCK", "8k"), 0);
    let run = json(&text);
    assert_eq!(run["measurements"][0]["case"]["params"]["block"], 8192, "{text}");
    assert_eq!(text.matches("s3cret").count(), 0, "{text}");
}

/// fio drops a mapped file from the page cache before each pass.
#[test]
fn a_mapping_is_read_cold() {
    let job = with_job("[a]\nioengine=mmap\nrw=randread\nbs=4k\nsize=16m\n");
    let measured = &measured(job.path(), "--samples 2")["measurements"][0];
    assert!(text(&measured["case"]["id"]).ends_with("engine=mmap/cache=cold/volume=16M"), "{measured}");
    assert_eq!(measured["status"], "ok", "{measured}");
}

#[test]
fn a_file_that_a_job_names_is_not_touched() {
    let dir = scratch();
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let path = victim.to_str().unwrap();
    let text = format!("{SMALL}rw=write\nexec_prerun=touch {path}.ran\n[a]\nfilename={path}\nbs=64k\n");
    fs::write(dir.path().join("job.fio"), text).unwrap();
    measured(dir.path(), "--ignore-unsupported --samples 1");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(!dir.path().join("victim.ran").exists(), "no program is started");
}
