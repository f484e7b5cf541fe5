//! Control groups of tests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PROGRAM, skip, until};

/// The length of a period of a quota, in microseconds.
const PERIOD: u32 = 10_000;

static MADE: AtomicUsize = AtomicUsize::new(0);

/// A control group of a test, which is removed with the processes in it on drop.
pub(crate) struct Group {
    dir: PathBuf,
    is_v1: bool,
}

impl Group {
    /// A group with a controller, by its name in version 2; if version 1 has it, version 2 lacks
    /// it. `None`, and a skipped test, if it cannot be made.
    #[track_caller]
    pub(crate) fn make(controller: &str) -> Option<Self> {
        match Self::try_make(controller) {
            Ok(group) => Some(group),
            Err(why) => skip(&format!("no control group: {why}")),
        }
    }

    fn try_make(controller: &str) -> io::Result<Self> {
        let name = format!("plimsoll-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let v1 = match controller {
            "cpu" => "cpu/cpu.cfs_quota_us",
            "memory" => "memory/memory.limit_in_bytes",
            _ => "blkio/blkio.throttle.io_serviced",
        };
        let (all, v1) = (Path::new("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup").join(v1));
        let is_v1 = v1.exists();
        if !is_v1 {
            fs::write(all.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
        let dir = if is_v1 { v1.parent().unwrap().join(name) } else { all.join(name) };
        fs::create_dir(&dir)?;
        let group = Self { dir, is_v1 };
        if controller == "cpu" {
            group.set(("cpu.shares", "262144"), ("cpu.weight", "10000"))?;
        }
        if controller == "cpu" && is_v1 {
            fs::write(group.dir.join("cpu.cfs_period_us"), PERIOD.to_string())?;
        }
        Ok(group)
    }

    /// Writes to a file of the version that there is.
    fn set(&self, v1: (&str, &str), v2: (&str, &str)) -> io::Result<()> {
        let (file, text) = if self.is_v1 { v1 } else { v2 };
        fs::write(self.dir.join(file), text)
    }

    /// Sets the CPU shares; the default is 1024, and a new group has priority over other load.
    pub(crate) fn weigh(&self, shares: u32) {
        let weight = (shares * 100 / 1024).to_string();
        self.set(("cpu.shares", &shares.to_string()), ("cpu.weight", &weight)).unwrap();
    }

    /// Limits the group to `share` of a CPU.
    pub(crate) fn limit(&self, share: f64) {
        let time = (share * f64::from(PERIOD)) as u32;
        self.set(("cpu.cfs_quota_us", &time.to_string()), ("cpu.max", &format!("{time} {PERIOD}"))).unwrap();
    }

    pub(crate) fn limit_memory(&self, bytes: u64) {
        let bytes = bytes.to_string();
        self.set(("memory.limit_in_bytes", &bytes), ("memory.max", &bytes)).unwrap();
    }

    /// Limits reads of a device, by its numbers.
    pub(crate) fn limit_reads(&self, device: &str, per_second: u32) {
        let (v1, v2) = (format!("{device} {per_second}"), format!("{device} riops={per_second}"));
        self.set(("blkio.throttle.read_iops_device", &v1), ("io.max", &v2)).unwrap();
    }

    /// The program with the words of a command line in the group; its output is kept.
    pub(crate) fn run(&self, dir: &Path, line: &str) -> Command {
        let mut run = self.enter(PROGRAM);
        run.args(line.split_whitespace()).current_dir(dir);
        run
    }

    pub(crate) fn enter(&self, program: impl AsRef<Path>) -> Command {
        let mut run = Command::new("sh");
        run.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&self.dir).arg(program.as_ref());
        run
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only an empty group can be removed.
        until("the group is empty", || {
            let all = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            for id in all.lines().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
                let _ = kill_process(id, Signal::KILL);
            }
            fs::remove_dir(&self.dir).is_ok() || !self.dir.exists()
        });
    }
}
