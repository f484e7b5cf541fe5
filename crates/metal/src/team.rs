//! A team of operating-system threads, each pinned to one processor, that run a closure together.
//!
//! Members wait parked, not spinning, between runs; a run starts at a barrier, so all begin together, and returns when
//! the last has finished. A panic in a member ends the run as an error. Per-thread state is made by one run, on its
//! own thread (so that memory is first touched there), and lent to later ones with [`Team::run_each`].

mod barrier;
mod room;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Resource, getrlimit};

use crate::affinity;
use barrier::{Barrier, Broken};

/// Why a team could not be formed, or a run not finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// The list of processors was empty.
    #[error("no CPU to run on: the list of CPUs is empty")]
    Empty,
    /// A processor is not in this process's affinity mask (taskset, cpuset) or does not exist.
    #[error(
        "CPU {cpu} may not be used: this process may use CPUs {allowed}; use one of them, or widen taskset or the cpuset"
    )]
    NotAllowed {
        /// The processor asked for.
        cpu: usize,
        /// The allowed processors, as a list of ranges.
        allowed: String,
    },
    /// The kernel refused to read or set the affinity.
    #[error("cannot pin a thread to CPU {cpu}: {source}")]
    Pin {
        /// The processor asked for.
        cpu: usize,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start thread {number} of {wanted}: {source}; {limit}")]
    Spawn {
        /// Which thread, from 1.
        number: usize,
        /// How many the team needs.
        wanted: usize,
        /// The kernel's reason.
        source: std::io::Error,
        /// The limits that may stand in the way, with their values.
        limit: String,
    },
    /// The system has no room for so many threads; none was started.
    #[error(
        "cannot start {wanted} threads: {limit} leaves room for {room}; use fewer threads, or raise the limit"
    )]
    NoRoom {
        /// How many the team needs.
        wanted: usize,
        /// How many there is room for.
        room: u64,
        /// Which limit, with its value.
        limit: String,
    },
    /// The closure panicked on a member; the others were released.
    #[error("thread {index} on CPU {cpu} panicked: {message}")]
    Panicked {
        /// The member, from 0.
        index: usize,
        /// Its processor.
        cpu: usize,
        /// The panic's message.
        message: String,
    },
    /// [`Team::run_each`] was given another number of states than there are members.
    #[error("{states} states were given to a team of {members} threads: one is needed for each")]
    StateCount {
        /// States given.
        states: usize,
        /// Members of the team.
        members: usize,
    },
}

/// The one who runs: what a closure may know of its place in the team.
#[derive(Debug, Clone, Copy)]
pub struct Member<'team> {
    /// Place in the list of processors, from 0.
    pub index: usize,
    /// The processor this thread is pinned to.
    pub cpu: usize,
    /// Members in the team.
    pub count: usize,
    barrier: &'team Barrier,
}

impl Member<'_> {
    /// Waits until every member still running has come here. Members that have returned are not waited for.
    ///
    /// If another member panicked the run is lost: this unwinds, quietly, to the end of the closure.
    pub fn barrier(&self) {
        if self.barrier.wait() == Err(Broken) {
            std::panic::resume_unwind(Box::new(Broken));
        }
    }
}

