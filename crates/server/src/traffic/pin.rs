//! Pins the calling thread to one CPU for a while.

use std::io;

use plimsoll_metal::affinity;

/// Pins the calling thread until dropped, then restores the earlier affinity.
#[derive(Debug)]
pub struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    /// Pins the calling thread to `cpu` until the result is dropped. Fails for a CPU not allowed.
    pub fn pin_to(cpu: usize) -> io::Result<Self> {
        let before = affinity::allowed()?;
        affinity::pin_to(&[cpu])?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = affinity::pin_to(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_and_released() {
        let before = affinity::allowed().unwrap();
        let pinned = Pinned::pin_to(before[0]).unwrap();
        assert_eq!(affinity::allowed().unwrap(), before[..1]);
        drop(pinned);
        assert_eq!(affinity::allowed().unwrap(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(Pinned::pin_to(affinity::MAX_CPUS - 1).is_err());
        assert!(Pinned::pin_to(usize::MAX).is_err());
    }
}
