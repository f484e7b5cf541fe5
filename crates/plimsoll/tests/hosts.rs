//! `plimsoll run --hosts`: each node is a network namespace with a real `sshd` and keys of this
//! test; all end with the processes that hold them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{PATIENCE, ended, place_for_programs, plimsoll, scratch, skipped, under_a_quota, until};

const SSHD: &str = "/usr/sbin/sshd";

/// A namespace that lives as long as this; its input is kept open for that.
struct Holder(Child);

impl Holder {
    fn new(name: &str, script: &str) -> Option<Self> {
        let script = format!("hostname {name}; ip link set lo up; echo here; read -r go; {script}");
        let child = Command::new("unshare")
            .args(["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-euc", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut holder = Self(child);
        let mut line = String::new();
        BufReader::new(holder.0.stdout.as_mut()?).read_line(&mut line).ok()?;
        (line == "here\n").then_some(holder)
    }

    fn go(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn run(&self, script: &str) {
        let words = ["--net", "-t", &self.0.id().to_string(), "timeout", "120", "sh", "-euc", script];
        let done = Command::new("nsenter").args(words).output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Machines n1, n2 … on one bridge, which is where plimsoll runs.
struct Machines {
    dir: tempfile::TempDir,
    bridge: Holder,
    hosts: Vec<Holder>,
}

impl Machines {
    /// `special` are further options for the sshd of a node.
    fn new(test: &str, count: usize, special: &[(usize, &str)]) -> Option<Self> {
        let tools = [("unshare", "-V"), ("nsenter", "-V"), ("ip", "-V"), ("ssh", "-V"), ("ssh-keygen", "-?")];
        for (tool, flag) in tools {
            if Command::new(tool).arg(flag).stdin(Stdio::null()).output().is_err() {
                skipped(test, &format!("needs {tool}"));
                return None;
            }
        }
        if !Path::new(SSHD).exists() || !rustix::process::geteuid().is_root() {
            skipped(test, "needs sshd and root");
            return None;
        }
        // The directory that sshd keeps empty for itself.
        fs::create_dir_all("/run/sshd").unwrap();
        let dir = scratch();
        let path = |name: &str| dir.path().join(name).display().to_string();
        for key in ["host", "user", "other"] {
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]).status();
            assert!(made.unwrap().success());
        }
        let known = fs::read_to_string(path("host.pub")).unwrap();
        let known: Vec<String> = (1..=count).map(|n| format!("198.18.9.{n} {known}")).collect();
        fs::write(path("known"), known.concat()).unwrap();
        fs::write(path("sshd"), format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPidFile none\nPermitRootLogin yes\nMaxStartups 99\n",
            path("host"), path("user.pub"),
        )).unwrap();
        let names: String = (1..=count).map(|n| format!("Host n{n}\nHostName 198.18.9.{n}\n")).collect();
        fs::write(
            path("config"),
            format!(
                "{names}Host *\nUser root\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n\
             GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n",
                path("user"),
                path("known"),
            ),
        )
        .unwrap();
        let Some(bridge) = Holder::new("bridge", "read -r end") else {
            skipped(test, "needs the right to make network namespaces");
            return None;
        };
        bridge.run("ip link add br0 type bridge; ip link set br0 up; ip address add 198.18.9.100/24 dev br0");
        let mut made = Self { dir, bridge, hosts: Vec::new() };
        for number in 1..=count {
            let more = special.iter().find(|(of, _)| *of == number).map_or("", |(_, words)| words);
            made.add(number, more);
        }
        Some(made)
    }

    fn add(&mut self, number: usize, more: &str) {
        let files = self.files(number);
        fs::create_dir(&files).unwrap();
        let (files, config) = (files.display(), self.dir.path().join("sshd").display().to_string());
        let space = if more == "full" {
            format!("mount -t tmpfs -o size=64k tmpfs {files}; ")
        } else {
            String::new()
        };
        let words = if ["full", "off"].contains(&more) { "" } else { more };
        let script = format!("{space}exec {SSHD} -D -e -f {config} -o SetEnv=TMPDIR={files} {words}");
        let mut host = Holder::new(&format!("n{number}"), &script).unwrap();
        self.bridge.run(&format!(
            "ip link add port{number} type veth peer name eth0 netns {}; ip link set port{number} master br0 up",
            host.0.id()
        ));
        host.run(&format!("ip address add 198.18.9.{number}/24 dev eth0; ip link set eth0 up"));
        if more != "off" {
            host.go();
        }
        self.hosts.push(host);
    }

    fn files(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("n{number}"))
    }

    /// A null run of `samples` samples on nodes.
    fn run(&self, hosts: &str, samples: u32, more: &[&str]) -> Command {
        let mut command = self.plimsoll(hosts, &["run", "quick", "--only", "null", "--sample-time", "20ms"]);
        command
            .args(["--samples", &samples.to_string(), "--store", "none", "--json", "fleet.json"])
            .args(more);
        command
    }

    fn plimsoll(&self, hosts: &str, words: &[&str]) -> Command {
        let mut command = self.launching(hosts, words);
        command.args(["--ssh-config", "config"]);
        command
    }

    fn launching(&self, hosts: &str, words: &[&str]) -> Command {
        let (mut command, most) = (Command::new("nsenter"), PATIENCE.as_secs().to_string());
        command
            .args(["--net", "-t", &self.bridge.0.id().to_string(), "timeout", "-k", "5", &most])
            .arg(env!("CARGO_BIN_EXE_plimsoll"))
            .args(words)
            .args(["--hosts", hosts])
            .current_dir(self.dir.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Programs in a directory: `enter HOST COMMAND…` executes a command on a node, `kubectl` and
    /// `agent` do so with the words of kubectl and, for mpirun, of ssh.
    fn programs(&self) -> tempfile::TempDir {
        let programs = place_for_programs();
        let here = programs.path().display();
        let machine = |(index, host): (usize, &Holder)| {
            format!("n{0}) pid={1} TMPDIR={2};;\n", index + 1, host.0.id(), self.files(index + 1).display())
        };
        let machines: String = self.hosts.iter().enumerate().map(machine).collect();
        let enter = format!(
            "case $1 in\n{machines}*) echo \"no machine $1\" >&2; exit 9;;\nesac\nshift\nexport TMPDIR\n\
             exec nsenter --net --uts -t $pid \"$@\"\n"
        );
        let kubectl = format!(
            "[ \"$1 $2 $3 $5\" = \"exec --stdin --quiet --\" ] || {{ echo \"error: $*\" >&2; exit 1; }}\n\
             pod=$4\nshift 5\nexec {here}/enter $pod \"$@\"\n"
        );
        let agent = format!(
            "while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\nexec {here}/enter $host sh -c \"$*\"\n"
        );
        for (name, text) in [("enter", enter), ("kubectl", kubectl), ("agent", agent)] {
            let file = programs.path().join(name);
            fs::write(&file, format!("#!/bin/sh\n{text}")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        programs
    }

    fn document(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.dir.path().join("fleet.json")).unwrap()).unwrap()
    }

    fn measuring(&self, number: usize) -> Option<Pid> {
        let files = self.files(number).display().to_string();
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pid = |entry: fs::DirEntry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let words = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let own = words.starts_with(&files) && words.split('\0').any(|word| word == "hosted");
            Pid::from_raw(pid).filter(|_| own)
        };
        processes.filter_map(pid).next()
    }

    fn shell_of(&self, measuring: Pid) -> Pid {
        let status = fs::read_to_string(format!("/proc/{}/status", measuring.as_raw_nonzero())).unwrap();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
        Pid::from_raw(parent.trim().parse().unwrap()).unwrap()
    }

    /// Waits until nothing of a run is left on any node.
    fn nothing_is_left(&self) {
        (1..=self.hosts.len())
            .for_each(|number| until(&format!("n{number} is as it was"), || self.is_clean(number)));
    }

    fn nothing_was_left(&self) {
        (1..=self.hosts.len()).for_each(|number| assert!(self.is_clean(number), "n{number}"));
    }

    fn is_clean(&self, number: usize) -> bool {
        fs::read_dir(self.files(number)).unwrap().count() == 0 && self.measuring(number).is_none()
    }
}

fn child_of(parent: Pid) -> Pid {
    let line = format!("PPid:\t{}\n", parent.as_raw_nonzero());
    let is_child = |process: &fs::DirEntry| {
        fs::read_to_string(process.path().join("status")).is_ok_and(|status| status.contains(&line))
    };
    let mut processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let name = processes.find(is_child).unwrap().file_name();
    Pid::from_raw(name.to_str().unwrap().parse().unwrap()).unwrap()
}

fn stated(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn names(run: &Value) -> Vec<&str> {
    run["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect()
}

#[test]
fn machines_that_ssh_reaches_become_one_run_and_nothing_is_left_on_them() {
    let Some(machines) = Machines::new("hosts", 3, &[]) else { return };
    fs::write(machines.dir.path().join("all.txt"), "n1\nroot@n2 # the second\nn3\n").unwrap();
    let output = machines.run("@all.txt", 5, &["--html", "fleet.html"]).output().unwrap();
    let (out, err) = stated(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(err.lines().any(|line| line.ends_with("(3 of 3 machines ended)")), "{err}");
    let run = machines.document();
    let mut all = names(&run);
    all.sort_unstable();
    assert_eq!((all, &run["status"]), (vec!["n1", "n2", "n3"], &"complete".into()));
    assert!(fs::read_to_string(machines.dir.path().join("fleet.html")).unwrap().ends_with("</html>"));
    // Requirements on all nodes are checked here; on one machine each rate is that of all.
    let words = ["--require", "null latency <= 1e-30", "--quiet"];
    let output = machines.run("n1,n2", 5, &words).output().unwrap();
    let err = stated(&output).1;
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.lines().all(|line| line.starts_with("plimsoll: not met: ")) && err.lines().count() >= 2,
        "{err}"
    );
    // A node's refusal is printed.
    let refused = machines.run("n1", 5, &["--dir", "/nowhere", "--only", "disk"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(5));
    let reasons = stated(&refused).1;
    let wanted = "plimsoll: n1: --dir /nowhere does not exist; create it or use another directory";
    assert_eq!(reasons.lines().next(), Some(wanted));
    machines.nothing_was_left();
}

/// Runs, retests and pairs use nothing of a launcher but its streams.
#[test]
fn every_launcher_reaches_machines_and_leaves_nothing_on_them() {
    let Some(machines) = Machines::new("hosts-launchers", 3, &[]) else { return };
    let programs = machines.programs();
    let template = format!("{}/enter {{host}}", programs.path().display());
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let words = ["run", "quick", "--sample-time", "20ms", "--samples", "3", "--store", "none"];
    let by = |launcher: &str, hosts: &str, only: &str| {
        let mut command = machines.launching(hosts, &words);
        command.args(["--only", only, "--json", "fleet.json", "--launcher", launcher]).env("PATH", &path);
        command
            .envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")))
            .env("OMPI_MCA_plm_rsh_agent", programs.path().join("agent"))
            .env("OMPI_MCA_oob_tcp_if_include", "198.18.9.0/24");
        command.output().unwrap()
    };
    let has_mpirun = Command::new("mpirun").arg("-V").output().is_ok();
    let launchers = ["kubectl", &template, "mpirun"];
    for launcher in &launchers[..2 + usize::from(has_mpirun)] {
        let output = by(launcher, "n1,n2,n3", "null");
        let err = stated(&output).1;
        assert_eq!(output.status.code(), Some(0), "{launcher}: {err}");
        let run = machines.document();
        assert_eq!((names(&run), &run["status"]), (vec!["n1", "n2", "n3"], &"complete".into()));
        machines.nothing_was_left();
    }
    let output = by("kubectl", "n1,n2,n7", "network.tcp");
    let err = stated(&output).1;
    assert_eq!(output.status.code(), Some(5), "{err}");
    let wanted = "plimsoll: n7: kubectl ended with exit code 9 and no result: no machine n7";
    assert!(err.lines().any(|line| line == wanted), "{err}");
    let run = machines.document();
    let mut pairs =
        run["measurements"].as_array().unwrap().iter().filter(|m| m["metrics"][0]["matrix"].is_object());
    assert!(pairs.all(|pair| pair["status"] == "ok") && names(&run) == ["n1", "n2"], "{err}");
    machines.nothing_was_left();
}

/// HPL for real, and MPI by a stand-in with the output of `osu_latency`.
#[test]
fn tools_on_several_machines_are_started_by_the_launcher_of_mpi() {
    const PLAN: &str = "name = 'together'\n[[group]]\nbenchmark = 'cpu.hpl'\nsamples = 1\nn = 500\nnb = 64\n\
        [[group]]\nbenchmark = 'mpi.latency'\nsamples = 2\nmessage = '8'\n[[group]]\nbenchmark = 'mpi.barrier'\n";
    let name = "hosts-tools";
    let is_installed = |tool: &str| Path::new("/usr/bin").join(tool).exists();
    if !is_installed("mpirun") || !is_installed("hpcc") {
        return skipped(name, "needs mpirun and hpcc");
    }
    let Some(machines) = Machines::new(name, 2, &[]) else { return };
    let programs = machines.programs();
    let osu = "#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] || exit 0\n\
        printf '# OSU MPI Latency Test v5.8\\n# Size Latency (us)\\n8 1.25\\n'\n";
    fs::write(programs.path().join("osu_latency"), osu).unwrap();
    fs::set_permissions(programs.path().join("osu_latency"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(machines.dir.path().join("together.toml"), PLAN).unwrap();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let words = ["run", "together.toml", "--store", "none", "--json", "fleet.json", "--launcher", "mpirun"];
    let mut command = machines.launching("n1,n2", &words);
    command
        .env("PATH", path)
        .envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")))
        .env("OMPI_MCA_plm_rsh_agent", programs.path().join("agent"))
        .env("OMPI_MCA_oob_tcp_if_include", "198.18.9.0/24")
        .env("OMPI_MCA_btl", "self,tcp")
        .env("OMPI_MCA_btl_tcp_if_include", "198.18.9.0/24");
    let output = command.output().unwrap();
    let err = stated(&output).1;
    let begins = "plimsoll: cpu.hpl by hpcc: order 500 on 2 machines, 1 × 2 processes";
    assert!(err.lines().any(|line| line.starts_with(begins)), "{err}");
    let run = machines.document();
    let all = run["measurements"].as_array().unwrap();
    let of = |benchmark: &str| {
        let mut found = all.iter().filter(|m| m["case"]["benchmark"] == benchmark);
        let one = found.next().unwrap_or_else(|| panic!("{benchmark}: {err}"));
        assert!(found.next().is_none(), "{benchmark} is measured once, on all machines");
        one
    };
    let solved = of("cpu.hpl");
    assert_eq!((&solved["status"], &solved["achieved"]["n"]), (&"ok".into(), &"500".into()), "{solved}");
    let residual = solved["metrics"].as_array().unwrap().iter().find(|m| m["name"] == "residual").unwrap();
    assert!(residual["summary"]["median"].as_f64().is_some_and(|residual| residual < 16.0), "{solved}");
    let latency = of("mpi.latency");
    let values = &latency["metrics"][0]["matrix"]["values"];
    let each = |from: usize, to: usize| values[from][to].as_f64().unwrap_or_default();
    assert!((each(0, 1) - 1.25e-6).abs() < 1e-12 && (each(1, 0) - 1.25e-6).abs() < 1e-12, "{latency}");
    let barrier = of("mpi.barrier");
    assert_eq!((&barrier["status"], &barrier["cause"]), (&"skipped".into(), &"not-here".into()), "{barrier}");
    assert!(barrier["reason"].as_str().unwrap().starts_with("osu_barrier: not installed"), "{barrier}");
    machines.nothing_was_left();
}

#[test]
fn what_machines_say_of_themselves_is_printed_by_machine() {
    let Some(machines) = Machines::new("hosts-said", 3, &[(3, "off")]) else { return };
    let output = machines.plimsoll("n2,n1,n3", &["doctor", "--rounds", "0"]).output().unwrap();
    let (out, err) = stated(&output);
    assert_eq!(output.status.code(), Some(5), "{out}{err}");
    let parts: Vec<&str> = out.split("== ").skip(1).collect();
    assert_eq!(parts.len(), 2, "{out}");
    assert!(parts[0].starts_with("n2\n") && parts[1].starts_with("n1\n"), "{out}");
    let has_counter = |part: &&str| {
        part.lines().any(|line| line.trim_start_matches("ok").trim().starts_with("CPU counter"))
    };
    assert!(parts.iter().all(has_counter), "{out}");
    let lost = err.lines().find_map(|line| line.strip_prefix("plimsoll: n3: the ssh connection failed: "));
    assert!(
        lost.is_some_and(|why| why.split(": ").any(|part| part.starts_with("Connection refused"))),
        "{err}"
    );
    let output = machines.plimsoll("n1", &["references"]).output().unwrap();
    let out = stated(&output).0;
    let tools = out.strip_prefix("== n1\n").unwrap();
    assert!(output.status.success() && tools.lines().any(|line| line.starts_with("  fio ")), "{out}");
    machines.nothing_was_left();
}

/// Whichever process is killed, the rest ends and nothing is left.
#[test]
fn a_killed_shell_and_a_killed_plimsoll_leave_nothing_behind() {
    let Some(machines) = Machines::new("hosts-killed", 2, &[]) else { return };
    let child = machines.run("n1,n2", 200, &[]).spawn().unwrap();
    until("n2 measures", || machines.measuring(2).is_some());
    kill_process(machines.shell_of(machines.measuring(2).unwrap()), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = stated(&output).1;
    assert_eq!((output.status.code(), names(&machines.document())), (Some(5), vec!["n1"]), "{err}");
    assert!(err.lines().any(|line| line.starts_with("plimsoll: n2: the ssh connection failed")), "{err}");
    machines.nothing_is_left();
    let mut child = machines.run("n1,n2", 3000, &["--repeat", "9"]).spawn().unwrap();
    until("both measure", || machines.measuring(1).is_some() && machines.measuring(2).is_some());
    let own = format!("/proc/{0}/task/{0}/children", child.id());
    let own: i32 = fs::read_to_string(own).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(own).unwrap(), Signal::KILL).unwrap();
    assert!(!child.wait().unwrap().success());
    machines.nothing_is_left();
}

#[test]
fn machines_measure_to_each_other_in_both_directions() {
    let Some(machines) = Machines::new("hosts-between", 4, &[(3, "off")]) else { return };
    let slow = "tc qdisc add dev eth0 root tbf rate 10mbit burst 10kb latency 50ms";
    machines.hosts[1].run(slow);
    let words = ["--only", "network.tcp"];
    let output = machines.run("n4,n3,n2,n1", 5, &words).output().unwrap();
    let (out, err) = stated(&output);
    assert_eq!(output.status.code(), Some(5), "{out}{err}");
    let run = machines.document();
    let all = run["measurements"].as_array().unwrap();
    let each: Vec<&Value> = all.iter().filter(|m| m["metrics"][0]["matrix"].is_object()).collect();
    assert!(!each.is_empty(), "{out}{err}");
    assert_eq!(names(&run), ["n4", "n2", "n1"], "in the order in which they were named");
    let slow = run["findings"].as_array().unwrap().iter().find(|f| f["code"] == "slow-node");
    let slow = slow.unwrap_or_else(|| panic!("{out}"))["text"].as_str().unwrap();
    assert!(slow.starts_with("n2 is slow sending") && slow.contains("limits its interface to 10"), "{slow}");
    for one in each {
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
    let of_others = run["measurements"].as_array().unwrap().iter().filter(|m| m["node"] != name);
    let medians = of_others.filter_map(|m| m["metrics"][0]["summary"]["median"].as_f64());
    let (low, high) =
        medians.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low < high { high / low } else { f64::INFINITY }
}

/// A persistent outlier is an outlier again.
#[test]
fn a_machine_that_stands_out_measures_that_again() {
    // Enough nodes that it is an outlier even though all differ, as the tests share two CPUs.
    let name = "hosts-again";
    let Some(machines) = Machines::new(name, 8, &[]) else { return };
    machines.hosts[1].run("tc qdisc add dev lo root tbf rate 8kbit burst 3kb latency 6s");
    let words = ["--only", "network.latency", "--parallel", "1"];
    let output = machines.run("n1,n2,n3,n4,n5,n6,n7,n8", 5, &words).output().unwrap();
    let (out, err) = stated(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let run = machines.document();
    let codes = ["outlier", "not-confirmed"];
    let outliers =
        run["findings"].as_array().unwrap().iter().filter(|f| codes.contains(&f["code"].as_str().unwrap()));
    let texts: Vec<&str> = outliers.map(|finding| finding["text"].as_str().unwrap()).collect();
    let is_found = texts.iter().any(|text| text.split([' ', ',', ':']).any(|word| word == "n2"));
    if !is_found && (under_a_quota() || factor_between_others(&run, "n2") > 3.0) {
        let reason = "what else runs here slows some of the machines: none differs beyond chance";
        return skipped(name, reason);
    }
    assert!(
        is_found && err.lines().any(|line| line.starts_with("plimsoll: measuring again what differs: ")),
        "{texts:?}{err}{}",
        run["measurements"]
    );
    machines.nothing_was_left();
}

#[test]
fn a_run_goes_on_with_the_machine_that_was_missing() {
    let Some(mut machines) = Machines::new("hosts-resume", 3, &[(3, "off")]) else { return };
    // A second name of n1: both go on at the same time.
    let config = machines.dir.path().join("config");
    let names_before = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("Host twin\nHostName 198.18.9.1\n{names_before}")).unwrap();
    let kept = ["--store", "fleet", "--json", "fleet.json"];
    let words = ["run", "quick", "--only", "null", "--sample-time", "20ms", "--samples", "7"];
    let output = machines.plimsoll("n1,twin,n2,n3", &words).args(kept).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stated(&output).1);
    let before = machines.document();
    let on = |run: &Value, name: &str| -> Vec<Value> {
        run["measurements"].as_array().unwrap().iter().filter(|m| m["node"] == name).cloned().collect()
    };
    machines.hosts[2].go();
    let resumed = |machines: &Machines, hosts: &str| {
        machines.plimsoll(hosts, &["run", "--resume", "last"]).args(kept).output().unwrap()
    };
    let output = resumed(&machines, "n1,twin,n3");
    let err = stated(&output).1;
    let id = before["id"].as_str().unwrap();
    let why = "has results of n2, which --hosts does not name: name all its machines";
    assert_eq!((output.status.code(), err), (Some(2), format!("plimsoll: --resume: run {id} {why}\n")));
    let output = resumed(&machines, "n1,twin,n2,n3");
    assert_eq!(output.status.code(), Some(0), "{}", stated(&output).1);
    let run = machines.document();
    assert_eq!(
        (names(&run), &run["id"], &run["status"]),
        (vec!["n1", "twin", "n2", "n3"], &before["id"], &"complete".into())
    );
    assert_eq!(run["started"], before["started"]);
    for name in ["n1", "twin", "n2"] {
        assert!(!on(&run, name).is_empty() && on(&run, name) == on(&before, name), "{name}");
    }
    assert_eq!(on(&run, "n3").len(), on(&run, "n1").len());
    let output = resumed(&machines, "n1,twin,n2,n3");
    let why = format!("plimsoll: --resume: run {id} is complete; nothing is left to measure\n");
    assert_eq!((output.status.code(), stated(&output).1), (Some(2), why));
    machines.nothing_was_left();
}

/// A node that becomes unreachable is named, and the rest ends.
#[test]
fn a_link_that_goes_down_is_a_machine_that_is_lost() {
    let Some(machines) = Machines::new("hosts-link", 2, &[]) else { return };
    let child = machines.run("n1,n2", 100, &[]).spawn().unwrap();
    until("n2 measures", || machines.measuring(2).is_some());
    machines.hosts[1].run("ip link set eth0 down");
    let output = child.wait_with_output().unwrap();
    let err = stated(&output).1;
    assert_eq!((output.status.code(), names(&machines.document())), (Some(5), vec!["n1"]), "{err}");
    assert!(err.contains("n2: the ssh connection failed: ") && err.contains("not responding"), "{err}");
    assert!(machines.is_clean(1));
}

#[test]
fn who_is_lost_is_named_with_the_reason_and_the_others_are_kept() {
    let hostile = "-o ForceCommand='yes plimsoll-here'";
    let special = [(3, "off"), (4, "full"), (6, hostile)];
    let Some(machines) = Machines::new("hosts-lost", 6, &special) else { return };
    let file = |name: &str| machines.dir.path().join(name);
    let known = fs::read_to_string(file("known")).unwrap();
    let other = fs::read_to_string(file("other.pub")).unwrap();
    let wrong = known.lines().map(|line| match line.starts_with("198.18.9.2 ") {
        true => format!("198.18.9.2 {other}"),
        false => format!("{line}\n"),
    });
    fs::write(file("known"), wrong.collect::<String>()).unwrap();
    let child = machines.run("n1,n2,n3,n4,n5,n6", 200, &[]).spawn().unwrap();
    until("n5 measures", || machines.measuring(5).is_some());
    kill_process(machines.measuring(5).unwrap(), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = stated(&output);
    assert_eq!(output.status.code(), Some(5), "{out}{err}");
    let run = machines.document();
    assert_eq!((names(&run), &run["status"]), (vec!["n1"], &"partial".into()));
    let findings = run["findings"].as_array().unwrap();
    let of = |name: &str| -> String {
        let lost = findings.iter().find(|f| f["code"] == "machine-lost" && f["evidence"]["node"] == name);
        lost.unwrap_or_else(|| panic!("{name}: {err}"))["text"].as_str().unwrap().to_owned()
    };
    for (name, why) in [
        ("n2", "Host key verification failed"),
        ("n3", "Connection refused"),
        ("n4", "No space left on device"),
        ("n5", "exit code 137 and no result"),
        ("n6", "more than 256 MiB"),
    ] {
        assert!(
            of(name).starts_with(&format!("{name} has no result: ")) && of(name).contains(why),
            "{}",
            of(name)
        );
    }
    machines.nothing_is_left();
}

#[test]
fn an_interrupt_ends_all_machines_and_keeps_what_they_have() {
    let Some(machines) = Machines::new("hosts-interrupt", 2, &[]) else { return };
    let mut child = machines.run("n1,n2", 100, &["--parallel", "1"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("(1 of 2 machines ended)")));
    until("n2 measures", || machines.measuring(2).is_some());
    // `timeout` passes it on.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let begun = Instant::now();
    let status = child.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(130));
    let run = machines.document();
    assert_eq!((names(&run)[0], &run["status"]), ("n1", &"partial".into()));
    assert_eq!(run["measurements"][0]["status"], "ok");
    machines.nothing_is_left();
}

/// Results are stored when a node ends, so that a killed launcher loses none of them.
#[test]
fn a_killed_controller_keeps_the_machines_that_have_ended_and_goes_on() {
    let Some(machines) = Machines::new("hosts-killed", 3, &[]) else { return };
    let kept = ["--store", "fleet", "--json", "fleet.json"];
    let words = ["run", "quick", "--only", "null", "--sample-time", "20ms", "--samples", "100"];
    let mut child = machines
        .plimsoll("n1,n2,n3", &words)
        .args(kept)
        .args(["--parallel", "1"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("(2 of 3 machines ended)")));
    // The child is `timeout`, whose child is the controller.
    kill_process(child_of(Pid::from_child(&child)), Signal::KILL).unwrap();
    child.wait().unwrap();
    let (text, _) = ended(plimsoll(machines.dir.path()).args(["export", "last", "--store", "fleet"]), 0);
    let before: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((names(&before), &before["status"]), (vec!["n1", "n2"], &"partial".into()));
    let on = |run: &Value, name: &str| -> Vec<Value> {
        run["measurements"].as_array().unwrap().iter().filter(|m| m["node"] == name).cloned().collect()
    };
    assert!(!on(&before, "n1").is_empty() && on(&before, "n1").len() == on(&before, "n2").len());
    let words = ["run", "--resume", "last"];
    let output = machines.plimsoll("n1,n2,n3", &words).args(kept).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stated(&output).1);
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
    fs::write(dir.path().join("ssh"), "#!/bin/sh\nsleep 6177\nexit 1\n").unwrap();
    fs::set_permissions(dir.path().join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let words = ["run", "quick", "--only", "null", "--samples", "1", "--store", "none", "--hosts", "h1"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    let mut child =
        command.args(words).current_dir(dir.path()).env("PATH", path).stderr(Stdio::null()).spawn().unwrap();
    let sleeps = || {
        let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines = all.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines.filter(|line| line == b"sleep\x006177\0").count()
    };
    until("ssh sleeps", || sleeps() == 1);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let begun = Instant::now();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(sleeps(), 0);
}
