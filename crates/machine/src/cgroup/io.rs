//! I/O limits of control groups: `io.max` of version 2 (`254:0 rbps=1048576 wbps=max riops=max
//! wiops=max`), `blkio.throttle.*` of version 1 (`254:0 1048576`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use plimsoll_units::quantity::{Quantity, Unit};
use serde::{Deserialize, Serialize};

use super::{Groups, Version};
use crate::mounts::DeviceNumber;
use crate::root::Root;

/// I/O limits of a group for one device, per second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoLimit {
    /// Device number, `MAJOR:MINOR`.
    pub device: String,
    /// Bytes read per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Read operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Write operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u64>,
}

impl IoLimit {
    /// Lowers the limit `name` (`rbps`, `wbps`, `riops`, `wiops`, else ignored) to `value` per s.
    fn tighten(&mut self, name: &str, value: u64) {
        let of = match name {
            "rbps" => &mut self.read_bytes,
            "wbps" => &mut self.write_bytes,
            "riops" => &mut self.reads,
            "wiops" => &mut self.writes,
            _ => return,
        };
        *of = Some(of.map_or(value, |tightest| tightest.min(value)));
    }
}

impl fmt::Display for IoLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            ("reads", self.read_bytes, Unit::BytePerSecond),
            ("reads", self.reads, Unit::IoPerSecond),
            ("writes", self.write_bytes, Unit::BytePerSecond),
            ("writes", self.writes, Unit::IoPerSecond),
        ];
        let shown = |(what, value, unit): (&str, Option<u64>, Unit)| {
            Some(format!("{what} {}", Quantity::new(value? as f64, unit)))
        };
        f.write_str(&all.into_iter().filter_map(shown).collect::<Vec<String>>().join(", "))
    }
}

const V1: [(&str, &str); 4] = [
    ("blkio.throttle.read_bps_device", "rbps"),
    ("blkio.throttle.write_bps_device", "wbps"),
    ("blkio.throttle.read_iops_device", "riops"),
    ("blkio.throttle.write_iops_device", "wiops"),
];

/// Reads the lowest I/O limits of this process's control group and its ancestors, an entry per
/// limited device. In version 1 the ancestors do not count (`cgroup-v1/blkio-controller.rst`).
pub(crate) fn limits(root: &Root) -> Vec<IoLimit> {
    let groups =
        ["blkio", "io"].into_iter().find_map(|controller| Groups::of(root, controller).ok().flatten());
    let Some(groups) = groups else { return Vec::new() };
    let mut all: BTreeMap<String, IoLimit> = BTreeMap::new();
    let held = if groups.version == Version::V1 { 1 } else { groups.dirs.len() };
    for dir in groups.dirs.iter().take(held) {
        for line in stated_limits(root, groups.version, dir).lines() {
            let Some((device, rest)) = line.split_once(' ') else { continue };
            let Ok(device) = device.parse::<DeviceNumber>().map(|n| n.to_string()) else { continue };
            for (name, value) in rest.split_ascii_whitespace().filter_map(|pair| pair.split_once('=')) {
                let Some(value) = value.parse::<u64>().ok().filter(|value| *value > 0) else { continue };
                let limit = || IoLimit { device: device.clone(), ..IoLimit::default() };
                all.entry(device.clone()).or_insert_with(limit).tighten(name, value);
            }
        }
    }
    all.into_values().collect()
}

/// Returns the limits of the group `dir` as lines of `io.max`, such as `8:0 rbps=1000 wiops=20`.
fn stated_limits(root: &Root, version: Version, dir: &Path) -> String {
    let text = |file: &str| root.text(dir.join(file)).unwrap_or_default();
    let of_file = |(file, name): (&str, &str)| {
        let text = text(file);
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(device, value)| format!("{device} {name}={}\n", value.trim())).collect::<String>()
    };
    match version {
        Version::V1 => V1.into_iter().map(of_file).collect(),
        Version::V2 => text("io.max"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn the_tightest_of_all_groups_counts_where_groups_hold_those_below_them() {
        let v1 = "proc/self/mountinfo = 30 1 0:26 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                  proc/self/cgroup = 3:blkio:/a\n\
                  sys/fs/cgroup/blkio/a/blkio.throttle.read_bps_device = 254:0 50000000\\n8:16 x\\nnone 3\n\
                  sys/fs/cgroup/blkio/blkio.throttle.read_bps_device = 254:0 40000000\n\
                  sys/fs/cgroup/blkio/a/blkio.throttle.write_iops_device = 254:0 100\n";
        let fixture = Fixture::unpack(v1).unwrap();
        let (device, read_bytes) = ("254:0".to_owned(), Some(50_000_000));
        let expected = IoLimit { device, read_bytes, writes: Some(100), ..IoLimit::default() };
        assert_eq!(limits(&fixture.root), std::slice::from_ref(&expected));
        let v2 = "proc/self/mountinfo = 30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                  proc/self/cgroup = 0::/a\n\
                  sys/fs/cgroup/a/io.max = 254:0 rbps=60000000 wbps=max riops=max wiops=100\n\
                  sys/fs/cgroup/io.max = 254:0 rbps=50000000 wbps=max riops=max wiops=200\n";
        assert_eq!(limits(&Fixture::unpack(v2).unwrap().root), [expected]);
        assert_eq!(limits(&Fixture::unpack("").unwrap().root), []);
    }
}
