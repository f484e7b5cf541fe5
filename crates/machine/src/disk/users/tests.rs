//! Tests of users of a device, on saved trees.

use super::*;
use crate::disk::openers;
use crate::fixture::{Fixture, block_device, virtual_device as device};

mod hidden;

/// Returns the lines of a disk with two partitions, another disk and a loop device.
fn disks() -> String {
    let devices = [(SDA, "8:0"), (SDB, "8:16"), ("virtual/block/loop1", "7:1")];
    devices.map(|(place, number)| block_device(place, number)).concat()
        + "sys/dev/block/8:[1-2] -> ../../devices/pci/ata1/host0/block/sda/sda{n}\n\
    sys/class/block/sda[1-2] -> ../../devices/pci/ata1/host0/block/sda/sda{n}\n\
    sys/devices/pci/ata1/host0/block/sda/size = 4096\n\
    sys/devices/pci/ata1/host0/block/sda/sda[1-2]/dev = 8:{n}\n\
    sys/devices/pci/ata1/host0/block/sda/sda[1-2]/partition = {n}\n\
    sys/devices/pci/ata1/host0/block/sda/sda[1-2]/size = 1024\n\
    sys/devices/pci/ata1/host0/block/sda/sda[1-2]/holders/\n\
    sys/devices/pci/ata1/host0/block/sda/sda1/start = 1024\n\
    sys/devices/pci/ata1/host0/block/sda/sda2/start = 2048\n\
    sys/devices/pci/ata2/host1/block/sdb/ro = 0\n\
    sys/devices/pci/ata2/host1/block/sdb/size = 4096\n\
    sys/devices/pci/ata2/host1/block/sdb/device/serial = WD-1234  \n\
    sys/devices/virtual/block/loop1/loop/offset = 0\n\
    sys/devices/virtual/block/loop1/loop/sizelimit = 0\n\
    srv/disk.img = bytes\n\
    srv/other.img = bytes\n\
    proc/swaps = Filename Type Size Used Priority\n"
}

const MOUNTS: &str = "proc/self/mountinfo = 1 0 0:2 / / rw - tmpfs none rw\n";
const ON_FILE: &str = "sys/devices/virtual/block/loop1/loop/backing_file = /srv/disk.img\n";

const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 16 };
const PARTED: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
const PARTITION: DeviceNumber = DeviceNumber { major: 8, minor: 1 };
const LOOP: DeviceNumber = DeviceNumber { major: 7, minor: 1 };

fn loop3(path: &str) -> String {
    device("loop3", "7:3") + &format!("sys/devices/virtual/block/loop3/loop/backing_file = {path}\n")
}

fn built(name: &str, number: &str, members: &[&str]) -> String {
    let mut tree = device(name, number);
    for member in members {
        let own = member.rsplit('/').next().unwrap();
        let up = "../".repeat(member.matches('/').count() + 2);
        tree += &format!("sys/devices/{member}/holders/{name} -> {up}virtual/block/{name}\n");
        tree += &format!("sys/devices/virtual/block/{name}/slaves/{own} -> ../../../../{member}\n");
    }
    tree
}

const SDA: &str = "pci/ata1/host0/block/sda";
const SDA2: &str = "pci/ata1/host0/block/sda/sda2";
const SDB: &str = "pci/ata2/host1/block/sdb";

fn used(more: &str, number: DeviceNumber) -> DeviceUse {
    let fixture = Fixture::unpack(&format!("{}{more}", disks())).unwrap();
    examine(&fixture.root, number)
}

fn reported(more: &str, number: DeviceNumber) -> String {
    used(more, number).users.join("; ")
}

#[test]
fn a_lone_disk_has_no_user_and_its_serial_is_read() {
    assert_eq!(reported(MOUNTS, DISK), "");
    let fixture = Fixture::unpack(&disks()).unwrap();
    assert_eq!(serial(&fixture.root, DISK).as_deref(), Some("WD-1234"));
    assert_eq!(serial(&fixture.root, PARTED), None);
    assert!(!is_read_only(&fixture.root, DISK));
}

