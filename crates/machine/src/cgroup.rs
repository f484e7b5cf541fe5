//! Limits of the control groups on this process (Linux `Documentation/admin-guide/cgroup-v2.rst`,
//! `cgroup-v1/`). The tightest limit from its group up to the mount counts.

mod hierarchy;
pub(crate) mod io;

pub(crate) use hierarchy::Groups;
pub use hierarchy::Version;
pub use io::IoLimit;

use super::root::{ReadError, Root, find_counter, garbled};
use super::{CpuSet, Survey};
use plimsoll_units::text::shown_path;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Limit in bytes from which it means "none" (version 1 writes the largest page-aligned i64).
const UNLIMITED: u64 = 1 << 62;

/// Limits of the control groups on this process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Version that controls the CPU.
    pub cpu_version: Option<Version>,
    /// Version that controls memory.
    pub memory_version: Option<Version>,
    /// Directory of the process's CPU group.
    pub group: Option<String>,
    /// Tightest CPU quota.
    pub cpu_quota: Option<CpuQuota>,
    /// Memory limit with the least available memory.
    pub memory: Option<MemoryLimit>,
    /// CPUs allowed by the cpuset.
    pub cpuset: Option<CpuSet>,
    /// Throttling by the quota since the groups were created.
    pub throttling: Option<Throttling>,
    /// I/O limits by device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<IoLimit>,
}

/// CPU time that a group may use per period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuQuota {
    /// CPU time per period in µs.
    pub quota_us: u64,
    /// Length of the period in µs.
    pub period_us: u64,
    /// Directory of the group.
    pub group: String,
}

impl CpuQuota {
    /// Returns the quota as a number of CPUs, such as 1.5.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

/// Memory limit of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// Limit in bytes: in version 2 the smaller of `memory.max` and `memory.high`.
    pub limit_bytes: u64,
    /// Memory usage in bytes, page cache included.
    pub usage_bytes: Option<u64>,
    /// Page cache that can be dropped at once (inactive file pages), in bytes.
    pub reclaimable_bytes: Option<u64>,
    /// Directory of the group.
    pub group: String,
}

impl MemoryLimit {
    /// Returns the limit minus the unreclaimable usage in bytes; an unknown usage counts as 0.
    pub fn available_bytes(&self) -> u64 {
        let taken = self.usage_bytes.unwrap_or(0).saturating_sub(self.reclaimable_bytes.unwrap_or(0));
        self.limit_bytes.saturating_sub(taken)
    }
}

/// Throttling by CPU quotas, summed over a process's groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// Periods in which the group was runnable.
    pub periods: u64,
    /// Periods in which the group was throttled.
    pub throttled_periods: u64,
    /// Throttled time summed over CPUs, in µs.
    pub throttled_us: u64,
}

impl Cgroup {
    pub(super) fn discover(s: &mut Survey) -> Self {
        let cpu = s.keep("cgroup.cpu", Groups::of(s.root, "cpu")).flatten();
        let memory = s.keep("cgroup.memory", Groups::of(s.root, "memory")).flatten();
        let cpuset = s.keep("cgroup.cpuset", Groups::of(s.root, "cpuset")).flatten();
        Self {
            cpu_version: cpu.as_ref().map(|groups| groups.version),
            memory_version: memory.as_ref().map(|groups| groups.version),
            group: cpu.as_ref().and_then(|groups| groups.dirs.first()).map(|dir| shown_path(dir)),
            cpu_quota: cpu.as_ref().and_then(|groups| cpu_quota(s, groups)),
            memory: memory.and_then(|groups| memory_limit(s, &groups)),
            cpuset: cpuset.and_then(|groups| effective_cpus(s, &groups)),
            throttling: cpu.and_then(|groups| throttling(s.root, &groups)),
            io: io::limits(s.root),
        }
    }
}

/// Sums the `cpu.stat` throttling counters of a process's `groups`; `None` if no group has them.
pub(super) fn throttling(root: &Root, groups: &Groups) -> Option<Throttling> {
    let mut sum: Option<Throttling> = None;
    for dir in &groups.dirs {
        let Ok(text) = root.text(dir.join("cpu.stat")) else { continue };
        let value = |key: &str| find_counter(&text, key);
        let (Some(periods), Some(throttled)) = (value("nr_periods"), value("nr_throttled")) else { continue };
        let time_us = match groups.version {
            Version::V2 => value("throttled_usec"),
            Version::V1 => value("throttled_time").map(|ns| ns / 1000),
        };
        let so_far = sum.get_or_insert_default();
        so_far.periods = so_far.periods.saturating_add(periods);
        so_far.throttled_periods = so_far.throttled_periods.saturating_add(throttled);
        so_far.throttled_us = so_far.throttled_us.saturating_add(time_us.unwrap_or(0));
    }
    sum
}

