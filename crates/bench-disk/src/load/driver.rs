//! The thread that keeps the load up between samples; a ring belongs to the thread that creates it.

use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use crate::engine::EngineInfo;
use crate::load::{DiskLoad, LoadError, Portion, TransferTally};

/// Idle ns after which a load ends: the parent may be stopped, and writes wear a disk.
const UNASKED_NS: u64 = 1_000_000_000;

/// Failure of the load's thread.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The thread could not be started.
    #[error("cannot start a thread for the load: {0}; see ulimit -u")]
    Thread(std::io::Error),
    /// The thread has ended, after an earlier error.
    #[error("the thread of the load ended unexpectedly")]
    Ended,
}

/// Commands to the thread. Tallies are passed back and forth, so none is allocated while measuring.
pub(crate) enum DriverCommand {
    Count(Portion, Box<TransferTally>),
    /// Stops the load and limits its transfers in flight, from 1 to the engine's depth.
    Limit(usize),
    /// Stops the load until the next count.
    Stop,
    /// Stops the load and verifies the data.
    Check,
}

enum Reply {
    Ready(EngineInfo),
    Counted(Box<TransferTally>),
    Done,
}

/// Handle of the thread. Dropping it ends the load and the thread.
pub(crate) struct Driver {
    /// `None` only while it is dropped.
    commands: Option<Sender<DriverCommand>>,
    replies: Receiver<Result<Reply, LoadError>>,
    thread: Option<JoinHandle<()>>,
    spare: Option<Box<TransferTally>>,
}

impl Driver {
    /// Creates the load with `make` on a new thread; returns its handle and facts about the engine.
    /// `spare` takes the first counts. Fails if the thread cannot start, or `make` fails.
    pub(crate) fn start<F>(spare: TransferTally, make: F) -> Result<(Driver, EngineInfo), DriverError>
    where
        F: FnOnce() -> Result<(Box<dyn DiskLoad>, EngineInfo), LoadError> + Send + 'static,
    {
        let (commands, inbox) = bounded(1);
        let (outbox, replies) = bounded(1);
        let serve = move || {
            // For an open loop; the default slack is 50 µs. If refused, latencies show it.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let served = make().and_then(|(mut load, about)| {
                let reported = outbox.send(Ok(Reply::Ready(about)));
                if reported.is_ok() { serve(load.as_mut(), &inbox, &outbox) } else { Ok(()) }
            });
            if let Err(error) = served {
                // The receiver is gone only while the driver is dropped.
                let _ = outbox.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("disk load".to_owned()).spawn(serve);
        let thread = Some(thread.map_err(DriverError::Thread)?);
        let mut driver = Driver { commands: Some(commands), replies, thread, spare: Some(Box::new(spare)) };
        let Reply::Ready(about) = driver.reply()? else { return Err(DriverError::Ended) };
        Ok((driver, about))
    }

    /// Starts to count `portion` and returns at once; [`Driver::wait_count`] waits for the count.
    pub(crate) fn start_count(&mut self, portion: Portion) {
        let next = self.spare.take().unwrap_or_default();
        self.send(DriverCommand::Count(portion, next));
    }

    /// Waits for the count of [`Driver::start_count`]. Fails with the first failed transfer.
    pub(crate) fn wait_count(&mut self) -> Result<&TransferTally, DriverError> {
        let Reply::Counted(tally) = self.reply()? else { return Err(DriverError::Ended) };
        Ok(self.spare.insert(tally))
    }

    /// Executes `command` and waits until it is done. Fails with the first failed transfer or,
    /// after a check, the first wrong sector.
    pub(crate) fn ask(&mut self, command: DriverCommand) -> Result<(), DriverError> {
        self.send(command);
        self.reply().map(drop)
    }

    /// Sends a command to the thread. If the thread has failed, its pending reply has the failure.
    fn send(&self, command: DriverCommand) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
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
            // A panic on the thread has already been printed.
            let _ = thread.join();
        }
    }
}

