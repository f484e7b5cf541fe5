//! Block devices as targets: refusals change no byte, permitted operations work.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output};

use super::{Loop, PROGRAM, measurements, one_line, possible, set_free, with_code};
use crate::support::{scratch, short_of_cpu, skipped, until};

pub(super) const SIZE: u64 = 32 << 20;

/// plimsoll on a device, quickly.
pub(super) fn on_device(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["disk", "--only", "disk.io", "--samples", "1", "--sample-time", "10ms", "--store", "none"]);
    command.args(["--quiet", "--json", "-"]).args(arguments).output().unwrap()
}

pub(super) fn destroying(device: &str) -> Output {
    let consent = format!("{device}:{SIZE}");
    on_device(&["--target", device, "--destroy-data-on", &consent, "--op", "write", "--size", "8M"])
}

/// Asserts that writing is refused with these words, and that the device stays as it is.
#[track_caller]
pub(super) fn refused(device: &Loop, says: &[&str]) {
    let before = device.bytes();
    one_line(&destroying(&device.device), 3, says);
    assert!(device.bytes() == before, "the refused device was written to");
}

pub(super) fn run(program: &str, arguments: &[&str]) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let ran = Command::new(program).args(arguments).env("PATH", path).output();
    ran.is_ok_and(|ran| ran.status.success())
}

/// A mount, taken down again.
pub(super) struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    pub(super) fn new(device: &str, place: &'a Path) -> Self {
        std::fs::create_dir_all(place).unwrap();
        assert!(run("mount", &[device, place.to_str().unwrap()]));
        Mounted(place)
    }

    pub(super) fn of(place: &'a Path) -> Self {
        Mounted(place)
    }
}

/// The mount may be copied by a test in another mount namespace: it ends when no process sees it.
impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
        if !std::thread::panicking() {
            until("the end of a mount in every namespace", || !seen_by_a_process(self.0));
        }
    }
}

fn seen_by_a_process(place: &Path) -> bool {
    let place = place.as_os_str().as_encoded_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut tables = processes.filter_map(|process| std::fs::read(process.path().join("mountinfo")).ok());
    tables.any(|table| table.split(u8::is_ascii_whitespace).any(|word| word == place))
}

#[test]
fn a_mounted_device_is_refused_by_its_mount_point_and_stays_as_it_is() {
    let dir = scratch();
    let Some(device) = Loop::new("a mounted device", dir.path(), SIZE, &[]) else { return };
    // The kernel writes nothing later by itself.
    assert!(run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device.device]));
    let place = dir.path().join("mnt");
    let mounted = Mounted::new(&device.device, &place);
    std::fs::write(place.join("file"), "precious").unwrap();
    assert!(run("sync", &["-f", place.to_str().unwrap()]));
    refused(&device, &["is mounted on", "/mnt", "nothing was written"]);
    // A link to it is the same device.
    let link = dir.path().join("by-id");
    std::os::unix::fs::symlink(&device.device, &link).unwrap();
    let before = device.bytes();
    one_line(&destroying(link.to_str().unwrap()), 3, &["by-id is mounted on", "/mnt"]);
    assert!(device.bytes() == before);
    // Reading is allowed.
    let (out, _) = with_code(&on_device(&["--target", &device.device, "--op", "read", "--block", "4K"]), 0);
    assert_eq!(measurements(&out)[0]["status"], "ok");
    drop(mounted);
    refused(&device, &["holds ext4", "without data"]);
}

