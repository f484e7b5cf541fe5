//! The table of marks: what it is, where it can be, and the bytes that say so.

/// Where a mark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Bytes from the beginning.
    At(u64),
    /// From the end: the size is rounded down to a whole `unit`, then `back` bytes before, then `plus` bytes after.
    Back {
        /// What the size is rounded down to.
        unit: u64,
        /// Bytes before that.
        back: u64,
        /// Bytes after that.
        plus: u64,
    },
}

impl Place {
    /// Bytes from the beginning of a device of this size; `None` where that is not on it.
    pub(super) fn of(self, size: u64) -> Option<u64> {
        match self {
            Place::At(place) => Some(place).filter(|place| *place < size),
            Place::Back { unit, back, plus } => Some((size - size % unit).checked_sub(back)? + plus),
        }
    }
}

/// What it is, all places where it can be, and any of the marks.
pub(super) type Row = (&'static str, &'static [Place], &'static [&'static [u8]]);

const SECTOR: u64 = 512;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const fn sectors_back(sectors: u64) -> Place {
    Place::Back { unit: SECTOR, back: sectors * SECTOR, plus: 0 }
}

/// The same mark at several places from the beginning.
const fn at<const N: usize>(places: [u64; N]) -> [Place; N] {
    let mut all = [Place::At(0); N];
    let mut n = 0;
    while n < N {
        all[n] = Place::At(places[n]);
        n += 1;
    }
    all
}

/// One place in each of `N` steps.
const fn every<const N: usize>(first: u64, step: u64) -> [Place; N] {
    let mut all = [Place::At(first); N];
    let mut n = 0;
    while n < N {
        all[n] = Place::At(first + n as u64 * step);
        n += 1;
    }
    all
}

/// Swap's marks end a page (mkswap(8)): of 4, 8, 16, 32 or 64 KiB.
const PAGES: [Place; 5] = at([4086, 8182, 16_374, 32_758, 65_526]);

/// UDF: the volume recognition sequence, one descriptor to a sector, whose name follows a byte of type (ECMA-167 2/9).
const UDF: [Place; 16] = every(0x8001, 2048);

/// LUKS2: where the second header is, by the size of the first (cryptsetup's LUKS2 on-disk format).
const LUKS2: [Place; 9] =
    at([0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000]);

/// UFS: where the superblock can be, with the magic 1372 bytes in it.
const UFS: [Place; 4] = at([1372, 8 * KIB + 1372, 64 * KIB + 1372, 256 * KIB + 1372]);

/// Promise FastTrak: sectors before the end at which its BIOS has kept its data.
const PROMISE: [Place; 13] = {
    const BEFORE: [u64; 13] = [63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087];
    let mut all = [sectors_back(0); 13];
    let mut n = 0;
    while n < BEFORE.len() {
        all[n] = sectors_back(BEFORE[n]);
        n += 1;
    }
    all
};

/// DRBD's own metadata is in the last whole block of 4 KiB (drbdmeta(8), "internal"), or in the last 4 KiB.
const DRBD: [Place; 2] = [
    Place::Back { unit: 4 * KIB, back: 4 * KIB, plus: 60 },
    Place::Back { unit: 1, back: 4 * KIB, plus: 60 },
];

/// bcachefs keeps copies of its superblock, also 1 MiB before the end.
const BCACHEFS: [Place; 4] = [
    Place::At(0x1018),
    Place::At(2 * MIB + 24),
    Place::Back { unit: 1, back: MIB, plus: 24 },
    Place::Back { unit: SECTOR, back: MIB, plus: 24 },
];

/// md's superblock 0.90 is in the last whole 64 KiB block before the end, 1.0 8 KiB before the end, cut to 4 KiB, 1.1 at the
/// beginning and 1.2 at 4 KiB (md(4), and mdadm's super0.c and super1.c).
const MD: [Place; 4] = [
    Place::At(0),
    Place::At(4 * KIB),
    Place::Back { unit: 4 * KIB, back: 8 * KIB, plus: 0 },
    Place::Back { unit: 64 * KIB, back: 64 * KIB, plus: 0 },
];

