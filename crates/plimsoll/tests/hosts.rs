//! `plimsoll run --hosts`: each node is a network namespace with a real `sshd` and keys of this
//! test; all end with the processes that hold them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::namespaces::Namespace;
use crate::support::{
    PATIENCE, PROGRAM, children, coded, document, exists, json_of, list, lossy, median, parent,
    place_for_programs, possible, processes, reason, scratch, script, signal, skip, start, text,
    under_a_quota, until, with_code,
};

const SSHD: &str = "/usr/sbin/sshd";

/// Environment of Open MPI for root on these machines, with the directory of the agent.
fn mpi(command: &mut Command, programs: &Path) {
    command.env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
    command.env("OMPI_MCA_plm_rsh_agent", programs.join("agent")).env("OMPI_MCA_btl", "self,tcp");
    let network = ["OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include"];
    command.envs(network.map(|name| (name, "198.18.9.0/24")));
}

/// The program without symbols: half as much to copy to each machine.
fn stripped() -> &'static Path {
    static STRIPPED: OnceLock<PathBuf> = OnceLock::new();
    STRIPPED.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plimsoll-stripped");
        let made = Command::new("strip").arg("-o").arg(&path).arg(PROGRAM).status();
        if made.is_ok_and(|status| status.success()) { path } else { PROGRAM.into() }
    })
}

/// Machines n1, n2 … on one bridge, which is where plimsoll runs.
struct Machines {
    hosts: Vec<Namespace>,
    bridge: Namespace,
    dir: tempfile::TempDir,
}

impl Machines {
    /// `special` are further options for the sshd of a node.
    #[track_caller]
    fn new(count: usize, special: &[(usize, &str)]) -> Option<Self> {
        possible(&["unshare", "nsenter", "ip", "ssh", "ssh-keygen", SSHD])?;
        // The directory that sshd keeps empty for itself.
        fs::create_dir_all("/run/sshd").unwrap();
        let dir = scratch();
        let path = |name: &str| dir.path().join(name).display().to_string();
        for key in ["host", "user", "other"] {
            let mut make = Command::new("ssh-keygen");
            assert!(make.args(["-qt", "ed25519", "-N", "", "-f", &path(key)]).status().unwrap().success());
        }
        let [host, user, known] = ["host", "user", "known"].map(path);
        let key = fs::read_to_string(path("host.pub")).unwrap();
        let keys: String = (1..=count).map(|n| format!("198.18.9.{n} {key}")).collect();
        fs::write(&known, keys).unwrap();
        let sshd = format!(
            "HostKey {host}\nAuthorizedKeysFile {user}.pub\nStrictModes no\nPidFile none\n\
             PermitRootLogin yes\nMaxStartups 99\n"
        );
        fs::write(path("sshd"), sshd).unwrap();
        let names: String = (1..=count).map(|n| format!("Host n{n}\nHostName 198.18.9.{n}\n")).collect();
        let config = format!(
            "{names}Host *\nUser root\nIdentityFile {user}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\n\
             GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
        );
        fs::write(path("config"), config).unwrap();
        let Some(bridge) = Namespace::new(&[], "cat") else { return skip("may not make network namespaces") };
        bridge
            .must("ip link add br0 type bridge; ip link set br0 up; ip address add 198.18.9.100/24 dev br0");
        let mut made = Self { dir, bridge, hosts: Vec::new() };
        for number in 1..=count {
            made.add(number, special.iter().find(|(of, _)| *of == number).map_or("", |(_, words)| words));
        }
        Some(made)
    }

    fn add(&mut self, number: usize, more: &str) {
        let files = self.files(number);
        fs::create_dir(&files).unwrap();
        let (files, config) = (files.display(), self.dir.path().join("sshd").display().to_string());
        let space = format!("mount -t tmpfs -o size=64k tmpfs {files};");
        let space = if more == "full" { &space } else { "" };
        let words = if ["full", "off"].contains(&more) { "" } else { more };
        let script = format!(
            "hostname n{number}; {space} exec {SSHD} -D -e -f {config} -o SetEnv=TMPDIR={files} {words}"
        );
        let more_namespaces = ["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let mut host = Namespace::new(&more_namespaces, &script).unwrap();
        self.bridge.must(&format!(
            "ip link add port{number} type veth peer name eth0 netns {}; ip link set port{number} master br0 up",
            host.pid()
        ));
        host.must(&format!("ip address add 198.18.9.{number}/24 dev eth0; ip link set eth0 up"));
        if more != "off" {
            host.go();
        }
        self.hosts.push(host);
    }

    fn files(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("n{number}"))
    }

