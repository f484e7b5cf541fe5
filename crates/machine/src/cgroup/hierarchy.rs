use crate::mounts::{self, Mount};
use crate::root::{ReadError, Root};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

const MAX_DEPTH: usize = 64;

/// Version of the control group interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(super) version: Version,
    pub(crate) dirs: Vec<PathBuf>,
}

impl Groups {
    /// Finds this process's control group for `controller` (`cpu`) and the groups above it, up to
    /// the mount point; `Ok(None)` without any.
    pub(crate) fn of(root: &Root, controller: &str) -> Result<Option<Self>, ReadError> {
        Self::in_table(root, &root.text("proc/self/cgroup")?, controller)
    }

    /// Finds the groups as [`Self::of`] of a process with this `table`, its `/proc/PID/cgroup`.
    pub(crate) fn in_table(root: &Root, table: &str, controller: &str) -> Result<Option<Self>, ReadError> {
        let mounts = mounts::read(root)?;
        let v1 = path_in(table, |controllers| controllers.split(',').any(|c| c == controller))
            .zip(mounts.iter().rfind(|m| m.fs_type == "cgroup" && m.has(controller)))
            .map(|(path, mount)| (Version::V1, path, mount));
        let v2 = || {
            let path = path_in(table, str::is_empty)?;
            let mount = mounts.iter().rfind(|m| m.fs_type == "cgroup2")?;
            Some((Version::V2, path, mount))
        };
        let found = v1.or_else(v2);
        Ok(found.map(|(version, path, mount)| Self { version, dirs: directories(root, path, mount) }))
    }
}

/// Returns the path in the first line of `table`, the text of `/proc/self/cgroup`
/// (`4:memory:/user.slice`), for whose list of controllers `wanted` returns true.
fn path_in(table: &str, wanted: impl Fn(&str) -> bool) -> Option<&str> {
    table.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        wanted(controllers).then_some(path)
    })
}

fn directories(root: &Root, path: &str, mount: &Mount) -> Vec<PathBuf> {
    // A container may see its own group as the root of the mount. For a path outside it (or with
    // `..`) the mount point is the nearest visible group.
    let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let plain = below.components().all(|c| matches!(c, Component::Normal(_)));
    let below = if plain { below } else { Path::new("") };
    let parents = below.ancestors().take(MAX_DEPTH).filter(|part| !part.as_os_str().is_empty());
    let mut dirs: Vec<PathBuf> =
        parents.map(|part| mount.point.join(part)).filter(|dir| root.exists(dir)).collect();
    dirs.push(mount.point.clone());
    dirs
}