/// Threads pinned to processors, parked until they are given work. They are joined on drop.
#[derive(Debug)]
pub struct Team {
    cpus: Vec<usize>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What a member is told to run: called with its index. It never unwinds.
type Task<'run> = dyn Fn(usize) + Sync + 'run;

/// A [`Task`] whose lifetime is kept by [`Team::dispatch`] instead of the compiler.
#[derive(Clone, Copy)]
struct Erased(*const Task<'static>);

// SAFETY: the pointee is Sync, so it may be called from any thread; `dispatch` keeps it alive while any member can.
unsafe impl Send for Erased {}

#[derive(Debug)]
struct Shared {
    orders: Mutex<Orders>,
    /// Signalled when `orders` holds something new for the members.
    start: Condvar,
    /// Signalled when the last member has finished.
    done: Condvar,
    barrier: Barrier,
}

#[derive(Default)]
struct Orders {
    /// Counts the runs, so that each member takes part in each exactly once.
    run: u64,
    task: Option<Erased>,
    /// Members that have not finished the present run.
    busy: usize,
    dismissed: bool,
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orders").field("run", &self.run).field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl Shared {
    /// The orders are whole between any two statements that hold the lock, so poison means nothing here.
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member's life: wait for a run, take part, report, until dismissed.
    fn serve(&self, index: usize) {
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
            if let Some(Erased(task)) = task {
                // SAFETY: `dispatch` holds the borrow of the task until `busy`, which counts this member since
                // before the task was published, has come to zero; this member counts itself off only below.
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
    /// Starts one thread for each entry of `cpus`, pinned to it. A processor may be listed more than once.
    ///
    /// # Errors
    /// A processor outside the affinity mask, a thread that cannot be started or pinned; none is left running then.
    pub fn new(cpus: &[usize]) -> Result<Self, TeamError> {
        let first = *cpus.first().ok_or(TeamError::Empty)?;
        let allowed = affinity::allowed().map_err(|source| TeamError::Pin { cpu: first, source })?;
        if let Some(&cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(TeamError::NotAllowed { cpu, allowed: ranges(&allowed) });
        }
        room::check(cpus.len())?;
        let shared = Arc::new(Shared {
            orders: Mutex::new(Orders::default()),
            start: Condvar::new(),
            done: Condvar::new(),
            barrier: Barrier::new(has_duplicates(cpus)),
        });
        let mut team = Self { cpus: cpus.to_vec(), shared, threads: Vec::with_capacity(cpus.len()) };
        for index in 0..cpus.len() {
            let thread = team.start(index)?;
            team.threads.push(thread);
        }
        team.pin()?;
        Ok(team)
    }

    fn start(&self, index: usize) -> Result<JoinHandle<()>, TeamError> {
        let shared = Arc::clone(&self.shared);
        let name = format!("plimsoll-{index}");
        std::thread::Builder::new().name(name).spawn(move || shared.serve(index)).map_err(|source| {
            TeamError::Spawn { number: index + 1, wanted: self.cpus.len(), source, limit: thread_limits() }
        })
    }

    /// Each thread pins itself, and checks that the kernel did as it was told.
    fn pin(&mut self) -> Result<(), TeamError> {
        let pinned = self.run(|member| {
            affinity::keep_on(&[member.cpu])?;
            affinity::allowed().map(|set| set == [member.cpu])
        })?;
        for (result, &cpu) in pinned.into_iter().zip(&self.cpus) {
            let refusal = match result {
                Ok(true) => continue,
                Ok(false) => std::io::Error::other("the kernel kept another affinity mask"),
                Err(error) => error,
            };
            return Err(TeamError::Pin { cpu, source: refusal });
        }
        Ok(())
    }

    /// The processors of the members, in order.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Members in the team; at least one.
    pub fn count(&self) -> usize {
        self.cpus.len()
    }

    /// Whether a processor was listed for more than one member: they take turns on it.
    pub fn shares_cpus(&self) -> bool {
        has_duplicates(&self.cpus)
    }

    /// Runs `work` on every member, all starting together, and returns their results in order.
    ///
    /// # Errors
    /// [`TeamError::Panicked`] with the first member that panicked. The team can be used again.
    pub fn run<T, F>(&mut self, work: F) -> Result<Vec<T>, TeamError>
    where
        T: Send,
        F: Fn(Member<'_>) -> T + Sync,
    {
        let mut nothing = vec![(); self.count()];
        self.run_each(&mut nothing, |member, ()| work(member))
    }

    /// As [`run`](Self::run), lending each member its own entry of `states`.
    ///
    /// # Errors
    /// [`TeamError::StateCount`] if there is not one state for each member; [`TeamError::Panicked`].
    pub fn run_each<S, T, F>(&mut self, states: &mut [S], work: F) -> Result<Vec<T>, TeamError>
    where
        S: Send,
        T: Send,
        F: Fn(Member<'_>, &mut S) -> T + Sync,
    {
        if states.len() != self.count() {
            return Err(TeamError::StateCount { states: states.len(), members: self.count() });
        }
        let desks: Vec<Mutex<Desk<'_, S, T>>> =
            states.iter_mut().map(|state| Mutex::new(Desk { state, outcome: None })).collect();
        let (cpus, barrier, count) = (&self.cpus, &self.shared.barrier, self.count());
        let task = |index: usize| {
            let (Some(desk), Some(&cpu)) = (desks.get(index), cpus.get(index)) else { return };
            let mut desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
            let member = Member { index, cpu, count, barrier };
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                member.barrier();
                work(member, desk.state)
            }));
            match outcome {
                Ok(_) => barrier.leave(),
                Err(_) => barrier.break_up(),
            }
            desk.outcome = Some(outcome.map_err(Failure::from_payload));
        };
        self.dispatch(&task);
        self.collect(desks)
    }

    /// Publishes `task` to the members and returns when all have finished it.
    ///
    /// The task must not unwind: it is called on threads that count themselves off after it.
    fn dispatch(&self, task: &Task<'_>) {
        let pointer: *const Task<'_> = task;
        // SAFETY: only the lifetime changes. The pointer is dereferenced by members alone, and only between here
        // and the moment `busy` is zero again, which `Finish` waits for, also when unwinding, before `task` dies.
        let erased = Erased(unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(pointer) });
        let _finish = Finish(&self.shared);
        self.shared.barrier.reset(self.threads.len());
        let mut orders = self.shared.orders();
        orders.task = Some(erased);
        orders.busy = self.threads.len();
        orders.run += 1;
        drop(orders);
        self.shared.start.notify_all();
    }

    fn collect<S, T>(&self, desks: Vec<Mutex<Desk<'_, S, T>>>) -> Result<Vec<T>, TeamError> {
        let mut results = Vec::with_capacity(desks.len());
        let mut failure: Option<TeamError> = None;
        for (index, (desk, &cpu)) in desks.into_iter().zip(&self.cpus).enumerate() {
            let message = match desk.into_inner().unwrap_or_else(PoisonError::into_inner).outcome {
                Some(Ok(result)) => {
                    results.push(result);
                    continue;
                }
                Some(Err(Failure::Released)) => continue,
                Some(Err(Failure::Panicked(message))) => message,
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
            // A member cannot panic outside a task, and a task is caught: there is nothing to report.
            drop(thread.join());
        }
    }
}

/// Waits on drop until no member can touch the task any more.
struct Finish<'run>(&'run Shared);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let mut orders = self.0.orders();
        while orders.busy > 0 {
            orders = self.0.done.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
        orders.task = None;
    }
}

/// Where a member finds its state and leaves its outcome. The lock is never contended.
struct Desk<'run, S, T> {
    state: &'run mut S,
    outcome: Option<Result<T, Failure>>,
}

