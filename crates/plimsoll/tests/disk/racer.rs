//! The owner of a directory swaps it for a link while plimsoll starts there as root.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, Uid, renameat_with};

use super::{QUICK, names, possible};
use crate::support::{plimsoll, scratch, skip};

/// Debian's unprivileged user.
const RACER: u32 = 65534;

fn swap(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// Size, times and mode of a file or directory, which show any change.
fn state(path: &Path) -> [i64; 4] {
    let reported = fs::metadata(path).unwrap();
    [reported.size() as i64, reported.mtime(), reported.mtime_nsec(), reported.mode().into()]
}

#[test]
fn a_racer_of_another_user_has_nothing_of_its_victim_written() {
    const LONGEST: Duration = Duration::from_secs(4);
    const STARTS: usize = 10;
    let Some(()) = possible(&[]) else { return };
    let home = scratch();
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    let (place, victim) = (base.path().join("place"), base.path().join("victim"));
    let (directory, link) = (place.join("directory"), place.join("link"));
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("data"), "precious").unwrap();
    symlink(&victim, &link).unwrap();
    for path in [base.path(), &place, &directory] {
        chown(path, Some(RACER), None).unwrap();
    }
    if let Err(errno) = swap(&directory, &link) {
        return skip(&format!("two names cannot change places in {}: {errno}", place.display()));
    }
    let before = [&victim, &victim.join("data")].map(|path| state(path));
    let (stop, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut codes = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let racer = Uid::from_raw(RACER);
            // For this thread only.
            rustix::thread::set_thread_res_uid(racer, racer, racer).unwrap();
            while !stop.load(Ordering::Relaxed) {
                swap(&directory, &link).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let begun = Instant::now();
        while codes.len() < STARTS && (codes.is_empty() || begun.elapsed() < LONGEST) {
            let mut command = plimsoll(home.path());
            let output = command.args(QUICK.split_whitespace()).arg("--dir").arg(&directory).output();
            codes.push(output.ok().and_then(|output| output.status.code()));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(swaps.into_inner() > 0);
    // It ran in what was the directory, or refused; it never ended otherwise.
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 2..=4))), "{codes:?}");
    assert_eq!([&victim, &victim.join("data")].map(|path| state(path)), before);
    assert_eq!(fs::read_to_string(victim.join("data")).unwrap(), "precious");
    // One is the user's own empty directory, and the other one links to the victim.
    assert_eq!((names(&victim), names(&place), names(&directory) + names(&link)), (1, 2, 1));
}
