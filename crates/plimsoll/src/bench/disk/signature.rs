//! What a block device holds, by the marks that file systems, partition tables and volume managers leave on it.
//!
//! A device that bears any of them is not written to. The marks are those of the on-disk formats themselves (each
//! format's documentation, or its header in the Linux source); places are bytes from the beginning or the end.

/// Bytes at the beginning that bear marks: VMware's volumes come last, at 1 MiB, and a second superblock.
pub const HEAD: usize = 2 << 20;

/// Bytes at the end that bear marks: RAID and ZFS keep copies there.
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
    ("a UDF file system", 0x8001, b"BEA01"),
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
    ("a Stratis pool's device", 0x200, b"!Stra0tis"),
    ("a VMFS volume", 0x10_0000, b"\x0d\xd0\x01\xc0"),
];

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

/// What the device holds, by the first [`HEAD`] bytes and the last [`TAIL`] bytes of `size` (or all there are).
pub fn found(head: &[u8], tail: &[u8], size: u64) -> Option<&'static str> {
    let at_head = |(_, place, mark): &&Mark| head.get(*place..).is_some_and(|rest| rest.starts_with(mark));
    let at_tail = |(_, place, mark): &&Mark| {
        let from = tail.len().checked_sub(*place);
        from.is_some_and(|from| tail[from..].starts_with(mark))
    };
    let named =
        MARKS.iter().find(at_head).or_else(|| TAIL_MARKS.iter().find(at_tail)).map(|(name, ..)| *name);
    named.or_else(|| md_at_end(tail, size).then_some("a member of software RAID")).or_else(|| {
        let halves = [head, head.get(ZFS_LABEL..).unwrap_or_default()];
        let ends = [2 * ZFS_LABEL, ZFS_LABEL].map(|back| from_end(tail, back));
        halves.into_iter().chain(ends).any(uberblock).then_some("a member of a ZFS pool")
    })
}

fn from_end(tail: &[u8], back: usize) -> &[u8] {
    tail.len().checked_sub(back).and_then(|from| tail.get(from..)).unwrap_or_default()
}

/// md's superblock 0.90 is in the last whole 64 KiB block before the end, 1.0 8 KiB before the end, cut to 4 KiB
/// (md(4), and mdadm's super0.c and super1.c).
fn md_at_end(tail: &[u8], size: u64) -> bool {
    const OLD: u64 = 64 << 10;
    let start = size.saturating_sub(tail.len() as u64);
    let places = [(size & !(OLD - 1)).saturating_sub(OLD), size.saturating_sub(8 << 10) & !0xfff];
    let at = |place: &u64| place.checked_sub(start).and_then(|from| usize::try_from(from).ok());
    places.iter().filter_map(at).any(|from| tail.get(from..).is_some_and(|rest| rest.starts_with(MD)))
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
            assert!(of(&bytes).is_some(), "{name}");
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

    /// What the real tools write is found.
    #[test]
    fn real_file_systems_are_found() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let image = dir.path().join("image");
        let makers: [(&str, &[&str], &str); 4] = [
            ("mkfs.ext4", &["-q"], "ext4"),
            ("mkfs.xfs", &["-q"], "xfs"),
            ("mkfs.btrfs", &["-q"], "btrfs"),
            ("mkswap", &[], "swap"),
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
