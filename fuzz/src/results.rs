//! Fuzzes `plimsoll check`: every text that may be a result of another tool, and the verdicts on
//! it.
//!
//! `make fuzz` calls this with libFuzzer, the tests of `crates/check` with the corpus and seeded
//! changes to it. Any bytes must be read or refused in one line that is safe to print.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

use std::sync::OnceLock;

use plimsoll_check::{CheckedMachine, ImpossibleCause, Plausibility, check};
use plimsoll_machine::Machine;
use plimsoll_machine::fixture::Fixture;
use plimsoll_model::limit::user::UserLimits;
use plimsoll_reference::{Stated, read_all, stated};

/// The machine of the corpus, with known limits.
const DESK: &str = include_str!("../../crates/check/tests/machines/desk.tree");

fn machine() -> &'static (Machine, Fixture) {
    static MACHINE: OnceLock<(Machine, Fixture)> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let kept = Fixture::unpack(DESK).expect("a saved machine");
        (kept.machine(), kept)
    })
}

pub(crate) fn results(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    judge(&text, None);
    for (format, _) in stated::described() {
        judge(&text, Some(format));
    }
}

fn judge(text: &str, format: Option<&str>) {
    let results = read_all(text, format);
    assert!(!results.is_empty());
    for result in results {
        match result {
            Ok(stated) => judge_result(&stated),
            Err(why) => assert!(is_safe(&why) && !why.is_empty(), "{why:?}"),
        }
    }
}

fn judge_result(stated: &Stated) {
    let (machine, kept) = machine();
    for is_named in [false, true] {
        let limits = UserLimits::default();
        let place = CheckedMachine { machine, root: &kept.root, is_named, limits: &limits };
        let checked = check("x", None, stated, &place);
        assert_eq!(checked.rows.len(), stated.figures.len());
        for row in &checked.rows {
            assert!(is_safe(&row.name) && is_safe(&row.reason), "{row:?}");
            assert!(row.value.is_finite() || row.cause == Some(ImpossibleCause::Absurd), "{row:?}");
            assert!(row.of_limit.is_none_or(f64::is_finite), "{row:?}");
            assert_eq!(row.verdict == Plausibility::Impossible, row.cause.is_some(), "{row:?}");
            assert!(row.verdict != Plausibility::Unjudged || !row.reason.is_empty(), "{row:?}");
        }
    }
}

/// Whether a text is one line without control characters.
fn is_safe(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c))
}
