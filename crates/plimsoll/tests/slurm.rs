//! Real slurmctld and slurmd: a health check that drains nodes, and jobs over several nodes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::groups::Group;
use crate::support::{Owned, PROGRAM, json_of, list, lossy, repository, script, skip, text};

/// Repetitions of a test; `PLIMSOLL_TEST_ROUNDS` changes them.
const ROUNDS: usize = 2;
const MOST: Duration = Duration::from_secs(300);

/// Daemons of this test alone, ended with it.
struct Cluster {
    daemons: Vec<Owned>,
    dir: tempfile::TempDir,
}

fn program(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin"].iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
}

impl Cluster {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a daemon in the foreground; it writes a log.
    fn start(&mut self, mut command: Command, words: &[&str]) {
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("SLURM_CONF", self.path("slurm.conf"));
        self.daemons.insert(0, Owned(command.spawn().unwrap()));
    }

    fn munge(&mut self) {
        // The key gives root access to this cluster.
        let mut random = [0; 1024];
        fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        let mut key = fs::OpenOptions::new();
        let key = key.write(true).create_new(true).mode(0o600).open(self.path("munge.key-file"));
        key.unwrap().write_all(&random).unwrap();
        let mut munged = Command::new(program("munged").unwrap());
        for option in ["key-file", "socket", "pid-file", "log-file", "seed-file"] {
            munged.arg(format!("--{option}={}", self.path(&format!("munge.{option}")).display()));
        }
        self.start(munged, &["--force", "--foreground", "--num-threads=1"]);
    }

    /// A cluster without running daemons; `None`, and a skipped test, if they are not installed.
    fn new() -> Option<Self> {
        for needed in ["slurmctld", "slurmd", "munged", "scontrol", "sbatch", "srun"] {
            if program(needed).is_none() {
                return skip(&format!("needs {needed} (slurmctld, slurmd, slurm-client, munge)"));
            }
        }
        // A socket's path is short.
        let dir = tempfile::Builder::new().prefix("plimsoll-").tempdir_in("/tmp").unwrap();
        Some(Cluster { dir, daemons: Vec::new() })
    }

    fn control(&mut self, check: Option<&str>) {
        let dir = self.dir.path().display();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap().to_owned();
        let check = check.map(|name| format!("HealthCheckProgram={dir}/{name}\nHealthCheckInterval=20\n"));
        let check = check.unwrap_or_default();
        // All are held until each is known, so that none is given twice.
        let held: [TcpListener; 3] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let [controller, slow, sound] = held.map(|listener| listener.local_addr().unwrap().port());
        let text = format!(
            "ClusterName=plimsoll\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={dir}/munge.socket\nSlurmctldPort={controller}\nCommunicationParameters=NoInAddrAny,NoCtldInAddrAny\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/slurmd.%n.pid\nSlurmdSpoolDir={dir}/spool.%n\nStateSaveLocation={dir}/state\n\
             SlurmctldLogFile={dir}/slurmctld.log\nSlurmdLogFile={dir}/slurmd.%n.log\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\nMpiDefault=none\n\
             SlurmdParameters=config_overrides\n{check}\
             NodeName=slow NodeHostname={host} NodeAddr=127.0.0.1 Port={slow} CPUs=1 State=UNKNOWN\n\
             NodeName=sound NodeHostname={host} NodeAddr=127.0.0.1 Port={sound} CPUs=1 State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP\n"
        );
        fs::write(self.path("slurm.conf"), text).unwrap();
        // Keeps each gate's answer and exit code.
        let gate = format!(
            "line=$('{PROGRAM}' \"$@\")\ncode=$?\nprintf '%s %s\\n' $code \"$line\" >> '{dir}/answers.'$SLURMD_NODENAME\n\
             printf '%s\\n' \"$line\"\nexit $code"
        );
        script(self.dir.path(), "plimsoll", &gate);
        let example = repository("examples/slurm/plimsoll-health-check.sh");
        let check = format!(
            "export PLIMSOLL='{dir}/plimsoll' SLURM_CONF='{dir}/slurm.conf' XDG_DATA_HOME='{dir}'\nexec sh '{}'",
            example.display()
        );
        script(self.dir.path(), "check", &check);
        fs::create_dir(self.path("state")).unwrap();
        self.munge();
        self.start(Command::new(program("slurmctld").unwrap()), &["-D"]);
    }

    /// Runs an example on both nodes; returns what the job prints.
    fn job(&self, example: &str, arguments: &str, program: &Path) -> String {
        let mut job = Command::new("sbatch");
        job.args(["--wait", "-N", "2"]).arg(repository(example)).args(arguments.split(' '));
        job.current_dir(self.dir.path()).env("SLURM_CONF", self.path("slurm.conf")).env("PLIMSOLL", program);
        let output = job.output().unwrap();
        let names = ["plimsoll-1.txt", "plimsoll-2.txt"].map(|name| fs::read_to_string(self.path(name)));
        let stated = names.into_iter().filter_map(Result::ok).next_back().unwrap_or_default();
        assert!(output.status.success(), "{output:?}\n{stated}\n{}", self.logs());
        stated
    }

