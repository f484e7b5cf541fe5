//! The thread that keeps the load up from one sample to the next, while the results of the last one are passed on.
//!
//! The load is made and used on this thread alone: a ring belongs to the thread that made it.

use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use super::engine::Kind;
use super::load::{Load, LoadError, Tally};

/// A load that nobody asks about for so long is ended: the parent may be stopped, and a disk is worn by writing.
const UNASKED_NS: u64 = 1_000_000_000;

/// What the load turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The engine at work.
    pub kind: Kind,
    /// Why it is not the one asked for.
    pub fell_back: Option<String>,
    /// What the kernel did not grant.
    pub remark: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The load failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No thread.
    #[error("no thread for the load: {0}; see ulimit -u")]
    Thread(std::io::Error),
    /// The thread ended, after it had told why.
    #[error("the load has ended")]
    Ended,
}

/// What the thread is asked for. Tallies travel there and back, so that none is made while something is measured.
enum Command {
    Interval { ns: u64, next: Tally },
    Amount { transfers: u64, next: Tally },
    Stop,
    Check,
}

enum Reply {
    Ready(About),
    Counted(Tally),
    Stopped,
    Checked(Option<u64>),
}

/// The other end of the thread. Dropping it ends the load and the thread.
pub struct Driver {
    /// `None` only while it is dropped.
    commands: Option<Sender<Command>>,
    replies: Receiver<Result<Reply, LoadError>>,
    thread: Option<JoinHandle<()>>,
    spare: Option<Tally>,
}

impl Driver {
    /// Makes the load on a thread of its own.
    ///
    /// # Errors
    /// No thread, or what `make` says.
    pub fn start<F>(make: F) -> Result<(Driver, About), DriverError>
    where
        F: FnOnce() -> Result<(Load, About), LoadError> + Send + 'static,
    {
        let (commands, inbox) = bounded(1);
        let (outbox, replies) = bounded(1);
        let serve = move || {
            let served = make().and_then(|(mut load, about)| {
                let told = outbox.send(Ok(Reply::Ready(about)));
                if told.is_ok() { serve(&mut load, &inbox, &outbox) } else { Ok(()) }
            });
            if let Err(error) = served {
                // Nobody listens only when the driver is being dropped.
                let _ = outbox.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("disk load".to_owned()).spawn(serve);
        let thread = Some(thread.map_err(DriverError::Thread)?);
        let mut driver = Driver { commands: Some(commands), replies, thread, spare: None };
        match driver.reply()? {
            Reply::Ready(about) => Ok((driver, about)),
            Reply::Counted(_) | Reply::Stopped | Reply::Checked(_) => Err(DriverError::Ended),
        }
    }

    /// What was counted in `ns` nanoseconds or more; the load stays up. See [`Load::interval`].
    ///
    /// # Errors
    /// The first transfer that failed.
    pub fn interval(&mut self, ns: u64) -> Result<&Tally, DriverError> {
        let next = self.spare()?;
        self.counted(Command::Interval { ns, next })
    }

    /// What was counted while so many transfers were done; the load ends with them.
    ///
    /// # Errors
    /// The first transfer that failed.
    pub fn amount(&mut self, transfers: u64) -> Result<&Tally, DriverError> {
        let next = self.spare()?;
        self.counted(Command::Amount { transfers, next })
    }

    /// Ends the load until it is asked for again.
    ///
    /// # Errors
    /// The first transfer that failed.
    pub fn stop(&mut self) -> Result<(), DriverError> {
        self.ask(Command::Stop).map(|_| ())
    }

    /// Ends the load and checks the data. See [`Load::stranger`].
    ///
    /// # Errors
    /// The first transfer that failed.
    pub fn stranger(&mut self) -> Result<Option<u64>, DriverError> {
        match self.ask(Command::Check)? {
            Reply::Checked(found) => Ok(found),
            Reply::Ready(_) | Reply::Counted(_) | Reply::Stopped => Err(DriverError::Ended),
        }
    }

    fn spare(&mut self) -> Result<Tally, DriverError> {
        match self.spare.take() {
            Some(spare) => Ok(spare),
            None => Ok(Tally::empty()?),
        }
    }

    fn counted(&mut self, command: Command) -> Result<&Tally, DriverError> {
        match self.ask(command)? {
            Reply::Counted(tally) => Ok(self.spare.insert(tally)),
            Reply::Ready(_) | Reply::Stopped | Reply::Checked(_) => Err(DriverError::Ended),
        }
    }

    fn ask(&mut self, command: Command) -> Result<Reply, DriverError> {
        // A failure between two commands is in the replies already, and the inbox may be gone.
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok());
        match self.reply() {
            Err(DriverError::Ended) | Ok(_) if !sent => Err(DriverError::Ended),
            reply => reply,
        }
    }

    fn reply(&mut self) -> Result<Reply, DriverError> {
        Ok(self.replies.recv().map_err(|_| DriverError::Ended)??)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A panic on the thread has already been printed; there is nobody to tell.
            let _ = thread.join();
        }
    }
}

