use super::*;
use crate::fixture::{Fault, Fixture};
use crate::fixture::{Slot, table};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use tar::{EntryType, Header};

/// A machine whose every private file holds a name that must not come out.
fn private() -> Result<Fixture, Fault> {
    let fixture = Fixture::open("xeon-gold-6230-2s")?;
    for path in [
        "proc/sys/kernel/hostname",
        "sys/class/dmi/id/product_serial",
        "sys/class/dmi/id/product_uuid",
        "sys/class/net/eth9/address",
        "proc/self/cgroup",
        "proc/cmdline",
    ] {
        fixture.write(path, b"SECRET-1234\n")?;
    }
    fixture.write("proc/cpuinfo", b"processor\t: 0\nSerial\t\t: SECRET-1234\nvendor_id\t: GenuineIntel\n")?;
    let slots: [Slot<'_>; 1] = [("DIMM 0", "P0 CHANNEL A", Some((32, 2666)))];
    fixture.write(smbios::TABLE, &table(&slots))?;
    fixture.write(
        cpuid::FILE,
        b"CPU 0:\n   0x00000000 0x00: eax=0x16 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n",
    )?;
    Ok(fixture)
}

#[test]
fn a_saved_machine_is_found_again_and_names_nobody() -> Result<(), Fault> {
    let fixture = private()?;
    let machine = fixture.machine();
    let dir = tempfile::tempdir()?;
    for name in ["directory", "archive.tar.gz"] {
        let place = dir.path().join(name);
        save(&fixture.root, &machine, &place)?;
        assert!(matches!(save(&fixture.root, &machine, &place), Err(SavedError::Exists(_))));
        let opened = Opened::at(&place)?;
        let again = Machine::discover(&opened.root());
        assert_eq!(again.cpu, machine.cpu, "{name}");
        assert_eq!(again.memory, machine.memory, "{name}");
        assert_eq!(again.kernel, machine.kernel, "{name}");
        assert_eq!(again.virtualisation.product, machine.virtualisation.product);
        assert_eq!(again.host, None);
    }
    for (path, bytes) in files(&fixture.root, &machine) {
        assert!(!String::from_utf8_lossy(&bytes).contains("SECRET"), "{}", path.display());
    }
    Ok(())
}

/// An archive with one entry, whatever its path.
fn packed(path: &str, kind: EntryType, size: u64, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    let name = &mut header.as_ustar_mut().map(|ustar| &mut ustar.name);
    if let Some(name) = name {
        name[..path.len()].copy_from_slice(path.as_bytes());
    }
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    io::Write::write_all(&mut gzip, &bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn hostile_archives_are_refused() -> Result<(), Fault> {
    let dir = tempfile::tempdir()?;
    let place = dir.path().join("machine.tar.gz");
    let said = |bytes: &[u8]| -> String {
        fs::write(&place, bytes).unwrap();
        match Opened::at(&place) {
            Ok(_) => String::new(),
            Err(e) => e.to_string(),
        }
    };
    assert_eq!(said(&packed("proc/cpuinfo", EntryType::Regular, 2, b"x\n")), "");
    assert!(said(&packed("../evil", EntryType::Regular, 2, b"x\n")).contains("leads out of it"));
    assert!(said(&packed("/etc/evil", EntryType::Regular, 2, b"x\n")).contains("leads out of it"));
    for link in [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Fifo] {
        assert!(said(&packed("sys", link, 0, b"")).contains("is a link or a device"), "{link:?}");
    }
    assert!(said(&packed("proc/stat", EntryType::Regular, 1 << 40, b"")).contains("longer than"));
    assert!(said(b"no archive").contains("is no tar archive"));
    let cut = packed("proc/cpuinfo", EntryType::Regular, 2, b"x\n");
    assert!(!said(&cut[..cut.len() / 2]).is_empty());
    assert!(Opened::at(Path::new("/")).is_err_and(|e| e.to_string().contains("no saved machine")));
    assert!(Opened::at(dir.path()).is_err());
    assert!(Opened::at(&dir.path().join("missing")).is_err());
    Ok(())
}

#[test]
fn an_archive_that_unpacks_to_too_much_is_refused() -> Result<(), Fault> {
    let dir = tempfile::tempdir()?;
    let place = dir.path().join("bomb.tar.gz");
    let mut gzip = GzEncoder::new(fs::File::create(&place)?, Compression::fast());
    let header = packed_header("proc/stat", (256 << 20) - 512);
    io::Write::write_all(&mut gzip, &header)?;
    let zeros = vec![0_u8; 1 << 20];
    for _ in 0..258 {
        io::Write::write_all(&mut gzip, &zeros)?;
    }
    gzip.finish()?;
    let error = Opened::at(&place).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("longer than"), "{error}");
    Ok(())
}

fn packed_header(path: &str, size: u64) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.set_path(path).unwrap();
    header.set_size(size);
    header.set_cksum();
    header.as_bytes().to_vec()
}
