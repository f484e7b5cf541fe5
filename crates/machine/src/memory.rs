//! Memory, swap, huge pages and NUMA nodes, from `/proc/meminfo`, `/sys/kernel/mm` and sysfs.

use super::root::{ReadError, garbled};
use super::smbios::{self, Module};
use super::{CpuSet, Root, Survey};
use plimsoll_units::text::shown;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const MEMINFO: &str = "proc/meminfo";
const POOLS: &str = "sys/kernel/mm/hugepages";
/// Most NUMA nodes that are read (`CONFIG_NODES_SHIFT` is at most 10).
const MAX_NODES: usize = 1024;

/// Memory as seen by the kernel; a control group may allow less.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Usable memory in bytes.
    pub total_bytes: Option<u64>,
    /// Memory available without swapping in bytes, estimated by the kernel.
    pub available_bytes: Option<u64>,
    /// Swap space in bytes.
    pub swap_total_bytes: Option<u64>,
    /// Free swap space in bytes.
    pub swap_free_bytes: Option<u64>,
    /// Pools of huge pages by page size.
    pub huge_pages: Vec<HugePages>,
    /// Active mode of transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_huge_pages: Option<String>,
    /// Active defrag mode of transparent huge pages: `always`, `defer`, `madvise` …
    pub transparent_huge_pages_defrag: Option<String>,
    /// Size of an ordinary page in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u64>,
    /// Size of a transparent huge page in bytes.
    pub transparent_huge_page_bytes: Option<u64>,
    /// NUMA nodes; a node may lack memory or CPUs.
    pub nodes: Vec<NumaNode>,
    /// Memory modules described by the firmware.
    pub modules: Option<Vec<Module>>,
}

/// A pool of huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Page size in bytes.
    pub size_bytes: u64,
    /// Pages in the pool.
    pub total: Option<u64>,
    /// Free pages.
    pub free: Option<u64>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The kernel's number.
    pub id: usize,
    /// Online CPUs of the node.
    pub cpus: CpuSet,
    /// Memory in bytes; too small on several nodes during background initialization by the kernel.
    pub total_bytes: Option<u64>,
    /// Memory in bytes that is free or holds reclaimable file pages.
    pub free_bytes: Option<u64>,
    /// Pools of huge pages of the node, smallest page first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub huge_pages: Vec<HugePages>,
    /// Distance to each node by number; 10 is the node itself (ACPI specification, SLIT).
    pub distances: BTreeMap<usize, u32>,
}

impl Memory {
    /// Returns the NUMA node of `cpu`; `None` if unknown.
    pub fn node_of(&self, cpu: usize) -> Option<&NumaNode> {
        self.nodes.iter().find(|node| node.cpus.contains(cpu))
    }

    pub(super) fn discover(s: &mut Survey) -> Self {
        let meminfo = s.root.text(MEMINFO);
        let mut bytes = |what: &str, key: &str| {
            let found = meminfo.clone().and_then(|text| meminfo_bytes(MEMINFO, &text, key));
            s.keep(what, found)
        };
        let total_bytes = bytes("memory.total", "MemTotal");
        let available_bytes = bytes("memory.available", "MemAvailable");
        let swap_total_bytes = bytes("memory.swap", "SwapTotal");
        let swap_free_bytes = bytes("memory.swap", "SwapFree");
        const THP: &str = "sys/kernel/mm/transparent_hugepage";
        let setting = |name: &str| {
            let path = Path::new(THP).join(name);
            s.root.text(&path).and_then(|text| chosen(&path, &text))
        };
        let (enabled, defrag) = (setting("enabled"), setting("defrag"));
        let pools = s.keep("memory.huge_pages", s.root.names(POOLS)).unwrap_or_default();
        let live_page = u64::try_from(rustix::param::page_size()).ok();
        let huge_page = s.root.number(Path::new(THP).join("hpage_pmd_size")).ok();
        Self {
            total_bytes,
            available_bytes,
            swap_total_bytes,
            swap_free_bytes,
            huge_pages: huge_pages(s.root, Path::new(POOLS), &pools),
            transparent_huge_pages: s.keep("memory.transparent_huge_pages", enabled),
            transparent_huge_pages_defrag: defrag.ok(),
            page_bytes: if s.root.is_live() { live_page } else { huge_page.and_then(page_below) },
            transparent_huge_page_bytes: huge_page,
            nodes: only_node_has_all(nodes(s), total_bytes, available_bytes),
            modules: smbios::modules(s),
        }
    }
}