/// Reads the CPU quotas of `groups` and returns the smallest; `None` if none is set and readable.
pub(super) fn cpu_quota(s: &mut Survey, groups: &Groups) -> Option<CpuQuota> {
    let quotas = groups.dirs.iter().filter_map(|dir| {
        let found = match groups.version {
            Version::V2 => quota_v2(s.root, dir),
            Version::V1 => quota_v1(s.root, dir),
        };
        s.keep("cgroup.cpu_quota", found).flatten()
    });
    quotas.min_by(|a, b| a.cpus().total_cmp(&b.cpus()))
}

/// Reads the CPU quota of the version 2 control group `dir`, `cpu.max`: `50000 100000` is 50 of 100
/// ms. `None` for `max 100000`, or without the file, which the root group lacks.
fn quota_v2(root: &Root, dir: &Path) -> Result<Option<CpuQuota>, ReadError> {
    let path = dir.join("cpu.max");
    let Some(text) = ReadError::allow_missing(root.text(&path))? else { return Ok(None) };
    let (quota, period) = text.split_once(' ').unwrap_or((&text, "100000"));
    if quota == "max" {
        return Ok(None);
    }
    match (quota.parse(), period.trim().parse()) {
        (Ok(quota), Ok(period)) => quota_of(dir, quota, period).map(Some),
        _ => None,
    }
    .ok_or_else(|| garbled(&path, &text, "a quota and a period"))
}

/// Reads the quota of the version 1 group `dir`; `None` if `cpu.cfs_quota_us` is -1 or missing.
fn quota_v1(root: &Root, dir: &Path) -> Result<Option<CpuQuota>, ReadError> {
    let path = dir.join("cpu.cfs_quota_us");
    let quota = ReadError::allow_missing(root.parse::<i64>(&path, "a quota in microseconds"))?;
    let Some(quota) = quota.filter(|quota| *quota != -1) else { return Ok(None) };
    let period = root.number(dir.join("cpu.cfs_period_us"))?;
    let found = u64::try_from(quota).ok().and_then(|quota| quota_of(dir, quota, period));
    found.map(Some).ok_or_else(|| garbled(&path, &quota.to_string(), "a quota in microseconds"))
}

fn quota_of(dir: &Path, quota_us: u64, period_us: u64) -> Option<CpuQuota> {
    (quota_us > 0 && period_us > 0).then(|| CpuQuota { quota_us, period_us, group: shown_path(dir) })
}

fn memory_limit(s: &mut Survey, groups: &Groups) -> Option<MemoryLimit> {
    let of = |dir: &PathBuf| s.keep("cgroup.memory_limit", limit_of(s.root, groups.version, dir)).flatten();
    groups.dirs.iter().filter_map(of).min_by_key(MemoryLimit::available_bytes)
}

fn limit_of(root: &Root, version: Version, dir: &Path) -> Result<Option<MemoryLimit>, ReadError> {
    let (limit, usage, cache) = match version {
        Version::V2 => ("memory.max", "memory.current", "inactive_file"),
        Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    };
    let mut limit_bytes = bytes_allowed(root, &dir.join(limit))?;
    if version == Version::V2 {
        // Above "high" the group waits for reclaim, which would distort measurements.
        let high = bytes_allowed(root, &dir.join("memory.high"))?;
        limit_bytes = limit_bytes.into_iter().chain(high).min();
    }
    let Some(limit_bytes) = limit_bytes else { return Ok(None) };
    let stat = root.text(dir.join("memory.stat")).unwrap_or_default();
    Ok(Some(MemoryLimit {
        limit_bytes,
        usage_bytes: root.number(dir.join(usage)).ok(),
        reclaimable_bytes: find_counter(&stat, cache),
        group: shown_path(dir),
    }))
}

/// Reads a memory limit in bytes; `None` if the file is missing, or has `max` or at least 2^62.
fn bytes_allowed(root: &Root, path: &Path) -> Result<Option<u64>, ReadError> {
    let text = ReadError::allow_missing(root.text(path))?;
    let Some(text) = text.filter(|text| text != "max") else { return Ok(None) };
    let bytes: u64 = text.parse().map_err(|_| garbled(path, &text, "a limit in bytes"))?;
    Ok(Some(bytes).filter(|&bytes| bytes < UNLIMITED))
}

