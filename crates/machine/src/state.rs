//! Activity of the machine, by cheap snapshots of counters.

mod change;

pub use change::StateChange;

use super::cgroup::{self, Throttling};
use super::root::{ReadError, Root, find_counter, garbled};
use super::{Cpu, CpuSet, Survey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Activity of the machine at discovery.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    /// Load averages.
    pub load: Option<LoadAverage>,
    /// Share of the time since boot stolen from the allowed CPUs, 0 to 1.
    pub steal_since_boot: Option<f64>,
    /// Shares of the last 10 s with a stall.
    pub pressure: Pressure,
    /// Whether turbo is allowed.
    pub turbo: Option<bool>,
}

/// Mean number of runnable or disk-waiting threads (proc_loadavg(5)).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadAverage {
    /// Over 1 minute.
    pub minute_1: f64,
    /// Over 5 minutes.
    pub minutes_5: f64,
    /// Over 15 minutes.
    pub minutes_15: f64,
}

/// Pressure stall information (Linux `Documentation/accounting/psi.rst`), 0 to 1, of the last 10 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Some thread waited for a CPU.
    pub cpu: Option<f64>,
    /// Some thread waited for memory.
    pub memory: Option<f64>,
    /// Some thread waited for I/O.
    pub io: Option<f64>,
}

/// Located counters, for cheap snapshots.
#[derive(Debug, Clone)]
pub struct StateWatch {
    root: Root,
    groups: Option<cgroup::Groups>,
    /// Text of the `cgroup` file of the process that [`Self::follow`] followed last.
    table: String,
}

/// Counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct StateSnapshot {
    at: Instant,
    times: BTreeMap<usize, CpuTime>,
    stalls: [Option<Stall>; 3],
    throttling: Option<Throttling>,
    pages_swapped: Option<u64>,
}

/// Time of one CPU in ticks (of 10 ms, but only shares are used).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Whole time.
    pub total: u64,
    /// Part without work, waits for I/O included.
    pub idle: u64,
    /// Part in which the hypervisor ran other guests.
    pub steal: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Stall {
    share_10s: f64,
    total_us: u64,
}

const PRESSURE: [&str; 3] = ["proc/pressure/cpu", "proc/pressure/memory", "proc/pressure/io"];

impl StateWatch {
    /// Finds this process's control groups for later snapshots; all files are read below `root`.
    pub fn new(root: &Root) -> Self {
        let table = root.text("proc/self/cgroup").unwrap_or_default();
        let groups = cgroup::Groups::in_table(root, &table, "cpu").ok().flatten();
        Self { root: root.clone(), groups, table }
    }

    /// Reads the control groups of `process` from now on. Returns whether they are other ones than
    /// before, so that the next change of their counters is unknown.
    pub fn follow(&mut self, process: u32) -> bool {
        let Ok(table) = self.root.text(format!("proc/{process}/cgroup")) else { return false };
        let is_other = table != self.table;
        if is_other {
            self.groups = cgroup::Groups::in_table(&self.root, &table, "cpu").ok().flatten();
            self.table = table;
        }
        is_other
    }

    /// Reads the smallest CPU quota of this process's control groups, in CPUs; `None` if unset.
    pub fn quota(&self) -> Option<f64> {
        Some(cgroup::cpu_quota(&mut Survey::new(&self.root), self.groups.as_ref()?)?.cpus())
    }

    /// Reads the lowest I/O limits of this process's control groups, one entry per limited device.
    pub fn io_limits(&self) -> Vec<cgroup::IoLimit> {
        cgroup::io::limits(&self.root)
    }

    /// Reads CPU times, pressure, throttling and swap counters; unreadable ones are unknown.
    pub fn snapshot(&self) -> StateSnapshot {
        let root = &self.root;
        StateSnapshot {
            at: Instant::now(),
            times: cpu_times(root),
            stalls: PRESSURE.map(|path| stall(root, path).ok()),
            throttling: self.groups.as_ref().and_then(|groups| cgroup::throttling(root, groups)),
            pages_swapped: pages_swapped(root),
        }
    }
}

impl StateSnapshot {
    /// Returns the share (0 to 1) of the time of `cpus` stolen since boot; `None` if unknown.
    pub fn steal_since_boot(&self, cpus: &CpuSet) -> Option<f64> {
        let mut sum = CpuTime::default();
        for (_, time) in self.times.iter().filter(|(cpu, _)| cpus.contains(**cpu)) {
            sum.total = sum.total.saturating_add(time.total);
            sum.steal = sum.steal.saturating_add(time.steal);
        }
        share(sum.steal, sum.total)
    }
}

