use std::time::Instant;

use plimsoll_metal::buffer::{Buffer, Resident};
use plimsoll_metal::clock::{WorkClocks, thread_cpu_time};
use plimsoll_metal::stream::{Arrays, LoadedStream, StreamOp, WrongElement};
use plimsoll_metal::team::{Team, TeamMember, has_duplicates};
use plimsoll_model::job::{ArrayLayout, MemorySite, MemoryStream};

use super::affinity;
use super::lap::{LapRound, LapSchedule, PASS};
use super::window::ThreadSpan;
use plimsoll_model::sample::{CannotMeasure, WrongAnswer, WrongAnswerSource};

pub(super) struct ThreadArrays {
    pub(super) op: StreamOp,
    memory: ArrayMemory,
    tallies: Vec<ArrayTally>,
    /// Position of all threads in a pass, in parts of it.
    at: u64,
    last: Option<LoadedStream>,
    /// Whether each thread has a CPU of its own, so that time off the CPU is a disturbance.
    pub(super) alone: bool,
}

enum ArrayMemory {
    Private(Vec<Buffer>),
    Shared(Buffer),
}

#[derive(Default)]
struct ArrayTally {
    seed: u64,
    checksum: u64,
    sum: u64,
    wrong: u64,
    passes: u64,
    first_wrong: Option<WrongElement>,
    clocks: WorkClocks,
}

impl ArrayMemory {
    fn new(team: &mut Team, job: &MemoryStream) -> Result<Self, CannotMeasure> {
        let MemorySite { pages, node, .. } = job.site;
        let size = affinity::bytes_per_thread(&job.site);
        match job.layout {
            ArrayLayout::Private => {
                let touched = || Buffer::touched(size, pages).map_err(CannotMeasure::environment);
                let made = team.run(|_| affinity::allocate_on_node(node, touched)?)?;
                made.into_iter().collect::<Result<Vec<Buffer>, _>>().map(Self::Private)
            }
            // First touched when each thread fills its part.
            ArrayLayout::Shared => {
                let size = size.saturating_mul(team.count());
                Buffer::new(size, pages).map(Self::Shared).map_err(CannotMeasure::environment)
            }
        }
    }

    fn buffers(&self) -> &[Buffer] {
        match self {
            Self::Private(buffers) => buffers,
            Self::Shared(buffer) => std::slice::from_ref(buffer),
        }
    }

    fn parts(&mut self, op: StreamOp, threads: usize) -> Vec<Arrays<'_>> {
        match self {
            Self::Private(buffers) => {
                buffers.iter_mut().map(|buffer| Arrays::divide(op, buffer.elements_mut::<f64>())).collect()
            }
            Self::Shared(buffer) => Arrays::divide(op, buffer.elements_mut::<f64>()).split(threads),
        }
    }
}

impl ThreadArrays {
    /// Allocates the arrays of `job`; each thread of `team` touches and fills its own arrays first,
    /// with numbers that depend on `seed`.
    pub(super) fn new(team: &mut Team, job: &MemoryStream, seed: u64) -> Result<Self, CannotMeasure> {
        let (op, node) = (job.op, job.site.node);
        let mut memory = ArrayMemory::new(team, job)?;
        let mut parts = memory.parts(op, team.count());
        let filled = team.run_each(&mut parts, |member, arrays| {
            let seed = seed.wrapping_add(member.index as u64);
            affinity::allocate_on_node(node, || arrays.fill(seed))?;
            Ok(ArrayTally { seed, checksum: arrays.checksum(seed), ..ArrayTally::default() })
        })?;
        let tallies = filled.into_iter().collect::<Result<Vec<ArrayTally>, CannotMeasure>>()?;
        Ok(Self { op, memory, tallies, at: 0, last: None, alone: !has_duplicates(team.cpus()) })
    }

    fn arrays(&mut self) -> Vec<(Arrays<'_>, &mut ArrayTally)> {
        let parts = self.memory.parts(self.op, self.tallies.len());
        parts.into_iter().zip(&mut self.tallies).collect()
    }