    /// A null run of `samples` samples on nodes.
    fn run(&self, hosts: &str, samples: u32, more: &str) -> Command {
        let line = format!("run quick --only null --sample-time 20ms --samples {samples} {more}");
        let store = if more.contains("--store") { "" } else { "--store none" };
        self.plimsoll(hosts, &format!("{line} {store} --json fleet.json"))
    }

    fn plimsoll(&self, hosts: &str, line: &str) -> Command {
        self.launching(hosts, &format!("{line} --ssh-config config"))
    }

    fn launching(&self, hosts: &str, line: &str) -> Command {
        let most = PATIENCE.as_secs().to_string();
        let mut command = self.bridge.command("timeout");
        command.args(["-k", "5", &most, PROGRAM]).args(line.split_whitespace());
        command.args(["--hosts", hosts, "--program"]).arg(stripped());
        command.current_dir(self.dir.path()).env("NO_COLOR", "1");
        command
    }

    /// Programs in a directory: `enter HOST COMMAND…` executes a command on a node, `kubectl` and
    /// `agent` do so with the words of kubectl and, for mpirun, of ssh.
    fn programs(&self) -> tempfile::TempDir {
        let programs = place_for_programs();
        let here = programs.path().display();
        let machine = |(index, host): (usize, &Namespace)| {
            format!("n{0}) pid={1} TMPDIR={2};;\n", index + 1, host.pid(), self.files(index + 1).display())
        };
        let machines: String = self.hosts.iter().enumerate().map(machine).collect();
        let enter = format!(
            "case $1 in\n{machines}*) echo \"no machine $1\" >&2; exit 9;;\nesac\nshift\nexport TMPDIR\n\
             exec nsenter --net --uts -t $pid \"$@\""
        );
        let kubectl = format!(
            "[ \"$1 $2 $3 $5\" = \"exec --stdin --quiet --\" ] || {{ echo \"error: $*\" >&2; exit 1; }}\n\
             pod=$4\nshift 5\nexec {here}/enter $pod \"$@\""
        );
        let agent = format!(
            "while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\nexec {here}/enter $host sh -c \"$*\""
        );
        for (name, text) in [("enter", enter), ("kubectl", kubectl), ("agent", agent)] {
            script(programs.path(), name, &text);
        }
        programs
    }

    fn document(&self) -> Value {
        json_of(self.dir.path(), "fleet.json")
    }

    fn measuring(&self, number: usize) -> Option<u32> {
        let files = self.files(number).display().to_string();
        let is_own = |words: &str| words.starts_with(&files) && words.split('\0').any(|one| one == "hosted");
        processes().find(|(_, words)| is_own(words)).map(|(pid, _)| pid)
    }

    /// Waits until a node measures, and returns the process.
    fn until_it_measures(&self, number: usize) -> u32 {
        let mut pid = 0;
        until(&format!("n{number} measures"), || self.measuring(number).inspect(|own| pid = *own).is_some());
        pid
    }

    /// Waits until nothing of a run is left on any node.
    fn nothing_is_left(&self) {
        (1..=self.hosts.len()).for_each(|n| until(&format!("n{n} is as it was"), || self.is_clean(n)));
    }

    fn nothing_was_left(&self) {
        (1..=self.hosts.len()).for_each(|number| assert!(self.is_clean(number), "n{number}"));
    }

    fn is_clean(&self, number: usize) -> bool {
        fs::read_dir(self.files(number)).unwrap().count() == 0 && self.measuring(number).is_none()
    }
}

/// Standard output and standard error of a command that must end with `code`.
#[track_caller]
fn ends(child: Child, code: i32) -> (String, String) {
    with_code(&child.wait_with_output().unwrap(), code)
}

fn names(run: &Value) -> Vec<&str> {
    list(&run["nodes"]).iter().map(|node| text(&node["name"])).collect()
}

/// The measurements of one node.
fn on(run: &Value, name: &str) -> Vec<Value> {
    list(&run["measurements"]).iter().filter(|m| m["node"] == name).cloned().collect()
}

fn pairs(run: &Value) -> impl Iterator<Item = &Value> {
    list(&run["measurements"]).iter().filter(|m| m["metrics"][0]["matrix"].is_object())
}

