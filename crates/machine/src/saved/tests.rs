use super::*;
use crate::disk::DiskKind;
use crate::fixture::{Fixture, table};
use crate::storage::{Medium, Storage};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use tar::{EntryType, Header};

/// Makes a machine with a private name in every file, which must not be saved.
fn private() -> Fixture {
    let fixture = Fixture::open("xeon-gold-6230-2s").unwrap();
    let private = "proc/sys/kernel/hostname sys/class/dmi/id/product_serial sys/class/dmi/id/product_uuid \
                   sys/class/net/eth9/address proc/self/cgroup proc/cmdline";
    for path in private.split(' ') {
        fixture.write(path, b"SECRET-1234\n").unwrap();
    }
    let cpuinfo = b"processor\t: 0\nSerial\t\t: SECRET-1234\nvendor_id\t: GenuineIntel\n";
    fixture.write("proc/cpuinfo", cpuinfo).unwrap();
    fixture.write(smbios::SMBIOS_TABLE, &table(&[("DIMM 0", "P0 CHANNEL A", Some((32, 2666)))])).unwrap();
    let leaf = b"CPU 0:\n   0x00000000 0x00: eax=0x16 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n";
    fixture.write(cpuid::CPUID_FILE, leaf).unwrap();
    fixture
}

#[test]
fn a_saved_machine_is_found_again_and_names_nobody() {
    let fixture = private();
    let machine = fixture.machine();
    let dir = tempfile::tempdir().unwrap();
    for name in ["directory", "archive.tar.gz"] {
        let place = dir.path().join(name);
        save(&fixture.root, &machine, &place).unwrap();
        assert!(matches!(save(&fixture.root, &machine, &place), Err(SavedError::Exists(_))));
        let opened = open(&place).unwrap();
        let again = Machine::discover(&opened);
        assert_eq!(again.cpu, machine.cpu, "{name}");
        assert_eq!(again.memory, machine.memory, "{name}");
        assert_eq!(again.kernel, machine.kernel, "{name}");
        assert_eq!(again.virtualisation.product, machine.virtualisation.product);
        assert_eq!(again.host, None);
    }
    for (path, bytes) in content(&fixture.root, &machine).files {
        assert!(!String::from_utf8_lossy(&bytes).contains("SECRET"), "{}", path.display());
    }
}

fn linked(links: &[(&str, &str)]) -> Vec<u8> {
    let headers = links.iter().map(|(path, target)| header(path, EntryType::Symlink, 0, target));
    zipped(headers.chain([vec![0; 1024]]))
}

/// Removes what a saved machine lacks or renames.
fn without_names(mut machine: Machine) -> Machine {
    machine.host = None;
    machine.network.clear();
    machine.unknown.clear();
    machine.virtualisation.evidence.clear();
    machine.disks.iter_mut().for_each(|disk| unnamed(&mut disk.name));
    let cgroup = &mut machine.cgroup;
    cgroup.group = cgroup.group.take().map(|_| String::new());
    cgroup.cpu_quota.iter_mut().for_each(|quota| quota.group.clear());
    cgroup.memory.iter_mut().for_each(|memory| memory.group.clear());
    machine
}

fn unnamed(name: &mut String) {
    if name.starts_with("md_") {
        "md_".clone_into(name);
    }
}

fn behind_all(root: &Root) -> Vec<Storage> {
    let mounts = crate::mounts::read(root).unwrap_or_default();
    let on_devices =
        mounts.iter().filter(|m| Medium::of(&m.fs_type) == Medium::Device && m.source.starts_with("/dev"));
    let found = on_devices.map(|mount| {
        let mut storage = crate::storage_behind(root, &mount.point);
        storage.path.clear();
        storage.unknown.clear();
        if let Some(fs) = &mut storage.file_system {
            (fs.mount_point, fs.source, fs.options) = Default::default();
        }
        storage.device.iter_mut().for_each(unnamed);
        for layer in &mut storage.layers {
            unnamed(&mut layer.name);
            // The name of a mapped volume is private; its type, `LVM`, comes first, if it has one.
            if layer.kind == DiskKind::DeviceMapper {
                let kind = |text: String| text.split(' ').next().map(str::to_owned);
                layer.detail = layer.detail.take().and_then(kind).filter(|kind| !kind.contains('-'));
            }
        }
        storage
    });
    // Storage below a loop device is unknown without the path of its file.
    let is_known = |storage: &Storage| {
        !storage.disks.is_empty() && storage.layers.iter().all(|layer| layer.kind != DiskKind::Loop)
    };
    found.filter(is_known).collect()
}

