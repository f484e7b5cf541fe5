//! What is wrong around the reference tools: what killed runs left behind, and which programs are passed over.

use std::path::{Path, PathBuf};

use super::Check;
use crate::leftover::{Leftover, Reaped};
use crate::text::shown_bytes;

/// The fact. `reaped` is `None` where looking took too long; `unconfirmed` are copies of parts of cluster runs that rank 0 may not
/// have, which are never removed.
pub fn leftovers(reaped: Option<&Reaped>, unconfirmed: &[String]) -> Check {
    const NAME: &str = "left by killed runs";
    let Some(Reaped { removed, left }) = reaped else {
        return Check::unknown(
            NAME,
            "looking took too long",
            "a file system that held a directory of a tool does not answer; see dmesg",
        );
    };
    let stays: Vec<String> = left.iter().map(|Leftover { path, why }| format!("{path}: {why}")).collect();
    let found = [
        ("removed now: ", removed.join(", ")),
        ("not removed: ", stays.join("; ")),
        ("copies of parts of cluster runs: ", unconfirmed.join(", ")),
    ];
    let found =
        found.into_iter().filter(|(_, all)| !all.is_empty()).map(|(what, all)| format!("{what}{all}"));
    let found = found.collect::<Vec<_>>().join("; ");
    match (left.is_empty(), unconfirmed.is_empty()) {
        (true, true) if found.is_empty() => Check::good(NAME, "nothing"),
        (true, true) => Check::good(NAME, found),
        (false, _) => Check::costs(
            NAME,
            found,
            "files that are not removed take space there, each for the reason named",
        ),
        (true, false) => Check::costs(
            NAME,
            found,
            "enter each copy with plimsoll history import; a run that is there already is refused",
        ),
    }
}

/// The copies in this directory, at most a few by name.
pub fn copies(directory: &Path) -> Vec<String> {
    const MOST: usize = 3;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_copy = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_copy).collect();
    all.sort();
    let more = all.len().saturating_sub(MOST);
    let named = all.iter().take(MOST).map(|path| shown_bytes(path.as_os_str().as_encoded_bytes()));
    named.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// The fact that programs of reference tools on the search path are passed over, each with why; `None` where none is.
pub fn passed_over(each: &[String]) -> Option<Check> {
    let cost = "another program of that name is taken, or none; name a trusted one with --reference-path";
    (!each.is_empty()).then(|| Check::costs("PATH", each.join("; "), cost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    #[test]
    fn what_was_removed_and_what_stays_is_named() {
        let left = |path: &str| Leftover { path: path.to_owned(), why: "busy".to_owned() };
        let all = |removed: &[&str], stays: &[&str]| Reaped {
            removed: removed.iter().map(|path| (*path).to_owned()).collect(),
            left: stays.iter().map(|path| left(path)).collect(),
        };
        let nothing = leftovers(Some(&all(&[], &[])), &[]);
        assert_eq!((nothing.state, nothing.found.as_str()), (State::Good, "nothing"));
        assert_eq!(leftovers(Some(&all(&["/a", "/b"], &[])), &[]).found, "removed now: /a, /b");
        let both = leftovers(Some(&all(&["/a"], &["/c"])), &[]);
        assert_eq!(both.found, "removed now: /a; not removed: /c: busy");
        assert_eq!((both.state, leftovers(None, &[]).state), (State::Costs, State::Unknown));
    }

    #[test]
    fn copies_of_cluster_runs_are_named() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b-1.json", "a-1.json", "c-2.json", "d-1.json", ".plimsoll-0"] {
            std::fs::write(directory.path().join(name), "{}").unwrap();
        }
        let named = copies(directory.path());
        assert!(named.len() == 4 && named[0].ends_with("/a-1.json") && named[3] == "and 1 more", "{named:?}");
        let check = leftovers(Some(&Reaped::default()), &named);
        assert!(check.state == State::Costs && check.found.contains("/a-1.json"));
        assert_eq!(copies(&directory.path().join("none")), Vec::<String>::new());
    }
}
