//! Devices whose bytes are in use elsewhere: by loop devices, mounts, processes, on the file or
//! device behind them. Each is refused and left unchanged.

use std::path::{Path, PathBuf};

use super::devices::SIZE;
use super::{
    DEVICES, Loop, Mounted, bytes_of, claimed, destroying, followed, holding, made_ext4, one_line, refused,
    run, set_free,
};
use crate::support::{list, made, possible, reason, scratch, skip};

const MIB: u64 = 1 << 20;

#[test]
fn another_loop_device_on_a_file_that_is_mounted_is_refused_by_the_mount() {
    let Some(()) = possible(&["losetup", "mkfs.ext4"]) else { return };
    let Some(first) = Loop::new(SIZE, &[]) else { return };
    assert!(made_ext4(&first.device));
    let _mounted = Mounted::new(&first.device, first.dir());
    let name = first.name();
    let user = format!("is what {name} reads from ({name} is mounted on ");
    let says = [user.as_str(), "/mnt)"];
    let bound = first.dir().join("bound");
    std::fs::create_dir(&bound).unwrap();
    let linked = first.dir().join("linked");
    std::fs::hard_link(&first.image, &linked).unwrap();
    assert!(run("mount", &["--bind", first.dir().to_str().unwrap(), bound.to_str().unwrap()]));
    let paths = [first.image.clone(), bound.join("image"), linked];
    let refuse = |path: &PathBuf, options: &[&str]| {
        let Some(second) = Loop::on(path, options) else { return };
        refused(&second.device, &first.image, &says);
    };
    paths.iter().for_each(|path| refuse(path, &["--offset", "16M"]));
    refuse(&paths[0], &["--offset", "8M", "--sizelimit", "4M"]);
    assert!(run("umount", &[bound.to_str().unwrap()]));
    // On the device instead of the file.
    let Some(second) = Loop::on(Path::new(&first.device), &["--offset", "16M"]) else { return };
    let says = format!("reads from {name}, which is mounted on ");
    refused(&second.device, &first.image, &[&says, "/mnt"]);
}

#[test]
fn loop_devices_on_parts_of_one_file_are_users_of_each_other_also_apart_and_deleted() {
    let Some(first) = Loop::new(SIZE, &["--sizelimit", "16M"]) else { return };
    let Some(second) = Loop::on(&first.image, &["--offset", "16M"]) else { return };
    let name = first.name();
    refused(&second.device, &first.image, &["image", &format!("is what {name} reads from")]);
    // Neither name nor path is needed to know the file.
    let held = std::fs::File::open(&first.image).unwrap();
    std::fs::remove_file(&first.image).unwrap();
    one_line(&destroying(&second.device), 3, &[&format!("is what {name} reads from"), "nothing was written"]);
    drop(held);
}

#[test]
fn a_mark_on_the_file_outside_the_part_that_a_device_shows_is_found() {
    let Some(mut whole) = Loop::new(SIZE, &[]) else { return };
    let (_dir, image, name) = (whole.dir.take(), whole.image.clone(), whole.device.clone());
    assert!(run("mkswap", &[&name]));
    // Through the device, then through the file alone.
    let Some(part) = Loop::on(Path::new(&name), &["--offset", "16M"]) else { return };
    refused(&part.device, &image, &["is a part of loop", "holds swap"]);
    drop((part, whole));
    let Some(part) = Loop::on(&image, &["--offset", "16M"]) else { return };
    refused(&part.device, &image, &["is a part of /", "image, which holds swap", "without data"]);
    drop(part);
    // An unused part of a file may be written to.
    assert!(run("wipefs", &["-a", image.to_str().unwrap()]));
    let Some(part) = Loop::on(&image, &["--offset", "16M"]) else { return };
    let rest = || std::fs::read(&image).unwrap()[..16 << 20].to_vec();
    let before = rest();
    set_free(|| destroying(&part.device));
    assert!(rest() == before, "it wrote before the part");
    // Without its name, the rest of the file cannot be examined.
    std::fs::remove_file(&image).unwrap();
    one_line(&destroying(&part.device), 3, &["is a part of", "cannot be read", "nothing was written"]);
}

#[test]
fn a_device_behind_the_device_is_claimed_too() {
    let Some(lower) = Loop::new(SIZE, &[]) else { return };
    let Some(upper) = Loop::on(Path::new(&lower.device), &["--offset", "16M"]) else { return };
    set_free(|| destroying(&upper.device));
    let claim = claimed(&lower.device).unwrap();
    let name = lower.name();
    refused(&upper.device, &lower.image, &[&format!("reads from {name}, which is in use"), "EBUSY"]);
    drop(claim);
    set_free(|| destroying(&upper.device));
}

#[test]
fn a_user_that_comes_between_two_cases_ends_the_writing() {
    let Some(device) = Loop::new(SIZE, &[]) else { return };
    let line =
        "disk --op write --pattern random --block 4K,8K --depth 4 --samples 40 --sample-time 50ms --size 4M";
    let mut run = followed(line, &device.device, device.dir());
    run.until("sampled");
    let second = Loop::on(&device.image, &["--offset", "16M"]).unwrap();
    let (_, _, document) = run.end();
    let all = list(&document["measurements"]);
    assert_eq!(all[0]["status"], "ok", "{}", all[0]["reason"]);
    let user = format!("is what {} reads from", second.name());
    assert!(reason(&all[1]).contains(&user), "{}", all[1]);
    assert_eq!(bytes_of(&second.device), SIZE - 16 * MIB);
}

