//! Carries messages between ranks beside whatever they do, and says who is lost.
//!
//! One thread owns the link, for MPI promises no more. While somebody waits for a message it looks for one 200 times a
//! second; while this machine measures 10 times a second, which takes nothing from what is measured. Ranks end within
//! that thread's hearing or not: it is their connections (`pulse`) that tell. A rank that has none says
//! "I am here" by the link, several times a second, and what was heard of whom is kept and judged in one place
//! (`watch`).

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};

use super::exercise::{Exercise, Timed};
use super::link::{LARGEST, Link};
use super::message::{Message, decoded, encoded};
use super::pulse::{Pulse, REACH};
use super::watch::{Standing, Watch};

/// A rank that says nothing for this long is lost.
pub const SILENCE: Duration = Duration::from_secs(12);
/// How often a rank of a small world that has no connection says that it is here.
const BEAT: Duration = Duration::from_millis(250);
/// How often such a rank asks rank 0 whether it is there. Rank 0 answers and says nothing of itself: MPI may end a process
/// that sends to one that is gone, and who has just asked is there.
const ASK: Duration = Duration::from_secs(4);
/// That question. What answers it is as empty as "I am here".
const QUESTION: &[u8] = &[0];
/// In a large world this is the time between two of all ranks' words at rank 0, unless they were silent for so long then.
const APART: Duration = Duration::from_millis(1);
/// How often the thread looks for what came, and for what has to be moved on, when somebody waits for it.
const LOOK: Duration = Duration::from_millis(5);
/// How often it looks when nobody does.
const SELDOM: Duration = Duration::from_millis(100);
/// How long a rank waits for its connection to rank 0 before it goes on without.
const TYING: Duration = Duration::from_secs(5);
/// How long the link may take to end the world. MPI may be held where a rank is gone, and then this process ends alone.
const ENDING: Duration = Duration::from_secs(2);

/// What comes out of the fabric.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// A message of a rank.
    From(usize, Message),
    /// A rank is lost, and why.
    Lost(usize, String),
}

enum Task {
    Send(usize, Message),
    /// Measure MPI itself with others, and say what came of it.
    Exercise(Exercise, Sender<Result<Timed, String>>),
    /// Somebody waits for a message from now on.
    Look,
    Leave,
    Abort(u8),
}

/// This process's place in a world of ranks.
#[derive(Debug)]
pub struct Fabric {
    rank: usize,
    size: usize,
    tasks: Sender<Task>,
    inbox: Receiver<Incoming>,
    watch: Arc<Watch>,
    /// Whether somebody waits for a message.
    awaited: Arc<AtomicBool>,
    /// Ends with the thread that owns the link.
    postman: Receiver<()>,
}

/// Says things over a fabric from any thread.
#[derive(Clone, Debug)]
pub struct Voice(Sender<Task>);

impl Voice {
    /// Sends a message; a lost rank is told through the inbox.
    pub fn say(&self, to: usize, message: Message) {
        // The thread ends only with the fabric.
        let _ = self.0.send(Task::Send(to, message));
    }

    /// Begins an exercise with other ranks. What it took comes when it is over; nothing comes of a rank that has left.
    pub fn exercise(&self, exercise: Exercise) -> Receiver<Result<Timed, String>> {
        let (told, heard) = bounded(1);
        let _ = self.0.send(Task::Exercise(exercise, told));
        heard
    }
}

