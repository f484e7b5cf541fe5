//! Runs the examples of docs/src/cluster.md for many machines without MPI, as far as possible here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{ended, place_for_programs, plimsoll, scratch, skipped};

/// Most lines of an example.
const LINES: usize = 30;
const SHORT: [&str; 5] = ["--only", "null", "--samples=5", "--sample-time", "10ms"];

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(example(name)).unwrap()
}

fn yaml(name: &str) -> Value {
    serde_yaml_ng::from_str(&text(name)).unwrap()
}

fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn pods(name: &str, place: &str) -> (Value, Value) {
    let pod = yaml(name)["spec"]["template"].clone();
    let container = pod.pointer(&format!("/spec/{place}/0")).unwrap().clone();
    (pod, container)
}

#[test]
fn each_is_short_and_named_in_the_docs() {
    let docs = fs::read_to_string(example("../docs/src/cluster.md")).unwrap();
    for name in [
        "kubernetes/plimsoll-job.yaml",
        "kubernetes/plimsoll-daemonset.yaml",
        "slurm/plimsoll-gather.sbatch",
        "ansible/plimsoll.yml",
        "nomad/plimsoll.nomad.hcl",
        "cloud-init/plimsoll.yaml",
    ] {
        assert!(text(name).lines().count() <= LINES, "{name}");
        assert!(docs.contains(&format!("examples/{name}")), "{name}");
    }
}

#[test]
fn those_of_the_gate_are_short_named_in_the_docs_and_use_options_that_exist() {
    let docs = fs::read_to_string(example("../docs/src/recipes.md")).unwrap();
    let dir = scratch();
    let (help, _) = ended(plimsoll(dir.path()).args(["gate", "--help-all"]), 0);
    for name in [
        "slurm/plimsoll-health-check.sh",
        "slurm/plimsoll-prolog.sh",
        "slurm/plimsoll-epilog.sh",
        "node-problem-detector/plimsoll-gate.json",
        "nagios/plimsoll.cfg",
        "systemd/plimsoll-gate.service",
        "systemd/plimsoll-gate.timer",
        "ansible/gate.yml",
    ] {
        let text = text(name);
        assert!(text.lines().count() <= LINES, "{name}");
        assert!(docs.contains(&format!("examples/{name}")), "{name}");
        let words = text.split(|c: char| c.is_whitespace() || "[],\"".contains(c));
        for option in words.filter(|word| word.starts_with("--") && !word.starts_with("--collector")) {
            assert!(help.contains(option), "{name}: {option}");
        }
    }
    let detector: Value = serde_json::from_str(&text("node-problem-detector/plimsoll-gate.json")).unwrap();
    assert_eq!(
        (&detector["plugin"], &detector["pluginConfig"]["max_output_length"]),
        (&"custom".into(), &80.into())
    );
    assert_eq!(detector["conditions"][0]["type"], detector["rules"][0]["condition"]);
    let tasks = yaml("ansible/gate.yml")[0]["tasks"].clone();
    assert_eq!(tasks[1]["ansible.builtin.assert"]["that"], "found.stdout != \"missing\"");
    assert_eq!(tasks[2]["failed_when"], "gate.rc == 1");
}

#[test]
fn that_of_the_watch_is_short_named_in_the_docs_and_uses_options_that_exist() {
    let docs = fs::read_to_string(example("../docs/src/recipes.md")).unwrap();
    let dir = scratch();
    let (help, _) = ended(plimsoll(dir.path()).args(["watch", "--help-all"]), 0);
    let name = "systemd/plimsoll-watch.service";
    let text = text(name);
    assert!(text.lines().count() <= LINES && docs.contains(&format!("examples/{name}")));
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || ";.".contains(c))
        .filter(|word| word.starts_with("--"))
        .collect();
    // `set --` begins the words of the shell.
    assert!(words.iter().filter(|word| **word != "--").all(|option| help.contains(option)), "{words:?}");
    assert!(words.contains(&"--resume") && words.contains(&"--for"));
}

