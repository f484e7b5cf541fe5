//! CPU usage of the process (getrusage(2)).

/// Counts since the start of the process, over all its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// CPU time in user and kernel mode.
    pub cpu_seconds: f64,
    /// Times that a thread gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times that a thread was preempted.
    pub involuntary_switches: u64,
    /// Page faults that needed no input or output.
    pub minor_faults: u64,
}

/// Returns the usage of this process and all its threads so far; zeros if unreported.
pub fn usage() -> Usage {
    used_by(libc::RUSAGE_SELF)
}

/// Returns the CPU time of this process and of its terminated, waited-for children, in seconds.
pub fn cpu_seconds_with_children() -> f64 {
    usage().cpu_seconds + used_by(libc::RUSAGE_CHILDREN).cpu_seconds
}

fn used_by(whom: libc::c_int) -> Usage {
    let mut reported = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory for one `rusage`, which the call fills.
    let answer = unsafe { libc::getrusage(whom, reported.as_mut_ptr()) };
    if answer != 0 {
        return Usage::default();
    }
    // SAFETY: it was zeroed, and all fields are integers.
    let reported = unsafe { reported.assume_init() };
    let count = |n| u64::try_from(n).unwrap_or(0);
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    let cpu_seconds = seconds(reported.ru_utime) + seconds(reported.ru_stime);
    Usage {
        cpu_seconds,
        voluntary_switches: count(reported.ru_nvcsw),
        involuntary_switches: count(reported.ru_nivcsw),
        minor_faults: count(reported.ru_minflt),
    }
}

/// Returns the usage of the calling thread so far; zeros if unreported.
pub fn usage_of_thread() -> Usage {
    used_by(libc::RUSAGE_THREAD)
}

/// Returns the context switches of the calling thread so far, voluntary or not; 0 if unreported.
pub fn thread_switches() -> u64 {
    let Usage { voluntary_switches, involuntary_switches, .. } = usage_of_thread();
    voluntary_switches + involuntary_switches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(thread: libc::pid_t) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
    }

    #[test]
    fn a_thread_that_waits_for_another_switches() {
        // SAFETY: the call has no arguments and cannot fail.
        let me = unsafe { libc::gettid() };
        let (before, of_thread) = (usage(), thread_switches());
        let Some(so_far) = counted(me) else { return };
        let (answer, answered) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            while counted(me).is_some_and(|now| now <= so_far) {
                std::thread::yield_now();
            }
            answer.send(())
        });
        answered.recv().expect("an answer");
        other.join().expect("thread").expect("sent");
        assert!(thread_switches() > of_thread);
        assert!(usage().voluntary_switches > before.voluntary_switches);
    }
}
