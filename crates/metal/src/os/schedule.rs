//! Scheduling policy and timer slack of the calling thread.

use std::io;
use std::num::NonZeroU64;

const LOWEST_PRIORITY: libc::c_int = 1;

/// Lets timers of the calling thread expire up to `ns` late, so that the kernel can join wake-ups;
/// `None` restores the slack that the thread started with.
pub fn set_timer_slack(ns: Option<NonZeroU64>) -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(ns)?)
}

/// Gives the calling thread the real-time policy SCHED_FIFO at its lowest priority, or the
/// ordinary policy again. Fails without the right to do so.
pub fn set_realtime(is_realtime: bool) -> io::Result<()> {
    let (policy, priority) =
        if is_realtime { (libc::SCHED_FIFO, LOWEST_PRIORITY) } else { (libc::SCHED_OTHER, 0) };
    let mut parameters = std::mem::MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: all zeros is a valid `sched_param`.
    let parameters = unsafe { parameters.assume_init_mut() };
    parameters.sched_priority = priority;
    // SAFETY: the call reads one `sched_param`; 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const *parameters) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_and_the_slack_of_a_thread_are_set_and_restored() {
        std::thread::spawn(|| {
            set_timer_slack(NonZeroU64::new(1)).unwrap();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
            set_timer_slack(None).unwrap();
            assert!(rustix::thread::current_timer_slack().unwrap() > 1);
            if set_realtime(true).is_ok() {
                set_realtime(false).unwrap();
            }
        })
        .join()
        .unwrap();
    }
}