/// Exit code 1 alone drains a node, with the line as reason, unless it is drained already.
#[test]
fn a_sick_node_is_drained_with_its_cause_and_no_other() {
    let dir = scratch();
    let line = "sick: CPU quota of 0.50 CPUs, throttled 49 % of the time";
    for (code, state, drains) in [
        (1, "IDLE", true),
        (1, "IDLE+DRAIN", false),
        (0, "IDLE", false),
        (6, "IDLE", false),
        (137, "IDLE", false),
    ] {
        let _ = fs::remove_file(dir.path().join("said"));
        let plimsoll =
            script(dir.path(), "plimsoll", &format!("printf '%s\\033\"\\n' '{line}'; exit {code}"));
        script(
            dir.path(),
            "scontrol",
            &format!(
                "case $1 in show) echo '   State={state} ThreadsPerCore=1';; *) printf '%s\\n' \"$@\" > \"$0.said\";; esac"
            ),
        );
        let run = |name: &str| {
            let path = format!("{}:/usr/bin:/bin", dir.path().display());
            let mut run = Command::new("sh");
            run.arg(example(name))
                .env("PATH", path)
                .env("PLIMSOLL", &plimsoll)
                .env("SLURMD_NODENAME", "n7")
                .env("SLURM_JOB_ID", "42");
            run.output().unwrap().status.code()
        };
        script(dir.path(), "logger", "printf '%s\\n' \"$3\" >> \"$0.said\"");
        let logged = || fs::read_to_string(dir.path().join("logger.said")).unwrap_or_default();
        let _ = fs::remove_file(dir.path().join("logger.said"));
        let _ = fs::remove_file(dir.path().join("scontrol.said"));
        let expected = drains.then(|| format!("update\nNodeName=n7\nState=DRAIN\nReason=plimsoll: {line}\n"));
        for (name, ends) in [("health-check", 0), ("prolog", i32::from(code == 1)), ("epilog", 0)] {
            assert_eq!(run(&format!("slurm/plimsoll-{name}.sh")), Some(ends), "{name}");
            let stated = fs::read_to_string(dir.path().join("scontrol.said")).ok();
            assert_eq!(stated, expected, "{name} {code} {state}");
            // The prolog names each job that it lets start.
            let starts = logged().lines().filter(|log| log.starts_with("job 42 starts")).count();
            assert_eq!(starts, usize::from(name == "prolog" && code != 1), "{name} {code}: {}", logged());
            let _ = fs::remove_file(dir.path().join("logger.said"));
            let _ = fs::remove_file(dir.path().join("scontrol.said"));
        }
    }
}

#[test]
fn the_log_of_a_pod_is_a_document_that_gather_takes() {
    for (name, place) in [
        ("kubernetes/plimsoll-job.yaml", "containers"),
        ("kubernetes/plimsoll-daemonset.yaml", "initContainers"),
    ] {
        let (_, container) = pods(name, place);
        let dir = scratch();
        fs::create_dir(dir.path().join("data")).unwrap();
        let data = dir.path().join("data").display().to_string();
        let volume = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
        let args = words(&container["args"]).into_iter().map(|word| word.replace(volume, &data));
        let (log, _) = ended(plimsoll(dir.path()).args(args).args(SHORT), 0);
        let log = format!("Pulling image\n{log}\n{{\"level\":\"info\"}}\n");
        let (out, _) = ended(plimsoll(dir.path()).args(["gather", "-"]).write_stdin(log), 0);
        assert!(out.lines().any(|line| line.starts_with("1 case in ")), "{name}: {out}");
    }
}

