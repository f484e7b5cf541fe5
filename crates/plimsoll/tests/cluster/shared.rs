//! A host on which the run has only a part: one CPU and some memory, as a scheduler's control groups give a job that
//! shares its machine.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::common::skipped;
use crate::hosts::{Hosts, removed, said};

/// What the job may take.
const MEMORY: u64 = 1 << 30;

const PLAN: &str = "name = 'shared'\nsamples = 2\nsample-time = '10ms'\n\
    [[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f64'\nthreads = 1\n";

/// Control groups of one CPU and some memory: one of version 2, or one of each kind of version 1.
struct Part(Vec<PathBuf>);

impl Part {
    fn make(cpu: &str) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("plimsoll-part-{}", std::process::id());
        let memory = MEMORY.to_string();
        let first = root.join("cpuset/cpuset.cpus").exists();
        if !first {
            fs::write(root.join("cgroup.subtree_control"), "+cpuset +memory").ok()?;
        }
        let directories =
            if first { vec![root.join("cpuset"), root.join("memory")] } else { vec![root.to_owned()] };
        let part = Self(directories.into_iter().map(|directory| directory.join(&name)).collect());
        part.0.iter().try_for_each(fs::create_dir).ok()?;
        let (cpus, last) = (part.0.first()?, part.0.last()?);
        if first {
            let nodes = fs::read_to_string(root.join("cpuset/cpuset.mems")).ok()?;
            fs::write(cpus.join("cpuset.mems"), nodes.trim()).ok()?;
        }
        fs::write(cpus.join("cpuset.cpus"), cpu).ok()?;
        fs::write(last.join(if first { "memory.limit_in_bytes" } else { "memory.max" }), memory).ok()?;
        Some(part)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.0.iter().for_each(|directory| removed(directory));
    }
}

#[test]
fn a_host_of_which_the_job_has_a_part_is_measured_by_that_part() {
    let test = "a_host_of_which_the_job_has_a_part_is_measured_by_that_part";
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let last = allowed.rsplit([',', '-']).next().unwrap();
    let Some(part) = Part::make(last) else {
        return skipped(test, "needs the right to make control groups for CPUs and memory");
    };
    let Some(hosts) = Hosts::new(test, 2) else { return };
    hosts.confine(2, &part.0);
    let plan = hosts.file("shared.toml", PLAN);
    let mut run = hosts.mpirun();
    let output = run.args(["-n", "2", env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).output().unwrap();
    assert_eq!(said(&output).0, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let stored = hosts.stored();
    // Without one it is the run's own.
    let machine = |node: usize| stored["nodes"][node].get("machine").unwrap_or(&stored["machine"]);
    assert_eq!(machine(1)["cpu"]["allowed"], last, "{}", machine(1)["cpu"]["allowed"]);
    assert_eq!(machine(1)["cgroup"]["memory"]["limit_bytes"], MEMORY);
    assert_eq!(machine(0)["cpu"]["allowed"], allowed);
    // What becomes of a figure in so short a time is not what this is about.
    let measured = stored["measurements"].as_array().unwrap().iter().filter(|m| m["metrics"] != json!([]));
    assert!(measured.map(|m| &m["node"]).eq([&json!("n1"), &json!("n2")]), "{}", stored["measurements"]);
    hosts.empty();
}
