//! Slurm for real: its controller and three of its node daemons on this machine run the example's job script and an
//! `srun`. All of it lives in one directory and ends with the test.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{skipped, until};
use crate::hosts::signal;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// A cluster of three nodes; dropping ends it.
struct Slurm {
    dir: tempfile::TempDir,
}

/// Ports that nobody listens on now.
fn free_ports<const N: usize>() -> [u16; N] {
    // All are held until all are known, so that they differ.
    let held: [std::net::TcpListener; N] =
        std::array::from_fn(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

impl Slurm {
    /// `None`, told as a skip, where it cannot start.
    fn start(test: &str) -> Option<Self> {
        for tool in ["munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol"] {
            if tool_on_path(tool).is_none() {
                skipped(test, &format!("needs {tool} (Debian: slurm-wlm)"));
                return None;
            }
        }
        if !rustix::process::geteuid().is_root() {
            skipped(test, "Slurm's daemons start only as root");
            return None;
        }
        let slurm = Self { dir: tempfile::Builder::new().prefix("pl").tempdir().unwrap() };
        match slurm.try_start() {
            Ok(()) => Some(slurm),
            Err(why) => {
                skipped(test, &format!("Slurm does not start here: {why}"));
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn try_start(&self) -> Result<(), String> {
        // Whoever knows the key may run anything as root here.
        let mut key = [0; 1024];
        let random = fs::File::open("/dev/urandom");
        random.and_then(|mut file| file.read_exact(&mut key)).map_err(|e| e.to_string())?;
        fs::write(self.path("munge.key"), key).map_err(|e| e.to_string())?;
        use std::os::unix::fs::PermissionsExt;
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(self.path("munge.key"), private).map_err(|e| e.to_string())?;
        let flag = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        let files = [
            flag("key-file", "munge.key"),
            flag("socket", "munge.sock"),
            flag("pid-file", "munge.pid"),
            flag("log-file", "munge.log"),
            flag("seed-file", "munge.seed"),
        ];
        self.done(Command::new("munged").args(["--force", "--num-threads=1"]).args(files))?;
        for name in NODES {
            fs::create_dir(self.path(&format!("tmp.{name}"))).map_err(|e| e.to_string())?;
        }
        fs::create_dir(self.path("state")).map_err(|e| e.to_string())?;
        fs::write(self.path("slurm.conf"), self.configuration()).map_err(|e| e.to_string())?;
        self.done(&mut self.command("slurmctld"))?;
        for name in NODES {
            self.done(self.command("slurmd").args(["-N", name]))?;
        }
        // What is there answers within moments, or has written why it does not.
        for _ in 0..600 {
            let told = self.command("sinfo").args(["--noheader", "-o", "%D %t"]).output();
            if told.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).trim() == "3 idle") {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        Err("its nodes do not become idle".to_owned())
    }

    fn configuration(&self) -> String {
        let dir = self.dir.path().display();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (host, [controller, ports @ ..]) = (host.trim(), free_ports::<4>());
        let nodes = NODES.iter().zip(ports).map(|(name, port)| {
            format!(
                "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN\n"
            )
        });
        format!(
            "ClusterName=plimsoll\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nAuthType=auth/munge\n\
            AuthInfo=socket={dir}/munge.sock\nSlurmctldPort={controller}\nSlurmctldPidFile={dir}/slurmctld.pid\n\
            SlurmdPidFile={dir}/slurmd.%n.pid\nSlurmdSpoolDir={dir}/spool.%n\nStateSaveLocation={dir}/state\n\
            SlurmctldLogFile={dir}/slurmctld.log\nSlurmdLogFile={dir}/slurmd.%n.log\nTmpFS={dir}/tmp.%n\n\
            ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSchedulerType=sched/backfill\n\
            SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\nMpiDefault=none\n\
            SlurmdParameters=config_overrides\n{}\
            PartitionName=all Nodes=ALL Default=YES MaxTime=10 OverSubscribe=YES State=UP\n",
            nodes.collect::<String>()
        )
    }

    /// A program that finds this cluster.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", "400"])
            .arg(tool_on_path(program).unwrap_or_else(|| PathBuf::from(program)))
            .env("SLURM_CONF", self.path("slurm.conf"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("NO_COLOR", "1")
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    fn done(&self, command: &mut Command) -> Result<(), String> {
        // A daemon keeps what it was given: a file, for a pipe would never close.
        let log = fs::File::create(self.path("start.log")).map_err(|e| e.to_string())?;
        let also = log.try_clone().map_err(|e| e.to_string())?;
        let status = command.stdout(log).stderr(also).status().map_err(|e| e.to_string())?;
        let said = fs::read_to_string(self.path("start.log")).unwrap_or_default();
        if status.success() {
            Ok(())
        } else {
            Err(said.lines().next().unwrap_or("it ends at once").to_owned())
        }
    }

    /// The last run in the history.
    fn stored(&self) -> Value {
        let output = self
            .command(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["export", "last", "--format", "json"])
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let pids = ["slurmctld.pid", "slurmd.n1.pid", "slurmd.n2.pid", "slurmd.n3.pid", "munge.pid"];
        let pids: Vec<u32> = pids
            .iter()
            .filter_map(|name| fs::read_to_string(self.path(name)).ok()?.trim().parse().ok())
            .collect();
        for pid in &pids {
            signal(*pid, rustix::process::Signal::TERM);
        }
        let there = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        for _ in 0..100 {
            if !pids.iter().any(there) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        pids.iter().for_each(|pid| signal(*pid, rustix::process::Signal::KILL));
    }
}

fn tool_on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
    places.map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn nodes(run: &Value) -> Vec<String> {
    run["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
}

/// Runs it until it ends well: on a machine that is busy with other tests, Slurm now and then gives a step up.
#[track_caller]
fn well(command: &mut Command) -> Output {
    const ATTEMPTS: usize = 3;
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let output = command.output().unwrap();
        if output.status.success() {
            return output;
        }
        said += &format!("{:?}\n", output);
    }
    panic!("{said}");
}

#[test]
fn slurm_runs_the_job_script_and_an_srun_over_three_nodes() {
    let Some(slurm) = Slurm::start("slurm_runs_the_job_script_and_an_srun_over_three_nodes") else { return };
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let plan = "name = 'three'\nsamples = 3\nsample-time = '10ms'\n[[group]]\nbenchmark = 'cpu.peak'\nop = 'fma'\ntype = 'f64'\nthreads = 1\n";
    fs::write(slurm.path("three.toml"), plan).unwrap();

    well(slurm.command("srun").args(["-N3", "--mpi=pmix", program, "run"]).arg(slurm.path("three.toml")));
    assert_eq!(nodes(&slurm.stored()), NODES);

    // Without a way to join, each task measures alone, and it is said.
    let mut alone = slurm.command("srun");
    alone.args(["-N2", "--mpi=none", program, "run", "--store", "none"]).arg(slurm.path("three.toml"));
    let output = well(&mut alone);
    let told = String::from_utf8_lossy(&output.stderr).matches("each of the 2 tasks measures alone").count();
    assert_eq!(told, 1, "{}", String::from_utf8_lossy(&output.stderr));

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slurm/plimsoll.sbatch");
    let mut job = slurm.command("sbatch");
    job.args(["--wait", "--output", "job.txt", "--export", "ALL"]).arg(script).arg(slurm.path("three.toml"));
    well(job.env("PLIMSOLL", program));
    let said = || fs::read_to_string(slurm.path("job.txt")).unwrap_or_default();
    until("the job's output is written", || said().contains("Machines  3 measured the same"));
    assert_eq!(nodes(&slurm.stored()), NODES);
}
