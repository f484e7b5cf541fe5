use plimsoll_model::sample::{CaseFact, OwnCondition};

pub(super) const THREAD_CPUS: CaseFact<Vec<usize>> = CaseFact::new("cpus", "the CPU of each thread");
pub(super) const MITIGATIONS: CaseFact<Vec<String>> = CaseFact::new(
    "mitigations",
    "vulnerabilities whose mitigation adds work to system calls, faults or switches",
);
pub(super) const PREEMPTION: CaseFact<String> =
    CaseFact::new("preemption", "the preemption model of the kernel, as far as it shows it");
pub(super) const TICK_HZ: CaseFact<u64> = CaseFact::new("tick_hz", "timer interrupts a second of a busy CPU");
pub(super) const NOHZ_FULL: CaseFact<String> =
    CaseFact::new("nohz_full", "CPUs without a tick while one thread runs");
pub(super) const CGROUP_DEPTH: CaseFact<u64> =
    CaseFact::new("cgroup_depth", "control groups from the root to that of the process");
pub(super) const SECCOMP_FILTERS: CaseFact<u64> =
    CaseFact::new("seccomp_filters", "filters that each system call of the process passes");
pub(super) const HYPERVISOR: CaseFact<String> =
    CaseFact::new("hypervisor", "the hypervisor below the kernel, if there is one");

pub(super) const BOTH_CPUS: CaseFact<Vec<usize>> =
    CaseFact::new("pair", "the CPUs of the two that wake each other");
pub(super) const SWITCH_SHARE: CaseFact<f64> =
    CaseFact::new("switch_share", "context switches of the first of the two, per turn");
pub(super) const RESIDENT_KIB: CaseFact<u64> =
    CaseFact::new("resident_kib", "memory of the process that is copied, in KiB");

pub(super) const TIMER_SLACK_NS: CaseFact<u64> =
    CaseFact::new("timer_slack_ns", "how much later the kernel may end a sleep, to join wake-ups");
pub(super) const PAGE_BYTES: CaseFact<u64> = CaseFact::new("page_bytes", "bytes of a touched page");
pub(super) const FAULTS_PER_PAGE: CaseFact<f64> =
    CaseFact::new("faults_per_page", "page faults for each touched page, as the kernel counts them");
pub(super) const FILE_SYSTEM: CaseFact<String> = CaseFact::new("file_system", "the file system of the files");
pub(super) const DIRECTORIES: CaseFact<usize> =
    CaseFact::new("directories", "directories that hold the files");

/// Time to clear a page of the region that was just touched.
pub(super) const CLEAR_TIME: OwnCondition = OwnCondition::new(
    "clear_time",
    "s",
    "shortest mean time to overwrite a page of the region with zeros, with the sample",
);
pub(super) const FIRMWARE_INTERRUPTS: OwnCondition =
    OwnCondition::new("firmware_interrupts", "1", "interrupts to the firmware (SMI) on all CPUs");
/// Time of a system call that does nothing, measured with each sample.
pub(super) const NULL_CALL: OwnCondition = OwnCondition::new(
    "null_call",
    "s",
    "shortest mean time of 64 calls of getppid(2) without the C library, with the sample",
);
