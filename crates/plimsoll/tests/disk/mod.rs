//! Real disk faults: full, read-only, immutable and lying file systems, limits, failing calls,
//! SIGKILL. Mounts end with their mount namespace. Tests without root or a tool are skipped by
//! name.
#![allow(clippy::print_stderr)]

pub(crate) mod calls;
mod devices;
mod file_systems;
mod io_limit;
mod killed;
mod racer;
mod shared;
mod slow;
mod steady;
mod target;
mod verify;

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;

use crate::support::{
    Owned, PROGRAM, Running, command, json, list, lossy, possible, scratch, skip, until, with_code,
};

/// A small case and a short one: 8 MiB of file, two samples.
pub(crate) const QUICK: &str = "disk --op read --pattern random --block 4K --depth 4 --size 8M --samples 2 \
                                --sample-time 10ms --store none --quiet --json -";

/// Runs a shell script in a mount namespace of its own; `$1` is plimsoll, `$2` the directory.
pub(crate) fn in_own_mounts(dir: &Path, script: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "timeout", "300", "sh", "-euc", script, "sh"]);
    command.arg(PROGRAM).arg(dir).current_dir(dir).output().unwrap()
}

/// Asserts that a run on a released device succeeds at last: for a moment a child of another test
/// thread may hold an open file, and a loop device ends after it.
#[track_caller]
pub(crate) fn set_free(run: impl Fn() -> Output) {
    let mut last = None;
    until("the users of a device are gone", || last.insert(run()).status.code() != Some(3));
    with_code(&last.unwrap(), 0);
}

/// One line on stderr that holds all of `says`, nothing on stdout.
#[track_caller]
pub(crate) fn one_line(output: &Output, code: i32, says: &[&str]) {
    let (out, err) = with_code(output, code);
    assert_eq!(out, "");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(says.iter().all(|word| err.contains(word)), "{err:?} does not say all of {says:?}");
}

/// The measurements of a run that must end with `code`.
#[track_caller]
pub(crate) fn measurements(output: &Output, code: i32) -> Vec<Value> {
    list(&json(&with_code(output, code).0)["measurements"]).clone()
}

/// The size of a block device, by its name below /dev.
fn bytes_of(device: &str) -> u64 {
    let sectors = std::fs::read_to_string(format!("/sys/block/{}/size", device.trim_start_matches("/dev/")));
    sectors.unwrap().trim().parse::<u64>().unwrap() * 512
}

/// Options that name a device and consent to the loss of its data.
fn consent(device: &str) -> String {
    format!("--target {device} --destroy-data-on {device}:{}", bytes_of(device))
}

const TRANSFERS: &str = "disk --only disk.io --samples 1 --sample-time 10ms --store none --quiet --json -";

/// Short cases of transfers, on a device that `line` names.
fn on_device(line: &str) -> Output {
    command(&format!("{TRANSFERS} {line}")).output().unwrap()
}

fn destroying(device: &str) -> Output {
    on_device(&format!("{} --op write --size 4M", consent(device)))
}

/// Asserts that writing is refused with these words, and that the file behind the device stays as
/// it is.
#[track_caller]
fn refused(device: &str, behind: &Path, says: &[&str]) {
    let bytes = || {
        assert!(run("sync", &[device]));
        std::fs::read(behind).unwrap()
    };
    let before = bytes();
    one_line(&destroying(device), 3, &[says, &["nothing was written"]].concat());
    assert!(bytes() == before, "what is behind the refused device was written to");
}

/// Whether a program of the administrator succeeds.
fn run(program: &str, arguments: &[&str]) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let ran = Command::new(program).args(arguments).env("PATH", path).output();
    ran.is_ok_and(|ran| ran.status.success())
}

/// Completes the file system, as later changes by the kernel would spoil the comparison.
fn made_ext4(device: &str) -> bool {
    run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device])
}

/// Opens a device as a mount does: any other claim refuses it.
fn claimed(device: &str) -> std::io::Result<std::fs::File> {
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    std::fs::File::options().read(true).custom_flags(exclusive).open(device)
}