#[test]
fn a_file_that_an_overlay_copied_up_is_the_file_in_its_upper_layer() {
    let dir = scratch();
    let Some(()) = possible(&["losetup", "mkfs.ext4"]) else { return };
    let [lower, upper, work, merged] = ["l", "u", "w", "m"].map(|name| made(dir.path().join(name), 0o755));
    std::fs::File::create(lower.join("f")).unwrap().set_len(SIZE).unwrap();
    let [lower, over, work] = [&lower, &upper, &work].map(|path| path.display());
    let options = format!("lowerdir={lower},upperdir={over},workdir={work}");
    if !run("mount", &["-t", "overlay", "overlay", "-o", &options, merged.to_str().unwrap()]) {
        return skip("overlayfs cannot be mounted");
    }
    let _merged = Mounted(merged.clone());
    // The first writer copies the file up; its inode number stays that of the layer below.
    let (real, shown) = (upper.join("f"), merged.join("f"));
    std::fs::File::options().append(true).open(&shown).unwrap();
    for (used, target) in [(&real, &shown), (&shown, &real)] {
        let Some(first) = Loop::on(used, &["--offset", "8M"]) else { return };
        assert!(made_ext4(&first.device));
        let _mounted = Mounted::new(&first.device, dir.path());
        let name = first.name();
        let second = Loop::on(target, &[]).unwrap();
        refused(&second.device, &real, &[&format!("is what {name} reads from ({name} is mounted on ")]);
    }
    // Nothing holds either any more but the marks on them.
    assert!(run("truncate", &["-s", "0", real.to_str().unwrap()]));
    assert!(run("truncate", &["-s", &SIZE.to_string(), real.to_str().unwrap()]));
    for (held, target) in [(&real, &shown), (&shown, &real)] {
        let device = Loop::on(target, &[]).unwrap();
        let (holder, process) = holding(std::fs::File::open(held).unwrap());
        refused(&device.device, &real, &[&process]);
        drop(holder);
        set_free(|| destroying(&device.device));
    }
    // Without the path, the file is unknown.
    let device = Loop::on(&shown, &[]).unwrap();
    std::fs::remove_file(&shown).unwrap();
    let says = ["on overlayfs whose real file cannot be found", "nothing was written"];
    one_line(&destroying(&device.device), 3, &says);
}

/// The path of its lower layer is relative, and its files show numbers that are in no mount table.
#[test]
fn a_file_is_found_on_an_overlay_with_layers_on_several_file_systems_that_cannot_be_found() {
    let dir = scratch();
    let Some(()) = possible(&["losetup", "python3"]) else { return };
    let below = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    ["l", "l/A", "l/B", "up", "mg"].iter().for_each(|name| std::fs::create_dir(below(name)).unwrap());
    let real = dir.path().join("l/A/disk.img");
    std::fs::File::create(&real).unwrap().set_len(SIZE).unwrap();
    if !run("mount", &["-t", "tmpfs", "tmpfs", &below("up")]) {
        return skip("tmpfs cannot be mounted");
    }
    let _upper = Mounted(dir.path().join("up"));
    ["up/u", "up/w"].iter().for_each(|name| std::fs::create_dir(below(name)).unwrap());
    // mount(8) makes paths absolute.
    let mount = "import ctypes, sys, os; os.chdir(sys.argv[1]); \
        sys.exit(ctypes.CDLL(None).mount(b'overlay', b'mg', b'overlay', ctypes.c_ulong(0), \
        b'lowerdir=l/A:l/B,upperdir=up/u,workdir=up/w,xino=off') != 0)";
    if !run("python3", &["-c", mount, dir.path().to_str().unwrap()]) {
        return skip("overlayfs cannot be mounted");
    }
    let merged = Mounted(dir.path().join("mg"));
    let shown = merged.0.join("disk.img");
    let Some(device) = Loop::on(&real, &[]) else { return };
    let (holder, process) = holding(std::fs::File::open(&shown).unwrap());
    refused(&device.device, &real, &[&process]);
    drop(holder);
    let other = Loop::on(&shown, &["--read-only"]).unwrap();
    refused(&device.device, &real, &[&format!("what {} reads from", other.name())]);
    drop(other);
    set_free(|| destroying(&device.device));
}

/// erofs can be mounted from a file without a loop device; the kernel then shows only its path.
#[test]
fn a_file_from_which_a_file_system_is_mounted_is_refused_also_when_it_was_renamed() {
    let dir = scratch();
    let Some(()) = possible(&["losetup", "mkfs.erofs", "python3"]) else { return };
    // Without a deadline: the other tests may take long.
    let _alone = loop {
        match DEVICES.try_write() {
            Ok(alone) => break alone,
            Err(_) => std::thread::park_timeout(std::time::Duration::from_millis(2)),
        }
    };
    let [source, place] = ["source", "mnt"].map(|name| made(dir.path().join(name), 0o755));
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
        return skip("this kernel mounts erofs from devices alone");
    }
    let mounted = Mounted(place);
    let renamed = dir.path().join("renamed");
    std::fs::rename(&file, &renamed).unwrap();
    let Some(other) = Loop::attach(&renamed, &["--offset", "16MiB"], None) else { return };
    refused(&other.device, &renamed, &["may be a file from which an erofs is mounted on", "/mnt"]);
    drop(mounted);
    set_free(|| destroying(&other.device));
}
