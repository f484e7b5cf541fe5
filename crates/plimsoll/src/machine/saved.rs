//! A machine saved as files, to be attached to a report and to become a test: what discovery reads, as it lies below `/`,
//! and CPUID as `cpuid.txt`.
//!
//! What is saved is a list (`SAVED`) and nothing else, so that nothing slips in that names a machine or its user: no host
//! name, address, serial number, path, mount or control group. Of `/proc/cpuinfo` the line with a serial number goes, of the
//! firmware's tables all but memory devices, and of their names all but the slots'.

mod archive;

pub use archive::Archive;

use super::cpuid;
use super::root::{FILE_CAP, Root};
use super::{Machine, smbios};
use std::io;
use std::path::{Path, PathBuf};

/// Files that are saved; `*` stands for any name in its directory.
const SAVED: &[&str] = &[
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/device-tree/model",
    "proc/device-tree/hypervisor/compatible",
    "proc/sys/kernel/arch",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/version",
    "sys/bus/virtio/devices/*/modalias",
    "sys/class/dmi/id/bios_vendor",
    "sys/class/dmi/id/board_vendor",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/devices/cpu_atom/cpus",
    "sys/devices/cpu_core/cpus",
    "sys/devices/cpu_lowpower/cpus",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "sys/devices/system/cpu/cpu*/acpi_cppc/highest_perf",
    "sys/devices/system/cpu/cpu*/acpi_cppc/nominal_freq",
    "sys/devices/system/cpu/cpu*/cache/index*/coherency_line_size",
    "sys/devices/system/cpu/cpu*/cache/index*/level",
    "sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_list",
    "sys/devices/system/cpu/cpu*/cache/index*/size",
    "sys/devices/system/cpu/cpu*/cache/index*/type",
    "sys/devices/system/cpu/cpu*/cache/index*/ways_of_associativity",
    "sys/devices/system/cpu/cpu*/cpu_capacity",
    "sys/devices/system/cpu/cpu*/cpufreq/base_frequency",
    "sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_driver",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_min_freq",
    "sys/devices/system/cpu/cpu*/online",
    "sys/devices/system/cpu/cpu*/regs/identification/midr_el1",
    "sys/devices/system/cpu/cpu*/topology/cluster_id",
    "sys/devices/system/cpu/cpu*/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu*/topology/core_id",
    "sys/devices/system/cpu/cpu*/topology/physical_package_id",
    "sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/devices/system/node/node*/hugepages/*/free_hugepages",
    "sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "sys/devices/system/node/node*/meminfo",
    "sys/hypervisor/type",
    "sys/kernel/mm/hugepages/*/free_hugepages",
    "sys/kernel/mm/hugepages/*/nr_hugepages",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
];

/// Firmware tables of which the first bytes tell who made them.
const TABLES: [&str; 3] = ["APIC", "DSDT", "FACP"];
/// Bytes of a table's header that hold no more than its maker.
const TABLE_HEAD: u64 = 16;

