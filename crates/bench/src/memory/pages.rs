//! Page sizes: their names in cases, which are asked for where none is named, and which the kernel gave.

use plimsoll_metal::buffer::{Pages, Resident};

use super::HUGE_PAGE;
use super::fact::{HUGE_BYTES, PAGES};
use super::warning::MemoryWarning;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::percent;
use crate::sample::Facts;
use crate::text::shown;

/// Names of the pages of ordinary memory, with their bytes: a kernel has one of them. AArch64 has all three.
const SMALL: &[(&str, u64)] = &[("4k", 4 << 10), ("16k", 16 << 10), ("64k", 64 << 10)];
/// Names of the others.
const LARGE: &[(&str, Pages)] = &[("thp", Pages::Thp), ("2m", Pages::Huge2M), ("1g", Pages::Huge1G)];
/// The most of a buffer's bytes that may lie in other pages than asked for without a remark: its ragged end.
const OTHER_PAGES: f64 = 0.02;

/// The page sizes asked for, or the best that this machine has.
///
/// # Errors
/// A word that names none, or pages that this kernel does not have.
pub(super) fn pages(machine: &Machine, group: &Group) -> Result<Vec<Pages>, String> {
    let usual = page_name(machine, if thp_is_usual(machine) { Pages::Thp } else { Pages::Small });
    let read = |word: &String| {
        let word = word.to_ascii_lowercase();
        let small = small_name(machine.memory.page_bytes);
        match page_size(&word) {
            Some(Pages::Small) if word != small => Err(format!(
                "pages must be {small}, thp, 2m or 1g on this machine: its kernel has no pages of {word}"
            )),
            Some(pages) => Ok(pages),
            None => Err(format!("pages must be {small}, thp, 2m or 1g: '{}' is not", shown(&word))),
        }
    };
    group.words("pages", &[usual]).iter().map(read).collect()
}

/// Whether transparent huge pages are given, and so small that working sets are whole ones: kernels with pages of 16 or
/// 64 KiB have some of 32 or 512 MiB.
fn thp_is_usual(machine: &Machine) -> bool {
    let given = machine.memory.transparent_huge_pages.as_deref().is_some_and(|setting| setting != "never");
    given && machine.memory.transparent_huge_page_bytes.is_none_or(|bytes| bytes <= HUGE_PAGE)
}

/// The pages of a word in a case.
pub(super) fn page_size(word: &str) -> Option<Pages> {
    let small = SMALL.iter().any(|(name, _)| *name == word).then_some(Pages::Small);
    small.or_else(|| LARGE.iter().find(|(name, _)| *name == word).map(|(_, pages)| *pages))
}

/// Their name on this machine.
pub(super) fn page_name(machine: &Machine, pages: Pages) -> &'static str {
    large_name(pages).unwrap_or_else(|| small_name(machine.memory.page_bytes))
}

fn large_name(pages: Pages) -> Option<&'static str> {
    LARGE.iter().find(|(_, other)| *other == pages).map(|(name, _)| *name)
}

/// The name of ordinary pages of so many bytes; of 4 KiB where nothing tells.
fn small_name(bytes: Option<u64>) -> &'static str {
    SMALL.iter().find(|(_, of)| bytes == Some(*of)).unwrap_or(&SMALL[0]).0
}

/// Bytes of a reserved page of this kind; `None` for pages that need not be reserved.
pub(super) fn reserved_page(pages: Pages) -> Option<u64> {
    match pages {
        Pages::Small | Pages::Thp => None,
        Pages::Huge2M => Some(2 << 20),
        Pages::Huge1G => Some(1 << 30),
    }
}

/// Says which pages the kernel gave, and warns where they are not those asked for.
pub(crate) fn note_pages(facts: &mut Facts, asked: Pages, resident: &[Resident]) {
    let bytes: u64 = resident.iter().map(|r| r.bytes).sum();
    let huge: u64 = resident.iter().map(|r| r.huge_bytes).sum();
    if bytes == 0 {
        return;
    }
    let reserved: u64 = resident.iter().map(|r| r.reserved_bytes).sum();
    let small = small_name(u64::try_from(rustix::param::page_size()).ok());
    let wanted = large_name(asked).unwrap_or(small);
    let nearly_all = |part: u64| part as f64 > bytes as f64 * (1.0 - OTHER_PAGES);
    let got = match asked {
        Pages::Huge2M | Pages::Huge1G if nearly_all(reserved) => wanted.to_owned(),
        _ if nearly_all(huge) => "thp".to_owned(),
        _ if huge == 0 => small.to_owned(),
        _ => format!("{} thp, the rest {small}", percent(huge as f64 / bytes as f64, 0)),
    };
    facts.achieved.set(&HUGE_BYTES, huge.saturating_add(reserved));
    facts.achieved.set(&PAGES, got.as_str());
    if got != wanted {
        facts.warnings.push(MemoryWarning::PagesDiffer { wanted, got }.into());
    }
}
