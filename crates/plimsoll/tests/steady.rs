//! `plimsoll steady` by the program: the command stays its own, and the verdict is as documented.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{plimsoll, scratch};

fn document(dir: &Path, name: &str) -> Value {
    let document: Value = serde_json::from_str(&fs::read_to_string(dir.join(name)).unwrap()).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/steady.v1.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert_eq!(validator.iter_errors(&document).map(|e| e.to_string()).collect::<Vec<_>>(), [""; 0]);
    document
}

fn steady(dir: &Path, words: &[&str]) -> std::process::Output {
    plimsoll(dir).args(["steady", "--quiet"]).args(words).output().unwrap()
}

#[test]
fn output_and_exit_code_are_those_of_the_command_and_the_verdict_is_on_stderr() {
    let dir = scratch();
    let line = "cat; echo out; echo err >&2; exit 7";
    let mut child = plimsoll(dir.path());
    child.args(["steady", "--quiet", "--store", "none", "--output", "steady.json", "--", "sh", "-c", line]);
    let output = child.write_stdin("in\n").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()),
        (Some(7), "in\nout\n")
    );
    let mut lines = stderr.lines();
    assert_eq!(lines.next(), Some("err"));
    let document = document(dir.path(), "steady.json");
    assert_eq!(lines.next(), Some(format!("plimsoll: {}", document["line"].as_str().unwrap()).as_str()));
    assert_eq!(document["runs"][0]["ended"]["code"], 7);
    assert_eq!(lines.next(), None);
}

#[test]
fn the_codes_of_env_are_kept() {
    let dir = scratch();
    fs::write(dir.path().join("text"), "").unwrap();
    for (command, code) in [("./nothing", 127), ("./text", 126)] {
        let output = steady(dir.path(), &["--store", "none", "--", command]);
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(steady(dir.path(), &["--format", "bmf", "--", "true"]).status.code(), Some(2));
    assert_eq!(steady(dir.path(), &["--baseline", "nothing", "--", "true"]).status.code(), Some(2));
}

#[test]
fn a_signal_reaches_the_command_and_its_end_is_shown() {
    let dir = scratch();
    let started = dir.path().join("started");
    let line =
        format!("trap 'echo got; exit 3' TERM; : > {}; while :; do sleep 0.05; done", started.display());
    for (line, code, out) in [(line.as_str(), 3, "got\n"), ("kill -USR1 $$", 128 + 10, "")] {
        let child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["steady", "--quiet", "--store", "none", "--", "sh", "-c", line])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !out.is_empty() && !started.exists() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if !out.is_empty() {
            Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.status.signal()), (Some(code), None));
        assert_eq!(String::from_utf8_lossy(&output.stdout), out);
    }
}

#[test]
fn another_machine_is_not_steady_and_repetitions_are_shown() {
    let dir = scratch();
    let output =
        steady(dir.path(), &["--repeat", "2", "--save", "main", "--output", "a.json", "--", "sleep", "0.3"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("  all     0.3") && stderr.contains("2 runs"), "{stderr}");
    let mut other = document(dir.path(), "a.json");
    assert_eq!(other["runs"].as_array().unwrap().len(), 2);
    other["machine"]["kernel"] = "2.6.32".into();
    fs::write(dir.path().join("b.json"), other.to_string()).unwrap();
    let words = ["--baseline", "b.json", "--fail-unless-steady", "--output", "c.json", "--", "true"];
    assert_eq!(steady(dir.path(), &words).status.code(), Some(6));
    let document = document(dir.path(), "c.json");
    assert_eq!(document["answer"], "another-machine");
    assert_eq!(document["differences"][0]["fact"], "kernel");
    let saved = ["--baseline", "main", "--format", "bmf", "--output", "d.json", "--", "true"];
    assert_eq!(steady(dir.path(), &saved).status.code(), Some(0));
    let bmf: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("d.json")).unwrap()).unwrap();
    assert!(bmf["true"]["wall-time-seconds"]["value"].as_f64().unwrap() > 0.0, "{bmf}");
}

/// The script of the composite action, with a bench that fails.
#[test]
fn the_action_runs_the_benchmark_and_annotates_the_verdict() {
    let dir = scratch();
    let action = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/github/steady/action.yml");
    let action: Value = serde_yaml_ng::from_str(&fs::read_to_string(action).unwrap()).unwrap();
    let script = action["runs"]["steps"][0]["run"].as_str().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll")).parent().unwrap();
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
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(9), "{out}{}", String::from_utf8_lossy(&output.stderr));
    let document = document(dir.path(), "steady.json");
    let level = if document["answer"] == "held-still" { "notice" } else { "warning" };
    assert_eq!(out, format!("out\n::{level}::{}\n", document["line"].as_str().unwrap()));
    let outputs = fs::read_to_string(dir.path().join("outputs")).unwrap();
    assert_eq!(outputs, format!("testbed={}\n", document["testbed"].as_str().unwrap()));
}

#[test]
fn the_job_for_gitlab_allows_the_code_of_an_unsteady_machine() {
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gitlab/steady.yml");
    let job: Value = serde_yaml_ng::from_str(&fs::read_to_string(job).unwrap()).unwrap();
    assert_eq!(job["benchmark"]["allow_failure"]["exit_codes"], 6);
}
