//! What is known of the other ranks: when each was last heard of, how it is heard, and who is lost.
//!
//! A process that is stopped, or whose machine is suspended, hears nobody meanwhile, and that says nothing of the others: they
//! get their time again. Where it was so long that they had to give it up, it is this rank that is lost.
//!
//! The connection that a rank holds (`pulse`) and MPI's messages (`fabric`) both report here, and it is judged here alone.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use rustix::time::{ClockId, clock_gettime};

use super::fabric::{Incoming, SILENCE};

/// A loss ends the run, and its launcher then ends the other ranks: who goes later than this after the first is not lost.
const TOGETHER: Duration = Duration::from_millis(500);

/// Who keeps this watch looks around each second. A longer time without that is one in which this process did not run.
const PAUSED: Duration = Duration::from_secs(4);
/// What they had heard last may have been said this long before the pause.
const EDGE: Duration = Duration::from_secs(2);
/// Others who gave this rank up are seen to go within this time after it goes on.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// How it stands with a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is heard by MPI alone.
    Apart,
    /// It holds a connection, which ends with its process.
    Tied,
    /// It took its leave.
    Parted,
    /// It is gone.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    heard: Instant,
    standing: Standing,
    /// Whether its machine answers, where that is known.
    answers: Option<bool>,
}

/// A time in which this process did not run.
#[derive(Clone, Copy, Debug)]
struct Pause {
    lasted: Duration,
    ended: Instant,
}

/// Time since the machine began, that of its suspension included.
fn uptime() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

#[derive(Debug)]
struct State {
    /// By [`uptime`], when it was last looked around.
    awake: Duration,
    pause: Option<Pause>,
    ranks: Vec<Rank>,
    first_loss: Option<Instant>,
    /// There will be no more connections: this rank leaves, or cannot connect.
    settled: bool,
}

/// The other ranks, seen from this one. Lost ones are told to whoever reads what comes in, with an alarm.
#[derive(Debug)]
pub(super) struct Watch {
    own: usize,
    state: Mutex<State>,
    heard: Condvar,
    out: Sender<Incoming>,
    alarm: Sender<()>,
}

impl Watch {
    /// That of rank `own` over so many ranks, all of which have just been heard of.
    pub(super) fn new(own: usize, size: usize, out: Sender<Incoming>, alarm: Sender<()>) -> Self {
        let rank = Rank { heard: Instant::now(), standing: Standing::Apart, answers: None };
        let (awake, ranks) = (uptime(), vec![rank; size]);
        let state = State { awake, pause: None, ranks, first_loss: None, settled: false };
        Self { own, state: Mutex::new(state), heard: Condvar::new(), out, alarm }
    }

    /// This process runs: to be said at least once a second, before anybody is judged.
    pub(super) fn awake(&self) {
        self.state().awake();
    }

    /// How long this process was last stopped, if that was within this time.
    pub(super) fn paused_within(&self, time: Duration) -> Option<Duration> {
        let mut state = self.state();
        state.awake();
        state.pause.filter(|pause| pause.ended.elapsed() <= time).map(|pause| pause.lasted)
    }

