//! Page sizes: their names in cases, which are asked for where none is named, and which the kernel gave.

use plimsoll_metal::buffer::{Pages, Resident};

use super::HUGE_PAGE;
use super::fact::{HUGE_BYTES, PAGES};
use super::warning::MemoryWarning;
use crate::case::Case;
use crate::machine::Machine;
use crate::plan::Group;
use crate::quantity::percent;
use crate::sample::{CannotMeasure, Facts};
use crate::text::shown;

/// Names of the pages of ordinary memory, with their bytes: a kernel has one of them. AArch64 has all three.
const SMALL: &[(&str, u64)] = &[("4k", 4 << 10), ("16k", 16 << 10), ("64k", 64 << 10)];
const THP: &str = "thp";
/// Names of the others.
const LARGE: &[(&str, Pages)] = &[(THP, Pages::Thp), ("2m", Pages::Huge2M), ("1g", Pages::Huge1G)];
/// The most of a buffer's bytes that may lie in other pages than asked for without a remark: its ragged end.
const OTHER_PAGES: f64 = 0.02;

/// Pages of a case, with the word that names them in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) pages: Pages,
    pub(super) word: &'static str,
}

impl Asked {
    /// The ordinary pages of this machine's kernel.
    pub(super) fn small(machine: &Machine) -> Self {
        Self { pages: Pages::Small, word: small_name(machine.memory.page_bytes) }
    }

    fn thp() -> Self {
        Self { pages: Pages::Thp, word: THP }
    }

    /// Those for a working set of so many bytes: where nobody named pages or size, and there is not even a huge page for each thread,
    /// small ones.
    pub(super) fn fitting(self, machine: &Machine, group: &Group, size: u64) -> Self {
        let usual = !group.asked("pages") && !group.asked("size");
        if usual && size < HUGE_PAGE && self.pages == Pages::Thp { Self::small(machine) } else { self }
    }
}

/// The page sizes asked for, or the best that this machine has.
///
/// # Errors
/// A word that names none.
pub(super) fn pages(machine: &Machine, group: &Group) -> Result<Vec<Asked>, String> {
    let usual = if thp_is_usual(machine) { Asked::thp() } else { Asked::small(machine) };
    let small = Asked::small(machine).word;
    let read = |word: &String| match find(&word.to_ascii_lowercase()) {
        Some(found) => Ok(found),
        None => Err(format!("pages must be {small}, thp, 2m or 1g: '{}' is not", shown(word))),
    };
    group.words("pages", &[usual.word]).iter().map(read).collect()
}

fn find(word: &str) -> Option<Asked> {
    let small = SMALL.iter().map(|(name, _)| Asked { pages: Pages::Small, word: name });
    small
        .chain(LARGE.iter().map(|(name, pages)| Asked { pages: *pages, word: name }))
        .find(|one| one.word == word)
}

/// Whether the kernel of this machine has the ordinary pages that a case names: a plan may be for another one.
///
/// # Errors
/// It has others.
pub(super) fn are_here(machine: &Machine, case: &Case) -> Result<(), CannotMeasure> {
    let (named, own) = (case.word("pages").and_then(find), Asked::small(machine));
    match named.filter(|named| named.pages == Pages::Small && *named != own) {
        Some(named) => Err(CannotMeasure::not_here(format!(
            "the kernel's ordinary pages are {}, not {}; use --pages {0} or thp",
            own.word, named.word
        ))),
        None => Ok(()),
    }
}

/// Whether transparent huge pages are given, and so small that working sets are whole ones: kernels with pages of 16 or
/// 64 KiB have some of 32 or 512 MiB.
fn thp_is_usual(machine: &Machine) -> bool {
    let given = machine.memory.transparent_huge_pages.as_deref().is_some_and(|setting| setting != "never");
    given && machine.memory.transparent_huge_page_bytes.is_none_or(|bytes| bytes <= HUGE_PAGE)
}

/// The pages of a word in a case.
pub(super) fn page_size(word: &str) -> Option<Pages> {
    find(word).map(|found| found.pages)
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
    let wanted = LARGE.iter().find(|(_, pages)| *pages == asked).map_or(small, |(name, _)| *name);
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
        facts.warnings.push(MemoryWarning::PagesDiffer { wanted, got }.into());
    }
}
