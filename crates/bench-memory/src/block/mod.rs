//! `memory.block`: reads, writes or copies a region block by block, all before any repeats. Its
//! size decides whether a cache or memory is measured. Blocks of 1 to 8 bytes are single accesses.

mod limit;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::block::{BlockKernel, BlockOp, LINE_BYTES, available, is_block, kernel_names};

use super::batches::Batches;
use super::choose::{BEST_VARIANT, variants};
use super::{
    LATENCY_METRIC, LATENCY_PER_BYTE, THROUGHPUT_METRIC, affinity, answered, are_here, pages, sizes, threads,
    working_set,
};
use plimsoll_bench_api::fixed::{AveragePace, Scaling};
use plimsoll_bench_api::{PATTERN, whole_sizes};
use plimsoll_model::job::BlockJob;
use plimsoll_model::job::disk::TransferAmount;
use plimsoll_model::job::memory::{BLOCK_OPS, BLOCK_ORDERS};

/// Default blocks: one access, and sizes that fit into the first and the third cache.
const BLOCKS: &[u64] = &[8, 8 << 10, 8 << 20];
const LEAST_BLOCKS: u64 = 4;

/// Operation with its name, and block size in bytes.
type BlockWork = (&'static str, BlockOp, u64);

/// The benchmark `memory.block`.
pub struct Block;

impl Benchmark for Block {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "memory.block",
            about: "throughput and time of reading, writing or copying blocks, in order or at random",
            words: &[
                PATTERN,
                LabelPart::Value("op"),
                LabelPart::Value("block"),
                LabelPart::Word("of"),
                LabelPart::Value("size"),
                LabelPart::Value("variant"),
                LabelPart::Times,
            ],
            keys: &[
                "op", "pattern", "block", "size", "variant", "pages", "node", "affinity", "threads",
                "volume", "count", "scaling",
            ],
            help: &[
                (
                    "op",
                    "read, write, read-write or all (read-write: a copy to a second array) [default: all]",
                ),
                ("block", "size of a block [default: 8,8K,8M]"),
                ("pattern", "order of the blocks: sequential, random or all [default: all]"),
                (
                    "volume",
                    "end a sample after this many bytes, such as 1G, per thread (with --scaling strong: in total), instead of after --sample-time",
                ),
            ],
            by_default: false,
            look: super::look,
            // One or two cores and the memory between them.
            pace: Some(AveragePace { bytes: 1e10, operations: 1e8 }),
            limits: limit::limits,
            answered: answered::level_in_brackets,
            details,
            metrics: const {
                &[
                    Metric::new(THROUGHPUT_METRIC, Unit::BytePerSecond, Better::Higher)
                        .about("bytes per second of whole blocks")
                        .drawn(),
                    Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower)
                        .about("time of a block")
                        .shown_between("", "per block")
                        .drawn()
                        .with_floor(),
                    Metric::new(LATENCY_PER_BYTE, Unit::Second, Better::Lower)
                        .about("time of a block ÷ its bytes, of small blocks")
                        .shown_between("", "per byte"),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn metric_of(&self, case: &Case, row: Metric) -> Option<Metric> {
        let small = BlockJob::of(case).is_ok_and(|job| job.is_small());
        Some(row).filter(|row| small || row.name != LATENCY_PER_BYTE)
    }

    fn roofline(&self, _: &Case) -> Roofline {
        Roofline::Moves { intensity: None, area: None }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let threads = threads(machine, group)?;
        let patterns = group.values("pattern", BLOCK_ORDERS)?;
        let (pages, amounts) = (pages(machine, group)?, amounts(group)?);
        let affinities = affinity::affinities(machine, group)?;
        let mut candidates = Vec::new();
        for ((word, op, block), variant) in block_works(group)? {
            for &(pattern, _) in &patterns {
                for pages in &pages {
                    for threads in &threads {
                        let least = least_size(&amounts, op, block, *threads);
                        let regions = op.regions() as u64;
                        let usual = working_set::default_size(machine, group, *threads, regions).max(least);
                        for size in sizes(machine, group, &[usual], super::MIN_WORKING_SET_BYTES)? {
                            has_room(op, block, size)?;
                            let pages = pages.fitting(machine, group, size);
                            let mut case = Case::of(self.name())
                                .with_word("op", word)
                                .with_word("pattern", pattern)
                                .with_size("block", block)
                                .with_size("size", size);
                            if variant != BEST_VARIANT {
                                case = case.with_word("variant", &variant);
                            }
                            let case = case.with_word("pages", pages.word);
                            for affinity in &affinities {
                                let case = case.clone().with_params_of(affinity);
                                let case = case.with_count("threads", *threads);
                                for amount in &amounts {
                                    let case = case.clone().with_params_of(amount);
                                    let job = BlockJob::of(&case)?;
                                    check_amount(&job)?;
                                    let feasible = runs_here(op, block, &variant)
                                        .and_then(|()| are_here(machine, pages))
                                        .and_then(|()| affinity::check_free_memory(&job.site, machine));
                                    candidates.push(Candidate::new(case, feasible).parsed(&job));
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        Ok(Box::new(Batches::new(&parsed.read()?, case, cx)?))
    }
}

fn details(measurement: &Measurement) -> Vec<String> {
    let is_open = BlockJob::of(&measurement.case).is_ok_and(|job| job.variant == BEST_VARIANT);
    let chosen = measurement.achieved.word_of_parameter("variant").filter(|_| is_open);
    let level = answered::answering_level(measurement).map(|level| format!("region: {level}"));
    let kernel = chosen.map(|kernel| format!("kernel {}", plimsoll_units::text::shown(kernel)));
    level.into_iter().chain(kernel).collect()
}

/// Returns every existing combination of requested operations, blocks and kernels. An error starts
/// with the key of the wrong value.
fn block_works(group: &Group) -> Result<Vec<(BlockWork, String)>, String> {
    let (ops, blocks) = (group.values("op", BLOCK_OPS)?, blocks(group)?);
    let works: Vec<BlockWork> =
        ops.into_iter().flat_map(|(word, op)| blocks.iter().map(move |block| (word, op, *block))).collect();
    let built = |(_, op, block): BlockWork| kernel_names(op, block);
    let here =
        |(_, op, block): BlockWork| available(op, block as usize).iter().map(BlockKernel::name).collect();
    variants(group, &works, built, here, || works.iter().copied().flat_map(built).collect())
}

fn runs_here(op: BlockOp, block: u64, variant: &str) -> Result<(), CannotMeasure> {
    if variant == BEST_VARIANT || available(op, block as usize).iter().any(|kernel| kernel.name() == variant)
    {
        return Ok(());
    }
    Err(CannotMeasure::not_here(format!("this CPU cannot run the kernel {variant} on such blocks")))
}

fn blocks(group: &Group) -> Result<Vec<u64>, String> {
    let blocks = whole_sizes(&Block, group, "block", BLOCKS)?;
    match blocks.iter().find(|block| !usize::try_from(**block).is_ok_and(is_block)).map(|b| format_size(*b)) {
        Some(block) => Err(format!("block must be 1, 2, 4, 8 or a multiple of {LINE_BYTES}: {block} is not")),
        None => Ok(blocks),
    }
}

/// Returns the bytes per thread with room for the most blocks of `block` bytes that a thread does
/// in one of `amounts`, at most 4; for 4 blocks if no amount is fixed.
fn least_size(amounts: &[Case], op: BlockOp, block: u64, threads: u64) -> u64 {
    let each = |asked: &Case| {
        let job = BlockJob { op, block, ..BlockJob::of(asked).ok()? };
        let blocks = job.fixed_blocks()?;
        Some(if job.scaling == Scaling::Strong { blocks.div_ceil(threads.max(1)) } else { blocks })
    };
    let most = amounts.iter().filter_map(each).max();
    let blocks = most.map_or(LEAST_BLOCKS, |blocks| blocks.clamp(1, LEAST_BLOCKS));
    blocks.saturating_mul(block).saturating_mul(op.regions() as u64)
}

/// Fails unless a block fits into the region, which for a copy is half of `size` bytes.
fn has_room(op: BlockOp, block: u64, size: u64) -> Result<(), String> {
    let regions = op.regions() as u64;
    if block <= size / regions {
        return Ok(());
    }
    let (block_text, size_text) = (format_size(block), format_size(size));
    Err(match regions {
        1 => format!("block must be at most --size {size_text}: {block_text} is not"),
        _ => format!(
            "block must be at most half of --size {size_text} with --op read-write: {block_text} is not; use a --size of at least {}",
            format_size(block.saturating_mul(regions))
        ),
    })
}

/// Returns a case for each combination in `group` of `volume` or `count` with `scaling`.
fn amounts(group: &Group) -> Result<Vec<Case>, String> {
    match (group.asked("volume"), group.asked("count")) {
        (true, true) => Err("--volume and --count are mutually exclusive".to_owned()),
        (false, false) if group.asked("scaling") => Err("--scaling requires --volume or --count".to_owned()),
        _ => Ok(["volume", "count", "scaling"]
            .iter()
            .fold(vec![Case::of("")], |cases, key| group.each_of(cases, key))),
    }
}

/// Fails if a fixed amount of `job` is less than a block for each thread.
fn check_amount(job: &BlockJob) -> Result<(), String> {
    let least = if job.scaling == Scaling::Strong { job.site.threads.count as u64 } else { 1 };
    let is_less = job.fixed_blocks().is_some_and(|blocks| blocks < least);
    let (key, given, least) = match job.amount.filter(|_| is_less) {
        Some(TransferAmount::Bytes(bytes)) => {
            ("volume", format_size(bytes), format_size(job.bytes_per_block().saturating_mul(least)))
        }
        Some(TransferAmount::Transfers(blocks)) => ("count", blocks.to_string(), least.to_string()),
        None => return Ok(()),
    };
    Err(format!("{key} must be at least {least}, a block for each thread: {given} is not"))
}

#[cfg(test)]
mod tests {
    use super::super::fact::{DRAW_SECONDS_PER_BLOCK, LEVEL, VARIANT};
    use super::*;
    use crate::fixture::{MIB, in_context, machine, parse_group, this_machine};
    use plimsoll_model::sample::{FailureCause, SampleAmount};

    fn cases(lists: &str) -> Result<Vec<Candidate>, String> {
        Block.cases(&machine("firecracker-zen4"), &parse_group(lists))
    }

    fn ids(lists: &str) -> Vec<String> {
        cases(lists).unwrap().iter().map(|candidate| candidate.case.to_string()).collect()
    }

    fn prepared(case: &Case, machine: &Machine) -> PreparedCase {
        let parsed = Candidate::new(case.clone(), Ok(())).parsed(&BlockJob::of(case).unwrap()).parsed;
        in_context(machine, |cx| Block.prepare(case, &parsed, cx))
    }

    #[test]
    fn a_region_has_no_more_large_blocks_than_a_thread_works_on() {
        let lists = "op=read-write/block=80M/threads=8/volume=1280M/scaling=";
        let size = |scaling: &str| ids(&format!("{lists}{scaling}")).remove(0);
        assert!(size("strong").contains("size=160M"), "a block each: {}", size("strong"));
        assert!(size("weak").contains("size=640M"), "eight each: {}", size("weak"));
    }

    #[test]
    fn left_out_every_operation_and_order_is_measured_in_memory() {
        let all = ids("");
        assert_eq!(all.len(), 3 * 2 * 3 * 2);
        assert_eq!(all[0], "memory.block/op=read/pattern=sequential/block=8/size=132M/pages=thp/threads=1");
        let last = "memory.block/op=read-write/pattern=random/block=8M/size=136M/pages=thp/threads=2";
        assert_eq!(all[35], last);
        let large = ids("block=80M/op=read-write/threads=2");
        assert!(large[0].contains("size=640M"), "room for four blocks in each half: {}", large[0]);
    }

    #[test]
    fn published_experiments_are_command_lines() {
        let blocks = "block=1,8,1K,8K,1M,8M,10M,80M";
        let all = ids(&format!("volume=100G/scaling=strong/size=1G/{blocks}/threads=1,2,4,8"));
        assert_eq!(all.len(), 3 * 2 * 8 * 4);
        let end = "block=1/size=1G/pages=thp/threads=1/volume=100G/scaling=strong";
        assert!(all[0].ends_with(end), "{}", all[0]);
        let counted = ids("block=1/count=1e8/threads=4/op=read-write");
        assert!(counted[0].ends_with("threads=4/count=100000000"), "{}", counted[0]);
        let both = ids("volume=1G/scaling=weak,strong/block=8");
        assert_eq!(both.len(), 3 * 2 * 2 * 2);
    }

    #[test]
    fn a_kernel_stands_with_the_operations_and_blocks_that_it_has() {
        let of = |variants| ids(&format!("pattern=sequential/block=8,8K/threads=1/variant={variants}"));
        let memcpy = "memory.block/op=read-write/pattern=sequential/block=8K/size=264M/variant=memcpy/pages=thp/threads=1";
        assert_eq!(of("memcpy"), [memcpy]);
        assert_eq!(of("best,memset").len(), 6 + 1);
        let all = of("all");
        for kernel in ["memcpy", "memset", "scalar"] {
            assert!(all.iter().any(|id| id.contains(&format!("/variant={kernel}/"))), "{kernel}: {all:?}");
        }
        assert!(all.iter().all(|id| id.contains("/variant=")));
    }

    #[test]
    fn wrong_values_are_named_with_what_is_right() {
        let error = |lists| cases(lists).unwrap_err();
        assert!(error("op=copy").contains("one of read, write, read-write"));
        assert!(error("pattern=zigzag").contains("one of sequential, random"));
        assert!(error("block=3").ends_with("1, 2, 4, 8 or a multiple of 64: 3 is not"));
        assert!(error("block=100").contains("a multiple of 64"));
        assert!(error("block=4K@60+64K@40").contains("the mix 4K@60+64K@40 is not supported"));
        assert!(error("threads=0").contains("between 1 and"));
        assert!(error("variant=memcopy").ends_with("did you mean 'memcpy'?"));
        assert!(error("variant=memcpy/op=read").starts_with("variant must be best"));
        assert!(error("pages=5k").starts_with("pages must be"));
        let room = error("block=8M/size=4M/op=read");
        assert_eq!(room, "block must be at most --size 4M: 8M is not");
        let room = error("block=8M/size=8M/op=read-write");
        assert!(room.contains("half of --size 8M") && room.ends_with("at least 16M"), "{room}");
    }

    #[test]
    fn amounts_must_be_something_to_divide() {
        let of = |amount: &str| cases(&format!("block=8K/op=read-write/threads=2/{amount}"));
        let error = |amount| of(amount).unwrap_err();
        assert!(error("volume=0").starts_with("volume must be at least 16K"));
        assert!(error("volume=16383").starts_with("volume must be at least 16K"));
        assert!(error("volume=16K/scaling=strong").starts_with("volume must be at least 32K"));
        assert!(error("count=1/scaling=strong").starts_with("count must be at least 2"));
        assert!(error("count=0").starts_with("count must be at least 1, a block for each thread"));
        assert!(error("volume=1G/count=9").contains("mutually exclusive"));
        assert!(error("scaling=strong").contains("requires --volume or --count"));
        assert!(error("volume=1G/scaling=amdahl").contains("weak, strong"));
        assert!(of("volume=16K").is_ok());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_sum_before_it_is_allocated() {
        let mut machine = machine("firecracker-zen4");
        machine.memory.available_bytes = Some(1 << 30);
        let candidates = Block.cases(&machine, &parse_group("size=600M/threads=2")).unwrap();
        let refusals = candidates.iter().filter_map(|candidate| candidate.feasible.as_ref().err());
        assert_eq!(refusals.clone().count(), candidates.len());
        for why in refusals {
            assert_eq!(why.cause, FailureCause::Environment);
            assert!(why.reason.starts_with("needs 2 × 600 MiB"), "{why}");
        }
    }

    #[test]
    fn every_operation_and_order_is_measured_and_verified() {
        let machine = this_machine();
        for (op, _) in BLOCK_OPS {
            for (pattern, _) in BLOCK_ORDERS {
                for (block, threads) in [(1_u64, 1_u64), (8, 2), (64, 1), (1 << 10, 2), (100 << 10, 3)] {
                    let case = format!("op={op}/pattern={pattern}/block={block}/size=1M/threads={threads}");
                    let case: Case = format!("memory.block/{case}").parse().unwrap();
                    let mut prepared = prepared(&case, &machine).unwrap();
                    let sample = prepared.sample(SampleAmount::Work(3 * MIB)).unwrap();
                    let again = prepared.sample(SampleAmount::Work(sample.work.unwrap())).unwrap();
                    assert_eq!(again.work, sample.work, "{case}: an amount repeats exactly");
                    let regions = if *op == "read-write" { 2.0 } else { 1.0 };
                    let (throughput, latency) = (sample.values["throughput"], sample.values["latency"]);
                    let product = throughput * latency / (block as f64 * regions * threads as f64);
                    assert!((product - 1.0).abs() < 1e-9, "{case}: {product}");
                    let per_byte = sample.values["latency_per_byte"] * block as f64;
                    assert!((per_byte / latency - 1.0).abs() < 1e-9, "{case}");
                    let facts = prepared.verify().unwrap();
                    assert!(facts.achieved.get(&VARIANT).is_some() && facts.achieved.get(&LEVEL).is_some());
                    let drawn = facts.achieved.get(&DRAW_SECONDS_PER_BLOCK).is_some();
                    assert_eq!(drawn, *pattern == "random", "{case}");
                }
            }
        }
    }

    #[test]
    fn a_fixed_amount_is_each_threads_or_all_threads_together() {
        let machine = this_machine();
        let id = "memory.block/op=read-write/pattern=random/block=4K/size=1M/threads=3/volume=5M";
        let case: Case = id.parse().unwrap();
        let moved = |case: &Case| {
            let mut prepared = prepared(case, &machine).unwrap();
            let by_time = prepared.sample(SampleAmount::Seconds(0.0)).unwrap();
            assert_eq!(by_time.work, Some(3 * (8 << 10)), "a warm-up does not do it all");
            let sample = prepared.sample(SampleAmount::Work(1)).unwrap();
            let facts = prepared.verify().unwrap();
            assert!(facts.warnings.iter().all(|warning| warning.code() != "volume-cut"));
            sample.work.unwrap()
        };
        assert_eq!(moved(&case), 3 * 5 * MIB);
        assert_eq!(moved(&case.clone().with_word("scaling", "strong")), 5 * MIB);
    }
}