#[test]
fn machines_that_ssh_reaches_become_one_run_and_nothing_is_left_on_them() {
    let Some(machines) = Machines::new(3, &[]) else { return };
    fs::write(machines.dir.path().join("all.txt"), "n1\nroot@n2 # the second\nn3\n").unwrap();
    let (_, err) = ends(start(&mut machines.run("@all.txt", 5, "--html fleet.html")), 0);
    assert!(err.lines().any(|line| line.ends_with("(3 of 3 machines ended)")), "{err}");
    let run = machines.document();
    assert_eq!((names(&run), &run["status"]), (vec!["n1", "n2", "n3"], &"complete".into()));
    assert!(fs::read_to_string(machines.dir.path().join("fleet.html")).unwrap().ends_with("</html>"));
    // Requirements on all nodes are checked here; on one machine each rate is that of all.
    let mut required = machines.run("n1,n2", 5, "--quiet");
    let (_, err) = ends(start(required.args(["--require", "null latency <= 1e-30"])), 1);
    let unmet = err.lines().filter(|line| line.starts_with("plimsoll: not met: ")).count();
    assert!(unmet == err.lines().count() && unmet >= 2, "{err}");
    // A node's refusal is printed.
    let (_, err) = ends(start(&mut machines.run("n1", 5, "--dir /nowhere --only disk")), 5);
    let wanted = "plimsoll: n1: --dir /nowhere does not exist; create it, or name one other directory";
    assert_eq!(err.lines().next(), Some(wanted));
    machines.nothing_was_left();
}

const TOGETHER: &str = "name = 'together'\n[[group]]\nbenchmark = 'cpu.hpl'\nsamples = 1\nn = 500\nnb = 64\n\
    [[group]]\nbenchmark = 'mpi.latency'\nsamples = 2\nmessage = '8'\n[[group]]\nbenchmark = 'mpi.barrier'\n";

/// Runs, retests and pairs use nothing of a launcher but its streams, and the launcher of MPI
/// starts tools on several machines.
#[test]
fn every_launcher_reaches_machines_and_leaves_nothing_on_them() {
    let Some(machines) = Machines::new(2, &[]) else { return };
    let programs = machines.programs();
    let template = format!("{}/enter {{host}}", programs.path().display());
    let by = |launcher: &str, hosts: &str, only: &str, code| {
        let line = "run quick --sample-time 20ms --samples 3 --store none --json fleet.json --only";
        let mut command = machines.launching(hosts, &format!("{line} {only}"));
        mpi(&mut command, programs.path());
        ends(start(command.args(["--launcher", launcher])), code).1
    };
    let launchers = [template.as_str(), "mpirun"];
    for launcher in launchers.iter().filter(|launcher| **launcher != "mpirun" || exists("mpirun")) {
        by(launcher, "n1,n2", "null", 0);
        let run = machines.document();
        assert_eq!((names(&run), &run["status"]), (vec!["n1", "n2"], &"complete".into()));
        machines.nothing_is_left();
    }
    let err = by("kubectl", "n1,n2,n7", "network.tcp", 5);
    let wanted = "plimsoll: n7: kubectl ended with exit code 9 and no result: no machine n7";
    assert!(err.lines().any(|line| line == wanted), "{err}");
    let run = machines.document();
    assert!(pairs(&run).all(|pair| pair["status"] == "ok") && names(&run) == ["n1", "n2"], "{err}");
    machines.nothing_is_left();
    if !exists("mpirun") || !exists("hpcc") {
        return skip("needs mpirun and hpcc");
    }
    // HPL for real, and MPI by a stand-in with the output of `osu_latency`.
    let osu = "[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] || exit 0\n\
        printf '# OSU MPI Latency Test v5.8\\n# Size Latency (us)\\n8 1.25\\n'";
    script(programs.path(), "osu_latency", osu);
    fs::write(machines.dir.path().join("together.toml"), TOGETHER).unwrap();
    let line = "run together.toml --store none --json fleet.json --launcher mpirun";
    let mut command = machines.launching("n1,n2", line);
    mpi(&mut command, programs.path());
    let err = lossy(&command.output().unwrap().stderr);
    let begins = "plimsoll: cpu.hpl by hpcc: order 500 on 2 machines, 1 × 2 processes";
    assert!(err.lines().any(|line| line.starts_with(begins)), "{err}");
    let run = machines.document();
    let all = list(&run["measurements"]);
    let of = |benchmark: &str| {
        let mut found = all.iter().filter(|m| m["case"]["benchmark"] == benchmark);
        let one = found.next().unwrap_or_else(|| panic!("{benchmark}: {err}"));
        assert!(found.next().is_none(), "{benchmark} is measured once, on all machines");
        one
    };
    let solved = of("cpu.hpl");
    assert_eq!((&solved["status"], &solved["achieved"]["n"]), (&"ok".into(), &"500".into()), "{solved}");
    assert!(median(solved, "residual") < 16.0, "{solved}");
    let latency = of("mpi.latency");
    let values = &latency["metrics"][0]["matrix"]["values"];
    let each = |from: usize, to: usize| values[from][to].as_f64().unwrap_or_default();
    assert!((each(0, 1) - 1.25e-6).abs() < 1e-12 && (each(1, 0) - 1.25e-6).abs() < 1e-12, "{latency}");
    let barrier = of("mpi.barrier");
    assert_eq!((&barrier["status"], &barrier["cause"]), (&"skipped".into(), &"not-here".into()), "{barrier}");
    assert!(reason(barrier).starts_with("osu_barrier: not installed"), "{barrier}");
    machines.nothing_is_left();
}

