//! Memory of a case: budget, names of page sizes, and the pages that the kernel gave.

use plimsoll_machine::Machine;
use plimsoll_metal::buffer::{Pages, Resident};
use plimsoll_model::job::memory::{LARGE_PAGES, SMALL_PAGES, THP};
use plimsoll_model::sample::{CannotMeasure, CaseFact, Facts};
use plimsoll_model::warning::Warn;
use plimsoll_units::quantity::{Quantity, Unit, percent};

/// Bytes of a case's memory in huge pages.
pub const HUGE_BYTES: CaseFact<u64> = CaseFact::new("huge_bytes");
/// Page sizes that the kernel gave for a case's memory.
pub const PAGES: CaseFact<String> = CaseFact::new("pages");

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the kernel gave {got} instead of {wanted} pages; see /sys/kernel/mm/transparent_hugepage/enabled")]
struct PagesDiffer {
    wanted: &'static str,
    got: String,
}

impl Warn for PagesDiffer {
    fn code(&self) -> &'static str {
        "pages-differ"
    }
}

/// Largest share of other pages than requested without a warning (unaligned ends).
const OTHER_PAGES: f64 = 0.02;

/// Returns the bytes kept free for the system: a tenth of the `available` bytes, but at least 128
/// MiB or, if less, a quarter of `available`.
pub fn reserve(available: u64) -> u64 {
    (available / 10).max((128 << 20).min(available / 4))
}

/// Returns the bytes that a case may use: the available ones less [`reserve`]; `None` if unknown.
pub fn budget(machine: &Machine) -> Option<u64> {
    machine.memory_available_bytes().map(|available| available.saturating_sub(reserve(available)))
}

/// Returns `bytes` as in messages: `1.5 GiB`.
pub fn human(bytes: u64) -> String {
    Quantity::new(bytes as f64, Unit::Byte).to_string()
}

/// Fails if `bytes` (`None`: more than `u64::MAX`) exceed [`budget`]. In the error, `needs` is what
/// is needed and `less` the remedy, such as "a smaller --n".
pub fn check_budget(
    machine: &Machine,
    bytes: Option<u64>,
    needs: &str,
    less: &str,
) -> Result<(), CannotMeasure> {
    let (Some(available), Some(budget)) = (machine.memory_available_bytes(), budget(machine)) else {
        return Ok(());
    };
    if bytes.is_some_and(|bytes| bytes <= budget) {
        return Ok(());
    }
    Err(CannotMeasure::environment(format!(
        "needs {needs}, and only {} can be used: {} are available, of which {} stay free; use {less}",
        human(budget),
        human(available),
        human(reserve(available)),
    )))
}

/// Returns the name of base pages of `bytes` bytes: `4k`, `16k` or `64k`; `4k` for other values.
pub fn small_page_name(bytes: Option<u64>) -> &'static str {
    SMALL_PAGES.iter().find(|(_, of)| bytes == Some(*of)).unwrap_or(&SMALL_PAGES[0]).0
}

/// Records in `facts` the page sizes of the `resident` buffers, and a warning if they are not those
/// of `asked`. Does nothing if no memory is resident.
pub fn record_pages(facts: &mut Facts, asked: Pages, resident: &[Resident]) {
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
