//! Signatures on a device (file system, partition table, volume manager), from blkid(8). Both ends
//! are always read, because blkid does not report read errors; without an answer of blkid, only a
//! device with empty ends counts as empty.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use plimsoll_system::trust::Trust;
use plimsoll_units::text::shown_within;

/// Paths where distributions install blkid; `PATH` is not used.
const PLACES: [&str; 4] = ["/usr/sbin/blkid", "/sbin/blkid", "/usr/bin/blkid", "/bin/blkid"];

/// Longest run time; blkid reads some hundred kilobytes.
const TIME_LIMIT: Duration = Duration::from_secs(20);

const MAX_SHOWN_CHARS: usize = 40;

/// Exit statuses of blkid(8): no signature, and several that exclude each other.
const NOTHING_FOUND: i32 = 2;
const AMBIVALENT: i32 = 8;

/// Bytes with signatures at each end: LUKS2 in the first 4 MiB, RAID in the last 2 MiB.
const ENDS: u64 = (4 << 20) + 4096;

#[derive(Debug, PartialEq, Eq)]
enum BlkidAnswer {
    Found(String),
    Nothing,
    Unknown,
}

/// Describes the data found on a device or file of `bytes` bytes, such as "ext4 (blkid -p)"; `None`
/// if the device counts as empty. Fails if its first or last MiBs cannot be read.
pub(crate) fn contents(file: &File, bytes: u64) -> std::io::Result<Option<String>> {
    // The page cache may be older than the device.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let ends = read_ends(file, bytes)?;
    Ok(match query_blkid(file, &PLACES) {
        BlkidAnswer::Found(what) => Some(what),
        _ if ends == Ends::PartitionTable => {
            Some("a partition table (GPT), one of its two copies".to_owned())
        }
        BlkidAnswer::Unknown if ends != Ends::Empty => {
            Some("data of an unknown format, because blkid (util-linux) did not answer".to_owned())
        }
        BlkidAnswer::Nothing | BlkidAnswer::Unknown => None,
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Ends {
    Empty,
    /// Contains a GPT header. blkid does not report the second copy, at the end, without the first.
    PartitionTable,
    Data,
}

/// Start of a GPT header, at the start of a sector (UEFI Specification 2.10, section 5.3.2).
const GPT_HEADER: &[u8] = b"EFI PART";

fn read_ends(file: &File, bytes: u64) -> std::io::Result<Ends> {
    const SECTOR_BYTES: usize = 512;
    let length = bytes.min(ENDS);
    let mut part = vec![0; usize::try_from(length).unwrap_or_default()];
    let mut ends = Ends::Empty;
    for offset in [0, (bytes - length).next_multiple_of(SECTOR_BYTES as u64).min(bytes)] {
        let part = &mut part[..usize::try_from((bytes - offset).min(length)).unwrap_or_default()];
        file.read_exact_at(part, offset)?;
        if part.chunks(SECTOR_BYTES).any(|sector| sector.starts_with(GPT_HEADER)) {
            return Ok(Ends::PartitionTable);
        }
        if part.iter().any(|byte| *byte != 0) {
            ends = Ends::Data;
        }
    }
    Ok(ends)
}

fn query_blkid(file: &File, places: &[&str]) -> BlkidAnswer {
    run_blkid(file, places).map_or(BlkidAnswer::Unknown, |(code, out, err)| parse_answer(code, &out, &err))
}

/// Runs blkid on `file` for at most 20 s: the first of `places` that no other user can change.
/// Returns exit status, output and error output; `None` if blkid does not start or is killed.
fn run_blkid(file: &File, places: &[&str]) -> Option<(i32, String, String)> {
    let trust = Trust::here();
    let program = places.iter().find_map(|place| trust.program(Path::new(place)).ok())?;
    let mut child = Command::new(program)
        .args(["-p", "-o", "export", "/proc/self/fd/0"])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(file.try_clone().ok()?))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let begun = Instant::now();
    // The output fits in a pipe.
    while let Ok(None) = child.try_wait() {
        if begun.elapsed() >= TIME_LIMIT {
            let _ = child.kill();
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((output.status.code()?, text(&output.stdout), text(&output.stderr)))
}

/// Interprets blkid's exit status `code`, output and error output. The entry of a partition in its
/// disk's table (`PART_ENTRY_…`) is no data; "nothing found" with an error message is no answer.
fn parse_answer(code: i32, out: &str, err: &str) -> BlkidAnswer {
    let value = |key: &str| out.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let found = |what: &str| BlkidAnswer::Found(format!("{what} (blkid -p)"));
    let short = |kind: &str| shown_within(kind, MAX_SHOWN_CHARS);
    match (code, value("TYPE"), value("PTTYPE")) {
        (AMBIVALENT, ..) => found("several formats at once"),
        (0, Some(kind), _) => found(&short(kind)),
        (0, None, Some(kind)) => found(&format!("a partition table of type {}", short(kind))),
        (0, None, None) if value("PART_ENTRY_SCHEME").is_some() => BlkidAnswer::Nothing,
        (NOTHING_FOUND, ..) if out.is_empty() && err.is_empty() => BlkidAnswer::Nothing,
        _ => BlkidAnswer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn types_and_tables_and_doubts_are_found_and_a_partitions_entry_is_nothing() {
        let of = |code, out| match parse_answer(code, out, "") {
            BlkidAnswer::Found(what) => what,
            other => panic!("{other:?}"),
        };
        assert!(of(0, "DEVNAME=/dev/x\nTYPE=ext4\nUSAGE=filesystem\n").contains("ext4"));
        assert!(of(0, "DEVNAME=/dev/x\nPTUUID=1\nPTTYPE=dos\n").contains("partition table of type dos"));
        assert!(of(8, "").contains("several"));
        assert!(!of(0, "TYPE=\u{1b}[31m\n").contains('\u{1b}'));
        assert_eq!(parse_answer(2, "", ""), BlkidAnswer::Nothing);
        let entry = "DEVNAME=/dev/x\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_TYPE=0fc63daf\n";
        assert_eq!(parse_answer(0, entry, ""), BlkidAnswer::Nothing);
    }

    #[test]
    fn errors_and_other_programs_of_its_name_are_no_answer() {
        for (code, out, err) in [
            (2, "", "blkid: error: /proc/self/fd/0: Permission denied\n"),
            (4, "", "blkid: unknown option\n"),
            (1, "", ""),
            (127, "", ""),
            (0, "", ""),
            (0, "/proc/self/fd/0: TYPE=\"ext4\"\n", ""),
        ] {
            assert_eq!(parse_answer(code, out, err), BlkidAnswer::Unknown, "{code} {out} {err}");
        }
    }

    fn image(size: u64, place: u64, bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(bytes, place).unwrap();
        file
    }

    #[test]
    fn a_byte_at_either_end_is_data() {
        const SIZE: u64 = 32 << 20;
        for (place, is_empty) in
            [(0, false), (4 << 20, false), (16 << 20, true), (SIZE - (3087 << 9), false), (SIZE - 1, false)]
        {
            let file = image(SIZE, place, b"x");
            assert_eq!(read_ends(&file, SIZE).unwrap() == Ends::Empty, is_empty, "{place}");
        }
        assert_eq!(read_ends(&image(0, 0, b""), 0).unwrap(), Ends::Empty);
        assert!(read_ends(&image(512, 0, b""), 4096).is_err(), "it ends before its size");
    }

    #[test]
    fn the_second_copy_of_a_partition_table_is_found_without_the_first() {
        const SIZE: u64 = 32 << 20;
        for sector in [512, 4096] {
            let file = image(SIZE, SIZE - sector, GPT_HEADER);
            assert!(contents(&file, SIZE).unwrap().is_some_and(|found| found.contains("GPT")), "{sector}");
        }
        let file = image(SIZE, SIZE - 511, GPT_HEADER);
        assert_eq!(read_ends(&file, SIZE).unwrap(), Ends::Data, "not at the start of a sector");
    }

    #[test]
    fn a_missing_or_failing_blkid_is_no_answer() {
        let dir = tempfile::tempdir().unwrap();
        let file = image(1 << 20, 0, b"-rom1fs-");
        let missing = dir.path().join("missing");
        let failing = dir.path().join("failing");
        std::fs::write(&failing, "#!/bin/sh\nexit 1\n").unwrap();
        std::fs::set_permissions(&failing, PermissionsExt::from_mode(0o755)).unwrap();
        for place in [missing, failing] {
            assert_eq!(query_blkid(&file, &[place.to_str().unwrap()]), BlkidAnswer::Unknown);
        }
    }

    #[test]
    fn what_the_real_tools_make_is_found() {
        if query_blkid(&image(1 << 20, 0, b""), &PLACES) == BlkidAnswer::Unknown {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("image");
        let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut tried = 0;
        for (command, name) in [
            ("mkfs.ext4 -q", "ext4"),
            ("mkfs.xfs -q", "xfs"),
            ("mkfs.btrfs -q", "btrfs"),
            ("mkswap", "swap"),
            ("mkfs.minix", "minix"),
            ("mkfs.vfat", "vfat"),
            ("echo label: dos | sfdisk -q", "type dos"),
            ("echo label: gpt | sfdisk -q", "type gpt"),
        ] {
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&at).unwrap();
            file.set_len(400 << 20).unwrap();
            let script = format!("{command} \"$0\" >/dev/null 2>&1");
            let made = Command::new("sh").args(["-c", &script]).arg(&at).env("PATH", &search).status();
            if made.is_ok_and(|status| status.success()) {
                let found = contents(&file, 400 << 20).unwrap();
                assert!(found.as_ref().is_some_and(|found| found.contains(name)), "{command}: {found:?}");
                tried += 1;
            }
        }
        assert!(tried > 0, "mkswap is in util-linux, as blkid is");
    }

    #[test]
    fn what_a_run_leaves_is_nothing_to_blkid() {
        if query_blkid(&image(1 << 20, 0, b""), &PLACES) == BlkidAnswer::Unknown {
            return;
        }
        let mut noise = vec![0; 1 << 20];
        crate::load::TestData::new(1, "fill").fill(&mut noise, 0);
        assert_eq!(contents(&image(32 << 20, 0, &noise), 32 << 20).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_output_is_read_without_a_panic(code in 0..256, out in ".*", err in ".*") {
            let _ = parse_answer(code, &out, &err);
        }
    }
}