impl Fabric {
    /// Starts the thread that owns the link, and connects to rank 0. `make` runs in it, for `patience` at most. When a
    /// rank is lost, `alarm` gets a message.
    ///
    /// # Errors
    /// No thread, or what `make` says.
    pub fn new<L: Link>(
        make: impl FnOnce() -> io::Result<L> + Send + 'static,
        alarm: Sender<()>,
        patience: Duration,
    ) -> io::Result<Self> {
        let (tasks, taken) = unbounded();
        let (out, inbox) = unbounded();
        let (told, made) = bounded(1);
        let (lives, postman) = bounded::<()>(0);
        let awaited = Arc::new(AtomicBool::new(true));
        let waits = awaited.clone();
        std::thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            let _lives = lives;
            match make() {
                Ok(link) => {
                    let watch = Arc::new(Watch::new(link.rank(), link.size(), out.clone(), alarm));
                    // The other end waits for this.
                    let _ = told.send(Ok((link.rank(), link.size(), watch.clone())));
                    Postman::new(link, out, watch, waits).work(&taken);
                }
                Err(e) => drop(told.send(Err(e))),
            }
        })?;
        let joined = made.recv_timeout(patience).map_err(|_| {
            let why = format!("not all ranks joined within {} s: one that was started did not begin, or its network does not reach the others", patience.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, why)
        })?;
        let (rank, size, watch) = joined?;
        if rank != 0 {
            // Whatever becomes of this process from here on is noticed by its connection.
            watch.tied_within(0, TYING);
        }
        awaited.store(false, Ordering::Relaxed);
        Ok(Self { rank, size, tasks, inbox, watch, awaited, postman })
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What says things.
    pub fn voice(&self) -> Voice {
        Voice(self.tasks.clone())
    }

    /// Sends a message to one rank.
    pub fn say(&self, to: usize, message: Message) {
        self.voice().say(to, message);
    }

    /// Those among these who are gone, or hold no connection and are not heard of within this time. Nothing is sent: MPI
    /// may end a process that sends to one that is gone.
    pub fn silent(&self, among: Vec<usize>, within: Duration) -> Vec<usize> {
        self.waiting(|_| self.watch.silent(among, within))
    }

    /// Whether this process was stopped, or its machine suspended, and went on within this time.
    pub fn paused_within(&self, time: Duration) -> bool {
        self.watch.paused_within(time).is_some()
    }

    /// Waits for what comes in by `wait`: it arrives at once, and at leisure when nobody waits.
    pub fn waiting<T>(&self, wait: impl FnOnce(&Receiver<Incoming>) -> T) -> T {
        self.awaited.store(true, Ordering::Relaxed);
        // A thread that has ended brings nothing.
        let _ = self.tasks.send(Task::Look);
        let came = wait(&self.inbox);
        self.awaited.store(false, Ordering::Relaxed);
        came
    }

    /// Whether in this time every rank says that it is here that holds no connection.
    pub fn all_speak_within(&self, time: Duration) -> bool {
        beat(self.size) < time
    }

    /// What came.
    pub fn inbox(&self) -> &Receiver<Incoming> {
        &self.inbox
    }

    /// Whether a rank is gone. That it is comes in once, and whoever waited then may have been another.
    pub fn is_lost(&self, rank: usize) -> bool {
        self.watch.is_lost(rank)
    }

    /// Leaves the world in order, when all ranks do. A rank that is lost before it has left is an error, with the reason.
    ///
    /// # Errors
    /// Which rank, and why; this process may have to end without MPI then.
    pub fn leave(self) -> Result<(), (usize, String)> {
        if self.is_lost(0) {
            return Err((0, "it was lost before".to_owned()));
        }
        // A thread that has ended has left, and it has nothing to say that is not said.
        let _ = self.tasks.send(Task::Leave);
        loop {
            select! {
                recv(self.postman) -> _ => return Ok(()),
                recv(self.inbox) -> incoming => {
                    if let Ok(Incoming::Lost(rank, why)) = incoming {
                        return Err((rank, why));
                    }
                }
            }
        }
    }

    /// Ends all ranks with an exit code; for when one is lost and the others cannot leave in order. Comes back where MPI
    /// does not: the others then see that this process ends.
    pub fn abort(self, code: u8) {
        let _ = self.tasks.send(Task::Abort(code));
        // Either way it is over.
        let _ = self.postman.recv_timeout(ENDING);
    }
}

/// How often a rank of a world of so many says that it is here, if it holds no connection.
fn beat(size: usize) -> Duration {
    APART.saturating_mul(u32::try_from(size).unwrap_or(u32::MAX)).clamp(BEAT, SILENCE / 4)
}

struct Postman<L> {
    link: L,
    out: Sender<Incoming>,
    watch: Arc<Watch>,
    awaited: Arc<AtomicBool>,
    pulse: Option<Pulse>,
    /// What rank 0 tells each rank as soon as it hears of it: where to connect.
    tie: Option<Message>,
    /// Ranks that know it.
    told: Vec<bool>,
    beat: Instant,
    asked: Instant,
}

impl<L: Link> Postman<L> {
    fn new(link: L, out: Sender<Incoming>, watch: Arc<Watch>, awaited: Arc<AtomicBool>) -> Self {
        let (now, size) = (Instant::now(), link.size());
        // Without it the link alone tells who is there.
        let pulse = (link.rank() == 0 && size > 1).then(|| Pulse::lead(size, &watch).ok()).flatten();
        let (pulse, place) = pulse.unzip();
        let tie = place.map(Message::Tie);
        Self { link, out, watch, awaited, pulse, tie, told: vec![false; size], beat: now, asked: now }
    }

    fn work(mut self, tasks: &Receiver<Task>) {
        if self.link.rank() != 0 {
            self.send(0, &[]);
        }
        loop {
            while self.taken() {}
            if let Some(from) = self.link.attend() {
                // It took its time, in which nothing was taken.
                self.watch.heard(from);
                while self.taken() {}
            }
            self.keep_alive();
            let soon = self.awaited.load(Ordering::Relaxed) || self.link.busy();
            match tasks.recv_timeout(if soon { LOOK } else { SELDOM }) {
                Ok(Task::Send(to, message)) => self.send(to, &encoded(&message)),
                Ok(Task::Exercise(exercise, told)) => {
                    drop(told.send(self.link.exercise(&exercise)));
                    exercise.ranks.iter().for_each(|rank| self.watch.heard(*rank));
                }
                Ok(Task::Abort(code)) => self.link.abort(code),
                Ok(Task::Look) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Task::Leave) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // To leave the link takes all ranks: who ends in that time is lost.
        drop(self.link);
        self.pulse.into_iter().for_each(Pulse::end);
    }

    /// Takes one parcel, if there is one.
    fn taken(&mut self) -> bool {
        let Some(parcel) = self.link.receive() else { return false };
        let from = parcel.from;
        self.watch.heard(from);
        if !std::mem::replace(&mut self.told[from], true)
            && let Some(tie) = &self.tie
        {
            self.send(from, &encoded(tie));
        }
        match parcel.bytes {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) if bytes == QUESTION => self.send(from, &[]),
            Ok(bytes) => match decoded(&bytes) {
                // Without a thread there is no connection, and the link goes on to tell who is there.
                Ok(Message::Tie(place)) if from == 0 && self.pulse.is_none() => {
                    self.pulse = Pulse::follow(self.link.rank(), place, REACH, &self.watch).ok();
                }
                Ok(message) => drop(self.out.send(Incoming::From(from, message))),
                Err(e) => self.watch.lose(from, &format!("what it said cannot be read: {e}")),
            },
            Err(length) => {
                let why = format!("it sent a message of {length} bytes; at most {LARGEST} are allowed");
                self.watch.lose(from, &why);
            }
        }
        true
    }