#[test]
fn a_device_mounted_in_another_namespace_is_refused_by_its_mount_point() {
    let dir = scratch();
    let Some(device) = Loop::new("mounted in another namespace", dir.path(), SIZE, &[]) else { return };
    if !possible("mounted in another namespace", &["unshare", "mkfs.ext4"]) {
        return;
    }
    assert!(run("mkfs.ext4", &["-q", &device.device]));
    let place = dir.path().join("mnt");
    std::fs::create_dir(&place).unwrap();
    // It mounts (so that only a run could write) and holds the mount until its standard input ends.
    let mut holder = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-euc",
            "mount -o ro \"$1\" \"$2\"; echo mounted; read -r _",
        ])
        .args(["sh", &device.device])
        .arg(&place)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stated = [0; 7];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut stated).unwrap();
    let process = format!("/mnt in the mount namespace of process {} (sh)", holder.id());
    refused(&device, &["is mounted on", &process, "nothing was written"]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    // An exclusive open sees any other claim. A namespace outlives its last process while its mount
    // table is being read, such as by another test.
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let mut claim = None;
    until("the end of a mount", || {
        let opened = std::fs::File::options().read(true).custom_flags(exclusive).open(&device.device);
        claim = opened.ok();
        claim.is_some()
    });
    assert!(run("wipefs", &["-a", "-f", &device.device]));
    refused(&device, &["EBUSY", "namespace", "nothing was written"]);
    drop(claim);
}

#[test]
fn a_device_is_trimmed_with_consent_and_mapped_without() {
    let dir = scratch();
    let Some(device) = Loop::new("trims and mappings of a device", dir.path(), SIZE, &[]) else { return };
    let name = device.device.as_str();
    let before = device.bytes();
    let mapped =
        ["--target", name, "--engine", "mmap", "--cache", "buffered", "--block", "4K", "--op", "read"];
    let (out, _) = with_code(&on_device(&mapped), 0);
    assert!(measurements(&out).iter().all(|m| m["status"] == "ok"), "{out}");
    one_line(&on_device(&["--target", name, "--op", "trim"]), 3, &["--destroy-data-on"]);
    assert!(device.bytes() == before, "it was only to be read");
    let consent = format!("{name}:{SIZE}");
    let destroying =
        |more: &[&str]| on_device(&[&["--target", name, "--destroy-data-on", &consent], more].concat());
    let limits = format!("/sys/block/{}/queue/discard_max_bytes", name.trim_start_matches("/dev/"));
    if std::fs::read_to_string(&limits).is_ok_and(|most| most.trim() != "0") {
        // Trimmed blocks are filled again before they are read.
        let ran = destroying(&["--op", "trim,read", "--block", "64K", "--threads", "2", "--size", "8M"]);
        let (out, _) = with_code(&ran, 0);
        assert!(measurements(&out).iter().all(|m| m["status"] == "ok"), "{out}");
        let granularity = limits.replace("max_bytes", "granularity");
        if std::fs::read_to_string(granularity).is_ok_and(|bytes| bytes.trim() != "512") {
            let ran = destroying(&["--op", "trim", "--block", "512", "--size", "8M"]);
            assert!(with_code(&ran, 4).0.contains("discard_granularity"));
        }
    } else {
        skipped("trims of a device", "its file system punches no holes");
    }
    let mapped =
        ["--op", "write", "--engine", "mmap", "--cache", "buffered", "--block", "4K", "--size", "8M"];
    let (out, _) = with_code(&destroying(&mapped), 0);
    assert!(measurements(&out).iter().all(|m| m["status"] == "ok"), "{out}");
    assert!(with_code(&destroying(&["--op", "append"]), 4).0.contains("use --dir"));
}

#[test]
fn a_device_that_a_process_holds_open_without_a_claim_is_refused_by_its_name() {
    let dir = scratch();
    let Some(device) = Loop::new("a device held open", dir.path(), SIZE, &[]) else { return };
    let open = std::fs::File::options().read(true).write(true).open(&device.device).unwrap();
    let mut holder = Command::new("sleep").arg("900").stdin(open).spawn().unwrap();
    let process = format!("held open by process {} (sleep)", holder.id());
    refused(&device, &[&process, "nothing was written", "Choose another device"]);
    // Reading is allowed.
    with_code(&on_device(&["--target", &device.device, "--op", "read", "--block", "4K"]), 0);
    holder.kill().unwrap();
    holder.wait().unwrap();
    set_free(|| destroying(&device.device));
}

