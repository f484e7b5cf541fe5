//! Page-aligned anonymous memory, as O_DIRECT and io_uring want it.
//!
//! [`Region`] is memory that the kernel may be writing, so it never gives a reference to the whole of itself;
//! [`AlignedBuffer`] is the same memory with one owner at a time, for synchronous reads and writes.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// One anonymous private mapping, zeroed by the kernel and unmapped on drop.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is private to its owner and is not tied to the thread that made it.
unsafe impl Send for Region {}
// SAFETY: a shared `Region` hands out only its address and length; whoever makes references from it must prove
// that nobody writes there.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes. The pages are touched at first use, not here.
    pub(super) fn new(len: usize) -> Result<Self, Errno> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        NonNull::new(base.cast::<u8>()).map(|base| Region { base, len }).ok_or(Errno::NOMEM)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of the mapping made in `new`, and dropping proves that no reference
        // to it is left. A failure would only leak it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A byte buffer that starts on a page boundary: fit for O_DIRECT on every device.
///
/// ```
/// let buffer = plimsoll_metal::uring::AlignedBuffer::new(4096)?;
/// assert_eq!(buffer.as_ptr() as usize % 4096, 0);
/// # Ok::<(), rustix::io::Errno>(())
/// ```
#[derive(Debug)]
pub struct AlignedBuffer(Region);

impl AlignedBuffer {
    /// A zeroed buffer of `len` bytes.
    ///
    /// # Errors
    /// What `mmap` says: `EINVAL` for no bytes at all, `ENOMEM` when the address space or its limit is used up.
    pub fn new(len: usize) -> Result<Self, Errno> {
        Region::new(len).map(AlignedBuffer)
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable bytes, zeroed by the kernel, and only `&mut self` writes to it.
        unsafe { std::slice::from_raw_parts(self.0.base.as_ptr(), self.0.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` proves that no other reference exists.
        unsafe { std::slice::from_raw_parts_mut(self.0.base.as_ptr(), self.0.len) }
    }
}
