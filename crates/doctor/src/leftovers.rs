//! Checks around reference tools: leftovers of killed runs, and programs that are skipped.

use plimsoll_system::leftover::{Leftover, Reaped};

use super::{MachineCheck, costs, good, unknown};

/// Reports the files of killed runs, removed or not, in `reaped`; `None`: the search timed out.
pub fn leftovers(reaped: Option<&Reaped>) -> MachineCheck {
    const SLOW: &str = "a file system that held a directory of a tool does not answer; see dmesg";
    let check = reaped.map_or_else(|| unknown("looking took too long", SLOW), described);
    MachineCheck { name: "left by killed runs", ..check }
}

fn described(Reaped { removed, left }: &Reaped) -> MachineCheck {
    let stays: Vec<String> = left.iter().map(|Leftover { path, why }| format!("{path}: {why}")).collect();
    let found = [("removed now: ", removed.join(", ")), ("not removed: ", stays.join("; "))];
    let found =
        found.into_iter().filter(|(_, all)| !all.is_empty()).map(|(what, all)| format!("{what}{all}"));
    let found = found.collect::<Vec<_>>().join("; ");
    match left.is_empty() {
        true if found.is_empty() => good("nothing"),
        true => good(found),
        false => costs(found, "files that are not removed take space there, each for the reason named"),
    }
}

/// Reports the reference programs on `PATH` that are not used; `each` has a program and the reason.
/// Returns `None` if `each` is empty.
pub fn skipped_programs(each: &[String]) -> Option<MachineCheck> {
    let cost = "another program of that name is taken, or none; name a trusted one with --reference-path";
    (!each.is_empty()).then(|| MachineCheck { name: "PATH", ..costs(each.join("; "), cost) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CheckState;

    #[test]
    fn what_was_removed_and_what_stays_is_named() {
        let left = |path: &str| Leftover { path: path.to_owned(), why: "busy".to_owned() };
        let all = |removed: &[&str], stays: &[&str]| Reaped {
            removed: removed.iter().map(|path| (*path).to_owned()).collect(),
            left: stays.iter().map(|path| left(path)).collect(),
        };
        let nothing = leftovers(Some(&all(&[], &[])));
        assert_eq!((nothing.state, nothing.found.as_str()), (CheckState::Good, "nothing"));
        assert_eq!(leftovers(Some(&all(&["/a", "/b"], &[]))).found, "removed now: /a, /b");
        let both = leftovers(Some(&all(&["/a"], &["/c"])));
        assert_eq!(both.found, "removed now: /a; not removed: /c: busy");
        assert_eq!((both.state, leftovers(None).state), (CheckState::Costs, CheckState::Unknown));
    }
}
