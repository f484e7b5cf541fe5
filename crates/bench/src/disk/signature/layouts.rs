//! Formats whose magic is so short that noise bears it now and then, or that have none: more of their layout must be right.

use super::Image;

/// What it is, and how it is told.
type Layout = (&'static str, fn(&Image<'_>) -> bool);

pub(super) const LAYOUTS: &[Layout] = &[
    ("a member of a ZFS pool", zfs),
    ("a minix file system", minix),
    ("an HFS file system", hfs),
    ("an ext2, ext3 or ext4 file system", ext),
    ("a nilfs2 file system", nilfs2),
    ("the log of an xfs file system", xfs_log),
    ("a partition table (Apple)", apple),
    ("a partition table (Sun)", sun),
    ("a partition table (Atari)", atari),
    ("a FileVault volume", file_vault),
    ("a member of JMicron RAID", jmicron),
    ("a member of VIA RAID", via),
    ("a member of Silicon Image RAID", silicon),
];

const SECTOR: u64 = 512;
const ZFS_LABEL: u64 = 256 << 10;

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two))
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    be16(bytes, at).swap_bytes()
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    be32(bytes, at).swap_bytes()
}

/// ZFS: two labels at each end. Each has a list of names and values at 16 KiB, in XDR, and in its second half a ring of
/// uberblocks on 1 KiB boundaries with a magic, in either byte order.
fn zfs(image: &Image<'_>) -> bool {
    const MAGIC: [u64; 2] = [0x00ba_b10c, 0x00ba_b10c_u64.swap_bytes()];
    // XDR, either byte order of the host, two bytes of nothing, version 0, unique names.
    const LISTS: [[u8; 12]; 2] = [[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]];
    let ends = [image.back(ZFS_LABEL, 2 * ZFS_LABEL), image.back(ZFS_LABEL, ZFS_LABEL)];
    let from_end = [2, 1].map(|labels| image.back(1, labels * ZFS_LABEL));
    let labels = [Some(0), Some(ZFS_LABEL)].into_iter().chain(ends).chain(from_end).flatten();
    labels.into_iter().any(|label| {
        let ring = image.from(label + ZFS_LABEL / 2);
        let ring = &ring[..ring.len().min((ZFS_LABEL / 2) as usize)];
        let listed = image.bytes(label + (16 << 10)).is_some_and(|list| LISTS.contains(&list));
        listed
            || ring.chunks_exact(1024).any(|block| {
                let first: [u8; 8] = std::array::from_fn(|i| block[i]);
                MAGIC.contains(&u64::from_le_bytes(first))
            })
    })
}

/// Minix has but two bytes of magic (linux/minix_fs.h), in the byte order of the host. So its bitmap of inodes must also be
/// about as long as their number needs, and a zone be no more than 2^10 blocks.
fn minix(image: &Image<'_>) -> bool {
    let Some(block) = image.bytes::<32>(1024) else { return false };
    minix_in(&block, le16, le32) || minix_in(&block, be16, be32)
}

fn minix_in(block: &[u8], word: fn(&[u8], usize) -> u16, long: fn(&[u8], usize) -> u32) -> bool {
    const OLD: [u16; 4] = [0x137f, 0x138f, 0x2468, 0x2478];
    const V3: u16 = 0x4d5a;
    let plausible = |inodes: u32, bitmap: u16, log_zone: u16, block: u16| {
        let needed = (u64::from(inodes) + 1).div_ceil(8 * u64::from(block.max(1)));
        inodes > 0 && (needed..=needed + 8).contains(&u64::from(bitmap)) && log_zone <= 10
    };
    let old = OLD.contains(&word(block, 16))
        && plausible(word(block, 0).into(), word(block, 4), word(block, 10), 1024);
    let size = word(block, 28);
    let v3 = word(block, 24) == V3
        && size.is_power_of_two()
        && plausible(long(block, 0), word(block, 6), word(block, 12), size);
    old || v3
}

/// Classic HFS: two letters, and a size of its blocks in whole sectors (Inside Macintosh: Files, 2-60); or HFS+ within it.
fn hfs(image: &Image<'_>) -> bool {
    let Some(block) = image.bytes::<128>(1024) else { return false };
    let unit = be32(&block, 20);
    let within = [b"H+", b"HX"].iter().any(|sign| block[124..126] == **sign);
    block.starts_with(b"BD") && (within || unit > 0 && unit.is_multiple_of(512))
}

/// ext2, ext3 and ext4: the magic is two bytes, so blocks must be of 1 KiB to 64 KiB, too (fs/ext4/ext4.h).
fn ext(image: &Image<'_>) -> bool {
    let block = image.bytes::<64>(1024);
    block.is_some_and(|block| le16(&block, 56) == 0xef53 && le32(&block, 24) <= 6)
}