#[test]
fn each_mark_and_user_of_a_device_is_named() {
    let dir = scratch();
    let Some(device) = Loop::new("marks of a device", dir.path(), SIZE, &["--partscan"]) else { return };
    let name = device.device.as_str();
    let mut missing = Vec::new();
    let makers: [(&str, Vec<&str>, &str); 3] = [
        ("mkfs.xfs", vec!["-q", "-f"], "xfs"),
        ("mkswap", vec![], "swap"),
        ("mkfs.ext4", vec!["-q", "-F"], "ext4"),
    ];
    for (program, mut arguments, says) in makers {
        arguments.push(name);
        // A small xfs is refused by its maker; then there is nothing to find.
        if run(program, &arguments) {
            refused(&device, &[says, "without data"]);
        } else {
            missing.push(program);
        }
        assert!(run("wipefs", &["-a", name]));
    }
    assert!(missing.len() < 3, "{missing:?}");
    assert!(run("mkswap", &[name]));
    if run("swapon", &[name]) {
        // The kernel may swap to it behind the header.
        let header = || device.bytes()[..4096].to_vec();
        let before = header();
        one_line(&destroying(name), 3, &["is in use as swap"]);
        assert!(run("swapoff", &[name]));
        assert!(header() == before);
    } else {
        skipped("a device in use as swap", "swapon is refused");
    }
    assert!(run("wipefs", &["-a", name]));
    let second = Loop::on("a loop device on a loop device", Path::new(name), &[]);
    if let Some(second) = second {
        refused(&device, &["is what loop", "reads from"]);
        drop(second);
    }
    let parted = Command::new("sh")
        .args(["-c", "printf 'label: gpt\\n,,\\n' | PATH=$PATH:/usr/sbin:/sbin sfdisk -q \"$1\"", "sh", name])
        .output();
    if parted.is_ok_and(|parted| parted.status.success()) {
        let first = format!("{0}/{0}p1", name.trim_start_matches("/dev/"));
        if Path::new("/sys/block").join(first).exists() {
            refused(&device, &["has partitions: loop"]);
        } else {
            skipped("a device whose partitions the kernel knows", "this kernel reads no GPT");
            refused(&device, &["a partition table of type gpt"]);
        }
    } else {
        skipped("a device with partitions", "no sfdisk");
    }
    skipped(
        "a device held by device mapper or RAID",
        "tested on saved trees; this needs a kernel with dm or md",
    );
}

/// Without blkid unknown data is refused, and a device that is empty at both ends is not.
#[test]
fn without_blkid_only_an_empty_device_is_written_to() {
    let dir = scratch();
    const TEST: &str = "a device without blkid";
    if !possible(TEST, &["unshare"]) {
        return;
    }
    let Some(device) = Loop::new(TEST, dir.path(), SIZE, &[]) else { return };
    let hidden = "for path in /usr/sbin/blkid /sbin/blkid /usr/bin/blkid /bin/blkid; do \
                  if [ -x $path ]; then mount --bind /dev/null $path; fi; done; exec \"$@\"";
    let without_blkid = || {
        let consent = format!("{}:{SIZE}", device.device);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-euc", hidden, "sh", PROGRAM]);
        command.args("disk --only disk.io --samples 1 --sample-time 10ms --op write".split(' '));
        command.args([
            "--store",
            "none",
            "--quiet",
            "--json",
            "-",
            "--size",
            "8M",
            "--target",
            &device.device,
        ]);
        command.args(["--destroy-data-on", &consent]).output().unwrap()
    };
    let write = |bytes: &[u8], place| {
        let file = std::fs::File::options().write(true).open(&device.device).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, place).unwrap();
    };
    for place in [0, 3 << 20, SIZE - 512] {
        write(b"precious", place);
        let before = device.bytes();
        one_line(&without_blkid(), 3, &["holds data of an unknown format", "blkid", "nothing was written"]);
        assert!(device.bytes() == before, "the refused device was written to");
        write(&[0; 8], place);
    }
    set_free(without_blkid);
}

