//! How a signal is disposed of in this process.

/// Whether the process ignores a signal: by itself, or because whoever started it did (nohup, `trap '' HUP`, a background job
/// of a shell without job control). To be asked before a handler is installed. A number that is no signal is not ignored.
pub fn is_ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action nothing changes, and `now` is as large as the kernel's answer.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: all zeros is a sigaction, and the call has at most written a whole one.
    let now = unsafe { now.assume_init() };
    done == 0 && now.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_known() {
        // Rust's runtime ignores it before main.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGSEGV));
        assert!(!is_ignored(-1) && !is_ignored(4096));
    }
}
