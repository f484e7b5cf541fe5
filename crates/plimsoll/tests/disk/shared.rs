//! Devices whose bytes are in use elsewhere: by loop devices, mounts, processes, on the file or
//! device behind them. Each is refused and left unchanged.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::devices::{Mounted, SIZE, on_device, run};
use super::{Alone, Loop, Told, measurements, one_line, possible, set_free};
use crate::support::{scratch, skipped};

const MIB: u64 = 1 << 20;

fn bytes_of(device: &str) -> u64 {
    let name = device.strip_prefix("/dev/").unwrap();
    let sectors = std::fs::read_to_string(format!("/sys/block/{name}/size")).unwrap();
    sectors.trim().parse::<u64>().unwrap() * 512
}

fn destroying(device: &str) -> std::process::Output {
    let consent = format!("{device}:{}", bytes_of(device));
    on_device(&["--target", device, "--destroy-data-on", &consent, "--op", "write", "--size", "4M"])
}

/// Completes the file system, as later changes by the kernel would spoil the comparison.
fn made_ext4(device: &str) -> bool {
    run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device])
}

/// Asserts that writing is refused with these words and leaves the file behind it unchanged.
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

/// An image of [`SIZE`] with ext4 on it, mounted by one loop device.
struct InUse<'a> {
    _mounted: Mounted<'a>,
    first: Loop,
}

impl<'a> InUse<'a> {
    fn new(test: &str, dir: &Path, place: &'a Path) -> Option<Self> {
        if !possible(test, &["losetup", "mkfs.ext4"]) {
            return None;
        }
        let first = Loop::new(test, dir, SIZE, &[])?;
        assert!(made_ext4(&first.device));
        Some(InUse { _mounted: Mounted::new(&first.device, place), first })
    }
}

#[test]
fn another_loop_device_on_a_file_that_is_mounted_is_refused_by_the_mount() {
    let dir = scratch();
    let place = dir.path().join("mnt");
    let Some(used) = InUse::new("another loop device on a mounted file", dir.path(), &place) else { return };
    let name = used.first.device.strip_prefix("/dev/").unwrap();
    let says = ["image", &format!("is what {name} reads from ({name} is mounted on "), "/mnt)"];
    let bound = dir.path().join("bound");
    std::fs::create_dir(&bound).unwrap();
    let linked = dir.path().join("linked");
    std::fs::hard_link(&used.first.image, &linked).unwrap();
    assert!(run("mount", &["--bind", dir.path().to_str().unwrap(), bound.to_str().unwrap()]));
    let paths = [used.first.image.clone(), bound.join("image"), linked];
    let refuse = |path: &PathBuf, options: &[&str]| {
        let Some(second) = Loop::on("a second loop device", path, options) else { return };
        refused(&second.device, &used.first.image, &says[1..]);
    };
    paths.iter().for_each(|path| refuse(path, &["--offset", "16M"]));
    refuse(&paths[0], &["--offset", "8M", "--sizelimit", "4M"]);
    assert!(run("umount", &[bound.to_str().unwrap()]));
    // On the device instead of the file.
    let Some(second) =
        Loop::on("a loop device on a mounted one", Path::new(&used.first.device), &["--offset", "16M"])
    else {
        return;
    };
    refused(
        &second.device,
        &used.first.image,
        &[&format!("reads from {name}, which is mounted on "), "/mnt"],
    );
}

#[test]
fn loop_devices_on_parts_of_one_file_are_users_of_each_other_also_apart_and_deleted() {
    let dir = scratch();
    let image = dir.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
    let on = |options: &[&str]| Loop::on("loop devices on parts of a file", &image, options);
    let Some(first) = on(&["--sizelimit", "16M"]) else { return };
    let Some(second) = on(&["--offset", "16M"]) else { return };
    let name = first.device.strip_prefix("/dev/").unwrap();
    refused(&second.device, &image, &["image", &format!("is what {name} reads from")]);
    // Neither name nor path is needed to know the file.
    let held = std::fs::File::open(&image).unwrap();
    std::fs::remove_file(&image).unwrap();
    one_line(&destroying(&second.device), 3, &[&format!("is what {name} reads from"), "nothing was written"]);
    drop(held);
}

