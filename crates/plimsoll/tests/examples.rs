//! Runs the examples of docs/src/cluster.md for many machines without MPI, as far as possible here.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    PROGRAM, done, ended, has, json, list, place_for_programs, plimsoll, repository, scratch, script, text,
    with_code,
};

/// Most lines of an example.
const LINES: usize = 30;
const SHORT: &str = "--only null --samples=5 --sample-time 10ms";

fn example(name: &str) -> PathBuf {
    repository("examples").join(name)
}

fn content(name: &str) -> String {
    fs::read_to_string(example(name)).unwrap()
}

fn yaml(name: &str) -> Value {
    serde_yaml_ng::from_str(&content(name)).unwrap()
}

fn words(of: &Value) -> Vec<String> {
    list(of).iter().map(|word| text(word).to_owned()).collect()
}

/// The kinds of a file with pods, and where each has the container that measures.
const PODS: [(&str, &str); 2] = [("job", "containers"), ("daemonset", "initContainers")];

fn pods((name, place): (&str, &str)) -> (Value, Value) {
    let pod = yaml(&format!("kubernetes/plimsoll-{name}.yaml"))["spec"]["template"].clone();
    let container = pod.pointer(&format!("/spec/{place}/0")).unwrap().clone();
    (pod, container)
}

#[test]
fn each_is_short_and_named_in_the_docs_and_uses_options_that_exist() {
    let help = |command: &str| done(scratch().path(), &format!("{command} --help-all"), 0).0;
    let fleet = "kubernetes/plimsoll-job.yaml kubernetes/plimsoll-daemonset.yaml slurm/plimsoll-gather.sbatch \
                 ansible/plimsoll.yml nomad/plimsoll.nomad.hcl cloud-init/plimsoll.yaml";
    let gate = "slurm/plimsoll-health-check.sh slurm/plimsoll-prolog.sh slurm/plimsoll-epilog.sh \
                node-problem-detector/plimsoll-gate.json nagios/plimsoll.cfg systemd/plimsoll-gate.service \
                systemd/plimsoll-gate.timer ansible/gate.yml";
    let watch = "systemd/plimsoll-watch.service";
    for (page, names, help) in [
        ("cluster", fleet, None),
        ("recipes", gate, Some(help("gate"))),
        ("recipes", watch, Some(help("watch"))),
    ] {
        let page = fs::read_to_string(repository(&format!("docs/src/{page}.md"))).unwrap();
        for name in names.split_whitespace() {
            let text = content(name);
            assert!(text.lines().count() <= LINES, "{name}");
            assert!(page.contains(&format!("examples/{name}")), "{name}");
            let words = text.split(|c: char| c.is_whitespace() || "[],\";.".contains(c));
            // `set --` begins the words of the shell.
            let options = words.filter(|word| word.starts_with("--") && *word != "--");
            for option in options.filter(|option| !option.starts_with("--collector")) {
                assert!(help.as_ref().is_none_or(|help| help.contains(option)), "{name}: {option}");
            }
        }
    }
    assert!(["--resume", "--for"].iter().all(|option| content(watch).contains(option)));
    let detector: Value = json(&content("node-problem-detector/plimsoll-gate.json"));
    assert_eq!(detector["plugin"], "custom");
    assert_eq!(detector["pluginConfig"]["max_output_length"], 80);
    assert_eq!(detector["conditions"][0]["type"], detector["rules"][0]["condition"]);
    let tasks = yaml("ansible/gate.yml")[0]["tasks"].clone();
    assert_eq!(tasks[1]["ansible.builtin.assert"]["that"], "found.stdout != \"missing\"");
    assert_eq!(tasks[2]["failed_when"], "gate.rc == 1");
}

