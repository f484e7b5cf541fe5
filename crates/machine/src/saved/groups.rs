use std::path::Path;

use super::SavedContent;
use super::rename::NumberedNames;
use crate::cgroup::Groups;
use crate::disk::sysfs_directory;
use crate::mounts::{self, Mount};
use crate::root::Root;
use crate::storage::{Medium, device_by_source};

const OF_GROUP: &str = "cpu.cfs_period_us cpu.cfs_quota_us cpu.max cpu.stat cpuset.cpus \
     cpuset.cpus.effective cpuset.effective_cpus memory.current memory.high memory.limit_in_bytes \
     memory.max memory.stat memory.usage_in_bytes";
/// Most mounts saved: container hosts have tens of thousands of similar ones.
const MOST_MOUNTS: usize = 256;
const CONTROLLERS: [&str; 3] = ["cpu", "cpuset", "memory"];

pub(super) fn add(root: &Root, names: &mut NumberedNames, content: &mut SavedContent) {
    if let Ok(table) = root.text("proc/self/cgroup") {
        content.file("proc/self/cgroup", membership(&table, names).into_bytes());
    }
    let table = mounts::read(root).unwrap_or_default();
    let wanted = table.iter().filter(|mount| is_wanted(mount));
    let lines: String = wanted.take(MOST_MOUNTS).map(|mount| line(root, mount, names)).collect();
    if !lines.is_empty() {
        content.file("proc/self/mountinfo", lines.into_bytes());
    }
    for controller in CONTROLLERS {
        let Ok(Some(groups)) = Groups::of(root, controller) else { continue };
        for dir in &groups.dirs {
            for name in OF_GROUP.split(' ') {
                content.copy(root, dir.join(name), names.path(dir).join(name));
            }
        }
    }
}

/// Returns `/proc/self/cgroup` with numbered names, reduced to the controllers that are saved.
fn membership(table: &str, names: &mut NumberedNames) -> String {
    let lines = table.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let wanted = controllers.is_empty() || controllers.split(',').any(|c| CONTROLLERS.contains(&c));
        let is_line = wanted && number.bytes().all(|byte| byte.is_ascii_digit());
        let mut path = || names.path(Path::new(path)).display().to_string();
        is_line.then(|| format!("{number}:{controllers}:{}\n", path()))
    });
    lines.collect()
}

fn is_wanted(mount: &Mount) -> bool {
    let is_group = match mount.fs_type.as_str() {
        "cgroup" => CONTROLLERS.iter().any(|controller| mount.has(controller)),
        other => other == "cgroup2",
    };
    let is_store = Medium::of(&mount.fs_type) == Medium::Device && mount.source.starts_with("/dev");
    is_group || is_store || mount.point == Path::new("/")
}

/// Formats a line of mountinfo with numbered instead of private names and only one-word options.
fn line(root: &Root, mount: &Mount, names: &mut NumberedNames) -> String {
    let source = match sysfs_directory(root, mount.device).or_else(|_| device_by_source(root, mount)) {
        Ok(place) => {
            format!("/dev/{}", names.device(&place.file_name().unwrap_or_default().to_string_lossy()))
        }
        Err(_) => mount.fs_type.clone(),
    };
    let is_word = |option: &&String| option.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let options: Vec<&str> = mount.options.iter().filter(is_word).map(String::as_str).collect();
    let fs_type = &mount.fs_type;
    let (inside, point) = (names.path(&mount.root), names.path(&mount.point));
    let options = if options.is_empty() { "rw".to_owned() } else { options.join(",") };
    format!("0 0 {} {} {} {options} - {fs_type} {source}\n", mount.device, inside.display(), point.display())
}
