use plimsoll_machine::{Health, Machine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest name of a chip in a testbed key.
const MAX_CHIP_CHARACTERS: usize = 32;

/// Facts that must be equal for wall times to be compared, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint {
    /// Values by name, such as `kernel`.
    pub facts: BTreeMap<String, String>,
}

/// A fact that differs between two machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactDifference {
    /// Name of the fact.
    pub fact: String,
    /// Value of the baseline.
    pub baseline: String,
    /// Value here.
    pub here: String,
}

impl Fingerprint {
    /// Reads the facts of a machine and of its health.
    pub fn new(machine: &Machine, health: &Health) -> Self {
        let mitigations = health.mitigations.iter().map(|(name, text)| format!("{name}: {text}"));
        let gib = machine.memory.total_bytes.map(|bytes| (bytes.saturating_add(1 << 29)) >> 30);
        let quota = machine.cgroup.cpu_quota.as_ref().map(|quota| format!("{} CPUs", quota.cpus()));
        let limit = machine.cgroup.memory.as_ref().map(|memory| format!("{} MiB", memory.limit_bytes >> 20));
        let facts = [
            ("hardware", Some(machine.id.clone())),
            ("chip", machine.cpu.model_name.clone()),
            ("microcode", Some(health.microcode.join(", ")).filter(|text| !text.is_empty())),
            ("mitigations", Some(mitigations.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())),
            ("kernel", machine.kernel.release.clone()),
            ("memory", gib.map(|gib| format!("{gib} GiB"))),
            ("cpus", Some(machine.cpu.allowed.len().to_string())),
            ("quota", Some(quota.unwrap_or_else(|| "none".to_owned()))),
            ("memory limit", Some(limit.unwrap_or_else(|| "none".to_owned()))),
            ("hypervisor", machine.virtualisation.hypervisor.clone()),
        ];
        let known = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self { facts: known.collect() }
    }

    /// Returns the facts that differ from those of `baseline`; unknown ones are not compared.
    pub fn differences(&self, baseline: &Self) -> Vec<FactDifference> {
        let differs = |(fact, here): (&String, &String)| {
            let baseline = baseline.facts.get(fact).filter(|baseline| *baseline != here)?;
            Some(FactDifference { fact: fact.clone(), baseline: baseline.clone(), here: here.clone() })
        };
        let all: Vec<FactDifference> = self.facts.iter().filter_map(differs).collect();
        // The hash of the hardware is shown only if nothing else explains it.
        let named = all.iter().any(|one| one.fact != "hardware");
        all.into_iter().filter(|one| !named || one.fact != "hardware").collect()
    }

    /// Returns a key such as `xeon-8488c-2cpu-1f2e3d4c`, equal only on equal machines, for services
    /// that keep figures by testbed.
    pub fn testbed(&self) -> String {
        let chip = self.facts.get("chip").map_or("machine", String::as_str);
        let words = chip.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let chip = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
        let chip: String = chip.chars().take(MAX_CHIP_CHARACTERS).collect();
        let cpus = self.facts.get("cpus").map_or("0", String::as_str);
        let facts: Vec<String> = self.facts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        // FNV-1a, 32 bits.
        let bytes = facts.iter().flat_map(|fact| fact.bytes().chain([0]));
        let hash =
            bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("{}-{cpus}cpu-{hash:08x}", chip.trim_end_matches('-'))
    }
}