#[test]
fn pods_have_a_node_each_and_are_not_throttled() {
    let job = yaml("kubernetes/plimsoll-job.yaml");
    assert_eq!((&job["kind"], &job["spec"]["completionMode"]), (&"Job".into(), &"Indexed".into()));
    assert_eq!(job["spec"]["completions"], job["spec"]["parallelism"]);
    let requests = format!("--max-log-requests={}", job["spec"]["completions"]);
    assert!(text("kubernetes/plimsoll-job.yaml").contains(&requests), "kubectl logs follows all pods");
    let (pod, _) = pods("kubernetes/plimsoll-job.yaml", "containers");
    let rule =
        &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(rule["labelSelector"]["matchLabels"], pod["metadata"]["labels"]);
    let set = yaml("kubernetes/plimsoll-daemonset.yaml");
    assert_eq!(set["spec"]["selector"]["matchLabels"], set["spec"]["template"]["metadata"]["labels"]);
    for (name, place) in [
        ("kubernetes/plimsoll-job.yaml", "containers"),
        ("kubernetes/plimsoll-daemonset.yaml", "initContainers"),
    ] {
        let (pod, container) = pods(name, place);
        assert_eq!(container["resources"]["requests"], container["resources"]["limits"], "{name}");
        assert_eq!(pod["spec"]["hostNetwork"], true, "{name}: documents have the names of the nodes");
        let volume = &container["volumeMounts"][0]["name"];
        assert_eq!(&pod["spec"]["volumes"][0]["name"], volume, "{name}");
    }
}

#[test]
fn the_workflow_and_the_alerts_are_yaml_and_named_in_the_docs() {
    let docs = fs::read_to_string(example("../docs/src/recipes.md")).unwrap();
    for (name, part) in [("github/plimsoll.yml", "jobs"), ("prometheus/rules.yml", "groups")] {
        assert!(!yaml(name)[part].is_null() && docs.contains(&format!("examples/{name}")), "{name}");
    }
    assert!(docs.contains("examples/cron/plimsoll"));
}

