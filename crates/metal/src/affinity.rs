//! Which CPUs the calling thread may run on, for as many CPUs as the kernel has.
//!
//! The C library's set of CPUs ends at 1024, and the kernel refuses to tell its mask where that has more bits than the
//! caller's room. So the masks here have room for [`MAX_CPUS`].

use std::io;

/// CPUs that a mask has room for: the largest `CONFIG_NR_CPUS` of x86-64.
pub const MAX_CPUS: usize = 8192;
const MASK_WORD_BITS: usize = usize::BITS as usize;

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
/// The kernel's.
pub fn allowed() -> io::Result<Vec<usize>> {
    let mut mask = [0_usize; MAX_CPUS / MASK_WORD_BITS];
    // SAFETY: sched_getaffinity(2) writes at most the given number of bytes to the mask, which has as many.
    let written =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    if written < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_set = |cpu: &usize| {
        mask.get(cpu / MASK_WORD_BITS).is_some_and(|word| word >> (cpu % MASK_WORD_BITS) & 1 == 1)
    };
    Ok((0..MAX_CPUS).filter(is_set).collect())
}

/// Keeps the calling thread on these CPUs; those that are not there, or not allowed, are left out by the kernel.
///
/// # Errors
/// None of them may be used, or one is past [`MAX_CPUS`].
pub fn keep_on(cpus: &[usize]) -> io::Result<()> {
    let mut mask = [0_usize; MAX_CPUS / MASK_WORD_BITS];
    for cpu in cpus {
        let past = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("CPU {cpu} is past the last, {}", MAX_CPUS - 1),
            )
        };
        *mask.get_mut(cpu / MASK_WORD_BITS).ok_or_else(past)? |= 1 << (cpu % MASK_WORD_BITS);
    }
    // SAFETY: sched_setaffinity(2) reads the given number of bytes from the mask, which has as many.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_kept_on_one_cpu_and_let_go() {
        let before = allowed().unwrap();
        let last = *before.last().unwrap();
        keep_on(&[last]).unwrap();
        assert_eq!(allowed().unwrap(), [last]);
        keep_on(&before).unwrap();
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn cpus_that_no_machine_has_are_refused() {
        assert!(keep_on(&[MAX_CPUS - 1]).is_err());
        assert!(keep_on(&[MAX_CPUS]).unwrap_err().to_string().contains("past the last, 8191"));
        assert!(keep_on(&[]).is_err());
    }
}
