//! Signal dispositions of this process.

/// Returns whether the process ignores signal number `signal`, possibly inherited (nohup,
/// `trap '' HUP`); false for an invalid one. Call before installing a handler.
pub fn is_ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action nothing changes, and `now` has the size that the kernel writes.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: all zeros is a valid sigaction, and the call wrote a whole one or nothing.
    let now = unsafe { now.assume_init() };
    done == 0 && now.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_known() {
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGSEGV));
        assert!(!is_ignored(-1) && !is_ignored(4096));
    }
}
