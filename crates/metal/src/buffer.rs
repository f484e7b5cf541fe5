//! Aligned anonymous memory with a given page size. Inaccessible pages on both sides prevent the
//! kernel from merging mappings, so that `/proc/self/smaps` shows the page sizes of each buffer.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use serde::{Deserialize, Serialize};

/// Alignment of buffers in bytes: the huge page of x86-64, and of AArch64 with 4 KiB pages.
pub(crate) const BUFFER_ALIGNMENT: usize = 2 << 20;

/// Requested page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pages {
    /// Base pages only (4 KiB on most machines): huge pages are disabled for this memory.
    Small,
    /// Transparent huge pages, if the kernel has any available.
    Thp,
    /// Reserved huge pages of 2 MiB, from the administrator's pool (hugetlb).
    Huge2M,
    /// Reserved huge pages of 1 GiB, from the administrator's pool (hugetlb).
    Huge1G,
}

impl Pages {
    /// Returns the unit of mapping sizes in bytes: the base page, 2 MiB (also for THP), or 1 GiB.
    fn unit(self) -> usize {
        match self {
            Self::Small => rustix::param::page_size(),
            Self::Thp | Self::Huge2M => BUFFER_ALIGNMENT,
            Self::Huge1G => 1 << 30,
        }
    }

    fn hugetlb_flags(self) -> Option<MapFlags> {
        match self {
            Self::Small | Self::Thp => None,
            Self::Huge2M => Some(MapFlags::HUGETLB | MapFlags::HUGE_2MB),
            Self::Huge1G => Some(MapFlags::HUGETLB | MapFlags::HUGE_1GB),
        }
    }
}

/// Resident bytes of a buffer by page size, read from `/proc/self/smaps`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes of the buffer in memory, in whole pages.
    pub bytes: u64,
    /// Bytes in anonymous huge pages, included in `bytes`.
    pub huge_bytes: u64,
    /// Bytes in reserved huge pages, included in `bytes`.
    pub reserved_bytes: u64,
}

/// Reason why a buffer cannot be made or inspected.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// The requested size is 0 bytes.
    #[error("a buffer of 0 bytes was asked for: choose a larger size")]
    Empty,
    /// The size exceeds the address space.
    #[error("a buffer of {0} bytes is beyond the address space: choose a smaller size")]
    TooLarge(usize),
    /// The kernel granted no address space or no memory.
    #[error(
        "cannot {action} {bytes} bytes of memory: {source}; choose a smaller size or fewer threads, or raise the \
         limit (ulimit -v, the cgroup's memory limit)"
    )]
    NoMemory {
        /// Action that failed.
        action: &'static str,
        /// Requested size in bytes.
        bytes: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// The pool has not enough free huge pages.
    #[error(
        "cannot map {bytes} bytes in reserved huge pages of {page} bytes: {source}; reserve {needed} of them (the pool is \
         /sys/kernel/mm/hugepages), or choose other pages"
    )]
    NoHugePages {
        /// Requested size in bytes.
        bytes: usize,
        /// Page size in bytes.
        page: usize,
        /// Number of pages needed.
        needed: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// `/proc/self/smaps` could not be read.
    #[error("cannot read which pages the kernel gave: /proc/self/smaps: {0}")]
    ReadBack(io::Error),
    /// `/proc/self/smaps` does not list the mapping, or not in the documented format.
    #[error(
        "cannot read which pages the kernel gave: /proc/self/smaps does not list the buffer as documented"
    )]
    NotListed,
}

