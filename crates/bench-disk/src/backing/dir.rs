//! The directory of the test files: usability, file system, and largest file.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::backing::FileSystemKind;
use crate::display::human;
use plimsoll_bench_api::RequestedSize;
use plimsoll_machine::{Machine, Medium, Root, storage_behind};
use plimsoll_model::sample::CannotMeasure;
use plimsoll_system::links::LinkError;
use plimsoll_units::text::shown_path;

/// Properties of a usable directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirFacts {
    /// Path without symbolic links.
    pub path: PathBuf,
    /// Mount point of its file system.
    pub mount: PathBuf,
    /// File system.
    pub file_system: FileSystemKind,
    /// Bytes available to this user (`f_bavail`, without root's reserve).
    pub available: u64,
    /// Largest file that this process may write, in bytes (RLIMIT_FSIZE).
    pub file_size_limit: Option<u64>,
}

/// Size of a test file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSize {
    /// Bytes.
    pub bytes: u64,
    /// Reason why it is less than requested, if it is.
    pub reduced: Option<String>,
}

/// Least free space that is never used, in bytes; also a tenth. A full file system hurts all users.
const RESERVE: u64 = 1 << 30;

/// Checks, creating nothing, that `dir` can hold test files; returns its file system and free
/// space. The cause of a failure is `Unsafe` if another user could redirect the path.
pub(crate) fn check_dir(dir: &Path) -> Result<DirFacts, CannotMeasure> {
    let name = shown_path(dir);
    let refused = |why: &str| CannotMeasure::environment(format!("--dir {name}{why}"));
    let other = |errno: Errno| refused(&format!(" cannot be used: {errno}; use another directory"));
    let is_device = dir.starts_with("/dev") && !dir.is_dir();
    let instead = if is_device { "; --target measures a device" } else { "" };
    let not_a_directory =
        || CannotMeasure::environment(format!("--dir must be a directory: {name} is not{instead}"));
    let no_permission = || refused(": no permission to create files there; use a directory of your own");
    let failed = |error: &io::Error| match Errno::from_io_error(error) {
        Some(Errno::NOENT) if is_device => not_a_directory(),
        Some(Errno::NOENT) => refused(" does not exist; create it, or name one other directory"),
        Some(Errno::NOTDIR) => not_a_directory(),
        Some(Errno::ACCESS) => no_permission(),
        errno => other(errno.unwrap_or(Errno::INVAL)),
    };
    let path = plimsoll_system::links::directory(dir).map_err(|error| match error {
        LinkError::Refused(why) => {
            CannotMeasure::refused(format!("--dir {name} is not used, for safety: {why}"))
        }
        LinkError::Failed(error) => failed(&error),
    })?;
    let metadata = path.metadata().map_err(|e| failed(&e))?;
    if !metadata.is_dir() {
        return Err(not_a_directory());
    }
    let mount = mount_point(&path);
    let vfs = rustix::fs::statvfs(&path).map_err(other)?;
    let read_only = || {
        let mount = shown_path(&mount);
        refused(&format!(" is on {mount}, which is mounted read-only; use another directory"))
    };
    if vfs.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(read_only());
    }
    if vfs.f_blocks == 0 {
        let why =
            " cannot be used: its file system stores no files (its size is 0 bytes); use another directory";
        return Err(refused(why));
    }
    // devtmpfs has the magic of tmpfs; a container has a tmpfs instead.
    if mount == Path::new("/dev") && !path.starts_with("/dev/shm") {
        let why = " cannot be used: it holds devices, not files; use another directory, or --target DEVICE";
        return Err(refused(why));
    }
    may_create(&path).map_err(|errno| match errno {
        Errno::ROFS => read_only(),
        Errno::ACCESS => no_permission(),
        Errno::PERM => {
            refused(": nobody can create files there (immutable? see lsattr -d); use another directory")
        }
        errno => other(errno),
    })?;
    let file_system = file_system(&path).map_err(other)?;
    Ok(DirFacts {
        mount,
        path,
        file_system,
        available: vfs.f_bavail.saturating_mul(vfs.f_frsize),
        file_size_limit: getrlimit(Resource::Fsize).current,
    })
}

/// Returns the kind of file system at `path`. An overlay with its upper part in memory is memory.
fn file_system(path: &Path) -> Result<FileSystemKind, Errno> {
    let magic = rustix::fs::statfs(path)?.f_type;
    // The magic is 32 bits on every architecture; this cuts off a sign extension.
    let own = FileSystemKind::from_magic((magic as u64 & 0xffff_ffff) as u32);
    let medium = || storage_behind(&Root::live(), path).file_system.map(|known| known.medium);
    let is_in_memory = own.name == Some("overlay") && medium() == Some(Medium::Memory);
    Ok(if is_in_memory { FileSystemKind { medium: Some(Medium::Memory), ..own } } else { own })
}