    fn answers(&self, node: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(&format!("answers.{node}"))).unwrap_or_default();
        // The table repeats the line.
        let answers = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        answers.map(str::to_owned).collect()
    }

    fn scontrol(&self, words: &[&str]) -> Output {
        let mut control = Command::new("scontrol");
        control.args(words).env("SLURM_CONF", self.path("slurm.conf")).output().unwrap()
    }

    fn node(&self, name: &str) -> String {
        lossy(&self.scontrol(&["show", "node", name]).stdout)
    }

    fn logs(&self) -> String {
        let all = ["slurmctld.log", "slurmd.slow.log", "slurmd.sound.log", "munge.log-file"];
        all.iter().map(|name| fs::read_to_string(self.path(name)).unwrap_or_default()).collect()
    }

    /// Waits until the node's state satisfies a condition.
    fn until(&self, name: &str, holds: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let node = self.node(name);
            if holds(&node) {
                return node;
            }
            assert!(begun.elapsed() < MOST, "{name}: {node}\n{}", self.logs());
            // scontrol reports no changes, so poll it.
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}

fn state(node: &str) -> &str {
    node.split_whitespace().find_map(|word| word.strip_prefix("State=")).unwrap_or_default()
}

fn is_drained(node: &str) -> bool {
    state(node).split('+').any(|word| word.starts_with("DRAIN"))
}

#[test]
fn slurm_drains_the_slowed_node_with_its_cause_and_no_other() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (Some(group), Some(whole)) = (Group::make("cpu"), Group::make("cpu")) else { return };
    group.limit(0.5);
    // The other tests go on beside it.
    whole.weigh(1024);
    group.weigh(4096);
    cluster.control(Some("check"));
    let slurmd = program("slurmd").unwrap();
    cluster.start(whole.enter(&slurmd), &["-D", "-N", "sound"]);
    cluster.start(group.enter(&slurmd), &["-D", "-N", "slow"]);
    let rounds = std::env::var("PLIMSOLL_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS);
    for round in 0..rounds {
        let node = cluster.until("slow", is_drained);
        let reason = node.lines().find_map(|line| line.trim().strip_prefix("Reason=plimsoll: "));
        let begins = "sick: CPU quota of 0.50 CPUs, throttled ";
        assert!(reason.is_some_and(|reason| reason.starts_with(begins)), "{round}: {node}");
        // The other one is gated in each round too, and is not sick.
        let before = cluster.answers("sound").len();
        // It may answer before slurmctld knows it.
        let is_known = |node: &str| !state(node).starts_with("UNKNOWN");
        let sound = cluster.until("sound", |node| is_known(node) && cluster.answers("sound").len() > before);
        let answers = cluster.answers("sound");
        let is_fit = |answer: &String| answer.starts_with("0 healthy: ") || answer.starts_with("6 unknown: ");
        assert!(answers.iter().all(is_fit), "{answers:?}");
        assert!(state(&sound).starts_with("IDLE") && !is_drained(&sound), "{sound}");
        assert!(cluster.scontrol(&["update", "NodeName=slow", "State=RESUME"]).status.success());
        cluster.until("slow", |node| state(node).starts_with("IDLE"));
    }
    let sound = cluster.node("sound");
    assert!(!is_drained(&sound), "{sound}");
}

/// The nodes of an allocation are reached by srun, and without MPI their documents are gathered.
#[test]
fn the_nodes_of_an_allocation_become_one_run() {
    let Some(mut cluster) = Cluster::new() else { return };
    cluster.control(None);
    for node in ["slow", "sound"] {
        cluster.start(Command::new(program("slurmd").unwrap()), &["-D", "-N", node]);
    }
    for node in ["slow", "sound"] {
        cluster.until(node, |node| state(node).starts_with("IDLE"));
    }
    let words = "quick --only null --samples=5 --sample-time 10ms";
    let line = format!("{words} --store=none --json=fleet.json");
    let stated = cluster.job("examples/slurm/plimsoll.sbatch", &line, Path::new(PROGRAM));
    let document = json_of(cluster.dir.path(), "fleet.json");
    let nodes = list(&document["nodes"]).iter().map(|node| text(&node["name"]));
    assert_eq!(nodes.collect::<Vec<_>>(), ["slow", "sound"]);
    assert_eq!(document["status"], "complete", "{stated}");
    if !Command::new("unshare").args(["--uts", "true"]).status().is_ok_and(|ended| ended.success()) {
        return skip("needs the right to make namespaces");
    }
    // plimsoll names a machine by its host name: set it to the node's.
    let own = "hostname \"$SLURMD_NODENAME\" && exec \"$@\"";
    let there = format!(
        "[ \"$1\" = run ] && exec unshare --uts sh -c '{own}' sh '{PROGRAM}' \"$@\"\nexec '{PROGRAM}' \"$@\""
    );
    let there = script(cluster.dir.path(), "there", &there);
    let stated = cluster.job("examples/slurm/plimsoll-gather.sbatch", words, &there);
    let read = |name: &str| fs::read_to_string(cluster.path(name)).unwrap_or_default();
    let page = read("plimsoll-2/fleet.html");
    for node in ["slow", "sound"] {
        assert!(page.contains(node) && read("plimsoll-2/hosts.txt").contains(node), "{node}: {stated}");
        let document = json_of(cluster.dir.path(), &format!("plimsoll-2/{node}.json"));
        assert_eq!(document["nodes"][0]["name"], node);
    }
    let counts = ["is missing", "quick on 2 machines"].map(|words| stated.matches(words).count());
    assert_eq!(counts, [0, 1], "{stated}");
}
