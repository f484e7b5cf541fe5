use plimsoll_machine::Root;
use plimsoll_machine::fixture::two_cores;
use plimsoll_model::sample::{AtFault, FailureCause};

use super::*;
use crate::fixture::{group, here, prepared};

/// A burst whose answer is its input; on CPU `wrong_on` every `each`th answer is one too high.
struct Counting {
    cpu: usize,
    wrong_on: Option<usize>,
    each: u64,
    done: u64,
    answer: u64,
    is_known: bool,
}

impl Burst for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn run(&mut self, input: u64) {
        self.done += 1;
        let is_wrong = self.wrong_on.is_none_or(|cpu| cpu == self.cpu) && self.done.is_multiple_of(self.each);
        self.answer = input + u64::from(is_wrong);
    }

    fn invert_bit(&mut self, random: u64) {
        self.answer ^= 1 << (random % 64);
    }

    fn compare(&self, input: u64) -> Result<(), WrongBurst> {
        let wrong = || WrongBurst::new(self.answer.to_string(), input.to_string(), "the number".to_owned());
        (self.answer == input).then_some(()).ok_or_else(wrong)
    }

    fn confirm(&mut self, _: u64) -> bool {
        self.is_known
    }
}

fn counting(wrong_on: Option<usize>, each: u64, is_known: bool) -> BurstMaker {
    Box::new(move |cpu| Ok(Box::new(Counting { cpu, wrong_on, each, done: 0, answer: 0, is_known })))
}

/// The wrong answer that two samples find, if any.
fn found(makers: Vec<BurstMaker>) -> Option<WrongAnswer> {
    let cpu = here().cpu;
    let cpus: Vec<usize> = cpu.allowed.iter().collect();
    let makers: Arc<[BurstMaker]> = makers.into();
    let proofs = cpus.iter().map(|cpu| CpuProof::new(&makers, *cpu, 1).unwrap()).collect();
    let (batches, team) = (batches(&cpu, &cpus), Team::new(&cpus).unwrap());
    let mut team = ProofTeam { cpu, team, makers, proofs, batches, bursts: 400, done: 0, seed: 1 };
    let sampled = (0..2).try_for_each(|_| team.sample(SampleAmount::Seconds(0.1)).map(|_| ()));
    let wrong = sampled.and_then(|()| team.verify()).err()?;
    assert_eq!(wrong.cause, FailureCause::WrongAnswer);
    wrong.wrong.map(|wrong| *wrong)
}

#[test]
fn a_cpu_that_is_wrong_now_and_then_is_named_with_its_core_and_how_often() {
    let cpus: Vec<usize> = here().cpu.allowed.iter().collect();
    let last = *cpus.last().unwrap();
    assert_eq!(found(vec![counting(Some(last), 1000, true), counting(Some(last), u64::MAX, true)]), None);
    let wrong = found(vec![counting(Some(last), u64::MAX, true), counting(Some(last), 100, true)]).unwrap();
    assert_eq!((wrong.cpu(), wrong.operation.as_str()), (Some(last), "counting"));
    let repeated = wrong.repeated.unwrap();
    assert_eq!((repeated.there.wrong, repeated.there.of), (84, 8410));
    assert!(wrong.detail.contains("the number, ") && wrong.detail.contains("4 of 410 bursts"), "{wrong}");
    if let Some(core) = here().cpu.logical(last).and_then(|it| it.core) {
        assert!(wrong.detail.contains(&format!("core {core}, socket ")), "{wrong}");
    }
    if cpus.len() > 1 {
        assert_eq!(wrong.at_fault(), AtFault::Unstable);
        assert_eq!(repeated.elsewhere.unwrap().trials, Trials { wrong: 0, of: 8000 });
    }
}

#[test]
fn no_cpu_is_accused_where_all_are_wrong_or_the_right_answer_is() {
    if here().cpu.allowed.len() < 2 {
        return;
    }
    let everywhere = found(vec![counting(None, 1, true)]).unwrap();
    assert_eq!(everywhere.at_fault(), AtFault::Program, "{everywhere}");
    let first = here().cpu.allowed.first().unwrap();
    let reference = found(vec![counting(None, 4, false)]).unwrap();
    assert_eq!(reference.operation, "the portable reference of counting");
    assert_eq!((reference.cpu(), reference.at_fault()), (Some(first), AtFault::Unstable), "{reference}");
}

#[test]
fn every_kernel_here_is_right_and_an_inverted_bit_is_found_in_each() {
    let cpu = here().cpu.allowed.first().unwrap();
    let caches = dense::caches(&here(), &Threads::of(&Case::of("cpu.integrity").with_count("threads", 1)));
    let mut team = Team::new(&[cpu]).unwrap();
    let names = team.run(|_| {
        let makers = makers(cpu, caches).unwrap();
        let mut names = Vec::new();
        for maker in &makers {
            let mut burst = maker(cpu).unwrap();
            for input in 0..2 * INPUTS_PER_KERNEL {
                burst.run(input);
                assert_eq!(burst.compare(input), Ok(()), "{}", burst.name());
                assert!(burst.confirm(input), "{}", burst.name());
                burst.invert_bit(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(input + 1));
                let wrong = burst.compare(input).expect_err(burst.name());
                assert!(wrong.got != wrong.expected, "{wrong:?}");
            }
            names.push(burst.name().to_owned());
        }
        names
    });
    let mut names = names.unwrap().remove(0);
    for part in ["fma_f64", "aes-128-gcm", "sha256", "gemm_f32_", "lu_f64_", "memory_l1", "memory_l3"] {
        assert!(names.iter().any(|name| name.starts_with(part)), "{part}: {names:?}");
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "each has its own name");
}

#[test]
fn siblings_work_alone_and_together_and_other_cpus_at_once() {
    let mut machine = Machine::discover(&Root::at("/nonexistent"));
    let batch = |cpus: &str, share| ProofBatch { cpus: cpus.parse().unwrap(), share };
    assert_eq!(batches(&machine.cpu, &[3, 9]), [batch("3,9", 1.0)]);
    machine.cpu.logical = two_cores();
    let wanted = [batch("0-1", 0.5), batch("2-3", 0.5), batch("0-3", 0.5)];
    assert_eq!(batches(&machine.cpu, &[0, 1, 2, 3]), wanted);
    assert_eq!(batches(&machine.cpu, &[2, 3]), [batch("2-3", 1.0)]);
}

#[test]
fn a_case_takes_all_cpus_and_is_proven_without_the_kernel_s_files() {
    let mut machine = Machine::discover(&Root::at("/nonexistent"));
    machine.cpu.allowed = here().cpu.allowed.clone();
    let all = machine.cpu.allowed.len();
    let group = |count| group(&[("count", &[count])]);
    let mut cases = Integrity.cases(&machine, &group("10")).unwrap();
    let candidate = cases.remove(0);
    assert_eq!(candidate.case.to_string(), format!("cpu.integrity/count=10/threads={all}"));
    assert!(cases.is_empty());
    let mut running = prepared(&Integrity, &candidate, &machine);
    let sample = running.sample(SampleAmount::Seconds(0.1)).unwrap();
    assert!(sample.values[ANSWERS_METRIC] >= 10.0 * 20.0 * all as f64, "{sample:?}");
    let facts = running.verify().unwrap().achieved;
    assert_eq!(facts.get(&PROVEN_CPUS), Some(machine.cpu.allowed.iter().collect::<Vec<_>>()));
    assert!(facts.get(&COMPARED_KERNELS) >= Some(20));
    assert!(Integrity.cases(&machine, &group("0")).is_err());
}