/// Why a machine could not be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// A file or directory could not be made or read.
    #[error("{path}: {cause}; name another")]
    File {
        /// Which one, sanitised.
        path: String,
        /// The system's reason.
        cause: io::Error,
    },
    /// There is something at the place already.
    #[error("{0} exists; name a place that does not, or remove it")]
    Exists(String),
    /// Not a saved machine, or one made to do harm.
    #[error("{path} is no saved machine: {why}")]
    Refused {
        /// Which file, sanitised.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

impl SavedError {
    /// Whether another name is what helps.
    pub fn is_of_the_name(&self) -> bool {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
        match self {
            Self::Exists(_) | Self::Refused { .. } => true,
            Self::File { cause, .. } => {
                matches!(cause.kind(), NotFound | NotADirectory | IsADirectory | PermissionDenied)
            }
        }
    }
}

/// All that is saved of a machine: paths below its root, with their content.
fn files(root: &Root, machine: &Machine) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for pattern in SAVED {
        let mut places = vec![PathBuf::new()];
        for part in pattern.split('/') {
            places = places.into_iter().flat_map(|place| matching(root, &place, part)).collect();
        }
        for place in places {
            if let Ok(bytes) = root.bytes(&place, FILE_CAP) {
                found.push((place, bytes));
            }
        }
    }
    for (path, bytes) in &mut found {
        if path == Path::new("proc/cpuinfo") {
            *bytes = without_serial(bytes);
        }
    }
    for table in TABLES {
        let place = Path::new("sys/firmware/acpi/tables").join(table);
        found.extend(root.head(&place, TABLE_HEAD).ok().map(|head| (place, head)));
    }
    let dmi = Path::new(smbios::TABLE);
    found.extend(root.bytes(dmi, FILE_CAP).ok().map(|table| (dmi.to_owned(), smbios::memory_alone(&table))));
    let allowed = format!("Cpus_allowed_list:\t{}\n", machine.cpu.allowed);
    found.push(("proc/self/status".into(), allowed.into_bytes()));
    if !machine.cpu.cpuid.is_empty() {
        found.push((cpuid::FILE.into(), cpuid::write(&machine.cpu.cpuid).into_bytes()));
    }
    found
}

/// The places that one more part of a pattern leads to.
fn matching(root: &Root, place: &Path, part: &str) -> Vec<PathBuf> {
    let Some((before, _)) = part.split_once('*') else { return vec![place.join(part)] };
    let is_one = |name: &String| {
        let rest = name.strip_prefix(before).unwrap_or_default();
        !rest.is_empty() && (before.is_empty() || rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names = root.names(place).unwrap_or_default();
    names.into_iter().filter(is_one).map(|name| place.join(name)).collect()
}

/// `/proc/cpuinfo` without the line that some Arm kernels write the board's serial number to.
fn without_serial(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.to_ascii_lowercase().starts_with(b"serial")).flatten().copied().collect()
}

/// Saves a machine that was discovered below `root` as the directory or, by its name, the archive at `to`.
///
/// # Errors
/// The place is taken or cannot be written.
pub fn save(root: &Root, machine: &Machine, to: &Path) -> Result<(), SavedError> {
    let files = files(root, machine);
    if archive::is_named(to) {
        return archive::write(to, &files);
    }
    let failed = |path: &Path, cause: io::Error| SavedError::File { path: shown(path), cause };
    match std::fs::create_dir(to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(SavedError::Exists(shown(to))),
        made => made.map_err(|e| failed(to, e))?,
    }
    for (path, bytes) in files {
        let path = to.join(path);
        let parent = path.parent().unwrap_or(to);
        std::fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
        std::fs::write(&path, bytes).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

/// A saved machine that is open for reading: a directory, or an archive unpacked for as long as this lives.
pub enum Opened {
    /// A directory.
    Directory(Root),
    /// An archive.
    Archive(Archive),
}

impl Opened {
    /// Opens the directory or archive at `from`.
    ///
    /// # Errors
    /// It is not there, or no saved machine.
    pub fn at(from: &Path) -> Result<Self, SavedError> {
        let about = std::fs::metadata(from).map_err(|cause| SavedError::File { path: shown(from), cause })?;
        if about.is_dir() {
            let is_machine = ["sys", "proc", cpuid::FILE].iter().any(|name| from.join(name).exists());
            let is_live = from.canonicalize().is_ok_and(|path| path == Path::new("/"));
            if !is_machine || is_live {
                let why = format!("it has none of sys, proc and {}, or is this system's root", cpuid::FILE);
                return Err(SavedError::Refused { path: shown(from), why });
            }
            return Ok(Self::Directory(Root::at(from)));
        }
        archive::read(from).map(Self::Archive)
    }

    /// Where discovery reads.
    pub fn root(&self) -> Root {
        match self {
            Self::Directory(root) => root.clone(),
            Self::Archive(archive) => Root::at(archive.path()),
        }
    }
}

fn shown(path: &Path) -> String {
    crate::text::shown_bytes(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))
}

#[cfg(test)]
mod tests;
