//! Refused command lines, each with exit code and standard error in `refusals.txt`; no output else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::docs::is_current;
use crate::support::{PROGRAM, below, confine, done, json_of, lossy, repository, scratch, status};

const LIST: &str = include_str!("refusals.txt");

/// Creates the files that the command lines name.
fn place(dir: &Path) {
    for file in below(&repository("crates/plimsoll/tests/fixtures/refusals")) {
        fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
    }
    done(dir, "run --only null --samples 5 --sample-time 1ms --quiet --store history --json a.json", 0);
    done(dir, "history tag last known --store history", 0);
    let mut none = json_of(dir, "a.json");
    none["measurements"] = json!([]);
    none["id"] = "019aa5c3-2f1b-7c40-9d21-5b0c3f6a7e88".into();
    for directory in ["all", "dd", "nothing-here", "w/runs", "h/runs", "data/plimsoll"] {
        fs::create_dir_all(dir.join(directory)).unwrap();
    }
    for name in ["b.json", "c.json", "all/a.json"] {
        fs::copy(dir.join("a.json"), dir.join(name)).unwrap();
    }
    fs::write(dir.join("none.json"), none.to_string()).unwrap();
    done(dir, "history import none.json --store unmeasured", 0);
    done(dir, "history note last x --store unmeasured", 0);
    let deep = format!("{{\"fio version\": \"fio-3.33\", \"jobs\": {}", "[".repeat(50_000));
    fs::write(dir.join("deep.txt"), deep).unwrap();
    fs::write(dir.join("h/watch"), "not a journal\n").unwrap();
    fs::File::create(dir.join("big.toml")).unwrap().set_len(1 << 30).unwrap();
    symlink("later", dir.join("link")).unwrap();
    symlink("notes", dir.join("to-notes")).unwrap();
}

/// All files below a directory: content, for large ones only the size.
fn contents(dir: &Path) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let content = |path: &PathBuf| {
        let about = path.symlink_metadata().unwrap();
        let size = if about.is_file() { about.len() } else { 0 };
        (size, if size < 1 << 20 && about.is_file() { fs::read(path).unwrap() } else { Vec::new() })
    };
    below(dir).into_iter().map(|path| (path.clone(), content(&path))).collect()
}

/// Strings specific to this machine or test, and their placeholders.
fn own(dir: &Path) -> Vec<(String, &'static str)> {
    let allowed = status(std::process::id(), "Cpus_allowed_list:");
    let nodes = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    let run = json_of(dir, "a.json");
    vec![
        (format!("{}/", dir.display()), ""),
        (dir.display().to_string(), "."),
        (run["id"].as_str().unwrap().to_owned(), "ID"),
        (format!("allowed CPUs {allowed}"), "allowed CPUs LIST"),
        (format!("of this machine ({})", nodes.trim()), "of this machine (LIST)"),
    ]
}

fn answer(dir: &Path, own: &[(String, &str)], line: &str) -> String {
    let script = format!("plimsoll() {{ '{PROGRAM}' \"$@\"; }}; {line}");
    let mut command = Command::new("timeout");
    command.args(["300", "sh", "-c", &script]).env("COLUMNS", "400").stdin(Stdio::null());
    let output = confine(&mut command, dir).output().unwrap();
    assert!(output.stdout.is_empty(), "{line}: {}", lossy(&output.stdout));
    let err = String::from_utf8(output.stderr).unwrap();
    let err = own.iter().fold(err, |err, (text, instead)| err.replace(text, instead));
    format!("$ {line}\n[{}] {err}", output.status.code().unwrap())
}

#[test]
fn a_mistake_is_refused_in_a_line_that_says_what_to_do() {
    let dir = scratch();
    place(dir.path());
    let (before, own) = (contents(dir.path()), own(dir.path()));
    let kept = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("$ ");
    let lines: Vec<&str> = LIST.lines().filter(kept).collect();
    let made = |part: &[&str]| -> String {
        let answer = |line: &&str| match line.strip_prefix("$ ") {
            Some(command) => answer(dir.path(), &own, command),
            None => format!("{line}\n"),
        };
        part.iter().map(answer).collect()
    };
    let made = std::thread::scope(|scope| {
        let parts = lines.chunks(lines.len().div_ceil(4));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| made(part))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<String>()
    });
    is_current("crates/plimsoll/tests/refusals.txt", &made);
    let after = contents(dir.path());
    let changed: Vec<_> =
        after.iter().filter(|(path, text)| before.get(*path) != Some(text)).map(|(path, _)| path).collect();
    assert!(changed.is_empty() && after.len() == before.len(), "{changed:?}");
}
