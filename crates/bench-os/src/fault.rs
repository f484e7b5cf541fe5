//! `os.fault`: the time of the first access to a page, and of mapping memory without an access.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::buffer::Pages;
use plimsoll_metal::os::region::{TouchRegion, map_and_unmap};
use plimsoll_metal::ticks::TickClock;
use plimsoll_metal::usage::usage_of_thread;
use plimsoll_model::job::os::{CaseWord, FirstTouch};
use rustix::fs::MemfdFlags;

use crate::fact::{CLEAR_TIME, FAULTS_PER_PAGE, PAGE_BYTES};
use crate::timed::{RepeatedOperation, TimedThreads, failed};
use crate::{LATENCY_METRIC, RATE_METRIC, kernel_state, with_threads};

/// Bytes of a thread's region: beyond the caches of a core, and quickly filled.
const REGION_BYTES: usize = 64 << 20;
/// Ordinary pages between two readings of the clock.
const PAGES_PER_READING: usize = 16;
/// Size of a transparent huge page if the kernel does not show it.
const USUAL_HUGE_BYTES: usize = 2 << 20;
/// Bytes that are mapped and unmapped without an access.
const MAPPED_BYTES: usize = 64 << 10;
/// Mappings between two readings of the clock.
const MAPPINGS_PER_READING: u32 = 16;

/// The benchmark `os.fault`.
pub struct PageFault;