#[test]
fn each_kind_of_user_is_named() {
    let held = built("dm-0", "253:0", &[SDB]);
    let mount = |line: &str| format!("proc/self/mountinfo = {line}\n");
    let sys = |line: &str| format!("{MOUNTS}sys/{line}\n");
    let home = mount("5 1 253:0 / /home rw - ext4 /dev/dm-0 rw") + &held;
    let raid = built("md0", "9:0", &[SDB]) + &sys("devices/virtual/block/md0/md/level = raid1");
    let zram = device("zram0", "252:0") + &sys("devices/virtual/block/zram0/backing_dev = /dev/sdb");
    let bcachefs = sys(&format!("fs/bcachefs/77/dev-1/block -> ../../../../devices/{SDB}"));
    let nvme = sys("kernel/config/nvmet/subsystems/nqn/namespaces/1/device_path = /dev/sdb");
    let scsi = sys("kernel/config/target/core/iblock_0/disk/udev_path = /dev/sdb");
    let rnbd = sys(&format!("class/rnbd-server/ctl/devices/sdb/block_dev -> ../../../../../devices/{SDB}"));
    let cases = [
        (mount("5 1 8:16 / /mnt rw - ext4 /dev/sdb rw"), "is mounted on /mnt"),
        (mount("5 1 0:44 / /pool rw - btrfs /dev/sdb rw"), "is mounted on /pool"),
        (sys("fs/btrfs/1234/devices/sdb = x"), "is part of the mounted btrfs 1234"),
        (bcachefs, "is part of the mounted bcachefs 77"),
        (sys("devices/virtual/block/dm-0/dm/name = vg-root") + &held, "is part of dm-0 (vg-root)"),
        (home, "is part of dm-0 (dm-0 is mounted on /home)"),
        (raid, "is part of md0 (raid1)"),
        (sys(&format!("devices/{SDB}/bcache/")), "is registered with bcache"),
        (format!("{MOUNTS}proc/swaps = /dev/sdb partition 1 0 -2\n"), "is in use as swap"),
        (format!("{MOUNTS}{}", loop3("/dev/sdb")), "is what loop3 reads from"),
        (zram, "is what zram0 writes back to"),
        (nvme, "is exported by the NVMe target"),
        (scsi, "is exported by the SCSI target"),
        (sys("module/pstore_blk/parameters/blkdev = /dev/sdb"), "is where pstore keeps kernel messages"),
        (rnbd, "is exported by the RNBD server"),
    ];
    for (tree, expected) in cases {
        assert_eq!(reported(&tree, DISK), expected);
    }
}

#[test]
fn a_disk_answers_for_its_partitions_and_a_partition_for_its_disk() {
    let mounted = "proc/self/mountinfo = 5 1 8:1 / /home rw - ext4 /dev/sda1 rw\n";
    let whole = reported(mounted, PARTED);
    assert!(whole.contains("has partitions: sda1, sda2"), "{whole}");
    assert!(whole.contains("has the partition sda1, which is mounted on /home"), "{whole}");
    let held = format!("{MOUNTS}{}", built("dm-1", "253:1", &[SDA]));
    assert_eq!(reported(&held, PARTITION), "is a partition of sda, which is part of dm-1");
    assert_eq!(reported(MOUNTS, PARTITION), "");
}

#[test]
fn partitions_that_overlap_are_users_and_those_apart_are_not() {
    let mounted = "proc/self/mountinfo = 5 1 8:2 / /home rw - ext4 /dev/sda2 rw\n";
    assert_eq!(reported(mounted, PARTITION), "");
    let overlapping = disks().replace("sda2/start = 2048", "sda2/start = 2047");
    let fixture = Fixture::unpack(&format!("{overlapping}{mounted}")).unwrap();
    let unreadable = examine(&fixture.root, PARTITION).users.join("; ");
    let expected = "is a partition of sda, which has the partition sda2, which is mounted on /home";
    assert!(unreadable.contains(expected), "{unreadable}");
}

