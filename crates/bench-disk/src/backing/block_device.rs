//! A block device, and the reasons why it cannot be used.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Uid;

use plimsoll_machine::DeviceNumber;
use plimsoll_model::sample::CannotMeasure;
use plimsoll_units::text::shown_path;

/// Reason why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RawError {
    /// Missing, or no block device: invalid input.
    #[error("--target {0}")]
    Usage(String),
    /// Data could be lost.
    #[error("{0}")]
    Refused(String),
    /// The device does not work.
    #[error("{0}")]
    Failed(String),
}

impl RawError {
    /// Returns this as the error of a case: with the cause `Unsafe` if the device is in use, holds
    /// data or lacks consent, else `Environment`.
    pub fn cannot(&self) -> CannotMeasure {
        match self {
            RawError::Refused(_) => CannotMeasure::refused(self.to_string()),
            RawError::Usage(_) | RawError::Failed(_) => CannotMeasure::environment(self.to_string()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ProbedDevice {
    pub(crate) number: DeviceNumber,
    pub(crate) bytes: u64,
    pub(crate) file: File,
}

pub(super) fn probe_device(device: &Path) -> Result<ProbedDevice, RawError> {
    let name = shown_path(device);
    let usage = |why: &str| RawError::Usage(format!("{name} {why}"));
    // Without waiting, as opening a FIFO would.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = File::options().read(true).custom_flags(flags).open(device);
    let mut file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => usage("does not exist; name one device, as lsblk --paths lists them"),
        Some(errno @ (Errno::ACCESS | Errno::PERM)) => {
            usage(explain_open_error(errno, rustix::process::geteuid()))
        }
        _ => usage(&format!("cannot be opened: {error}")),
    })?;
    let metadata = file.metadata().map_err(|error| usage(&format!("cannot be looked at: {error}")))?;
    if !metadata.file_type().is_block_device() {
        return Err(usage("is not a block device; for a file system use --dir"));
    }
    let bytes = file.seek(SeekFrom::End(0)).unwrap_or(0);
    if bytes == 0 {
        return Err(RawError::Failed(format!("{name} has no size: no medium, or nothing is attached to it")));
    }
    Ok(ProbedDevice { number: DeviceNumber::from_raw(metadata.rdev()), bytes, file })
}

/// Explains why a device refuses `user` (`errno`: EPERM or EACCES), with a remedy. EPERM comes from
/// the device cgroup (cgroup-v1/devices.rst); root gets EACCES only on a nodev mount (open(2)).
fn explain_open_error(errno: Errno, user: Uid) -> &'static str {
    match (errno, user.is_root()) {
        (Errno::PERM, _) => {
            "is kept from this process by its device cgroup, as in a container; allow the device there, or run outside"
        }
        (_, true) => "is on a file system where no device may be opened (nodev); name it by a path in /dev",
        (_, false) => "may not be read by this user; run as root, or in the group of the device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_forbids_a_device_is_named() {
        let (root, user) = (Uid::ROOT, Uid::from_raw(1000));
        assert!(explain_open_error(Errno::PERM, root).contains("device cgroup"));
        assert!(explain_open_error(Errno::PERM, user).contains("device cgroup"));
        assert!(explain_open_error(Errno::ACCESS, root).contains("nodev"));
        assert!(explain_open_error(Errno::ACCESS, user).contains("run as root"));
    }
}