#[test]
fn a_saved_machine_has_all_the_facts_of_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let names = "container-with-quota nvme-and-raid epyc-7543-nps4 graviton2-container stacked-storage \
                 xeon-gold-6230-2s";
    for name in names.split(' ') {
        let fixture = Fixture::open(name).unwrap();
        let machine = fixture.machine();
        for form in ["directory", "archive.tar.gz"] {
            let place = dir.path().join(format!("{name}-{form}"));
            save(&fixture.root, &machine, &place).unwrap();
            let opened = open(&place).unwrap();
            let again = Machine::discover(&opened);
            assert_eq!(without_names(again), without_names(machine.clone()), "{name} {form}");
            assert_eq!(behind_all(&opened), behind_all(&fixture.root), "{name} {form}");
        }
        for (path, bytes) in content(&fixture.root, &machine).files {
            let text = path.display().to_string() + &String::from_utf8_lossy(&bytes);
            assert!(!text.contains("SECRET") && !text.contains("jane"), "{text}");
        }
    }
}

#[test]
fn a_link_of_a_saved_tree_shows_no_file_outside() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("machine/proc")).unwrap();
    fs::write(dir.path().join("outside"), "model name\t: SECRET\n").unwrap();
    std::os::unix::fs::symlink("../../outside", dir.path().join("machine/proc/cpuinfo")).unwrap();
    let machine = Machine::discover(&open(&dir.path().join("machine")).unwrap());
    assert_eq!(machine.cpu.model_name, None);
    assert!(machine.unknown.iter().any(|unknown| unknown.why.contains("leaves the tree")));
}

fn header(path: &str, kind: EntryType, size: u64, target: &str) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_ustar_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_link_name_literal(target).unwrap();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// Returns an archive with one entry at any path.
fn packed(path: &str, kind: EntryType, size: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = [header(path, kind, size, "").as_slice(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
    zipped([bytes])
}

fn zipped(blocks: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    blocks.into_iter().for_each(|block| io::Write::write_all(&mut gzip, &block).unwrap());
    gzip.finish().unwrap()
}

fn stated(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("machine.tar.gz");
    fs::write(&place, bytes).unwrap();
    open(&place).err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn hostile_archives_are_refused() {
    assert_eq!(stated(&packed("proc/cpuinfo", EntryType::Regular, 2, b"x\n")), "");
    assert!(stated(&packed("../evil", EntryType::Regular, 2, b"x\n")).contains("leads out of the archive"));
    assert!(stated(&packed("/etc/evil", EntryType::Regular, 2, b"x\n")).contains("leads out of the archive"));
    for link in [EntryType::Link, EntryType::Char, EntryType::Fifo] {
        assert!(stated(&packed("sys", link, 0, b"")).contains("is a hard link or a device"), "{link:?}");
    }
    // Links are followed only inside the archive.
    for target in ["/etc", "..", "../..", "a/../../..", "x/.."] {
        assert!(stated(&linked(&[("sys", target)])).contains("none of sys, proc"), "{target}");
    }
    assert!(stated(&linked(&[("a", "b"), ("a/c", "../../etc")])).contains("no directory"), "through a link");
    assert_eq!(stated(&linked(&[("sys/block/sda", "../devices/sda")])), "");
    assert!(stated(&packed("proc/stat", EntryType::Regular, 1 << 40, b"")).contains("damaged tar.gz"));
    assert!(stated(&packed("hello", EntryType::Regular, 2, b"x\n")).contains("none of sys, proc"));
    assert_eq!(stated(&packed("machine/proc/cpuinfo", EntryType::Regular, 2, b"x\n")), "");
    assert!(stated(&linked(&[("sys", "proc"), ("sys", "proc")])).contains("twice"));
    assert!(stated(b"no archive").contains("is not a tar.gz that plimsoll machine --save wrote"));
    let cut = packed("proc/cpuinfo", EntryType::Regular, 2, b"x\n");
    assert!(!stated(&cut[..cut.len() / 2]).is_empty());
    assert!(open(Path::new("/")).is_err_and(|e| e.to_string().contains("not a saved machine")));
    let dir = tempfile::tempdir().unwrap();
    assert!(open(dir.path()).is_err());
    assert!(open(&dir.path().join("missing")).is_err());
}

#[test]
fn an_archive_that_unpacks_to_too_much_is_refused() {
    let header = header("proc/stat", EntryType::Regular, (256 << 20) - 512, "");
    let error = stated(&zipped(std::iter::once(header).chain((0..258).map(|_| vec![0; 1 << 20]))));
    assert!(error.contains("unpacks to more than 256 MiB"), "{error}");
}

#[test]
fn an_archive_of_too_many_files_is_refused_and_none_is_written() {
    let empty = |number: u32| header(&format!("proc/{number}"), EntryType::Regular, 0, "");
    let error = stated(&zipped((0..=300_000).map(empty)));
    assert!(error.contains("more than 300000 files and directories"), "{error}");
}
