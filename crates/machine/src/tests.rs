use super::disk::DiskKind;
use super::fixture::{Entry, Fixture, entries, tree_file, virtual_device};
use super::storage::Medium;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Paths, between colons, whose storage is looked for in a saved machine.
const PATHS: [(&str, &str); 6] = [
    ("firecracker-zen4", "/home/user:/dev/shm/x"),
    ("xeon-gold-6230-2s", "/var/tmp:/boot:/home/user"),
    ("epyc-7543-nps4", "/"),
    ("graviton2-container", "/data/bench:/root"),
    (
        "stacked-storage",
        "/:/srv/a:/srv/image mount/a:/bt:/mapped:/tmp:/nfs:/fuse:/pool:/multi:/lost:/circle:/gone:relative",
    ),
    ("garbage", "/:/x/y"),
];

fn paths_of(name: &str) -> impl Iterator<Item = &'static Path> {
    let paths = PATHS.iter().filter(move |(fixture, _)| *fixture == name);
    paths.flat_map(|(_, paths)| paths.split(':').map(Path::new))
}

fn snapshot(name: &str, value: &impl Serialize) {
    insta::with_settings!({
        snapshot_path => "../tests/fixtures/machines",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_json_snapshot!(name, value) });
}

/// Discovers a machine and compares it, with the storage behind its paths, with its snapshot.
fn checked(name: &str) -> Machine {
    let fixture = Fixture::open(name).unwrap();
    let machine = fixture.machine();
    snapshot(name, &machine);
    let storage: Vec<Storage> = paths_of(name).map(|path| storage_behind(&fixture.root, path)).collect();
    snapshot(&format!("{name}.storage"), &storage);
    assert_eq!(serde_json::from_str::<Machine>(&serde_json::to_string(&machine).unwrap()).unwrap(), machine);
    machine
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[test]
fn gvisor_is_known_by_its_kernel_and_hides_the_caches() {
    let machine = Fixture::open("gvisor").unwrap().machine();
    assert_eq!(machine.virtualisation.container.as_deref(), Some(virtualisation::GVISOR));
    assert_eq!(machine.kernel.release.as_deref(), Some("4.4.0"));
    assert_eq!(machine.kernel.version.as_deref(), Some("#1 SMP Sun Jan 10 15:06:54 PST 2016"));
    // CPUID has the right family, unlike cpuinfo; cache sharing is unknown.
    assert_eq!((machine.cpu.family, machine.cpu.model), (Some(25), Some(17)));
    assert_eq!((machine.cpu.cores, machine.cpu.last_level_bytes()), (None, None));
    assert_eq!(machine.cpu.allowed.len(), 2);
    // Linux's banner, with its builder, is neither used nor saved.
    let by_jane = "6.1.0-gvisor (jane@gvisor) #1 SMP Sun Jan 10 15:06:54 PST 2016";
    for banner in ["6.1.0 (jane@workshop) #1 SMP", by_jane] {
        let fixture = Fixture::unpack(&format!("proc/version = Linux version {banner}\n")).unwrap();
        let machine = fixture.machine();
        assert_eq!((machine.kernel.release.clone(), machine.virtualisation.container.clone()), (None, None));
        let place = tempfile::tempdir().unwrap();
        let saved = place.path().join("saved");
        saved::save(&fixture.root, &machine, &saved).unwrap();
        assert!(!saved.join(virtualisation::BANNER).exists());
    }
    let newer = Fixture::unpack("proc/version = Linux version 4.19.0-gvisor #1 SMP\n").unwrap().machine();
    assert_eq!(newer.kernel.release.as_deref(), Some("4.19.0-gvisor"));
}

#[test]
fn this_machine_is_discovered_and_survives_json() {
    let root = Root::live();
    let mut machine = Machine::discover(&root);
    machine.set_storage_behind(&root, Path::new("."));
    assert!(!machine.cpu.allowed.is_empty());
    assert!(machine.memory.total_bytes > Some(0));
    assert!(machine.storage.as_ref().is_some_and(|s| s.file_system.is_some()));
    let json = serde_json::to_string_pretty(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
}

#[test]
fn a_firecracker_vm() {
    let machine = checked("firecracker-zen4");
    assert_eq!(machine.cpu.last_level_bytes(), Some(32 * MIB));
}

#[test]
fn a_two_socket_xeon_in_a_job() {
    let machine = checked("xeon-gold-6230-2s");
    let cpu = &machine.cpu;
    // Ten cores of the first socket: one cache, and twenty CPUs on ten cores.
    assert_eq!(cpu.last_level_bytes(), Some(28160 * KIB));
    assert_eq!(cpu.cores_of(&cpu.allowed), Some(10));
    assert_eq!(machine.memory.node_of(45).map(|node| node.id), Some(0));
    assert_eq!(machine.cgroup.memory.as_ref().unwrap().available_bytes(), 64 * GIB - GIB / 2);
    assert_eq!(machine.memory_available_bytes(), Some(64 * GIB - GIB / 2));
    assert_eq!(machine.cpu_capacity(), 20.0);
}

#[test]
fn an_epyc_with_eight_last_level_caches_under_a_quota() {
    let machine = checked("epyc-7543-nps4");
    assert_eq!(machine.cpu.last_level_bytes(), Some(256 * MIB));
    assert_eq!(machine.cpu.cache_of(63, 3).map(|l3| l3.instances.len()), Some(8));
    // The outer slice has the tighter quota, the inner one the lower memory.high.
    assert_eq!(machine.cpu_capacity(), 16.0);
    assert_eq!(machine.cgroup.memory.as_ref().unwrap().available_bytes(), 99 * GIB);
}

#[test]
fn a_graviton_in_a_container() {
    let machine = checked("graviton2-container");
    assert_eq!((machine.cpu_capacity(), machine.most_threads()), (2.5, 3));
    assert_eq!(machine.memory_available_bytes(), Some(4 * GIB - 500 * MIB));
}

#[test]
fn stacked_storage_is_followed_to_the_disks() {
    checked("stacked-storage");
    let fixture = Fixture::open("stacked-storage").unwrap();
    let disks = |path: &str| -> Vec<String> {
        storage_behind(&fixture.root, Path::new(path)).disks.into_iter().map(|disk| disk.name).collect()
    };
    assert_eq!(disks("/home"), ["sda"]);
    assert_eq!(disks("/srv"), ["sda", "sdb"]);
}

const STACKS: &str = "\
    proc/self/mountinfo = 20 1 8:0 / / rw - ext4 /dev/sda rw\n\
    proc/self/mountinfo = 21 20 0:40 / /run rw - tmpfs tmpfs rw\n\
    proc/self/mountinfo = 22 20 0:41 / /live rw - overlay overlay rw,lowerdir=/rofs,upperdir=/run/up,workdir=/run/w\n\
    proc/self/mountinfo = 23 20 0:42 / /merged rw - overlay overlay rw,lowerdir=/l,upperdir=/var/up,workdir=/var/w\n\
    proc/self/mountinfo = 24 20 0:43 / /bc rw - bcachefs /dev/sda:/dev/sdb rw\n\
    proc/self/mountinfo = 25 20 7:1 / /image rw - ext4 /dev/loop1 rw\n\
    proc/self/mountinfo = 26 20 7:2 / /rofs ro - squashfs /dev/loop2 ro\n\
    proc/self/mountinfo = 27 20 0:44 / /nfs rw - nfs4 server:/x rw\n\
    proc/self/mountinfo = 28 20 7:3 / /remote rw - ext4 /dev/loop3 rw\n\
    proc/self/mountinfo = 29 20 252:0 / /zram rw - ext4 /dev/zram0 rw\n\
    proc/self/mountinfo = 30 20 43:0 / /nbd rw - ext4 /dev/nbd0 rw\n";

#[test]
fn files_in_memory_and_on_several_devices_are_named() {
    let mut tree = STACKS.to_owned();
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("zram0", "252:0"), ("nbd0", "43:0")] {
        tree += &virtual_device(name, number);
    }
    for (name, backing) in [("loop1", "/run/image"), ("loop2", "/cdrom.squashfs"), ("loop3", "/nfs/image")] {
        tree += &virtual_device(name, &name.replace("loop", "7:"));
        tree += &format!("sys/devices/virtual/block/{name}/loop/backing_file = {backing}\n");
    }
    let fixture = Fixture::unpack(&tree).unwrap();
    let behind = |path: &str| storage_behind(&fixture.root, Path::new(path));
    let found = |path: &str| {
        let storage = behind(path);
        let disks: Vec<String> = storage.disks.iter().map(|disk| disk.name.clone()).collect();
        let loops: Vec<Option<Medium>> = storage.layers.iter().map(|layer| layer.medium).collect();
        (storage.file_system.map(|fs| fs.medium), disks.join(" "), loops)
    };
    let of = |medium, disks: &str, loops: &[Option<Medium>]| (Some(medium), disks.to_owned(), loops.to_vec());
    assert_eq!(found("/live"), of(Medium::Memory, "", &[]));
    assert_eq!(found("/merged"), of(Medium::Stacked, "", &[]));
    assert_eq!(found("/bc"), of(Medium::Device, "sda sdb", &[]));
    assert_eq!(behind("/bc").top_names(), ["sda", "sdb"]);
    assert_eq!(found("/image"), of(Medium::Device, "", &[Some(Medium::Memory)]));
    assert_eq!(found("/rofs"), of(Medium::Device, "sda", &[None]));
    assert_eq!(found("/remote"), of(Medium::Device, "", &[Some(Medium::Network)]));
    let kind = |path: &str| behind(path).disks.first().map(|disk| disk.kind);
    assert_eq!((kind("/zram"), kind("/nbd")), (Some(DiskKind::Zram), Some(DiskKind::Network)));
}

#[test]
fn the_medium_follows_from_the_type() {
    for (medium, types) in [
        (Medium::Memory, "tmpfs devtmpfs ramfs hugetlbfs proc sysfs"),
        (Medium::Network, "nfs nfs4 cifs smb3 smbfs ceph lustre afs"),
        (Medium::Stacked, "overlay ecryptfs vboxsf 9p fuse fuse.ext4"),
        (Medium::Device, "ext2 ext4 xfs btrfs zfs vfat fuseblk ocfs2 gfs2 other"),
    ] {
        types.split(' ').for_each(|one| assert_eq!(Medium::of(one), medium, "{one}"));
    }
    let mounted = |path: &str| storage_behind(&Root::live(), Path::new(path)).file_system.unwrap();
    let proc = mounted("/proc/self");
    let found = (proc.fs_type.as_str(), proc.mount_point.as_str(), proc.medium);
    assert_eq!(found, ("proc", "/proc", Medium::Memory));
    assert_eq!(mounted("/").mount_point, "/");
}

#[test]
fn garbage_is_unknown_with_reasons() {
    let machine = checked("garbage");
    assert_eq!(machine.cpu.last_level_bytes(), None);
    assert_eq!(machine.memory_available_bytes(), None);
}

#[test]
fn an_empty_tree_is_a_machine_of_unknowns() {
    let fixture = Fixture::unpack("").unwrap();
    let machine = fixture.machine();
    assert!(machine.cpu.allowed.is_empty() && machine.disks.is_empty());
    insta::assert_json_snapshot!(machine.unknown);
}

#[test]
fn a_file_past_the_cap_is_not_read() {
    let fixture = Fixture::open("firecracker-zen4").unwrap();
    let huge = vec![b'1'; root::FILE_CAP as usize + 1];
    let paths = "proc/meminfo proc/sys/kernel/hostname sys/devices/system/cpu/online proc/self/cgroup";
    for path in paths.split(' ') {
        fixture.write(path, &huge).unwrap();
    }
    fixture.write("proc/self/mountinfo", &vec![b' '; root::MOUNTS_CAP as usize + 1]).unwrap();
    let machine = fixture.machine();
    assert_eq!(machine.memory.total_bytes, None);
    assert_eq!(machine.host, None);
    let why = |what: &str| machine.unknown.iter().find(|u| u.what == what).map(|u| u.why.clone());
    assert_eq!(why("memory.total"), Some("/proc/meminfo is longer than 1048576 bytes".into()));
}

#[test]
fn a_single_node_has_the_memory_of_the_machine_whatever_the_kernel_has_initialised() {
    let fixture = Fixture::open("firecracker-zen4").unwrap();
    let node = b"Node 0 MemTotal: 4681 kB\nNode 0 MemFree: 3305 kB\n";
    fixture.write("sys/devices/system/node/node0/meminfo", node).unwrap();
    let memory = fixture.machine().memory;
    let nodes: Vec<_> = memory.nodes.iter().map(|node| (node.total_bytes, node.free_bytes)).collect();
    assert!(memory.total_bytes.is_some());
    assert_eq!(nodes, [(memory.total_bytes, memory.available_bytes)]);
}

#[test]
fn the_id_is_of_the_hardware_only() {
    let fixture = Fixture::open("firecracker-zen4").unwrap();
    let id = fixture.machine().id;
    fixture.write("proc/sys/kernel/hostname", b"other\n").unwrap();
    fixture.write("proc/sys/kernel/osrelease", b"7.0\n").unwrap();
    fixture.write("proc/loadavg", b"9 9 9\n").unwrap();
    fixture.write("proc/self/status", b"Cpus_allowed_list:\t1\n").unwrap();
    assert_eq!(fixture.machine().id, id);
    fixture.write("sys/devices/system/cpu/cpu0/cache/index3/size", b"16384K\n").unwrap();
    assert_ne!(fixture.machine().id, id);
}

/// Returns whether any string in a JSON value contains a control character.
fn holds_control(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => text.contains(char::is_control),
        serde_json::Value::Array(all) => all.iter().any(holds_control),
        serde_json::Value::Object(map) => {
            map.iter().any(|(k, v)| k.contains(char::is_control) || holds_control(v))
        }
        _ => false,
    }
}

