//! Which process made something, in words that no other process ever has.

use serde::{Deserialize, Serialize};

/// A process, on which boot of which machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// The machine's name: a home may be shared by several.
    pub(super) host: String,
    /// The kernel's id of this boot; empty where it tells none.
    pub(super) boot: String,
    process: u32,
    /// When it started, in clock ticks since the boot (proc(5), `stat`, field 22).
    start: u64,
}

impl Owner {
    /// This process.
    pub(super) fn myself() -> Self {
        let process = std::process::id();
        Self { host: host(), boot: boot(), process, start: start(process).unwrap_or_default() }
    }

    /// Whether it is on this machine.
    pub(super) fn is_here(&self) -> bool {
        self.host == host()
    }

    /// Whether it is of this boot, where that can be told.
    pub(super) fn is_of_this_boot(&self) -> bool {
        !self.boot.is_empty() && self.boot == boot()
    }

    /// Whether it lives, as this process sees it.
    pub(super) fn is_alive(&self) -> bool {
        self.is_of_this_boot() && start(self.process) == Some(self.start)
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

fn start(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before may hold anything, also brackets and spaces.
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    // A dead one that nobody has waited for yet has ended all the same.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_of_another_start_or_boot_is_not() {
        let myself = Owner::myself();
        assert!(myself.is_here());
        if boot().is_empty() {
            return;
        }
        assert!(myself.is_alive());
        assert!(!Owner { start: myself.start + 1, ..myself.clone() }.is_alive());
        assert!(!Owner { boot: "another".to_owned(), ..myself }.is_alive());
    }
}
