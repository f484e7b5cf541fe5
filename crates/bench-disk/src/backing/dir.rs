//! The directory of the test files: usability, file system, and largest file.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::display::human;
use plimsoll_bench_api::RequestedSize;
use plimsoll_machine::{Machine, Medium, MountedFileSystem, Root, storage_behind};
use plimsoll_model::sample::CannotMeasure;
use plimsoll_system::links::LinkError;
use plimsoll_units::text::shown_path;

/// Properties of a usable directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirFacts {
    /// Path without symbolic links.
    pub path: PathBuf,
    /// File system; `None` if unknown, such as without /proc.
    pub file_system: Option<MountedFileSystem>,
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
pub(super) const RESERVE: u64 = 1 << 30;

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
    let vfs = rustix::fs::statvfs(&path).map_err(other)?;
    let facts = DirFacts {
        file_system: storage_behind(&Root::live(), &path).file_system,
        path,
        available: vfs.f_bavail.saturating_mul(vfs.f_frsize),
        file_size_limit: getrlimit(Resource::Fsize).current,
    };
    let read_only = || {
        let mount = facts.mount_point();
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
    // By its mount point, because a container has a tmpfs instead of a devtmpfs.
    let of_devices = facts.file_system.as_ref().is_none_or(|fs| fs.mount_point == "/dev");
    if of_devices && facts.path.starts_with("/dev") && !facts.path.starts_with("/dev/shm") {
        let why = " cannot be used: it holds devices, not files; use another directory, or --target DEVICE";
        return Err(refused(why));
    }
    may_create(&facts.path).map_err(|errno| match errno {
        Errno::ROFS => read_only(),
        Errno::ACCESS => no_permission(),
        Errno::PERM => {
            refused(": nobody can create files there (immutable? see lsattr -d); use another directory")
        }
        errno => other(errno),
    })?;
    Ok(facts)
}

fn may_create(dir: &Path) -> Result<(), Errno> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::accessat(CWD, dir, access, AtFlags::EACCESS) {
        // Before Linux 5.8 only the real user can be checked.
        Err(Errno::NOSYS) => rustix::fs::accessat(CWD, dir, access, AtFlags::empty()),
        answer => answer,
    }
}

impl DirFacts {
    /// Returns the mount point, or the directory if that is unknown, as printable text.
    pub(super) fn mount_point(&self) -> String {
        self.file_system.as_ref().map_or_else(|| shown_path(&self.path), |fs| fs.mount_point.clone())
    }

    /// Returns the type of the file system, such as `ext4`.
    pub(crate) fn fs_type(&self) -> &str {
        self.file_system.as_ref().map_or("unknown file system", |fs| fs.fs_type.as_str())
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.file_system.as_ref().is_some_and(|fs| fs.medium == Medium::Memory)
    }

    /// Returns these facts with the free space of a file system in memory limited to the available
    /// memory of `machine`, because a full tmpfs gets processes killed.
    #[must_use]
    pub fn within_memory(self, machine: &Machine) -> Self {
        let bytes = machine.memory_available_bytes().filter(|_| self.is_in_memory());
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
        let and = if spare == 0 { "and" } else { "of which" };
        let why = format!("{free} are free, {and} {kept} stay free");
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
                self.mount_point()
            )));
        }
        Ok(FileSize { bytes: has.min(most), reduced: (has < most).then_some(why) })
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::fixture::mounted;
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn facts(available: u64, file_size_limit: Option<u64>) -> DirFacts {
        let file_system = Some(MountedFileSystem { mount_point: "/data".to_owned(), ..mounted("ext4") });
        DirFacts { path: "/data/test".into(), file_system, available, file_size_limit }
    }

    #[test]
    fn a_file_system_in_memory_is_bounded_by_memory() {
        let mut machine = Machine::discover(&Root::live());
        machine.memory.available_bytes = Some(3 * GIB);
        machine.cgroup.memory = None;
        let of = |fs_type| {
            let file_system = Some(mounted(fs_type));
            DirFacts { file_system, ..facts(100 * GIB, None) }.within_memory(&machine)
        };
        let fits = of("tmpfs").file_size(RequestedSize::Exactly(2 * GIB));
        assert_eq!(fits.map(|size| size.bytes), Ok(2 * GIB));
        assert!(of("tmpfs").file_size(RequestedSize::Exactly(2 * GIB + 1)).is_err());
        assert!(of("ext4").file_size(RequestedSize::Exactly(20 * GIB)).is_ok());
    }

    #[test]
    fn a_usable_directory_is_described() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = check_dir(dir.path()).expect("usable");
        assert!(facts.file_system.as_ref().is_some_and(|fs| facts.path.starts_with(&fs.mount_point)));
        assert!(facts.available > 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 0);
    }

    #[test]
    fn a_directory_of_devices_or_without_a_size_holds_no_files() {
        let dev = storage_behind(&Root::live(), Path::new("/dev")).file_system;
        if dev.is_some_and(|fs| fs.mount_point == "/dev") {
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
    fn an_unknown_file_system_is_not_memory_and_has_the_directorys_name() {
        let unknown = DirFacts { file_system: None, ..facts(GIB, None) };
        assert!(!unknown.is_in_memory());
        assert_eq!(
            (unknown.fs_type(), unknown.mount_point().as_str()),
            ("unknown file system", "/data/test")
        );
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