    /// The ranks that this one listens to: the others for rank 0, rank 0 for the others.
    fn partners(&self) -> Range<usize> {
        if self.link.rank() == 0 { 1..self.link.size() } else { 0..1 }
    }

    fn keep_alive(&mut self) {
        if self.beat.elapsed() < beat(self.link.size()) {
            return;
        }
        self.beat = Instant::now();
        self.watch.awake();
        self.watch.check(self.partners(), Standing::Apart);
        if self.link.rank() != 0 && !self.watch.is_tied(0) {
            let asks = self.asked.elapsed() > ASK;
            if asks {
                self.asked = Instant::now();
            }
            self.send(0, if asks { QUESTION } else { &[] });
        }
    }

    fn send(&mut self, to: usize, bytes: &[u8]) {
        if !self.watch.is_lost(to)
            && let Err(e) = self.link.send(to, bytes)
        {
            self.watch.lose(to, &e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::local;
    use super::*;

    #[test]
    fn messages_arrive_in_order_and_name_their_sender() {
        let (alarm, _kept) = unbounded();
        let fabrics: Vec<Fabric> = local::world(3)
            .into_iter()
            .map(|link| Fabric::new(|| Ok(link), alarm.clone(), SILENCE).unwrap())
            .collect();
        for fabric in &fabrics[1..] {
            fabric.say(0, Message::Go);
            fabric.say(0, Message::Bye);
        }
        let mut seen: Vec<_> = (0..4).map(|_| fabrics[0].inbox().recv().unwrap()).collect();
        seen.sort_by_key(|incoming| match incoming {
            Incoming::From(rank, _) | Incoming::Lost(rank, _) => *rank,
        });
        let of = |rank| [Incoming::From(rank, Message::Go), Incoming::From(rank, Message::Bye)];
        assert_eq!(seen, of(1).into_iter().chain(of(2)).collect::<Vec<_>>());
        fabrics.into_iter().for_each(|fabric| fabric.leave().unwrap());
    }

    #[test]
    fn a_world_that_does_not_come_about_is_given_up() {
        let (alarm, _kept) = unbounded();
        let (never, waits) = unbounded::<local::Thread>();
        let make = move || waits.recv().map_err(io::Error::other);
        let why = Fabric::new(make, alarm, Duration::from_millis(20)).unwrap_err();
        assert!(why.to_string().contains("not all ranks joined"), "{why}");
        drop(never);
    }

    #[test]
    fn ranks_of_any_world_speak_before_they_are_taken_for_lost_and_do_not_crowd_rank_0() {
        assert_eq!([2, 600, 2000].map(beat).map(|beat| beat.as_millis()), [250, 600, 2000]);
        assert!([1, 20_000, usize::MAX].iter().all(|size| 4 * beat(*size) <= SILENCE));
    }

    #[test]
    fn who_is_silent_is_named() {
        let (alarm, _kept) = unbounded();
        // The third has nobody behind its link.
        let mut world = local::world(3);
        let _silent = world.pop();
        let fabrics: Vec<Fabric> =
            world.into_iter().map(|link| Fabric::new(|| Ok(link), alarm.clone(), SILENCE).unwrap()).collect();
        assert_eq!(fabrics[0].silent(vec![1, 2], Duration::from_secs(2)), [2]);
        fabrics.into_iter().for_each(|fabric| fabric.leave().unwrap());
    }

    #[test]
    fn garbage_loses_its_sender_and_raises_the_alarm() {
        let (alarm, raised) = unbounded();
        let mut world = local::world(2);
        world[1].send(0, b"\x01{garbage").unwrap();
        let fabric = Fabric::new(
            {
                let first = world.remove(0);
                || Ok(first)
            },
            alarm,
            SILENCE,
        )
        .unwrap();
        assert!(
            matches!(fabric.inbox().recv(), Ok(Incoming::Lost(1, why)) if why.contains("cannot be read"))
        );
        raised.recv().unwrap();
        fabric.leave().unwrap();
    }
}
