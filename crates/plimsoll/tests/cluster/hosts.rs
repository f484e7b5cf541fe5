//! Hosts that a test makes for itself: each a network and a host name of its own on one bridge, with directories of its
//! own. They live in processes that end with this one; what is left of control groups is removed on drop.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{skipped, until};

/// A process that holds namespaces until its input closes.
struct Holder(Child);

impl Holder {
    fn new(name: &str) -> Option<Self> {
        let script = format!("hostname {name} && ip link set lo up && echo here && exec cat");
        let child = Command::new("unshare")
            .args(["--net", "--uts", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut holder = Holder(child);
        let mut line = String::new();
        BufReader::new(holder.0.stdout.as_mut()?).read_line(&mut line).ok()?;
        (line == "here\n").then_some(holder)
    }

    fn run(&self, script: &str) {
        let done = Command::new("nsenter")
            .args(["--net", "-t", &self.0.id().to_string(), "timeout", "120", "sh", "-euc", script])
            .output()
            .unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Control groups for the CPU: all hosts in one that goes before other work, one of them in one that has a quota.
struct Groups {
    all: PathBuf,
    slow: PathBuf,
}

impl Groups {
    fn make() -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let v2 = Path::new("/sys/fs/cgroup");
        let first = v1.join("cpu.cfs_quota_us").exists();
        let name = format!("plimsoll-hosts-{}-{:?}", std::process::id(), std::thread::current().id());
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let parent = if first { v1 } else { v2 }.join(name);
        let groups = Self { all: parent.join("all"), slow: parent.join("slow") };
        let set = |dir: &Path, file: &str, text: &str| fs::write(dir.join(file), text).ok();
        if !first {
            set(v2, "cgroup.subtree_control", "+cpu")?;
        }
        fs::create_dir(&parent).ok()?;
        let (weight, heavy) = if first { ("cpu.shares", "16384") } else { ("cpu.weight", "1600") };
        set(&parent, weight, heavy)?;
        if !first {
            set(&parent, "cgroup.subtree_control", "+cpu")?;
        }
        fs::create_dir(&groups.all).ok()?;
        fs::create_dir(&groups.slow).ok()?;
        if first {
            set(&groups.slow, "cpu.cfs_period_us", "10000")?;
            set(&groups.slow, "cpu.cfs_quota_us", "4000")?;
        } else {
            set(&groups.slow, "cpu.max", "4000 10000")?;
        }
        Some(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let parent = self.all.parent().map(Path::to_owned).unwrap_or_default();
        for dir in [&self.all, &self.slow] {
            removed(dir);
        }
        let _ = fs::remove_dir(parent);
    }
}

/// Removes a control group. It can go once its last process is gone; those that a failed test left are ended here.
pub(crate) fn removed(group: &Path) {
    for _ in 0..100 {
        let left = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        left.lines().filter_map(|pid| pid.parse().ok()).for_each(kill);
        if fs::remove_dir(group).is_ok() || !group.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    // It may have ended meanwhile.
    let _ = rustix::process::kill_process(pid, signal);
}

fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

/// Several hosts; the first is where the launcher runs.
pub(crate) struct Hosts {
    dir: tempfile::TempDir,
    hosts: Vec<Holder>,
    bridge: Holder,
    groups: Option<Groups>,
}

impl Hosts {
    /// Makes them; `None`, told as a skip, where that cannot be.
    pub(crate) fn new(test: &str, count: usize) -> Option<Self> {
        for tool in ["unshare", "nsenter", "hostname", "ip", "tc", "mpirun"] {
            if Command::new(tool).arg("-V").stdin(Stdio::null()).output().is_err() {
                skipped(test, &format!("needs {tool}"));
                return None;
            }
        }
        let holders =
            (1..=count).map(|number| Holder::new(&format!("n{number}"))).collect::<Option<Vec<_>>>();
        let (Some(hosts), Some(bridge)) = (holders, Holder::new("bridge")) else {
            skipped(test, "needs the right to make network namespaces");
            return None;
        };
        let made = Hosts {
            // Short: the launcher makes sockets in it, whose paths may have 107 bytes.
            dir: tempfile::Builder::new().prefix("pl").tempdir().unwrap(),
            hosts,
            bridge,
            groups: Groups::make(),
        };
        made.bridge.run(
            "ip link add br0 type bridge && ip link set br0 up && ip address add 198.18.7.100/24 dev br0",
        );
        for (index, host) in made.hosts.iter().enumerate() {
            let (number, pid) = (index + 1, host.0.id());
            made.bridge.run(&format!(
                "ip link add port{number} type veth peer name eth0 netns {pid} && ip link set port{number} master br0 up"
            ));
            host.run(&format!("ip address add 198.18.7.{number}/24 dev eth0 && ip link set eth0 up"));
            for kind in ["tmp", "data"] {
                fs::create_dir(made.dir.path().join(format!("198.18.7.{number}.{kind}"))).unwrap();
            }
        }
        made.write_scripts();
        made.settle("");
        Some(made)
    }

    /// How a process enters a host, and what the launcher calls for it.
    fn write_scripts(&self) {
        let dir = self.dir.path().display();
        let enter = format!(
            "#!/bin/sh\nhost=$1; shift\n. {dir}/$host.host\nexport TMPDIR={dir}/$place.tmp XDG_DATA_HOME={dir}/$place.data\n\
            for each in $groups; do echo $$ > \"$each/cgroup.procs\"; done\nexec nsenter --net --uts -t $pid \"$@\"\n"
        );
        let agent = format!(
            "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1; shift\nexec {dir}/enter $host sh -c \"$*\"\n"
        );
        for (name, text) in [("enter", enter), ("agent", agent)] {
            let file = self.dir.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Writes down where each host is; `slow` is in the group with the quota.
    fn settle(&self, slow: &str) {
        for (index, host) in self.hosts.iter().enumerate() {
            let group = self.groups.as_ref().map(|groups| {
                if slow == format!("n{}", index + 1) { &groups.slow } else { &groups.all }
                    .display()
                    .to_string()
            });
            let place = format!("198.18.7.{}", index + 1);
            let text =
                format!("pid={}\nplace={place}\ngroups=\"{}\"\n", host.0.id(), group.unwrap_or_default());
            // A host is called by its address, or by its name.
            for name in [place, format!("n{}", index + 1)] {
                fs::write(self.dir.path().join(format!("{name}.host")), &text).unwrap();
            }
        }
    }

    /// Gives a host these control groups from now on.
    pub(crate) fn confine(&self, number: usize, groups: &[PathBuf]) {
        let all: Vec<String> = groups.iter().map(|group| group.display().to_string()).collect();
        let file = self.dir.path().join(format!("198.18.7.{number}.host"));
        let text = fs::read_to_string(&file).unwrap() + &format!("groups=\"{}\"\n", all.join(" "));
        fs::write(file, text).unwrap();
    }

    /// Gives a host 0.4 CPUs from now on. Whether that could be.
    pub(crate) fn slow_down(&self, host: &str) -> bool {
        self.settle(host);
        self.groups.is_some()
    }

    /// Holds what a host sends to a rate, by a token bucket.
    pub(crate) fn hold(&self, number: usize, rate: &str) {
        let how = format!("tc qdisc replace dev eth0 root tbf rate {rate} burst 64kb limit 4mb");
        self.hosts[number - 1].run(&how);
    }

    /// A file that all hosts see.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    /// A command on a host.
    pub(crate) fn on(&self, number: usize, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", "400"])
            .arg(self.dir.path().join("enter"))
            .arg(format!("198.18.7.{number}"))
            .arg(program)
            .current_dir(self.dir.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `plimsoll serve` on the bridge, where all hosts reach it; it ends when the input that is handed back closes.
    pub(crate) fn server(&self) -> Server {
        let mut child = Command::new("nsenter")
            .args(["--net", "-t", &self.bridge.0.id().to_string(), env!("CARGO_BIN_EXE_plimsoll")])
            .args(["serve", "--bind", SERVER, "--open", "--allow-root"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on"), "{line}");
        Server(child)
    }

    /// The launcher on the first host, with a rank on each; more arguments follow.
    pub(crate) fn mpirun(&self) -> Command {
        let mut command = self.on(1, "mpirun");
        let names: Vec<String> = (1..=self.hosts.len()).map(|number| format!("198.18.7.{number}")).collect();
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .args(["--bind-to", "none", "--mca", "btl", "self,tcp"])
            .args(["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"])
            .args(["--mca", "plm_rsh_agent"])
            .arg(self.dir.path().join("agent"))
            .args(["-H", &names.join(",")]);
        command
    }

    /// Runs a plan on all hosts and kills a process of this kind on one of them as soon as it is there: exit code 4. What
    /// is stored.
    pub(crate) fn run_and_kill(&self, plan: &Path, number: usize, kind: Kind) -> Value {
        let count = self.hosts.len().to_string();
        let mut run = self.mpirun();
        let run = run.args(["-n", &count, env!("CARGO_BIN_EXE_plimsoll"), "run"]).arg(plan).spawn();
        let mut run = run.unwrap();
        let mut victims = Vec::new();
        in_course_of(&mut run, "what is to be killed begins", || {
            victims = self.processes(number, kind);
            !victims.is_empty()
        });
        kill(victims[0]);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        self.stored()
    }

    /// The last run in the history of the first host.
    pub(crate) fn stored(&self) -> Value {
        let mut export = self.on(1, env!("CARGO_BIN_EXE_plimsoll"));
        let output = export.args(["export", "last", "--format", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Whether rank 0 has stored a measurement of its own already.
    pub(crate) fn keeps_its_own(&self) -> bool {
        let mut export = self.on(1, env!("CARGO_BIN_EXE_plimsoll"));
        let output = export.args(["export", "last", "--format", "json"]).output().unwrap();
        let stored: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let measured = stored["measurements"].as_array().into_iter().flatten();
        measured.into_iter().any(|measurement| measurement["node"] == "n1")
    }

    /// What a host has measured and rank 0 has not confirmed.
    pub(crate) fn unconfirmed(&self, number: usize) -> Vec<PathBuf> {
        let place = self.dir.path().join(format!("198.18.7.{number}.data/plimsoll/unconfirmed"));
        let files = fs::read_dir(place).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        files.filter(|file| file.extension().is_some_and(|kind| kind == "json")).collect()
    }

    /// Processes of this kind on a host.
    pub(crate) fn processes(&self, number: usize, kind: Kind) -> Vec<u32> {
        let holder = self.hosts[number - 1].0.id();
        let place = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let own = place(holder).unwrap();
        let meant = |pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            *pid != holder && kind.is(&words) && place(*pid).as_ref() == Some(&own)
        };
        let all =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        all.filter(meant).collect()
    }

    /// Waits until no process is left on any host, whoever started it.
    pub(crate) fn empty(&self) {
        for number in 1..=self.hosts.len() {
            until(&format!("processes on n{number} end"), || self.processes(number, Kind::Any).is_empty());
        }
    }
}

/// Where [`Hosts::server`] listens.
pub(crate) const SERVER: &str = "198.18.7.100";

/// A server; dropping ends it.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Which process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The program that the launcher started.
    Rank,
    Worker,
    /// What solves a system on all hosts.
    Solver,
    Any,
}

impl Kind {
    /// Whether a process with this command line is meant.
    fn is(self, words: &[&[u8]]) -> bool {
        // A worker is started as the very program that runs, by its name alone.
        let name = words[0].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let ours = name == b"plimsoll" || name == b"plimsoll-other";
        let of_program = |word: &[u8]| ours && words.get(1) == Some(&word);
        match self {
            Kind::Rank => of_program(b"run"),
            Kind::Worker => of_program(b"worker"),
            Kind::Solver => words[0].ends_with(b"/hpcc"),
            Kind::Any => true,
        }
    }
}

/// Waits for something in the course of a run; one that ends before that has said why.
pub(crate) fn in_course_of(run: &mut Child, what: &str, mut holds: impl FnMut() -> bool) {
    let mut ended = false;
    until(what, || {
        ended = run.try_wait().unwrap().is_some();
        ended || holds()
    });
    if ended {
        let mut told = String::new();
        run.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        panic!("{what}: the run ended before that: {told}");
    }
}

/// What a run said: its exit code, and its last line of its own.
pub(crate) fn said(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| line.starts_with("plimsoll: ")).unwrap_or_default();
    (output.status.code(), last.to_owned())
}
