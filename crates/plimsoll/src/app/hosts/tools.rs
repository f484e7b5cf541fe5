//! Tools that run on several nodes at once, started by `mpirun` or `srun`: HPL by `xhpl` or `hpcc`,
//! MPI by the OSU micro-benchmarks.

use std::ffi::OsStr;

use plimsoll_bench::Benchmark;
use plimsoll_bench_cpu::hpl::{MACHINES, MACHINES_PEAK};
use plimsoll_bench_cpu::{Hpl, Peak, RATE_METRIC, RESIDUAL, TIME_METRIC, operations};
use plimsoll_cluster::between::{ALL_PAIRS, MachinePair, PairAnswer, PairFigure, PairResults};
use plimsoll_cluster::ssh::names::HostName;
use plimsoll_machine::Machine;
use plimsoll_model::case::Case;
use plimsoll_model::job::cpu::{CpuKernel, DenseProblem};
use plimsoll_model::limit::{LimitEvidence, LimitSource};
use plimsoll_model::measurement::Measurement;
use plimsoll_model::plan::file::SERVER;
use plimsoll_model::sample::{
    CannotMeasure, CaseFact, Conditions, Facts, FailureCause, Offer, Outcome, Sample, SampleAmount,
};
use plimsoll_reference::{Against, ProgramSearch, REF_TOOLS, RefTool, Selection, ToolLauncher, fact};
use plimsoll_result::document::{Node, Run};
use plimsoll_run::Planned;
use plimsoll_units::text::shown_within;

use super::super::ref_tools;
use super::{Together, between};

/// Samples of an MPI case: the fewest with a confidence interval.
const MPI_SAMPLES: u32 = 5;
const TOOL_LIMIT: f64 = 120.0;
const OF_LAUNCHERS: [&str; 4] = ["SLURM_", "OMPI_", "PMIX_", "PRTE_"];
const MAX_PAIRED_NODES: usize = 4;
const OF_MEMORY: f64 = 0.8;
/// Assumed share of the limit for estimates of time.
const ASSUMED: f64 = 0.6;
/// Assumed FLOP/s of a thread if its CPU's limit is unknown.
const ASSUMED_EACH: f64 = 10e9;
const MAX_TIMES_ESTIMATE: f64 = 5.0;
/// Seconds of the tool beside the solution, for any order.
const TOOL_OVERHEAD_SECONDS: f64 = 60.0;
/// The tools, preferred ones first: `hpcc` also measures other things, which takes time.
const TOOLS: [&str; 6] = ["xhpl", "hpcc", "osu_latency", "osu_bw", "osu_allreduce", "osu_barrier"];
/// The tool needs no clean-up and is killed without delay, so that the run can be stored before its
/// own launcher ends it.
const PLAINLY: [&str; 6] =
    ["--mca", "odls_base_sigkill_timeout", "0", "--mca", "orte_base_help_aggregate", "0"];

/// Returns whether a tool such as HPL measures the case on several nodes at once, not on each node.
pub(in crate::app) fn is_on_machines(planned: &Planned) -> bool {
    plimsoll_bench::find(planned.candidate.case.benchmark())
        .is_some_and(|found| found.descriptor().of_all_machines)
}

impl Together<'_, '_> {
    /// Measures HPL and MPI cases over all nodes. Returns the results, and true if interrupted.
    pub(super) fn measured_by_tools(&self, run: &Run) -> (Vec<Measurement>, bool) {
        let maker = self.prepared.maker(self.names.first().map(String::as_str).unwrap_or_default());
        let mut made = Vec::new();
        for planned in self.prepared.planned.iter().filter(|planned| is_on_machines(planned)) {
            let case = planned.candidate.case.clone();
            let outcome = match self.outcome(planned, run) {
                Err(why) if why.cause == FailureCause::Interrupted => return (made, true),
                Err(why) => Outcome { ended: Some(why), ..empty(case) },
                Ok(outcome) => outcome,
            };
            made.push(maker.measurement(&outcome, LimitEvidence::default()));
        }
        (made, false)
    }

