//! `plimsoll steady` by the program: the command stays its own, and the verdict is as documented.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    PROGRAM, command, done, json_of, list, lossy, plimsoll, repository, scratch, signal, text, until,
    validated,
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
    let output = child.write_stdin("in\n").output().unwrap();
    let (stdout, stderr) = (lossy(&output.stdout), lossy(&output.stderr));
    assert_eq!((output.status.code(), stdout.as_str()), (Some(7), "in\nout\n"));
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

/// The script of the composite action, with a bench that fails.
#[test]
fn the_action_runs_the_benchmark_and_annotates_the_verdict() {
    let dir = scratch();
    let action = yaml("examples/github/steady/action.yml");
    let script = text(&action["runs"]["steps"][0]["run"]);
    let program = Path::new(PROGRAM).parent().unwrap();
    let output = Command::new("bash")
        .args(["-c", script])
        .current_dir(dir.path())
        .env("PATH", format!("{}:/usr/bin:/bin", program.display()))
        .env("XDG_DATA_HOME", dir.path())
        .envs([
            ("RUN", "echo out; exit 9"),
            ("OUT", "steady.json"),
            ("STRICT", ""),
            ("GITHUB_OUTPUT", "outputs"),
        ])
        .output()
        .unwrap();
    let out = lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(9), "{out}{}", lossy(&output.stderr));
    let document = document(dir.path(), "steady.json");
    let level = if document["answer"] == "held-still" { "notice" } else { "warning" };
    assert_eq!(out, format!("out\n::{level}::{}\n", text(&document["line"])));
    let outputs = fs::read_to_string(dir.path().join("outputs")).unwrap();
    assert_eq!(outputs, format!("testbed={}\n", text(&document["testbed"])));
    // The job for GitLab allows the code of an unsteady machine.
    let job = yaml("examples/gitlab/steady.yml");
    assert_eq!(job["benchmark"]["allow_failure"]["exit_codes"], 6);
}
