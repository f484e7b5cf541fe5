use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use proptest::prelude::*;

use super::super::second_opinion;
use super::*;

const SIZE: usize = 16 << 20;

fn of(bytes: &[u8]) -> Option<&'static str> {
    found(&bytes[..HEAD.min(bytes.len())], &bytes[bytes.len().saturating_sub(TAIL)..], bytes.len() as u64)
}

fn with(place: u64, mark: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    let place = usize::try_from(place).expect("small");
    bytes[place..place + mark.len()].copy_from_slice(mark);
    bytes
}

/// An image of `size` bytes with each of `parts` at its place.
fn image(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (place, part) in parts {
        bytes[*place..*place + part.len()].copy_from_slice(part);
    }
    bytes
}

#[test]
fn every_mark_is_found_at_all_its_places_and_nothing_in_zeros() {
    for odd in [0, 512, 3584, 61_440] {
        let mut bytes = vec![0; SIZE + odd];
        assert_eq!(of(&bytes), None);
        for (name, places, marks) in MARKS {
            for (place, mark) in places.iter().flat_map(|place| marks.iter().map(move |mark| (place, mark))) {
                let place = usize::try_from(place.of(bytes.len() as u64).expect("on it")).expect("small");
                bytes[place..place + mark.len()].copy_from_slice(mark);
                // The same bytes may be another format's as well.
                assert!(of(&bytes).is_some(), "{name} at {place}");
                bytes[place..place + mark.len()].fill(0);
            }
        }
    }
}

/// As the formats' specifications have them, apart from the table.
#[test]
#[allow(clippy::too_many_lines, reason = "a row for each format")]
fn formats_are_found_by_name() {
    let magic = |magic: u32| [magic.to_le_bytes(), magic.to_be_bytes()];
    let mut cases: Vec<(&str, u64, Vec<u8>)> = vec![
        ("ReFS", 0, b"\0\0\0ReFS\0".to_vec()),
        ("VMFS volume", 1 << 20, vec![0x0d, 0xd0, 0x01, 0xc0]),
        ("VMFS file system", 2 << 20, vec![0x5e, 0xf1, 0xab, 0x2f]),
        ("LVM1", 0, b"HM\x01\0".to_vec()),
        ("zonefs", 0, b"SFOZ".to_vec()),
        ("Stratis", 516, b"!Stra0tis\x86\xff\x02^\x41rh".to_vec()),
        ("AIX", 0, vec![0xc9, 0xc2, 0xd4, 0xc1]),
        ("SGI", 0, 0x0be5_a941_u32.to_be_bytes().to_vec()),
        ("BSD", 512, 0x8256_4557_u32.to_le_bytes().to_vec()),
        ("Solaris", 524, 0x600d_deee_u32.to_le_bytes().to_vec()),
        ("software RAID", (SIZE - (64 << 10)) as u64, 0xa92b_4efc_u32.to_be_bytes().to_vec()),
        ("software RAID", (SIZE - (8 << 10)) as u64, 0xa92b_4efc_u32.to_le_bytes().to_vec()),
        ("hibernation", 4086, b"S2SUSPEND".to_vec()),
        ("hibernation", 65_526, b"LINHIB0001".to_vec()),
        ("snapshot", 0, b"SnAp".to_vec()),
        ("Intel", (SIZE - 1024) as u64, b"Intel Raid ISM Cfg Sig. 1.1.00".to_vec()),
        ("LSI", (SIZE - 512) as u64, b"$XIDE$".to_vec()),
        ("NVIDIA", (SIZE - 1024) as u64, b"NVIDIA  ".to_vec()),
        ("Promise", (SIZE - 3087 * 512) as u64, b"Promise Technology, Inc.".to_vec()),
        ("Adaptec", (SIZE - 512) as u64, 0x37fc_4d1e_u32.to_be_bytes().to_vec()),
        ("DDF", (SIZE - 257 * 512) as u64, 0xde11_de11_u32.to_be_bytes().to_vec()),
        ("HighPoint", (SIZE - 11 * 512) as u64, 0x5a78_16f3_u32.to_le_bytes().to_vec()),
        ("HighPoint", 4608 + 32, 0x5a78_16f0_u32.to_le_bytes().to_vec()),
        ("reiserfs", 0x1_0034, b"ReIsEr2Fs".to_vec()),
        ("reiser4", 0x1_0000, b"ReIsEr4".to_vec()),
        ("UBI device", 0, b"UBI#".to_vec()),
        ("UBIFS", 0, 0x0610_1831_u32.to_le_bytes().to_vec()),
        ("NSS", 4096, b"SPB5".to_vec()),
        ("romfs", 0, b"-rom1fs-".to_vec()),
        ("squashfs", 0, b"sqsh".to_vec()),
        ("DASD", 8196, vec![0xe5, 0xd6, 0xd3, 0xf1]),
        ("LUKS", 4 << 20, b"SKUL\xba\xbe".to_vec()),
        ("BitLocker", 0, b"\xeb\x58\x90MSWIN4.1".to_vec()),
        ("metadata of device mapper", 32, 27_022_010_u64.to_le_bytes().to_vec()),
    ];
    for place in [0x55c, 0x255c, 0x1_055c, 0x4_055c] {
        for word in [0x0001_1954, 0x1954_0119, 0x0019_5612, 0x0009_5014, 0x0061_2195, 0x0523_1994] {
            cases.extend(magic(word).map(|mark| ("UFS", place, mark.to_vec())));
        }
    }
    for superblock in [0_u64, 9, 15, 18].map(|block| block * 1024 + 512) {
        cases.extend(magic(0xfd18_7e20).map(|mark| ("System V", superblock + 504, mark.to_vec())));
    }
    for place in [1024, 8192] {
        cases.extend(magic(0xa501_fcf5).map(|mark| ("VxFS", place, mark.to_vec())));
    }
    for place in [0, 512] {
        cases.extend(magic(0x28cd_3d45).map(|mark| ("cramfs", place, mark.to_vec())));
    }
    for name in [b"BEA01", b"BOOT2", b"NSR02", b"NSR03", b"TEA01"] {
        cases.extend([0x8001, 0x8801, 0x9001].map(|place| ("UDF", place, name.to_vec())));
    }
    for magic in [0x8374_0267_u32, 0x8374_026b, 0x8374_026c, 0x8374_026d] {
        cases.push(("DRBD", (SIZE - 4096 + 60) as u64, magic.to_be_bytes().to_vec()));
    }
    for (name, place, mark) in cases {
        let found = of(&with(place, &mark));
        assert!(found.is_some_and(|found| found.contains(name)), "{name} at {place}: {found:?}");
    }
    assert_eq!(of(&with(0x8001 + 16 * 2048, b"NSR02")), None, "beyond the sequence");
    assert_eq!(of(&with(0, b"HM\x03\0")), None, "no version of LVM1");
    assert_eq!(
        of(&with((SIZE - 4096 + 60) as u64, &0x8374_026b_u32.to_le_bytes())),
        None,
        "DRBD's is big-endian"
    );
}