#[test]
fn what_machines_say_of_themselves_is_printed_by_machine() {
    let Some(machines) = Machines::new(3, &[(3, "off")]) else { return };
    let (out, err) = ends(start(&mut machines.plimsoll("n2,n1,n3", "doctor --rounds 0")), 5);
    let parts: Vec<&str> = out.split("== ").skip(1).collect();
    assert_eq!(parts.len(), 2, "{out}");
    assert!(parts[0].starts_with("n2\n") && parts[1].starts_with("n1\n"), "{out}");
    let has_counter = |part: &&str| {
        part.lines().any(|line| line.trim_start_matches("ok").trim().starts_with("CPU counter"))
    };
    assert!(parts.iter().all(has_counter), "{out}");
    let lost = err.lines().find_map(|line| line.strip_prefix("plimsoll: n3: the ssh connection failed: "));
    let mut why = lost.into_iter().flat_map(|why| why.split(": "));
    assert!(why.any(|part| part.starts_with("Connection refused")), "{err}");
    let (out, _) = ends(start(&mut machines.plimsoll("n1", "references")), 0);
    let tools = out.strip_prefix("== n1\n").unwrap();
    assert!(tools.lines().any(|line| line.starts_with("  fio ")), "{out}");
    machines.nothing_was_left();
}

#[test]
fn a_killed_shell_a_killed_plimsoll_and_a_lost_link_leave_nothing_behind() {
    let Some(machines) = Machines::new(2, &[]) else { return };
    let child = start(&mut machines.run("n1,n2", 400, ""));
    signal(parent(machines.until_it_measures(2)).unwrap(), Signal::KILL);
    let (_, err) = ends(child, 5);
    assert_eq!(names(&machines.document()), ["n1"]);
    assert!(err.lines().any(|line| line.starts_with("plimsoll: n2: the ssh connection failed")), "{err}");
    machines.nothing_is_left();
    let mut child = start(&mut machines.run("n1,n2", 3000, "--repeat 9"));
    let _ = [1, 2].map(|number| machines.until_it_measures(number));
    // The child is `timeout`, whose child is plimsoll.
    signal(children(child.id())[0], Signal::KILL);
    assert!(!child.wait().unwrap().success());
    machines.nothing_is_left();
    let child = start(&mut machines.run("n1,n2", 100, ""));
    machines.until_it_measures(2);
    machines.hosts[1].must("ip link set eth0 down");
    let (_, err) = ends(child, 5);
    assert_eq!(names(&machines.document()), ["n1"]);
    let parts = ["n2: the ssh connection failed: ", "not responding"];
    assert!(parts.iter().all(|part| err.contains(part)), "{err}");
    assert!(machines.is_clean(1));
}