/// IBM's volume labels are in the third block, of 512 bytes to 4 KiB; a compatible one begins with a key of four bytes.
const DASD: [Place; 8] = at([1024, 2048, 4096, 8192, 1028, 2052, 4100, 8196]);

const START: &[Place] = &[Place::At(0)];

/// Everything that blkid(8) knows by its bytes alone, and some more.
pub(super) const MARKS: &[Row] = &[
    ("a LUKS volume", START, &[b"LUKS\xba\xbe"]),
    ("a LUKS volume", &LUKS2, &[b"SKUL\xba\xbe"]),
    ("an xfs file system", START, &[b"XFSB"]),
    ("a btrfs file system", &[Place::At(0x1_0040)], &[b"_BHRfS_M"]),
    ("an LVM physical volume", &at([0, 0x200, 0x400, 0x600]), &[b"LABELONE"]),
    ("an LVM physical volume", &at([0x18, 0x218, 0x418, 0x618]), &[b"LVM2 001"]),
    ("an LVM1 physical volume", START, &[b"HM\x01\0", b"HM\x02\0"]),
    ("a partition table (GPT)", &at([0x200, 0x1000]), &[b"EFI PART"]),
    (
        "a partition table (GPT)",
        &[sectors_back(1), Place::Back { unit: 4096, back: 4096, plus: 0 }],
        &[b"EFI PART"],
    ),
    ("a partition table or boot sector", &[Place::At(0x1fe)], &[b"\x55\xaa"]),
    ("a partition table (AIX)", START, &[b"\xc9\xc2\xd4\xc1"]),
    ("a partition table (SGI)", START, &[b"\x0b\xe5\xa9\x41"]),
    ("a partition table (BSD)", &at([64, 128, 512]), &[b"\x57\x45\x56\x82", b"\x82\x56\x45\x57"]),
    ("a partition table (Solaris)", &[Place::At(524)], &[b"\xee\xde\x0d\x60", b"\x60\x0d\xde\xee"]),
    ("a partition table (UnixWare)", &at([14_852, 29_174]), &[b"\x0d\x60\xe5\xca"]),
    (
        "a partition table (Ultrix)",
        &[Place::At(16_312)],
        &[b"\x57\x29\x03\0\x01\0\0\0", b"\0\x03\x29\x57\0\0\0\x01"],
    ),
    ("a partition table (Amiga)", &every::<16>(0, SECTOR), &[b"RDSK"]),
    ("a partition table (IBM DASD)", &DASD, &[b"\xe5\xd6\xd3\xf1", b"\xd3\xd5\xe7\xf1", b"\xc3\xd4\xe2\xf1"]),
    ("a member of software RAID", &MD, &[b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc"]),
    (
        "a member of Intel RAID",
        &[sectors_back(2), Place::Back { unit: 4096, back: 8192, plus: 0 }],
        &[b"Intel Raid ISM Cfg Sig. "],
    ),
    ("a member of LSI RAID", &[sectors_back(1)], &[b"$XIDE$"]),
    ("a member of NVIDIA RAID", &[sectors_back(2)], &[b"NVIDIA  "]),
    ("a member of Promise RAID", &PROMISE, &[b"Promise Technology, Inc."]),
    ("a member of Adaptec RAID", &[sectors_back(1)], &[b"\x37\xfc\x4d\x1e", b"\x1e\x4d\xfc\x37"]),
    ("a member of DDF RAID", &[sectors_back(1), sectors_back(257)], &[b"\xde\x11\xde\x11"]),
    ("a member of HighPoint RAID", &[sectors_back(11)], &[b"\xf3\x16\x78\x5a", b"\xfd\x16\x78\x5a"]),
    ("a member of HighPoint RAID", &[Place::At(4640)], &[b"\xf0\x16\x78\x5a", b"\xfd\x16\x78\x5a"]),
    ("a swap area", &PAGES, &[b"SWAPSPACE2", b"SWAP-SPACE"]),
    ("a hibernation image", &PAGES, &[b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"]),
    ("a hibernation image", START, &[b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"]),
    ("a bcache or bcachefs device", &BCACHEFS, &[b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"]),
    ("a bcachefs file system", &BCACHEFS, &[b"\xc6\x85\x73\xf6\x66\xce\x90\xa9"]),
    (
        "a device of DRBD",
        &DRBD,
        &[
            // Its magic, and what its versions add for their metadata (linux/drbd.h): 8.4 adds 4 after a clean end and 5 before,
            // 9 adds 6.
            b"\x83\x74\x02\x67",
            b"\x83\x74\x02\x6a",
            b"\x83\x74\x02\x6b",
            b"\x83\x74\x02\x6c",
            b"\x83\x74\x02\x6d",
        ],
    ),
    ("a control volume of DRBD", START, &[b"$DRBDmgr=q"]),
    ("a log of DRBD Proxy", START, &[b"DRBDdlh*"]),
    ("a Stratis pool's device", &at([516, 4612]), &[b"!Stra0tis\x86\xff\x02^\x41rh"]),
    ("a VDO volume", START, &[b"dmvdo001"]),
    ("a dm-integrity device", START, &[b"integrt"]),
    ("a dm-verity device", START, &[b"verity\0\0"]),
    ("a snapshot's store of device mapper", START, &[b"SnAp"]),
    ("a dm-writecache device", START, &[b"\x21\x93\x48\x23"]),
    // The superblocks of device mapper's persistent data: cache, thin pool, era, clone; each has its magic at 32.
    (
        "metadata of device mapper",
        &[Place::At(32)],
        &[
            b"\x03\xc4\x18\0\0\0\0\0",
            b"\xba\x52\x9c\x01\0\0\0\0",
            b"\x7b\x07\xc1\x7e\0\0\0\0",
            b"\x64\x7f\xf2\x8a\0\0\0\0",
        ],
    ),
    ("a BlueStore device of Ceph", START, &[b"bluestore block device"]),
    ("a disk of Oracle ASM", &[Place::At(0x20)], &[b"ORCLDISK"]),
    ("an OCFS file system", &[Place::At(8 * KIB)], &[b"OracleCFS"]),
    ("an OCFS2 file system", &at([KIB, 2 * KIB, 4 * KIB, 8 * KIB]), &[b"OCFSV2"]),
    ("a GFS or GFS2 file system", &[Place::At(64 * KIB)], &[b"\x01\x16\x19\x70"]),
    ("a VMFS volume", &[Place::At(MIB)], &[b"\x0d\xd0\x01\xc0"]),
    ("a VMFS file system", &[Place::At(2 * MIB)], &[b"\x5e\xf1\xab\x2f"]),
    ("an f2fs file system", &at([0x400, 0x1400]), &[b"\x10\x20\xf5\xf2"]),
    ("an erofs file system", &[Place::At(0x400)], &[b"\xe2\xe1\xf5\xe0"]),
    ("a jfs file system", &[Place::At(0x8000)], &[b"JFS1"]),
    ("a reiserfs file system", &at([0x1_0034, 0x2034, 0x2014]), &[b"ReIsEr"]),
    ("a reiser4 file system", &[Place::At(64 * KIB)], &[b"ReIsEr4"]),
    ("an ISO 9660 image", &at([0x8001, 0x8009]), &[b"CD001", b"CDROM"]),
    ("a UDF file system", &UDF, &[b"BEA01", b"BOOT2", b"CD001", b"CDW02", b"NSR02", b"NSR03", b"TEA01"]),
    ("a squashfs image", START, &[b"hsqs", b"sqsh", b"shsq", b"qshs"]),
    ("a cramfs image", &at([0, 512]), &[b"\x45\x3d\xcd\x28", b"\x28\xcd\x3d\x45"]),
    ("a romfs image", START, &[b"-rom1fs-"]),
    ("a UBI device", START, &[b"UBI#"]),
    ("a UBIFS file system", START, &[b"\x31\x18\x10\x06"]),
    ("an NTFS file system", &[Place::At(3)], &[b"NTFS    "]),
    ("an exFAT file system", &[Place::At(3)], &[b"EXFAT   "]),
    ("a ReFS file system", START, &[b"\0\0\0ReFS\0"]),
    ("a BitLocker volume", &[Place::At(3)], &[b"-FVE-FS-", b"MSWIN4.1"]),
    ("a FAT file system", &[Place::At(0x36)], &[b"FAT", b"MSDOS"]),
    ("a FAT file system", &[Place::At(0x52)], &[b"FAT32", b"MSWIN"]),
    ("an HPFS file system", &[Place::At(8 * KIB)], &[b"\x49\xe8\x95\xf9"]),
    ("an APFS container", &[Place::At(0x20)], &[b"NXSB"]),
    ("an HFS+ file system", &[Place::At(0x400)], &[b"H+\0\x04", b"HX\0\x04", b"HX\0\x05"]),
    ("a BeFS file system", &at([0x20, 0x220]), &[b"BFS1", b"1SFB"]),
    ("a BFS file system", START, &[b"\xce\xfa\xad\x1b", b"\x1b\xad\xfa\xce"]),
    ("a Novell NSS pool", &[Place::At(4 * KIB)], &[b"SPB5"]),
    ("an exfs file system", START, &[b"EXFS"]),
    ("a scoutfs device", &[Place::At(64 * KIB + 4)], &[b"\x8b\x42\x3c\x10"]),
    ("an mpool device", START, &[b"mpoolDev"]),
    ("a zonefs file system", START, &[b"SFOZ"]),
    ("a VxFS file system", &at([1024, 8192]), &[b"\xf5\xfc\x01\xa5", b"\xa5\x01\xfc\xf5"]),
    (
        "a UFS file system",
        &UFS,
        &[
            b"\x54\x19\x01\0",
            b"\0\x01\x19\x54",
            b"\x19\x01\x54\x19",
            b"\x19\x54\x01\x19",
            b"\x12\x56\x19\0",
            b"\0\x19\x56\x12",
            b"\x14\x50\x09\0",
            b"\0\x09\x50\x14",
            b"\x95\x21\x61\0",
            b"\0\x61\x21\x95",
            b"\x94\x19\x23\x05",
            b"\x05\x23\x19\x94",
        ],
    ),
    (
        "a System V file system",
        &at([1016, 10_232, 16_376, 19_448]),
        &[b"\x20\x7e\x18\xfd", b"\xfd\x18\x7e\x20"],
    ),
    ("a Xenix file system", &[Place::At(2 * KIB)], &[b"\x2b\x55\x44", b"\x44\x55\x2b"]),
    ("a QNX6 file system", &at([0x1000, 0x2000]), &[b"\x22\x11\x19\x68", b"\x68\x19\x11\x22"]),
    ("an EFS file system", &[Place::At(540)], &[b"\0\x07\x29\x59", b"\0\x07\x29\x5a"]),
    ("an LFS file system", &[Place::At(8 * KIB)], &[b"\x62\x01\x07\0", b"\0\x07\x01\x62"]),
    (
        "an Amiga file system",
        START,
        &[b"DOS\0", b"DOS\x01", b"DOS\x02", b"DOS\x03", b"DOS\x04", b"DOS\x05", b"SFS\0", b"PFS\x01"],
    ),
    ("a disk image (qcow2, VHDX, VMDK or VHD)", START, &[b"QFI\xfb", b"vhdxfile", b"KDMV", b"conectix"]),
    ("a disk image (VHD)", &[sectors_back(1)], &[b"conectix"]),
    ("a disk image (VDI)", &[Place::At(0x40)], &[b"\x7f\x10\xda\xbe"]),
    ("a tar archive", &[Place::At(257)], &[b"ustar"]),
];
