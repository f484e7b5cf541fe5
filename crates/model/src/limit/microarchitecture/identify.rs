use std::collections::BTreeSet;

use plimsoll_machine::{Cpu, Machine};
use plimsoll_metal::kernel::{CoreRate, rate};

use super::evidence::{CpuEvidence, Name};
use super::table::{Caches, Microarchitecture, contains, table};
use crate::limit::{Limit, LimitSource};

const MOST_NAMED: usize = 4;

/// Certainty of a core's identification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The numbers select a row, and nothing contradicts it.
    Documented,
    /// The numbers are made up or ambiguous; features and caches leave these chips.
    Inferred,
}

/// A core, with the facts on which all chips that it can be agree.
#[derive(Debug, Clone)]
pub struct Core {
    rows: Vec<&'static Microarchitecture>,
    /// Common name, or several with "or".
    pub name: String,
    /// Certainty of the identification.
    pub identity: Identity,
    /// Basis of an inferred identification.
    pub note: Option<String>,
    /// Source of the facts.
    pub source: String,
    /// Largest level 3 in bytes of all chips that it can be, without stacked cache.
    pub l3_most: Option<u64>,
    /// Maximum number of cores that share a level 3, if all chips that it can be have such a bound.
    pub l3_cores: Option<u64>,
}

impl Core {
    /// Identifies the core of CPU `number` by family and model, or Arm's part, in a table of chips;
    /// fails if no row fits. If a hypervisor may have made them up, all rows of the vendor that
    /// nothing contradicts are candidates, and facts on which they agree are inferred. Missing
    /// features never count, as hypervisors hide them.
    pub fn of(machine: &Machine, number: usize) -> Result<Self, String> {
        if machine.is_emulated() {
            return Err(
                "QEMU emulates this processor (TCG, without KVM): the rates of no chip hold".to_owned()
            );
        }
        Self::seen(&machine.cpu, machine.virtualisation.is_virtual == Some(true), number)
    }

    /// Identifies the core that all `cpus` (kernel's numbers) have; fails if unknown or mixed.
    pub fn of_all(machine: &Machine, cpus: &[usize]) -> Result<Self, String> {
        let cores = cpus.iter().map(|cpu| Self::of(machine, *cpu)).collect::<Result<Vec<_>, _>>()?;
        Self::of_one_kind(machine, cpus)?;
        cores.into_iter().next().ok_or_else(|| "no CPU is known that the threads ran on".to_owned())
    }

    /// Fails unless all `cpus` (kernel's numbers) have the same kind of core, which may be unknown.
    pub fn of_one_kind(machine: &Machine, cpus: &[usize]) -> Result<(), String> {
        let kind = |cpu: &usize| Self::of(machine, *cpu).ok().map(|core| core.name);
        let kinds: BTreeSet<Option<String>> = cpus.iter().map(kind).collect();
        let several =
            "the threads ran on cores of several kinds; choose the CPUs of one kind with --affinity";
        if kinds.len() > 1 { Err(several.to_owned()) } else { Ok(()) }
    }

    /// Like [`Core::of`], without the rest of the machine; `in_guest` if there is a hypervisor.
    pub(super) fn seen(cpu: &Cpu, in_guest: bool, number: usize) -> Result<Self, String> {
        let rows = &table()?.microarchitecture;
        let arm = cpu.arm_of(number);
        let evidence = CpuEvidence::of(cpu, in_guest, number);
        if evidence.name == Name::MadeUp && evidence.is_virtual {
            let shown = cpu.model_name.as_deref().unwrap_or_default();
            let why = format!("the hypervisor shows a made-up processor, {shown}");
            return Self::inferred(rows, cpu, &evidence, &why);
        }
        let listed: Vec<_> = rows.iter().filter(|row| row.chip.is(cpu, arm.as_ref())).collect();
        if listed.is_empty() {
            let numbers =
                identity(cpu, number).ok_or("nothing tells what this processor is; give --limits")?;
            let what = "is not in data/microarchitectures.toml; add a row with its source, or give --limits";
            return Err(format!("{numbers} {what}"));
        }
        if arm.is_some() {
            // Missing features are hidden. A feature that such a core cannot have shows that a
            // hypervisor wrote the part (Linux, KVM_CAP_ARM_WRITABLE_IMP_ID_REGS).
            return match listed.iter().find_map(|row| evidence.impossible(row)) {
                None => Ok(Self::new(listed, Identity::Documented, None)),
                Some(against) => contradicted(&by_name(&listed, cpu, number), &against),
            };
        }
        let (named, against) = by_numbers(&listed, cpu, number, &evidence)?;
        if evidence.is_narrowed && against.is_none() && named.iter().any(|row| row.full_width.is_some()) {
            let note = format!(
                "{}: one FMA of 512 bits and two of 256 bits in a cycle were measured",
                names(&named)
            );
            return Ok(Self::new(named, Identity::Inferred, Some(note)));
        }
        let trusted = !evidence.is_virtual || matches!(evidence.name, Name::Product | Name::Missing);
        match against {
            None if trusted => Ok(Self::new(named, Identity::Documented, None)),
            None => {
                let hidden = masked(rows, &named, &evidence);
                if !hidden.is_empty() {
                    let all: Vec<_> = named.iter().copied().chain(hidden).collect();
                    let note = format!(
                        "{} may be shown as {}, and the name has no product's number",
                        names(&all),
                        names(&named)
                    );
                    return Ok(Self::new(all, Identity::Inferred, Some(note)));
                }
                let others = candidates(rows, cpu, &evidence);
                match others.iter().all(|row| named.iter().any(|n| n.name == row.name)) {
                    true => Ok(Self::new(named, Identity::Documented, None)),
                    false => Self::inferred(rows, cpu, &evidence, "family and model may be the hypervisor's"),
                }
            }
            Some(against) if !evidence.is_virtual => contradicted(&by_name(&named, cpu, number), &against),
            Some(against) => {
                let why = format!("{}, but that {against}", by_name(&named, cpu, number));
                Self::inferred(rows, cpu, &evidence, &why)
            }
        }
    }

