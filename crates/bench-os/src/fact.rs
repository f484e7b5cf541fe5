use plimsoll_model::sample::{CaseFact, OwnCondition};

pub(super) const THREAD_CPUS: CaseFact<Vec<usize>> = CaseFact::new("cpus");
/// Vulnerabilities whose mitigation adds work to system calls, faults or switches.
pub(super) const MITIGATIONS: CaseFact<Vec<String>> = CaseFact::new("mitigations");
pub(super) const PREEMPTION: CaseFact<String> = CaseFact::new("preemption");
pub(super) const TICK_HZ: CaseFact<u64> = CaseFact::new("tick_hz");
/// CPUs without a tick while one thread runs.
pub(super) const NOHZ_FULL: CaseFact<String> = CaseFact::new("nohz_full");
pub(super) const CGROUP_DEPTH: CaseFact<u64> = CaseFact::new("cgroup_depth");
/// Filters that each system call of the process passes.
pub(super) const SECCOMP_FILTERS: CaseFact<u64> = CaseFact::new("seccomp_filters");
pub(super) const HYPERVISOR: CaseFact<String> = CaseFact::new("hypervisor");

pub(super) const BOTH_CPUS: CaseFact<Vec<usize>> = CaseFact::new("pair");
/// Context switches of the first of the two threads, per turn.
pub(super) const SWITCH_SHARE: CaseFact<f64> = CaseFact::new("switch_share");
pub(super) const RESIDENT_KIB: CaseFact<u64> = CaseFact::new("resident_kib");

/// Time by which the kernel may end a sleep later, to combine wake-ups.
pub(super) const TIMER_SLACK_NS: CaseFact<u64> = CaseFact::new("timer_slack_ns");
pub(super) const PAGE_BYTES: CaseFact<u64> = CaseFact::new("page_bytes");
pub(super) const FAULTS_PER_PAGE: CaseFact<f64> = CaseFact::new("faults_per_page");
pub(super) const FILE_SYSTEM: CaseFact<String> = CaseFact::new("file_system");
pub(super) const DIRECTORIES: CaseFact<usize> = CaseFact::new("directories");

/// Time to clear a page of the region that was just touched.
pub(super) const CLEAR_TIME: OwnCondition = OwnCondition::new("clear_time");
/// Interrupts to the firmware (SMI) on all CPUs.
pub(super) const FIRMWARE_INTERRUPTS: OwnCondition = OwnCondition::new("firmware_interrupts");
/// Time of a system call that does nothing, measured with each sample.
pub(super) const NULL_CALL: OwnCondition = OwnCondition::new("null_call");