    /// Runs `kernel` on all threads from the end of the last call on, in the laps of `schedule`,
    /// which the threads start together. Returns times and core clock.
    pub(super) fn run_laps(
        &mut self,
        team: &mut Team,
        kernel: LoadedStream,
        schedule: LapSchedule,
    ) -> Result<LapRound, CannotMeasure> {
        let (at, laps) = (self.at, schedule.laps(self.at));
        let turns = team.run_each(&mut self.arrays(), |member, (arrays, tally)| {
            tally.work(arrays, kernel, at, &laps, member)
        })?;
        self.at = (at + laps.iter().sum::<u64>()) % PASS;
        self.last = Some(kernel);
        Ok(LapRound::of_all(&laps, &turns, self.alone))
    }

    pub(super) fn end_pass(&mut self, team: &mut Team) -> Result<(), CannotMeasure> {
        let rest = PASS - self.at;
        match self.last.filter(|_| rest < PASS) {
            Some(kernel) => self.run_laps(team, kernel, LapSchedule { parts: rest, per_lap: rest }).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the number of elements of one array, summed over all threads.
    pub(super) fn elements(&mut self) -> u64 {
        self.arrays().iter().map(|(arrays, _)| arrays.elements() as u64).sum()
    }

    pub(super) fn threads(&self) -> usize {
        self.tallies.len()
    }

    pub(super) fn resident(&self) -> Vec<Resident> {
        Buffer::resident_of(self.memory.buffers()).unwrap_or_default()
    }

    pub(super) fn memory(&self) -> impl Iterator<Item = &[u8]> {
        self.memory.buffers().iter().map(Buffer::bytes)
    }

    /// Completes the pass, then checks all elements and checksums; the error names the faulty CPU.
    pub(super) fn verify(&mut self, team: &mut Team) -> Result<(), CannotMeasure> {
        self.end_pass(team)?;
        let checked =
            team.run_each(&mut self.arrays(), |member, (arrays, tally)| tally.verify(arrays, member.cpu))?;
        checked.into_iter().collect()
    }
}

impl ArrayTally {
    fn work(
        &mut self,
        arrays: &mut Arrays<'_>,
        kernel: LoadedStream,
        mut at: u64,
        laps: &[u64],
        member: TeamMember<'_>,
    ) -> (Vec<ThreadSpan>, Option<f64>) {
        let mut spans = Vec::with_capacity(laps.len());
        for &lap in laps {
            let mut part = arrays.part(at, at.saturating_add(lap));
            let passes = (lap / PASS).max(1);
            member.barrier();
            let (on_cpu, start) = (thread_cpu_time(), Instant::now());
            let sum = kernel.run(&mut part, passes);
            spans.push(ThreadSpan::since(start, on_cpu));
            let written = arrays.verify_last_block(at.saturating_add(lap), self.seed, self.passes + passes);
            self.first_wrong = self.first_wrong.or(written.err());
            self.sum = self.sum.wrapping_add(sum);
            at = (at + lap) % PASS;
            if at == 0 {
                self.wrong += u64::from(self.sum != self.checksum.wrapping_mul(passes));
                self.passes += passes;
                self.sum = 0;
            }
        }
        (spans, self.clocks.probe(kernel.work()))
    }

    fn verify(&self, arrays: &Arrays<'_>, cpu: usize) -> Result<(), CannotMeasure> {
        let ArrayTally { seed, wrong, passes, first_wrong: strayed, .. } = *self;
        if wrong > 0 {
            let answer = WrongAnswer::new(WrongAnswerSource::Cpu(cpu), "reading memory", "a wrong checksum");
            return Err(WrongAnswer { count: wrong, ..answer }.into());
        }
        strayed.map_or_else(|| arrays.verify(seed, passes), Err).map_err(|wrong| {
            let WrongElement { op, array, element, got, wanted } = wrong;
            let (operation, got) = (format!("memory {op}"), format!("{got:e}"));
            let answer = WrongAnswer::new(WrongAnswerSource::Cpu(cpu), operation, got);
            answer
                .expected(format!("{wanted:e}"))
                .detail(format!("element {element} of array {array}"))
                .into()
        })
    }
}