#[test]
fn what_is_behind_a_loop_device_is_looked_at_like_the_device() {
    let alone = format!("{MOUNTS}{ON_FILE}");
    assert_eq!(reported(&alone, LOOP), "");
    let on = |path: &str| format!("{alone}{}", loop3(path));
    assert_eq!(reported(&on("/srv/other.img"), LOOP), "");
    let link = format!("{}srv/link.img -> disk.img\n", on("/srv/link.img"));
    let shared = "reads from /srv/disk.img, which is what loop3 reads from";
    for tree in [on("/srv/disk.img"), link] {
        assert_eq!(reported(&tree, LOOP), shared);
        let mounted = format!("{}proc/self/mountinfo = 5 1 7:3 / /mnt rw - ext4 /dev/loop3 rw\n", &tree);
        assert_eq!(reported(&mounted, LOOP), format!("{shared} (loop3 is mounted on /mnt)"));
    }
    let scsi = "sys/kernel/config/target/core/fileio_0/disk/udev_path = /srv/disk.img\n";
    let cases = [
        ("proc/self/mountinfo = 5 1 0:50 / /image rw - erofs /srv/disk.img rw\n", "is mounted on /image"),
        ("proc/swaps = /srv/disk.img file 1 0 -2\n", "is in use as swap"),
        (scsi, "is exported by the SCSI target"),
    ];
    for (more, expected) in cases {
        let said = reported(&format!("{alone}{more}"), LOOP);
        assert_eq!(said, format!("reads from /srv/disk.img, which {expected}"));
    }
    for unknown in ["/srv/gone.img", "/srv/disk.img (deleted)"] {
        let tree = format!("{MOUNTS}sys/devices/virtual/block/loop1/loop/backing_file = {unknown}\n");
        assert!(reported(&tree, LOOP).contains("cannot be looked at"), "{unknown}");
    }
    assert!(reported(MOUNTS, LOOP).contains("what is behind that is not known"));
}

#[test]
fn a_loop_device_on_devices_is_followed_to_the_disks() {
    let on = |path: &str| format!("sys/devices/virtual/block/loop1/loop/backing_file = {path}\n");
    let on_sdb = format!("{MOUNTS}{}", on("/dev/sdb"));
    assert_eq!(reported(&on_sdb, LOOP), "");
    let mounted = "proc/self/mountinfo = 5 1 8:16 / /mnt rw - ext4 /dev/sdb rw\n";
    let said = reported(&format!("{mounted}{}", on("/dev/sdb")), LOOP);
    assert_eq!(said, "reads from sdb, which is mounted on /mnt");
    let said = reported(&format!("{MOUNTS}{}", on("/dev/sda")), LOOP);
    assert_eq!(said, "reads from sda, which has partitions: sda1, sda2");
    // Stack of two loop devices, RAID and a mounted disk.
    let stack = format!(
        "{}{}{}{}sys/devices/virtual/block/loop2/loop/backing_file = /dev/md0\n",
        on("/dev/loop2"),
        device("loop2", "7:2"),
        built("md0", "9:0", &[SDB, SDA2]),
        mounted,
    );
    assert_eq!(reported(&stack, LOOP), "is made of sdb, which is mounted on /mnt");
    let found = used(&stack, LOOP);
    let names: Vec<&str> = found.stack.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["loop1", "loop2", "md0", "sda2", "sdb", "sda"]);
    assert_eq!(found.below.iter().map(|below| below.name.as_str()).collect::<Vec<_>>(), ["loop2", "md0"]);
}

