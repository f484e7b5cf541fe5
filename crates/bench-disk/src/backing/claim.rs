//! Conditions for writing to a block device: neither it nor a device that stores its bytes is in
//! use or open, it holds no known data, and the kernel grants exclusive claims. All but the data is
//! checked before and after the claim, and again before each case.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::backing::block_device::ProbedDevice;
use crate::backing::{RawError, blkid};
use plimsoll_machine::disk::openers::{self, OpenerSearch};
use plimsoll_machine::disk::stack::Stack;
use plimsoll_machine::disk::thing::FileOrDevice;
use plimsoll_machine::disk::users::{self, DeviceUse, LowerDevice};
use plimsoll_machine::{DeviceNumber, Root};

/// Longest wait for a process that inspects changed devices (udev, after each close by a writer).
const UDEV_WAIT: Duration = Duration::from_secs(10);

/// The right to write to a device.
#[derive(Debug)]
pub struct Claim {
    /// Unknowns about users of the device, each a sentence.
    pub remarks: Vec<String>,
    number: DeviceNumber,
    bytes: u64,
    stack: Stack,
    sequence: Option<u64>,
    /// Exclusive claims on lower devices.
    _below: Vec<File>,
}

impl Claim {
    /// Claims device `name`, probed as `looked`; fails if it is in use or holds data. `open`,
    /// called between the checks, must open it exclusively. Returns the opened file and the claim.
    pub(crate) fn acquire(
        root: &Root,
        name: &str,
        looked: &ProbedDevice,
        open: impl FnOnce() -> Result<File, RawError>,
    ) -> Result<(File, Claim), RawError> {
        let sequence = users::disk_number(root, looked.number, "diskseq");
        let before = unused(root, name, looked.number)?;
        let file = open()?;
        let claimable = before.below.iter().filter(|below| below.claimable);
        let below = claimable
            .filter_map(|below| claim_lower_device(name, below).transpose())
            .collect::<Result<_, _>>()?;
        let remarks = before.remarks.into_iter().collect();
        let (number, bytes) = (looked.number, looked.bytes);
        let mut claim = Claim { remarks, number, bytes, stack: before.stack, sequence, _below: below };
        let (below, unseen) = claim.found_unused(root, name, &file)?;
        claim.remarks.extend(unseen);
        if let Some(what) = find_data(name, &looked.file, looked.bytes)? {
            return Err(RawError::Refused(format!(
                "{name} holds {what}; nothing was written to it. Choose a device without data"
            )));
        }
        below.iter().try_for_each(|below| check_no_data_below(name, below))?;
        Ok((file, claim))
    }

    /// Fails if the device (open as `file`, `name` in errors) is in use or changed since the claim.
    /// Returns the devices below, and a remark if some users are unknown.
    pub(crate) fn found_unused(
        &self,
        root: &Root,
        name: &str,
        mut file: &File,
    ) -> Result<(Vec<LowerDevice>, Option<String>), RawError> {
        let now = unused(root, name, self.number)?;
        let unseen = check_not_open(root, name, &now)?;
        let bytes = file.seek(SeekFrom::End(0)).unwrap_or(0);
        let found = (now.stack.certain(), users::disk_number(root, self.number, "diskseq"), bytes);
        if found != (self.stack.certain(), self.sequence, self.bytes) {
            return Err(RawError::Refused(format!(
                "{name} changed after it was checked (its size, or the devices below it); nothing more is written \
                 to it"
            )));
        }
        Ok((now.below, unseen))
    }
}

fn unused(root: &Root, name: &str, number: DeviceNumber) -> Result<DeviceUse, RawError> {
    let found = users::examine(root, number);
    match found.sentence() {
        None => Ok(found),
        Some(users) => Err(RawError::Refused(format!("{name} {users}; nothing was written to it"))),
    }
}