/// Memory that this process mapped. It is unmapped on drop.
#[derive(Debug)]
pub(crate) struct MappedRange {
    pub(crate) start: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: it owns its mapping as a Vec owns its allocation; nothing is bound to a thread.
unsafe impl Send for MappedRange {}

impl MappedRange {
    /// Maps `bytes` bytes of anonymous memory.
    pub(crate) fn anonymous(bytes: usize, access: ProtFlags, flags: MapFlags) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping at an address chosen by the kernel affects no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, flags) }?;
        Self::own(start, bytes)
    }

    /// Maps `bytes` bytes of `file`, from byte `at` on, shared with all processes that map it.
    pub(crate) fn of_file(file: impl AsFd, at: u64, bytes: usize, access: ProtFlags) -> Result<Self, Errno> {
        // SAFETY: as above.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, at) }?;
        Self::own(start, bytes)
    }

    fn own(start: *mut c_void, bytes: usize) -> Result<Self, Errno> {
        NonNull::new(start.cast()).map(|start| Self { start, bytes }).ok_or(Errno::NOMEM)
    }

    /// Gives the kernel `advice` on the whole range. Safety: there is no reference to the content,
    /// or `advice` does not change it.
    pub(crate) unsafe fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is its own; the caller grants the rest.
        unsafe { madvise(self.start.as_ptr().cast(), self.bytes, advice) }
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        // SAFETY: the mapping is its own and every borrow of it has ended.
        let _only_fails_on_a_wrong_address = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Private anonymous memory, zeroed, on a huge-page boundary.
#[derive(Debug)]
pub struct Buffer {
    /// Owns the memory.
    _reservation: MappedRange,
    pub(crate) start: NonNull<u8>,
    bytes: usize,
    pub(crate) pages: Pages,
}