#[test]
fn consent_is_for_one_device_and_its_serial() {
    let dir = scratch();
    let Some(device) = Loop::new("consent", dir.path(), SIZE, &[]) else { return };
    let name = device.device.as_str();
    let before = device.bytes();
    let with = |consent: &str| on_device(&["--target", name, "--destroy-data-on", consent, "--op", "write"]);
    one_line(&with(&format!("{name}:12345")), 3, &["must have the size in bytes", "12345", "lsblk"]);
    one_line(&with(&format!("/dev/null:{SIZE}")), 3, &["/dev/null", "same device"]);
    one_line(&with(name), 2, &["DEVICE:SERIAL"]);
    // Both must name it.
    let alone = ["--destroy-data-on", &format!("{name}:{SIZE}"), "--op", "write", "--size", "8M"];
    one_line(&on_device(&alone), 2, &["--target", "--destroy-data-on"]);
    one_line(&on_device(&["--target", name, "--op", "write"]), 3, &["--destroy-data-on=", "destroy"]);
    // Without an operation the reads run, and the writes give the reason for being skipped.
    let (out, _) = with_code(&on_device(&["--target", name]), 0);
    let all = measurements(&out);
    assert_eq!(all.iter().filter(|m| m["status"] == "ok").count(), 3);
    let skipped = all.iter().find(|m| m["status"] == "skipped").unwrap();
    assert_eq!(skipped["cause"], "unsafe", "{skipped}");
    assert!(skipped["reason"].as_str().unwrap().contains("--destroy-data-on="), "{skipped}");
    assert!(device.bytes() == before, "what was only read has changed");
    // Neither a plan nor the environment can consent.
    let plan = dir.path().join("plan.toml");
    for text in ["destroy-data-on = \"/dev/sda:1\"\n", "target = \"/dev/sda\"\n"] {
        std::fs::write(&plan, format!("{text}[[group]]\nbenchmark = [\"disk.io\"]\n")).unwrap();
        let ran = Command::new(PROGRAM).args(["run", "--store", "none"]).arg(&plan).output().unwrap();
        one_line(&ran, 2, &["line 1"]);
    }
    let ran = Command::new(PROGRAM).args(["run", "--target", name]).output().unwrap();
    one_line(&ran, 2, &["--target"]);
}

#[test]
fn with_consent_a_device_is_filled_written_and_verified() {
    let dir = scratch();
    let Some(device) = Loop::new("a device to be destroyed", dir.path(), SIZE, &[]) else { return };
    let consent = format!("{}:{SIZE}", device.device);
    let before = device.bytes();
    let output = on_device(&[
        "--target",
        &device.device,
        "--destroy-data-on",
        &consent,
        "--op",
        "read,write",
        "--block",
        "4K",
        "--depth",
        "4",
        "--verify",
    ]);
    let (out, _) = with_code(&output, 0);
    for measurement in measurements(&out) {
        assert_eq!(measurement["status"], "ok", "{}", measurement["reason"]);
        assert_eq!(measurement["achieved"]["file_system"], "block device");
        assert!(
            device
                .device
                .ends_with(measurement["achieved"]["device"].as_str().unwrap().split(' ').next().unwrap())
        );
    }
    assert!(device.bytes() != before);
    // It left no mark that would refuse the next run.
    set_free(|| destroying(&device.device));
    let large = on_device(&["--target", &device.device, "--op", "read", "--size", "1G"]);
    let (out, _) = with_code(&large, 4);
    let reason = measurements(&out)[0]["reason"].as_str().unwrap().replace(&device.device, "DEVICE");
    insta::assert_snapshot!("more_than_a_device_has", reason);
}

/// Reads that a device finished, and their milliseconds (Linux, Documentation/block/stat.rst).
fn reads(device: &Loop) -> [f64; 2] {
    let name = device.device.rsplit('/').next().unwrap();
    let text = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    let fields: Vec<f64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
    [fields[0], fields[3]]
}