/// Exit code 1 alone drains a node, with the line as reason, unless it is drained already.
#[test]
fn a_sick_node_is_drained_with_its_cause_and_no_other() {
    let dir = scratch();
    let line = "sick: CPU quota of 0.50 CPUs, throttled 49 % of the time";
    for (code, state) in [(1, "IDLE"), (1, "IDLE+DRAIN"), (0, "IDLE"), (6, "IDLE"), (137, "IDLE")] {
        let drains = (code, state) == (1, "IDLE");
        let gate = script(dir.path(), "plimsoll", &format!("printf '%s\\033\"\\n' '{line}'; exit {code}"));
        let scontrol = format!(
            "case $1 in show) echo '   State={state} ThreadsPerCore=1';; *) printf '%s\\n' \"$@\" > \"$0.said\";; esac"
        );
        script(dir.path(), "scontrol", &scontrol);
        script(dir.path(), "logger", "printf '%s\\n' \"$3\" >> \"$0.said\"");
        let run = |name: &str| {
            let mut run = Command::new("sh");
            run.arg(example(name)).env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()));
            run.env("PLIMSOLL", &gate).envs([("SLURMD_NODENAME", "n7"), ("SLURM_JOB_ID", "42")]);
            run.output().unwrap().status.code()
        };
        // Arguments of a stand-in, which are removed.
        let taken = |name: &str| {
            let file = dir.path().join(format!("{name}.said"));
            let said = fs::read_to_string(&file).ok();
            let _ = fs::remove_file(file);
            said
        };
        let expected = drains.then(|| format!("update\nNodeName=n7\nState=DRAIN\nReason=plimsoll: {line}\n"));
        for (name, ends) in [("health-check", 0), ("prolog", i32::from(code == 1)), ("epilog", 0)] {
            assert_eq!(run(&format!("slurm/plimsoll-{name}.sh")), Some(ends), "{name}");
            assert_eq!(taken("scontrol"), expected, "{name} {code} {state}");
            // The prolog names each job that it lets start.
            let logged = taken("logger").unwrap_or_default();
            let starts = logged.lines().filter(|log| log.starts_with("job 42 starts")).count();
            assert_eq!(starts, usize::from(name == "prolog" && code != 1), "{name} {code}: {logged}");
        }
    }
}

#[test]
fn the_log_of_a_pod_is_a_document_that_gather_takes() {
    for kind in PODS {
        let (_, container) = pods(kind);
        let dir = scratch();
        fs::create_dir(dir.path().join("data")).unwrap();
        let data = dir.path().join("data").display().to_string();
        let volume = text(&container["volumeMounts"][0]["mountPath"]);
        let args = words(&container["args"]).into_iter().map(|word| word.replace(volume, &data));
        let (log, _) = ended(plimsoll(dir.path()).args(args).args(SHORT.split(' ')), 0);
        let log = format!("Pulling image\n{log}\n{{\"level\":\"info\"}}\n");
        let (out, _) = ended(plimsoll(dir.path()).args(["gather", "-"]).write_stdin(log), 0);
        assert!(out.lines().any(|line| line.starts_with("1 case in ")), "{kind:?}: {out}");
    }
}

#[test]
fn pods_have_a_node_each_and_are_not_throttled() {
    let job = yaml("kubernetes/plimsoll-job.yaml");
    assert_eq!((&job["kind"], &job["spec"]["completionMode"]), (&"Job".into(), &"Indexed".into()));
    assert_eq!(job["spec"]["completions"], job["spec"]["parallelism"]);
    let requests = format!("--max-log-requests={}", job["spec"]["completions"]);
    assert!(content("kubernetes/plimsoll-job.yaml").contains(&requests), "kubectl logs follows all pods");
    let (pod, _) = pods(PODS[0]);
    let rule =
        &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(rule["labelSelector"]["matchLabels"], pod["metadata"]["labels"]);
    let set = yaml("kubernetes/plimsoll-daemonset.yaml");
    assert_eq!(set["spec"]["selector"]["matchLabels"], set["spec"]["template"]["metadata"]["labels"]);
    for kind in PODS {
        let (pod, container) = pods(kind);
        assert_eq!(container["resources"]["requests"], container["resources"]["limits"], "{kind:?}");
        assert_eq!(pod["spec"]["hostNetwork"], true, "{kind:?}: documents have the names of the nodes");
        let volume = &container["volumeMounts"][0]["name"];
        assert_eq!(&pod["spec"]["volumes"][0]["name"], volume, "{kind:?}");
    }
}

#[test]
fn the_workflow_and_the_alerts_are_yaml_and_named_in_the_docs() {
    let docs = fs::read_to_string(repository("docs/src/recipes.md")).unwrap();
    for (name, part) in [("github/plimsoll.yml", "jobs"), ("prometheus/rules.yml", "groups")] {
        assert!(!yaml(name)[part].is_null(), "{name}");
    }
    for name in ["github/plimsoll.yml", "prometheus/rules.yml", "cron/plimsoll"] {
        assert!(docs.contains(&format!("examples/{name}")), "{name}");
    }
}

