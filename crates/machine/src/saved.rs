//! A machine saved for reports and tests, without serial numbers, host names and addresses.

mod archive;
mod disks;
mod groups;
mod health;
mod rename;

use super::root::{CPUINFO_CAP, FILE_CAP, Root};
use super::virtualisation::{BANNER, FIRST_NAMESPACES, is_gvisor, namespace};
use super::{Machine, cpuid, smbios};
use plimsoll_units::text::shown_path;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Saved files by directory; `*` matches any name in its directory.
const SAVED: &[(&str, &str)] = &[
    ("proc", "cpuinfo meminfo pressure/cpu pressure/io pressure/memory device-tree/model"),
    ("proc", "device-tree/hypervisor/compatible sys/kernel/arch sys/kernel/osrelease sys/kernel/version"),
    ("run/systemd", "container"),
    ("sys/bus/virtio/devices/*", "modalias"),
    ("sys/class/dmi/id", "bios_vendor board_vendor product_name sys_vendor"),
    ("sys/class/powercap/*", "energy_uj max_energy_range_uj name"),
    ("sys/devices", "cpu_atom/cpus cpu_core/cpus cpu_lowpower/cpus"),
    ("sys/devices/system/clocksource/clocksource0", "available_clocksource"),
    ("sys/devices/system/cpu", "cpufreq/boost intel_pstate/no_turbo online present vulnerabilities/*"),
    ("sys/devices/system/cpu/cpu*", "cpu_capacity microcode/version online regs/identification/midr_el1"),
    ("sys/devices/system/cpu/cpu*/acpi_cppc", "highest_perf nominal_freq"),
    ("sys/devices/system/cpu/cpu*/cache/index*", "coherency_line_size level shared_cpu_list size type"),
    ("sys/devices/system/cpu/cpu*/cache/index*", "ways_of_associativity"),
    ("sys/devices/system/cpu/cpu*/cpufreq", "base_frequency cpuinfo_max_freq scaling_driver"),
    ("sys/devices/system/cpu/cpu*/cpufreq", "scaling_governor scaling_min_freq"),
    ("sys/devices/system/cpu/cpu*/thermal_throttle", "core_throttle_count package_throttle_count"),
    ("sys/devices/system/cpu/cpu*/topology", "cluster_id core_cpus_list core_id physical_package_id"),
    ("sys/devices/system/cpu/cpu*/topology", "thread_siblings_list"),
    ("sys/devices/system/edac/mc/mc*", "ce_count ue_count"),
    ("sys/devices/system/node/node*", "cpulist distance meminfo"),
    ("sys/devices/system/node/node*/hugepages/*", "free_hugepages nr_hugepages"),
    ("sys/hypervisor", "type"),
    ("sys/kernel/mm/hugepages/*", "free_hugepages nr_hugepages"),
    ("sys/kernel/mm/transparent_hugepage", "defrag enabled hpage_pmd_size"),
];

/// Ends of names of archives that are not written.
const OTHER_ARCHIVES: [&str; 10] = ["json", "zip", "tar", "gz", "xz", "txz", "bz2", "tbz2", "zst", "7z"];

/// Firmware tables whose header identifies their maker.
const TABLES: [&str; 3] = ["APIC", "DSDT", "FACP"];
const TABLE_HEAD: u64 = 16;

/// Reason why a machine could not be saved or opened.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// A file or directory cannot be created or read.
    #[error("{0}: {1}; use another (plimsoll machine --save FILE.tar.gz saves a machine)")]
    File(String, io::Error),
    /// The path exists already.
    #[error("{0} exists; use a new name")]
    Exists(String),
    /// The name is that of another kind of archive.
    #[error(
        "{0} must be a new directory or FILE.tar.gz: no other file is written (plimsoll machine --json prints JSON)"
    )]
    Archive(String),
    /// Not a saved machine, or a malicious one.
    #[error("{0} is not a saved machine: {1}")]
    Refused(String, String),
}

impl SavedError {
    /// Returns whether another path may succeed; false for other I/O errors, such as a full disk.
    pub fn is_of_the_name(&self) -> bool {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
        match self {
            Self::Exists(_) | Self::Archive(_) | Self::Refused(..) => true,
            Self::File(_, cause) => {
                matches!(cause.kind(), NotFound | NotADirectory | IsADirectory | PermissionDenied)
            }
        }
    }
}

