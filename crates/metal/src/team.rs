//! A team of threads, each pinned to one processor, which sleep between runs. A run starts at a
//! barrier and returns when the last thread has finished.

mod barrier;
mod room;

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Resource, getrlimit};

use crate::affinity;
use barrier::{Barrier, Broken};

/// Reason why a team was not formed or a run not finished.
#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// The list of processors is empty.
    #[error("no CPU to run on: the list of CPUs is empty")]
    Empty,
    /// The processor does not exist or is outside this process's affinity mask (taskset, cpuset).
    #[error(
        "CPU {cpu} may not be used: this process may use CPUs {allowed}; use one of them, or widen taskset or the cpuset"
    )]
    NotAllowed {
        /// Requested processor.
        cpu: usize,
        /// Allowed processors as a list of ranges.
        allowed: String,
    },
    /// The kernel refused to read or set the affinity of a thread for this processor.
    #[error("cannot pin a thread to CPU {0}: {1}")]
    Pin(usize, std::io::Error),
    /// A thread could not be started.
    #[error("cannot start thread {number} of {wanted}: {source}; {limit}")]
    Spawn {
        /// Number of the thread, from 1.
        number: usize,
        /// Number of threads in the team.
        wanted: usize,
        /// Error of the kernel.
        source: std::io::Error,
        /// Limits that may cause it, with their values.
        limit: String,
    },
    /// The system's limits do not allow this number of threads; none was started.
    #[error(
        "cannot start {wanted} threads: {limit} leaves room for {room}; use fewer threads, or raise the limit"
    )]
    NoRoom {
        /// Number of threads in the team.
        wanted: usize,
        /// Number of threads that the limit allows.
        room: u64,
        /// The limit, with its value.
        limit: String,
    },
    /// The closure panicked on a thread; the other threads were released.
    #[error("thread {index} on CPU {cpu} panicked: {message}")]
    Panicked {
        /// Index of the thread, from 0.
        index: usize,
        /// Processor of the thread.
        cpu: usize,
        /// Message of the panic.
        message: String,
    },
    /// [`Team::run_each`] got a number of states that differs from the number of threads.
    #[error("{states} states were given to a team of {members} threads: one is needed for each")]
    StateCount {
        /// Number of states.
        states: usize,
        /// Number of threads in the team.
        members: usize,
    },
}

/// Index and processor of a thread in its team.
#[derive(Debug, Clone, Copy)]
pub struct TeamMember<'team> {
    /// Index in the list of processors, from 0.
    pub index: usize,
    /// Processor this thread is pinned to.
    pub cpu: usize,
    /// Number of threads in the team.
    pub count: usize,
    barrier: &'team Barrier,
}

impl TeamMember<'_> {
    /// Waits until every thread of the team has called this or returned. Unwinds if one panicked.
    pub fn barrier(&self) {
        if self.barrier.wait() == Err(Broken) {
            std::panic::resume_unwind(Box::new(Broken));
        }
    }
}

/// A value on a pair of cache lines of its own, because some processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLines<T>(pub T);

/// Threads pinned to processors. They are joined on drop.
#[derive(Debug)]
pub struct Team {
    cpus: Vec<usize>,
    shared: Arc<TeamShared>,
    threads: Vec<JoinHandle<()>>,
}

type MemberTask<'run> = dyn Fn(usize) + Sync + 'run;

/// A [`MemberTask`] whose lifetime is ensured by [`Team::dispatch`].
#[derive(Clone, Copy, Debug)]
struct ErasedTask(*const MemberTask<'static>);

// SAFETY: the pointee is Sync; `dispatch` keeps it alive while a thread can call it.
unsafe impl Send for ErasedTask {}

#[derive(Debug, Default)]
struct TeamShared {
    orders: Mutex<TeamOrders>,
    start: Condvar,
    done: Condvar,
    barrier: Barrier,
}

#[derive(Debug, Default)]
struct TeamOrders {
    run: u64,
    task: Option<ErasedTask>,
    busy: usize,
    dismissed: bool,
}

impl TeamShared {
    fn new(cpus_are_shared: bool) -> Arc<Self> {
        Arc::new(Self { barrier: Barrier::new(cpus_are_shared), ..Self::default() })
    }

    // Poison is ignored: the orders are consistent whenever the lock is free.
    fn orders(&self) -> MutexGuard<'_, TeamOrders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_tasks(&self, index: usize) {
        let mut seen = 0;
        loop {
            let mut orders = self.orders();
            while orders.run == seen && !orders.dismissed {
                orders = self.start.wait(orders).unwrap_or_else(PoisonError::into_inner);
            }
            if orders.dismissed {
                return;
            }
            seen = orders.run;
            let task = orders.task;
            drop(orders);
            if let Some(ErasedTask(task)) = task {
                // SAFETY: `dispatch` holds the borrow until `busy` is zero. It counted this thread
                // before it published the task, and this thread decrements it only below.
                let task = unsafe { &*task };
                task(index);
            }
            let mut orders = self.orders();
            orders.busy -= 1;
            if orders.busy == 0 {
                self.done.notify_all();
            }
        }
    }
}