    /// Identifies by features and caches; `why` is why numbers are not used. Fails if no row fits.
    fn inferred(
        rows: &'static [Microarchitecture],
        cpu: &Cpu,
        evidence: &CpuEvidence<'_>,
        why: &str,
    ) -> Result<Self, String> {
        let left = candidates(rows, cpu, evidence);
        if left.is_empty() {
            return Err(format!(
                "{why}; no chip in data/microarchitectures.toml has these features and caches; run plimsoll machine \
                 --save FILE.tar.gz and report it, or give --limits"
            ));
        }
        let note = format!("{} by features and caches: {why}", names(&left));
        Ok(Self::new(left, Identity::Inferred, Some(note)))
    }

    fn new(rows: Vec<&'static Microarchitecture>, identity: Identity, note: Option<String>) -> Self {
        Self {
            name: names(&rows),
            identity,
            note,
            source: match rows.as_slice() {
                [only] => only.source.clone(),
                _ => "the rows of all these chips, which agree".to_owned(),
            },
            l3_most: most_of(&rows, |caches| Some(caches.l3_usual.unwrap_or(caches.l3_most) << 10)),
            l3_cores: most_of(&rows, |caches| caches.l3_cores),
            rows,
        }
    }

    /// Returns number `key` (`l1_latency`) in the rows of all possible chips; `None` unless equal.
    pub fn number(&self, key: &str) -> Option<f64> {
        let mut numbers = self.rows.iter().map(|row| row.number(key));
        let first = numbers.next().flatten()?;
        numbers.all(|other| other == Some(first)).then_some(first)
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static Microarchitecture> + '_ {
        self.rows.iter().copied()
    }

    /// Returns how many `bits`-wide `of` start per cycle; fails if unknown or if the chips differ.
    pub fn per_cycle(&self, of: CoreRate, bits: u32, cpu: &Cpu) -> Result<f64, String> {
        let rates: Result<Vec<f64>, String> =
            self.rows.iter().map(|row| row.per_cycle(of, bits, cpu)).collect();
        let note = self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        let rates = rates.map_err(|why| why + &note)?;
        let first = rates.first().copied();
        first.filter(|first| rates.iter().all(|rate| rate == first)).ok_or_else(|| {
            let note = self.note.as_deref().unwrap_or(&self.name);
            format!("chips differ in the rate of {bits}-bit {}: {note}", of.name)
        })
    }

    /// Returns whether a candidate row has any rate: some rows have only a name.
    pub fn is_rated(&self) -> bool {
        self.rows.iter().any(|row| row.facts.contains_key(rate::ADD.key))
    }

    /// Returns the least latency in cycles of `of` on all possible chips; `None` if one is unknown.
    pub fn latency(&self, of: CoreRate) -> Option<f64> {
        let latencies: Option<Vec<f64>> = self.rows.iter().map(|row| row.latency(of)).collect();
        latencies?.into_iter().reduce(f64::min)
    }

    /// Returns `limit`; marked as inferred, with the reason, if the identification is inferred.
    pub fn mark(&self, limit: Limit) -> Limit {
        let Some(note) = self.note.as_ref().filter(|_| self.identity == Identity::Inferred) else {
            return limit;
        };
        Limit { source: LimitSource::Inferred, ..limit }.because(note)
    }
}

fn contradicted(numbers: &str, against: &str) -> Result<Core, String> {
    Err(format!(
        "{numbers}, but that {against}; run plimsoll machine --save FILE.tar.gz and report it, or give --limits"
    ))
}