#[test]
fn a_mount_in_another_namespace_is_found_through_the_file() {
    let dir = scratch();
    const TEST: &str = "a mount in another namespace";
    if !possible(TEST, &["unshare", "losetup", "mkfs.ext4"]) {
        return;
    }
    let Some(first) = Loop::new(TEST, dir.path(), SIZE, &[]) else { return };
    assert!(made_ext4(&first.device));
    let place = dir.path().join("mnt");
    std::fs::create_dir(&place).unwrap();
    let mut holder = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-euc"])
        .args(["mount \"$1\" \"$2\"; echo mounted; read -r _", "sh", &first.device])
        .arg(&place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stated = [0; 7];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut stated).unwrap();
    let process = format!("/mnt in the mount namespace of process {} (sh)", holder.id());
    let second = Loop::on(TEST, &first.image, &["--offset", "16M"]).unwrap();
    refused(&second.device, &first.image, &["is mounted on", &process]);
    drop(second);
    let second = Loop::on(TEST, Path::new(&first.device), &["--offset", "16M"]).unwrap();
    refused(&second.device, &first.image, &["reads from loop", "is mounted on", &process]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

#[test]
fn a_mark_on_the_file_outside_the_part_that_a_device_shows_is_found() {
    let dir = scratch();
    const TEST: &str = "a part of a file that holds something";
    let Some(whole) = Loop::new(TEST, dir.path(), SIZE, &[]) else { return };
    let (name, image) = (whole.device.clone(), whole.image.clone());
    assert!(run("mkswap", &[&name]));
    // Through the device, then through the file alone.
    let Some(part) = Loop::on(TEST, Path::new(&name), &["--offset", "16M"]) else { return };
    refused(&part.device, &image, &["is a part of loop", "holds swap"]);
    drop((part, whole));
    let Some(part) = Loop::on(TEST, &image, &["--offset", "16M"]) else { return };
    refused(&part.device, &image, &["is a part of /", "image, which holds swap", "without data"]);
    drop(part);
    // An unused part of a file may be written to.
    assert!(run("wipefs", &["-a", image.to_str().unwrap()]));
    let Some(part) = Loop::on(TEST, &image, &["--offset", "16M"]) else { return };
    let rest = || std::fs::read(&image).unwrap()[..16 << 20].to_vec();
    let before = rest();
    set_free(|| destroying(&part.device));
    assert!(rest() == before, "it wrote before the part");
    // Without its name, the rest of the file cannot be examined.
    std::fs::remove_file(&image).unwrap();
    one_line(&destroying(&part.device), 3, &["is a part of", "cannot be read", "nothing was written"]);
}

#[test]
fn who_holds_the_file_behind_a_device_open_is_named() {
    let dir = scratch();
    let Some(device) = Loop::new("a file held open behind a device", dir.path(), SIZE, &[]) else { return };
    let open = std::fs::File::open(&device.image).unwrap();
    let mut holder = Command::new("sleep").arg("900").stdin(open).spawn().unwrap();
    let process = format!("image, which is held open by process {} (sleep)", holder.id());
    refused(&device.device, &device.image, &[&process, "Choose another device"]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    set_free(|| destroying(&device.device));
}

#[test]
fn a_device_behind_the_device_is_claimed_too() {
    use std::os::unix::fs::OpenOptionsExt;
    let dir = scratch();
    let Some(lower) = Loop::new("a device behind a device", dir.path(), SIZE, &[]) else { return };
    let Some(upper) = Loop::on("a device behind a device", Path::new(&lower.device), &["--offset", "16M"])
    else {
        return;
    };
    set_free(|| destroying(&upper.device));
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let claim = std::fs::File::options().read(true).custom_flags(exclusive).open(&lower.device).unwrap();
    let name = lower.device.strip_prefix("/dev/").unwrap();
    refused(&upper.device, &lower.image, &[&format!("reads from {name}, which is in use"), "EBUSY"]);
    drop(claim);
    set_free(|| destroying(&upper.device));
}

#[test]
fn a_user_that_comes_between_two_cases_ends_the_writing() {
    let dir = scratch();
    let Some(device) = Loop::new("a user that comes between two cases", dir.path(), SIZE, &[]) else {
        return;
    };
    let mut run = Told::new(
        &["disk", "--op", "write", "--pattern", "random", "--block", "4K,8K", "--depth", "4"],
        &["--samples", "40", "--sample-time", "50ms", "--size", "4M"],
        (&device.device, SIZE),
        dir.path(),
    );
    run.until_sampled();
    let second =
        Loop::on("a user that comes between two cases", &device.image, &["--offset", "16M"]).unwrap();
    run.until_it_ends();
    let (_, out) = run.document();
    let all = measurements(&out);
    assert_eq!(all[0]["status"], "ok", "{}", all[0]["reason"]);
    let name = second.device.strip_prefix("/dev/").unwrap();
    let reason = all[1]["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("is what {name} reads from")), "{reason}");
    assert_eq!(bytes_of(&second.device), SIZE - 16 * MIB);
}

/// An overlay of `lo`, `up` and `wk` on `mg`, all below one directory.
struct Overlay(PathBuf);

impl Overlay {
    fn new(test: &str, dir: &Path) -> Option<Self> {
        let below = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        ["lo", "up", "wk", "mg"].iter().for_each(|name| std::fs::create_dir(dir.join(name)).unwrap());
        std::fs::File::create(dir.join("lo/f")).unwrap().set_len(SIZE).unwrap();
        let options = format!("lowerdir={},upperdir={},workdir={}", below("lo"), below("up"), below("wk"));
        let mounted = run("mount", &["-t", "overlay", "overlay", "-o", &options, &below("mg")]);
        if !mounted {
            skipped(test, "overlayfs cannot be mounted");
        }
        // The first writer copies the file up; its inode number stays that of the layer below.
        mounted.then(|| {
            std::fs::File::options().append(true).open(dir.join("mg/f")).unwrap();
            Overlay(dir.join("mg"))
        })
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_file_that_an_overlay_copied_up_is_the_file_in_its_upper_layer() {
    let dir = scratch();
    const TEST: &str = "a copied-up file on an overlay";
    if !possible(TEST, &["losetup", "mkfs.ext4"]) {
        return;
    }
    let Some(_overlay) = Overlay::new(TEST, dir.path()) else { return };
    let (real, shown) = (dir.path().join("up/f"), dir.path().join("mg/f"));
    for (used, target) in [(&real, &shown), (&shown, &real)] {
        let Some(first) = Loop::on(TEST, used, &["--offset", "8M"]) else { return };
        assert!(made_ext4(&first.device));
        let place = dir.path().join("mnt");
        let _mounted = Mounted::new(&first.device, &place);
        let name = first.device.strip_prefix("/dev/").unwrap();
        let second = Loop::on(TEST, target, &[]).unwrap();
        refused(&second.device, &real, &[&format!("is what {name} reads from ({name} is mounted on ")]);
    }
    // Nothing holds either any more but the marks on them.
    assert!(run("truncate", &["-s", "0", real.to_str().unwrap()]));
    assert!(run("truncate", &["-s", &SIZE.to_string(), real.to_str().unwrap()]));
    for (held, target) in [(&real, &shown), (&shown, &real)] {
        let device = Loop::on(TEST, target, &[]).unwrap();
        let open = std::fs::File::open(held).unwrap();
        let mut holder = Command::new("sleep").arg("900").stdin(open).spawn().unwrap();
        let process = format!("held open by process {} (sleep)", holder.id());
        refused(&device.device, &real, &[&process]);
        holder.kill().unwrap();
        holder.wait().unwrap();
        set_free(|| destroying(&device.device));
    }
    // Without the path, the file is unknown.
    let device = Loop::on(TEST, &shown, &[]).unwrap();
    std::fs::remove_file(&shown).unwrap();
    one_line(
        &destroying(&device.device),
        3,
        &["on overlayfs whose real file cannot be found", "nothing was written"],
    );
}

/// The path of its lower layer is relative, and its files show numbers that are in no mount table.
#[test]
fn a_file_is_found_on_an_overlay_with_layers_on_several_file_systems_that_cannot_be_found() {
    const TEST: &str = "an overlay with layers on several file systems";
    let dir = scratch();
    if !possible(TEST, &["losetup", "python3"]) {
        return;
    }
    let below = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    ["l", "l/A", "l/B", "up", "mg"].iter().for_each(|name| std::fs::create_dir(below(name)).unwrap());
    let real = dir.path().join("l/A/disk.img");
    std::fs::File::create(&real).unwrap().set_len(SIZE).unwrap();
    if !run("mount", &["-t", "tmpfs", "tmpfs", &below("up")]) {
        return skipped(TEST, "tmpfs cannot be mounted");
    }
    let upper = dir.path().join("up");
    let _upper = Mounted::of(&upper);
    ["up/u", "up/w"].iter().for_each(|name| std::fs::create_dir(below(name)).unwrap());
    // mount(8) makes paths absolute.
    let mount = "import ctypes, sys, os; os.chdir(sys.argv[1]); \
        sys.exit(ctypes.CDLL(None).mount(b'overlay', b'mg', b'overlay', ctypes.c_ulong(0), \
        b'lowerdir=l/A:l/B,upperdir=up/u,workdir=up/w,xino=off') != 0)";
    if !run("python3", &["-c", mount, dir.path().to_str().unwrap()]) {
        return skipped(TEST, "overlayfs cannot be mounted");
    }
    let merged = dir.path().join("mg");
    let _merged = Mounted::of(&merged);
    let shown = merged.join("disk.img");
    let Some(device) = Loop::on(TEST, &real, &[]) else { return };
    let open = std::fs::File::open(&shown).unwrap();
    let mut holder = Command::new("sleep").arg("900").stdin(open).spawn().unwrap();
    refused(&device.device, &real, &[&format!("held open by process {} (sleep)", holder.id())]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let other = Loop::on(TEST, &shown, &["--read-only"]).unwrap();
    let name = other.device.strip_prefix("/dev/").unwrap().to_owned();
    refused(&device.device, &real, &[&format!("what {name} reads from")]);
    drop(other);
    set_free(|| destroying(&device.device));
}

/// erofs can be mounted from a file without a loop device; the kernel then shows only its path.
#[test]
fn a_file_from_which_a_file_system_is_mounted_is_refused_also_when_it_was_renamed() {
    const TEST: &str = "a mounted file";
    let dir = scratch();
    if !possible(TEST, &["losetup", "mkfs.erofs", "python3"]) {
        return;
    }
    let _alone = Alone::enter();
    let (source, place) = (dir.path().join("source"), dir.path().join("mnt"));
    [&source, &place].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    std::fs::write(source.join("file"), "precious").unwrap();
    let (image, file) = (dir.path().join("image"), dir.path().join("file"));
    assert!(run("mkfs.erofs", &[image.to_str().unwrap(), source.to_str().unwrap()]));
    let mut whole = vec![0; MIB as usize];
    whole.extend(std::fs::read(&image).unwrap());
    std::fs::write(&file, whole).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(SIZE).unwrap();
    // mount(8) would make a loop device; 1 is MS_RDONLY.
    let mount = "import ctypes, sys, os; a = [os.fsencode(x) for x in sys.argv[1:]]; \
        sys.exit(ctypes.CDLL(None).mount(a[0], a[1], b'erofs', ctypes.c_ulong(1), b'fsoffset=1048576') != 0)";
    if !run("python3", &["-c", mount, file.to_str().unwrap(), place.to_str().unwrap()]) {
        return skipped(TEST, "this kernel mounts erofs from devices alone");
    }
    let mounted = Mounted::of(&place);
    let renamed = dir.path().join("renamed");
    std::fs::rename(&file, &renamed).unwrap();
    let Some(other) = Loop::on(TEST, &renamed, &["--offset", "16MiB"]) else { return };
    refused(&other.device, &renamed, &["may be a file from which an erofs is mounted on", "/mnt"]);
    drop(mounted);
    set_free(|| destroying(&other.device));
}
