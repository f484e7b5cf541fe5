//! Latency of passing a cache line between two CPUs: each thread waits for its turn in the line,
//! then writes the turn of the other. There is no PAUSE, which alone takes as long as a hand-over
//! (some 140 cycles since Skylake). The line is allocated on the first CPU's NUMA node.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::team::{OwnLines, Team, TeamError};

/// Minimum round trips per burst, 20 to 100 µs: most bursts are not interrupted.
const BURST_ROUND_TRIPS: u64 = 200;
/// Duration of bursts that are not counted, while the clock rises and the line moves.
const WARM_UP: Duration = Duration::from_micros(500);
const MOST_BURSTS: usize = 4096;
/// Attempts before the time is checked; a hand-over takes a few dozen.
const ATTEMPTS_PER_LOOK: u32 = 1 << 14;
const MAX_HANDOVER_WAIT: Duration = Duration::from_secs(2);
const LAST_TURN: u64 = u64::MAX;

/// Way in which the line is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandoverMethod {
    /// Both spin on compare-and-swap: every attempt, failed or not, acquires the line exclusively.
    CompareAndSwap,
    /// Each spins on loads and stores in its turn: the line is shared until it is written.
    Store,
}

/// Reason why a pair of CPUs has no hand-over latency.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// Both CPUs are the same: the threads would wait for the scheduler, not for each other.
    #[error("two different CPUs are required: CPU {0} is given twice")]
    SameCpu(usize),
    /// The threads could not be started, pinned or run.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// A hand-over between these CPUs timed out.
    #[error(
        "CPUs {} and {}: no hand-over within {:.1} s: one of them is busy with other work; measure when it is idle, or exclude the CPU (taskset)",
        .0[0], .0[1], MAX_HANDOVER_WAIT.as_secs_f64()
    )]
    Stalled([usize; 2]),
    /// The two threads counted different numbers of turns: memory or coherency is broken.
    #[error("CPUs {} and {}: {} turns were written and {} answered", .cpus[0], .cpus[1], .turns[0], .turns[1])]
    Miscounted {
        /// The CPUs.
        cpus: [usize; 2],
        /// Turns taken by each.
        turns: [u64; 2],
    },
}

#[derive(Debug, Default)]
struct SharedLines {
    /// Turn counter: even for the first thread, odd for the second.
    line: OwnLines<AtomicU64>,
    given_up: OwnLines<AtomicBool>,
}

/// A thread pinned to each of two CPUs.
#[derive(Debug)]
pub struct ThreadPair {
    team: Team,
    cpus: [usize; 2],
    table: Box<SharedLines>,
}

impl ThreadPair {
    /// Starts two threads, one pinned to each of the `cpus`, which must differ.
    pub fn new(cpus: [usize; 2]) -> Result<Self, HandoverError> {
        if cpus[0] == cpus[1] {
            return Err(HandoverError::SameCpu(cpus[0]));
        }
        let mut team = Team::new(&cpus)?;
        let tables = team.run(|member| (member.index == 0).then(Box::<SharedLines>::default))?;
        let table = tables.into_iter().flatten().next().unwrap_or_default();
        Ok(Self { team, cpus, table })
    }

    /// Measures, for `time` after a warm-up of 0.5 ms, the mean time in seconds of passing a cache
    /// line between the CPUs by `exchange`, per burst (at least one). Fails if one takes over 2 s.
    pub fn bounce(&mut self, exchange: HandoverMethod, time: Duration) -> Result<Vec<f64>, HandoverError> {
        match exchange {
            HandoverMethod::CompareAndSwap => self.bounce_by::<true>(time),
            HandoverMethod::Store => self.bounce_by::<false>(time),
        }
    }

