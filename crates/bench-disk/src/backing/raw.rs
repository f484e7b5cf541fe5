//! A block device as the target, without a file system (`--target`). It is only read, unless the
//! command line (no plan, no variable) repeats the device with its serial number
//! (`--destroy-data-on`). Any write requires a claim (`backing::claim`).

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::backing::RawError;
use crate::backing::block_device::{ProbedDevice, probe_device};
use crate::backing::claim::Claim;
use crate::backing::regular_file::open_flags;
use plimsoll_bench_api::prelude::*;
use plimsoll_bench_api::{Consent, RawTarget};
use plimsoll_machine::Root;
use plimsoll_machine::disk::thing::FileOrDevice;
use plimsoll_machine::disk::users;
use plimsoll_model::job::disk::{CacheMode, DiskOperation, DiskTransfers};
use plimsoll_units::text::{shown, shown_path};

/// An open device.
#[derive(Debug)]
pub struct RawDevice {
    /// Open read-only or, if claimed, exclusively for writing.
    pub file: File,
    /// Name as typed.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Claim required for writing; `None` for a device that is only read.
    pub claim: Option<Claim>,
}

impl RawDevice {
    /// Fails if the device was claimed for writing and is in use or has changed since.
    pub fn recheck(&self, root: &Root) -> Result<(), RawError> {
        let Some(claim) = &self.claim else { return Ok(()) };
        claim.found_unused(root, &self.name, &self.file).map(drop)
    }
}

/// Opens the device of `target` read-only or, with `--destroy-data-on`, for writing: then it must
/// be the device of that option, unused and empty, and is claimed exclusively against mounts.
pub fn open(target: &RawTarget, root: &Root, cache: CacheMode) -> Result<RawDevice, RawError> {
    let name = shown_path(&target.device);
    let looked = probe_device(&target.device)?;
    let open = |writes| reopen(&target.device, cache, writes).map_err(|error| open_error(&name, error));
    let (file, claim) = match &target.consent {
        None => (open(false)?, None),
        Some(consent) => {
            check_consent(target, root, consent, &looked)?;
            let (file, claim) = Claim::acquire(root, &name, &looked, || open(true))?;
            (file, Some(claim))
        }
    };
    if FileOrDevice::of_open(&file) != Some(FileOrDevice::Block(looked.number)) {
        return Err(RawError::Refused(format!("{name} became another device while it was being checked")));
    }
    Ok(RawDevice { file, name, bytes: looked.bytes, claim })
}

/// Fails if the device of `target`, probed as `looked`, is read-only, or if `consent` has another
/// device or serial number (the size in bytes if the device has no serial number).
fn check_consent(
    target: &RawTarget,
    root: &Root,
    consent: &Consent,
    looked: &ProbedDevice,
) -> Result<(), RawError> {
    let name = shown_path(&target.device);
    let refused = |why: String| Err(RawError::Refused(why));
    if probe_device(&consent.device).ok().map(|other| other.number) != Some(looked.number) {
        return refused(format!(
            "--destroy-data-on and --target must be the same device: {} and {name} are not",
            shown_path(&consent.device)
        ));
    }
    let serial = users::serial(root, looked.number);
    let (what, right) = match &serial {
        Some(serial) => ("serial number", serial.clone()),
        None => ("size in bytes (it has no serial number)", looked.bytes.to_string()),
    };
    if right != consent.serial {
        return refused(format!(
            "--destroy-data-on must have the {what} of {name}: '{}' is not; see lsblk -b -o \
             NAME,SERIAL,SIZE,MOUNTPOINTS",
            shown(&consent.serial)
        ));
    }
    if users::is_read_only(root, looked.number) {
        return refused(format!("{name} is read-only: nothing can be written to it"));
    }
    Ok(())
}

fn reopen(device: &Path, cache: CacheMode, writes: bool) -> std::io::Result<File> {
    let mut flags = OFlags::CLOEXEC | open_flags(cache);
    flags.set(OFlags::EXCL, writes);
    File::options().read(true).write(writes).custom_flags(flags.bits().cast_signed()).open(device)
}