/// Answers commands until nobody can give any.
fn serve(
    load: &mut Load,
    inbox: &Receiver<Command>,
    outbox: &Sender<Result<Reply, LoadError>>,
) -> Result<(), LoadError> {
    while let Some(command) = next_command(load, inbox)? {
        let reply = match command {
            Command::Interval { ns, next } => Reply::Counted(load.interval(ns, next)?),
            Command::Amount { transfers, next } => Reply::Counted(load.amount(transfers, next)?),
            Command::Stop => {
                load.stop()?;
                Reply::Stopped
            }
            Command::Check => Reply::Checked(load.stranger()?),
        };
        if outbox.send(Ok(reply)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The next command; the load is kept up until it comes, within reason.
fn next_command(load: &mut Load, inbox: &Receiver<Command>) -> Result<Option<Command>, LoadError> {
    loop {
        match inbox.try_recv() {
            Ok(command) => return Ok(Some(command)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        if !tend(load, UNASKED_NS)? {
            return Ok(inbox.recv().ok());
        }
    }
}

/// Keeps a load up that somebody asked about within `patience_ns`, and ends any other. Returns whether it is up.
fn tend(load: &mut Load, patience_ns: u64) -> Result<bool, LoadError> {
    match load.unasked_ns() {
        Some(ns) if ns < patience_ns => load.keep_up().map(|()| true),
        Some(_) => load.stop().map(|()| false),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use plimsoll_metal::uring::Op;

    use super::super::data::Noise;
    use super::super::dir::check_dir;
    use super::super::engine::open;
    use super::super::fill::{CHUNK, fill};
    use super::super::pattern::{Order, Walk};
    use super::super::target::{Cache, End, TestFile};
    use super::*;

    struct Rig {
        driver: Driver,
        file: Arc<TestFile>,
        _dir: tempfile::TempDir,
    }

    fn filled() -> (Arc<TestFile>, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let facts = check_dir(dir.path()).expect("usable");
        let file = Arc::new(TestFile::create(&facts, Cache::Buffered).expect("create"));
        file.allocate(CHUNK as u64, End::Moves).expect("allocate");
        fill(&file, CHUNK as u64, Duration::MAX, &mut Noise::new(1, "fill")).expect("fill");
        (file, dir)
    }

    fn make(file: &Arc<TestFile>) -> Result<(Load, About), LoadError> {
        let engine = open(Kind::Psync, file, 1, 4096)?.engine;
        let about = About { kind: engine.kind(), fell_back: None, remark: engine.remark() };
        let walk = Walk::new(Order::Random, (CHUNK / 4096) as u64, 1);
        Ok((Load::new(engine, Op::Read, 4096, walk, Noise::new(1, "case"))?, about))
    }

    fn rig() -> Rig {
        let (file, dir) = filled();
        let theirs = Arc::clone(&file);
        let (driver, about) = Driver::start(move || make(&theirs)).expect("start");
        assert_eq!(about, About { kind: Kind::Psync, fell_back: None, remark: None });
        Rig { driver, file, _dir: dir }
    }

    #[test]
    fn it_counts_stops_checks_and_goes_on() {
        let mut rig = rig();
        assert_eq!(rig.driver.amount(10).expect("count").transfers, 10);
        for _ in 0..3 {
            let tally = rig.driver.interval(1_000_000).expect("count");
            assert!(tally.transfers > 0 && tally.elapsed_ns >= 1_000_000);
            rig.driver.stop().expect("stop");
            assert_eq!(rig.driver.stranger().expect("check"), None);
        }
        assert_eq!(rig.driver.amount(3).expect("count").transfers, 3);
    }

    #[test]
    fn a_failure_between_two_questions_is_told_at_the_next_and_then_it_has_ended() {
        let mut rig = rig();
        rig.driver.interval(1).expect("count");
        rig.file.set_len(0).expect("cut");
        let error = rig.driver.interval(60_000_000_000).map(|_| ()).expect_err("nothing left to read");
        assert!(error.to_string().contains("moved only 0 bytes"), "{error}");
        assert!(matches!(rig.driver.stop(), Err(DriverError::Ended)));
        assert!(matches!(rig.driver.interval(1), Err(DriverError::Ended)));
    }

    #[test]
    fn what_cannot_be_made_says_why() {
        let why = || LoadError::Histogram(hdrhistogram::CreationError::LowIsZero);
        let failed = Driver::start(move || Err(why())).map(|_| ());
        assert!(matches!(failed, Err(DriverError::Load(LoadError::Histogram(_)))));
    }

    #[test]
    fn a_load_that_nobody_asks_about_ends() {
        let (file, _dir) = filled();
        let (mut load, _) = make(&file).expect("load");
        assert!(!tend(&mut load, u64::MAX).expect("tend"), "it is not up before it is asked for");
        load.interval(1, Tally::empty().expect("tally")).expect("count");
        assert!(tend(&mut load, u64::MAX).expect("tend"));
        assert!(load.unasked_ns().is_some());
        assert!(!tend(&mut load, 0).expect("tend"));
        assert_eq!(load.unasked_ns(), None);
    }
}