impl MachineState {
    pub(super) fn discover(s: &mut Survey, snapshot: &StateSnapshot, cpu: &Cpu) -> Self {
        let load = s.keep("state.load", load(s.root));
        let steal = snapshot.steal_since_boot(&cpu.allowed);
        let steal = steal.ok_or("/proc/stat has no usable lines of the allowed CPUs");
        let steal_since_boot = s.keep("state.steal", steal);
        if snapshot.stalls == [None; 3] {
            s.keep("state.pressure", stall(s.root, PRESSURE[0]));
        }
        let turbo = turbo(s.root).ok_or("neither intel_pstate/no_turbo nor cpufreq/boost is there");
        let turbo = s.keep("state.turbo", turbo);
        let [cpu, memory, io] = snapshot.stalls.map(|stall| Some(stall?.share_10s));
        Self { load, steal_since_boot, pressure: Pressure { cpu, memory, io }, turbo }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    // A millionth is finer than any use, and such a number survives JSON unchanged.
    (whole > 0).then(|| ((part as f64 / whole as f64).min(1.0) * 1e6).round() / 1e6)
}

fn load(root: &Root) -> Result<LoadAverage, ReadError> {
    const LOADAVG: &str = "proc/loadavg";
    let text = root.text(LOADAVG)?;
    let mut numbers =
        text.split(' ').map_while(|n| n.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0));
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(minute_1), Some(minutes_5), Some(minutes_15)) => {
            Ok(LoadAverage { minute_1, minutes_5, minutes_15 })
        }
        _ => Err(garbled(LOADAVG, &text, "three load averages")),
    }
}

/// Reads the time of each CPU since boot (`/proc/stat`); empty if it cannot be read.
pub fn cpu_times(root: &Root) -> BTreeMap<usize, CpuTime> {
    let head = root.head(Path::new("proc/stat"), 4 << 20).unwrap_or_default();
    let text = String::from_utf8_lossy(&head);
    text.lines()
        .take_while(|line| line.starts_with("cpu"))
        .filter(|line| !line.starts_with("cpu "))
        .filter_map(|line| {
            let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
            let id = fields.next()?.parse().ok().filter(|&id: &usize| id < super::cpuset::MAX_CPUS)?;
            let times: Vec<u64> = fields.map_while(|n| n.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal; guest times are within user and nice.
            let total = times.iter().take(8).try_fold(0_u64, |sum, &n| sum.checked_add(n))?;
            let idle = times.get(3)?.saturating_add(*times.get(4)?);
            Some((id, CpuTime { total, idle, steal: times.get(7).copied().unwrap_or(0) }))
        })
        .collect()
}

/// Reads a pressure file (% and µs): `some avg10=8.79 avg60=2.59 avg300=1.14 total=13177760`.
fn stall(root: &Root, path: &str) -> Result<Stall, ReadError> {
    let text = root.text(path)?;
    let some = text.lines().find_map(|line| line.strip_prefix("some ")).unwrap_or_default();
    let field = |key: &str| some.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
    let percent = field("avg10").and_then(|n| n.parse::<f64>().ok()).filter(|n| (0.0..=100.0).contains(n));
    let total = field("total").and_then(|n| n.parse().ok());
    match (percent, total) {
        (Some(percent), Some(total_us)) => Ok(Stall { share_10s: percent / 100.0, total_us }),
        _ => Err(garbled(path, &text, "pressure averages")),
    }
}

fn pages_swapped(root: &Root) -> Option<u64> {
    let text = root.text("proc/vmstat").ok()?;
    find_counter(&text, "pswpin")?.checked_add(find_counter(&text, "pswpout")?)
}

/// Reads whether turbo is allowed from `intel_pstate/no_turbo` or `cpufreq/boost`, if there.
pub(super) fn turbo(root: &Root) -> Option<bool> {
    let dir = PathBuf::from("sys/devices/system/cpu");
    let flag = |name: &str| root.number(dir.join(name)).ok().filter(|&n| n <= 1).map(|n| n == 1);
    flag("intel_pstate/no_turbo").map(|off| !off).or_else(|| flag("cpufreq/boost"))
}