#[test]
fn zfs_is_found_by_each_label() {
    const LABEL: usize = 256 << 10;
    for label in [0, LABEL, SIZE - 2 * LABEL, SIZE - LABEL] {
        for magic in [0x00ba_b10c_u64, 0x00ba_b10c_u64.swap_bytes()] {
            let uberblock = with((label + LABEL / 2 + 5 * 1024) as u64, &magic.to_le_bytes());
            assert_eq!(of(&uberblock), Some("a member of a ZFS pool"), "{label}");
        }
        let list = with((label + (16 << 10)) as u64, &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(of(&list), Some("a member of a ZFS pool"), "{label}");
    }
}

/// The superblock of minix: 16-bit words up to version 2, then wider ones.
#[test]
fn minix_is_found_by_its_magic_and_a_plausible_bitmap() {
    let superblock = |words: &[(usize, u16)], bytes: fn(u16) -> [u8; 2]| {
        let parts: Vec<(usize, [u8; 2])> =
            words.iter().map(|(place, word)| (1024 + place, bytes(*word))).collect();
        let parts: Vec<(usize, &[u8])> = parts.iter().map(|(place, bytes)| (*place, &bytes[..])).collect();
        image(SIZE, &parts)
    };
    let little = |words: &[(usize, u16)]| of(&superblock(words, u16::to_le_bytes));
    for magic in [0x137f, 0x138f, 0x2468, 0x2478] {
        let words = [(0, 2688), (4, 1), (16, magic)];
        assert_eq!(little(&words), Some("a minix file system"));
        assert_eq!(of(&superblock(&words, u16::to_be_bytes)), Some("a minix file system"));
        for unlike in [&[(0, 0), (4, 1)][..], &[(0, 2688), (4, 0)], &[(0, 2688), (4, 10)]] {
            assert_eq!(little(&[unlike, &[(16, magic)]].concat()), None, "{unlike:?}");
        }
    }
    let v3 = [(0, 10_912), (6, 2), (24, 0x4d5a), (28, 1024)];
    assert_eq!(little(&v3), Some("a minix file system"));
    assert_eq!(little(&v3[..3]), None, "blocks of no size");
}

/// Images of formats that are told by more than their magic; the second of each is not one.
fn laid_out() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let last = SIZE - 512;
    let be = |word: u32| word.to_be_bytes();
    let hfs = |unit: u32| image(SIZE, &[(1024, b"BD"), (1044, &be(unit))]);
    let nilfs = |revision: u32| {
        image(
            SIZE,
            &[(SIZE - 4096, &revision.to_le_bytes()), (SIZE - 4090, b"\x34\x34"), (SIZE - 4088, b"\x18\x01")],
        )
    };
    let first_nilfs = |revision: u32| image(SIZE, &[(1024, &revision.to_le_bytes()), (1030, b"\x34\x34")]);
    let ext = |blocks: u32| image(SIZE, &[(1048, &blocks.to_le_bytes()), (1080, b"\x53\xef")]);
    let log = |version: u32| {
        let at = 512 * 7;
        image(
            SIZE,
            &[(at, &be(0xfeed_babe)), (at + 8, &be(version)), (at + 12, &be(512)), (at + 300, &be(1))],
        )
    };
    let apple = |sign: &[u8]| image(SIZE, &[(0, b"ER\x02\0"), (512, sign), (516, &be(1))]);
    let sun = |sum: u16| image(SIZE, &[(508, b"\xda\xbe"), (510, &sum.to_be_bytes())]);
    let atari = |name: &[u8]| {
        let size = SIZE as u32 / 512;
        let (start, length) = (be(1), be(size - 1));
        image(SIZE, &[(0x1c2, &be(size)), (0x1c6, b"\x01"), (0x1c7, name), (0x1ca, &start), (0x1ce, &length)])
    };
    let vault = |version: u8| image(SIZE, &[(8, &[version]), (88, b"CS"), (90, b"\x01")]);
    let jmicron = |mode: u8| {
        let sum = u16::from_le_bytes(*b"JM").wrapping_add(mode.into()).wrapping_neg();
        image(SIZE, &[(last, b"JM"), (last + 4, &sum.to_le_bytes()), (last + 0x30, &[mode])])
    };
    let via = |version: u8| {
        let sum = 0x55_u8.wrapping_add(0xaa).wrapping_add(version);
        image(SIZE, &[(last, b"\x55\xaa"), (last + 2, &[version]), (last + 50, &[sum])])
    };
    let silicon = |disk: u8| {
        let sum = 0x2f00_u16.wrapping_add(disk.into()).wrapping_neg();
        let parts: [(usize, &[u8]); 3] =
            [(last + 0x60, b"\0\0\0\x2f"), (last + 0x116, &[disk]), (last + 0x13e, &sum.to_le_bytes())];
        image(SIZE, &parts)
    };
    vec![
        ("an HFS file system", hfs(4096), hfs(4095)),
        ("a nilfs2 file system", nilfs(2), nilfs(3)),
        ("a nilfs2 file system", first_nilfs(2), first_nilfs(3)),
        ("an ext2, ext3 or ext4 file system", ext(6), ext(7)),
        ("the log of an xfs file system", log(2), log(4)),
        ("a partition table (Apple)", apple(b"PM"), apple(b"XX")),
        ("a partition table (Sun)", sun(0xdabe), sun(0xdabf)),
        ("a partition table (Atari)", atari(b"GEM"), atari(b"G/M")),
        ("a FileVault volume", vault(1), vault(2)),
        ("a member of JMicron RAID", jmicron(1), jmicron(6)),
        ("a member of VIA RAID", via(1), via(3)),
        ("a member of Silicon Image RAID", silicon(1), silicon(8)),
    ]
}

