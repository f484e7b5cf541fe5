//! CPU affinity of the calling thread, without the C library's limit of 1024 CPUs.

use std::io;

/// Number of CPUs in a mask: the largest `CONFIG_NR_CPUS` of x86-64.
pub const MAX_CPUS: usize = 8192;
const MASK_WORD_BITS: usize = usize::BITS as usize;

/// Returns the CPUs in the affinity mask of the calling thread, ascending.
pub fn allowed() -> io::Result<Vec<usize>> {
    let mut mask = [0_usize; MAX_CPUS / MASK_WORD_BITS];
    // SAFETY: sched_getaffinity(2) writes at most `size_of_val(&mask)` bytes to the mask.
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

/// Pins the calling thread to `cpus`, all below [`MAX_CPUS`]. The kernel ignores CPUs that are
/// absent or not allowed; fails if none remains.
pub fn pin_to(cpus: &[usize]) -> io::Result<()> {
    let mut mask = [0_usize; MAX_CPUS / MASK_WORD_BITS];
    for cpu in cpus {
        let past = || {
            let why = format!("CPU {cpu} is past the last, {}", MAX_CPUS - 1);
            io::Error::new(io::ErrorKind::InvalidInput, why)
        };
        *mask.get_mut(cpu / MASK_WORD_BITS).ok_or_else(past)? |= 1 << (cpu % MASK_WORD_BITS);
    }
    // SAFETY: sched_setaffinity(2) reads `size_of_val(&mask)` bytes from the mask.
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
        pin_to(&[last]).unwrap();
        assert_eq!(allowed().unwrap(), [last]);
        pin_to(&before).unwrap();
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn cpus_that_no_machine_has_are_refused() {
        assert!(pin_to(&[MAX_CPUS - 1]).is_err());
        assert!(pin_to(&[MAX_CPUS]).unwrap_err().to_string().contains("past the last, 8191"));
        assert!(pin_to(&[]).is_err());
    }
}