fn open_error(name: &str, error: std::io::Error) -> RawError {
    match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => RawError::Refused(format!(
            "{name} is in use: the kernel gives no exclusive claim (EBUSY), so it is mounted, perhaps in another mount \
             namespace, or part of another device; nothing was written to it"
        )),
        Some(Errno::INVAL) => {
            RawError::Failed(format!("{name} refuses O_DIRECT, so the page cache cannot be bypassed"))
        }
        _ => RawError::Failed(format!("{name} cannot be opened: {error}")),
    }
}

/// Fails if `case` may not run on the device of `target`: it writes without `--destroy-data-on`, or
/// needs files (append, copy, and all benchmarks except `disk.io`).
pub fn check_permitted(target: &RawTarget, case: &Case) -> Result<(), CannotMeasure> {
    let name = shown_path(&target.device);
    let needs_a_file = |what: &str| {
        Err(CannotMeasure::not_here(format!(
            "{what} is not supported with --target {name}: it needs a file system, use --dir"
        )))
    };
    if case.benchmark() != "disk.io" {
        return needs_a_file(case.benchmark());
    }
    let operation = DiskTransfers::of(case).map_err(CannotMeasure::not_here)?.operation;
    match (operation, &target.consent) {
        (DiskOperation::Read, _)
        | (DiskOperation::Write | DiskOperation::Mixed { .. } | DiskOperation::Trim, Some(_)) => Ok(()),
        (DiskOperation::Write | DiskOperation::Mixed { .. } | DiskOperation::Trim, None) => {
            Err(CannotMeasure::refused(format!(
                "--op {} requires --destroy-data-on={name}:SERIAL with --target: it destroys the data on the device",
                operation.word()
            )))
        }
        (DiskOperation::Append | DiskOperation::Copy, _) => needs_a_file(operation.word()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_names_device_and_serial() {
        let consent = Consent::parse("/dev/disk/by-path/pci-0000:00:1f.2-ata-1:S3Z8 ").expect("right");
        assert_eq!(consent.device, Path::new("/dev/disk/by-path/pci-0000:00:1f.2-ata-1"));
        assert_eq!(consent.serial, "S3Z8");
        for wrong in ["", ":", "/dev/sda", "/dev/sda:", ":S3Z8", "/dev/sda: "] {
            assert!(Consent::parse(wrong).is_err_and(|why| why.contains("lsblk")), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_device_is_bad_input() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let file = dir.path().join("file");
        std::fs::write(&file, "not a device").expect("write");
        let fifo = dir.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("fifo");
        for (path, why) in [
            (file.as_path(), "not a block device"),
            (fifo.as_path(), "not a block device"),
            (dir.path(), "not a block device"),
            (Path::new("/dev/null"), "not a block device"),
            (Path::new("/dev/none\u{1b}[31m"), "does not exist"),
        ] {
            let target = RawTarget { device: path.into(), consent: None };
            let error = open(&target, &Root::live(), CacheMode::Direct).expect_err("no device");
            assert!(matches!(error, RawError::Usage(_)), "{error}");
            assert!(error.to_string().contains(why) && !error.to_string().contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn without_consent_only_reading_is_permitted_and_some_need_a_file() {
        use plimsoll_model::sample::FailureCause;
        let case = |op: &str| Case::of("disk.io").with_word("op", op);
        let mut target = RawTarget { device: "/dev/sdx".into(), consent: None };
        let cause = |target: &RawTarget, case: &Case| check_permitted(target, case).err().map(|e| e.cause);
        assert_eq!(cause(&target, &case("read")), None);
        for op in ["write", "mixed", "trim"] {
            assert_eq!(cause(&target, &case(op)), Some(FailureCause::Unsafe));
        }
        target.consent = Some(Consent { device: "/dev/sdx".into(), serial: "1".to_owned() });
        for op in ["read", "write", "mixed", "trim"] {
            assert_eq!(cause(&target, &case(op)), None);
        }
        for op in ["append", "copy", "what comes next"] {
            assert_eq!(cause(&target, &case(op)), Some(FailureCause::NotHere));
        }
        assert_eq!(cause(&target, &Case::of("disk.fsync")), Some(FailureCause::NotHere));
    }
}