    fn outcome(&self, planned: &Planned, run: &Run) -> Result<Outcome, CannotMeasure> {
        let case = &planned.candidate.case;
        if self.hosts.len() < 2 {
            return Err(CannotMeasure::not_here("requires at least two machines: name them with --hosts"));
        }
        if case.benchmark() == Hpl.name() {
            let machines: Vec<&Machine> = run.nodes.iter().map(|node| run.machine_of(node)).collect();
            let system = HplSystem::of(planned, &machines, peak(run))?;
            let times = planned.sampling.samples.unwrap_or(1);
            let (samples, facts) = self.by_tool(&system.case, &self.hosts, times, Some(&system))?;
            let known = [(MACHINES, Some(system.machines as f64)), (MACHINES_PEAK, system.peak)];
            let conditions = Conditions { more: known.into_iter().collect(), ..Conditions::default() };
            let with_peak = |sample| Sample { conditions: conditions.clone(), ..sample };
            let samples = samples.into_iter().map(with_peak).collect();
            return Ok(Outcome { samples, facts, ..empty(system.case) });
        }
        let times = planned.sampling.samples.unwrap_or(MPI_SAMPLES);
        if !plimsoll_bench_mpi::is_between_two(case) {
            let (samples, facts) = self.by_tool(case, &self.hosts, times, None)?;
            return Ok(Outcome { samples, facts, ..empty(case.clone()) });
        }
        let made = pairs(self.hosts.len()).into_iter().map(|pair| self.by_pair(case, pair, times));
        let made: Vec<PairResults> = made.collect::<Result<_, _>>()?;
        let all: Vec<(&PairResults, &PairAnswer)> =
            made.iter().filter_map(|one| Some((one, one.answers.first()?))).collect();
        let case = case.clone().with_word(SERVER, ALL_PAIRS);
        between::each(case, &all, &self.names).ok_or_else(|| CannotMeasure::not_here("there is no pair"))
    }

    /// Takes `times` samples between two nodes. Errors are in the result, except interruptions.
    fn by_pair(&self, case: &Case, pair: MachinePair, times: u32) -> Result<PairResults, CannotMeasure> {
        let hosts = [self.hosts[pair.from], self.hosts[pair.to]];
        let answer = match self.by_tool(case, &hosts, times, None) {
            Err(why) if why.cause == FailureCause::Interrupted => return Err(why),
            measured => measured.map(|(samples, _)| {
                let metric = plimsoll_bench::headline(case).map(|metric| metric.name).unwrap_or_default();
                let values = samples.iter().filter_map(|sample| sample.values.get(metric).copied());
                PairFigure { samples: values.collect(), ..PairFigure::default() }
            }),
        };
        Ok(PairResults { pair, kind: ALL_PAIRS, answers: vec![answer] })
    }

    /// Takes `times` samples with the first installed tool for `case`, one process per host;
    /// `system` is the HPL system to solve, `None` for MPI. Returns facts such as its command.
    fn by_tool(
        &self,
        case: &Case,
        hosts: &[&HostName],
        times: u32,
        system: Option<&HplSystem>,
    ) -> Result<(Vec<Sample>, Facts), CannotMeasure> {
        let search =
            ref_tools::search(&self.common.reference_path).map_err(|e| CannotMeasure::environment(e.line))?;
        let limit =
            system.map_or(TOOL_LIMIT, |system| MAX_TIMES_ESTIMATE * (system.seconds + TOOL_OVERHEAD_SECONDS));
        let through = through(&search, &self.launcher.name, hosts, limit)?;
        let mut reference_tools = ref_tools::started(Selection::all(search), self.fleet.interrupts.clone())
            .map_err(|e| CannotMeasure::environment(e.line))?;
        reference_tools.through = Some(through);
        let machine = &self.prepared.machine;
        let of_case = |ref_tool: &&&RefTool| {
            TOOLS.contains(&ref_tool.name) && (ref_tool.pairing)(case, machine).is_some()
        };
        let tools = REF_TOOLS.iter().filter(of_case).map(|ref_tool| ref_tool.name).collect();
        let (tools, mut why) = (Against::Named(tools), Vec::new());
        for mut tool in reference_tools.prepare_tools(&tools, case, machine, &Offer::default()) {
            let Some(mut prepared) = tool.prepared.take() else {
                why.push(format!("{}: {}", tool.about.name, tool.about.unavailable.unwrap_or_default()));
                continue;
            };
            if let Some(system) = system {
                super::super::complain(&system.estimate(&tool.about.name));
            }
            let sampled = |_| match system {
                Some(system) => sample(prepared.as_mut(), system.n),
                None => prepared.sample(SampleAmount::Work(1)),
            };
            let samples = (0..times).map(sampled).collect::<Result<Vec<Sample>, CannotMeasure>>()?;
            let mut facts = prepared.verify()?;
            facts.achieved.set(&PROGRAM, tool.about.command.join(" "));
            return Ok((samples, facts));
        }
        Err(CannotMeasure::not_here(format!("{}; install one of them on every machine", why.join("; "))))
    }
}