    /// Whether a rank's machine acknowledges what is said to it.
    pub(super) fn reached(&self, rank: usize, answers: Option<bool>) {
        self.state().ranks[rank].answers = answers;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was heard of a rank.
    pub(super) fn heard(&self, rank: usize) {
        self.state().ranks[rank].heard = Instant::now();
        self.heard.notify_all();
    }

    /// A rank holds a connection from now on; false where it may not: it has one, is gone, or all is
    /// settled.
    pub(super) fn tie(&self, rank: usize) -> bool {
        let mut state = self.state();
        let may = !state.settled && state.ranks.get(rank).is_some_and(|r| r.standing == Standing::Apart);
        if may {
            state.ranks[rank] = Rank { heard: Instant::now(), standing: Standing::Tied, answers: None };
        }
        self.heard.notify_all();
        may
    }

    /// Whether a rank holds a connection.
    pub(super) fn is_tied(&self, rank: usize) -> bool {
        self.state().ranks[rank].standing == Standing::Tied
    }

    /// Whether a rank is gone.
    pub(super) fn is_lost(&self, rank: usize) -> bool {
        self.state().ranks[rank].standing == Standing::Lost
    }

    /// A rank took its leave.
    pub(super) fn part(&self, rank: usize) {
        self.state().ranks[rank].standing = Standing::Parted;
    }

    /// There will be no more connections. Whether there are any.
    pub(super) fn settle(&self) -> bool {
        let mut state = self.state();
        state.settled = true;
        self.heard.notify_all();
        state.ranks.iter().any(|rank| rank.standing == Standing::Tied)
    }

    /// Waits until it is known whether this rank has a connection to that one, for so long at most.
    pub(super) fn tied_within(&self, rank: usize, within: Duration) {
        let open = |state: &mut State| !state.settled && state.ranks[rank].standing == Standing::Apart;
        drop(self.heard.wait_timeout_while(self.state(), within, open));
    }

    /// A rank is lost.
    pub(super) fn lose(&self, rank: usize, why: &str) {
        let mut state = self.state();
        if matches!(state.ranks[rank].standing, Standing::Parted | Standing::Lost) {
            return;
        }
        state.ranks[rank].standing = Standing::Lost;
        state.awake();
        let (rank, why) = match state.given_up() {
            Some(why) => (self.own, why),
            None => (rank, why.to_owned()),
        };
        if state.first_loss.get_or_insert_with(Instant::now).elapsed() <= TOGETHER {
            // Nobody listens any more where these fail.
            let _ = self.out.send(Incoming::Lost(rank, why));
            let _ = self.alarm.send(());
        }
        self.heard.notify_all();
    }

    /// Loses those of this standing of whom nothing was heard for too long. Whoever hears them asks, having listened.
    pub(super) fn check(&self, ranks: Range<usize>, standing: Standing) {
        let silent = |rank: &Rank| rank.standing == standing && rank.heard.elapsed() > SILENCE;
        let silent: Vec<(usize, Option<bool>)> = {
            let mut state = self.state();
            state.awake();
            let of =
                |rank: usize| Some((rank, state.ranks[rank].answers)).filter(|_| silent(&state.ranks[rank]));
            ranks.filter_map(of).collect()
        };
        for (rank, answers) in silent {
            let which = match answers {
                Some(true) => "; its machine answers, so the process is stopped or hangs",
                Some(false) => "; its machine does not answer, either",
                None => "",
            };
            self.lose(rank, &format!("it sent nothing for {} s{which}", SILENCE.as_secs()));
        }
    }

    /// Those among these who are gone, or hold no connection and are not heard of within this time.
    pub(super) fn silent(&self, mut among: Vec<usize>, within: Duration) -> Vec<usize> {
        let mut begun = Instant::now();
        let mut state = self.state();
        loop {
            state.awake();
            if let Some(pause) = state.pause.filter(|pause| pause.ended > begun) {
                // What they said meanwhile is still to be read.
                begun = pause.ended;
            }
            among.retain(|rank| match state.ranks[*rank].standing {
                Standing::Tied => false,
                Standing::Apart => state.ranks[*rank].heard < begun,
                Standing::Parted | Standing::Lost => true,
            });
            let awaited = among.iter().any(|rank| state.ranks[*rank].standing == Standing::Apart);
            let left = within.saturating_sub(begun.elapsed());
            if !awaited || left.is_zero() {
                return among;
            }
            state = self.heard.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// Notices that this process did not run for some time, and gives the others that time again.
    fn awake(&mut self) {
        let now = uptime();
        let lasted = now.saturating_sub(std::mem::replace(&mut self.awake, now));
        if lasted <= PAUSED {
            return;
        }
        let ended = Instant::now();
        self.pause = Some(Pause { lasted, ended });
        self.ranks.iter_mut().for_each(|rank| rank.heard = ended);
    }

    /// Why the others gave this rank up, if its own pause was as long as they wait, and it has just ended.
    fn given_up(&self) -> Option<String> {
        let long = self.pause.filter(|pause| pause.lasted + EDGE >= SILENCE);
        let pause = long.filter(|pause| pause.ended.elapsed() <= AFTERWARDS)?;
        Some(format!("it was stopped for {} s, and the others went on without it", pause.lasted.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, unbounded};

    fn watch(size: usize) -> (Watch, Receiver<Incoming>, Receiver<()>) {
        let ((out, inbox), (alarm, raised)) = (unbounded(), unbounded());
        (Watch::new(0, size, out, alarm), inbox, raised)
    }

    #[test]
    fn a_rank_is_lost_once_and_one_that_took_its_leave_never() {
        let (watch, inbox, raised) = watch(4);
        watch.part(3);
        for rank in [2, 3, 2, 1] {
            watch.lose(rank, "gone");
        }
        let told: Vec<_> = inbox.try_iter().collect();
        assert_eq!(told, [2, 1].map(|rank| Incoming::Lost(rank, "gone".to_owned())));
        assert_eq!(raised.try_iter().count(), 2);
        assert!(watch.is_lost(2) && !watch.is_lost(3) && !watch.tie(2));
    }

    #[test]
    fn who_goes_when_the_launcher_ends_the_run_is_not_told() {
        let (watch, inbox, _raised) = watch(3);
        watch.lose(2, "gone");
        watch.state().first_loss = Instant::now().checked_sub(2 * TOGETHER);
        watch.lose(1, "ended with the others");
        assert_eq!(inbox.try_iter().count(), 1);
        assert!(watch.is_lost(1));
    }

    #[test]
    fn who_falls_silent_is_lost_whether_it_is_tied_or_not() {
        let (watch, inbox, _raised) = watch(4);
        assert!(watch.tie(1));
        let before = Instant::now().checked_sub(2 * SILENCE).unwrap();
        watch.state().ranks.iter_mut().for_each(|rank| rank.heard = before);
        watch.heard(2);
        for (standing, rank) in [(Standing::Tied, 1), (Standing::Apart, 3)] {
            watch.check(1..4, standing);
            let told: Vec<_> = inbox.try_iter().collect();
            assert!(
                matches!(&told[..], [Incoming::Lost(lost, why)] if *lost == rank && why.contains("12 s"))
            );
        }
    }

    #[test]
    fn who_was_stopped_itself_blames_nobody() {
        for (lasted, lost) in [(2 * PAUSED, 2), (SILENCE, 0)] {
            let (watch, inbox, _raised) = watch(3);
            assert!(watch.tie(1) && watch.tie(2));
            let stopped = |state: &mut State| {
                let before = Instant::now().checked_sub(2 * SILENCE).unwrap();
                state.ranks.iter_mut().for_each(|rank| rank.heard = before);
                state.awake = uptime().saturating_sub(lasted);
            };
            stopped(&mut watch.state());
            watch.check(1..3, Standing::Tied);
            assert_eq!(inbox.try_iter().count(), 0);
            assert_eq!(watch.paused_within(AFTERWARDS).unwrap().as_secs(), lasted.as_secs());
            // After a short pause one that goes is lost; after one as long as they wait, they have given this one up.
            watch.lose(2, "its process ended");
            let told: Vec<_> = inbox.try_iter().collect();
            let [Incoming::Lost(rank, why)] = &told[..] else { panic!("{told:?}") };
            assert_eq!((*rank, why.contains("it was stopped for 12 s")), (lost, lost == 0), "{why}");
        }
    }

    #[test]
    fn a_stopped_process_is_told_from_a_machine_that_is_gone() {
        for (answers, says) in [(true, "the process is stopped"), (false, "does not answer, either")] {
            let (watch, inbox, _raised) = watch(2);
            assert!(watch.tie(1));
            watch.state().ranks[1].heard = Instant::now().checked_sub(2 * SILENCE).unwrap();
            watch.reached(1, Some(answers));
            watch.check(1..2, Standing::Tied);
            let told = inbox.try_recv().unwrap();
            assert!(matches!(&told, Incoming::Lost(1, why) if why.contains(says)), "{told:?}");
        }
    }

    #[test]
    fn silent_are_those_that_are_gone_or_are_not_heard_of_in_time() {
        let (watch, _inbox, _raised) = watch(5);
        assert!(watch.tie(1));
        watch.lose(2, "gone");
        // Nobody is waited for.
        assert_eq!(watch.silent(vec![1, 2], Duration::MAX), [2]);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| watch.silent(vec![1, 2, 3], Duration::MAX));
            while !asked.is_finished() {
                watch.heard(3);
            }
            assert_eq!(asked.join().unwrap(), [2]);
        });
        assert_eq!(watch.silent(vec![4], Duration::from_millis(1)), [4]);
    }

    #[test]
    fn who_leaves_or_cannot_connect_holds_no_new_connection_and_nobody_waits_for_one() {
        let (watch, _inbox, _raised) = watch(3);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| watch.tied_within(1, Duration::MAX));
            assert!(watch.tie(1));
            waits.join().unwrap();
        });
        assert!(!watch.tie(1) && !watch.tie(7));
        assert!(watch.settle());
        watch.tied_within(2, Duration::MAX);
        assert!(!watch.tie(2));
    }
}
