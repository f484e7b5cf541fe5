//! `disk.knee`: increases depth × threads until the rate stops growing. The figure is the
//! rate at the saturation point, the fewest transfers in flight with 95 % of the highest rate.

use crate::io::sweep::SaturationSweep;
use crate::io::transfers::Transfers;
use crate::io::{DiskIo, limit};
use crate::job::max_depth;
use crate::metrics::{
    CPU_METRIC, DEPTH_METRIC, LATENCY_METRIC, RATE_METRIC, THREADS_METRIC, THROUGHPUT_METRIC, seconds,
};
use crate::storage::requested_size;
use crate::{findings, words};
use plimsoll_bench_api::PATTERN;
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::disk::DiskTransfers;

/// The benchmark `disk.knee`.
pub(crate) struct DiskSaturation;

const MAX_SEARCH_DEPTH: u64 = 256;

impl Benchmark for DiskSaturation {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "disk.knee",
            about: "queue depth and threads at which the rate stops growing",
            file: |parsed| parsed.read().ok().map(|job: DiskTransfers| requested_size(&job)),
            words: &[
                LabelPart::Word("saturation point,"),
                PATTERN,
                LabelPart::Value("op"),
                LabelPart::Value("block"),
            ],
            keys: &["op", "read-share", "pattern", "block", "size", "engine", "cache", "sync"],
            by_default: false,
            curves: words::CURVES,
            shares_worker: true,
            waits_for_a_device: true,
            // The depth is searched for: no limits of a lone transfer.
            limits: |question| limit::limits(question, |_| false),
            findings: findings::queue::find,
            details: |measurement| words::saturation(measurement).into_iter().collect(),
            point: words::point,
            metrics: const {
                &[
                    Metric::new(RATE_METRIC, Unit::IoPerSecond, Better::Higher)
                        .about("transfers per second at the saturation point"),
                    Metric::new(THROUGHPUT_METRIC, Unit::BytePerSecond, Better::Higher)
                        .about("bytes per second at the saturation point")
                        .with_floor(),
                    seconds(LATENCY_METRIC, "time of a transfer at the saturation point")
                        .shown_between("latency", "")
                        .with_floor(),
                    seconds(CPU_METRIC, "processor time of a transfer"),
                    Metric::new(DEPTH_METRIC, Unit::One, Better::Lower)
                        .about("transfers in flight per thread at the saturation point")
                        .informative(),
                    Metric::new(THREADS_METRIC, Unit::One, Better::Lower)
                        .about("threads at the saturation point")
                        .informative(),
                ]
            },
            ..Descriptor::USUAL
        }
    }

    fn searches(&self, _: &Case) -> bool {
        true
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let mut asked =
            Group { lists: group.lists.clone(), places: group.places.clone(), ..Group::default() };
        for (key, value) in [
            ("op", Value::Word(if group.asked("read-share") { "mixed" } else { "read" }.to_owned())),
            ("pattern", Value::Word("random".to_owned())),
            ("block", Value::Size(4 << 10)),
        ] {
            if !asked.asked(key) {
                asked = asked.with(key, vec![value]);
            }
        }
        let asked = asked.with("depth", vec![Value::Count(1)]).with("threads", vec![Value::Count(1)]);
        let candidates = DiskIo.cases(machine, &asked)?.into_iter();
        let search = |made: Candidate| Candidate { case: without_queue(self.name(), &made.case), ..made };
        Ok(candidates.map(search).collect())
    }

    fn prepare(&self, case: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let most = default_threads(cx.machine).into_iter().max().unwrap_or(1);
        let doublings = std::iter::successors(Some(1), |threads| Some(threads * 2));
        let threads = doublings.take_while(|threads| *threads < most).chain([most]);
        let job: DiskTransfers = parsed.read()?;
        let team = |threads: u64| Transfers::new(&format!("{case}#{threads}"), with_queue(&job, threads), cx);
        let teams = threads.map(team).collect::<Result<_, _>>()?;
        Ok(Box::new(SaturationSweep { teams, chosen: None, curve: Vec::new() }))
    }
}

fn with_queue(job: &DiskTransfers, threads: u64) -> DiskTransfers {
    let depth = MAX_SEARCH_DEPTH.min(max_depth(job.blocks.largest(), threads));
    DiskTransfers { threads, depth, ..job.clone() }
}

fn without_queue(name: &str, case: &Case) -> Case {
    Case::of(name).with_params_of(&case.clone().without(&["depth", "threads"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::Root;

    fn cases(lists: &str) -> Vec<Candidate> {
        let bare = Machine { storage: None, ..Machine::discover(&Root::live()) };
        DiskSaturation.cases(&bare, &plimsoll_model::fixture::parse_group(lists)).expect("cases")
    }

    #[test]
    fn one_case_without_a_depth_that_can_be_made_one_of_disk_io() {
        let cases = cases("");
        let ids: Vec<String> = cases.iter().map(|candidate| candidate.case.to_string()).collect();
        assert_eq!(ids, ["disk.knee/op=read/pattern=random/block=4K/engine=io_uring/cache=direct"]);
        let job: DiskTransfers = cases[0].parsed.read().expect("a job");
        let job = with_queue(&job, 2);
        assert_eq!((job.depth, job.threads), (MAX_SEARCH_DEPTH, 2));
    }

    #[test]
    fn what_is_typed_is_swept() {
        assert_eq!(cases("block=4K,64K").len(), 2);
        assert!(cases("read-share=50")[0].case.to_string().starts_with("disk.knee/op=mixed/read-share=50/"));
    }
}