impl Team {
    /// Starts one thread per entry of `cpus` (repetitions allowed), pinned to it. Fails, with no
    /// thread left running, if a processor is not allowed or a thread cannot be started.
    pub fn new(cpus: &[usize]) -> Result<Self, TeamError> {
        let first = *cpus.first().ok_or(TeamError::Empty)?;
        let allowed = affinity::allowed().map_err(|source| TeamError::Pin(first, source))?;
        if let Some(&cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(TeamError::NotAllowed { cpu, allowed: ranges(&allowed) });
        }
        room::check(cpus.len())?;
        let shared = TeamShared::new(has_duplicates(cpus));
        let mut team = Self { cpus: cpus.to_vec(), shared, threads: Vec::with_capacity(cpus.len()) };
        for index in 0..cpus.len() {
            team.threads.push(team.start(index)?);
        }
        team.pin()?;
        Ok(team)
    }

    /// Makes a team of the calling thread alone, which must be pinned to CPU `cpu`;
    /// [`run`](Self::run) then calls its closure directly.
    pub fn of_caller(cpu: usize) -> Self {
        Self { cpus: vec![cpu], shared: TeamShared::new(false), threads: Vec::new() }
    }

    fn start(&self, index: usize) -> Result<JoinHandle<()>, TeamError> {
        let shared = Arc::clone(&self.shared);
        let name = format!("plimsoll-{index}");
        std::thread::Builder::new().name(name).spawn(move || shared.run_tasks(index)).map_err(|source| {
            TeamError::Spawn { number: index + 1, wanted: self.cpus.len(), source, limit: thread_limits() }
        })
    }

    fn pin(&mut self) -> Result<(), TeamError> {
        let pinned = self.run(|member| {
            affinity::pin_to(&[member.cpu])?;
            affinity::allowed().map(|set| set == [member.cpu])
        })?;
        for (result, &cpu) in pinned.into_iter().zip(&self.cpus) {
            let refusal = match result {
                Ok(true) => continue,
                Ok(false) => std::io::Error::other("the kernel kept another affinity mask"),
                Err(error) => error,
            };
            return Err(TeamError::Pin(cpu, refusal));
        }
        Ok(())
    }

    /// Returns the CPU number of each thread, in order.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Returns the number of threads; at least one.
    pub fn count(&self) -> usize {
        self.cpus.len()
    }