#[test]
fn formats_without_a_long_magic_are_told_by_their_layout() {
    for (name, is, is_not) in laid_out() {
        assert_eq!(of(&is), Some(name));
        assert_eq!(of(&is_not), None, "{name}");
    }
}

/// Whatever blkid(8) recognises among images of every mark and layout must be recognised here.
#[test]
fn all_that_blkid_finds_is_found() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("image");
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("create");
    file.set_len(SIZE as u64).expect("extend");
    let asks = second_opinion::on;
    file.write_all_at(b"-rom1fs-", 0).expect("write");
    if asks(&file).is_none() {
        // It is not installed, or another program has its name.
        return;
    }
    file.write_all_at(&[0; 8], 0).expect("write");
    let (mut recognised, mut all) = (0, 0);
    let mut compare = |name: &str, parts: &[(u64, &[u8])]| {
        for (place, part) in parts {
            file.write_all_at(part, *place).expect("write");
        }
        all += 1;
        if let Some(theirs) = asks(&file) {
            recognised += 1;
            let bytes = std::fs::read(&path).expect("read");
            assert!(of(&bytes).is_some(), "{name}: blkid finds {theirs}");
        }
        for (place, part) in parts {
            file.write_all_at(&vec![0; part.len()], *place).expect("write");
        }
    };
    for (name, places, marks) in MARKS {
        // The first place and the last: they differ in kind.
        for place in
            [places.first(), places.last()].into_iter().flatten().filter_map(|place| place.of(SIZE as u64))
        {
            for mark in *marks {
                compare(name, &[(place, mark)]);
            }
        }
    }
    for (name, is, _) in laid_out() {
        let tail = SIZE - TAIL;
        compare(name, &[(0, &is[..HEAD]), (tail as u64, &is[tail..])]);
    }
    // Most formats want more than their magic; some are content with that.
    assert!(recognised > 50, "blkid recognises but {recognised} of {all}");
}

