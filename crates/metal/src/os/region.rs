//! A mapped region whose pages are touched one after the other, so that each causes a page fault.

use std::io;
use std::os::fd::AsFd;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::buffer::{MappedRange, Pages};

/// Mapped memory that is touched page by page.
#[derive(Debug)]
pub struct TouchRegion {
    mapping: MappedRange,
    /// First byte to touch, a multiple of the step.
    start: usize,
    bytes: usize,
    step: usize,
    next: usize,
    writes: bool,
}

impl TouchRegion {
    /// Maps `bytes` bytes of anonymous memory, in huge pages for [`Pages::Thp`], else in ordinary
    /// ones; [`Self::touch`] writes one byte per `step` bytes.
    pub fn anonymous(bytes: usize, step: usize, pages: Pages) -> io::Result<Self> {
        // One step more, so that the first touched byte can be at a multiple of it.
        let mapped = bytes + step;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let region = Self::own(MappedRange::anonymous(mapped, access, flags)?, bytes, step, true);
        let advice = if pages == Pages::Thp { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: such advice changes no content.
        match unsafe { region.mapping.advise(advice) } {
            // A kernel without huge pages has nothing to refuse.
            Err(error) if pages == Pages::Thp => Err(error.into()),
            _ => Ok(region),
        }
    }

    /// Maps the first `bytes` bytes of `file`; [`Self::touch`] reads one byte per `step` bytes.
    /// Fails if the file is shorter or the kernel refuses; it must not shrink while mapped.
    pub fn of_file(file: impl AsFd, bytes: usize, step: usize) -> io::Result<Self> {
        let length = rustix::fs::fstat(&file)?.st_size;
        if u64::try_from(length).unwrap_or(0) < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self::own(MappedRange::of_file(file, 0, bytes, ProtFlags::READ)?, bytes, step, false))
    }

    fn own(mapping: MappedRange, bytes: usize, step: usize, writes: bool) -> Self {
        let first = mapping.start.addr().get();
        let start = if writes { first.next_multiple_of(step) - first } else { 0 };
        Self { mapping, start, bytes, step, next: 0, writes }
    }

    /// Touches the next pages, at most `count`, that were not touched since the last discard;
    /// returns their number, 0 at the end of the region.
    #[inline]
    pub fn touch(&mut self, count: usize) -> usize {
        let count = count.min(self.left());
        for page in 0..count {
            let offset = self.start + self.next + page * self.step;
            // SAFETY: the offset is below the end of the mapping.
            let byte = unsafe { self.mapping.start.add(offset) };
            if self.writes {
                // SAFETY: the byte is in a writable mapping that this region owns.
                unsafe { byte.write_volatile(1) };
            } else {
                // SAFETY: the byte is in a mapped file that is long enough.
                std::hint::black_box(unsafe { byte.read_volatile() });
            }
        }
        self.next += count * self.step;
        count
    }

    /// Returns the number of pages that [`Self::touch`] can still touch before the next discard.
    pub fn left(&self) -> usize {
        (self.bytes - self.next) / self.step
    }

    /// Returns all pages to the kernel, so that touching them causes faults again.
    pub fn discard(&mut self) -> io::Result<()> {
        self.next = 0;
        // SAFETY: no reference to the content exists.
        Ok(unsafe { self.mapping.advise(Advice::LinuxDontNeed) }?)
    }

    /// Overwrites all touched pages of anonymous memory with zeros; returns the number of bytes.
    pub fn clear(&mut self) -> usize {
        let bytes = if self.writes { self.next } else { 0 };
        // SAFETY: the start is inside the mapping.
        let start = unsafe { self.mapping.start.add(self.start) };
        // SAFETY: the bytes are inside the writable mapping, to which no reference exists.
        unsafe { start.write_bytes(0, bytes) };
        std::hint::black_box(self.mapping.start);
        bytes
    }
}

/// Maps `bytes` of anonymous memory and unmaps it again, untouched.
#[inline]
pub fn map_and_unmap(bytes: usize) -> io::Result<()> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new anonymous mapping at an address that the kernel chooses.
    let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }?;
    // SAFETY: the mapping was made above with this size, and nothing refers to it.
    Ok(unsafe { rustix::mm::munmap(start, bytes) }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::usage_of_thread;

    const PAGE_BYTES: usize = 4096;

    #[test]
    fn each_touched_page_is_a_fault_until_all_are() {
        let mut region = TouchRegion::anonymous(64 * PAGE_BYTES, PAGE_BYTES, Pages::Small).unwrap();
        for _ in 0..3 {
            let before = usage_of_thread().minor_faults;
            assert_eq!((region.touch(60), region.touch(60), region.touch(60)), (60, 4, 0));
            assert!(usage_of_thread().minor_faults - before >= 64 || rustix::param::page_size() > PAGE_BYTES);
            assert_eq!(region.clear(), 64 * PAGE_BYTES);
            region.discard().unwrap();
            assert_eq!(region.left(), 64);
        }
    }

    #[test]
    fn a_file_is_read_and_one_that_is_too_short_refused() {
        let file = tempfile::tempfile().unwrap();
        assert!(TouchRegion::of_file(&file, PAGE_BYTES, PAGE_BYTES).is_err());
        file.set_len(8 * PAGE_BYTES as u64).unwrap();
        let mut region = TouchRegion::of_file(&file, 8 * PAGE_BYTES, PAGE_BYTES).unwrap();
        assert_eq!((region.touch(100), region.clear()), (8, 0));
        region.discard().unwrap();
        assert_eq!(region.touch(3), 3);
        map_and_unmap(16 * PAGE_BYTES).unwrap();
    }
}