#[test]
fn machines_measure_to_each_other_in_both_directions() {
    let Some(machines) = Machines::new(4, &[(3, "off")]) else { return };
    machines.hosts[1].must("tc qdisc add dev eth0 root tbf rate 10mbit burst 10kb latency 50ms");
    let (out, err) = ends(start(&mut machines.run("n4,n3,n2,n1", 5, "--only network.tcp")), 5);
    let run = machines.document();
    assert!(pairs(&run).next().is_some(), "{out}{err}");
    assert_eq!(names(&run), ["n4", "n2", "n1"], "in the order in which they were named");
    let slow = text(&coded(&run["findings"], "slow-node").unwrap_or_else(|| panic!("{out}"))["text"]);
    assert!(slow.starts_with("n2 is slow sending") && slow.contains("limits its interface to 10"), "{slow}");
    for one in pairs(&run) {
        assert_eq!(one["status"], "ok", "{one}");
        let values: Vec<Vec<Option<f64>>> =
            serde_json::from_value(one["metrics"][0]["matrix"]["values"].clone()).unwrap();
        for (from, row) in values.iter().enumerate() {
            let there = |to: usize| row[to].is_some_and(|rate| rate > 0.0);
            assert!((0..3).all(|to| there(to) == (to != from)), "{values:?}");
        }
    }
    machines.nothing_was_left();
}

/// Ratio of the highest to the lowest round trip without the named node; infinite if fewer than two
/// remain.
fn factor_between_others(run: &Value, name: &str) -> f64 {
    let of_others = list(&run["measurements"]).iter().filter(|m| m["node"] != name);
    let medians = of_others.filter_map(|m| m["metrics"][0]["summary"]["median"].as_f64());
    let (low, high) = medians.fold((f64::INFINITY, 0.0_f64), |(low, high), m| (low.min(m), high.max(m)));
    if low < high { high / low } else { f64::INFINITY }
}

/// A persistent outlier is an outlier again.
#[test]
fn a_machine_that_stands_out_measures_that_again() {
    // Enough nodes that it is an outlier even though all differ, as the tests share two CPUs.
    let Some(machines) = Machines::new(8, &[]) else { return };
    machines.hosts[1].must("tc qdisc add dev lo root tbf rate 8kbit burst 3kb latency 6s");
    let words = "--only network.latency --parallel 1";
    let (_, err) = ends(start(&mut machines.run("n1,n2,n3,n4,n5,n6,n7,n8", 5, words)), 0);
    let run = machines.document();
    let outliers = ["outlier", "not-confirmed"].map(|code| coded(&run["findings"], code));
    let texts: Vec<&str> = outliers.into_iter().flatten().map(|finding| text(&finding["text"])).collect();
    let is_found = texts.iter().any(|text| text.split([' ', ',', ':']).any(|word| word == "n2"));
    if !is_found && (under_a_quota() || factor_between_others(&run, "n2") > 3.0) {
        return skip("what else runs here slows some of the machines: none differs beyond chance");
    }
    let is_again = err.lines().any(|line| line.starts_with("plimsoll: measuring again what differs: "));
    assert!(is_found && is_again, "{texts:?}{err}{}", run["measurements"]);
    machines.nothing_was_left();
}

#[test]
fn a_run_goes_on_with_the_machine_that_was_missing() {
    let Some(mut machines) = Machines::new(3, &[(3, "off")]) else { return };
    // A second name of n1: both go on at the same time.
    let config = machines.dir.path().join("config");
    let names_before = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("Host twin\nHostName 198.18.9.1\n{names_before}")).unwrap();
    ends(start(&mut machines.run("n1,twin,n2,n3", 7, "--store fleet")), 5);
    let before = machines.document();
    machines.hosts[2].go();
    let resumed = |hosts: &str, code| {
        let line = "run --resume last --store fleet --json fleet.json";
        ends(start(&mut machines.plimsoll(hosts, line)), code).1
    };
    let err = resumed("n1,twin,n3", 2);
    let id = text(&before["id"]);
    let why = "has results of n2, which --hosts does not name: name all its machines";
    assert_eq!(err, format!("plimsoll: --resume: run {id} {why}\n"));
    resumed("n1,twin,n2,n3", 0);
    let run = machines.document();
    assert_eq!(names(&run), ["n1", "twin", "n2", "n3"]);
    assert_eq!((&run["id"], &run["status"]), (&before["id"], &"complete".into()));
    assert_eq!(run["started"], before["started"]);
    for name in ["n1", "twin", "n2"] {
        assert!(!on(&run, name).is_empty() && on(&run, name) == on(&before, name), "{name}");
    }
    assert_eq!(on(&run, "n3").len(), on(&run, "n1").len());
    let why = format!("plimsoll: --resume: run {id} is complete; nothing is left to measure\n");
    assert_eq!(resumed("n1,twin,n2,n3", 2), why);
    machines.nothing_was_left();
}