/// Noise is what a run leaves, and it must not refuse the next one.
#[test]
fn random_images_bear_no_mark() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for image in 0..8 {
        let mut bytes = vec![0; HEAD + TAIL];
        for word in bytes.chunks_exact_mut(8) {
            // xorshift64 (Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        // Two bytes of magic alone do not make one.
        for (place, magic) in [(1024 + 16, &b"\x8f\x13"[..]), (1024, b"BD"), (0, b"ER"), (508, b"\xda\xbe")] {
            bytes[place..place + magic.len()].copy_from_slice(magic);
        }
        assert_eq!(of(&bytes), None, "{image}");
    }
}

/// What the real tools write is found.
#[test]
fn real_file_systems_are_found() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let image = dir.path().join("image");
    let makers: [(&str, &[&str], &str); 9] = [
        ("mkfs.ext4", &["-q"], "ext4"),
        ("mkfs.xfs", &["-q"], "xfs"),
        ("mkfs.btrfs", &["-q"], "btrfs"),
        ("mkswap", &[], "swap"),
        ("mkfs.minix", &["-1"], "minix"),
        ("mkfs.minix", &["-2"], "minix"),
        ("mkfs.minix", &["-3"], "minix"),
        ("mkfs.bfs", &[], "BFS"),
        ("mkfs.vfat", &[], "partition table or boot sector"),
    ];
    let mut tried = 0;
    for (program, arguments, name) in makers {
        let file = File::create(&image).expect("create");
        file.set_len(400 << 20).expect("extend");
        let made = Command::new(program).args(arguments).arg(&image).env("PATH", path()).output();
        if made.is_ok_and(|made| made.status.success()) {
            let bytes = std::fs::read(&image).expect("read");
            assert!(of(&bytes).is_some_and(|found| found.contains(name)), "{program}: {:?}", of(&bytes));
            tried += 1;
        }
    }
    assert!(tried > 0, "mkswap is in util-linux, which every Linux system has");
    for label in ["dos", "gpt", "sgi", "sun"] {
        let file = File::create(&image).expect("create");
        file.set_len(64 << 20).expect("extend");
        let script = "printf 'label: %s\\n' \"$1\" | sfdisk -q \"$2\"";
        let made =
            Command::new("sh").args(["-c", script, "sh", label]).arg(&image).env("PATH", path()).output();
        if made.is_ok_and(|made| made.status.success()) {
            let bytes = std::fs::read(&image).expect("read");
            assert!(of(&bytes).is_some_and(|found| found.contains("partition table")), "{label}");
        }
    }
}

/// A folder of images that others have made (util-linux has some), if one is named: each must be found.
#[test]
fn sample_images_are_found() {
    let Ok(dir) = std::env::var("PLIMSOLL_SAMPLE_IMAGES") else { return };
    let missed: Vec<String> = std::fs::read_dir(dir)
        .expect("a directory")
        .filter_map(|entry| {
            let path = entry.expect("entry").path();
            let bytes = std::fs::read(&path).expect("read");
            of(&bytes).is_none().then(|| path.display().to_string())
        })
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

proptest! {
    /// Devices of any size, also smaller than the places of the marks.
    #[test]
    fn any_bytes_are_looked_at_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        let _ = of(&bytes);
    }
}