/// Returns the largest value that `number` reads from the rows' caches; `None` if a row lacks it.
fn most_of(rows: &[&Microarchitecture], number: impl Fn(&Caches) -> Option<u64>) -> Option<u64> {
    let numbers: Option<Vec<u64>> = rows.iter().map(|row| number(row.caches.as_ref()?)).collect();
    numbers?.into_iter().max()
}

/// Returns the row in `listed` with vector width and kind of core of CPU `number`, none or one, and
/// what contradicts it, if anything. Fails if several are possible, or none has this kind.
fn by_numbers(
    listed: &[&'static Microarchitecture],
    cpu: &Cpu,
    number: usize,
    evidence: &CpuEvidence<'_>,
) -> Result<(Vec<&'static Microarchitecture>, Option<String>), String> {
    // If CPUID does not show the vector width, the model decides.
    let is_of_width = |row: &&&'static Microarchitecture| match (&row.full_width, evidence.is_512_wide) {
        (None, _) => true,
        (Some(listed), Some(reported)) => listed.is == reported,
        (Some(listed), None) => {
            cpu.model.is_some_and(|model| listed.models.iter().any(|range| contains(*range, model)))
        }
    };
    let mut rows: Vec<_> = listed.iter().filter(is_of_width).copied().collect();
    let kind = cpu.kinds.iter().find(|kind| kind.cpus.contains(number));
    if let Some(kind) = kind {
        rows.retain(|row| row.core_kind.as_deref().is_none_or(|wanted| wanted == kind.name));
        if rows.is_empty() {
            let why = "data/microarchitectures.toml has no row for cores of kind";
            return Err(format!("{why} {}", kind.name));
        }
    } else if rows.len() > 1 && !evidence.is_virtual && evidence.has_cpuid {
        // The kernel names no kinds: this CPU's caches and CPUID 0x1A decide.
        rows.retain(|row| evidence.contradiction(row).is_none());
    }
    if rows.len() > 1 {
        return Err(format!(
            "{} may have cores of several kinds, and this system does not report the kind of each core",
            identity(cpu, number).unwrap_or_default()
        ));
    }
    let against = rows.first().and_then(|row| evidence.contradiction(row));
    Ok((rows, against))
}

fn candidates(
    rows: &'static [Microarchitecture],
    cpu: &Cpu,
    evidence: &CpuEvidence<'_>,
) -> Vec<&'static Microarchitecture> {
    let is_of_vendor = |vendor: &str| cpu.vendor.as_deref() == Some(vendor);
    let of_vendor = rows.iter().filter(|row| row.chip.vendor().is_some_and(is_of_vendor));
    of_vendor.filter(|row| evidence.contradiction(row).is_none()).collect()
}

/// Returns the chips that hypervisors show as one of `named`, except those that a feature or
/// measured rate contradicts. Caches do not count, as they are masked too.
fn masked(
    rows: &'static [Microarchitecture],
    named: &[&'static Microarchitecture],
    evidence: &CpuEvidence<'_>,
) -> Vec<&'static Microarchitecture> {
    let is_masked = |row: &&Microarchitecture| named.iter().any(|shown| shown.mask_of.contains(&row.name));
    let is_possible = |row: &&Microarchitecture| {
        evidence.impossible(row).is_none() && evidence.exceeded_rate(row).is_none()
    };
    rows.iter().filter(is_masked).filter(is_possible).collect()
}

/// Formats the first four names of the rows: `A, B or C`, or `A, B, C, D or 5 others`.
fn names(rows: &[&Microarchitecture]) -> String {
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.dedup();
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    match (names.split_last(), more) {
        (None, _) => String::new(),
        (Some((last, [])), 0) => (*last).to_owned(),
        (Some((last, others)), 0) => format!("{} or {last}", others.join(", ")),
        _ => format!("{} or {more} others", names.join(", ")),
    }
}

/// Formats the chips `named` by the IDs of CPU `number`: `implementer and part say A or B`.
fn by_name(named: &[&Microarchitecture], cpu: &Cpu, number: usize) -> String {
    let of_arm = cpu.arm_of(number).is_some();
    let numbers = if of_arm { "implementer and part" } else { "CPUID's family and model" };
    format!("{numbers} say {}", names(named))
}

/// Formats the IDs of CPU `number`'s chip: `GenuineIntel family 6 model 85`; `None` if unknown.
fn identity(cpu: &Cpu, number: usize) -> Option<String> {
    match (cpu.vendor.as_deref(), cpu.family, cpu.model, cpu.arm_of(number)) {
        (Some(vendor), Some(family), Some(model), _) => {
            Some(format!("{vendor} family {family} model {model}"))
        }
        (_, _, _, Some(arm)) => Some(format!("Arm implementer {:#x} part {:#x}", arm.implementer, arm.part)),
        _ => None,
    }
}
