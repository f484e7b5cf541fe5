use super::sys_cpu;
use crate::{Cpu, CpuSet, Cpuid, Survey};
use serde::{Deserialize, Serialize};

const MAX_INDEX: usize = 16;

/// Measured share of a last-level cache for one CPU: a guest is shown the whole cache of its host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EffectiveCache {
    /// Bytes of one last-level cache with fast loads, rounded up to a power of two.
    pub bytes: u64,
    /// Fill rate of memory during the measurement in bytes/s, rounded down to a power of two.
    pub fill_rate: f64,
}

impl EffectiveCache {
    /// Largest ratio of two equal measurements: one step of rounding, which chance alone makes.
    const ROUNDING_STEP: f64 = 2.0;

    /// Returns the values of `earlier`, from another run, but a new value that differs by more than
    /// a factor of 2: names of benchmark cases contain the values and should not change.
    #[must_use]
    pub fn keep_earlier(self, earlier: Self) -> Self {
        let same = |now: f64, before: f64| {
            (1.0 / Self::ROUNDING_STEP..=Self::ROUNDING_STEP).contains(&(now / before))
        };
        let bytes = if same(self.bytes as f64, earlier.bytes as f64) { earlier.bytes } else { self.bytes };
        let rates = if same(self.fill_rate, earlier.fill_rate) { earlier } else { self };
        Self { bytes, fill_rate: rates.fill_rate }
    }
}

/// A group of identical caches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCache {
    /// Level; 1 is nearest to the core.
    pub level: u8,
    /// Contents of the cache.
    pub kind: CacheKind,
    /// Size of one cache in bytes.
    pub size_bytes: Option<u64>,
    /// Line size in bytes.
    pub line_bytes: Option<u32>,
    /// Associativity.
    pub ways: Option<u32>,
    /// Distinct caches, each as the CPUs that share it.
    pub instances: Vec<CpuSet>,
    /// CPUs with such a cache whose sharing is unknown.
    pub sharing_unknown: CpuSet,
}

/// Contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Data and instructions.
    Unified,
    /// Unknown.
    Unknown,
}

impl CpuCache {
    /// Returns whether the cache holds data; true if its contents are unknown.
    pub fn holds_data(&self) -> bool {
        self.kind != CacheKind::Instruction
    }

    /// Returns whether `cpu` uses a cache of this group.
    pub fn serves(&self, cpu: usize) -> bool {
        self.sharing_unknown.contains(cpu) || self.instances.iter().any(|set| set.contains(cpu))
    }
}

impl Cpu {
    /// Returns (total bytes, number) of the distinct last-level caches of `cpus`, the last level of
    /// each CPU; `None` if a size or the sharing is unknown, or without caches.
    pub fn last_level_of(&self, cpus: &CpuSet) -> Option<(u64, u64)> {
        let mut total = 0_u64;
        let mut counted: Vec<(usize, usize)> = Vec::new();
        for cpu in cpus.iter() {
            let all = self.caches.iter().enumerate();
            let own = all.filter(|(_, cache)| cache.holds_data() && cache.serves(cpu));
            let (kind, cache) = own.max_by_key(|(_, cache)| cache.level)?;
            let instance = cache.instances.iter().position(|set| set.contains(cpu))?;
            if !counted.contains(&(kind, instance)) {
                counted.push((kind, instance));
                total = total.checked_add(cache.size_bytes?)?;
            }
        }
        (total > 0).then_some((total, counted.len() as u64))
    }

    /// Returns the total bytes of the L2 caches of `cpus`, without L2 caches that are the last
    /// level. A CPU with unknown sharing counts as one cache, an unknown size as 0.
    pub fn level_2_of(&self, cpus: &CpuSet) -> u64 {
        let caches = || self.caches.iter().filter(|cache| cache.holds_data());
        let has_further = |cpu: usize| caches().any(|cache| cache.level > 2 && cache.serves(cpu));
        let bytes = caches().filter(|cache| cache.level == 2).map(|cache| {
            let counts = |set: &CpuSet| set.common(cpus).iter().any(has_further);
            let known = cache.instances.iter().filter(|set| counts(set)).count();
            let alone = cache.sharing_unknown.common(cpus).iter().filter(|cpu| has_further(*cpu)).count();
            cache.size_bytes.unwrap_or(0).saturating_mul((known + alone) as u64)
        });
        bytes.fold(0, u64::saturating_add)
    }
}

