//! What libblkid finds on a device, asked of its program blkid(8) where that is installed.
//!
//! Our own table ([`super::signature`]) is what protects a device: the program may be missing, or be another one of that
//! name. But newer formats come to it first, and it never hurts to be refused by two.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::text::shown_within;
use crate::trust::Trust;

/// Where distributions install it. The search path of the environment is not asked.
const PLACES: [&str; 4] = ["/usr/sbin/blkid", "/sbin/blkid", "/usr/bin/blkid", "/bin/blkid"];

/// How long it may take; it reads some hundred kilobytes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most that is taken of what it prints, in characters of a value.
const SHOWN: usize = 40;

/// Its exit status where it found several things, each of which it could be (blkid(8)).
const AMBIVALENT: i32 = 8;

/// What blkid finds; `None` where it finds nothing, or cannot be asked.
pub(super) fn on(file: &File) -> Option<String> {
    let trust = Trust::here();
    let program = PLACES.iter().find_map(|place| trust.program(Path::new(place)).ok())?;
    let mut child = Command::new(program)
        .args(["-p", "-o", "export", "/proc/self/fd/0"])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(file.try_clone().ok()?))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let begun = Instant::now();
    // It prints less than a pipe holds.
    while let Ok(None) = child.try_wait() {
        if begun.elapsed() >= PATIENCE {
            let _ = child.kill();
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().ok()?;
    found(output.status.code()?, &String::from_utf8_lossy(&output.stdout))
}

/// What the answer means. A partition's entry in its disk's table (`PART_ENTRY_…`) is nothing that is on it.
fn found(code: i32, text: &str) -> Option<String> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    match (code, value("TYPE"), value("PTTYPE")) {
        (AMBIVALENT, ..) => Some("several things at once, as blkid -p says".to_owned()),
        (0, Some(kind), _) => Some(format!("what blkid -p calls {}", shown_within(kind, SHOWN))),
        (0, None, Some(kind)) => {
            Some(format!("what blkid -p calls a partition table of type {}", shown_within(kind, SHOWN)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_tables_and_doubts_are_answers_and_a_partitions_entry_is_none() {
        let of = |code, text| found(code, text).unwrap_or_default();
        assert!(of(0, "DEVNAME=/dev/x\nTYPE=ext4\nUSAGE=filesystem\n").contains("ext4"));
        assert!(of(0, "DEVNAME=/dev/x\nPTUUID=1\nPTTYPE=dos\n").contains("partition table of type dos"));
        assert!(of(8, "").contains("several"));
        assert_eq!(found(2, ""), None);
        assert_eq!(found(0, "DEVNAME=/dev/x\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_TYPE=0fc63daf\n"), None);
        assert!(!of(0, "TYPE=\u{1b}[31m\n").contains('\u{1b}'));
    }
}
