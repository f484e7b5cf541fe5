use plimsoll_bench_api::prelude::*;
use plimsoll_machine::Cpu;
use plimsoll_model::limit::microarchitecture::Core;
use plimsoll_units::quantity::format::significant;

pub(super) struct Share {
    pub(super) cpus: f64,
    pub(super) threads_per_core: usize,
    pub(super) name: &'static str,
    from: String,
    /// Factor by which the number can be exceeded for a short time.
    burst: Option<f64>,
}

impl Share {
    pub(super) fn of(question: &Question<'_>, cpus: &CpuSet) -> Self {
        let cores = question.machine.cpu.cores_of(cpus).unwrap_or(cpus.len()) as f64;
        match question.machine.cgroup.cpu_quota.as_ref().filter(|quota| quota.cpus() < cores) {
            Some(quota) => Self {
                cpus: quota.cpus(),
                threads_per_core: 1,
                name: "CPUs of the quota",
                from: format!("{} of each {} µs, by {}", quota.quota_us, quota.period_us, quota.group),
                burst: Some(cores / quota.cpus()),
            },
            None => {
                let threads_per_core = max_threads_per_core(&question.machine.cpu, cpus);
                let from = format!("of CPUs {cpus}");
                Self { cpus: cores, threads_per_core, name: "cores", from, burst: None }
            }
        }
    }

    /// Returns the limit at each sample's clock if a core does `per_cycle`, `formula` of `inputs`.
    pub(super) fn at_the_clock(
        &self,
        question: &Question<'_>,
        per_cycle: f64,
        formula: &str,
        mut inputs: Vec<Input>,
    ) -> Result<Limit, String> {
        let (each, median) = question.clocks()?;
        let per_cycle = per_cycle * self.cpus;
        let from = "measured between the slices of each sample, in work of the same kind; median";
        inputs.push(Input::new("clock", median, "Hz", from));
        inputs.push(Input::new(self.name, self.cpus, "1", &self.from));
        let formula = format!("{formula} × clock × {}", self.name);
        let limit =
            Limit::fixed(LimitKind::Ceiling, LimitSource::Derived, per_cycle * median, &formula, inputs);
        let per_sample = each.into_iter().map(|clock| per_cycle * clock).collect();
        Ok(Limit { per_sample, burst: self.burst, ..limit })
    }
}

/// Returns the most of `cpus` on one core, including siblings that a hypervisor hides; at least 1.
pub(super) fn max_threads_per_core(cpu: &Cpu, cpus: &CpuSet) -> usize {
    let of = |number| cpu.logical(number).map_or(1, |logical| logical.siblings.common(cpus).len());
    let hidden = cpu.hidden_siblings.iter().map(|siblings| siblings.common(cpus).len());
    cpus.iter().map(of).chain(hidden).max().unwrap_or(1).max(1)
}

/// Rate at which a core starts instructions of one kind.
pub(super) struct UnitRate {
    pub(super) core: Core,
    pub(super) name: &'static str,
    pub(super) bits: u32,
    pub(super) per_cycle: f64,
    /// Dependent chains on a core and their latency in cycles, if they limit the rate.
    waiting: Option<(f64, f64)>,
}

impl UnitRate {
    /// `started`: instructions per cycle if none waits; `chained`: chains and latency, if known.
    pub(super) fn new(
        core: Core,
        name: &'static str,
        bits: u32,
        started: f64,
        chained: Option<(f64, f64)>,
    ) -> Self {
        let waiting = chained.filter(|(chains, latency)| chains / latency < started);
        let per_cycle = waiting.map_or(started, |(chains, latency)| chains / latency);
        Self { core, name, bits, per_cycle, waiting }
    }

    pub(super) fn source(&self) -> String {
        format!("{}, data/microarchitectures.toml: {}", self.core.name, self.core.source)
    }

    pub(super) fn formula(&self) -> (String, Vec<Input>) {
        let row = self.source();
        match self.waiting {
            Some((chains, latency)) => {
                let chains = Input::new("chains", chains, "1", "of the threads of a core");
                ("chains ÷ latency".to_owned(), vec![chains, Input::new("latency", latency, "cycles", &row)])
            }
            None => {
                let name = format!("{} per cycle", self.name);
                let input = Input::new(&name, self.per_cycle, "1/cycle", &row);
                (name, vec![input])
            }
        }
    }

    /// Describes the chip's rate on which the limit rests, as the subject of "is wrong here".
    pub(super) fn fact(&self) -> String {
        let (name, core) = (self.name, &self.core.name);
        match self.waiting {
            Some((_, latency)) => {
                format!("{} cycles from one of the {name} to the next ({core})", significant(latency, 3))
            }
            None => {
                format!("{} {name} of {} bits per cycle ({core})", significant(self.per_cycle, 3), self.bits)
            }
        }
    }
}