/// Slurm's commands for two nodes, of which the second fails.
#[test]
fn nodes_of_an_allocation_are_joined_and_one_that_fails_is_named() {
    let (dir, bin) = (scratch(), place_for_programs());
    script(bin.path(), "scontrol", "echo s1; echo s2");
    let srun = "while [ \"${1#--}\" != \"$1\" ]; do shift; done\nSLURMD_NODENAME=s1 \"$@\"\nexit 1";
    script(bin.path(), "srun", srun);
    let own = format!("case $1 in run) exec {PROGRAM} \"$@\" {SHORT};; *) exec {PROGRAM} \"$@\";; esac");
    let own = script(bin.path(), "plimsoll", &own);
    let mut job = Command::new("bash");
    job.arg(example("slurm/plimsoll-gather.sbatch")).current_dir(dir.path()).env("PLIMSOLL", own);
    job.env("PATH", format!("{}:/usr/bin:/bin", bin.path().display()));
    job.envs([("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "s[1-2]"), ("NO_COLOR", "1")]);
    let (out, _) = with_code(&job.output().unwrap(), 5);
    assert_ne!(out.matches("s2 is missing").count(), 0, "{out}");
    assert!(["fleet.html", "s1.json"].iter().all(|file| dir.path().join("plimsoll-7").join(file).exists()));
}

#[test]
fn the_other_examples_run_commands_that_plimsoll_takes() {
    let dir = scratch();
    let taken = |words: Vec<String>| {
        let replaced = words.into_iter().map(|one| if one.contains("{{") { "quick".to_owned() } else { one });
        // The program itself is the first word of some.
        let words: Vec<String> = replaced.filter(|word| word != "./plimsoll").collect();
        let text = if words[0] == "gather" { "--help" } else { "--dry-run" };
        ended(plimsoll(dir.path()).args(words).arg(text), 0)
    };
    let tasks = yaml("ansible/plimsoll.yml");
    taken(words(&tasks[0]["tasks"][1]["block"][1]["ansible.builtin.command"]["argv"]));
    taken(words(&tasks[1]["tasks"][0]["ansible.builtin.command"]["argv"]));
    let job = content("nomad/plimsoll.nomad.hcl");
    let args = job.split("args    = ").nth(1).unwrap().lines().next().unwrap();
    fs::create_dir(dir.path().join("local")).unwrap();
    taken(serde_json::from_str(args).unwrap());
    let cloud = yaml("cloud-init/plimsoll.yaml");
    let script = text(&cloud["write_files"][0]["content"]);
    let line = script.lines().find(|line| line.starts_with("./plimsoll ")).unwrap();
    taken(line.split(' ').map(str::to_owned).collect());
    assert!(script.contains("sha256sum --check"), "what is fetched is checked before it runs");
}

#[test]
fn the_jq_queries_of_the_recipes_print_rows() {
    let Some(()) = has(&["jq"]) else { return };
    let page = fs::read_to_string(repository("docs/src/recipes.md")).unwrap();
    let queries: Vec<&str> = page.lines().filter(|line| line.contains("| jq ")).collect();
    assert_eq!(queries.len(), 3);
    let dir = scratch();
    for _ in 0..2 {
        done(dir.path(), &format!("run quick {SHORT} --quiet --store history"), 0);
    }
    for (index, query) in queries.into_iter().enumerate() {
        let (command, filter) = query.split_once(" | jq ").unwrap();
        let command = command.replacen("plimsoll", PROGRAM, 1);
        let line = format!("set -e; {command} --store history > out.json; jq {filter} out.json");
        let output = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
        let (out, _) = with_code(&output, 0);
        assert!(index != 0 || out.split('\t').any(|cell| cell == "null"), "{out}");
    }
}

#[test]
fn the_dashboard_shows_metrics_that_are_exported() {
    let dashboard = json(&content("grafana/plimsoll.json"));
    let panels = list(&dashboard["panels"]);
    assert!(panels.len() >= 5);
    const EXPORTED: &str =
        "format/snapshots/plimsoll_output__report__format__openmetrics__tests__the_text_of_a_run.snap";
    let sources = [EXPORTED, "gate.rs"]
        .map(|name| fs::read_to_string(repository("crates/output/src/report").join(name)).unwrap());
    for panel in panels {
        let asked = text(&panel["targets"][0]["expr"]);
        let mut words = asked.split(|c: char| !c.is_alphanumeric() && c != '_');
        let name = words.find(|word| word.starts_with("plimsoll_")).unwrap();
        assert!(sources.iter().any(|source| source.contains(name)), "{name}");
    }
}

#[test]
fn the_limits_of_a_rented_machine_are_taken_for_its_disk_and_link() {
    use plimsoll_model::case::Case;
    use plimsoll_model::limit::user::{OF_VIRTUAL_DEVICES, UserLimits};
    let (path, name) = (example("limits-vm.toml"), "examples/limits-vm.toml");
    assert!([name, "--limits FILE"].iter().all(|part| OF_VIRTUAL_DEVICES.contains(part)));
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
}
