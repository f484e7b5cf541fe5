//! `plimsoll steady` by the program: the command stays its own, and the verdict is as documented.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Owned, PROGRAM, below, command, confine, done, ended, gone, json_of, list, lossy, made, plimsoll,
    repository, scratch, signal, start, status, text, until, validated, with_code,
};

fn yaml(name: &str) -> Value {
    serde_yaml_ng::from_str(&fs::read_to_string(repository(name)).unwrap()).unwrap()
}

fn document(dir: &Path, name: &str) -> Value {
    validated(&fs::read_to_string(dir.join(name)).unwrap())
}

#[test]
fn output_and_exit_code_are_those_of_the_command_and_the_verdict_is_on_stderr() {
    let dir = scratch();
    let line = "cat; echo out; echo err >&2; exit 7";
    let mut child = plimsoll(dir.path());
    child.args("steady --quiet --store none --output steady.json -- sh -c".split(' ')).arg(line);
    let (stdout, stderr) = ended(child.write_stdin("in\n"), 7);
    assert_eq!(stdout, "in\nout\n");
    let mut lines = stderr.lines();
    assert_eq!(lines.next(), Some("err"));
    let document = document(dir.path(), "steady.json");
    assert_eq!(lines.next(), Some(format!("plimsoll: {}", text(&document["line"])).as_str()));
    assert_eq!(document["runs"][0]["ended"]["code"], 7);
    assert_eq!(lines.next(), None);
}

#[test]
fn the_codes_of_env_are_kept() {
    let dir = scratch();
    fs::write(dir.path().join("text"), "").unwrap();
    for (line, code) in [
        ("--store none -- ./nothing", 127),
        ("--store none -- ./text", 126),
        ("--format bmf -- true", 2),
        ("--baseline nothing -- true", 2),
    ] {
        done(dir.path(), &format!("steady --quiet {line}"), code);
    }
}

#[test]
fn a_signal_reaches_the_command_and_its_end_is_shown() {
    let dir = scratch();
    let started = dir.path().join("started");
    let line =
        format!("trap 'echo got; exit 3' TERM; : > {}; while :; do sleep 0.05; done", started.display());
    for (line, code, out) in [(line.as_str(), 3, "got\n"), ("kill -USR1 $$", 128 + 10, "")] {
        let mut child = command("steady --quiet --store none -- sh -c");
        let child = child.arg(line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        if !out.is_empty() {
            until("its start", || started.exists());
            signal(child.id(), Signal::TERM);
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.status.signal()), (Some(code), None));
        assert_eq!(lossy(&output.stdout), out);
    }
}

#[test]
fn another_machine_is_not_steady_and_repetitions_are_shown() {
    let dir = scratch();
    let line = "steady --quiet --repeat 2 --save main --output a.json -- sleep 0.3";
    let (_, stderr) = done(dir.path(), line, 0);
    assert!(["  all     0.3", "2 runs"].iter().all(|part| stderr.contains(part)), "{stderr}");
    let mut other = document(dir.path(), "a.json");
    assert_eq!(list(&other["runs"]).len(), 2);
    other["machine"]["kernel"] = "2.6.32".into();
    fs::write(dir.path().join("b.json"), other.to_string()).unwrap();
    done(dir.path(), "steady --quiet --baseline b.json --fail-unless-steady --output c.json -- true", 6);
    let document = document(dir.path(), "c.json");
    assert_eq!(document["answer"], "another-machine");
    assert_eq!(document["differences"][0]["fact"], "kernel");
    done(dir.path(), "steady --quiet --baseline main --format bmf --output d.json -- true", 0);
    let bmf = json_of(dir.path(), "d.json");
    assert!(bmf["true"]["wall-time-seconds"]["value"].as_f64().unwrap() > 0.0, "{bmf}");
}

