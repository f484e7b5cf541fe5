//! Carries messages between ranks beside whatever they do, and notices who falls silent.
//!
//! One thread owns the link: it hands messages over, and says "I am here" to rank 0 several times a second. A rank of
//! which rank 0 hears nothing for [`SILENCE`] is lost, and so is rank 0 for the others. The thread sleeps between looks, so that it takes
//! nothing from what is measured.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::exercise::{Exercise, Timed};
use super::link::{LARGEST, Link};
use super::message::{Message, decoded, encoded};

/// A rank that says nothing for this long is lost.
pub const SILENCE: Duration = Duration::from_secs(12);
/// How often a rank of a small world says that it is here.
const BEAT: Duration = Duration::from_millis(250);
/// How often a rank asks rank 0 whether it is there. Rank 0 answers and says nothing of itself: MPI may end a process
/// that sends to one that is gone, and who has just asked is there.
const ASK: Duration = Duration::from_secs(4);
/// That question. What answers it is as empty as "I am here".
const QUESTION: &[u8] = &[0];
/// In a large world this is the time between two of all ranks' words at rank 0.
const APART: Duration = Duration::from_millis(1);
/// How long the thread may take to answer beside what it was asked.
const ENDING: Duration = Duration::from_secs(2);
/// How often the thread looks for what came.
const LOOK: Duration = Duration::from_millis(5);

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
    /// Listen for a while, and name those of whom nothing was heard.
    Listen(Vec<usize>, Duration, Sender<Vec<usize>>),
    /// Measure MPI itself with others, and say what came of it.
    Exercise(Exercise, Sender<Result<Timed, String>>),
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
    postman: JoinHandle<()>,
    /// Nothing comes here; it is closed when the thread ends.
    ended: Receiver<()>,
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
    /// Starts the thread that owns the link. `make` runs in it, for `patience` at most. When a rank is lost, `alarm`
    /// gets a message.
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
        let (runs, ended) = bounded(0);
        let postman = std::thread::Builder::new().name("cluster".to_owned()).spawn(move || match make() {
            Ok(link) => {
                let _runs = runs;
                // The other end waits for this.
                let _ = told.send(Ok((link.rank(), link.size())));
                Postman::new(link, out, alarm).work(&taken);
            }
            Err(e) => drop(told.send(Err(e))),
        })?;
        let joined = made.recv_timeout(patience).map_err(|_| {
            let why = format!("not all ranks joined within {} s: one that was started did not begin, or its network does not reach the others", patience.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, why)
        })?;
        let (rank, size) = joined?;
        Ok(Self { rank, size, tasks, inbox, postman, ended })
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

    /// Listens for so long at most, and names those among these of whom nothing is heard. Nothing is sent: MPI may end a process that sends
    /// to one that is gone.
    pub fn silent(&self, among: Vec<usize>, within: Duration) -> Vec<usize> {
        let (told, heard) = bounded(1);
        // A thread that has ended hears nobody, and one that MPI holds neither.
        let _ = self.tasks.send(Task::Listen(among.clone(), within, told));
        heard.recv_timeout(within + ENDING).unwrap_or(among)
    }

    /// What came.
    pub fn inbox(&self) -> &Receiver<Incoming> {
        &self.inbox
    }

    /// Leaves the world in order, when all ranks do.
    pub fn leave(self) {
        // A thread that has ended has left, and it has nothing to say that is not said.
        let _ = self.tasks.send(Task::Leave);
        let _ = self.postman.join();
    }

    /// Ends all ranks with an exit code; for when one is lost and the others cannot leave in order.
    pub fn abort(self, code: u8) {
        let _ = self.tasks.send(Task::Abort(code));
        // Where MPI holds the thread in an exercise, this process ends alone, and its launcher the others.
        let _ = self.ended.recv_timeout(ENDING);
    }
}

struct Postman<L> {
    link: L,
    out: Sender<Incoming>,
    alarm: Sender<()>,
    heard: Vec<Instant>,
    lost: Vec<bool>,
    beat: Instant,
    asked: Instant,
}