impl Benchmark for PageFault {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "os.fault",
            about: "time of the first access to a page (new memory, huge page, cached file), and of mmap with munmap",
            keys: &["op", "threads", "affinity"],
            help: &[("op", "anonymous, thp (huge pages), file (page cache), mmap (and munmap) or all")],
            words: &[
                LabelPart::Instead(
                    "op",
                    &[
                        ("anonymous", "new page"),
                        ("thp", "new huge page"),
                        ("file", "page of a cached file"),
                        ("mmap", "mmap, munmap"),
                    ],
                ),
                LabelPart::Times,
            ],
            limits,
            metrics: const {
                &[
                    Metric::new(LATENCY_METRIC, Unit::Second, Better::Lower).about(
                        "time of the first access to a page (mmap: of a mapping and its end), mean of a thread",
                    ),
                    Metric::new(RATE_METRIC, Unit::PerSecond, Better::Higher)
                        .about("pages touched per second, over all threads")
                        .shown_between("", ""),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut candidates = Vec::new();
        for (op, touched) in group.values("op", FirstTouch::CASE_WORDS)? {
            let case = Case::of(self.name()).with_word("op", op);
            for case in with_threads(machine, group, case, &default_threads(machine))? {
                let needed = case.threads() as u64 * REGION_BYTES as u64;
                let feasible = match machine.memory_available_bytes() {
                    Some(free) if touched != FirstTouch::Nothing && needed > free / 2 => {
                        Err(CannotMeasure::not_here("requires more memory than is free; use fewer --threads"))
                    }
                    _ => Ok(()),
                };
                candidates.push(Candidate::new(case, feasible).parsed(&touched));
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let touched: FirstTouch = parsed.read()?;
        let cpus = cpus_of_case(cx.machine, case);
        let file = (touched == FirstTouch::CachedFile).then(cached_file).transpose();
        let file = file.map_err(failed("memfd_create(2)"))?.map(Arc::new);
        let touch = |_: &usize| Toucher::new(touched, file.clone(), cx.machine);
        let touchers = cpus.iter().map(touch).collect::<Result<Vec<_>, _>>()?;
        let mut facts = kernel_state::facts(cx.machine);
        facts.achieved.set_some(&PAGE_BYTES, touchers.first().map(|toucher| toucher.page_bytes as u64));
        let mut threads = TimedThreads::new(&cpus, touchers, Some(RATE_METRIC), facts)?;
        if let Some(file) = &file {
            use std::os::fd::AsRawFd;
            let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            threads.offer.file = Some(path.into());
            threads.offer.file_bytes = Some(REGION_BYTES as u64);
        }
        Ok(Box::new(threads))
    }
}

/// Returns the floor of the access time: clearing a page; for mmap two empty system calls.
fn limits(question: &Question<'_>) -> Vec<Limit> {
    let limit = match (question.metric, FirstTouch::of(question.case)) {
        (RATE_METRIC, _) => return crate::limit::rate_ceilings(question, limits),
        (_, Some(FirstTouch::Nothing)) => crate::limit::null_calls(question, 2.0, "2 × null call"),
        (_, Some(FirstTouch::Anonymous | FirstTouch::Huge)) => {
            let why = "the pages could not be cleared with the samples";
            let about = "shortest mean time to overwrite a page of the region with zeros, with the sample";
            let row = (&CLEAR_TIME, about);
            crate::limit::per_sample(question, row, |seconds| seconds, "time to clear a page", why)
                .resting_on_or(
                    "the time to overwrite a touched page with zeros",
                    "the kernel clears pages that are still in a cache, or clears them another way",
                )
        }
        _ => {
            let why =
                "no maker documents how long a core takes to enter and leave a fault; nothing is cleared";
            Limit::unknown(LimitKind::Floor, why)
        }
    };
    vec![limit]
}

/// Returns a memfd of [`REGION_BYTES`], with all its pages in the page cache.
fn cached_file() -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("plimsoll", MemfdFlags::CLOEXEC)?);
    let block = vec![1_u8; 1 << 20];
    (0..REGION_BYTES / block.len()).try_for_each(|_| file.write_all(&block))?;
    Ok(file)
}

/// Returns the size of a transparent huge page in bytes; 2 MiB if the kernel does not show it.
fn huge_bytes(machine: &Machine) -> usize {
    let size = machine.memory.transparent_huge_page_bytes.and_then(|bytes| usize::try_from(bytes).ok());
    size.filter(|bytes| bytes.is_power_of_two() && *bytes <= REGION_BYTES / 2).unwrap_or(USUAL_HUGE_BYTES)
}

/// Touches the pages of one region.
struct Toucher {
    /// `None` if memory is only mapped and unmapped.
    region: Option<TouchRegion>,
    page_bytes: usize,
    /// Faults in all passes over the region but the first, and the pages of these passes.
    passes: [u64; 2],
    /// Faults of the thread when the current pass began.
    faults_before: Option<u64>,
    /// Shortest seconds to clear a page since the last sample.
    clear_seconds: Option<f64>,
    clock: TickClock,
    /// Kept open for reference tools, which open it by the number of its descriptor.
    _file: Option<Arc<File>>,
}

impl Toucher {
    fn new(touched: FirstTouch, file: Option<Arc<File>>, machine: &Machine) -> Result<Self, CannotMeasure> {
        let page = rustix::param::page_size();
        let refused = failed("mmap(2)");
        let (region, page_bytes) = match (touched, &file) {
            (FirstTouch::Huge, _) => {
                let bytes = huge_bytes(machine);
                let no_thp = |error: io::Error| match error.kind() {
                    io::ErrorKind::InvalidInput => CannotMeasure::not_here(
                        "requires transparent huge pages, which this kernel does not have",
                    ),
                    _ => refused(error),
                };
                let region = TouchRegion::anonymous(REGION_BYTES, bytes, Pages::Thp);
                (Some(region.map_err(no_thp)?), bytes)
            }
            (FirstTouch::CachedFile, Some(file)) => {
                (Some(TouchRegion::of_file(file, REGION_BYTES, page).map_err(refused)?), page)
            }
            (FirstTouch::Nothing, _) => (None, MAPPED_BYTES),
            _ => {
                let region = TouchRegion::anonymous(REGION_BYTES, page, Pages::Small);
                (Some(region.map_err(refused)?), page)
            }
        };
        let (clock, passes) = (TickClock::fastest(), [0; 2]);
        let (faults_before, clear_seconds, _file) = (None, None, file);
        let mut made = Self { region, page_bytes, passes, faults_before, clear_seconds, clock, _file };
        if touched == FirstTouch::Huge && !made.is_huge() {
            return Err(CannotMeasure::not_here(
                "requires transparent huge pages: the kernel gives none; see /sys/kernel/mm/transparent_hugepage/enabled, and free memory",
            ));
        }
        Ok(made)
    }