fn nasty() -> impl Strategy<Value = Vec<u8>> {
    const KNOWN: &str = "|\n|-1|0|1|18446744073709551615|18446744073709551616|9223372036854771712|max|max max|\
        0-8191|0-8192|0-|,|[|[]|]x[|NaN|inf|1e308|:|::|0::/..|a:b:c:d|K|0K|9999999999999G|0x|\
        0xffffffffffffffffffff|some avg10=100.01 total=1|cpu0|\\777\\000|- - - -|\
        1 1 0:1 / / rw - btrfs /dev/.. rw|1 1 0:1 / / rw - btrfs /dev/mapper/ rw|1 1 254:0 / / rw - ext4|\
        @ 9999999999999999.99GHz|Node 0 MemTotal:|MemTotal: -5 kB|Cpus_allowed_list: 8191|é\u{202e}";
    prop_oneof![
        prop::sample::select(KNOWN.split('|').collect::<Vec<_>>()).prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..80),
        "[0-9a-z:/ ,.\\n\\-]{0,60}".prop_map(String::into_bytes),
    ]
}

fn files(name: &str) -> Vec<String> {
    let tree = std::fs::read_to_string(tree_file(name)).unwrap();
    let files = entries(&tree).unwrap().into_iter().filter(Entry::is_file).map(|entry| entry.path);
    files.collect::<BTreeSet<_>>().into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn garbage_in_any_file_never_panics(
        name in prop::sample::select(vec!["firecracker-zen4", "graviton2-container", "stacked-storage", "garbage"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), nasty()), 1..40),
    ) {
        let fixture = Fixture::open(name).unwrap();
        let files = files(name);
        for (index, content) in &damage {
            fixture.write(&files[index.index(files.len())], content).unwrap();
        }
        let mut machine = fixture.machine();
        for path in paths_of(name) {
            machine.set_storage_behind(&fixture.root, path);
            let value = serde_json::to_value(&machine).unwrap();
            prop_assert!(!holds_control(&value));
            // Every discovered value survives JSON: a NaN would return as null.
            prop_assert_eq!(&serde_json::from_value::<Machine>(value).unwrap(), &machine);
        }
    }
}