fn may_create(dir: &Path) -> Result<(), Errno> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::accessat(CWD, dir, access, AtFlags::EACCESS) {
        // Before Linux 5.8 only the real user can be checked.
        Err(Errno::NOSYS) => rustix::fs::accessat(CWD, dir, access, AtFlags::empty()),
        answer => answer,
    }
}

/// Returns the mount point of `path`: the highest parent on the same device and, if the kernel
/// reports mount ids, on the same mount, because a bind mount has the same device.
fn mount_point(path: &Path) -> PathBuf {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let place = |path: &Path| {
        let found = rustix::fs::statx(CWD, path, AtFlags::NO_AUTOMOUNT, wanted).ok()?;
        let mount = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
        Some((found.stx_dev_major, found.stx_dev_minor, mount.then_some(found.stx_mnt_id)))
    };
    let own = place(path);
    let same = |p: &&Path| own.is_some() && place(p) == own;
    path.ancestors().take_while(same).last().unwrap_or(path).to_owned()
}

impl DirFacts {
    /// Returns these facts with the free space of a file system in memory limited to the available
    /// memory of `machine`, because a full tmpfs gets processes killed.
    #[must_use]
    pub fn within_memory(self, machine: &Machine) -> Self {
        let in_memory = self.file_system.medium == Some(Medium::Memory);
        let bytes = machine.memory_available_bytes().filter(|_| in_memory);
        DirFacts { available: bytes.map_or(self.available, |bytes| self.available.min(bytes)), ..self }
    }

    /// Returns the size of a test file: the most of `size`, or what the free space without a tenth
    /// (at least 1 GiB) and `RLIMIT_FSIZE` allow. Fails if that is less than the least of `size`.
    pub fn file_size(&self, size: RequestedSize) -> Result<FileSize, CannotMeasure> {
        let (least, most) = match size {
            RequestedSize::Exactly(bytes) => (bytes, bytes),
            RequestedSize::Between { least, most } => (least, most.max(least)),
        };
        let reserve = (self.available / 10).max(RESERVE);
        let spare = self.available.saturating_sub(reserve);
        let (free, kept) = (human(self.available), human(reserve));
        let why = match spare {
            0 => format!("{free} are free, and {kept} stay free"),
            _ => format!("{free} are free, of which {kept} stay free"),
        };
        let mut bound = (spare, why, "use a smaller --size or another --dir");
        if let Some(limit) = self.file_size_limit.filter(|limit| *limit < spare) {
            let why = format!("RLIMIT_FSIZE is {} (ulimit -f)", human(limit));
            bound = (limit, why, "raise ulimit -f, or give a smaller --size");
        }
        let (has, why, remedy) = bound;
        if has < least {
            return Err(CannotMeasure::environment(format!(
                "the test file needs {}, and only {} can be used on {}: {why}; {remedy}",
                human(least),
                human(has),
                shown_path(&self.mount)
            )));
        }
        Ok(FileSize { bytes: has.min(most), reduced: (has < most).then_some(why) })
    }

