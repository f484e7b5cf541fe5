//! What a block device holds, by the marks that file systems, partition tables and volume managers leave on it.
//!
//! A device that bears any of them is not written to. The marks are those of the on-disk formats themselves (each
//! format's documentation, or its header in the Linux source); places are bytes from the beginning or the end.

/// Bytes at the beginning that bear marks: VMware's come last, at 1 MiB and at 2 MiB.
pub const HEAD: usize = (2 << 20) + 4096;

/// Bytes at the end that bear marks: RAID, ZFS and DRBD keep theirs there.
pub const TAIL: usize = 1 << 20;

/// A mark at a place from the beginning.
type Mark = (&'static str, usize, &'static [u8]);

const MARKS: &[Mark] = &[
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a LUKS volume", 0x4000, b"SKUL\xba\xbe"),
    ("an xfs file system", 0, b"XFSB"),
    ("an ext2, ext3 or ext4 file system", 0x438, b"\x53\xef"),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 0x200, b"LABELONE"),
    ("an LVM physical volume", 0x400, b"LABELONE"),
    ("an LVM physical volume", 0x600, b"LABELONE"),
    ("a partition table (GPT)", 0x200, b"EFI PART"),
    ("a partition table (GPT)", 0x1000, b"EFI PART"),
    ("a partition table or boot sector", 0x1fe, b"\x55\xaa"),
    ("a member of software RAID", 0, b"\xfc\x4e\x2b\xa9"),
    ("a member of software RAID", 0x1000, b"\xfc\x4e\x2b\xa9"),
    ("a swap area", 4086, b"SWAPSPACE2"),
    ("a swap area", 4086, b"SWAP-SPACE"),
    ("a hibernation image", 4086, b"S1SUSPEND"),
    ("a swap area", 16374, b"SWAPSPACE2"),
    ("a swap area", 65526, b"SWAPSPACE2"),
    ("a bcache or bcachefs device", 0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    ("a bcachefs file system", 0x1018, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9"),
    ("an f2fs file system", 0x400, b"\x10\x20\xf5\xf2"),
    ("an erofs file system", 0x400, b"\xe2\xe1\xf5\xe0"),
    ("a nilfs2 file system", 0x406, b"\x34\x34"),
    ("a jfs file system", 0x8000, b"JFS1"),
    ("a reiserfs file system", 0x1_0034, b"ReIsEr"),
    ("an ISO 9660 image", 0x8001, b"CD001"),
    ("a squashfs image", 0, b"hsqs"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a BitLocker volume", 3, b"-FVE-FS-"),
    ("a FAT file system", 0x36, b"FAT"),
    ("a FAT file system", 0x52, b"FAT32"),
    ("an APFS container", 0x20, b"NXSB"),
    ("an HFS+ file system", 0x400, b"H+"),
    ("a GFS2 file system", 0x1_0000, b"\x01\x16\x19\x70"),
    ("an OCFS2 file system", 0x2000, b"OCFSV2"),
    ("a BlueStore device of Ceph", 0, b"bluestore block device"),
    ("a disk of Oracle ASM", 0x20, b"ORCLDISK"),
    ("a VDO volume", 0, b"dmvdo001"),
    ("a dm-integrity device", 0, b"integrt"),
    ("a dm-verity device", 0, b"verity\0\0"),
    ("a VMFS volume", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    ("a VMFS file system", 0x20_0000, b"\x5e\xf1\xab\x2f"),
    ("a ReFS file system", 0, b"\0\0\0ReFS\0"),
    ("an LVM1 physical volume", 0, b"HM\x01\0"),
    ("an LVM1 physical volume", 0, b"HM\x02\0"),
    ("a zonefs file system", 0, b"SFOZ"),
];

/// Any of the marks at any of the places from the beginning.
type Family = (&'static str, &'static [usize], &'static [&'static [u8]]);

const FAMILIES: &[Family] = &[
    // Where the superblock can be, and the magic in it; as written by a machine of either byte order.
    (
        "a UFS file system",
        &[1372, 8192 + 1372, 65_536 + 1372, 262_144 + 1372],
        &[b"\x54\x19\x01\0", b"\0\x01\x19\x54", b"\x19\x01\x54\x19", b"\x19\x54\x01\x19"],
    ),
    ("a VxFS file system", &[1024, 8192], &[b"\xf5\xfc\x01\xa5", b"\xa5\x01\xfc\xf5"]),
    ("a cramfs image", &[0, 512], &[b"\x45\x3d\xcd\x28", b"\x28\xcd\x3d\x45"]),
    ("a Stratis pool's device", &[516, 4612], &[b"!Stra0tis\x86\xff\x02^\x41rh"]),
    ("a UDF file system", &UDF_PLACES, &[b"BEA01", b"NSR02", b"NSR03", b"TEA01"]),
];

/// UDF: the volume recognition sequence, one descriptor to a sector, whose name follows a byte of type (ECMA-167 2/9).
const UDF_PLACES: [usize; 16] = {
    let mut places = [0x8001; 16];
    let mut sector = 0;
    while sector < places.len() {
        places[sector] += sector * 2048;
        sector += 1;
    }
    places
};

/// Marks at places from the end.
const TAIL_MARKS: &[Mark] = &[
    ("a partition table (GPT)", 0x200, b"EFI PART"),
    ("a partition table (GPT)", 0x1000, b"EFI PART"),
    ("a member of Intel RAID", 0x400, b"Intel Raid ISM Cfg Sig. "),
    ("a member of DDF RAID", 0x200, b"\xde\x11\xde\x11"),
];

/// Software RAID: magic of md's superblocks 0.90 and 1.0, little-endian.
const MD: &[u8] = b"\xfc\x4e\x2b\xa9";

/// ZFS: the uberblocks' magic, in either byte order, in the second half of each 256 KiB label.
const ZFS: [u64; 2] = [0x00ba_b10c, 0x00ba_b10c_u64.swap_bytes()];
const ZFS_LABEL: usize = 256 << 10;

/// DRBD: its magic and what its versions add for their metadata (linux/drbd.h), big-endian. 8.4 adds 4 after a clean end
/// and 5 before, 9 adds 6.
const DRBD: [u32; 5] = [0x8374_0267, 0x8374_026a, 0x8374_026b, 0x8374_026c, 0x8374_026d];
const DRBD_BLOCK: u64 = 4096;
const DRBD_MAGIC: usize = 60;

/// What the device holds, by the first [`HEAD`] bytes and the last [`TAIL`] bytes of `size` (or all there are).
pub fn found(head: &[u8], tail: &[u8], size: u64) -> Option<&'static str> {
    let is_at = |place: usize, mark: &[u8]| head.get(place..).is_some_and(|rest| rest.starts_with(mark));
    let at_head = |(_, place, mark): &&Mark| is_at(*place, mark);
    let of_family = |(_, places, marks): &&Family| {
        places.iter().any(|place| marks.iter().any(|mark| is_at(*place, mark)))
    };
    let at_tail = |(_, place, mark): &&Mark| {
        let from = tail.len().checked_sub(*place);
        from.is_some_and(|from| tail[from..].starts_with(mark))
    };
    let named =
        MARKS.iter().find(at_head).or_else(|| TAIL_MARKS.iter().find(at_tail)).map(|(name, ..)| *name);
    let named = named.or_else(|| FAMILIES.iter().find(of_family).map(|(name, ..)| *name));
    named
        .or_else(|| md_at_end(tail, size).then_some("a member of software RAID"))
        .or_else(|| drbd_at_end(tail, size).then_some("a device of DRBD"))
        .or_else(|| minix(head).then_some("a minix file system"))
        .or_else(|| in_zfs(head, tail).then_some("a member of a ZFS pool"))
}

fn in_zfs(head: &[u8], tail: &[u8]) -> bool {
    let halves = [head, head.get(ZFS_LABEL..).unwrap_or_default()];
    let ends = [2 * ZFS_LABEL, ZFS_LABEL].map(|back| from_end(tail, back));
    halves.into_iter().chain(ends).any(uberblock)
}

fn from_end(tail: &[u8], back: usize) -> &[u8] {
    tail.len().checked_sub(back).and_then(|from| tail.get(from..)).unwrap_or_default()
}

/// md's superblock 0.90 is in the last whole 64 KiB block before the end, 1.0 8 KiB before the end, cut to 4 KiB
/// (md(4), and mdadm's super0.c and super1.c).
fn md_at_end(tail: &[u8], size: u64) -> bool {
    const OLD: u64 = 64 << 10;
    let places = [(size & !(OLD - 1)).saturating_sub(OLD), size.saturating_sub(8 << 10) & !0xfff];
    places.iter().any(|place| from_place(tail, size, *place).starts_with(MD))
}

/// DRBD's own metadata is in the last whole block (drbdmeta(8), "internal").
fn drbd_at_end(tail: &[u8], size: u64) -> bool {
    let block = from_place(tail, size, (size & !(DRBD_BLOCK - 1)).saturating_sub(DRBD_BLOCK));
    let magic = block.get(DRBD_MAGIC..).and_then(|rest| rest.first_chunk());
    magic.is_some_and(|magic| DRBD.contains(&u32::from_be_bytes(*magic)))
}

/// What of the tail begins at this place of the device; nothing where the tail begins later.
fn from_place(tail: &[u8], size: u64, place: u64) -> &[u8] {
    let start = size.saturating_sub(tail.len() as u64);
    let from = place.checked_sub(start).and_then(|from| usize::try_from(from).ok());
    from.and_then(|from| tail.get(from..)).unwrap_or_default()
}

/// Minix has but two bytes of magic (linux/minix_fs.h), which one random device in 11,000 bears. So its bitmap of inodes
/// must also be about as long as their number needs, and a zone be no more than 2^10 blocks.
fn minix(head: &[u8]) -> bool {
    const SUPERBLOCK: usize = 1024;
    const OLD: [u16; 4] = [0x137f, 0x138f, 0x2468, 0x2478];
    const V3: u16 = 0x4d5a;
    let Some(block) = head.get(SUPERBLOCK..).and_then(|rest| rest.first_chunk::<32>()) else { return false };
    let u16_at = |place: usize| u16::from_le_bytes([block[place], block[place + 1]]);
    let plausible = |inodes: u32, bitmap: u16, log_zone: u16, block: u16| {
        let needed = (u64::from(inodes) + 1).div_ceil(8 * u64::from(block.max(1)));
        inodes > 0 && (needed..=needed + 8).contains(&u64::from(bitmap)) && log_zone <= 10
    };
    let old = OLD.contains(&u16_at(16)) && plausible(u16_at(0).into(), u16_at(4), u16_at(10), 1024);
    let inodes = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    let size = u16_at(28);
    let v3 = u16_at(24) == V3 && size.is_power_of_two() && plausible(inodes, u16_at(6), u16_at(12), size);
    old || v3
}

/// Whether a ZFS label begins here: one of its uberblocks, on 1 KiB boundaries, bears the magic.
fn uberblock(label: &[u8]) -> bool {
    let ring = label.get(ZFS_LABEL / 2..ZFS_LABEL.min(label.len())).unwrap_or_default();
    ring.chunks_exact(1024).any(|block| {
        let first: [u8; 8] = std::array::from_fn(|i| block[i]);
        ZFS.contains(&u64::from_le_bytes(first))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 8 << 20;

    fn of(bytes: &[u8]) -> Option<&'static str> {
        found(&bytes[..HEAD.min(bytes.len())], &bytes[bytes.len().saturating_sub(TAIL)..], bytes.len() as u64)
    }

    #[test]
    fn every_mark_is_found_at_its_place_and_nothing_in_zeros() {
        assert_eq!(of(&vec![0; SIZE]), None);
        for (name, place, mark) in MARKS {
            let mut bytes = vec![0; SIZE];
            bytes[*place..place + mark.len()].copy_from_slice(mark);
            assert_eq!(of(&bytes), Some(*name));
        }
        for (name, place, mark) in TAIL_MARKS {
            let mut bytes = vec![0; SIZE];
            bytes[SIZE - place..SIZE - place + mark.len()].copy_from_slice(mark);
            assert_eq!(of(&bytes), Some(*name));
        }
        for place in [SIZE - (64 << 10), SIZE - (8 << 10)] {
            let mut bytes = vec![0; SIZE];
            bytes[place..place + 4].copy_from_slice(MD);
            assert_eq!(of(&bytes), Some("a member of software RAID"));
        }
        for label in [0, ZFS_LABEL, SIZE - 2 * ZFS_LABEL, SIZE - ZFS_LABEL] {
            for magic in ZFS {
                let mut bytes = vec![0; SIZE];
                let place = label + ZFS_LABEL / 2 + 5 * 1024;
                bytes[place..place + 8].copy_from_slice(&magic.to_le_bytes());
                assert_eq!(of(&bytes), Some("a member of a ZFS pool"), "{label}");
            }
        }
    }

    fn with(place: usize, mark: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        bytes[place..place + mark.len()].copy_from_slice(mark);
        bytes
    }

    /// As the formats' specifications have them, apart from the tables.
    #[test]
    fn rarer_formats_are_found_by_name() {
        const RARER: [Family; 10] = [
            ("ReFS", &[0], &[&[0, 0, 0, b'R', b'e', b'F', b'S', 0]]),
            ("VMFS volume", &[1 << 20], &[&[0x0d, 0xd0, 0x01, 0xc0]]),
            ("VMFS file system", &[2 << 20], &[&[0x5e, 0xf1, 0xab, 0x2f]]),
            ("LVM1", &[0], &[&[b'H', b'M', 1, 0], &[b'H', b'M', 2, 0]]),
            (
                "UFS",
                &[0x55c, 0x255c, 0x1_055c, 0x4_055c],
                &[
                    &0x0001_1954_u32.to_le_bytes(),
                    &0x0001_1954_u32.to_be_bytes(),
                    &0x1954_0119_u32.to_le_bytes(),
                    &0x1954_0119_u32.to_be_bytes(),
                ],
            ),
            ("VxFS", &[1024, 8192], &[&0xa501_fcf5_u32.to_le_bytes(), &0xa501_fcf5_u32.to_be_bytes()]),
            ("cramfs", &[0, 512], &[&0x28cd_3d45_u32.to_le_bytes(), &0x28cd_3d45_u32.to_be_bytes()]),
            ("zonefs", &[0], &[b"SFOZ"]),
            ("Stratis", &[516, 4612], &[b"!Stra0tis\x86\xff\x02^\x41rh"]),
            ("UDF", &[32_769, 34_817, 36_865, 32_769 + 15 * 2048], &[b"BEA01", b"NSR02", b"NSR03", b"TEA01"]),
        ];
        for (name, places, marks) in RARER {
            for (place, mark) in places.iter().flat_map(|place| marks.iter().map(move |mark| (*place, *mark)))
            {
                let found = of(&with(place, mark));
                assert!(found.is_some_and(|found| found.contains(name)), "{name} at {place}: {found:?}");
            }
        }
        assert_eq!(of(&with(32_769 + 16 * 2048, b"NSR02")), None, "beyond the sequence");
        assert_eq!(of(&with(0, b"HM\x03\0")), None, "no version of LVM1");
    }

    #[test]
    fn drbd_is_found_in_the_last_whole_block() {
        for magic in [0x8374_0267_u32, 0x8374_026b, 0x8374_026c, 0x8374_026d] {
            for odd in [0, 512, 3584] {
                let mut bytes = with(SIZE - 4096 + 60, &magic.to_be_bytes());
                bytes.resize(SIZE + odd, 0);
                assert_eq!(of(&bytes), Some("a device of DRBD"), "{magic:x} {odd}");
            }
            assert_eq!(of(&with(SIZE - 4096 + 60, &magic.to_le_bytes())), None);
        }
    }

    /// The superblock of minix: 16-bit words up to version 2, then wider ones.
    #[test]
    fn minix_is_found_by_its_magic_and_a_plausible_bitmap() {
        let superblock = |words: &[(usize, u16)]| {
            let mut bytes = vec![0; SIZE];
            for (place, word) in words {
                bytes[1024 + place..1024 + place + 2].copy_from_slice(&word.to_le_bytes());
            }
            bytes
        };
        for magic in [0x137f, 0x138f, 0x2468, 0x2478] {
            assert_eq!(of(&superblock(&[(0, 2688), (4, 1), (16, magic)])), Some("a minix file system"));
            for unlike in [&[(0, 0), (4, 1)][..], &[(0, 2688), (4, 0)], &[(0, 2688), (4, 10)]] {
                assert_eq!(of(&superblock(&[unlike, &[(16, magic)]].concat())), None, "{unlike:?}");
            }
        }
        let v3 = [(0, 10_912), (6, 2), (24, 0x4d5a), (28, 1024)];
        assert_eq!(of(&superblock(&v3)), Some("a minix file system"));
        assert_eq!(of(&superblock(&v3[..3])), None, "blocks of no size");
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
            // Minix's magic alone does not make it one.
            bytes[1024 + 16..1024 + 18].copy_from_slice(&0x138f_u16.to_le_bytes());
            assert_eq!(of(&bytes), None, "{image}");
        }
    }

    /// What the real tools write is found.
    #[test]
    fn real_file_systems_are_found() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let image = dir.path().join("image");
        let makers: [(&str, &[&str], &str); 7] = [
            ("mkfs.ext4", &["-q"], "ext4"),
            ("mkfs.xfs", &["-q"], "xfs"),
            ("mkfs.btrfs", &["-q"], "btrfs"),
            ("mkswap", &[], "swap"),
            ("mkfs.minix", &["-1"], "minix"),
            ("mkfs.minix", &["-2"], "minix"),
            ("mkfs.minix", &["-3"], "minix"),
        ];
        let mut tried = 0;
        for (program, arguments, name) in makers {
            let file = std::fs::File::create(&image).expect("create");
            file.set_len(400 << 20).expect("extend");
            let made = Command::new(program).args(arguments).arg(&image).env("PATH", path()).output();
            if made.is_ok_and(|made| made.status.success()) {
                let bytes = std::fs::read(&image).expect("read");
                assert!(of(&bytes).is_some_and(|found| found.contains(name)), "{program}");
                tried += 1;
            }
        }
        assert!(tried > 0, "mkswap is in util-linux, which every Linux system has");
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
}
