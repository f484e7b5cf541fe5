//! File systems by the magic number of statfs(2); names can be faked, the number cannot.

use std::fmt;

use plimsoll_machine::Medium;

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemKind {
    /// Name as in mount(8); `None` for an unknown number.
    pub name: Option<&'static str>,
    /// Location of its data; `None` for an unknown number.
    pub medium: Option<Medium>,
    /// Magic number.
    pub magic: u32,
}

/// Magic number, name, medium. Sources: include/uapi/linux/magic.h, xfs_fs.h, f2fs_fs.h, OpenZFS
/// zfs_vfsops_os.c, Lustre lustre_idl.h, ocfs2_fs.h, ceph_fs.h, smb2pdu.h.
const TABLE: &[(u32, &str, Medium)] = &[
    (0x0000_ef53, "ext4", Medium::Device),
    (0x5846_5342, "xfs", Medium::Device),
    (0x9123_683e, "btrfs", Medium::Device),
    (0xf2f5_2010, "f2fs", Medium::Device),
    (0xca45_1a4e, "bcachefs", Medium::Device),
    (0x2fc1_2fc1, "zfs", Medium::Device),
    (0x5265_4973, "reiserfs", Medium::Device),
    (0x3153_464a, "jfs", Medium::Device),
    (0x0000_3434, "nilfs2", Medium::Device),
    (0x0000_4d44, "vfat", Medium::Device),
    (0x2011_bab0, "exfat", Medium::Device),
    (0x7366_746e, "ntfs3", Medium::Device),
    (0x5346_544e, "ntfs", Medium::Device),
    (0x0000_9660, "iso9660", Medium::Device),
    (0x7371_7368, "squashfs", Medium::Device),
    (0xe0f5_e1e2, "erofs", Medium::Device),
    (0x0102_1994, "tmpfs", Medium::Memory),
    (0x8584_58f6, "ramfs", Medium::Memory),
    (0x9584_58f6, "hugetlbfs", Medium::Memory),
    (0x0000_9fa0, "proc", Medium::Memory),
    (0x6265_6572, "sysfs", Medium::Memory),
    (0x0000_6969, "nfs", Medium::Network),
    (0xff53_4d42, "cifs", Medium::Network),
    (0xfe53_4d42, "smb2", Medium::Network),
    (0x0000_517b, "smb", Medium::Network),
    (0x00c3_6400, "ceph", Medium::Network),
    (0x0bd0_0bd0, "lustre", Medium::Network),
    (0x0102_1997, "9p", Medium::Network),
    (0x5346_414f, "afs", Medium::Network),
    (0x0116_1970, "gfs2", Medium::Network),
    (0x7461_636f, "ocfs2", Medium::Network),
    (0x6573_5546, "fuse", Medium::Stacked),
    (0x794c_7630, "overlay", Medium::Stacked),
    (0x0000_f15f, "ecryptfs", Medium::Stacked),
    (0x786f_4256, "vboxsf", Medium::Stacked),
];

impl FileSystemKind {
    /// A block device without a file system.
    pub const NO_FILE_SYSTEM: FileSystemKind =
        FileSystemKind { name: Some("block device"), medium: Some(Medium::Device), magic: 0 };

    /// Returns name and medium of the file system whose `f_type` (statfs(2)) is `magic`, such as
    /// 0xef53 (ext4); both are `None` for an unknown number.
    pub fn from_magic(magic: u32) -> Self {
        match TABLE.iter().find(|(known, ..)| *known == magic) {
            Some((_, name, medium)) => FileSystemKind { name: Some(name), medium: Some(*medium), magic },
            None => FileSystemKind { name: None, medium: None, magic },
        }
    }
}

impl fmt::Display for FileSystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "file system {:#x}", self.magic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_number_once() {
        for (i, (magic, name, _)) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|(other, other_name, _)| other != magic && other_name != name));
        }
    }

    #[test]
    fn numbers_become_kinds_and_strange_ones_stay_unknown() {
        let cases = [
            (0xef53, "ext4", Some(Medium::Device)),
            (0x0102_1994, "tmpfs", Some(Medium::Memory)),
            (0x6969, "nfs", Some(Medium::Network)),
            (0x794c_7630, "overlay", Some(Medium::Stacked)),
            (0xdead, "file system 0xdead", None),
        ];
        for (magic, name, medium) in cases {
            let found = FileSystemKind::from_magic(magic);
            assert_eq!((found.to_string().as_str(), found.medium), (name, medium));
        }
    }

    #[test]
    fn this_machines_proc_is_found_out() {
        let magic = rustix::fs::statfs("/proc").expect("statfs").f_type;
        assert_eq!(FileSystemKind::from_magic(magic as u32).name, Some("proc"));
    }
}