#[test]
fn who_is_lost_is_named_with_the_reason_and_the_others_are_kept() {
    let hostile = "-o ForceCommand='yes plimsoll-here'";
    let special = [(3, "off"), (4, "full"), (6, hostile)];
    let Some(machines) = Machines::new(6, &special) else { return };
    let file = |name: &str| machines.dir.path().join(name);
    let known = fs::read_to_string(file("known")).unwrap();
    let other = fs::read_to_string(file("other.pub")).unwrap();
    let wrong = known.lines().map(|line| match line.starts_with("198.18.9.2 ") {
        true => format!("198.18.9.2 {other}"),
        false => format!("{line}\n"),
    });
    fs::write(file("known"), wrong.collect::<String>()).unwrap();
    let child = start(&mut machines.run("n1,n2,n3,n4,n5,n6", 200, ""));
    signal(machines.until_it_measures(5), Signal::KILL);
    let (_, err) = ends(child, 5);
    let run = machines.document();
    assert_eq!((names(&run), &run["status"]), (vec!["n1"], &"partial".into()));
    for (name, why) in [
        ("n2", "Host key verification failed"),
        ("n3", "Connection refused"),
        ("n4", "No space left on device"),
        ("n5", "exit code 137 and no result"),
        ("n6", "more than 256 MiB"),
    ] {
        let is_its = |f: &&Value| f["code"] == "machine-lost" && f["evidence"]["node"] == name;
        let lost = list(&run["findings"]).iter().find(is_its).unwrap_or_else(|| panic!("{name}: {err}"));
        let lost = text(&lost["text"]);
        assert!(lost.starts_with(&format!("{name} has no result: ")) && lost.contains(why), "{lost}");
    }
    machines.nothing_is_left();
}

/// Waits until a number of the machines has ended, such as `1 of 2`.
fn until_ended(child: &mut Child, ended: &str) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with(&format!("({ended} machines ended)"))));
}

/// Results are stored when a node ends, so that a killed controller loses none of them.
#[test]
fn an_interrupt_and_a_kill_keep_what_the_machines_that_have_ended_have() {
    let Some(machines) = Machines::new(3, &[]) else { return };
    let mut child = start(&mut machines.run("n1,n2", 100, "--parallel 1"));
    until_ended(&mut child, "1 of 2");
    machines.until_it_measures(2);
    // `timeout` passes it on.
    signal(child.id(), Signal::INT);
    let begun = Instant::now();
    let status = child.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(130));
    let run = machines.document();
    assert_eq!((names(&run)[0], &run["status"]), ("n1", &"partial".into()));
    assert_eq!(run["measurements"][0]["status"], "ok");
    machines.nothing_is_left();

    let mut child = start(&mut machines.run("n1,n2,n3", 100, "--store fleet --parallel 1"));
    until_ended(&mut child, "2 of 3");
    signal(children(child.id())[0], Signal::KILL);
    child.wait().unwrap();
    let before = document(machines.dir.path(), "export last --store fleet", 0);
    assert_eq!((names(&before), &before["status"]), (vec!["n1", "n2"], &"partial".into()));
    assert!(!on(&before, "n1").is_empty() && on(&before, "n1").len() == on(&before, "n2").len());
    let line = "run --resume last --store fleet --json fleet.json";
    ends(start(&mut machines.plimsoll("n1,n2,n3", line)), 0);
    let run = machines.document();
    assert_eq!((&run["id"], names(&run)), (&before["id"], vec!["n1", "n2", "n3"]));
    for name in ["n1", "n2"] {
        assert_eq!(on(&run, name), on(&before, name), "{name} measured nothing again");
    }
    assert_eq!(on(&run, "n3").len(), on(&run, "n1").len());
}

/// An ssh whose child holds the pipes open ends with the first signal.
#[test]
fn a_child_of_ssh_does_not_outlive_the_run() {
    let dir = place_for_programs();
    script(dir.path(), "ssh", "sleep 6177\nexit 1");
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let mut command = crate::support::command("run quick --only null --samples 1 --store none --hosts h1");
    let mut child = command.current_dir(dir.path()).env("PATH", path).stderr(Stdio::null()).spawn().unwrap();
    let sleeps = || processes().filter(|(_, words)| words == "sleep\x006177\0").count();
    until("ssh sleeps", || sleeps() == 1);
    signal(child.id(), Signal::TERM);
    let begun = Instant::now();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(sleeps(), 0);
}