/// Reads the caches of the `online` CPUs from sysfs, identical ones combined, by level and kind.
pub(super) fn discover(s: &mut Survey, online: &CpuSet) -> Vec<CpuCache> {
    let mut caches: Vec<CpuCache> = Vec::new();
    for cpu in online.iter() {
        for index in 0..MAX_INDEX {
            let Some((found, sharers)) = one(s, cpu, index) else { break };
            add(&mut caches, found, cpu, sharers);
        }
    }
    if caches.is_empty() {
        s.note("cpu.caches", "/sys/devices/system/cpu/cpu*/cache is not there");
    }
    for cache in &caches {
        let what = format!("cpu.caches.L{}", cache.level);
        if cache.kind == CacheKind::Unknown {
            s.note(&format!("{what}.kind"), "no usable \"type\" in /sys/devices/system/cpu/cpu*/cache");
        }
        let why = "no usable \"size\" in /sys/devices/system/cpu/cpu*/cache";
        s.keep(&format!("{what}.size"), cache.size_bytes.ok_or(why));
        if !cache.sharing_unknown.is_empty() {
            let why = "no usable \"shared_cpu_list\" in /sys/devices/system/cpu/cpu*/cache";
            s.note(&format!("{what}.sharing"), why);
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind));
    caches
}

/// Returns the caches that CPUID lists, identical ones combined; their sharing is unknown.
pub(super) fn of_cpuid(cpuid: &Cpuid, online: &CpuSet) -> Vec<CpuCache> {
    let mut caches = Vec::new();
    for cpu in online.iter() {
        for found in cpuid.of(cpu).map(|answers| answers.caches()).unwrap_or_default() {
            add(&mut caches, found, cpu, None);
        }
    }
    caches
}

/// Reads cache `index` (from 0) of `cpu` and which CPUs share it, if listed; `None` if not there.
fn one(s: &mut Survey, cpu: usize, index: usize) -> Option<(CpuCache, Option<CpuSet>)> {
    let dir = sys_cpu(cpu).join(format!("cache/index{index}"));
    if !s.root.exists(&dir) {
        return None;
    }
    let level = s.keep("cpu.caches", s.root.parse::<u8>(dir.join("level"), "a cache level"))?;
    let kind = match s.root.text(dir.join("type")).as_deref() {
        Ok("Data") => CacheKind::Data,
        Ok("Instruction") => CacheKind::Instruction,
        Ok("Unified") => CacheKind::Unified,
        _ => CacheKind::Unknown,
    };
    let number = |name: &str| s.root.parse::<u32>(dir.join(name), "a number").ok().filter(|&n| n > 0);
    let cache = CpuCache {
        level,
        kind,
        size_bytes: s.root.text(dir.join("size")).ok().and_then(|text| parse_size(&text)),
        line_bytes: number("coherency_line_size"),
        ways: number("ways_of_associativity"),
        instances: Vec::new(),
        sharing_unknown: CpuSet::default(),
    };
    let sharers = s.root.parse::<CpuSet>(dir.join("shared_cpu_list"), "a CPU list").ok();
    Some((cache, sharers.filter(|set| set.contains(cpu))))
}

fn add(caches: &mut Vec<CpuCache>, found: CpuCache, cpu: usize, sharers: Option<CpuSet>) {
    let key = |c: &CpuCache| (c.level, c.kind, c.size_bytes, c.line_bytes, c.ways);
    let place = caches.iter().position(|c| key(c) == key(&found)).unwrap_or_else(|| {
        caches.push(found);
        caches.len() - 1
    });
    let Some(cache) = caches.get_mut(place) else { return };
    match sharers {
        // Two instances cannot have a CPU in common: contradictory lists are unknown sharing.
        Some(set) if cache.instances.contains(&set) => {}
        Some(set) if !cache.instances.iter().any(|other| other.meets(&set)) => cache.instances.push(set),
        _ => cache.sharing_unknown.insert(cpu),
    }
}

