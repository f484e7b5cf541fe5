//! Properties of kernel and process that change the cost of system calls by factors.

use plimsoll_machine::{Machine, Root};
use plimsoll_model::sample::{Achieved, Facts};
use rustix::time::{ClockId, clock_getres};

use crate::fact::{CGROUP_DEPTH, HYPERVISOR, MITIGATIONS, NOHZ_FULL, PREEMPTION, SECCOMP_FILTERS, TICK_HZ};

/// Directory of the kernel's list of vulnerabilities.
const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";

/// Words in the state of a vulnerability that mean work at each entry, exit or switch.
const COSTLY_WORDS: &[&str] = &[
    "PTI",
    "Clear CPU buffers",
    "IBRS",
    "untrained return thunk",
    "Safe RET",
    "IBPB",
    "unret",
    "Retpolines",
];

/// Words of mitigations that cost nothing at an entry although they contain a costly word.
const FREE_WORDS: &[&str] =
    &["Enhanced / Automatic IBRS", "Enhanced IBRS", "IBPB: conditional", "PBRSB-eIBRS"];

/// Returns the state of the running kernel and of this process as facts of a benchmark case.
pub(crate) fn facts(machine: &Machine) -> Facts {
    Facts { achieved: read(&Root::live(), machine), ..Facts::default() }
}

/// Reads the kernel's and process's state in the files below `root`; what is not there is left out.
fn read(root: &Root, machine: &Machine) -> Achieved {
    let status = root.text("proc/self/status").unwrap_or_default();
    let groups = root.text("proc/self/cgroup").unwrap_or_default();
    let is_list = |cpus: &String| cpus.starts_with(|c: char| c.is_ascii_digit());
    let mut state = Achieved::default();
    state.set_some(&MITIGATIONS, Some(mitigations(root)).filter(|names| !names.is_empty()));
    state.set_some(&PREEMPTION, preemption(root, machine));
    state.set_some(&TICK_HZ, tick_hz().filter(|_| root.is_live()));
    state.set_some(&NOHZ_FULL, root.line("sys/devices/system/cpu/nohz_full").ok().filter(is_list));
    state.set_some(&CGROUP_DEPTH, groups.lines().filter_map(depth).max());
    state.set_some(&SECCOMP_FILTERS, filters(&status));
    state.set_some(&HYPERVISOR, machine.virtualisation.hypervisor.clone());
    state
}

/// Returns the names of vulnerabilities whose mitigation costs time at entries or switches.
fn mitigations(root: &Root) -> Vec<String> {
    let mut names = root.names(VULNERABILITIES).unwrap_or_default();
    names.sort();
    let state = |name: &String| root.line(format!("{VULNERABILITIES}/{name}")).unwrap_or_default();
    names.retain(|name| is_costly(&state(name)));
    names
}

fn is_costly(state: &str) -> bool {
    let state = FREE_WORDS.iter().fold(state.to_owned(), |state, free| state.replace(free, ""));
    // "Vulnerable: Safe RET, no microcode": the kernel's part is at work.
    let is_active = state.starts_with("Mitigation") || state.starts_with("Vulnerable: Safe RET");
    is_active && COSTLY_WORDS.iter().any(|word| state.contains(word))
}

/// Returns the preemption model as chosen (debugfs or command line) or built in, if known.
fn preemption(root: &Root, machine: &Machine) -> Option<String> {
    let chosen = root.line("sys/kernel/debug/sched/preempt").ok();
    let chosen = chosen.and_then(|all| Some(all.split_once('(')?.1.split_once(')')?.0.to_owned()));
    let typed = || {
        let line = root.line("proc/cmdline").ok()?;
        line.split_whitespace().find_map(|word| word.strip_prefix("preempt=")).map(str::to_owned)
    };
    let built = machine.kernel.version.as_deref().unwrap_or_default();
    let built = built.split_whitespace().find(|word| word.starts_with("PREEMPT"));
    match (chosen.or_else(typed), built) {
        (_, Some("PREEMPT_RT")) => Some("PREEMPT_RT".to_owned()),
        (Some(model), _) => Some(format!("preemption {model}")),
        (None, Some(built)) => Some(built.to_owned()),
        (None, None) => machine.kernel.version.is_some().then(|| "no preemption".to_owned()),
    }
}