const MARKS: [&str; 2] = [".dockerenv", "run/.containerenv"];
/// Hypervisor buses with device names of their own: only the presence of a device is saved.
const BUSES: [&str; 2] = ["sys/bus/vmbus/devices", "sys/bus/xen/devices"];

#[derive(Debug, Default)]
struct SavedContent {
    files: BTreeMap<PathBuf, Vec<u8>>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl SavedContent {
    fn file(&mut self, path: impl AsRef<Path>, bytes: Vec<u8>) {
        self.files.insert(below(path.as_ref()), bytes);
    }

    fn copy(&mut self, root: &Root, from: impl AsRef<Path>, to: impl AsRef<Path>) {
        if let Ok(bytes) = root.bytes(from.as_ref(), FILE_CAP) {
            self.file(to, bytes);
        }
    }

    fn link(&mut self, path: impl AsRef<Path>, to: impl AsRef<Path>) {
        let (path, to) = (below(path.as_ref()), below(to.as_ref()));
        if path != to {
            self.links.insert(path, to);
        }
    }

    /// Returns (path, relative target) of each link whose path is no file or directory.
    fn relative_links(&self) -> impl Iterator<Item = (&Path, PathBuf)> {
        let is_free = |path: &Path| {
            self.files.range(path.to_owned()..).next().is_none_or(|(next, _)| !next.starts_with(path))
        };
        let free = self.links.iter().filter(move |(path, _)| is_free(path));
        free.map(|(path, to)| {
            let up = path.parent().map_or(0, |parent| parent.components().count());
            (path.as_path(), std::iter::repeat_n(Path::new(".."), up).chain([to.as_path()]).collect())
        })
    }
}

fn below(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

fn content(root: &Root, machine: &Machine) -> SavedContent {
    let mut content = SavedContent::default();
    let patterns =
        SAVED.iter().flat_map(|(dir, names)| names.split(' ').map(move |name| format!("{dir}/{name}")));
    for pattern in patterns {
        let mut places = vec![PathBuf::new()];
        for part in pattern.split('/') {
            places = places.into_iter().flat_map(|place| matching(root, &place, part)).collect();
        }
        for place in places {
            content.copy(root, &place, &place);
        }
    }
    if let Ok(text) = root.bytes(Path::new("proc/cpuinfo"), CPUINFO_CAP) {
        // Some Arm kernels show the board's serial number.
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let kept = lines.filter(|line| !line.to_ascii_lowercase().starts_with(b"serial"));
        content.file("proc/cpuinfo", kept.flatten().copied().collect());
    }
    for table in TABLES {
        let place = Path::new("sys/firmware/acpi/tables").join(table);
        if let Ok(head) = root.head(&place, TABLE_HEAD) {
            content.file(place, head);
        }
    }
    if let Ok(table) = root.bytes(Path::new(smbios::SMBIOS_TABLE), FILE_CAP) {
        content.file(smbios::SMBIOS_TABLE, smbios::keep_memory_devices(&table));
    }
    content.file("proc/self/status", format!("Cpus_allowed_list:\t{}\n", machine.cpu.allowed).into_bytes());
    if !machine.cpu.cpuid.is_empty() {
        content.file(cpuid::CPUID_FILE, cpuid::write(&machine.cpu.cpuid).into_bytes());
    }
    environment(root, machine, &mut content);
    let mut names = rename::NumberedNames::default();
    groups::add(root, &mut names, &mut content);
    disks::add(root, machine, &mut names, &mut content);
    health::add(root, &mut names, &mut content);
    content
}

/// Adds files that show container, hypervisor, instance type, load and CPU times to `content`.
fn environment(root: &Root, machine: &Machine, content: &mut SavedContent) {
    for mark in MARKS.into_iter().filter(|mark| root.exists(mark)) {
        content.file(mark, Vec::new());
    }
    if let Ok(banner) = root.line(BANNER)
        && is_gvisor(&banner)
    {
        content.file(BANNER, banner.into_bytes());
    }
    for bus in BUSES {
        if root.names(bus).is_ok_and(|names| !names.is_empty()) {
            content.file(Path::new(bus).join("device-1/modalias"), Vec::new());
        }
    }
    for (name, _) in FIRST_NAMESPACES {
        if let Some(own) = namespace(root, name) {
            content.file(Path::new("proc/self/ns").join(name), own.into_bytes());
        }
    }
    if let Some(instance) = &machine.virtualisation.instance {
        let kept = serde_json::json!({ "v1": { "cloud_name": "aws" }, "ds": { "meta_data": { "instance-type": instance } } });
        content.file(super::virtualisation::METADATA, kept.to_string().into_bytes());
    }
    if let Some(load) = &machine.state.load {
        let text = format!("{} {} {}\n", load.minute_1, load.minutes_5, load.minutes_15);
        content.file("proc/loadavg", text.into_bytes());
    }
    let stat = root.head(Path::new("proc/stat"), FILE_CAP).unwrap_or_default();
    let of_cpus = stat.split_inclusive(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"cpu"));
    let of_cpus: Vec<u8> = of_cpus.filter(|line| line.ends_with(b"\n")).flatten().copied().collect();
    if !of_cpus.is_empty() {
        content.file("proc/stat", of_cpus);
    }
}

/// Returns the paths in `place` that match `part`: a name, `*`, or `cpu*` for `cpu` and a number.
fn matching(root: &Root, place: &Path, part: &str) -> Vec<PathBuf> {
    let Some((before, _)) = part.split_once('*') else { return vec![place.join(part)] };
    let is_one = |name: &String| {
        let rest = name.strip_prefix(before).unwrap_or_default();
        !rest.is_empty() && (before.is_empty() || rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names = root.names(place).unwrap_or_default();
    names.into_iter().filter(is_one).map(|name| place.join(name)).collect()
}

/// Writes what `machine` was discovered from below `root`, without private names, to the directory
/// or `.tar.gz` `to`. Fails if `to` exists.
pub fn save(root: &Root, machine: &Machine, to: &Path) -> Result<(), SavedError> {
    let content = content(root, machine);
    if archive::is_named(to) {
        return archive::write(to, &content);
    }
    if to.extension().is_some_and(|end| OTHER_ARCHIVES.iter().any(|known| end == *known)) {
        return Err(SavedError::Archive(shown_path(to)));
    }
    let failed = |path: &Path, cause: io::Error| SavedError::File(shown_path(path), cause);
    match std::fs::create_dir(to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(SavedError::Exists(shown_path(to))),
        made => made.map_err(|e| failed(to, e))?,
    }
    let place = |path: &Path| {
        let path = to.join(path);
        let parent = path.parent().unwrap_or(to);
        std::fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
        Ok::<PathBuf, SavedError>(path)
    };
    for (path, bytes) in &content.files {
        let path = place(path)?;
        std::fs::write(&path, bytes).map_err(|e| failed(&path, e))?;
    }
    for (path, target) in content.relative_links() {
        let path = place(path)?;
        std::os::unix::fs::symlink(target, &path).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

/// Opens a saved machine: a directory, or a `.tar.gz`, which is read into memory. Fails for `/`,
/// and for anything without any of `sys`, `proc` and `cpuid.txt`.
pub fn open(from: &Path) -> Result<Root, SavedError> {
    let refused = |why: &str| Err(SavedError::Refused(shown_path(from), why.to_owned()));
    let about = std::fs::metadata(from).map_err(|cause| SavedError::File(shown_path(from), cause))?;
    let root = match about.is_dir() {
        true => Root::at(from),
        false if about.is_file() => Root::in_memory(archive::read(from)?),
        false => return refused("it is neither a directory nor a file"),
    };
    if root.is_live() {
        return refused("it is this system's root");
    }
    let is_machine = MARKS_OF_A_MACHINE.iter().any(|name| root.exists(name));
    if is_machine { Ok(root) } else { refused("it has none of sys, proc and cpuid.txt") }
}

const MARKS_OF_A_MACHINE: [&str; 3] = ["sys", "proc", cpuid::CPUID_FILE];

#[cfg(test)]
mod tests;
