use plimsoll_bench_api::prelude::*;
use plimsoll_machine::Cpu;
use plimsoll_model::limit::median;
use plimsoll_model::limit::microarchitecture::Core;

/// Returns each sample's core clock and their median, in Hz. Fails if a sample has no clock.
pub(super) fn clocks(question: &Question<'_>) -> Result<(Vec<f64>, f64), String> {
    let each: Option<Vec<f64>> = question.samples.iter().map(|sample| sample.conditions.clock_hz).collect();
    let each = each.ok_or("the core clock could not be measured")?;
    let median = median(each.clone()).ok_or("there is no sample with a clock")?;
    Ok((each, median))
}

pub(super) fn clock_input(median: f64) -> Input {
    let from = "measured between the slices of each sample, in work of the same kind; median";
    Input::new("clock", median, "Hz", from)
}

/// Returns the type of core that all these CPUs have. Fails if it is unknown or mixed.
pub(super) fn core_of(machine: &Machine, cpus: &CpuSet) -> Result<Core, String> {
    let mut cores = cpus.iter().map(|number| Core::of(machine, number));
    let core = cores.next().ok_or("no CPU is known that the threads ran on")??;
    for other in cores {
        if other?.name != core.name {
            let why =
                "the threads ran on cores of several kinds; choose the CPUs of one kind with --affinity";
            return Err(why.to_owned());
        }
    }
    Ok(core)
}

pub(super) struct Share {
    pub(super) cpus: f64,
    pub(super) is_quota: bool,
    pub(super) name: &'static str,
    pub(super) from: String,
    /// Factor by which the number can be exceeded for a short time.
    pub(super) burst: Option<f64>,
}

impl Share {
    pub(super) fn of(question: &Question<'_>, cpus: &CpuSet) -> Self {
        let cores = question.machine.cpu.cores_of(cpus).unwrap_or(cpus.len()) as f64;
        match question.machine.cgroup.cpu_quota.as_ref().filter(|quota| quota.cpus() < cores) {
            Some(quota) => Self {
                cpus: quota.cpus(),
                is_quota: true,
                name: "CPUs of the quota",
                from: format!("{} of each {} µs, by {}", quota.quota_us, quota.period_us, quota.group),
                burst: Some(cores / quota.cpus()),
            },
            None => {
                let from = format!("of CPUs {cpus}");
                Self { cpus: cores, is_quota: false, name: "cores", from, burst: None }
            }
        }
    }
}

/// Returns the most of `cpus` on one core, including siblings that a hypervisor hides; at least 1.
pub(super) fn max_threads_per_core(cpu: &Cpu, cpus: &CpuSet) -> usize {
    let of = |number| cpu.logical(number).map_or(1, |logical| logical.siblings.common(cpus).len());
    let hidden = cpu.hidden_siblings.iter().map(|siblings| siblings.common(cpus).len());
    cpus.iter().map(of).chain(hidden).max().unwrap_or(1).max(1)
}
