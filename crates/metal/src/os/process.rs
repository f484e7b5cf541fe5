//! Child processes that make only system calls, as a threaded process must between fork and exec.

use std::ffi::CStr;
use std::io;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::link::LinkEnd;
use crate::affinity;

/// Forks a child that executes `program` without arguments and environment (`None`: exits at once)
/// and waits for it. Fails if the fork fails or the child's exit status is not 0.
pub fn fork_and_wait(program: Option<&CStr>) -> io::Result<()> {
    let arguments = [program.map_or(std::ptr::null(), CStr::as_ptr), std::ptr::null()];
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: the child calls only execve and _exit, which are safe after a fork with threads.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            if let Some(program) = program {
                // SAFETY: path and arguments end with zero, both lists with null.
                unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
                exit_child(127);
            }
            exit_child(0)
        }
        child => wait_for(child),
    }
}

fn exit_child(code: i32) -> ! {
    // SAFETY: ends the child without running handlers of the parent.
    unsafe { libc::_exit(code) }
}

fn wait_for(child: libc::pid_t) -> io::Result<()> {
    let child = Pid::from_raw(child).ok_or(io::ErrorKind::InvalidData)?;
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) if status.exit_status() == Some(0) => return Ok(()),
            Ok(Some((_, status))) => {
                return Err(io::Error::other(format!("the child ended with {status:?}")));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A child process that answers the turns of a link until it is dropped, or its parent dies.
#[derive(Debug)]
pub struct FollowerProcess(Pid);

impl FollowerProcess {
    /// Forks a child, pinned to `cpu`, that runs [`LinkEnd::answer_turns`]; only the child keeps
    /// `end`. The child is killed when the calling thread ends.
    pub fn fork(end: LinkEnd, cpu: usize) -> io::Result<Self> {
        let parent = rustix::process::getpid();
        // SAFETY: the child makes only system calls and does not return from this branch.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: prctl with these integers only sets the signal at the parent's death.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                if rustix::process::getppid() == Some(parent) && affinity::pin_to(&[cpu]).is_ok() {
                    end.answer_turns();
                }
                exit_child(0)
            }
            child => Pid::from_raw(child).map(Self).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        }
    }
}

impl Drop for FollowerProcess {
    fn drop(&mut self) {
        // It was not waited for yet, so the number is still its own.
        let _ = kill_process(self.0, Signal::KILL);
        while waitpid(Some(self.0), WaitOptions::empty()).is_err_and(|e| e == rustix::io::Errno::INTR) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::link::{LinkKind, LinkMessage, link};

    #[test]
    fn a_child_ends_and_a_program_that_fails_is_an_error() {
        fork_and_wait(None).unwrap();
        fork_and_wait(Some(c"/bin/true")).unwrap();
        assert!([c"/bin/false", c"/nonexistent"].into_iter().all(|path| fork_and_wait(Some(path)).is_err()));
    }

    #[test]
    fn a_follower_answers_and_is_gone_when_it_is_dropped() {
        let cpu = affinity::allowed().unwrap()[0];
        for kind in [LinkKind::Pipe, LinkKind::EventFd, LinkKind::Futex] {
            let [near, far] = link(kind).unwrap();
            let follower = FollowerProcess::fork(far, cpu).unwrap();
            for _ in 0..100 {
                near.send(LinkMessage::Turn).unwrap();
                assert_eq!(near.receive().unwrap(), LinkMessage::Turn);
            }
            let id = follower.0.as_raw_nonzero().get();
            drop(follower);
            assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
        }
    }
}