/// Opens `below`, a device that stores bytes of device `name`, so that it cannot be mounted. `None`
/// if `below` is a file, has no path or may not be opened by this user. Fails if `below` is in use.
fn claim_lower_device(name: &str, below: &LowerDevice) -> Result<Option<File>, RawError> {
    let (FileOrDevice::Block(_), Some(path)) = (below.thing, &below.path) else { return Ok(None) };
    let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits().cast_signed();
    match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) if FileOrDevice::of_open(&file) == Some(below.thing) => Ok(Some(file)),
        Ok(_) => {
            Err(RawError::Refused(format!("{} became another device while it was being checked", below.name)))
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => Err(RawError::Refused(format!(
            "{name} reads from {}, which is in use (EBUSY): it is mounted, perhaps in another mount namespace, or part of \
             another device; nothing was written to it",
            below.name
        ))),
        // Without the right to open it there is no claim; its users have been checked.
        Err(_) => Ok(None),
    }
}

/// Waits up to 10 s until no process has device `name` or a device that stores its bytes (`found`)
/// open; then fails. Returns a remark if this user cannot inspect all processes, else `None`.
fn check_not_open(root: &Root, name: &str, found: &DeviceUse) -> Result<Option<String>, RawError> {
    let begun = Instant::now();
    loop {
        let seen = openers::find_holder(root, &found.watched);
        let Some(refusal) = open_refusal(name, found, &seen) else {
            let (n, remedy) = (seen.unseen, openers::remedy());
            let why = || format!("plimsoll cannot see the open files of {n} processes; {remedy}");
            return Ok((n > 0).then(why));
        };
        if begun.elapsed() >= UDEV_WAIT {
            return Err(RawError::Refused(refusal));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns an error text if, according to `seen`, a process has device `name` open, or may have it
/// open through io_uring; else `None`. `found` names the devices that were searched for.
fn open_refusal(name: &str, found: &DeviceUse, seen: &OpenerSearch) -> Option<String> {
    if let Some((opener, place)) = &seen.holder {
        let what = match found.watched[*place].name.as_str() {
            "" => "is".to_owned(),
            below => format!("keeps its bytes in {below}, which is"),
        };
        return Some(format!(
            "{name} {what} held open by process {} ({}), which may use it; nothing was written to it. \
             Choose another device, or wait until the process has closed it",
            opener.process, opener.name
        ));
    }
    let opener = seen.unlisted.as_ref()?;
    Some(format!(
        "{name} may be held by process {} ({}): the kernel does not list the files that the process has registered with \
         io_uring, mostly because it is busy; nothing was written to it. Choose another device, or try again when the process does less I/O",
        opener.process, opener.name
    ))
}

/// Fails if device `name` shows only a part of `below` (such as a loop device with an offset) and a
/// file system, partition table or volume manager is anywhere on `below`, or it cannot be read.
fn check_no_data_below(name: &str, below: &LowerDevice) -> Result<(), RawError> {
    if !below.partial {
        return Ok(());
    }
    let unread = |why: String| {
        RawError::Refused(format!(
            "{name} is a part of {}, which cannot be read to look for other data ({why}); nothing was written to it",
            below.name
        ))
    };
    let path = below.path.as_deref().ok_or_else(|| unread("it has no path here".to_owned()))?;
    let (file, bytes) = open_unchanged(path, below.thing).map_err(|error| unread(error.to_string()))?;
    match find_data(&below.name, &file, bytes)? {
        None => Ok(()),
        Some(what) => Err(RawError::Refused(format!(
            "{name} is a part of {}, which holds {what}; nothing was written to it. Choose a device without data",
            below.name,
        ))),
    }
}

/// Opens `path` to read; returns file and size in bytes. Fails if it is no longer `thing`.
fn open_unchanged(path: &Path, thing: FileOrDevice) -> std::io::Result<(File, u64)> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    if FileOrDevice::of_open(&file) != Some(thing) {
        return Err(std::io::Error::other("something else is there now"));
    }
    let bytes = file.seek(SeekFrom::End(0))?;
    Ok((file, bytes))
}

fn find_data(name: &str, file: &File, bytes: u64) -> Result<Option<String>, RawError> {
    blkid::contents(file, bytes).map_err(|error| {
        RawError::Failed(format!("{name} cannot be read, so what is on it is unknown: {error}"))
    })
}