/// A process that has a file open, and the words that name it.
fn holding(open: std::fs::File) -> (Owned, String) {
    let holder = Owned(Command::new("sleep").arg("900").stdin(open).spawn().unwrap());
    let named = format!("held open by process {} (sleep)", holder.0.id());
    (holder, named)
}

/// A run with the words of a command line on a device whose bytes it may destroy.
fn followed(line: &str, device: &str, dir: &Path) -> Running {
    Running::start(&mut command(&format!("{line} --quiet {}", consent(device))), dir)
}

pub(crate) fn names(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

/// A mount, taken down again.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a device on `mnt` in a directory.
    fn new(device: &str, dir: &Path) -> Self {
        let place = dir.join("mnt");
        std::fs::create_dir_all(&place).unwrap();
        assert!(run("mount", &[device, place.to_str().unwrap()]));
        Mounted(place)
    }
}

/// The mount may be copied by a test in another mount namespace: it ends when no process sees it.
impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
        if !std::thread::panicking() {
            until("the end of a mount in every namespace", || !seen_by_a_process(&self.0));
        }
    }
}

fn seen_by_a_process(place: &Path) -> bool {
    let place = place.as_os_str().as_encoded_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut tables = processes.filter_map(|process| std::fs::read(process.path().join("mountinfo")).ok());
    tables.any(|table| table.split(u8::is_ascii_whitespace).any(|word| word == place))
}

/// Mounts a device to be read in a namespace of its own, as long as its standard input is open.
/// Returns the words that name it, too.
fn mounted_elsewhere(device: &str, place: &Path) -> (Owned, String) {
    std::fs::create_dir(place).unwrap();
    let script = "mount -o ro \"$1\" \"$2\"; echo mounted; read -r _";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc", script, "sh", device]).arg(place);
    let mut holder = Owned(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    holder.0.stdout.as_mut().unwrap().read_exact(&mut [0; 7]).unwrap();
    let named = format!("/mnt in the mount namespace of process {} (sh)", holder.0.id());
    (holder, named)
}

/// Read by all that use writable devices, and written by the one test that makes all devices
/// suspect. It waits with `try_write`: a writer that waits in the lock would keep a test from a
/// second device.
static DEVICES: RwLock<()> = RwLock::new(());

/// A loop device on a file of its own, taken down again whatever happens.
pub(crate) struct Loop {
    pub(crate) device: String,
    pub(crate) image: PathBuf,
    dir: Option<tempfile::TempDir>,
    _in_use: Option<RwLockReadGuard<'static, ()>>,
}

impl Loop {
    /// A device of `bytes` zeros in a directory of its own; `options` go to losetup. A failure
    /// skips the test with the reason.
    #[track_caller]
    pub(crate) fn new(bytes: u64, options: &[&str]) -> Option<Loop> {
        let dir = scratch();
        let image = dir.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let mut made = Loop::on(&image, options)?;
        made.dir = Some(dir);
        Some(made)
    }

    #[track_caller]
    pub(crate) fn on(image: &Path, options: &[&str]) -> Option<Loop> {
        Loop::attach(image, options, Some(DEVICES.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Without a part in the devices for a test that has all of them.
    #[track_caller]
    fn attach(image: &Path, options: &[&str], in_use: Option<RwLockReadGuard<'static, ()>>) -> Option<Loop> {
        possible(&["losetup"])?;
        let mut command = Command::new("losetup");
        let made = command.args(["--find", "--show"]).args(options).arg(image).output().unwrap();
        if !made.status.success() {
            return skip(&format!("no loop device: {}", lossy(&made.stderr).trim()));
        }
        let device = lossy(&made.stdout).trim().to_owned();
        Some(Loop { device, image: image.into(), dir: None, _in_use: in_use })
    }

    /// The directory of its own, which [`Loop::new`] makes.
    fn dir(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }

    /// The name below /dev.
    fn name(&self) -> &str {
        self.device.strip_prefix("/dev/").unwrap()
    }

    /// All bytes that are on it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        assert!(run("sync", &[&self.device]));
        std::fs::read(&self.image).unwrap()
    }

    /// [`refused`] for a device on its own image.
    #[track_caller]
    fn refused(&self, says: &[&str]) {
        refused(&self.device, &self.image, says);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}