/// Returns the CPUs of the nearest group in `groups` whose cpuset lists any; `None` without any.
fn effective_cpus(s: &mut Survey, groups: &Groups) -> Option<CpuSet> {
    let names: &[&str] = match groups.version {
        Version::V2 => &["cpuset.cpus.effective"],
        Version::V1 => &["cpuset.effective_cpus", "cpuset.cpus"],
    };
    for path in groups.dirs.iter().flat_map(|dir| names.iter().map(move |name| dir.join(name))) {
        match s.root.parse::<CpuSet>(&path, "a CPU list") {
            Ok(set) if !set.is_empty() => return Some(set),
            // Version 1 starts with an empty list, and not every group has the file.
            Ok(_) | Err(ReadError::Missing(_)) => {}
            Err(why) => s.note("cgroup.cpuset", why),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn discover(tree: &str) -> (Cgroup, Vec<String>) {
        let fixture = Fixture::unpack(tree).unwrap();
        let mut survey = Survey::new(&fixture.root);
        let found = Cgroup::discover(&mut survey);
        (found, survey.unknown.into_iter().map(|u| u.why).collect())
    }

    const V1: &str = "proc/self/mountinfo = 1 0 0:2 / / rw - ext4 /dev/vda rw\n\
                      proc/self/mountinfo = 3 1 0:3 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      sys/fs/cgroup/cpu/cpu.cfs_period_us = 100000\n";

    #[test]
    fn a_version_1_quota_seen_from_inside_its_container() {
        let tree = format!(
            "{V1}proc/self/cgroup = 2:cpu,cpuacct:/docker/abc/job\n\
             sys/fs/cgroup/cpu/cpu.cfs_quota_us = 150000\n\
             sys/fs/cgroup/cpu/job/cpu.cfs_quota_us = -1\n\
             sys/fs/cgroup/cpu/job/cpu.cfs_period_us = 100000\n\
             sys/fs/cgroup/cpu/cpu.stat = nr_periods 4\nsys/fs/cgroup/cpu/cpu.stat = nr_throttled 2\n\
             sys/fs/cgroup/cpu/cpu.stat = throttled_time 5000000\n"
        );
        let (found, unknown) = discover(&tree);
        assert_eq!(found.cpu_version, Some(Version::V1));
        assert_eq!(found.group.as_deref(), Some("/sys/fs/cgroup/cpu/job"));
        assert_eq!(found.cpu_quota.map(|quota| quota.cpus()), Some(1.5));
        let said = found.throttling;
        assert_eq!(said, Some(Throttling { periods: 4, throttled_periods: 2, throttled_us: 5000 }));
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn a_group_that_the_mount_does_not_show_is_not_climbed_to() {
        for path in ["/elsewhere", "/docker/abc/../../etc", "/../x", "relative"] {
            let tree = format!(
                "{V1}proc/self/cgroup = 2:cpu,cpuacct:{path}\nsys/fs/cgroup/cpu/cpu.cfs_quota_us = 50000\n\
                 etc/cpu.cfs_quota_us = 1\n"
            );
            let (found, _) = discover(&tree);
            assert_eq!(found.cpu_quota.map(|quota| quota.cpus()), Some(0.5), "{path}");
        }
    }

    #[test]
    fn an_impossible_quota_is_unknown() {
        for quota in ["0", "-2", "many", "99999999999999999999"] {
            let tree = format!(
                "{V1}proc/self/cgroup = 2:cpu,cpuacct:/docker/abc\nsys/fs/cgroup/cpu/cpu.cfs_quota_us = {quota}\n"
            );
            let (found, unknown) = discover(&tree);
            assert_eq!(found.cpu_quota, None);
            assert!(unknown.iter().any(|why| why.contains("cpu.cfs_quota_us holds")), "{quota}: {unknown:?}");
        }
    }

    #[test]
    fn without_control_groups_there_is_no_limit_and_no_complaint() {
        let tree = "proc/self/mountinfo = 1 0 0:2 / / rw - ext4 /dev/vda rw\nproc/self/cgroup = 0::/\n";
        assert_eq!(discover(tree), (Cgroup::default(), vec![]));
    }
}