impl<L: Link> Postman<L> {
    fn new(link: L, out: Sender<Incoming>, alarm: Sender<()>) -> Self {
        let (now, size) = (Instant::now(), link.size());
        Self { link, out, alarm, heard: vec![now; size], lost: vec![false; size], beat: now, asked: now }
    }

    fn work(mut self, tasks: &Receiver<Task>) {
        loop {
            while self.taken() {}
            self.link.attend();
            self.keep_alive();
            match tasks.recv_timeout(LOOK) {
                Ok(Task::Send(to, message)) => self.send(to, &encoded(&message)),
                Ok(Task::Listen(among, within, told)) => drop(told.send(self.silent(among, within))),
                Ok(Task::Exercise(exercise, told)) => drop(told.send(self.link.exercise(&exercise))),
                Ok(Task::Abort(code)) => self.link.abort(code),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Task::Leave) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes one parcel, if there is one.
    fn taken(&mut self) -> bool {
        let Some(parcel) = self.link.receive() else { return false };
        let from = parcel.from;
        self.heard[from] = Instant::now();
        match parcel.bytes {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) if bytes == QUESTION => self.send(from, &[]),
            Ok(bytes) => match decoded(&bytes) {
                Ok(message) => drop(self.out.send(Incoming::From(from, message))),
                Err(e) => self.lose(from, &format!("what it said cannot be read: {e}")),
            },
            Err(length) => {
                self.lose(from, &format!("it said {length} bytes at once, and {LARGEST} is the most"));
            }
        }
        true
    }

    /// The ranks that this one listens to: the others for rank 0, rank 0 for the others.
    fn partners(&self) -> std::ops::Range<usize> {
        if self.link.rank() == 0 { 1..self.link.size() } else { 0..1 }
    }

    /// Of whom nothing is heard from now on.
    fn silent(&mut self, mut among: Vec<usize>, within: Duration) -> Vec<usize> {
        let begun = Instant::now();
        loop {
            while self.taken() {}
            among.retain(|rank| self.heard[*rank] < begun);
            if among.is_empty() || begun.elapsed() > within {
                return among;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn keep_alive(&mut self) {
        let size = u32::try_from(self.link.size()).unwrap_or(u32::MAX);
        if self.beat.elapsed() < BEAT.max(APART * size) {
            return;
        }
        self.beat = Instant::now();
        for partner in self.partners() {
            if self.heard[partner].elapsed() > SILENCE {
                self.lose(partner, &format!("nothing was heard of it for {} s", SILENCE.as_secs()));
            }
        }
        if self.link.rank() != 0 {
            let asks = self.asked.elapsed() > ASK;
            if asks {
                self.asked = Instant::now();
            }
            self.send(0, if asks { QUESTION } else { &[] });
        }
    }

    fn send(&mut self, to: usize, bytes: &[u8]) {
        if !self.lost[to]
            && let Err(e) = self.link.send(to, bytes)
        {
            self.lose(to, &e);
        }
    }

    fn lose(&mut self, rank: usize, why: &str) {
        if !std::mem::replace(&mut self.lost[rank], true) {
            // Nobody listens any more where these fail.
            let _ = self.out.send(Incoming::Lost(rank, why.to_owned()));
            let _ = self.alarm.send(());
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
        fabrics.into_iter().for_each(Fabric::leave);
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
    fn who_is_silent_is_named() {
        let (alarm, _kept) = unbounded();
        // The third has nobody behind its link.
        let mut world = local::world(3);
        let _silent = world.pop();
        let fabrics: Vec<Fabric> =
            world.into_iter().map(|link| Fabric::new(|| Ok(link), alarm.clone(), SILENCE).unwrap()).collect();
        assert_eq!(fabrics[0].silent(vec![1, 2], Duration::from_secs(2)), [2]);
        fabrics.into_iter().for_each(Fabric::leave);
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
        fabric.leave();
    }
}