enum Failure {
    /// Unwound from a barrier because another member panicked.
    Released,
    Panicked(String),
}

impl Failure {
    fn from_payload(payload: Box<dyn Any + Send>) -> Self {
        let payload = match payload.downcast::<Broken>() {
            Ok(_) => return Self::Released,
            Err(payload) => payload,
        };
        let payload = match payload.downcast::<String>() {
            Ok(message) => return Self::Panicked(*message),
            Err(payload) => payload,
        };
        if let Some(message) = payload.downcast_ref::<&'static str>() {
            return Self::Panicked((*message).to_owned());
        }
        // A payload of an unknown type may panic when dropped, and a task must not unwind.
        std::mem::forget(payload);
        Self::Panicked("no message".to_owned())
    }
}

fn has_duplicates(cpus: &[usize]) -> bool {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair.first() == pair.last())
}

/// Writes ascending processors as `0-3,8`.
fn ranges(cpus: &[usize]) -> String {
    let runs = cpus.chunk_by(|one, next| one + 1 == *next);
    let parts = runs.filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// The limits that make the kernel refuse a thread, for the error's text.
fn thread_limits() -> String {
    let show = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    let processes = show(getrlimit(Resource::Nproc).current);
    let memory = show(getrlimit(Resource::As).current);
    format!(
        "limits: RLIMIT_NPROC {processes} (ulimit -u), RLIMIT_AS {memory} (bytes, ulimit -v), the cgroup's pids.max"
    )
}

#[cfg(test)]
mod tests;
