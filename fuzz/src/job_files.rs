//! Fuzzes the parser of fio job files, which are untrusted text.
//!
//! `make fuzz` and the tests of `plimsoll-bench` call this: each text is a plan or is refused, with
//! bounded memory, in short lines without control characters; a plan can be written and read back
//! unchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

use plimsoll_bench_disk::fio::{JobEnvironment, JobFile, Unsupported, parse};
use plimsoll_model::plan::{Group, PlanPositions, file, write};

/// A machine with every variable, a file that includes itself, and one device.
struct Made;

impl JobEnvironment for Made {
    fn variable(&self, name: &str) -> Option<String> {
        (name.len() < 8).then(|| name.repeat(3))
    }

    fn included(&self, name: &str) -> Result<String, String> {
        match name {
            "self" => Ok("include self\nbs=4k".to_owned()),
            _ => Err("no such file".to_owned()),
        }
    }

    fn keyword(&self, name: &str) -> Option<u64> {
        (name == "ncpus").then_some(2)
    }

    fn device(&self, path: &str) -> Option<u64> {
        (path == "/dev/vdb").then_some(1 << 30)
    }
}

/// Parses a job file, also with unsupported options ignored.
pub(crate) fn job_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let strict = parse("job.fio", &text, &Made, Unsupported::Refused);
    let lenient = parse("job.fio", &text, &Made, Unsupported::Ignored);
    assert!(strict.is_err() || lenient.is_ok(), "what is right is right without anything left out");
    for read in [strict, lenient] {
        match read {
            Ok(JobFile { plan, .. }) => {
                let again = file::parse("again", &write::text(&plan)).expect("a plan that can be written");
                let plain = |group: &Group| Group { places: PlanPositions::default(), ..group.clone() };
                let all = |groups: &[Group]| groups.iter().map(plain).collect::<Vec<_>>();
                assert_eq!(all(&again.groups), all(&plan.groups));
            }
            Err(lines) => {
                assert!(!lines.is_empty());
                let fits =
                    |line: &String| line.chars().count() <= 1000 && !line.chars().any(char::is_control);
                assert!(lines.iter().all(fits), "{lines:?}");
            }
        }
    }
}
