//! Checks the system's limits before threads are started: Rust's runtime aborts the process if a
//! new thread gets no memory for its signal stack.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, geteuid, getrlimit};

use super::TeamError;

/// Memory mappings per thread: its stack and signal stack, each with a guard.
const MAPPINGS: u64 = 4;

/// Address space per thread in bytes: Rust's stack and the signal stack.
const ADDRESSES: u64 = (2 << 20) + (64 << 10);

/// Memory per waiting thread in bytes: kernel stack and structures, first pages of its stacks.
const THREAD_BYTES: u64 = 40 << 10;

const RESERVED_THREADS: u64 = 256;

const UNCHECKED_THREADS: usize = 64;

struct ThreadLimit {
    what: String,
    room: u64,
}

pub(super) fn check(wanted: usize) -> Result<(), TeamError> {
    if wanted <= UNCHECKED_THREADS {
        return Ok(());
    }
    match tightest_limit(Path::new("/"), geteuid().is_root()) {
        Some(ThreadLimit { what, room }) if room < wanted as u64 => {
            Err(TeamError::NoRoom { wanted, room, limit: what })
        }
        _ => Ok(()),
    }
}

fn tightest_limit(root: &Path, privileged: bool) -> Option<ThreadLimit> {
    let number = |path: &str| first_number(&root.join(path));
    let mut limits = Vec::new();
    // The number of threads of the system: 913 in the field `2/913`.
    let loadavg = read_to_string(root.join("proc/loadavg")).unwrap_or_default();
    let running = loadavg.split_whitespace().nth(3).and_then(|field| field.split('/').nth(1)?.parse().ok());
    let running: u64 = running.unwrap_or(0);
    for name in ["threads-max", "pid_max"] {
        if let Some(most) = number(&format!("proc/sys/kernel/{name}")) {
            limits.push(limit(format!("kernel.{name} = {most}"), most, running + RESERVED_THREADS, 1));
        }
    }
    if let Some(most) = number("proc/sys/vm/max_map_count") {
        let own = read_to_string(root.join("proc/self/maps")).map_or(0, |maps| maps.lines().count() as u64);
        limits.push(limit(format!("vm.max_map_count = {most}"), most, own + RESERVED_THREADS, MAPPINGS));
    }
    let memory = read_to_string(root.join("proc/meminfo")).ok().and_then(|text| available(&text));
    if let Some(bytes) = memory {
        limits.push(limit(format!("the available memory of {} MiB", bytes >> 20), bytes, 0, THREAD_BYTES));
    }
    // The kernel exempts root.
    if let Some(most) = getrlimit(Resource::Nproc).current.filter(|_| !privileged) {
        limits.push(limit(format!("RLIMIT_NPROC = {most} (ulimit -u)"), most, 1, 1));
    }
    if let Some(bytes) = getrlimit(Resource::As).current {
        limits.push(limit(format!("RLIMIT_AS = {bytes} bytes (ulimit -v)"), bytes, 0, ADDRESSES));
    }
    limits.extend(cgroup_limits(root));
    limits.into_iter().min_by_key(|limit| limit.room)
}

fn limit(what: String, most: u64, used: u64, each: u64) -> ThreadLimit {
    ThreadLimit { what, room: most.saturating_sub(used) / each }
}

fn cgroup_limits(root: &Path) -> Vec<ThreadLimit> {
    let text = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let top = match controllers {
            "" => root.join("sys/fs/cgroup"),
            some if some.split(',').any(|one| one == "pids") => root.join("sys/fs/cgroup/pids"),
            _ => continue,
        };
        let own: PathBuf = top.join(path.trim_start_matches('/'));
        for directory in own.ancestors().take_while(|directory| directory.starts_with(&top)) {
            if let Some(most) = first_number(&directory.join("pids.max")) {
                let used = first_number(&directory.join("pids.current")).unwrap_or(0);
                limits.push(limit(format!("the cgroup's pids.max = {most}"), most, used, 1));
            }
        }
    }
    limits
}

fn first_number(path: &Path) -> Option<u64> {
    read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_tightest_limit_is_named() {
        let wide = [
            ("proc/loadavg", "0.1 0.2 0.3 1/744 4711"),
            ("proc/sys/kernel/threads-max", "1000000"),
            ("proc/sys/kernel/pid_max", "1000000"),
            ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 1000000000 kB\n"),
        ];
        let with = |more: &[(&str, &str)]| {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in wide.iter().chain(more) {
                let file = root.path().join(path);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            let found = tightest_limit(root.path(), true).unwrap();
            (found.what, found.room)
        };
        let maps = ("proc/sys/vm/max_map_count", "65530");
        assert_eq!(with(&[maps]), ("vm.max_map_count = 65530".to_owned(), (65530 - RESERVED_THREADS) / 4));
        assert_eq!(with(&[maps, ("proc/sys/kernel/threads-max", "2000")]).1, 1000);
        let memory = ("proc/meminfo", "MemAvailable: 40960 kB\n");
        assert_eq!(with(&[maps, memory]), ("the available memory of 40 MiB".to_owned(), 1024));
        let (v2, v1) = (("proc/self/cgroup", "0::/a/b\n"), ("proc/self/cgroup", "4:cpu:/x\n3:pids:/a\n"));
        let inner = [("sys/fs/cgroup/a/b/pids.max", "max"), ("sys/fs/cgroup/a/pids.max", "100")];
        assert_eq!(with(&[maps, v2, inner[0], inner[1], ("sys/fs/cgroup/a/pids.current", "40")]).1, 60);
        assert_eq!(with(&[maps, v1, ("sys/fs/cgroup/pids/a/pids.max", "77")]).1, 77);
    }

    #[test]
    fn a_few_always_fit() {
        check(4).unwrap();
        let refused = check(usize::MAX).unwrap_err().to_string();
        assert!(refused.starts_with("cannot start 18446744073709551615 threads: "), "{refused}");
    }
}