#[test]
fn volumes_of_one_manager_keep_apart_and_others_do_not() {
    const GROUP: &str = "abcdefghijklmnopqrstuvwxyz012345";
    const DM: DeviceNumber = DeviceNumber { major: 253, minor: 0 };
    let two = format!("{}{}", built("dm-0", "253:0", &[SDB]), built("dm-1", "253:1", &[SDB]));
    let mount = "proc/self/mountinfo = 5 1 253:1 / /home rw - ext4 /dev/dm-1 rw\n";
    let uuid = |dm: &str, uuid: &str| format!("sys/devices/virtual/block/{dm}/dm/uuid = {uuid}\n");
    let with = |one: &str, other: &str| {
        reported(&format!("{two}{mount}{}{}", uuid("dm-0", one), uuid("dm-1", other)), DM)
    };
    assert_eq!(with(&format!("LVM-{GROUP}1"), &format!("LVM-{GROUP}2")), "");
    assert_eq!(with("part1-mpath-36", "part2-mpath-36"), "");
    let shared = "is made of sdb, which is part of dm-1 (dm-1 is mounted on /home)";
    let another = GROUP.to_uppercase();
    assert_eq!(with(&format!("LVM-{GROUP}1"), &format!("LVM-{another}2")), shared);
    for (one, other) in [("part1-mpath-36", "part1-mpath-36"), ("CRYPT-PLAIN-a", "x"), ("", "")] {
        assert_eq!(with(one, other), shared, "{one}");
    }
    // A snapshot and its origin share blocks of the origin; thin volumes share only the pool.
    for (pool, users) in [("-real", true), ("-tpool", false)] {
        let uuid = |dm: &str, end: &str| uuid(dm, &format!("LVM-{GROUP}{end}"));
        let layer = built("dm-2", "253:2", &[SDB]);
        let above = built("dm-0", "253:0", &["virtual/block/dm-2"])
            + &built("dm-1", "253:1", &["virtual/block/dm-2"]);
        let tree =
            format!("{layer}{above}{mount}{}{}{}", uuid("dm-0", "0"), uuid("dm-1", "1"), uuid("dm-2", pool));
        assert_eq!(reported(&tree, DM).contains("is mounted on /home"), users, "{pool}");
    }
}

#[test]
fn a_mount_in_another_namespace_is_named_with_a_process_of_it() {
    let tree = format!(
        "{MOUNTS}proc/self/ns/mnt -> mnt:[1]\n\
         proc/70/ns/mnt -> mnt:[1]\n\
         proc/77/ns/mnt -> mnt:[2]\nproc/77/comm = sh\n\
         proc/77/mountinfo = 5 1 8:16 / /hidden rw - ext4 /dev/sdb rw\n"
    );
    assert_eq!(reported(&tree, DISK), "is mounted on /hidden in the mount namespace of process 77 (sh)");
}

#[test]
fn what_serves_a_network_device_is_looked_at_where_it_is_here() {
    const NBD: DeviceNumber = DeviceNumber { major: 43, minor: 0 };
    let nbd = |name: &str, number: &str, pid: u32| {
        format!("{}sys/devices/virtual/block/{name}/pid = {pid}\n", device(name, number))
    };
    let serves = |pid: u32, name: &str| {
        format!(
            "proc/{pid}/comm = {name}\nproc/{pid}/fd/3 -> /srv/disk.img\nproc/{pid}/fdinfo/3 = flags:\\t0100002\n\
             proc/{pid}/fd/1 -> /srv/other.img\nproc/{pid}/fdinfo/1 = flags:\\t0100001\n"
        )
    };
    let own = format!("{MOUNTS}{}{}", nbd("nbd0", "43:0", 77), serves(77, "qemu-nbd"));
    let found = used(&own, NBD);
    assert_eq!((found.users.join("; "), found.remarks.len()), (String::new(), 0));
    assert_eq!(found.watched[1].exempt, [77]);
    let looped = loop3("/srv/disk.img");
    let said = reported(&format!("{own}{looped}"), NBD);
    assert_eq!(said, "is served from /srv/disk.img, which is what loop3 reads from");
    // Another process with the file is a user, even if it is a server itself.
    let fixture = Fixture::unpack(&format!("{}{own}{}", disks(), serves(99, "qemu-nbd"))).unwrap();
    let holder = openers::find_holder(&fixture.root, &examine(&fixture.root, NBD).watched).holder;
    assert_eq!(holder.map(|(opener, _)| opener.process), Some(99));
    // Behind a client the server is unknown.
    let client = format!("{MOUNTS}{}proc/77/comm = nbd-client\n", nbd("nbd0", "43:0", 77));
    let remote = used(&client, NBD);
    assert_eq!(remote.users.join("; "), "");
    assert!(remote.remarks[0].contains("perhaps on another machine"), "{:?}", remote.remarks);
    let server = serves(99, "nbd-server");
    let unreadable = reported(&format!("{client}{server}{looped}"), NBD);
    assert_eq!(unreadable, "may be served from /srv/disk.img, which is what loop3 reads from");
    let second = nbd("nbd1", "43:1", 78);
    let said = reported(&format!("{client}{server}{second}"), NBD);
    assert!(said.contains("may have the same server on this machine as nbd1"), "{said}");
    assert_eq!(reported(&format!("{client}{second}"), NBD), "", "no server is here");
}