/// Parses a size such as `32K` (32 KiB) to bytes; `None` outside 1 B to 1 TiB.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last()? {
        (end, 'K') => (&text[..end], 1_u64 << 10),
        (end, 'M') => (&text[..end], 1 << 20),
        (end, 'G') => (&text[..end], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    Some(bytes).filter(|bytes| (1..=1 << 40).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn tree(cpus: &str, index: u8, level: u8, size: &str, shared: &str) -> String {
        let dir = format!("sys/devices/system/cpu/cpu[{cpus}]/cache/index{index}");
        format!(
            "{dir}/level = {level}\n{dir}/type = Unified\n{dir}/size = {size}\n{dir}/shared_cpu_list = {shared}\n"
        )
    }

    fn last_level(tree: &str, allowed: &str) -> Option<u64> {
        let fixture = Fixture::unpack(tree).unwrap();
        let caches = discover(&mut Survey::new(&fixture.root), &"0-7".parse().unwrap());
        let cpu = Cpu { caches, ..Cpu::default() };
        cpu.last_level_of(&allowed.parse().unwrap()).map(|(bytes, _)| bytes >> 10)
    }

    #[test]
    fn what_was_found_before_holds_on_until_it_is_more_than_a_step_away() {
        let found = |bytes, fill_rate| EffectiveCache { bytes, fill_rate };
        let earlier = found(128 << 20, 2e9);
        for now in [found(64 << 20, 4e9), found(256 << 20, 1e9), earlier] {
            assert_eq!(now.keep_earlier(earlier), earlier);
        }
        assert_eq!(found(512 << 20, 4e9).keep_earlier(earlier), found(512 << 20, 2e9));
        assert_eq!(found(64 << 20, 8e9).keep_earlier(earlier), found(128 << 20, 8e9));
        let said = found(32 << 20, 2e9).keep_earlier(found(64 << 20, 2e9).keep_earlier(earlier)).bytes;
        assert_eq!(said, 32 << 20);
        let broken = found(0, f64::NAN);
        assert_eq!(found(64 << 20, 1e9).keep_earlier(broken), found(64 << 20, 1e9));
    }

    #[test]
    fn only_the_caches_of_allowed_cpus_count_each_once() {
        let two = tree("0-3", 0, 3, "16384K", "0-3") + &tree("4-7", 0, 3, "16384K", "4-7");
        let found = ["0-7", "1-2", "3-4", "0-8"].map(|allowed| last_level(&two, allowed));
        assert_eq!(found, [Some(32768), Some(16384), Some(32768), None]);
    }

    #[test]
    fn each_cpus_own_highest_level_is_its_last() {
        let mixed = tree("0-3", 0, 2, "512K", "{n}")
            + &tree("0-3", 1, 3, "8M", "0-3")
            + &tree("4-5", 0, 2, "512K", "4-5")
            + &tree("6-7", 0, 2, "512K", "6-7");
        assert_eq!(last_level(&mixed, "0-7"), Some(8192 + 512 + 512));
    }

    #[test]
    fn level_2_counts_beside_a_further_level_and_each_cache_once() {
        let text = tree("0-1", 0, 2, "512K", "0-1")
            + &tree("2-3", 0, 2, "512K", "2-3")
            + &tree("4-7", 0, 2, "256K", "{n}")
            + &tree("0-3", 1, 3, "8M", "0-3")
            + &tree("4-5", 1, 3, "8M", "4-5");
        let fixture = Fixture::unpack(&text).unwrap();
        let caches = discover(&mut Survey::new(&fixture.root), &"0-7".parse().unwrap());
        let cpu = Cpu { caches, ..Cpu::default() };
        let kib = |cpus: &str| cpu.level_2_of(&cpus.parse().unwrap()) >> 10;
        assert_eq!([kib("0"), kib("0-1"), kib("0,2")], [512, 512, 1024]);
        assert_eq!(kib("0-7"), 1024 + 512, "those of CPUs 6 and 7 are their last level");
    }

    #[test]
    fn sharing_that_contradicts_itself_is_not_known() {
        let odd = tree("0-3", 0, 3, "16384K", "0-3") + &tree("4-7", 0, 3, "16384K", "3-7");
        assert_eq!(last_level(&odd, "0-7"), None);
        assert_eq!(last_level(&odd, "0-3"), Some(16384));
    }

    #[test]
    fn sizes_are_read_with_their_unit_and_bounded() {
        assert_eq!(["32K", "1M", "64"].map(parse_size), [32 << 10, 1 << 20, 64].map(Some));
        for text in ["", "0K", "K", "-1K", "1.5M", "99999999G", "32k", "18446744073709551615G", "3é"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