/// nilfs2, whose magic is two bytes: both superblocks, the second one 4 KiB before the end, have revision 2 and a length
/// that is one (linux/nilfs2_ondisk.h).
fn nilfs2(image: &Image<'_>) -> bool {
    let places = [Some(1024), image.back(SECTOR, 8 * SECTOR)];
    let blocks = places.into_iter().flatten().filter_map(|place| image.bytes::<16>(place));
    blocks
        .into_iter()
        .any(|block| le16(&block, 6) == 0x3434 && le32(&block, 0) == 2 && le16(&block, 8) <= 1024)
}

/// An external log of xfs: a record's header at one of the first 512 sectors (xfs_log_format.h).
fn xfs_log(image: &Image<'_>) -> bool {
    (0..512).any(|sector| {
        let header = image.bytes::<304>(sector * SECTOR);
        header.is_some_and(|header| {
            be32(&header, 0) == 0xfeed_babe
                && matches!(be32(&header, 8), 1..=3)
                && matches!(be32(&header, 300), 1..=3)
        })
    })
}

/// Apple's: a driver descriptor that says how long blocks are, and the map's first entry in the second of them.
fn apple(image: &Image<'_>) -> bool {
    let Some(block) = image.bytes::<4>(0) else { return false };
    let second = |length: u64| image.bytes(length).is_some_and(|sign| [*b"PM", *b"TS"].contains(&sign));
    block.starts_with(b"ER") && (second(be16(&block, 2).into()) || second(512) || second(2048))
}

/// Sun's: two bytes at the end of the first sector, all of whose words together (exclusive or) are 0.
fn sun(image: &Image<'_>) -> bool {
    let Some(sector) = image.bytes::<512>(0) else { return false };
    let sum = sector.chunks_exact(2).fold(0, |sum, word| sum ^ be16(word, 0));
    be16(&sector, 508) == 0xdabe && sum == 0
}

/// Atari's has no magic: the size of the disk, a list of bad sectors, four partitions with a name of three characters; each
/// in the bounds of the disk.
fn atari(image: &Image<'_>) -> bool {
    let Some(sector) = image.bytes::<512>(0) else { return false };
    let size = be32(&sector, 0x1c2);
    let in_bounds = |start: u32, length: u32| {
        start > 0 && length > 0 && start.checked_add(length).is_some_and(|end| end <= size)
    };
    let (bad, bads) = (be32(&sector, 0x1f6), be32(&sector, 0x1fa));
    let partition = |at: usize| {
        let name = &sector[at + 1..at + 4];
        let named = name.iter().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
        sector[at] & 1 == 1 && named && in_bounds(be32(&sector, at + 4), be32(&sector, at + 8))
    };
    let sized = size >= 2 && u64::from(size) <= image.size / SECTOR;
    sized && ((bad, bads) == (0, 0) || in_bounds(bad, bads)) && (0..4).any(|n| partition(0x1c6 + n * 12))
}

/// A physical volume of Apple's Core Storage: version, magic and kind of checksum.
fn file_vault(image: &Image<'_>) -> bool {
    image
        .bytes::<96>(0)
        .is_some_and(|block| &block[88..90] == b"CS" && le16(&block, 8) == 1 && le32(&block, 90) == 1)
}

/// What begins the last whole sector.
fn last_sector<const N: usize>(image: &Image<'_>) -> Option<[u8; N]> {
    image.back(SECTOR, SECTOR).and_then(|place| image.bytes(place))
}

/// JMicron's: two letters, a level, and words that add up to 0 or 1.
fn jmicron(image: &Image<'_>) -> bool {
    last_sector::<128>(image).is_some_and(|block| {
        let sum = block.chunks_exact(2).fold(0_u16, |sum, word| sum.wrapping_add(le16(word, 0)));
        block.starts_with(b"JM") && block[0x30] <= 5 && sum <= 1
    })
}

/// VIA's: two bytes, a version, and the sum of the first 50 bytes.
fn via(image: &Image<'_>) -> bool {
    last_sector::<51>(image).is_some_and(|block| {
        let sum = block[..50].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        le16(&block, 0) == 0xaa55 && block[2] <= 2 && block[50] == sum
    })
}

/// Silicon Image's: a magic, and the number of a disk.
fn silicon(image: &Image<'_>) -> bool {
    last_sector::<512>(image).is_some_and(|block| le32(&block, 0x60) == 0x2f00_0000 && block[0x116] < 8)
}