/// Executes commands from `inbox`, with replies to `outbox`, until the inbox has no sender.
fn serve(
    load: &mut dyn DiskLoad,
    inbox: &Receiver<DriverCommand>,
    outbox: &Sender<Result<Reply, LoadError>>,
) -> Result<(), LoadError> {
    while let Some(command) = next_command(load, inbox)? {
        let reply = match command {
            DriverCommand::Count(portion, next) => Reply::Counted(Box::new(load.count(portion, *next)?)),
            DriverCommand::Limit(limit) => {
                load.stop()?;
                load.set_limit(limit);
                Reply::Done
            }
            DriverCommand::Stop => load.stop().map(|()| Reply::Done)?,
            DriverCommand::Check => load.verify().map(|()| Reply::Done)?,
        };
        if outbox.send(Ok(reply)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits for the next command; until then runs the load, for up to a second after the last count.
/// `None` if the sender is dropped.
fn next_command(
    load: &mut dyn DiskLoad,
    inbox: &Receiver<DriverCommand>,
) -> Result<Option<DriverCommand>, LoadError> {
    loop {
        match inbox.try_recv() {
            Ok(command) => return Ok(Some(command)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        if !keep_up_or_stop(load, UNASKED_NS)? {
            return Ok(inbox.recv().ok());
        }
    }
}

/// Runs the load to its next completion, or stops it if its last count ended `patience_ns` ns ago.
/// Returns whether it still runs.
fn keep_up_or_stop(load: &mut dyn DiskLoad, patience_ns: u64) -> Result<bool, LoadError> {
    match load.unasked_ns() {
        Some(ns) if ns < patience_ns => load.keep_up().map(|()| true),
        Some(_) => load.stop().map(|()| false),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backing::TestFile;
    use crate::backing::fixture::{open, test_file};
    use crate::engine::Opened;
    use crate::load::{BlockWalk, CAP_NS, LoadOptions, TestData, TransferSource, WalkExtent};
    use crate::storage::{CHUNK, refill};
    use plimsoll_model::job::disk::{BlockOrder, BlockSizes, DiskEngine, DiskOperation, WriteThrough};
    use plimsoll_model::sample::CannotMeasure;

    fn filled() -> (Arc<TestFile>, tempfile::TempDir) {
        let (file, dir) = test_file(CHUNK as u64);
        refill(&file, 0, CHUNK as u64, None, &mut TestData::new(1, "fill")).expect("fill");
        (file, dir)
    }

    fn make(file: &Arc<TestFile>) -> Result<(Box<dyn DiskLoad>, EngineInfo), LoadError> {
        let Opened { engine, about } = open(DiskEngine::Psync, file, 1, 4096)?;
        let extent = WalkExtent::of_blocks((CHUNK / 4096) as u64, 4096);
        let walk = BlockWalk::new(BlockOrder::Random, extent, 1);
        let source = TransferSource::new(DiskOperation::Read, WriteThrough::No, BlockSizes::One(4096), walk);
        let (noise, tally) = (TestData::new(1, "case"), TransferTally::default());
        Ok((engine.into_load(source, noise, LoadOptions::default(), tally), about))
    }

    fn rig() -> (tempfile::TempDir, Arc<TestFile>, Driver) {
        let (file, dir) = filled();
        let theirs = Arc::clone(&file);
        let (driver, about) = Driver::start(TransferTally::default(), move || make(&theirs)).expect("start");
        assert_eq!(about, EngineInfo { kind: DiskEngine::Psync, fell_back: None, remark: None });
        (dir, file, driver)
    }

    fn count(driver: &mut Driver, portion: Portion) -> Result<&TransferTally, DriverError> {
        driver.start_count(portion);
        driver.wait_count()
    }

    #[test]
    fn it_counts_stops_checks_and_goes_on() {
        let (_dir, _file, mut driver) = rig();
        let tally = count(&mut driver, Portion::Transfers { transfers: 10, cap_ns: CAP_NS }).expect("count");
        assert_eq!(tally.transfers, 10);
        for _ in 0..3 {
            let tally = count(&mut driver, Portion::Time(1_000_000)).expect("count");
            assert!(tally.transfers > 0 && tally.elapsed() >= 1e-3);
            driver.ask(DriverCommand::Stop).expect("stop");
            driver.ask(DriverCommand::Check).expect("check");
        }
        let tally = count(&mut driver, Portion::Transfers { transfers: 3, cap_ns: CAP_NS }).expect("count");
        assert_eq!(tally.transfers, 3);
    }

    #[test]
    fn a_failure_between_two_questions_is_told_at_the_next_and_then_it_has_ended() {
        let (_dir, file, mut driver) = rig();
        count(&mut driver, Portion::Time(1)).expect("count");
        file.set_len(0).expect("cut");
        let error = count(&mut driver, Portion::Time(60_000_000_000)).map(|_| ()).expect_err("nothing left");
        assert!(error.to_string().contains("moved only 0 B of it"), "{error}");
        assert!(matches!(driver.ask(DriverCommand::Stop), Err(DriverError::Ended)));
        assert!(matches!(count(&mut driver, Portion::Time(1)), Err(DriverError::Ended)));
    }

    #[test]
    fn what_cannot_be_made_says_why() {
        let make = || Err(LoadError::File(CannotMeasure::environment("none")));
        let failed = Driver::start(TransferTally::default(), make).map(|_| ());
        assert!(matches!(failed, Err(DriverError::Load(LoadError::File(_)))));
    }

    #[test]
    fn a_load_that_nobody_asks_about_ends() {
        let (file, _dir) = filled();
        let (mut load, _) = make(&file).expect("load");
        let holds = !keep_up_or_stop(load.as_mut(), u64::MAX).expect("tend");
        assert!(holds, "it is not up before it is asked for");
        load.count(Portion::Time(1), TransferTally::default()).expect("count");
        assert!(keep_up_or_stop(load.as_mut(), u64::MAX).expect("tend"));
        assert!(load.unasked_ns().is_some());
        assert!(!keep_up_or_stop(load.as_mut(), 0).expect("tend"));
        assert_eq!(load.unasked_ns(), None);
    }
}