/// Slurm's commands for two nodes, of which the second fails.
#[test]
fn nodes_of_an_allocation_are_joined_and_one_that_fails_is_named() {
    let (dir, bin) = (scratch(), place_for_programs());
    script(bin.path(), "scontrol", "echo s1; echo s2");
    script(
        bin.path(),
        "srun",
        "while [ \"${1#--}\" != \"$1\" ]; do shift; done\nSLURMD_NODENAME=s1 \"$@\"\nexit 1",
    );
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let short = SHORT.join(" ");
    let own = format!("case $1 in run) exec {program} \"$@\" {short};; *) exec {program} \"$@\";; esac");
    let own = script(bin.path(), "plimsoll", &own);
    let output = Command::new("bash")
        .arg(example("slurm/plimsoll-gather.sbatch"))
        .current_dir(dir.path())
        .env("PATH", format!("{}:/usr/bin:/bin", bin.path().display()))
        .envs([("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "s[1-2]"), ("NO_COLOR", "1")])
        .env("PLIMSOLL", own)
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(5), "{out}{}", String::from_utf8_lossy(&output.stderr));
    assert_ne!(out.matches("s2 is missing").count(), 0, "{out}");
    assert!(
        dir.path().join("plimsoll-7/fleet.html").exists() && dir.path().join("plimsoll-7/s1.json").exists()
    );
}

#[test]
fn the_other_examples_run_commands_that_plimsoll_takes() {
    let dir = scratch();
    let taken = |words: Vec<String>| {
        let replaced =
            words.into_iter().map(|word| if word.contains("{{") { "quick".to_owned() } else { word });
        // The program itself is the first word of some.
        let words: Vec<String> = replaced.filter(|word| word != "./plimsoll").collect();
        let text = if words[0] == "gather" { "--help" } else { "--dry-run" };
        ended(plimsoll(dir.path()).args(words).arg(text), 0)
    };
    let tasks = yaml("ansible/plimsoll.yml");
    let measure = &tasks[0]["tasks"][1]["block"][1]["ansible.builtin.command"]["argv"];
    let gather = &tasks[1]["tasks"][0]["ansible.builtin.command"]["argv"];
    taken(words(measure));
    taken(words(gather));
    let job = text("nomad/plimsoll.nomad.hcl");
    let args = job.split("args    = ").nth(1).unwrap().lines().next().unwrap();
    fs::create_dir(dir.path().join("local")).unwrap();
    taken(serde_json::from_str(args).unwrap());
    let cloud = yaml("cloud-init/plimsoll.yaml");
    let script = cloud["write_files"][0]["content"].as_str().unwrap();
    let line = script.lines().find(|line| line.starts_with("./plimsoll ")).unwrap();
    taken(line.split(' ').map(str::to_owned).collect());
    assert!(script.contains("sha256sum --check"), "what is fetched is checked before it runs");
}

#[test]
fn the_jq_queries_of_the_recipes_print_rows() {
    if Command::new("jq").arg("--version").output().is_err() {
        skipped("recipes-jq", "needs jq");
        return;
    }
    let page = fs::read_to_string(example("../docs/src/recipes.md")).unwrap();
    let queries: Vec<&str> = page.lines().filter(|line| line.contains("| jq ")).collect();
    assert_eq!(queries.len(), 3);
    let dir = scratch();
    let run = || {
        let store = ["--quiet", "--store", "history"];
        ended(plimsoll(dir.path()).args(["run", "quick"]).args(SHORT).args(store), 0);
    };
    run();
    run();
    for (index, query) in queries.into_iter().enumerate() {
        let program = env!("CARGO_BIN_EXE_plimsoll");
        let (command, filter) = query.split_once(" | jq ").unwrap();
        let command = command.replacen("plimsoll", program, 1);
        let line = format!("set -e; {command} --store history > out.json; jq {filter} out.json");
        let done = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
        assert!(done.status.success(), "{query}: {}", String::from_utf8_lossy(&done.stderr));
        let out = String::from_utf8(done.stdout).unwrap();
        assert!(index != 0 || out.split('\t').any(|cell| cell == "null"), "{out}");
    }
}

#[test]
fn the_dashboard_shows_metrics_that_are_exported() {
    let dashboard: Value = serde_json::from_str(&text("grafana/plimsoll.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 5);
    const EXPORTED: &str =
        "format/snapshots/plimsoll_output__report__format__openmetrics__tests__the_text_of_a_run.snap";
    let sources = [EXPORTED, "gate.rs"]
        .map(|name| fs::read_to_string(example(&format!("../crates/output/src/report/{name}"))).unwrap());
    for panel in panels {
        let asked = panel["targets"][0]["expr"].as_str().unwrap();
        let name =
            asked.split(|c: char| !c.is_alphanumeric() && c != '_').find(|w| w.starts_with("plimsoll_"));
        let name = name.unwrap();
        assert!(sources.iter().any(|source| source.contains(name)), "{name}");
    }
}

/// The limits of a rented machine apply to its disk and its link only.
#[test]
fn the_limits_of_a_rented_machine_are_taken_for_its_disk_and_link() {
    use plimsoll_model::case::Case;
    use plimsoll_model::limit::user::{OF_VIRTUAL_DEVICES, UserLimits};
    let (path, name) = (example("limits-vm.toml"), "examples/limits-vm.toml");
    assert!(OF_VIRTUAL_DEVICES.contains(name) && OF_VIRTUAL_DEVICES.contains("--limits FILE"));
    let limits = UserLimits::read(&path).unwrap();
    let count = |id: &str, metric: &str| {
        let case: Case = id.parse().unwrap();
        let metrics = plimsoll_bench::find(case.benchmark()).unwrap().metrics(&case);
        limits.of(&case, metrics.iter().find(|known| known.name == metric).unwrap()).len()
    };
    assert_eq!(count("disk.io/op=read/pattern=random/block=4K", "rate"), 1);
    assert_eq!(count("disk.io/op=write/pattern=sequential/block=1M", "throughput"), 1);
    for (id, metric) in
        [("network.tcp/message=128K", "goodput"), ("network.latency/protocol=tcp/message=1", "rtt")]
    {
        assert_eq!([count(&format!("{id}/server=10.0.0.1"), metric), count(id, metric)], [1, 0], "{id}");
    }
    let dir = scratch();
    let path = path.display().to_string();
    ended(
        plimsoll(dir.path()).args(["run", "quick", "--limits", &path]).args(SHORT).args(["--store", "none"]),
        0,
    );
}
