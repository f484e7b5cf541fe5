//! Keeps the calling thread on one CPU for a while.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The calling thread runs on one CPU until this is dropped; then it may run where it could before.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the calling thread to `cpu`.
    ///
    /// # Errors
    /// The CPU does not exist or is not allowed.
    pub fn to(cpu: usize) -> io::Result<Self> {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("CPU {cpu} is past the {} of a CPU set", CpuSet::MAX_CPU),
            ));
        }
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one)?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Should the allowed set have shrunk meanwhile, the thread stays where it is: nothing is wrong with that.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_and_released() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap();
        let pinned = Pinned::to(cpu).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(Pinned::to(CpuSet::MAX_CPU - 1).is_err());
        assert!(Pinned::to(usize::MAX).is_err());
    }
}