    /// Returns whether huge pages are in use: writes behind a touched byte then cause few faults.
    fn is_huge(&mut self) -> bool {
        let Some(region) = &mut self.region else { return false };
        region.touch(1);
        let before = usage_of_thread().minor_faults;
        region.clear();
        let faults = usage_of_thread().minor_faults - before;
        region.discard().is_ok() && faults < 8
    }

    /// Overwrites the touched pages with zeros, and keeps the shortest time per page.
    fn clear(&mut self) {
        let Some(region) = &mut self.region else { return };
        let begin = self.clock.now_ns();
        let cleared = region.clear() / self.page_bytes;
        if cleared > 0 {
            let seconds = self.clock.now_ns().saturating_sub(begin) as f64 * 1e-9 / cleared as f64;
            self.clear_seconds = Some(self.clear_seconds.map_or(seconds, |least| least.min(seconds)));
        }
    }
}

impl RepeatedOperation for Toucher {
    fn repeat(&mut self) -> Result<u32, CannotMeasure> {
        let Some(region) = &mut self.region else {
            (0..MAPPINGS_PER_READING)
                .try_for_each(|_| map_and_unmap(MAPPED_BYTES))
                .map_err(failed("mmap(2)"))?;
            return Ok(MAPPINGS_PER_READING);
        };
        let count = if self.page_bytes >= USUAL_HUGE_BYTES / 2 { 1 } else { PAGES_PER_READING };
        u32::try_from(region.touch(count)).map_err(|_| CannotMeasure::environment("too many pages"))
    }

    fn excludes_preemption(&self) -> bool {
        true
    }

    fn reset(&mut self) -> Result<(), CannotMeasure> {
        if self.region.as_ref().is_none_or(|region| region.left() > 0) {
            return Ok(());
        }
        if let Some(before) = self.faults_before {
            self.passes[0] += usage_of_thread().minor_faults.saturating_sub(before);
            self.passes[1] += (REGION_BYTES / self.page_bytes) as u64;
        }
        self.clear();
        let Some(region) = &mut self.region else { return Ok(()) };
        region.discard().map_err(failed("madvise(2)"))?;
        self.faults_before = Some(usage_of_thread().minor_faults);
        Ok(())
    }

    fn finish(&mut self) {
        if self.clear_seconds.is_none() {
            self.clear();
        }
    }

    fn note_sample(all: &mut [&mut Self], conditions: &mut Conditions) {
        let least = all.iter_mut().filter_map(|toucher| toucher.clear_seconds.take()).reduce(f64::min);
        least.into_iter().for_each(|seconds| conditions.more.set(&CLEAR_TIME, seconds));
    }

    fn note_facts(all: &[&Self], facts: &mut Facts) {
        let [faults, pages] = [0, 1].map(|at| all.iter().map(|one| one.passes[at]).sum::<u64>());
        if pages > 0 {
            facts.achieved.set(&FAULTS_PER_PAGE, faults as f64 / pages as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::with_each_case;

    #[test]
    fn each_kind_of_page_is_touched_and_faults() {
        with_each_case(&PageFault, "", &Default::default(), |case, mut touching| {
            // Three passes over the region of ordinary pages: the first one's faults do not count.
            let passes = if case.word("op") == Some("thp") { 40 } else { 3 * 16_384 };
            let latency = touching.sample(SampleAmount::Work(passes)).unwrap().values[LATENCY_METRIC];
            assert!((1e-9..1e-1).contains(&latency), "{case}: {latency}");
            let faults: Option<f64> = touching.verify().unwrap().achieved.get(&FAULTS_PER_PAGE);
            match case.word("op") {
                Some("anonymous") => assert!(faults.unwrap() > 0.5, "{faults:?}"),
                Some("mmap") => assert_eq!(faults, None),
                _ => {}
            }
        });
    }
}