#[test]
fn the_server_of_a_ublk_device_is_who_holds_its_control_device() {
    const UBLK: DeviceNumber = DeviceNumber { major: 259, minor: 0 };
    let tree = format!("{MOUNTS}{}sys/class/ublk-char/ublkc0/dev = 243:0\n", device("ublkb0", "259:0"));
    assert_eq!(reported(&tree, UBLK), "");
    assert_eq!(used(&tree, UBLK).remarks.len(), 1);
    let server =
        "proc/99/fd/3 -> /dev/ublkc0\nproc/99/fd/4 -> /srv/disk.img\nproc/99/fdinfo/4 = flags:\\t0100002\n";
    let found = used(&format!("{tree}{server}proc/swaps = /srv/disk.img file 1 0 -2\n"), UBLK);
    assert_eq!(found.users, ["is served from /srv/disk.img, which is in use as swap"]);
    assert_eq!(found.remarks.len(), 0);
}

#[test]
fn the_server_of_a_file_on_fuse_is_looked_at() {
    let fixture = Fixture::unpack("srv/disk.img = bytes\n").unwrap();
    let Some(FileOrDevice::File(file)) = FileOrDevice::at(&fixture.root, Path::new("/srv/disk.img")) else {
        panic!("no file");
    };
    let mounts = format!("proc/self/mountinfo = 5 1 {} / /srv rw - fuse.bindfs bindfs rw\n", file.system);
    let server = |connection: u32| {
        format!(
            "proc/99/comm = bindfs\nproc/99/fd/3 -> /dev/fuse\nproc/99/fdinfo/3 = fuse_connection:\\t{connection}\n\
             proc/99/fd/4 -> /srv/other.img\nproc/99/fdinfo/4 = flags:\\t0100002\n"
        )
    };
    let looped = loop3("/srv/other.img");
    let reported = |connection| reported(&format!("{mounts}{ON_FILE}{looped}{}", server(connection)), LOOP);
    let said = reported(file.system.minor);
    assert_eq!(said, "may be served from /srv/other.img, which is what loop3 reads from");
    assert_eq!(reported(file.system.minor + 1), "", "it serves another file system");
    assert!(used(&format!("{mounts}{ON_FILE}"), LOOP).remarks[0].contains("fuse.bindfs"));
}

#[test]
fn the_same_disk_by_another_path_is_the_same_disk() {
    let wwid = |place: &str| format!("sys/devices/{place}/device/wwid = naa.5000c500a1b2c3d4\n");
    let mounted = "proc/self/mountinfo = 5 1 8:2 / /home rw - ext4 /dev/sda2 rw\n";
    let both = format!("{mounted}{}{}", wwid(SDA), wwid(SDB));
    let unreadable = reported(&both, DISK);
    let expected = "is the same disk as sda, which has the partition sda2, which is mounted on /home";
    assert!(unreadable.contains(expected), "{unreadable}");
    assert_eq!(reported(&format!("{mounted}{}", wwid(SDB)), DISK), "");
    let idle = used(&format!("{MOUNTS}{}{}", wwid(SDA), wwid(SDB)), DISK);
    assert!(idle.below.iter().any(|below| below.name == "sda" && below.claimable), "{:?}", idle.below);
}