    /// Returns an error text if less than 512 MiB are free on the file system of `file`: other
    /// programs fill it, so the test file must go. `None` if enough is free, and for a device.
    pub fn low_space_message(&self, file: impl AsFd) -> Option<String> {
        if self.file_system == FileSystemKind::NO_FILE_SYSTEM {
            return None;
        }
        let vfs = rustix::fs::fstatvfs(file).ok()?;
        let free = vfs.f_bavail.saturating_mul(vfs.f_frsize);
        let mount = shown_path(&self.mount);
        (free < RESERVE / 2).then(|| {
            format!(
                "only {} are left on {mount}, so the test file was removed: another program fills the file system, or it keeps overwritten data; use another --dir",
                human(free)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_file_system_that_others_fill_is_given_up() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = std::fs::File::create(dir.path().join("file")).expect("create");
        let said = facts(GIB, None).low_space_message(&file);
        assert_eq!(said, None, "this test needs half a gibibyte of free space");
        let device = DirFacts { file_system: FileSystemKind::NO_FILE_SYSTEM, ..facts(GIB, None) };
        let none = || std::fs::File::open("/proc/self").expect("no space at all");
        assert_eq!(device.low_space_message(none()), None);
        let full = facts(GIB, None).low_space_message(none());
        assert!(full.is_some_and(|text| text.contains("only 0 B are left on /data")));
    }

    fn facts(available: u64, file_size_limit: Option<u64>) -> DirFacts {
        let (path, mount) = ("/data/test".into(), "/data".into());
        let file_system = FileSystemKind::from_magic(0xef53);
        DirFacts { path, mount, file_system, available, file_size_limit }
    }

    #[test]
    fn a_file_system_in_memory_is_bounded_by_memory() {
        let mut machine = Machine::discover(&Root::live());
        machine.memory.available_bytes = Some(3 * GIB);
        machine.cgroup.memory = None;
        let tmpfs = FileSystemKind::from_magic(0x0102_1994);
        let of = |file_system| DirFacts { file_system, ..facts(100 * GIB, None) }.within_memory(&machine);
        assert_eq!(of(tmpfs).file_size(RequestedSize::Exactly(2 * GIB)).map(|size| size.bytes), Ok(2 * GIB));
        assert!(of(tmpfs).file_size(RequestedSize::Exactly(2 * GIB + 1)).is_err());
        let ext4 = FileSystemKind::from_magic(0xef53);
        assert!(of(ext4).file_size(RequestedSize::Exactly(20 * GIB)).is_ok());
    }

    #[test]
    fn a_usable_directory_is_described() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = check_dir(dir.path()).expect("usable");
        assert!(facts.path.starts_with(&facts.mount));
        assert!(facts.file_system.name.is_some());
        assert!(facts.available > 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
    }

    #[test]
    fn a_directory_of_devices_or_without_a_size_holds_no_files() {
        if mount_point(Path::new("/dev")) == Path::new("/dev") {
            let refused = check_dir(Path::new("/dev")).expect_err("devices");
            assert!(refused.reason.starts_with("--dir /dev cannot be used: it holds devices"), "{refused}");
        }
        for none in ["/proc", "/sys"] {
            let refused = check_dir(Path::new(none)).expect_err("no files");
            let why = ["its size is 0 bytes", "is mounted read-only"];
            assert!(why.iter().any(|why| refused.reason.contains(why)), "{refused}");
        }
        let refused = check_dir(Path::new("/proc/self")).expect_err("no place for files").to_string();
        assert!(refused.contains("/proc/self") && refused.contains("0 bytes"), "{refused}");
        let other = ["does not exist", "must be a directory"];
        assert!(!other.iter().any(|other| refused.contains(other)), "{refused}");
    }

    #[test]
    fn the_mount_point_of_proc_is_proc() {
        // A container may have a part of /proc bound read-only.
        assert_eq!(mount_point(Path::new("/proc/self/net")), Path::new("/proc"));
        assert_eq!(mount_point(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn what_is_not_a_directory_is_refused_by_name() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("write");
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("fifo");
        for path in [&file, &fifo, Path::new("/dev/null"), &file.join("under")] {
            let refused = check_dir(path).expect_err("no directory");
            assert!(refused.reason.starts_with("--dir must be a directory: "), "{path:?}: {refused}");
        }
        let missing = check_dir(&dir.path().join("none\u{1b}[31m\n")).expect_err("missing");
        assert!(missing.reason.contains(" does not exist; "), "{missing}");
        assert!(!missing.to_string().contains(['\u{1b}', '\n']), "{missing}");
    }

    #[test]
    fn a_tenth_and_at_least_a_gibibyte_stay_free() {
        let most = RequestedSize::Between { least: 64 << 20, most: GIB };
        assert_eq!(facts(100 * GIB, None).file_size(most), Ok(FileSize { bytes: GIB, reduced: None }));
        let reduced = facts(GIB + GIB / 2, None).file_size(most).expect("fits");
        assert_eq!(reduced.bytes, GIB / 2);
        assert!(reduced.reduced.is_some());
        let refused = facts(GIB + 1, None).file_size(most).expect_err("too little");
        let text = refused.to_string();
        let start = "the test file needs 64 MiB, and only 1 B can be used on /data: ";
        assert!(text.starts_with(start) && text.contains("1 GiB"), "{text}");
        let said = facts(90 * GIB, None).file_size(RequestedSize::Exactly(81 * GIB)).map(|s| s.bytes);
        assert_eq!(said, Ok(81 * GIB));
        assert!(facts(90 * GIB, None).file_size(RequestedSize::Exactly(81 * GIB + 1)).is_err());
    }

    #[test]
    fn the_file_size_limit_is_named() {
        let limited = facts(100 * GIB, Some(1 << 20));
        let refused = limited.file_size(RequestedSize::Exactly(GIB)).expect_err("too large");
        assert!(refused.to_string().contains("RLIMIT_FSIZE is 1 MiB"), "{refused}");
        assert!(refused.to_string().ends_with("raise ulimit -f, or give a smaller --size"), "{refused}");
        let none = facts(200 << 20, None).file_size(RequestedSize::Exactly(GIB)).expect_err("too little");
        assert!(none.to_string().contains("200 MiB are free, and 1 GiB stay free"), "{none}");
        let reduced = limited.file_size(RequestedSize::Between { least: 4096, most: GIB });
        assert_eq!(reduced.map(|s| s.bytes), Ok(1 << 20));
    }

    proptest! {
        #[test]
        fn the_reserve_is_never_touched(available: u64, limit: Option<u64>, least: u64, most: u64) {
            if let Ok(size) = facts(available, limit).file_size(RequestedSize::Between { least, most }) {
                prop_assert!(size.bytes <= available - (available / 10).max(GIB));
                prop_assert!(size.bytes >= least);
                prop_assert!(limit.is_none_or(|limit| size.bytes <= limit));
            }
        }
    }
}