/// A busy process that is observed as `it`, with some intervals, and the one that observes it.
fn observed() -> (tempfile::TempDir, Owned, u32) {
    let dir = scratch();
    let process = Owned(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    done(dir.path(), &format!("steady --quiet --start it --below {}", process.id()), 0);
    let observer = observation(dir.path())["observer"].as_u64().unwrap().try_into().unwrap();
    wait_for_intervals(observer, 6);
    (dir, process, observer)
}

/// The file of the observation `it`.
fn observation(dir: &Path) -> Value {
    json_of(dir, "data/plimsoll/steady/it.started")
}

/// Waits until the observer has slept `count` more times: once for an interval.
fn wait_for_intervals(observer: u32, count: u64) {
    let slept = || -> u64 { status(observer, "voluntary_ctxt_switches:").parse().unwrap() };
    let before = slept();
    until("some intervals", || slept() >= before + count);
}

/// Ends `it`: its document, when nothing else is left and the exit code follows from the answer.
fn verdict(dir: &Path) -> Value {
    let line = "steady --quiet --stop it --fail-unless-steady --save kept --output it.json";
    let output = plimsoll(dir).args(line.split(' ')).output().unwrap();
    let document = document(dir, "it.json");
    assert_eq!(output.status.code(), Some(if document["answer"] == "held-still" { 0 } else { 6 }));
    assert_eq!(lossy(&output.stderr), format!("plimsoll: {}\n", text(&document["line"])));
    assert_eq!((&document["command"], document["runs"][0].get("ended")), (&json!(["it"]), None));
    let steady = dir.join("data/plimsoll/steady");
    assert_eq!(below(&steady), ["kept.json", "last.json"].map(|name| steady.join(name)));
    document
}

#[test]
fn an_observation_lasts_from_start_to_stop_and_shows_a_stopped_process() {
    let (dir, process, observer) = observed();
    // A second one of the same name is refused, and the first goes on.
    done(dir.path(), "steady --quiet --start it", 2);
    signal(process.id(), Signal::STOP);
    wait_for_intervals(observer, 12);
    signal(process.id(), Signal::CONT);
    let document = verdict(dir.path());
    gone(observer);
    assert_eq!(document["answer"], "disturbed");
    let spans = list(&document["runs"][0]["spans"]);
    let stop = spans.iter().find(|span| span["cause"] == "stop").unwrap();
    assert!(stop["lost"].as_f64().unwrap() > 1.0, "{stop}");
    let runs = list(&document["runs"][0]["intervals"]).iter().map(|one| one["run"].as_f64().unwrap());
    assert!(runs.sum::<f64>() > 0.01, "{document}");
    // Beside other programs, the probe after the stop may end other cases than the one before.
    assert!(list(&document["levels"]).iter().all(|level| level["before"].is_number()));
    done(dir.path(), "steady --quiet --stop it", 2);
}

#[test]
fn an_observation_is_unknown_if_its_observer_was_killed() {
    let (dir, _process, observer) = observed();
    signal(observer, Signal::KILL);
    gone(observer);
    let document = verdict(dir.path());
    assert_eq!(document["answer"], "unknown");
    assert_eq!(document["runs"][0]["elapsed_s"], 0.0);
    // --stop removes no file that it cannot read.
    let file = dir.path().join("data/plimsoll/steady/it.started");
    for content in ["", "[1, 2]\n", "{\n"] {
        fs::write(&file, content).unwrap();
        let (_, stderr) = done(dir.path(), "steady --quiet --stop it", 4);
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
        assert!(stderr.contains(file.to_str().unwrap()), "{stderr}");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let (_, stderr) = done(dir.path(), "steady --quiet --stop it", 4);
    assert!(stderr.contains(file.to_str().unwrap()), "{stderr}");
}

#[test]
fn an_observation_remains_until_its_verdict_is_kept() {
    let (dir, _process, observer) = observed();
    let steady = dir.path().join("data/plimsoll/steady");
    for name in ["last.json", "kept.json"] {
        fs::create_dir(steady.join(name)).unwrap();
        let save = if name == "kept.json" { "--save kept" } else { "" };
        let line = format!("steady --quiet --stop it {save} --output first.json");
        let output = plimsoll(dir.path()).args(line.split_whitespace()).output().unwrap();
        assert!(!output.status.success(), "{name}");
        gone(observer);
        assert!(steady.join("it.started").exists(), "{name}");
        fs::remove_dir(steady.join(name)).unwrap();
    }
    let first = document(dir.path(), "first.json");
    let again = verdict(dir.path());
    assert_eq!((&again["answer"], &again["runs"]), (&first["answer"], &first["runs"]));
}

#[test]
fn a_signal_to_stop_does_not_end_its_wait() {
    let (dir, _process, observer) = observed();
    signal(observer, Signal::STOP);
    let line = "steady --quiet --stop it --output it.json";
    let stop = start(confine(&mut command(line), dir.path()));
    let sent = 1 << (Signal::USR1.as_raw() - 1);
    until("its signal", || {
        u64::from_str_radix(&status(observer, "ShdPnd:"), 16).unwrap() & sent != 0
            && status(stop.id(), "State:").starts_with('S')
    });
    signal(stop.id(), Signal::CONT);
    signal(observer, Signal::CONT);
    with_code(&stop.wait_with_output().unwrap(), 0);
    assert!(list(&document(dir.path(), "it.json")["runs"][0]["intervals"]).len() >= 3);
}

#[test]
fn an_observation_ends_with_its_process() {
    let (dir, process, observer) = observed();
    drop(process);
    gone(observer);
    assert!(list(&verdict(dir.path())["runs"][0]["intervals"]).len() >= 3);
    // A shell that ends at once is not what the caller wants to be observed.
    let line = format!("{PROGRAM} steady --quiet --start it; exit $?");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).env("XDG_DATA_HOME", dir.path().join("data")).stderr(Stdio::null());
    assert!(shell.status().unwrap().success());
    until("its end", || !list(&observation(dir.path())["document"]["runs"]).is_empty());
    let document = verdict(dir.path());
    assert_eq!(document["answer"], "unknown");
}

#[test]
fn results_of_other_tools_are_marked() {
    let dir = scratch();
    let iperf3 = repository("crates/check/tests/corpus/iperf3-gigabit-tcp.json");
    let hyperfine = r#"{"results": [{"command": "a", "times": [1.0, 1.1]}]}"#;
    let criterion = r#"{"sampling_mode": "Flat", "iters": [1.0, 1.0, 1.0], "times": [5.0, 5.0, 5.0]}"#;
    fs::write(dir.path().join("old.json"), hyperfine).unwrap();
    fs::File::open(dir.path().join("old.json")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    for name in ["c/fib/20/new", "c/fib/20/base", "c/sort/new"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    let write = format!(
        "cp {} i.json; echo '{hyperfine}' > h.json; for d in fib/20/new fib/20/base sort/new; do echo '{criterion}' > c/$d/sample.json; done",
        iperf3.display()
    );
    // Root can read each directory.
    let unread = fs::read_dir(made(dir.path().join("closed"), 0)).is_err();
    let files = ["i.json", "h.json", "c", "old.json", "missing.json", "c/sort/new/sample.json", "closed"];
    let mut run = plimsoll(dir.path());
    run.args("steady --quiet --store none --output s.json".split(' '));
    run.args(files.iter().flat_map(|file| ["--results", file])).args(["--", "sh", "-c", &write]);
    let output = run.output().unwrap();
    let document = document(dir.path(), "s.json");
    let row = |one: &Value| json!([one["file"], one["tool"], one["results"][0]["samples"]]);
    let results: Vec<Value> = list(&document["results"]).iter().map(row).collect();
    let expected = json!([
        ["i.json", "iperf3", 2],
        ["h.json", "hyperfine", 2],
        ["c/fib/20/new/sample.json", "criterion", 3],
        ["c/sort/new/sample.json", "criterion", 3],
        ["old.json", null, null],
        ["missing.json", null, null],
        ["c/sort/new/sample.json", "criterion", 3],
        ["closed", null, null],
    ]);
    assert_eq!(json!(results), expected);
    // A recording of another time.
    let first = &document["results"][0];
    let intervals = json!({"name": "intervals", "samples": 2, "disturbed": null});
    assert_eq!(first["results"], json!([intervals]));
    assert!(first["why"].is_string(), "{first}");
    let closed = if unread { "Permission denied" } else { "new/sample.json" };
    for (at, words) in [(4, "older"), (5, "No such file"), (7, closed)] {
        let why = text(&document["results"][at]["why"]);
        assert!(why.contains(words), "{why}");
    }
    let stderr = lossy(&output.stderr);
    assert_eq!(stderr.lines().count(), 1 + results.len(), "{stderr}");
}

/// Runs the script of the composite action. Returns exit code, standard output and document.
fn act(dir: &Path, run: &str, start: &str, stop: &str) -> (Option<i32>, String, Value) {
    let action = yaml("examples/github/steady/action.yml");
    let script = text(&action["runs"]["steps"][0]["run"]);
    let program = Path::new(PROGRAM).parent().unwrap();
    let mut step = Command::new("bash");
    step.args(["-c", script]).current_dir(dir).env("XDG_DATA_HOME", dir);
    step.env("PATH", format!("{}:/usr/bin:/bin", program.display()));
    step.envs([("RUN", run), ("START", start), ("STOP", stop), ("STRICT", "")]);
    let output = step.envs([("OUT", "steady.json"), ("GITHUB_OUTPUT", "outputs")]).output().unwrap();
    let written = dir.join("steady.json").exists().then(|| document(dir, "steady.json"));
    (output.status.code(), lossy(&output.stdout), written.unwrap_or_default())
}

/// The annotation of a verdict.
fn annotation(document: &Value) -> String {
    let level = if document["answer"] == "held-still" { "notice" } else { "warning" };
    format!("::{level}::{}\n", text(&document["line"]))
}

/// With a bench that fails, and with steps of a job.
#[test]
fn the_action_runs_the_benchmark_and_annotates_the_verdict() {
    let dir = scratch();
    let (code, out, document) = act(dir.path(), "echo out; exit 9", "", "");
    assert_eq!((code, out), (Some(9), format!("out\n{}", annotation(&document))));
    let outputs = fs::read_to_string(dir.path().join("outputs")).unwrap();
    assert_eq!(outputs, format!("testbed={}\n", text(&document["testbed"])));
    fs::remove_file(dir.path().join("steady.json")).unwrap();
    assert_eq!(act(dir.path(), "", "job", ""), (Some(0), String::new(), Value::Null));
    let (code, out, document) = act(dir.path(), "", "", "job");
    assert_eq!((code, out), (Some(0), annotation(&document)));
    // The parent of both steps is this process, which has not ended.
    assert!(!text(&document["line"]).contains("ended"), "{document}");
    // The job for GitLab allows the code of an unsteady machine.
    let job = yaml("examples/gitlab/steady.yml");
    assert_eq!(job["benchmark"]["allow_failure"]["exit_codes"], 6);
}