// SAFETY: `start` is in the buffer's own range, which is bound to no thread.
unsafe impl Send for Buffer {}
// SAFETY: through a shared reference the memory can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Maps `bytes` zeroed bytes without making them resident. Fails for 0 bytes, or if `pages` are
    /// reserved huge pages and too few are free.
    pub fn new(bytes: usize, pages: Pages) -> Result<Self, BufferError> {
        if bytes == 0 {
            return Err(BufferError::Empty);
        }
        if let Some(flags) = pages.hugetlb_flags() {
            return Self::map_reserved(bytes, pages, flags);
        }
        let page = rustix::param::page_size();
        // One alignment to shift the start within, and one inaccessible page at each edge.
        let reserved = bytes
            .checked_next_multiple_of(pages.unit())
            .and_then(|whole| whole.checked_add(BUFFER_ALIGNMENT + 2 * page))
            .filter(|reserved| isize::try_from(*reserved).is_ok())
            .ok_or(BufferError::TooLarge(bytes))?;
        let no_memory =
            |action| move |errno: Errno| BufferError::NoMemory { action, bytes, source: errno.into() };
        let reservation = MappedRange::anonymous(reserved, ProtFlags::empty(), MapFlags::PRIVATE);
        let reservation = reservation.map_err(no_memory("reserve"))?;
        let base = reservation.start.addr().get();
        let offset = (base + page).next_multiple_of(BUFFER_ALIGNMENT) - base;
        // SAFETY: offset ≤ page + ALIGNMENT − 1 keeps the accessible part in the reservation.
        let start = unsafe { reservation.start.add(offset) };
        let buffer = Self { _reservation: reservation, start, bytes, pages };
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the range is inside our own reservation, to which no reference exists yet.
        unsafe { mprotect(start.as_ptr().cast(), buffer.mapped(), access) }.map_err(no_memory("map"))?;
        let advice = if pages == Pages::Small { Advice::LinuxNoHugepage } else { Advice::LinuxHugepage };
        // SAFETY: the range is this buffer's own; these advices do not change its content.
        let _unsupported = unsafe { madvise(start.as_ptr().cast(), buffer.mapped(), advice) };
        Ok(buffer)
    }

    /// Maps `bytes` zeroed bytes like [`Self::new`], and makes them resident like [`Self::touch`].
    pub fn touched(bytes: usize, pages: Pages) -> Result<Self, BufferError> {
        let mut buffer = Self::new(bytes, pages)?;
        buffer.touch()?;
        Ok(buffer)
    }

    /// Maps `bytes` bytes in whole reserved huge pages; `flags` are the mmap(2) flags for `pages`.
    fn map_reserved(bytes: usize, pages: Pages, flags: MapFlags) -> Result<Self, BufferError> {
        let page = pages.unit();
        let whole = bytes.checked_next_multiple_of(page).filter(|whole| isize::try_from(*whole).is_ok());
        let reserved = whole.ok_or(BufferError::TooLarge(bytes))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let reservation = MappedRange::anonymous(reserved, access, MapFlags::PRIVATE | flags);
        let reservation = reservation.map_err(|errno| BufferError::NoHugePages {
            bytes,
            page,
            needed: reserved / page,
            source: errno.into(),
        })?;
        Ok(Self { start: reservation.start, _reservation: reservation, bytes, pages })
    }

    fn mapped(&self) -> usize {
        self.bytes.next_multiple_of(self.pages.unit())
    }

    /// Makes the whole buffer resident, on the NUMA node of the calling thread. Keeps the content.
    /// Beyond a cgroup's memory limit the kernel kills the process; no error is returned.
    pub fn touch(&mut self) -> Result<(), BufferError> {
        // SAFETY: the range is the buffer's own, borrowed exclusively; the content is kept.
        let populated =
            unsafe { madvise(self.start.as_ptr().cast(), self.mapped(), Advice::LinuxPopulateWrite) };
        match populated {
            Ok(()) => Ok(()),
            // Kernels before 5.14.
            Err(Errno::INVAL) => {
                self.touch_each_page();
                Ok(())
            }
            Err(errno) => Err(BufferError::NoMemory {
                action: "make resident",
                bytes: self.bytes,
                source: errno.into(),
            }),
        }
    }

    fn touch_each_page(&mut self) {
        for byte in self.bytes_mut().iter_mut().step_by(rustix::param::page_size()) {
            let byte = ptr::from_mut(byte);
            // SAFETY: made from a reference on the line above.
            let value = unsafe { byte.read_volatile() };
            // SAFETY: as above; volatile, because the compiler would omit a store of the old value.
            unsafe { byte.write_volatile(value) };
        }
    }

    /// Returns the buffer's resident bytes by page size, from `/proc/self/smaps`. Fails if that
    /// cannot be read or does not list the buffer.
    pub fn resident(&self) -> Result<Resident, BufferError> {
        Self::resident_of(std::slice::from_ref(self))?.pop().ok_or(BufferError::NotListed)
    }

    /// Returns the resident bytes by page size of each buffer, in order, reading `/proc/self/smaps`
    /// once. Buffers that it does not list have no element. Fails if it cannot be read.
    pub fn resident_of(buffers: &[Self]) -> Result<Vec<Resident>, BufferError> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").map_err(BufferError::ReadBack)?;
        let ranges = buffers.iter().map(|buffer| {
            let start = buffer.start.addr().get();
            (start, start + buffer.mapped())
        });
        Ok(resident_in(&smaps, ranges).into_iter().flatten().collect())
    }

    /// Returns the content as bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `bytes` initialized bytes from `start` are readable; `&self` excludes writers.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Returns the content as mutable bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, writable, and `&mut self` excludes every other access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Returns the content as elements of type `T`, without an incomplete last element.
    pub fn elements<T: BufferElement>(&self) -> &[T] {
        // SAFETY: as in `bytes`; the start is aligned, and every bit pattern is valid.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    /// Returns the content as mutable elements of type `T`, without an incomplete last element.
    pub fn elements_mut<T: BufferElement>(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` excludes every other access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }
}

/// Type of the elements of a buffer.
///
/// # Safety
///
/// Every bit pattern is valid, and no alignment above that of a buffer is required.
pub unsafe trait BufferElement: Copy {}
// SAFETY: every bit pattern is a number.
unsafe impl BufferElement for u64 {}
// SAFETY: as above.
unsafe impl BufferElement for f32 {}
// SAFETY: as above.
unsafe impl BufferElement for f64 {}

/// Returns the resident bytes in each of the disjoint address `ranges` (start, end), in their
/// order, from `smaps` (proc_pid_smaps(5)); `None` without mappings or with an invalid number.
fn resident_in(smaps: &str, ranges: impl Iterator<Item = (usize, usize)>) -> Vec<Option<Resident>> {
    let ranges: Vec<(usize, usize)> = ranges.collect();
    let mut by_start: BTreeMap<usize, usize> =
        ranges.iter().enumerate().map(|(index, (start, _))| (*start, index)).collect();
    let mut found: Vec<Option<Resident>> = vec![None; ranges.len()];
    let mut inside = None;
    for line in smaps.lines() {
        if let Some((low, high)) = address_range(line) {
            let nearest = by_start.range(..=low).next_back().map(|(_, index)| *index);
            inside = nearest.filter(|index| high <= ranges[*index].1);
            continue;
        }
        let Some(index) = inside else { continue };
        if found[index].get_or_insert_default().add(line).is_none() {
            found[index] = None;
            by_start.remove(&ranges[index].0);
            inside = None;
        }
    }
    found
}

impl Resident {
    fn add(&mut self, line: &str) -> Option<()> {
        let Some((name, rest)) = line.split_once(':') else { return Some(()) };
        match name {
            "Rss" => self.bytes = self.bytes.checked_add(kib(rest)?)?,
            "AnonHugePages" => self.huge_bytes = self.huge_bytes.checked_add(kib(rest)?)?,
            // Not included in Rss.
            "Private_Hugetlb" => {
                self.reserved_bytes = self.reserved_bytes.checked_add(kib(rest)?)?;
                self.bytes = self.bytes.checked_add(kib(rest)?)?;
            }
            _ => {}
        }
        Some(())
    }
}

fn address_range(line: &str) -> Option<(usize, usize)> {
    let (range, _) = line.split_once(' ')?;
    let (low, high) = range.split_once('-')?;
    Some((usize::from_str_radix(low, 16).ok()?, usize::from_str_radix(high, 16).ok()?))
}

fn kib(text: &str) -> Option<u64> {
    text.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(smaps: &str, start: usize, end: usize) -> Option<Resident> {
        resident_in(smaps, std::iter::once((start, end))).remove(0)
    }

    const SMAPS: &str = "\
7f0000000000-7f0000001000 ---p 00000000 00:00 0
Size:                  4 kB
Rss:                   0 kB
AnonHugePages:         0 kB
7f0000001000-7f0000401000 rw-p 00000000 00:00 0
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg
7f0000401000-7f0000501000 rw-p 00000000 00:00 0                          [stack]
Rss:                 512 kB
AnonHugePages:         0 kB
";

    #[test]
    fn the_buffers_own_mappings_are_summed_and_its_neighbours_are_not() {
        let middle = one(SMAPS, 0x7f00_0000_1000, 0x7f00_0040_1000);
        assert_eq!(middle, Some(Resident { bytes: 4 << 20, huge_bytes: 2 << 20, reserved_bytes: 0 }));
        let both = one(SMAPS, 0x7f00_0000_1000, 0x7f00_0050_1000);
        assert_eq!(both, middle.map(|middle| Resident { bytes: (4 << 20) + (512 << 10), ..middle }));
        assert_eq!(one(SMAPS, 0x1000, 0x2000), None);
    }

    #[test]
    fn reserved_pages_count_as_resident() {
        let reserved = SMAPS.replace("AnonHugePages:      2048 kB", "Private_Hugetlb:    2048 kB");
        let found = one(&reserved, 0x7f00_0000_1000, 0x7f00_0040_1000);
        assert_eq!(found, Some(Resident { bytes: 6 << 20, huge_bytes: 0, reserved_bytes: 2 << 20 }));
    }

    #[test]
    fn reserved_pages_are_had_or_refused_in_words() {
        let free = |pool: &str| {
            let path = format!("/sys/kernel/mm/hugepages/hugepages-{pool}/free_hugepages");
            std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        for (pages, pool) in [(Pages::Huge2M, "2048kB"), (Pages::Huge1G, "1048576kB")] {
            let mut buffer = match Buffer::new(3 << 20, pages) {
                Ok(buffer) => buffer,
                Err(error) => {
                    assert!(free(pool) < 2, "{error}");
                    assert!(error.to_string().contains("in reserved huge pages"), "{error}");
                    continue;
                }
            };
            buffer.touch().unwrap();
            let resident = buffer.resident().unwrap();
            assert_eq!(resident.reserved_bytes, (3_u64 << 20).next_multiple_of(pages.unit() as u64));
            assert_eq!(resident.bytes, resident.reserved_bytes);
            buffer.bytes_mut().fill(1);
        }
        assert!(matches!(Buffer::new(1 << 60, Pages::Huge2M), Err(BufferError::NoHugePages { .. })));
    }

    #[test]
    fn garbage_numbers_are_unknown_and_not_zero() {
        let garbage = SMAPS.replace("4096 kB", "-4096 kB");
        assert_eq!(one(&garbage, 0x7f00_0000_1000, 0x7f00_0040_1000), None);
        let huge = SMAPS.replace("2048 kB", "18446744073709551615 kB");
        assert_eq!(one(&huge, 0x7f00_0000_1000, 0x7f00_0040_1000), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,200}", start: usize, end: usize) {
            let _ = one(&text, start, end);
        }

        #[test]
        fn every_byte_is_zero_and_writable(bytes in 1_usize..200_000, thp: bool) {
            let pages = if thp { Pages::Thp } else { Pages::Small };
            let mut buffer = Buffer::new(bytes, pages).unwrap();
            prop_assert_eq!(buffer.bytes().len(), bytes);
            prop_assert_eq!(buffer.bytes().as_ptr().addr() % BUFFER_ALIGNMENT, 0);
            prop_assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            buffer.bytes_mut().fill(0xa5);
            prop_assert!(buffer.bytes().iter().all(|byte| *byte == 0xa5));
            prop_assert_eq!(buffer.elements::<u64>().len(), bytes / 8);
            prop_assert_eq!(buffer.elements::<f64>().len(), bytes / 8);
        }
    }

    #[test]
    fn nothing_is_resident_before_the_touch_and_everything_after_it() {
        let mut buffer = Buffer::new(3 << 20, Pages::Small).unwrap();
        assert_eq!(buffer.resident().unwrap(), Resident { bytes: 0, huge_bytes: 0, reserved_bytes: 0 });
        buffer.touch().unwrap();
        assert_eq!(buffer.resident().unwrap(), Resident { bytes: 3 << 20, huge_bytes: 0, reserved_bytes: 0 });
    }

    #[test]
    fn touching_keeps_the_content_both_ways() {
        let mut buffer = Buffer::new(64 << 10, Pages::Small).unwrap();
        buffer.bytes_mut().fill(7);
        buffer.touch().unwrap();
        buffer.touch_each_page();
        assert!(buffer.bytes().iter().all(|byte| *byte == 7));
        assert_eq!(buffer.resident().unwrap().bytes, 64 << 10);
    }

    #[test]
    fn adjacent_buffers_are_told_apart() {
        let mut buffers: Vec<_> = (0..8).map(|_| Buffer::new(1 << 20, Pages::Small).unwrap()).collect();
        buffers[3].touch().unwrap();
        for (index, buffer) in buffers.iter().enumerate() {
            let expected = if index == 3 { 1 << 20 } else { 0 };
            assert_eq!(buffer.resident().unwrap().bytes, expected, "buffer {index}");
        }
    }

    #[test]
    fn impossible_sizes_are_refused_in_words() {
        assert!(matches!(Buffer::new(0, Pages::Small), Err(BufferError::Empty)));
        assert!(matches!(Buffer::new(usize::MAX, Pages::Thp), Err(BufferError::TooLarge { .. })));
        let why = Buffer::new(1 << 60, Pages::Thp).unwrap_err().to_string();
        assert!(why.contains("1152921504606846976 bytes") && why.contains("choose a smaller size"), "{why}");
    }
}
