use super::sys_cpu;
use crate::root::garbled;
use crate::state::turbo;
use crate::{CpuSet, Survey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Clock limits and policy of the allowed CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuClock {
    /// Nominal clock in Hz, the highest of the allowed CPUs.
    pub base_hz: Option<u64>,
    /// Source of the nominal clock.
    pub base_source: Option<String>,
    /// Highest clock in Hz, turbo included, of the allowed CPUs.
    pub max_hz: Option<u64>,
    /// Lowest clock in Hz allowed by the policy, the lowest of the allowed CPUs.
    pub min_hz: Option<u64>,
    /// Clock driver: `intel_pstate`, `acpi-cpufreq`, `amd-pstate-epp` …
    pub driver: Option<String>,
    /// Governors in use on the allowed CPUs.
    pub governors: BTreeSet<String>,
}

/// Offset of the ACPI entry that only marks the existence of turbo, in Hz above the nominal clock.
const TURBO_MARK_HZ: u64 = 1_000_000;

impl CpuClock {
    pub(super) fn discover(s: &mut Survey, allowed: &CpuSet, model_name: Option<&str>) -> Self {
        let each = |name: &str| -> Vec<u64> {
            allowed.iter().filter_map(|cpu| s.root.number(sys_cpu(cpu).join(name)).ok()).collect()
        };
        let hz = |found: Option<&u64>, unit: u64| {
            found.and_then(|n| n.checked_mul(unit)).filter(|&hz| (1_000_000..=100_000_000_000).contains(&hz))
        };
        let max_hz = hz(each("cpufreq/cpuinfo_max_freq").iter().max(), 1000);
        let min_hz = hz(each("cpufreq/scaling_min_freq").iter().min(), 1000);
        let base = [
            ("cpufreq/base_frequency", hz(each("cpufreq/base_frequency").iter().max(), 1000)),
            ("acpi_cppc/nominal_freq", hz(each("acpi_cppc/nominal_freq").iter().max(), 1_000_000)),
            ("model name", model_name.and_then(clock_in_name)),
        ];
        let base = base.into_iter().find_map(|(source, hz)| Some((source, hz?)));
        let policy = |cpu: usize, name: &str| s.root.line(sys_cpu(cpu).join("cpufreq").join(name));
        let governors = allowed.iter().filter_map(|cpu| policy(cpu, "scaling_governor").ok()).collect();
        let first = allowed.first().unwrap_or(0);
        let driver = policy(first, "scaling_driver").ok();
        let is_nominal = |max: u64| base.is_none_or(|(_, base)| max <= base.saturating_add(TURBO_MARK_HZ));
        let hides_turbo = driver.as_deref() == Some("acpi-cpufreq") && turbo(s.root) == Some(true);
        let shown_hz = max_hz;
        let max_hz = shown_hz.filter(|&max| !(hides_turbo && is_nominal(max)));
        if shown_hz.is_some() && max_hz.is_none() {
            let why = "acpi-cpufreq reports the highest clock without turbo, and turbo is allowed";
            s.note("cpu.clock.max_hz", why);
        } else if max_hz.is_none() {
            let path = sys_cpu(first).join("cpufreq/cpuinfo_max_freq");
            let why =
                s.root.text(&path).map_or_else(|why| why, |text| garbled(&path, &text, "a clock in kHz"));
            s.note("cpu.clock.max_hz", why);
        }
        let why = "neither cpufreq, nor CPPC, nor the model name tells it";
        let base = s.keep("cpu.clock.base_hz", base.ok_or(why));
        let (base_source, base_hz) = base.map(|(source, hz)| (source.to_owned(), hz)).unzip();
        Self { base_hz, base_source, max_hz, min_hz, driver, governors }
    }
}

/// Returns the clock in Hz in a model name such as `Xeon(R) Gold 6230 CPU @ 2.10GHz`, else `None`.
fn clock_in_name(name: &str) -> Option<u64> {
    let ghz = name.rsplit_once("@ ")?.1.strip_suffix("GHz")?;
    let (whole, part) = ghz.split_once('.')?;
    let digits = [whole, part].iter().all(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    if !digits || part.len() != 2 {
        return None;
    }
    let hundredths = whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part.parse().ok()?)?;
    let hz = hundredths.checked_mul(10_000_000)?;
    Some(hz).filter(|&hz| (100_000_000..=20_000_000_000).contains(&hz))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_without_turbo_is_not_the_highest_where_turbo_is_allowed() {
        let highest = |driver: &str, boost: u8, khz: u64| {
            let cpufreq = "sys/devices/system/cpu/cpu0/cpufreq";
            let tree = format!(
                "{cpufreq}/cpuinfo_max_freq = {khz}\n{cpufreq}/scaling_driver = {driver}\n\
                 sys/devices/system/cpu/cpufreq/boost = {boost}\n"
            );
            let fixture = crate::fixture::Fixture::unpack(&tree).unwrap();
            let mut survey = Survey::new(&fixture.root);
            let name = Some("Intel(R) Xeon(R) CPU E5-2670 v3 @ 2.30GHz");
            CpuClock::discover(&mut survey, &CpuSet::single(0), name).max_hz
        };
        let with_boost = [2_300_000, 2_301_000, 3_100_000].map(|khz| highest("acpi-cpufreq", 1, khz));
        assert_eq!(with_boost, [None, None, Some(3_100_000_000)]);
        assert_eq!(highest("acpi-cpufreq", 0, 2_300_000), Some(2_300_000_000));
        assert_eq!(highest("intel_pstate", 1, 2_300_000), Some(2_300_000_000));
    }

    #[test]
    fn the_clock_in_a_name_is_read_exactly() {
        assert_eq!(clock_in_name("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"), Some(2_100_000_000));
        assert_eq!(clock_in_name("Intel(R) Core(TM) i7-8086K CPU @ 4.00GHz"), Some(4_000_000_000));
        let unknown = ["AMD EPYC 7543 32-Core Processor", "x @ GHz", "x @ 2.1GHz", "x @ +2.10GHz"];
        assert_eq!(unknown.map(clock_in_name), [None; 4]);
        assert_eq!(["x @ 0.00GHz", "x @ 99999999999999999999.10GHz"].map(clock_in_name), [None; 2]);
    }
}
