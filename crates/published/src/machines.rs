//! What the machines of the published reports can do at most, each bound with the reason that a figure past it gets.
//!
//! A bound is generous: what the maker or provider publishes for the device, or what no device of its kind reaches. So a
//! figure past it is refuted, and one below it is not thereby right.

/// A figure that a device cannot pass, in base units, and what one past it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) why: &'static str,
}

const fn bound(value: f64, why: &'static str) -> Option<Bound> {
    Some(Bound { value, why })
}

/// The bounds of one report's machine; none where nothing is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) report: &'static str,
    pub(super) cpus: Option<f64>,
    /// Cycles a second.
    pub(super) clock: f64,
    /// Most floating-point operations a second.
    pub(super) flops: Option<Bound>,
    /// Most bytes a second of the memory.
    pub(super) memory: Option<Bound>,
    /// Least time of an access to the memory.
    pub(super) memory_latency: Option<Bound>,
    /// Most bytes a second that the disk reads.
    pub(super) read: Option<Bound>,
    /// Most bytes a second that the disk writes.
    pub(super) write: Option<Bound>,
    /// Most random operations a second of the disk.
    pub(super) operations: Option<Bound>,
    /// Least time of an operation of the disk.
    pub(super) disk_latency: Option<Bound>,
    /// Most bits a second by TCP.
    pub(super) tcp: Option<Bound>,
    /// Most bits a second by UDP.
    pub(super) udp: Option<Bound>,
    /// Whether both ends of its reference program were the same host.
    pub(super) same_host: bool,
}

impl Machine {
    const UNKNOWN: Self = Self {
        report: "",
        cpus: None,
        clock: 5e9,
        flops: None,
        memory: None,
        memory_latency: None,
        read: None,
        write: None,
        operations: None,
        disk_latency: None,
        tcp: None,
        udp: None,
        same_host: false,
    };

    /// The machine of a report.
    pub(super) fn of(report: &str) -> Self {
        MACHINES.iter().copied().find(|machine| machine.report == report).unwrap_or(Self::UNKNOWN)
    }
}

const MEBI: f64 = 1_048_576.0;
/// A volume of type gp2 is published with at most 250 MiB/s (160 until 2018) and 16000 operations a second (10000).
const GP2: &str = "past 250 MiB/s, the most a gp2 volume is published with: page cache";
const GP2_OPERATIONS: &str =
    "past 16000 random operations/s, the most a gp2 volume is published with: page cache";
/// The request crosses a network twice and reads flash; the provider publishes single-digit milliseconds.
const GP2_LATENCY: &str = "under 0.1 ms, which no network-attached disk reaches: page cache";
/// The fastest disks of 2017 with one spindle pass 250 MB/s on their outer tracks.
const SPINDLE: &str = "past 300 MB/s, which no hard disk reaches: page cache";
/// An arm that moves makes some 200 operations a second; 1000 leaves room for a queue that is sorted.
const ARM: &str = "past 1000 random operations/s, which no hard disk reaches: page cache";
const ARM_LATENCY: &str = "under 0.1 ms, which no hard disk reaches: page cache";

/// A T2 instance with a gp2 volume. Its link is not published in figures ("low to moderate"): twice what iperf saw.
const T2: Machine = Machine {
    cpus: Some(1.0),
    read: bound(250.0 * MEBI, GP2),
    write: bound(250.0 * MEBI, GP2),
    operations: bound(16e3, GP2_OPERATIONS),
    disk_latency: bound(100e-6, GP2_LATENCY),
    ..Machine::UNKNOWN
};

const TWICE_IPERF: &str =
    "past twice iperf's rate of the same protocol: traffic inside the host, or both directions counted";

const DISK: Machine = Machine {
    read: bound(300e6, SPINDLE),
    write: bound(300e6, SPINDLE),
    operations: bound(1e3, ARM),
    disk_latency: bound(100e-6, ARM_LATENCY),
    ..Machine::UNKNOWN
};

const MACHINES: &[Machine] = &[
    Machine {
        report: "ec2-t2micro",
        clock: 3.0e9,
        // E5-2676 v3 at its highest turbo clock, 3.0 GHz, 16 a cycle.
        flops: bound(48e9, "past 48 GFLOP/s, one core at 3.0 GHz × 16 a cycle"),
        tcp: bound(2.0 * 831e6, TWICE_IPERF),
        udp: bound(2.0 * 98.8e6, TWICE_IPERF),
        ..T2
    },
    Machine {
        report: "ec2-t2micro-java",
        clock: 3.3e9,
        // E5-2670 v2 at its highest turbo clock, 3.3 GHz, 8 a cycle.
        flops: bound(26.4e9, "past 26.4 GFLOP/s, one core at 3.3 GHz × 8 a cycle: two CPUs are counted"),
        tcp: bound(2.0 * 831e6, TWICE_IPERF),
        udp: bound(2.0 * 99.1e6, TWICE_IPERF),
        ..T2
    },
    Machine {
        report: "chameleon-baremetal",
        // Two E5-2670 v3: 24 cores, 3.1 GHz at most, 16 a cycle.
        clock: 3.1e9,
        cpus: Some(24.0),
        flops: bound(1190e9, "past 1190 GFLOP/s, 24 cores at 3.1 GHz × 16 a cycle"),
        memory: bound(59e9, "past the 59 GB/s of its memory"),
        tcp: bound(10e9, "past 10 Gbit/s, the card that its limit of 10 GB/s means"),
        udp: bound(10e9, "past 10 Gbit/s, the card that its limit of 10 GB/s means"),
        ..DISK
    },
    Machine {
        report: "chameleon-kvm",
        // LINPACK saw two CPUs at 2.895 GHz; the report counts 8 a cycle.
        clock: 2.895e9,
        cpus: Some(2.0),
        flops: bound(46.32e9, "past 46.3 GFLOP/s, the two CPUs that LINPACK saw at 2.895 GHz × 8 a cycle"),
        memory: bound(
            35.2e9,
            "past the report's limit of the memory, 35200 MB/s: cache, or work counted for each thread",
        ),
        same_host: true,
        ..DISK
    },
    Machine {
        report: "hyperion-prometheus",
        clock: 2.3e9,
        memory: bound(68.256e9, "past the report's limit of the memory, 68.256 GB/s"),
        memory_latency: bound(
            14.06e-9,
            "below the report's latency of the memory, 14.06 ns, for each thread: cached and overlapping accesses",
        ),
        read: bound(540e6, "past 540 MB/s, what one of its disks reads: page cache, or computed"),
        write: bound(410e6, "past 410 MB/s, what one of its disks writes: page cache, or computed"),
        operations: bound(93e3, "past 93000 random operations/s, the report's limit of its disk"),
        disk_latency: bound(20e-6, "under 20 µs, which no flash disk reaches: page cache"),
        tcp: bound(56e9, "past the link of 56 Gbit/s: traffic inside the host, or miscounted"),
        udp: bound(56e9, "past the link of 56 Gbit/s: traffic inside the host, or miscounted"),
        ..Machine::UNKNOWN
    },
];
