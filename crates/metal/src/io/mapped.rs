//! A file mapped into memory, accessed by copying. A page that the device cannot deliver raises
//! SIGBUS, which kills the process: map only files that are never truncated.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::mm::{Advice, ProtFlags};

use crate::block::BlockTraversal;
use crate::buffer::MappedRange;

/// A shared mapping of the first bytes of a file. The file descriptor may be closed.
#[derive(Debug)]
pub struct Mapped {
    range: MappedRange,
    is_writable: bool,
}

impl Mapped {
    /// Maps the first `len` bytes of `file` by mmap(2); `order` is the expected one of accesses,
    /// for the kernel's read-ahead. Fails if `is_writable` and the file was opened for reading.
    pub fn new(file: impl AsFd, len: usize, order: BlockTraversal, is_writable: bool) -> Result<Self, Errno> {
        let protection = if is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let range = MappedRange::of_file(file, 0, len, protection)?;
        let advice = match order {
            BlockTraversal::Sequential => Advice::Sequential,
            BlockTraversal::Random => Advice::Random,
        };
        // SAFETY: such advice changes no content.
        unsafe { range.advise(advice) }?;
        Ok(Self { range, is_writable })
    }

    /// Copies bytes from `offset` into `buffer` up to the end of the mapping; returns their number.
    pub fn read(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let count = self.within(offset, buffer.len());
        if count > 0 {
            // SAFETY: `count` bytes from `offset` are inside the mapping.
            let from = unsafe { self.range.start.add(offset) };
            // SAFETY: both ranges have `count` bytes. Nothing borrowed overlaps the mapping.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), buffer.as_mut_ptr(), count) };
        }
        count
    }

    /// Copies `bytes` to `offset` up to the mapping's end; returns how many, 0 if it is read-only.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> usize {
        let count = if self.is_writable { self.within(offset, bytes.len()) } else { 0 };
        if count > 0 {
            // SAFETY: `count` bytes from `offset` are inside the mapping.
            let to = unsafe { self.range.start.add(offset) };
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), count) };
        }
        count
    }

    /// Unmaps the resident pages, so that they can leave the page cache; later accesses map them.
    pub fn release(&mut self) {
        // SAFETY: no reference to the content exists, and the file keeps the data.
        let _ = unsafe { self.range.advise(Advice::LinuxDontNeed) };
    }

    fn within(&self, offset: usize, len: usize) -> usize {
        len.min(self.range.bytes.saturating_sub(offset))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_is_written_is_in_the_file_and_read_back_and_nothing_beyond_the_end() {
        let file = tempfile::tempfile().expect("temporary file");
        file.set_len(10_000).expect("length");
        let mut mapped = Mapped::new(&file, 10_000, BlockTraversal::Random, true).expect("map");
        assert_eq!(mapped.write(5_000, &[7; 100]), 100);
        let mut found = [0; 100];
        file.read_exact_at(&mut found, 5_000).expect("read");
        assert_eq!(found, [7; 100]);
        file.write_all_at(&[9; 50], 9_950).expect("write");
        let mut buffer = [0; 100];
        assert_eq!(mapped.read(9_950, &mut buffer), 50);
        assert_eq!((buffer[0], buffer[49], buffer[50]), (9, 9, 0));
        assert_eq!(mapped.write(10_000, &[1]), 0);
        assert_eq!(mapped.read(usize::MAX, &mut buffer), 0);
        mapped.release();
        assert_eq!((mapped.read(5_000, &mut buffer), buffer), (100, [7; 100]));
    }

    #[test]
    fn what_is_open_for_reading_alone_is_mapped_for_reading_alone() {
        let named = tempfile::NamedTempFile::new().expect("temporary file");
        named.as_file().write_all_at(&[5; 100], 0).expect("write");
        let file = std::fs::File::open(named.path()).expect("open");
        let wanted = Some(Errno::ACCESS);
        assert_eq!(Mapped::new(&file, 100, BlockTraversal::Random, true).err(), wanted);
        let mut mapped = Mapped::new(&file, 100, BlockTraversal::Random, false).expect("map");
        let mut found = [0; 4];
        assert_eq!((mapped.read(0, &mut found), found), (4, [5; 4]));
        assert_eq!(mapped.write(0, &[1]), 0);
    }

    #[test]
    fn no_bytes_cannot_be_mapped() {
        let file = tempfile::tempfile().expect("temporary file");
        let wanted = Some(Errno::INVAL);
        assert_eq!(Mapped::new(&file, 0, BlockTraversal::Sequential, false).err(), wanted);
    }
}
