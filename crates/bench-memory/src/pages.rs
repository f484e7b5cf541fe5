use plimsoll_metal::buffer::Pages;

use super::HUGE_PAGE;
use plimsoll_bench_api::buffer::small_page_name;
use plimsoll_machine::Machine;
use plimsoll_model::job::memory::{LARGE_PAGES, SMALL_PAGES, THP};
use plimsoll_model::plan::Group;
use plimsoll_model::sample::CannotMeasure;
use plimsoll_units::text::shown;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestedPages {
    pub(super) pages: Pages,
    pub(super) word: &'static str,
}

impl RequestedPages {
    pub(super) fn small(machine: &Machine) -> Self {
        Self { pages: Pages::Small, word: small_page_name(machine.memory.page_bytes) }
    }

    /// Returns small pages if `group` has no pages and size, and `size` bytes fill no huge page.
    pub(super) fn fitting(self, machine: &Machine, group: &Group, size: u64) -> Self {
        let usual = !group.asked("pages") && !group.asked("size");
        if usual && size < HUGE_PAGE && self.pages == Pages::Thp { Self::small(machine) } else { self }
    }
}

/// Returns the requested pages; by default transparent huge pages (if usual), else small pages.
pub(super) fn pages(machine: &Machine, group: &Group) -> Result<Vec<RequestedPages>, String> {
    let small = RequestedPages::small(machine).word;
    let usual = if thp_is_usual(machine) { THP } else { small };
    let all = || SMALL_PAGES.iter().map(|(word, _)| (*word, Pages::Small)).chain(LARGE_PAGES.iter().copied());
    let read = |text: &String| match all().find(|(word, _)| text.eq_ignore_ascii_case(word)) {
        Some((word, pages)) => Ok(RequestedPages { pages, word }),
        None => Err(format!("pages must be {small}, thp, 2m or 1g: '{}' is not", shown(text))),
    };
    group.words("pages", &[usual]).iter().map(read).collect()
}

/// Fails if `named` are ordinary pages of another size than this kernel's.
pub(super) fn are_here(machine: &Machine, named: RequestedPages) -> Result<(), CannotMeasure> {
    let own = RequestedPages::small(machine);
    match named.pages == Pages::Small && named != own {
        true => Err(CannotMeasure::not_here(format!(
            "the kernel's ordinary pages are {}, not {}; use --pages {0} or thp",
            own.word, named.word
        ))),
        false => Ok(()),
    }
}

/// Returns whether transparent huge pages are on and have at most 2 MiB; on kernels with base pages
/// of 16 or 64 KiB they have 32 or 512 MiB.
fn thp_is_usual(machine: &Machine) -> bool {
    let given = machine.memory.transparent_huge_pages.as_deref().is_some_and(|setting| setting != "never");
    given && machine.memory.transparent_huge_page_bytes.is_none_or(|bytes| bytes <= HUGE_PAGE)
}

/// Returns the bytes of a reserved page; `None` for pages that need no reservation.
pub(super) fn reserved_page(pages: Pages) -> Option<u64> {
    match pages {
        Pages::Small | Pages::Thp => None,
        Pages::Huge2M => Some(2 << 20),
        Pages::Huge1G => Some(1 << 30),
    }
}