#[test]
fn the_hidden_paths_of_an_nvme_disk_are_the_disk_itself() {
    let about = |place: &str| {
        format!("sys/devices/{place}/wwid = eui.0025385b71b0c2d1\nsys/devices/{place}/size = 4096\n")
    };
    let path = "pci/nvme/nvme0/nvme0c0n1";
    let tree = format!(
        "{MOUNTS}{}{}{}sys/block/nvme0c0n1 -> ../devices/{path}\nsys/devices/{path}/hidden = 1\n",
        device("nvme0n1", "259:0"),
        about("virtual/block/nvme0n1"),
        about(path),
    );
    assert_eq!(reported(&tree, DeviceNumber { major: 259, minor: 0 }), "");
}

#[test]
fn an_array_keeps_apart_from_its_container_and_from_its_siblings() {
    let version =
        |name: &str, text: &str| format!("sys/devices/virtual/block/{name}/md/metadata_version = {text}\n");
    let reported = |own: &str, container: &str, sibling: &str| {
        let arrays = [("md127", "9:127", container), ("md126", "9:126", own), ("md125", "9:125", sibling)];
        let built = arrays.map(|(name, number, text)| built(name, number, &[SDB]) + &version(name, text));
        let mounted = "proc/self/mountinfo = 5 1 9:125 / /home rw - ext4 /dev/md125 rw\n";
        reported(&format!("{mounted}{}", built.concat()), DeviceNumber { major: 9, minor: 126 })
    };
    assert_eq!(reported("external:/md127/0", "external:imsm", "external:/md127/1"), "");
    assert_eq!(reported("external:-md127/0", "external:imsm", "external:/md127/1"), "");
    for (own, container, sibling) in [
        ("1.2", "external:imsm", "external:/md127/1"),
        ("external:/md127/0", "external:imsm", "1.2"),
        ("external:/md127/0", "external:imsm", "external:/md127/0"),
        ("external:/md127/0", "external:imsm", "external:/md126/1"),
    ] {
        assert!(reported(own, container, sibling).contains("is mounted on /home"), "{own} {sibling}");
    }
}

#[test]
fn what_cannot_be_read_is_no_consent() {
    assert!(reported("", DISK).contains("mounts that cannot be read"));
    let empty = Fixture::unpack("proc/swaps = x\n").unwrap();
    assert!(examine(&empty.root, DISK).users[0].contains("not described by sysfs"));
}

#[test]
fn a_loop_device_with_an_unknown_file_is_no_consent_for_a_file() {
    let unknown = format!("{MOUNTS}{ON_FILE}{}", loop3("/gone"));
    let said = reported(&unknown, LOOP);
    assert!(said.contains("may be what loop3 reads from, whose file cannot be looked at"), "{said}");
    assert_eq!(reported(&unknown, DISK), "");
}

#[test]
fn a_disk_that_is_used_as_a_whole_as_well_answers_for_all_its_partitions() {
    let tree = format!(
        "{}{}{}{}",
        "proc/self/mountinfo = 5 1 8:1 / /home rw - ext4 /dev/sda1 rw\n",
        loop3("/dev/sda"),
        built("dm-0", "253:0", &[SDA2]),
        "sys/devices/virtual/block/dm-0/slaves/loop3 -> ../../loop3\n\
         sys/devices/virtual/block/loop3/holders/dm-0 -> ../../dm-0\n"
    );
    let unreadable = reported(&tree, DeviceNumber { major: 253, minor: 0 });
    assert!(unreadable.contains("reads from sda, which has partitions: sda1"), "{unreadable}");
}

#[test]
fn a_stack_that_goes_round_ends() {
    let round = "sys/devices/virtual/block/loop1/loop/backing_file = /dev/loop1\n";
    assert!(used(&format!("{MOUNTS}{round}"), LOOP).stack.nodes.len() == 1);
}

#[test]
fn many_users_are_counted() {
    let users: Vec<String> = (0..9).map(|n| format!("is what loop{n} reads from")).collect();
    let unreadable = DeviceUse { users, ..DeviceUse::default() }.sentence().unwrap();
    assert!(unreadable.ends_with("and has 5 more users"), "{unreadable}");
}
