//! Repeats a wrong answer on single CPUs, to separate a faulty CPU from a faulty program.

use plimsoll_bench::Candidate;
use plimsoll_model::sample::{
    CannotMeasure, Elsewhere, FailureCause, Repeated, SampleAmount, Trials, WrongAnswerSource,
};

use crate::{Harness, Planned};

/// Trials per CPU; the first measurement counts as one on the faulty CPU.
const TRIALS_PER_CPU: u32 = 3;

const MAX_FAILED: u32 = 3;

/// Seconds after which no further trial starts.
const MAX_SECONDS: f64 = 10.0;

/// Longest sample of a trial, in seconds.
const MAX_SAMPLE: f64 = 0.5;

impl Harness<'_> {
    /// Repeats a wrong answer on single CPUs and adds the trials; returns other failures as is.
    pub(crate) fn repeated(&mut self, planned: &Planned, mut cannot: CannotMeasure) -> CannotMeasure {
        let Some(wrong) = cannot.wrong.as_deref_mut().filter(|wrong| wrong.repeated.is_none()) else {
            return cannot;
        };
        let until = self.clock.now() + MAX_SECONDS;
        let (cpu, mut there) = match &wrong.origin {
            WrongAnswerSource::Cpu(cpu) => (*cpu, Trials { wrong: 1, of: 1 }),
            WrongAnswerSource::Cpus(cpus) => match self.first_wrong(planned, cpus, until) {
                Some(cpu) => (cpu, Trials { wrong: 1, of: 1 }),
                None => return cannot,
            },
            WrongAnswerSource::Storage { .. } | WrongAnswerSource::Network => return cannot,
        };
        self.add_trials(planned, cpu, &mut there, until);
        let elsewhere = self.maker.machine.cpu.on_another_core(cpu).map(|cpu| {
            let mut trials = Trials::default();
            self.add_trials(planned, cpu, &mut trials, until);
            Elsewhere { cpu, trials }
        });
        wrong.origin = WrongAnswerSource::Cpu(cpu);
        wrong.repeated = Some(Repeated { there, elsewhere: elsewhere.filter(|it| it.trials.of > 0) });
        wrong.clone().into()
    }

    fn first_wrong(&mut self, planned: &Planned, cpus: &[usize], until: f64) -> Option<usize> {
        let mut cpus = cpus.iter().copied();
        cpus.find(|cpu| self.clock.now() < until && matches!(self.trial(planned, *cpu), Ok(true)))
    }

    fn add_trials(&mut self, planned: &Planned, cpu: usize, trials: &mut Trials, until: f64) {
        let mut failed = 0;
        while trials.of < TRIALS_PER_CPU
            && failed < MAX_FAILED
            && (trials.of == 0 || self.clock.now() < until)
        {
            match self.trial(planned, cpu) {
                Ok(is_wrong) => trials.add(is_wrong),
                Err(why) if why.cause == FailureCause::Interrupted => return,
                Err(_) => failed += 1,
            }
        }
    }

    /// Takes a short sample with one thread on the CPU `cpu`. Returns whether its answer is wrong.
    fn trial(&mut self, planned: &Planned, cpu: usize) -> Result<bool, CannotMeasure> {
        let Candidate { case, .. } = &planned.candidate;
        let mut machine = self.maker.machine.clone();
        machine.cpu.allowed = [cpu].into_iter().collect();
        let candidate = plimsoll_bench::single_threaded(&machine, case)?;
        let mut tried = || {
            let mut prepared = self.station.prepare(&candidate, None, Some(&machine))?;
            prepared.sample(SampleAmount::Seconds(planned.sampling.sample_time.min(MAX_SAMPLE)))?;
            prepared.verify()
        };
        match tried() {
            Ok(_) => Ok(false),
            Err(why) if why.cause == FailureCause::WrongAnswer => Ok(true),
            Err(why) => Err(why),
        }
    }
}