pub(super) fn empty(case: Case) -> Outcome {
    Outcome {
        case,
        repeat: 0,
        samples: Vec::new(),
        facts: Facts::default(),
        tool_results: Vec::new(),
        ended: None,
    }
}

/// Returns the ordered pairs of `machines` nodes to measure in turn: all for up to
/// [`MAX_PAIRED_NODES`] nodes, else each node with the next, and the last with the first.
fn pairs(machines: usize) -> Vec<MachinePair> {
    let ordered = |from: usize| (0..machines).map(move |to| MachinePair { from, to });
    match machines {
        0..=MAX_PAIRED_NODES => (0..machines).flat_map(ordered).filter(|pair| pair.from != pair.to).collect(),
        _ => (0..machines).map(|from| MachinePair { from, to: (from + 1) % machines }).collect(),
    }
}

const PROGRAM: CaseFact<String> = CaseFact::new("program");

/// Solves a system of `n` equations once. The elapsed time is computed from the tool's
/// rate, which it reports only if its residual check has passed.
fn sample(tool: &mut dyn plimsoll_bench::Prepared, n: u64) -> Result<Sample, CannotMeasure> {
    let mut sample = tool.sample(SampleAmount::Work(1))?;
    let rate = sample.values.get(RATE_METRIC).copied().unwrap_or(f64::NAN);
    sample.elapsed = operations(n as f64) / rate;
    sample.values.insert(TIME_METRIC.to_owned(), sample.elapsed);
    let residual = tool.verify()?.achieved.get(&fact::RESIDUAL).and_then(|text| text.parse().ok());
    sample.values.extend(residual.map(|residual: f64| (RESIDUAL.to_owned(), residual)));
    Ok(sample)
}

#[derive(Debug, PartialEq)]
struct HplSystem {
    case: Case,
    n: u64,
    grid: [u64; 2],
    threads: u64,
    machines: usize,
    seconds: f64,
    peak: Option<f64>,
}

impl HplSystem {
    /// Chooses order and process grid: one process per machine, with as many threads as the
    /// smallest has CPUs. `peak`, the machines' limit in FLOP/s, bounds the order by the budget.
    fn of(planned: &Planned, machines: &[&Machine], peak: Option<f64>) -> Result<Self, CannotMeasure> {
        let asked = DenseProblem::of(&planned.candidate.case);
        let nb = asked.nb.unwrap_or(1).max(1);
        let threads = machines.iter().map(|machine| machine.cpu_capacity() as u64).min().unwrap_or(1).max(1);
        let guess = ASSUMED_EACH * threads as f64 * machines.len() as f64;
        let rate = peak.map_or(guess, |peak| ASSUMED * peak);
        let n = match asked.n {
            Some(n) => n,
            None => order(machines, nb, planned.budget.map(|seconds| seconds * rate))?,
        };
        let count = machines.len() as u64;
        let [p, q] = match asked.grid {
            [None, None] => grid(count),
            [Some(p), Some(q)] if p * q == count => [p, q],
            _ => {
                let why = format!("--p × --q must be {count}, the number of machines: give both or neither");
                return Err(CannotMeasure::not_here(why));
            }
        };
        let counts = [("n", n), ("nb", nb), ("p", p), ("q", q), ("threads", threads)];
        let case =
            counts.iter().fold(Case::of(Hpl.name()), |case, (name, count)| case.with_count(name, *count));
        let seconds = operations(n as f64) / rate;
        Ok(Self { case, n, grid: [p, q], threads, machines: machines.len(), seconds, peak })
    }

    fn estimate(&self, tool: &str) -> String {
        let Self { n, grid: [p, q], threads, machines, .. } = self;
        let time = std::time::Duration::from_secs(self.seconds.ceil() as u64);
        let time = plimsoll_units::quantity::format_duration(time);
        let more = if tool == "hpcc" { ", and up to a minute for hpcc's other parts" } else { "" };
        format!(
            "cpu.hpl by {tool}: order {n} on {machines} machines, {p} × {q} processes of {threads} threads, about {time}{more}"
        )
    }
}