/// Returns the page size in bytes (4, 16 or 64 KiB) whose table of 8-byte entries maps `huge_page`
/// bytes (Linux, `HPAGE_PMD_SIZE`): 4096 for 2 MiB. `None` for other sizes.
fn page_below(huge_page: u64) -> Option<u64> {
    [4_u64, 16, 64].map(|kib| kib << 10).into_iter().find(|page| page * (page / 8) == huge_page)
}

/// Returns the word in brackets of a text such as `always [madvise] never`; errors name `path`.
fn chosen(path: &Path, text: &str) -> Result<String, ReadError> {
    let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    word.map(shown).ok_or_else(|| garbled(path, text, "a list with one choice in brackets"))
}

/// Returns the bytes that `text` lists for `key`, in a line `MemTotal:  24684092 kB` or
/// `Node 0 MemTotal: …` (kB is KiB); errors name `path`.
fn meminfo_bytes(path: &str, text: &str, key: &str) -> Result<u64, ReadError> {
    let line = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.split_whitespace().last()? == key).then_some(value)
    });
    let missing = || garbled(path, line.unwrap_or_default(), "a size in kB");
    let kib = line.and_then(|value| value.trim().strip_suffix("kB")).ok_or_else(missing)?;
    let bytes = kib.trim().parse::<u64>().ok().and_then(|kib| kib.checked_mul(1024));
    bytes.ok_or_else(missing)
}

fn huge_pages(root: &Root, dir: &Path, names: &[String]) -> Vec<HugePages> {
    let pool = |name: &String| {
        let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?;
        let number = |file: &str| root.number(dir.join(name).join(file)).ok();
        let (total, free) = (number("nr_hugepages"), number("free_hugepages"));
        Some(HugePages { size_bytes: kib.checked_mul(1024)?, total, free })
    };
    let mut pools: Vec<HugePages> = names.iter().filter_map(pool).collect();
    pools.sort_by_key(|pool| pool.size_bytes);
    pools
}

fn nodes(s: &mut Survey) -> Vec<NumaNode> {
    const NODES: &str = "sys/devices/system/node";
    let names = s.keep("memory.nodes", s.root.names(NODES)).unwrap_or_default();
    let ids = names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok());
    let mut ids: Vec<usize> = ids.filter(|&id| id < MAX_NODES).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.iter().map(|&id| node(s, id, &ids, &Path::new(NODES).join(format!("node{id}")))).collect()
}

/// If there is only one node, raises its bytes to the machine's `total` and `available`: its counts
/// are too small while the kernel initializes memory (seen on Linux 6.18: 4.46 of 126 GiB).
fn only_node_has_all(mut nodes: Vec<NumaNode>, total: Option<u64>, available: Option<u64>) -> Vec<NumaNode> {
    if let [only] = nodes.as_mut_slice() {
        only.total_bytes = only.total_bytes.max(total);
        only.free_bytes = only.free_bytes.max(available);
    }
    nodes
}

fn node(s: &mut Survey, id: usize, ids: &[usize], dir: &Path) -> NumaNode {
    let what = |part: &str| format!("memory.nodes.{id}.{part}");
    let cpus = s.root.parse::<CpuSet>(dir.join("cpulist"), "a CPU list");
    let meminfo = dir.join("meminfo");
    let text = s.root.text(&meminfo);
    let bytes = |key: &str| text.clone().and_then(|t| meminfo_bytes(&meminfo.to_string_lossy(), &t, key));
    let of_files = ["Active(file)", "Inactive(file)"].map(|key| bytes(key).unwrap_or(0));
    let of_files = of_files[0].saturating_add(of_files[1]);
    let (total, free) = (bytes("MemTotal"), bytes("MemFree").map(|free: u64| free.saturating_add(of_files)));
    let distance = dir.join("distance");
    let distances = s.root.text(&distance).and_then(|text| {
        let row: Option<Vec<u32>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
        match row {
            Some(row) if row.len() == ids.len() => Ok(ids.iter().copied().zip(row).collect()),
            _ => Err(garbled(&distance, &text, "one distance for each node")),
        }
    });
    let pools = dir.join("hugepages");
    let names = s.root.names(&pools).unwrap_or_default();
    NumaNode {
        id,
        huge_pages: huge_pages(s.root, &pools, &names),
        cpus: s.keep(&what("cpus"), cpus).unwrap_or_default(),
        total_bytes: s.keep(&what("total"), total),
        free_bytes: free.ok(),
        distances: s.keep(&what("distances"), distances).unwrap_or_default(),
    }
}