    fn bounce_by<const SWAP: bool>(&mut self, time: Duration) -> Result<Vec<f64>, HandoverError> {
        let (cpus, table) = (self.cpus, &*self.table);
        table.line.0.store(0, Ordering::Relaxed);
        table.given_up.0.store(false, Ordering::Relaxed);
        let seats = self.team.run(|member| {
            let mut player = Player::<SWAP>::new(table, member.index as u64, MAX_HANDOVER_WAIT);
            let bounced = if member.index == 0 { player.lead(time) } else { player.follow() };
            (bounced, player.turns())
        })?;
        let turns = [0, 1].map(|index| seats.get(index).map_or(0, |(_, turns)| *turns));
        let outcomes: Result<Vec<_>, GivenUp> = seats.into_iter().map(|(bounced, _)| bounced).collect();
        let bounced = outcomes.ok().and_then(|outcomes| outcomes.into_iter().next());
        let bounced = bounced.ok_or(HandoverError::Stalled(cpus))?;
        if turns[0] != turns[1] {
            return Err(HandoverError::Miscounted { cpus, turns });
        }
        Ok(bounced)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Done,
    NotYet,
    Ended,
}

/// Sets `line` to `to` and returns `Done` if it is `from`, by compare-and-swap (`SWAP`) or load and
/// store. Otherwise returns `Ended` if it is `u64::MAX`, else `NotYet`.
#[inline(always)]
fn attempt<const SWAP: bool>(line: &AtomicU64, from: u64, to: u64) -> Attempt {
    let found = if SWAP {
        line.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    } else {
        match line.load(Ordering::Acquire) {
            value if value == from => {
                line.store(to, Ordering::Release);
                Ok(value)
            }
            other => Err(other),
        }
    };
    match found {
        Ok(_) => Attempt::Done,
        Err(LAST_TURN) => Attempt::Ended,
        Err(_) => Attempt::NotYet,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GivenUp;

struct Player<'table, const SWAP: bool> {
    table: &'table SharedLines,
    /// Value of the line in this thread's turn.
    mine: u64,
    index: u64,
    patience: Duration,
}

impl<'table, const SWAP: bool> Player<'table, SWAP> {
    fn new(table: &'table SharedLines, index: u64, patience: Duration) -> Self {
        Self { table, mine: index, index, patience }
    }

    fn turns(&self) -> u64 {
        (self.mine - self.index) / 2
    }

    fn lead(&mut self, time: Duration) -> Result<Vec<f64>, GivenUp> {
        let begun = Instant::now();
        let mut quickest = f64::INFINITY;
        while begun.elapsed() < WARM_UP {
            quickest = quickest.min(self.burst(BURST_ROUND_TRIPS)?);
        }
        let rounds = rounds_per_burst(time, quickest);
        let mut one_way = Vec::with_capacity(MOST_BURSTS);
        let begun = Instant::now();
        loop {
            one_way.push(self.burst(rounds)? / 2.0);
            if begun.elapsed() >= time || one_way.len() == MOST_BURSTS {
                break;
            }
        }
        self.turn_to(LAST_TURN)?;
        Ok(one_way)
    }

    fn follow(&mut self) -> Result<Vec<f64>, GivenUp> {
        while self.turn_to(self.mine + 1)? == Attempt::Done {
            self.mine += 2;
        }
        Ok(Vec::new())
    }

    fn burst(&mut self, rounds: u64) -> Result<f64, GivenUp> {
        self.turn_to(self.mine + 1)?;
        self.mine += 2;
        let start = Instant::now();
        for _ in 0..rounds {
            self.turn_to(self.mine + 1)?;
            self.mine += 2;
        }
        Ok(start.elapsed().as_secs_f64() / rounds as f64)
    }

    /// Waits for this thread's turn and sets the shared line to `next`; `Ended` if turns are over.
    fn turn_to(&self, next: u64) -> Result<Attempt, GivenUp> {
        let mut waiting_since = None;
        loop {
            for _ in 0..ATTEMPTS_PER_LOOK {
                match attempt::<SWAP>(&self.table.line.0, self.mine, next) {
                    Attempt::NotYet => {}
                    outcome => return Ok(outcome),
                }
            }
            self.look_up(&mut waiting_since)?;
        }
    }

    #[cold]
    fn look_up(&self, waiting_since: &mut Option<Instant>) -> Result<(), GivenUp> {
        let given_up = &self.table.given_up.0;
        let too_long = waiting_since.get_or_insert_with(Instant::now).elapsed() > self.patience;
        if too_long {
            given_up.store(true, Ordering::Release);
        }
        if given_up.load(Ordering::Acquire) { Err(GivenUp) } else { Ok(()) }
    }
}

/// Returns the round trips of a burst, one of [`MOST_BURSTS`] in `time`; `quickest` is in s.
fn rounds_per_burst(time: Duration, quickest: f64) -> u64 {
    let each = (time.as_secs_f64() / MOST_BURSTS as f64 / quickest) as u64;
    each.clamp(BURST_ROUND_TRIPS, BURST_ROUND_TRIPS << 20)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SHORT: Duration = Duration::from_millis(5);

    fn two_cpus(test: &str) -> Option<[usize; 2]> {
        let pair = crate::affinity::allowed().unwrap().first_chunk::<2>().copied();
        if pair.is_none() {
            writeln!(std::io::stderr(), "SKIPPED {test}: needs two CPUs").unwrap();
        }
        pair
    }

    #[test]
    fn two_cpus_hand_the_line_over_both_ways() {
        let Some(cpus) = two_cpus("two_cpus_hand_the_line_over_both_ways") else { return };
        let mut pair = ThreadPair::new(cpus).unwrap();
        assert_eq!(pair.cpus, cpus);
        let swap = HandoverMethod::CompareAndSwap;
        for exchange in [swap, HandoverMethod::Store, swap] {
            let one_way = pair.bounce(exchange, Duration::from_millis(20)).unwrap();
            assert!((1..=MOST_BURSTS).contains(&one_way.len()));
            // No signal is faster than light across a chip.
            assert!(one_way.iter().all(|s| *s > 1e-10 && s.is_finite()), "{one_way:?}");
            let turns = pair.table.line.0.load(Ordering::Relaxed);
            assert_eq!(turns, LAST_TURN);
        }
    }

    #[test]
    fn the_shortest_time_is_one_burst() {
        assert_eq!(rounds_per_burst(Duration::ZERO, 1e-7), BURST_ROUND_TRIPS);
        let Some(cpus) = two_cpus("the_shortest_time_is_one_burst") else { return };
        let one_way = ThreadPair::new(cpus).unwrap().bounce(HandoverMethod::Store, Duration::ZERO).unwrap();
        assert_eq!(one_way.len(), 1);
    }

    #[test]
    fn one_cpu_twice_is_refused() {
        assert!(matches!(ThreadPair::new([0, 0]), Err(HandoverError::SameCpu(0))));
        let error = ThreadPair::new([0, crate::affinity::MAX_CPUS]).unwrap_err();
        assert!(matches!(error, HandoverError::Team(TeamError::NotAllowed { .. })), "{error}");
    }

    #[test]
    fn whoever_waits_alone_gives_up_and_whoever_is_left_behind_at_once() {
        fn alone<const SWAP: bool>() {
            let table = SharedLines::default();
            let mut leader = Player::<SWAP>::new(&table, 0, SHORT);
            // The first turn can be taken; the second never comes.
            assert_eq!(leader.lead(SHORT), Err(GivenUp));
            assert_eq!(leader.turns(), 1);
            assert!(table.given_up.0.load(Ordering::Relaxed));
            table.line.0.store(0, Ordering::Relaxed);
            assert_eq!(Player::<SWAP>::new(&table, 1, Duration::MAX).follow(), Err(GivenUp), "at once");
            let table = SharedLines::default();
            assert_eq!(Player::<SWAP>::new(&table, 1, SHORT).follow(), Err(GivenUp));
        }
        alone::<true>();
        alone::<false>();
    }

    #[test]
    fn a_turn_is_taken_only_when_it_has_come() {
        fn turns<const SWAP: bool>() {
            let line = AtomicU64::new(4);
            assert_eq!(attempt::<SWAP>(&line, 5, 6), Attempt::NotYet);
            assert_eq!((attempt::<SWAP>(&line, 4, 5), line.load(Ordering::Relaxed)), (Attempt::Done, 5));
            line.store(LAST_TURN, Ordering::Relaxed);
            let wanted = (Attempt::Ended, LAST_TURN);
            assert_eq!((attempt::<SWAP>(&line, 6, 7), line.load(Ordering::Relaxed)), wanted);
        }
        turns::<true>();
        turns::<false>();
    }

    #[test]
    fn the_line_is_alone() {
        let table = SharedLines::default();
        let apart = (&raw const table.line).addr().abs_diff((&raw const table.given_up).addr());
        assert!(apart >= 128 && (&raw const table.line).addr().is_multiple_of(128));
    }
}
