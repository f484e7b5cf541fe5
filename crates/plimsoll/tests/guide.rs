//! Runs every command in `console` blocks of README.md and of pages for users in order, with few
//! short samples and placeholders (HOST, /mnt/data) filled in, and checks its exit code.

use std::path::Path;
use std::process::Command;

use crate::docs::{lines, text};
use crate::network::Serving;
use crate::support::{PROGRAM, command, lossy, repository, scratch, short_of_cpu, skipped, words};

fn commands(page: &str) -> Vec<String> {
    let typed = lines(page).filter(|(block, _)| *block == Some("console")).map(|(_, line)| line.trim());
    typed.filter(|line| line.starts_with("plimsoll")).map(str::to_owned).collect()
}

/// Options that make a command take seconds instead of minutes.
fn shortened(words: &[String]) -> Vec<&'static str> {
    let is = |what: &str| words.get(1).is_some_and(|w| w == what);
    let has = |word: &str| words.iter().any(|w| w == word);
    let measures =
        words.get(1).is_none_or(|w| ["run", "cpu", "memory", "disk", "network", "os"].contains(&w.as_str()));
    if is("watch") {
        return vec!["--only", "cpu", "--every", "1s"];
    }
    if is("doctor") {
        return vec!["--only", "null"];
    }
    if !measures || has("--dry-run") || has("--list") {
        return Vec::new();
    }
    // Slow commands, and those that depend on losses, are only planned; other tests measure them.
    if ["--against", "--steady", "lossless"].iter().any(|long| has(long)) {
        return vec!["--dry-run"];
    }
    let bound = if is("disk") && !has("disk.fsync") { ["--size", "16M"] } else { ["--budget", "3s"] };
    [&["--samples", "3", "--sample-time", "1ms"][..], &bound].concat()
}

fn filled(word: &str, data: &Path, server: &str) -> String {
    match word {
        "/mnt/data" => data.to_str().unwrap().to_owned(),
        "24h" => "10s".to_owned(),
        word if word.split(['/', ':']).any(|part| part == "HOST") => word.replace("HOST", server),
        word => word.to_owned(),
    }
}

/// The fault of a command, if any. A command that other load may have spoiled runs again: a wrong
/// command fails each time.
fn fault(command: &mut Command, answers: &[i32]) -> Option<String> {
    const TRIES: usize = 3;
    let mut last = String::new();
    for _ in 0..TRIES {
        let output = command.output().unwrap();
        let code = output.status.code();
        if code.is_some_and(|code| code == 0 || answers.contains(&code)) {
            return None;
        }
        let [stated, complained] = [output.stdout, output.stderr].map(|text| lossy(&text));
        last = format!("{code:?}: {} {stated}", complained.trim());
        // The table breaks it into lines.
        let words = last.split_whitespace().collect::<Vec<_>>().join(" ");
        if code == Some(4) && words.contains("skipped: requires two CPUs") {
            skipped("a command of the guide or README", "requires two CPUs");
            return None;
        }
        if code != Some(4) || !words.contains("other work took the CPU") {
            break;
        }
    }
    Some(last)
}

fn run(page: &str) {
    let commands = commands(&text(page));
    assert!(!commands.is_empty(), "{page}");
    let place = scratch();
    let data = scratch();
    std::os::unix::fs::symlink(repository("examples"), place.path().join("examples")).unwrap();
    // Results of other tools exist.
    for (name, file) in [("fio.json", "fio-3.42-direct.json"), ("iperf3.json", "iperf3-lo-tcp.json")] {
        let corpus = repository("crates/check/tests/corpus");
        std::fs::copy(corpus.join(file), place.path().join(name)).unwrap();
    }
    let serving = Serving::here(&[]);
    // An earlier run exists.
    let mut before = command("run quick --only null --samples 3 --sample-time 1ms --quiet");
    let before = before.env("HOME", place.path()).env_remove("XDG_DATA_HOME").status();
    assert!(before.unwrap().success());
    let mut wrong = Vec::new();
    for line in commands {
        let words = words(&line);
        // It serves until it is ended: `serving` above is this command.
        if words.get(1).is_some_and(|w| w == "serve") {
            continue;
        }
        let arguments = words.iter().skip(1).map(|word| filled(word, data.path(), &serving.address));
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args(shortened(&words)).env("PLIMSOLL_KEY", &serving.key);
        command.current_dir(place.path()).env("HOME", place.path()).env_remove("XDG_DATA_HOME");
        // A gate's own answer is no fault of the page.
        let judges = words.iter().any(|w| w == "--fail-on" || w == "--require" || w == "check");
        let answers: &[i32] = match words.get(1).map(String::as_str) {
            Some("gate") => &[1, 6],
            _ if judges => &[1],
            _ => &[],
        };
        match fault(&mut command, answers) {
            Some(fault) if fault.contains("--budget was used up") && short_of_cpu() => {
                skipped(&line, "other processes leave too little CPU time for its budget");
            }
            Some(fault) => wrong.push(format!("{line}\n  {fault}")),
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{page}:\n{}", wrong.join("\n"));
}

#[test]
fn every_command_of_the_first_pages_runs() {
    run("README.md");
    for name in ["first-run", "rented-vm", "compare", "recipes", "memory-limit"] {
        run(&format!("docs/src/{name}.md"));
    }
}

#[test]
fn every_command_of_parts_gates_checks_plans_and_tools_runs() {
    for name in ["disk", "network", "cpu-memory", "gate", "check", "plans", "references"] {
        run(&format!("docs/src/{name}.md"));
    }
}

#[test]
fn a_command_is_read_as_a_shell_reads_it() {
    let page = "text\n```console\n# a remark\nplimsoll run quick\nplimsoll history show 'memory.*' --since 30d\n```\nplimsoll none\n";
    assert_eq!(commands(page), ["plimsoll run quick", "plimsoll history show 'memory.*' --since 30d"]);
    assert_eq!(words("a 'b c' d"), ["a", "b c", "d"]);
}
