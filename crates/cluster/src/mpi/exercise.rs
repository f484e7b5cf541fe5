//! Exercises over MPI: the timed loops, each as the OSU micro-benchmark of its kind defines it.
//!
//! They have a communicator of their own, so that no message of the run is taken for one of theirs. The rank that begins
//! calls the others; who is called says that its buffers are there, and what is timed comes after that.

use std::array;
use std::time::{Duration, Instant};

use mpi::Rank;
use mpi::collective::SystemOperation;
use mpi::request::{Request, scope};
use mpi::topology::{Process, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Equivalence, Group, Source};

use super::super::exercise::{Exercise, Timed, pattern, summand, total};
use crate::bench::mpi::{Number, WINDOW, What};

/// Tags: who is called, who is ready, what is timed, what was right.
const CALL: i32 = 1;
const READY: i32 = 2;
const DATA: i32 = 3;
const RIGHT: i32 = 4;
/// What answers a window: as many bytes as `osu_bw` sends.
const ANSWER: [u8; 4] = [1; 4];

/// Where exercises are done.
pub(super) struct Yard {
    /// All ranks.
    all: SimpleCommunicator,
}

impl Yard {
    /// Beside the world's own messages; all ranks must do this.
    pub(super) fn of(world: &SimpleCommunicator) -> Self {
        Self { all: world.duplicate() }
    }

    /// Calls the others and does the first rank's part.
    pub(super) fn begin(&self, exercise: &Exercise) -> Result<Timed, String> {
        let call = serde_json::to_vec(exercise).map_err(|e| e.to_string())?;
        for rank in exercise.ranks.iter().skip(1) {
            self.all.process_at_rank(number(*rank)?).send_with_tag(&call[..], CALL);
        }
        self.part(exercise, 0)
    }

    /// Does this rank's part if it was called; by whom.
    pub(super) fn attend(&self) -> Option<usize> {
        let called = self.all.any_process().immediate_matched_probe_with_tag(CALL);
        let (message, status) = called?;
        let mut call = vec![0_u8; usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(0)];
        message.matched_receive_into(&mut call[..]);
        let own = usize::try_from(self.all.rank()).unwrap_or(0);
        // A call that cannot be read leaves its caller waiting, who is missed then: no rank of one version sends any.
        let exercise = serde_json::from_slice::<Exercise>(&call).ok()?;
        if let Some(place) = exercise.ranks.iter().position(|rank| *rank == own) {
            // The first rank tells of what went wrong.
            let _ = self.part(&exercise, place);
        }
        exercise.ranks.first().copied()
    }

    fn part(&self, exercise: &Exercise, place: usize) -> Result<Timed, String> {
        match exercise.what {
            What::Trips { .. } | What::Windows { .. } => {
                let partner = *exercise.ranks.get(1 - place.min(1)).ok_or("it takes two ranks")?;
                let partner = self.all.process_at_rank(number(partner)?);
                Ok(Pair { partner, exercise, place }.timed())
            }
            What::Sums { number: Number::F64, count } => {
                Ok(sums(&self.circle(exercise)?, exercise, count, f64::from))
            }
            What::Sums { number: Number::F32, count } => {
                Ok(sums(&self.circle(exercise)?, exercise, count, f32::from))
            }
            What::Barriers => Ok(barriers(&self.circle(exercise)?, exercise)),
        }
    }

    /// A communicator of these ranks alone. It takes all of them to make one, so none is kept: ranks may have taken part in
    /// other exercises meanwhile.
    fn circle(&self, exercise: &Exercise) -> Result<SimpleCommunicator, String> {
        let ranks = exercise.ranks.iter().map(|rank| number(*rank)).collect::<Result<Vec<_>, _>>()?;
        let made = self.all.split_by_subgroup(&self.all.group().include(&ranks));
        made.ok_or_else(|| "MPI made no communicator of the machines".to_owned())
    }
}

fn number(rank: usize) -> Result<Rank, String> {
    Rank::try_from(rank).map_err(|e| e.to_string())
}

/// An exercise of two, seen from one of them.
struct Pair<'a> {
    partner: Process<'a>,
    exercise: &'a Exercise,
    /// 0 for the rank that begins.
    place: usize,
}

