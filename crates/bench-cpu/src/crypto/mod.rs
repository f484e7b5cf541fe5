//! `cpu.crypto`: encryption and digest rate of cores. A call takes nonce and 13 header bytes,
//! encrypts the block in place and makes the tag, or digests it. Only the bytes of the block count.

mod burst;
mod findings;
mod limit;
mod load;
mod op;
mod reference;

pub(crate) use burst::ciphers;
use load::Blocks;
use op::{CryptoInstructions, CryptoOp};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::cpu::CryptoJob;

use super::dense::{fits, seats};
use super::sliced::{Slices, Turns};
use plimsoll_bench_api::whole_sizes;

const THROUGHPUT_METRIC: &str = "throughput";
const MOST_BYTES: u64 = 64 << 20;
/// Blocks per thread: initial, working, and one for verification.
const BLOCKS: usize = 3;

/// Instructions of the operation, or [`NO_INSTRUCTIONS`].
const INSTRUCTIONS: CaseFact<String> = CaseFact::new("instructions");
const NO_INSTRUCTIONS: &str = "none";

/// The benchmark `cpu.crypto`.
pub struct Crypto;

impl Benchmark for Crypto {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "cpu.crypto",
            synonyms: &["aes", "sha"],
            about: "encryption and digests of blocks: AES-128-GCM, AES-256-CTR, SHA-256, ChaCha20-Poly1305",
            words: &[LabelPart::Value("op"), LabelPart::Value("block"), LabelPart::Times],
            keys: &["op", "block", "affinity", "threads"],
            help: &[
                ("op", "aes-128-gcm, aes-256-ctr, sha256, chacha20-poly1305 or all [default: all]"),
                ("block", "bytes that one call encrypts or digests [default: 16K]"),
            ],
            by_default: false,
            look: super::look,
            limits: limit::limits,
            findings: findings::find,
            noise: Some(0.05),
            metrics: const {
                &[Metric::new(THROUGHPUT_METRIC, Unit::BytePerSecond, Better::Higher)
                    .about("bytes of blocks a second, in whole calls: nonce, 13 bytes of header and tag, or padding, are done and not counted")]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let ops = group.values("op", &CryptoOp::ALL_OPS)?;
        let (blocks, seats) = (blocks(group)?, seats(machine, group, &default_threads(machine))?);
        let mut cases = Vec::new();
        for (name, op) in ops {
            for block in &blocks {
                let case = Case::of(self.name()).with_word("op", name).with_size("block", *block);
                cases.extend(seats.iter().map(|cpus| {
                    let case = case.clone().with_params_of(cpus);
                    let job = CryptoJob { op, block: *block as usize, threads: Threads::of(&case) };
                    Candidate::new(case, Ok(())).parsed(&job)
                }));
            }
        }
        Ok(cases)
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let CryptoJob { op, block, threads } = parsed.read()?;
        let (counted, cpus, threads) = (block as u64, threads.cpus(cx.machine), threads.count);
        let needed = BLOCKS.saturating_mul(block).saturating_mul(threads);
        let sum = format!("{BLOCKS} blocks of {} for each of {threads} threads", format_size(counted));
        fits(cx.machine, needed, &sum, "a smaller --block or fewer --threads")?;
        let means = CryptoInstructions::of(op, &cx.machine.cpu);
        let make = |_: plimsoll_metal::team::TeamMember<'_>| Blocks::new(op, means, block);
        let slices = Slices::prepare(cx.machine, &cpus, Turns { counted, fixed: None }, make)?;
        Ok(Box::new(CryptoTeam { op, means, slices }))
    }
}

fn blocks(group: &Group) -> Result<Vec<u64>, String> {
    let blocks = whole_sizes(&Crypto, group, "block", &[CryptoJob::DEFAULT_BLOCK_BYTES])?;
    match blocks.iter().find(|block| !(1..=MOST_BYTES).contains(*block)) {
        Some(block) => Err(format!(
            "block must be between 1 and {1} bytes: {0} is not",
            format_size(*block),
            format_size(MOST_BYTES)
        )),
        None => Ok(blocks),
    }
}

struct CryptoTeam {
    op: CryptoOp,
    means: Option<CryptoInstructions>,
    slices: Slices<Blocks>,
}

