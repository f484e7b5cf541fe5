//! Meaning and remedy of each warning code: the entries of docs/src/warnings.md.

/// Entry of a code.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Stable code in the run document.
    pub code: &'static str,
    /// Finding, in whole sentences.
    pub meaning: &'static str,
    /// Advice, in whole sentences.
    pub remedy: &'static str,
}

const fn entry(code: &'static str, meaning: &'static str, remedy: &'static str) -> Entry {
    Entry { code, meaning, remedy }
}

/// All codes, by name.
pub const ENTRIES: &[Entry] = &[
    entry(
        "budget-exceeded",
        "The case ended after its budget: set-up, a sample or a search that was started is completed.",
        "Take shorter samples (`--sample-time`), fewer `--samples`, or give a larger `--budget`.",
    ),
    entry(
        "buffers-not-registered",
        "io_uring works on buffers that are not registered with the kernel, which costs processor time for each transfer.",
        "Raise the limit of locked memory (`ulimit -l`).",
    ),
    entry(
        "burst-credit",
        "A device was faster in the first rounds than in the last: burst credit or a write cache was used up. The figure is that of \
         the last rounds.",
        "Nothing, if the sustained rate is wanted.",
    ),
    entry(
        "burst-in-sample",
        "A token bucket's burst lasts through whole samples, which show more than its base rate.",
        "Take a longer `--sample-time`.",
    ),
    entry(
        "cached-below",
        "A loop device's file was answered from a page cache: the figure is memory's as much as the disk's.",
        "Choose a `--dir` on the disk itself.",
    ),
    entry(
        "caches-unknown",
        "The size of the last-level caches is unknown; a size was assumed.",
        "Choose a `--size` well above the caches.",
    ),
    entry(
        "clock-above-maximum",
        "The measured core clock is above the maximum that the processor states: the hypervisor hides which processor it is.",
        "Give the limits with `--limits`, if you know the processor.",
    ),
    entry(
        "clock-changed",
        "The core clock changed, or could not be measured, during some slices (short pieces of a sample), which are excluded. The figure holds at the clock shown.",
        "Nothing; on a machine that is yours alone, a fixed frequency excludes less.",
    ),
    entry(
        "clock-unknown",
        "The core clock cannot be measured, so limits that need it are unknown.",
        "Measure on another machine, or give the limits with `--limits`.",
    ),
    entry(
        "contents-unknown",
        "It is unknown whether the device was ever written: unwritten or trimmed parts may be answered without \
         touching the medium.",
        "Use `--dir`; or, if nothing on the device is needed, write it first (`--destroy-data-on`).",
    ),
    entry(
        "cpu-quota",
        "A control group (cgroup) allows fewer CPUs' worth of time than the case has threads.",
        "Use fewer `--threads`, or measure in a group with a larger quota (`cpu.max`).",
    ),
    entry(
        "cpus-moved",
        "The hypervisor moved the virtual CPUs while the case was measured, so its samples are of different places.",
        "Measure again, or on a dedicated host.",
    ),
    entry(
        "cpus-on-one-core",
        "The hypervisor shows the CPUs as cores of their own, and ran them as threads of one core for the whole case. The limit counts \
         a core for each, so it is too high for this case.",
        "Measure again, or on a dedicated host.",
    ),
    entry(
        "default-size",
        "The order of the matrices was chosen so that a sample takes some seconds; memory has room for a larger one, which comes \
         nearer the limit.",
        "Choose `--n`.",
    ),
    entry(
        "depth-not-reached",
        "Fewer transfers were in flight than `--depth` requests: the engine does one at a time, syncs empty the queue, or the \
         device, an I/O limit or one CPU holds it back.",
        "Use io_uring, more `--threads`, or fewer syncs.",
    ),
    entry(
        "device-users-unknown",
        "plimsoll cannot see all users of the device.",
        "Make sure that no other program or machine uses it.",
    ),
    entry("ends-share-cpu", "Client and server run on one CPU, in turn.", "Allow the process a second CPU."),
    entry(
        "engine-fell-back",
        "Another I/O engine did the work than the requested one, because the kernel refuses the first.",
        "Use `--engine psync`; `kernel.io_uring_disabled` and seccomp decide whether io_uring can be used.",
    ),
    entry(
        "few-pairs",
        "A reference tool's time was used up before there were enough paired samples (one of the tool, one of plimsoll) for a verdict.",
        "Give a larger `--budget`.",
    ),
    entry(
        "few-samples",
        "There are too few samples for a confidence interval.",
        "Take `--samples 5` or more, or give a larger `--budget`.",
    ),
    entry(
        "fits-in-cache",
        "The working set fits partly into a cache: caches answered in part.",
        "Choose the `--size` that the warning names.",
    ),
    entry(
        "foreign-datagrams",
        "Datagrams of another sender arrived at the ports of the measurement; they are excluded from the figure.",
        "Nothing, unless there are many.",
    ),
    entry(
        "hidden-siblings",
        "Virtual CPUs shared a core before the run, although the hypervisor shows one core for each. The limit counts the core once, unless the figure of a row shows that the CPUs have separate cores.",
        "Use fewer `--threads`, or a host that rents whole cores.",
    ),
    entry(
        "latency-search-disturbed",
        "The search for a latency target failed at depth 1, although the samples there meet it: something else used the device during the search.",
        "Measure again, or take a longer `--sample-time`.",
    ),
    entry(
        "latency-target-missed",
        "No queue depth meets the latency target; the figures are those of depth 1.",
        "Choose a wider `--latency-target`.",
    ),
    entry(
        "latency-target-not-held",
        "The latency target was met in the search, and not in the samples at that depth.",
        "Take a longer `--sample-time`, or choose a wider `--latency-target`.",
    ),
    entry(
        "limit-refuted",
        "The figure is above a limit that was inferred, so the limit does not apply to this machine. It is no longer used.",
        "Give the limit with `--limits`, if you know the machine.",
    ),
    entry(
        "limit-uncertain",
        "The figure is more than 2 % above its limit, but does not refute it: the core clock may have been measured too low, or short samples got more than the CPU quota's mean.",
        "Take five or more samples with a longer `--sample-time`, on an idle machine.",
    ),
    entry(
        "link-flapped",
        "The link of an interface that the packets take was lost while the case ran: of the client or of the server, named with \
         how often and for how long. The case is invalid if every packet takes this link; the link of one member of a bond or one \
         port of a bridge may carry none of them.",
        "Check cable and port of the interface, see `ip -s link` and the switch's counters, and run the case again.",
    ),
    entry(
        "memory-contended",
        "A part of the work took longer although no thread left its CPU, as when other programs or guests use the same cache or memory.",
        "Measure when the machine is idle, or choose a dedicated host.",
    ),
    entry(
        "memory-device",
        "The device keeps its bytes in memory (zram, brd, pmem): no disk was measured.",
        "Choose a `--dir` or `--target` on a disk.",
    ),
    entry(
        "memory-errors-corrected",
        "Memory controllers corrected errors during the case (EDAC), and each correction takes time.",
        "Replace the module that the kernel log names if more follow.",
    ),
    entry(
        "memory-errors-uncorrected",
        "Memory controllers counted errors during the case that they could not correct (EDAC): results may be wrong.",
        "Replace the module that the kernel log names.",
    ),
    entry(
        "more-threads-than-cpus",
        "The case has more threads than allowed CPUs: threads share a CPU, and the limit counts CPUs, not threads.",
        "Use fewer `--threads`.",
    ),
    entry(
        "mostly-excluded",
        "So much of the time was excluded that the figure may be off.",
        "See the warnings that name the cause.",
    ),
    entry(
        "named-file",
        "The file system has no nameless files (O_TMPFILE): the test file had a name for a moment.",
        "Nothing; a file that a kill leaves is removed by the next run.",
    ),
    entry(
        "nic-drops",
        "A network interface dropped more than 10 packets a second during the case.",
        "Use a lower rate; `ethtool -g` shows the sizes of its rings.",
    ),
    entry(
        "nic-errors",
        "A network interface received damaged packets during the case, or failed to send some: each is sent again or lost.",
        "Check cable, transceiver and switch port.",
    ),
    entry(
        "node-without-memory",
        "The NUMA node of a CPU has no memory: that of another node was measured.",
        "Choose another `--node`.",
    ),
    entry(
        "not-converged",
        "The confidence interval did not become as narrow as `--precision` requires.",
        "Take more or longer samples, or ask for less precision.",
    ),
    entry(
        "not-steady",
        "The rounds of `--steady` did not become steady.",
        "Allow more rounds (`--samples`, `--budget`), or longer ones (`--sample-time`).",
    ),
    entry(
        "page-cache",
        "Transfers went through the page cache: the figure is memory's as much as the device's.",
        "Use `--cache direct`.",
    ),
    entry(
        "pages-differ",
        "The kernel gave other pages than `--pages` requests.",
        "See `/sys/kernel/mm/transparent_hugepage/enabled`, or reserve huge pages.",
    ),
    entry(
        "pages-elsewhere",
        "Memory does not lie on the NUMA node that is measured.",
        "See `numactl --hardware`.",
    ),
    entry(
        "pairs-chosen",
        "Only some pairs of CPUs were measured, because all would take too long.",
        "Allow fewer CPUs (`taskset`) to see every pair of theirs.",
    ),
    entry(
        "pairs-stalled",
        "A pair of CPUs was left out of samples because it did not answer in time.",
        "Measure when these CPUs are idle, or allow other CPUs (`taskset`).",
    ),
    entry(
        "pairs-without-figure",
        "Pairs of machines have no figure; each is named with its reason.",
        "See the reasons.",
    ),
    entry(
        "part-of-device",
        "The steady state is that of a file which fills a part of its device. The whole device may settle at another rate.",
        "Choose a larger `--size`, or `--target`.",
    ),
    entry(
        "policed",
        "A traffic policer drops what is above a rate: the figure shows that rate, not the link.",
        "See `tc filter` on that machine.",
    ),
    entry(
        "policed-refuted",
        "A traffic policer on the path is set to a rate, but data arrived faster: the policer does not limit this figure.",
        "Nothing.",
    ),
    entry(
        "precondition-cut",
        "Not all of the file was overwritten before the first round of `--steady`.",
        "Set a smaller `--size` or a larger `--budget`.",
    ),
    entry(
        "preempted",
        "Other threads ran on the case's CPUs for a share of the time.",
        "Measure when the machine is idle.",
    ),
    entry(
        "rate-not-held",
        "Fewer transfers were done than `--rate` offers: the queue grows, and with it the latency.",
        "Choose a lower `--rate`, or a higher `--depth`.",
    ),
    entry(
        "reference-differs",
        "A reference tool worked with other settings than the case: the warning names the difference.",
        "Compare the two figures with that in mind.",
    ),
    entry(
        "search-not-converged",
        "The time of some searches ended before the lossless rate was known to 1 %: the figure is a lower bound.",
        "Take a longer `--sample-time`.",
    ),
    entry(
        "served-file-system",
        "A process (FUSE) or the host of a guest (9p, virtiofs) serves the file system and may answer from memory: the device behind it is \
         unknown.",
        "Choose a `--dir` on a disk of this machine.",
    ),
    entry(
        "server-cap",
        "The server's `--max-rate` is the limit of the figure, not the link.",
        "Start the server with a higher `--max-rate`.",
    ),
    entry(
        "server-cap-refuted",
        "The server announced a cap (`--max-rate`), but data arrived faster: the cap does not limit this figure.",
        "Nothing.",
    ),
    entry(
        "shaped",
        "A traffic shaper of the sender limits the rate: the figure shows that rate, not the link.",
        "See `tc qdisc` and `tc class` on the sender.",
    ),
    entry(
        "shaped-refuted",
        "A traffic shaper is set to a rate, but data left faster: the shaper does not limit this figure.",
        "Nothing.",
    ),
    entry(
        "sibling-busy",
        "A part of the work took longer by a fixed factor, and another thread or guest used the same core.",
        "Measure when the machine is idle, or choose a host that rents whole cores.",
    ),
    entry(
        "small-file",
        "The test file is smaller than planned, for want of space or time.",
        "Choose another `--dir`, or a larger `--budget`.",
    ),
    entry(
        "smt-siblings",
        "CPUs of the case are hardware threads of one core and share its units. The limit counts each core once.",
        "Nothing, or name CPUs of different cores.",
    ),
    entry(
        "space-saved",
        "Incompressible test data uses less disk space than was written: the file system deduplicates it, or does not write all of it.",
        "Choose a `--dir` on another file system.",
    ),
    entry(
        "stolen",
        "The hypervisor, interrupts or firmware used the CPUs for a share of the time, which is excluded.",
        "Choose a quieter or dedicated host.",
    ),
    entry(
        "thermal-throttling",
        "The processor slowed itself down during the case because of its temperature (`thermal_throttle`). A cooler one is faster.",
        "Check fans, heat sinks and the temperature of the room.",
    ),
    entry(
        "throttled",
        "A CPU quota of the control group stopped the threads for a share of the time.",
        "Measure in a group with a larger quota (`cpu.max`, `cpu.cfs_quota_us`).",
    ),
    entry(
        "token-bucket",
        "The path allows a burst and then a lower rate; the figure is the lower one.",
        "Nothing, if the sustained rate is wanted.",
    ),
    entry(
        "tool-shares-file",
        "There was no room for a separate test file for the reference tool: it wrote to the case's file, which is filled again \
         after each of its samples.",
        "Choose another `--dir` with more space.",
    ),
    entry(
        "two-rates",
        "A part of the work took longer by a fixed factor, and is excluded. No other work was seen on the same core.",
        "Unknown: the processor itself may do this.",
    ),
    entry(
        "volume-cut",
        "A sample was ended before it had moved its `--volume` or `--count`.",
        "Choose a smaller `--volume` or `--count`.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_entry_of_whole_sentences_in_order() {
        assert!(ENTRIES.windows(2).all(|pair| pair[0].code < pair[1].code), "sorted, none twice");
        for Entry { code, meaning, remedy } in ENTRIES {
            let plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(code.len() < 32 && code.chars().all(plain), "{code}");
            assert!(meaning.ends_with('.') && remedy.ends_with('.'), "{code}");
        }
    }
}
