//! `memory.bandwidth`: passes over arrays on every thread, from the first start to the last end.

mod limit;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::stream::{self, StreamKernel, StreamOp};

use super::affinity;
use super::answered;
use super::choose::variants;
use super::findings;
use super::passes::Passes;
use super::{BANDWIDTH_METRIC, BUS_BANDWIDTH, are_here, pages, sizes, threads, working_set};
use plimsoll_model::case::find_word;
use plimsoll_model::job::memory::{ARRAY_LAYOUTS, BEST_VARIANT};
use plimsoll_model::job::{ArrayLayout, MemoryStream};
use plimsoll_model::metric::Form;

/// Smallest bytes per thread for three arrays and the gaps between them.
pub(super) const SMALLEST_ARRAYS: u64 = 4 << 10;

const VARIANTS: &str = "kernels: nt = non-temporal stores, aheadN = prefetch N bytes ahead (non-temporal), l1aheadN and l2aheadN = into L1 and L2";

/// The benchmark `memory.bandwidth`.
pub struct Bandwidth;

impl Benchmark for Bandwidth {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "memory.bandwidth",
            synonyms: &["stream", "STREAM", "mbw"],
            about: "bytes per second of passes over arrays that are larger than the caches",
            words: &[
                LabelPart::Value("op"),
                LabelPart::Value("size"),
                LabelPart::Value("variant"),
                LabelPart::Times,
            ],
            keys: &["op", "size", "variant", "pages", "layout", "node", "affinity", "threads"],
            help: &[(
                "op",
                "read, write, copy, scale, add, triad (as STREAM), update or all (update: a = s·a) [default: read,copy,triad]",
            )],
            look: |machine| {
                super::look(machine);
                plimsoll_bench_api::identity::measure_capabilities(machine);
            },
            limits: limit::limits,
            findings: findings::concurrency::find,
            answered: answered::level_in_brackets,
            remark,
            metrics: const {
                &[
                    Metric::new(BANDWIDTH_METRIC, Unit::BytePerSecond, Better::Higher)
                        .about("bytes per second that the program reads and writes"),
                    Metric::new(BUS_BANDWIDTH, Unit::BytePerSecond, Better::Higher)
                        .about("bytes per second over the bus: a line that is written is read before")
                        .shown_after("with write-allocate", Form::UnlikeHeadline),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn roofline(&self, case: &Case) -> Roofline {
        let Ok(MemoryStream { op, site, .. }) = MemoryStream::of(case) else { return Roofline::No };
        let intensity = op.flops() as f64 / (8 * (op.loads() + op.stores())) as f64;
        Roofline::Moves { intensity: Some(intensity).filter(|_| op.flops() > 0), area: Some(site.total()) }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let layouts = layouts(group)?;
        let (pages, threads) = (pages(machine, group)?, threads(machine, group)?);
        let affinities = affinity::affinities(machine, group)?;
        let mut candidates = Vec::new();
        for (op, variant) in kernels(group)? {
            for pages in &pages {
                for layout in &layouts {
                    for threads in &threads {
                        let usual = working_set::default_size(machine, group, *threads, op.arrays());
                        for size in sizes(machine, group, &[usual], SMALLEST_ARRAYS)? {
                            let pages = pages.fitting(machine, group, size);
                            let mut case = Case::of(self.name())
                                .with_word("op", op.name())
                                .with_size("size", size)
                                .with_word("variant", &variant)
                                .with_word("pages", pages.word);
                            if *layout == ArrayLayout::Shared {
                                case = case.with_word("layout", "shared");
                            }
                            for affinity in &affinities {
                                let case = case.clone().with_params_of(affinity);
                                let case = case.with_count("threads", *threads);
                                let job = MemoryStream::of(&case)?;
                                let feasible = loadable(op, &variant)
                                    .and_then(|()| are_here(machine, pages))
                                    .and_then(|()| holds_arrays(size))
                                    .and_then(|()| affinity::check_free_memory(&job.site, machine));
                                candidates.push(Candidate::new(case, feasible).parsed(&job));
                            }
                        }
                    }
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: MemoryStream = parsed.read()?;
        let mut passes = Passes::new(&job, case, cx)?;
        passes.choose(&job.variant)?;
        Ok(Box::new(passes))
    }
}

/// Returns the legend of kernel names if the case requests no kernel and the chosen name needs it.
fn remark(measurement: &Measurement) -> Option<&'static str> {
    MemoryStream::of(&measurement.case).ok().filter(|stream| stream.variant == BEST_VARIANT)?;
    let chosen = measurement.achieved.word_of_parameter("variant")?;
    chosen.split('_').any(|part| part == "nt" || part.starts_with("ahead")).then_some(VARIANTS)
}

fn operations(group: &Group) -> Result<Vec<StreamOp>, String> {
    let known = StreamOp::ALL.map(|op| (op.name(), op));
    let words = group.words_of("op", &["read", "copy", "triad"], &known.map(|(name, _)| name));
    let operation = |word: &String| match find_word("op", word, &known) {
        Err(error) if word == "read-write" => Err(error + " (read-write is one of --only memory.block)"),
        found => found.map(|(_, op)| op),
    };
    words.iter().map(operation).collect()
}

fn kernels(group: &Group) -> Result<Vec<(StreamOp, String)>, String> {
    variants(
        group,
        &operations(group)?,
        |op| stream::kernels().filter(|kernel| kernel.op == op).flat_map(StreamKernel::variants).collect(),
        |op| stream::available(op).map(|kernel| kernel.variant()).collect(),
        || stream::kernels().flat_map(StreamKernel::variants).collect(),
    )
}

fn loadable(op: StreamOp, variant: &str) -> Result<(), CannotMeasure> {
    let built = stream::kernels().filter(|kernel| kernel.op == op);
    match built.into_iter().find(|kernel| kernel.variants().any(|name| name == variant)) {
        Some(kernel) => kernel.load().map(|_| ()).map_err(CannotMeasure::not_here),
        None => Ok(()),
    }
}

fn layouts(group: &Group) -> Result<Vec<ArrayLayout>, String> {
    let words = group.words("layout", &["private"]);
    words.iter().map(|word| Ok(find_word("layout", word, ARRAY_LAYOUTS)?.1)).collect()
}

fn holds_arrays(size: u64) -> Result<(), CannotMeasure> {
    if size >= SMALLEST_ARRAYS {
        return Ok(());
    }
    let (smallest, size) = (format_size(SMALLEST_ARRAYS), format_size(size));
    Err(CannotMeasure::not_here(format!("--size must be at least {smallest} for arrays: {size} is not")))
}
