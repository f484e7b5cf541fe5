//! Memory that a case takes: how much it may have, by which names its pages go, and which the kernel gave.

use plimsoll_machine::Machine;
use plimsoll_metal::buffer::{Pages, Resident};
use plimsoll_model::job::memory::{LARGE_PAGES, SMALL_PAGES, THP};
use plimsoll_model::sample::{Fact, Facts};
use plimsoll_units::quantity::percent;

use crate::warning::PagesDiffer;

/// Bytes of a case's memory that lie in huge pages.
pub const HUGE_BYTES: Fact<u64> = Fact::new("huge_bytes", "bytes that lie in huge pages");
/// Pages that the kernel gave for a case's memory.
pub const PAGES: Fact<String> = Fact::new("pages", "pages that the kernel gave");

/// The most of a buffer's bytes that may lie in other pages than asked for without a remark: its ragged end.
const OTHER_PAGES: f64 = 0.02;

/// What stays free for the rest of the system: a tenth of what is available, and no less than 128 MiB where that is
/// less than a quarter.
pub fn reserve(available: u64) -> u64 {
    (available / 10).max((128 << 20).min(available / 4))
}

/// Bytes that may be taken: what system and control group have left, less the reserve. `None` where unknown.
pub fn budget(machine: &Machine) -> Option<u64> {
    machine.memory_available_bytes().map(|available| available.saturating_sub(reserve(available)))
}

/// The name of ordinary pages of so many bytes; of 4 KiB where nothing tells.
pub fn small_page_name(bytes: Option<u64>) -> &'static str {
    SMALL_PAGES.iter().find(|(_, of)| bytes == Some(*of)).unwrap_or(&SMALL_PAGES[0]).0
}

/// Says which pages the kernel gave, and warns where they are not those asked for.
pub fn note_pages(facts: &mut Facts, asked: Pages, resident: &[Resident]) {
    let bytes: u64 = resident.iter().map(|r| r.bytes).sum();
    let huge: u64 = resident.iter().map(|r| r.huge_bytes).sum();
    if bytes == 0 {
        return;
    }
    let reserved: u64 = resident.iter().map(|r| r.reserved_bytes).sum();
    let small = small_page_name(u64::try_from(rustix::param::page_size()).ok());
    let wanted = LARGE_PAGES.iter().find(|(_, pages)| *pages == asked).map_or(small, |(name, _)| *name);
    let nearly_all = |part: u64| part as f64 > bytes as f64 * (1.0 - OTHER_PAGES);
    let got = match asked {
        Pages::Huge2M | Pages::Huge1G if nearly_all(reserved) => wanted.to_owned(),
        _ if nearly_all(huge) => THP.to_owned(),
        _ if huge == 0 => small.to_owned(),
        _ => format!("{} thp, the rest {small}", percent(huge as f64 / bytes as f64, 0)),
    };
    facts.achieved.set(&HUGE_BYTES, huge.saturating_add(reserved));
    facts.achieved.set(&PAGES, got.as_str());
    if got != wanted {
        facts.warnings.push(PagesDiffer { wanted, got }.into());
    }
}