/// Seconds: the metric `await`, the device's own count over the run, and `latency`. `None` if the
/// device had other requests, as there is then no `await`.
fn times_of_a_request(device: &Loop) -> Option<[f64; 3]> {
    let before = reads(device);
    let mut command = Command::new(PROGRAM);
    command.args(["disk", "--only", "disk.io", "--target", &device.device, "--op", "read"]);
    command.args(["--pattern", "random", "--block", "4K", "--depth", "8", "--samples", "5"]);
    command.args(["--sample-time", "100ms", "--store", "none", "--quiet", "--json", "-"]);
    let (out, _) = with_code(&command.output().unwrap(), 0);
    let after = reads(device);
    let measurement = &measurements(&out)[0];
    let metrics = measurement["metrics"].as_array().unwrap();
    let median =
        |name: &str| metrics.iter().find(|metric| metric["name"] == name)?["summary"]["median"].as_f64();
    Some([median("await")?, (after[1] - before[1]) * 1e-3 / (after[0] - before[0]), median("latency")?])
}

#[test]
fn the_time_of_a_request_is_what_the_counters_of_the_device_say() {
    let dir = scratch();
    let Some(device) = Loop::new("await of a device", dir.path(), SIZE, &[]) else { return };
    // The device also counts the warm-up, and other load makes samples differ.
    let agree =
        |&[each, whole, latency]: &[f64; 3]| (0.3..3.0).contains(&(each / whole)) && each < latency * 1.1;
    let mut taken: Vec<[f64; 3]> = Vec::new();
    for _ in 0..15 {
        taken.extend(times_of_a_request(&device));
        if taken.last().is_some_and(agree) {
            break;
        }
    }
    if taken.is_empty() {
        return skipped("await of a device", "no run had the device for itself");
    }
    if !taken.iter().any(agree) && short_of_cpu() {
        return skipped("await of a device", "other processes leave too little CPU time");
    }
    assert!(taken.iter().any(agree), "await, of the device's counters, latency: {taken:?}");
}

#[test]
fn sectors_of_4_kib_refuse_smaller_blocks_by_name() {
    let dir = scratch();
    let Some(device) = Loop::new("4 KiB sectors", dir.path(), SIZE, &["--sector-size", "4096"]) else {
        return;
    };
    let consent = format!("{}:{SIZE}", device.device);
    let target = ["--target", &device.device, "--destroy-data-on", &consent];
    let output = on_device(&[&target[..], &["--op", "write", "--block", "512,4K"]].concat());
    let (out, _) = with_code(&output, 0);
    let all = measurements(&out);
    assert_eq!(all[0]["status"], "skipped");
    insta::assert_snapshot!(all[0]["reason"].as_str().unwrap().replace(&device.device, "DEVICE"));
    assert_eq!(all[1]["status"], "ok", "{}", all[1]["reason"]);
}

#[test]
fn what_is_no_usable_device_is_told_in_a_line() {
    let dir = scratch();
    let file = dir.path().join("file");
    std::fs::write(&file, "data").unwrap();
    let file = file.to_str().unwrap();
    let target = |path: &str| on_device(&["--target", path, "--op", "read"]);
    one_line(&target(file), 2, &["not a block device", "--dir"]);
    one_line(&target("/dev/null"), 2, &["not a block device"]);
    one_line(&target("/dev/nowhere"), 2, &["does not exist"]);
    let Some(device) = Loop::new("a read-only device", dir.path(), SIZE, &["--read-only"]) else { return };
    one_line(&destroying(&device.device), 3, &["read-only"]);
    with_code(&target(&device.device), 0);
    let fsync = Command::new(PROGRAM)
        .args(["disk", "--only", "disk.fsync", "--store", "none", "--quiet", "--json", "-"])
        .args(["--target", &device.device])
        .output()
        .unwrap();
    let (out, _) = with_code(&fsync, 4);
    let reason = measurements(&out)[0]["reason"].as_str().unwrap().replace(&device.device, "DEVICE");
    insta::assert_snapshot!("commits_on_a_device", reason);
}