/// Returns the timer interrupts per second by the resolution of the coarse clock, if known.
fn tick_hz() -> Option<u64> {
    let period = clock_getres(ClockId::MonotonicCoarse);
    let ns = u64::try_from(period.tv_nsec).ok().filter(|ns| *ns > 1)?;
    (period.tv_sec == 0).then(|| (1_000_000_000 + ns / 2) / ns)
}

/// Returns how many control groups a /proc/self/cgroup line names: 0 for root, `None` if malformed.
fn depth(line: &str) -> Option<u64> {
    let path = line.splitn(3, ':').nth(2)?;
    Some(path.split('/').filter(|part| !part.is_empty()).count() as u64)
}

/// Returns the number of seccomp filters in /proc/self/status (1 if not counted); `None`: unknown.
fn filters(status: &str) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    match (field("Seccomp:"), field("Seccomp_filters:")) {
        (Some(2), counted) => Some(counted.unwrap_or(1).max(1)),
        (mode, counted) => mode.and(counted.or(Some(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::fixture::Fixture;

    #[test]
    fn what_costs_at_each_entry_is_told_from_what_does_not() {
        assert!(is_costly("Mitigation: PTI"));
        assert!(is_costly("Mitigation: Clear CPU buffers; SMT vulnerable"));
        assert!(is_costly("Mitigation: untrained return thunk; SMT enabled with STIBP protection"));
        assert!(!is_costly("Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; STIBP: disabled"));
        assert!(is_costly("Vulnerable: Safe RET, no microcode"));
        assert!(!is_costly("Vulnerable: Clear CPU buffers attempted, no microcode"));
        assert!(is_costly("Mitigation: Retpolines; STIBP: disabled; PBRSB-eIBRS: Not affected"));
        assert!(!is_costly("Mitigation: STIBP: disabled; PBRSB-eIBRS: Not affected"));
        assert!(!is_costly("Not affected") && !is_costly("Mitigation: Speculative Store Bypass disabled"));
    }

    #[test]
    fn the_state_is_read() {
        let tree = r"
proc/self/status = Seccomp:\t2\nSeccomp_filters:\t3
proc/self/cgroup = 0::/a/b.slice/c.scope
proc/cmdline = root=/dev/vda preempt=full quiet
sys/devices/system/cpu/nohz_full = 1-3
sys/devices/system/cpu/vulnerabilities/meltdown = Mitigation: PTI
sys/devices/system/cpu/vulnerabilities/mds = Not affected
";
        let fixture = Fixture::unpack(tree).unwrap();
        let mut expected = Achieved::default();
        expected.set(&MITIGATIONS, vec!["meltdown".to_owned()]);
        expected.set(&PREEMPTION, "preemption full");
        expected.set(&NOHZ_FULL, "1-3");
        expected.set(&CGROUP_DEPTH, 3_u64);
        expected.set(&SECCOMP_FILTERS, 3_u64);
        assert_eq!(read(&fixture.root, &fixture.machine()), expected);
    }

    #[test]
    fn a_system_that_shows_nothing_has_an_unknown_state() {
        let (root, machine) = (Root::at("/nonexistent"), Machine::discover(&Root::at("/nonexistent")));
        assert_eq!(read(&root, &machine), Achieved::default());
    }

    #[test]
    fn filters_are_counted_and_old_kernels_say_only_that_there_are_some() {
        assert_eq!(filters("Seccomp:\t2\nSeccomp_filters:\t5\n"), Some(5));
        let said = (filters("Seccomp:\t2\n"), filters("Seccomp:\t0\nSeccomp_filters:\t0\n"));
        assert_eq!(said, (Some(1), Some(0)));
        assert_eq!((filters("Seccomp:\t0\n"), filters("")), (Some(0), None));
        assert_eq!((depth("0::/"), depth("3:cpu,cpuacct:/a/b"), depth("x")), (Some(0), Some(2), None));
    }

    #[test]
    fn the_tick_of_this_kernel_is_plausible() {
        assert!(tick_hz().is_none_or(|hz| (10..=10_000).contains(&hz)));
    }
}