    /// Runs `work` on every thread, starting together, and returns the results in the order of
    /// threads. Fails with the first thread that panicked; the team can be used again.
    pub fn run<T, F>(&mut self, work: F) -> Result<Vec<T>, TeamError>
    where
        T: Send,
        F: Fn(TeamMember<'_>) -> T + Sync,
    {
        let mut nothing = vec![(); self.count()];
        self.run_each(&mut nothing, |member, ()| work(member))
    }

    /// Like [`run`](Self::run), but passes each thread its entry of `states`; fails if their number
    /// is not [`count`](Self::count).
    pub fn run_each<S, T, F>(&mut self, states: &mut [S], work: F) -> Result<Vec<T>, TeamError>
    where
        S: Send,
        T: Send,
        F: Fn(TeamMember<'_>, &mut S) -> T + Sync,
    {
        if states.len() != self.count() {
            return Err(TeamError::StateCount { states: states.len(), members: self.count() });
        }
        let desks: Vec<Mutex<MemberSlot<'_, S, T>>> =
            states.iter_mut().map(|state| Mutex::new((state, None))).collect();
        let (cpus, barrier, count) = (&self.cpus, &self.shared.barrier, self.count());
        let task = |index: usize| {
            let (Some(desk), Some(&cpu)) = (desks.get(index), cpus.get(index)) else { return };
            let mut desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
            let member = TeamMember { index, cpu, count, barrier };
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                member.barrier();
                work(member, desk.0)
            }));
            match outcome {
                Ok(_) => barrier.leave(),
                Err(_) => barrier.break_up(),
            }
            desk.1 = Some(outcome.map_err(TeamFailure::from_payload));
        };
        self.dispatch(&task);
        self.collect(desks)
    }

    /// Publishes `task`, which must not unwind, and returns when all threads have finished it.
    fn dispatch(&self, task: &MemberTask<'_>) {
        if self.threads.is_empty() {
            self.shared.barrier.reset(1);
            return task(0);
        }
        // SAFETY: only the lifetime changes. Threads dereference the pointer before `busy` returns
        // to zero, which `Finish` waits for (also when unwinding) before `task` dies.
        let erased =
            unsafe { std::mem::transmute::<*const MemberTask<'_>, *const MemberTask<'static>>(task) };
        let _finish = Finish(&self.shared);
        self.shared.barrier.reset(self.threads.len());
        let mut orders = self.shared.orders();
        orders.task = Some(ErasedTask(erased));
        orders.busy = self.threads.len();
        orders.run += 1;
        drop(orders);
        self.shared.start.notify_all();
    }

    fn collect<S, T>(&self, desks: Vec<Mutex<MemberSlot<'_, S, T>>>) -> Result<Vec<T>, TeamError> {
        let mut results = Vec::with_capacity(desks.len());
        let mut failure: Option<TeamError> = None;
        for (index, (desk, &cpu)) in desks.into_iter().zip(&self.cpus).enumerate() {
            let message = match desk.into_inner().unwrap_or_else(PoisonError::into_inner).1 {
                Some(Ok(result)) => {
                    results.push(result);
                    continue;
                }
                Some(Err(TeamFailure::Released)) => continue,
                Some(Err(TeamFailure::Panicked(message))) => message,
                None => "it did not run".to_owned(),
            };
            failure.get_or_insert(TeamError::Panicked { index, cpu, message });
        }
        failure.map_or(Ok(results), Err)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.orders().dismissed = true;
        self.shared.start.notify_all();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

struct Finish<'run>(&'run TeamShared);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let mut orders = self.0.orders();
        while orders.busy > 0 {
            orders = self.0.done.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
        orders.task = None;
    }
}

/// State of a thread, and the outcome of its work.
type MemberSlot<'run, S, T> = (&'run mut S, Option<Result<T, TeamFailure>>);

enum TeamFailure {
    Released,
    Panicked(String),
}

impl TeamFailure {
    fn from_payload(payload: Box<dyn Any + Send>) -> Self {
        if payload.is::<Broken>() {
            return Self::Released;
        }
        let literal = payload.downcast_ref::<&'static str>().map(|message| (*message).to_owned());
        let message = literal.or_else(|| payload.downcast_ref::<String>().cloned());
        Self::Panicked(message.unwrap_or_else(|| {
            // A payload of an unknown type may panic when dropped, and a task must not unwind.
            std::mem::forget(payload);
            "no message".to_owned()
        }))
    }
}

/// Returns whether a CPU is in `cpus` twice, so that threads share it.
pub fn has_duplicates(cpus: &[usize]) -> bool {
    cpus.iter().collect::<BTreeSet<_>>().len() < cpus.len()
}

fn ranges(cpus: &[usize]) -> String {
    let runs = cpus.chunk_by(|one, next| one + 1 == *next);
    let parts = runs.filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    parts.collect::<Vec<_>>().join(",")
}

fn thread_limits() -> String {
    let show = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    let processes = show(getrlimit(Resource::Nproc).current);
    let memory = show(getrlimit(Resource::As).current);
    format!(
        "limits: RLIMIT_NPROC {processes} (ulimit -u), RLIMIT_AS {memory} (bytes, ulimit -v), the cgroup's pids.max"
    )
}

/// Teams for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Returns `threads` CPUs of this process, repeated as needed.
    pub(crate) fn spread(threads: usize) -> Vec<usize> {
        affinity::allowed().unwrap().into_iter().cycle().take(threads).collect()
    }

    pub(crate) fn team(threads: usize) -> Team {
        Team::new(&spread(threads)).unwrap()
    }
}

#[cfg(test)]
mod tests;