/// Returns the largest multiple of `nb` (at least `nb`) as order whose matrix fits in 80 % of all
/// nodes' memory, each like the smallest, and that takes at most `most` operations to solve.
fn order(machines: &[&Machine], nb: u64, most: Option<f64>) -> Result<u64, CannotMeasure> {
    let each = machines.iter().map(|machine| machine.memory_available_bytes());
    let least = each.collect::<Option<Vec<u64>>>().and_then(|all| all.into_iter().min());
    let least = least.ok_or_else(|| {
        CannotMeasure::not_here("the available memory of a machine is unknown: choose the order with --n")
    })?;
    let memory = (OF_MEMORY * least as f64 * machines.len() as f64 / 8.0).sqrt();
    let time = most.map_or(f64::INFINITY, |operations| (1.5 * operations).cbrt());
    Ok((memory.min(time) as u64 / nb * nb).max(nb))
}

/// Returns rows and columns of the process grid: as square as possible, with fewer rows.
fn grid(processes: u64) -> [u64; 2] {
    let rows = (1..=processes.isqrt()).rev().find(|rows| processes.is_multiple_of(*rows)).unwrap_or(1);
    [rows, processes / rows]
}

/// Returns the sum of the nodes' computed f64 FMA limits, FLOP/s; `None` if a node has none.
fn peak(run: &Run) -> Option<f64> {
    let of_node = |node: &Node| {
        let own = || run.measurements.iter().filter(|measurement| measurement.node == node.name);
        let all = run.machine_of(node).all_threads(own().map(|m| m.case.threads()));
        let fma = |m: &&Measurement| {
            let case = &m.case;
            case.benchmark() == Peak.name()
                && CpuKernel::of(case).names()[..2] == ["fma", "f64"]
                && case.threads() == all
        };
        let limits = own().filter(fma).filter_map(|m| m.metrics.first()?.limit.as_ref());
        let derived = limits.filter(|limit| limit.source == LimitSource::Derived);
        derived.filter_map(|limit| limit.value).max_by(f64::total_cmp)
    };
    run.nodes.iter().map(of_node).sum()
}

/// Returns the `mpirun` or `srun` call that starts one process of a tool on each host. `launcher`
/// is that of the run: `ssh` and `mpirun` select `mpirun`. `limit` is the tool's time limit in s.
fn through(
    search: &ProgramSearch,
    launcher: &str,
    hosts: &[&HostName],
    limit: f64,
) -> Result<ToolLauncher, CannotMeasure> {
    let (name, export, arguments) = match launcher {
        "ssh" | "mpirun" => ("mpirun", Some("-x"), words_of_mpirun(&addresses(hosts)?)),
        "srun" => ("srun", None, words_of_srun(&addresses(hosts)?)),
        _ => {
            let why = "mpirun or srun starts it on the machines: use --launcher ssh, mpirun or srun";
            return Err(CannotMeasure::not_here(why));
        }
    };
    let program = search.find(name, name, &[]);
    let program = program.map_err(|why| CannotMeasure::not_here(format!("{name}: {why}")))?;
    let is_its_own =
        |name: &OsStr| OF_LAUNCHERS.iter().any(|lead| name.as_encoded_bytes().starts_with(lead.as_bytes()));
    let variables = std::env::vars_os().filter(|(name, _)| is_its_own(name)).collect();
    Ok(ToolLauncher { program, arguments, export, variables, limit })
}

/// Returns the hosts' names for an MPI launcher. Fails if a host has a user or port.
fn addresses(hosts: &[&HostName]) -> Result<Vec<String>, CannotMeasure> {
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    let address = |host: &&HostName| match host.destination.as_str() {
        name if plain(name) && host.port.is_none() => Ok(name.to_owned()),
        name => {
            let name = shown_within(name, 64);
            let why = format!("MPI's launcher takes host names without user and port: '{name}'");
            Err(CannotMeasure::not_here(why))
        }
    };
    hosts.iter().map(address).collect()
}

fn words_of_mpirun(addresses: &[String]) -> Vec<String> {
    let slots: Vec<String> = addresses.iter().map(|name| format!("{name}:1")).collect();
    let (count, slots) = (addresses.len().to_string(), slots.join(","));
    let root = rustix::process::geteuid().is_root().then_some("--allow-run-as-root");
    let words = ["-n", &count, "-H", &slots, "--bind-to", "none"].into_iter().chain(PLAINLY).chain(root);
    words.map(str::to_owned).collect()
}

fn words_of_srun(addresses: &[String]) -> Vec<String> {
    let count = addresses.len();
    let counts = [format!("--nodes={count}"), format!("--ntasks={count}"), "--ntasks-per-node=1".to_owned()];
    let more = ["--overlap", "--cpu-bind=none", "--mem=0", "--quiet"].map(str::to_owned);
    counts.into_iter().chain([format!("--nodelist={}", addresses.join(","))]).chain(more).collect()
}

#[cfg(test)]
mod tests;