impl Prepared for CryptoTeam {
    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let outcome = self.slices.measure(amount)?;
        let conditions = self.slices.conditions(&outcome);
        let values = [(THROUGHPUT_METRIC.to_owned(), self.slices.rate(&outcome))].into();
        Ok(Sample { elapsed: outcome.elapsed.as_secs_f64(), values, conditions, ..Sample::default() })
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let cpus: Vec<usize> = self.slices.loads().map(|(cpu, _)| cpu).collect();
        reference::check_vectors(self.op).map_err(|detail| {
            let wrong = WrongAnswer::new(WrongAnswerSource::Cpus(cpus), self.op.name(), "another result");
            CannotMeasure::from(wrong.detail(detail))
        })?;
        let mut proven = Vec::new();
        self.slices.loads().try_for_each(|(cpu, load)| load.verify(cpu, &mut proven))?;
        let mut facts = self.slices.facts();
        facts.achieved.set(&INSTRUCTIONS, self.means.map_or(NO_INSTRUCTIONS, |means| means.name));
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{here, parse_group, prepared};
    use plimsoll_machine::Root;
    fn ids(lists: &str) -> Result<Vec<String>, String> {
        let mut machine = Machine::discover(&Root::at("/nonexistent"));
        machine.cpu.allowed = "0-3".parse().unwrap();
        let candidates = Crypto.cases(&machine, &parse_group(lists))?;
        Ok(candidates.iter().map(|candidate| candidate.case.to_string()).collect())
    }

    #[test]
    fn cases_are_each_operation_on_one_cpu_and_on_all() {
        let all = ids("").unwrap();
        assert_eq!(all.len(), 4 * 2);
        assert_eq!(all[0], "cpu.crypto/op=aes-128-gcm/block=16K/threads=1");
        assert_eq!(all[7], "cpu.crypto/op=chacha20-poly1305/block=16K/threads=4");
        let some = ids("op=sha256/affinity=1/threads=1/block=64,8K").unwrap();
        let wanted = |block| format!("cpu.crypto/op=sha256/block={block}/affinity=1/threads=1");
        assert_eq!(some, ["64", "8K"].map(wanted));
    }

    #[test]
    fn wrong_values_are_refused_in_one_line_with_what_is_right() {
        let error = |lists| ids(lists).unwrap_err();
        assert!(error("op=md5").starts_with("op must be one of aes-128-gcm"));
        assert_eq!(error("block=0"), "block must be between 1 and 64M bytes: 0 is not");
        assert_eq!(ids("op=all/threads=1").unwrap().len(), CryptoOp::ALL_OPS.len());
        assert!(error("block=1G").contains("must be between 1 and 64M"));
        assert!(error("block=4K@60+64K@40").contains("must be one size"));
        assert!(error("threads=0").starts_with("threads must be"));
    }

    #[test]
    fn every_operation_is_sampled_and_verified_on_one_thread_and_on_more_than_there_are_cpus() {
        let machine = here();
        let more = machine.cpu.allowed.len() + 1;
        let lists = format!("block=1,100,16K/threads=1,{more}");
        for candidate in Crypto.cases(&machine, &parse_group(&lists)).unwrap() {
            let mut running = prepared(&Crypto, &candidate, &machine);
            let sample = (0..200).find_map(|_| running.sample(SampleAmount::Seconds(0.002)).ok()).unwrap();
            assert!(sample.values[THROUGHPUT_METRIC] > 1e4, "{}: {sample:?}", candidate.case);
            assert!(sample.conditions.delivered.unwrap() > 0.0);
            let facts = running.verify().unwrap();
            let job: CryptoJob = candidate.parsed.read().unwrap();
            let means = CryptoInstructions::of(job.op, &machine.cpu);
            let wanted = Some(means.map_or(NO_INSTRUCTIONS, |means| means.name));
            assert_eq!(facts.achieved.get(&INSTRUCTIONS).as_deref(), wanted);
            let crowded = facts.warnings.iter().any(|warning| warning.code() == "more-threads-than-cpus");
            assert_eq!(crowded, candidate.case.threads() == more);
        }
    }
}