impl Pair<'_> {
    fn timed(&self) -> Timed {
        let (bytes, buffers) = match self.exercise.what {
            What::Windows { bytes } => (bytes, if self.place == 0 { 0 } else { WINDOW }),
            What::Trips { bytes } => (bytes, 1),
            What::Sums { .. } | What::Barriers => (0, 0),
        };
        let own = pattern(bytes, self.exercise.seed, self.place);
        let mut come = vec![vec![0_u8; bytes]; buffers];
        self.ready();
        let mut repeat = |times: u64| {
            let begun = Instant::now();
            match self.exercise.what {
                What::Windows { .. } => self.windows(times, &own, &mut come),
                _ => self.trips(times, &own, &mut come),
            }
            begun.elapsed()
        };
        repeat(self.exercise.warm_up());
        let elapsed = repeat(self.exercise.times);
        let sent = pattern(bytes, self.exercise.seed, 1 - self.place.min(1));
        let right = come.iter().all(|buffer| *buffer == sent);
        Timed {
            seconds: elapsed.as_secs_f64() / self.exercise.times.max(1) as f64,
            wrong: self.verdict(right),
        }
    }

    /// The rank that begins waits until the other one has its buffers.
    fn ready(&self) {
        let mut word = [0_u8];
        if self.place == 0 {
            self.partner.receive_into_with_tag(&mut word[..], READY);
        } else {
            self.partner.send_with_tag(&word[..], READY);
        }
    }

    /// The rank that begins hears whether the other one got what was sent.
    fn verdict(&self, right: bool) -> Option<String> {
        let mut word = [u8::from(right)];
        if self.place > 0 {
            self.partner.send_with_tag(&word[..], RIGHT);
            return None;
        }
        self.partner.receive_into_with_tag(&mut word[..], RIGHT);
        (!right || word != [1]).then(|| "the bytes that came are not those that were sent".to_owned())
    }

    fn trips(&self, times: u64, own: &[u8], come: &mut [Vec<u8>]) {
        let Some(come) = come.first_mut() else { return };
        for _ in 0..times {
            if self.place == 0 {
                self.partner.send_with_tag(own, DATA);
                self.partner.receive_into_with_tag(&mut come[..], DATA);
            } else {
                self.partner.receive_into_with_tag(&mut come[..], DATA);
                self.partner.send_with_tag(own, DATA);
            }
        }
    }

    /// Each message of a window is awaited by itself: to await them by one call takes memory that is allocated for it.
    fn windows(&self, times: u64, own: &[u8], come: &mut [Vec<u8>]) {
        let mut answer = ANSWER;
        for _ in 0..times {
            if self.place == 0 {
                scope(|scope| {
                    let send = |_| self.partner.immediate_send_with_tag(scope, own, DATA);
                    array::from_fn::<_, WINDOW, _>(send).into_iter().for_each(Request::wait_without_status);
                });
                self.partner.receive_into_with_tag(&mut answer[..], DATA);
            } else {
                scope(|scope| {
                    let mut buffers = come.iter_mut();
                    let mut receive = |_| {
                        let buffer = buffers.next()?;
                        Some(self.partner.immediate_receive_into_with_tag(scope, &mut buffer[..], DATA))
                    };
                    for request in array::from_fn::<_, WINDOW, _>(&mut receive).into_iter().flatten() {
                        request.wait_without_status();
                    }
                });
                self.partner.send_with_tag(&answer[..], DATA);
            }
        }
    }
}

/// Each call is timed alone, and a barrier stands between two, as in `osu_allreduce`.
fn sums<T>(circle: &SimpleCommunicator, exercise: &Exercise, count: usize, of: impl Fn(u16) -> T) -> Timed
where
    T: Equivalence + Copy + Default + Into<f64>,
{
    let place = usize::try_from(circle.rank()).unwrap_or(0);
    let own: Vec<T> = (0..count).map(|at| of(summand(place, at))).collect();
    let mut sum = vec![T::default(); count];
    let mut took = Duration::ZERO;
    let warm_up = exercise.warm_up();
    for time in 0..warm_up + exercise.times {
        let begun = Instant::now();
        circle.all_reduce_into(&own[..], &mut sum[..], SystemOperation::sum());
        if time >= warm_up {
            took += begun.elapsed();
        }
        circle.barrier();
    }
    // The sums of four neighbours repeat.
    let expected: Vec<f64> = (0..4).map(|at| total(exercise.ranks.len(), at)).collect();
    let right = sum.iter().zip(expected.iter().cycle()).all(|(sum, expected)| (*sum).into() == *expected);
    mean(circle, exercise, took, right)
}

/// One after the other, each timed alone, as in `osu_barrier`.
fn barriers(circle: &SimpleCommunicator, exercise: &Exercise) -> Timed {
    let mut took = Duration::ZERO;
    let warm_up = exercise.warm_up();
    for time in 0..warm_up + exercise.times {
        let begun = Instant::now();
        circle.barrier();
        if time >= warm_up {
            took += begun.elapsed();
        }
    }
    mean(circle, exercise, took, true)
}

/// The mean over the ranks, and whether all of them have the right answer.
fn mean(circle: &SimpleCommunicator, exercise: &Exercise, took: Duration, right: bool) -> Timed {
    let own = [took.as_secs_f64(), f64::from(u8::from(!right))];
    let mut all = [0.0_f64; 2];
    circle.all_reduce_into(&own[..], &mut all[..], SystemOperation::sum());
    let [seconds, wrong] = all;
    let each = f64::from(circle.size().max(1)) * exercise.times.max(1) as f64;
    let wrong = (wrong > 0.0).then(|| format!("{wrong} of {} machines got a wrong sum", circle.size()));
    Timed { seconds: seconds / each, wrong }
}
