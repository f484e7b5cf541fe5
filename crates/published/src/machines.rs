//! What the machines of the published reports can do at most, each bound with the reason that a figure past it gets.
//!
//! A bound is generous: the most that the maker or provider publishes for the device, the rate of its link, or what no
//! device of its kind reaches. It is never a limit that a report guessed, a rate that a program was asked for, or a typical
//! value of a data sheet. So a figure past it is refuted, and one below it is not thereby right. Rates of the memory have
//! no bound: blocks of all the reports can be cached in part.

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
const GP2_LATENCY: &str = "under 0.1 ms an operation, in which no network-attached disk answers: page cache";
/// The fastest disks of 2017 with one spindle pass 250 MB/s on their outer tracks.
const SPINDLE: &str = "past 300 MB/s, which no hard disk reaches: page cache";
/// An arm that moves makes some 200 operations a second; 1000 leaves room for a queue that is sorted.
const ARM: &str = "past 1000 random operations/s, which no hard disk reaches: page cache";
const ARM_LATENCY: &str = "under 0.1 ms an operation, in which no hard disk answers: page cache";

/// A T2 instance with a gp2 volume. Its link is not published in figures ("low to moderate"): by TCP twice what iperf saw,
/// by UDP unknown, as iperf sends that at the rate it is asked for.
const T2: Machine = Machine {
    cpus: Some(1.0),
    read: bound(250.0 * MEBI, GP2),
    write: bound(250.0 * MEBI, GP2),
    operations: bound(16e3, GP2_OPERATIONS),
    disk_latency: bound(100e-6, GP2_LATENCY),
    ..Machine::UNKNOWN
};

const TWICE_IPERF: &str = "past twice iperf's rate of the same protocol, so more than both directions together: traffic inside the host";

/// The provider publishes one port of 10 Gbit/s for each of its standard nodes.
const ETHERNET: &str = "past 10 Gbit/s, the Ethernet of such a node: inside the host, or Gbit/s are meant";
/// 6 Gbit/s with 8 of 10 bits for data.
const SATA: &str = "past 600 MB/s, the most that a SATA link carries: page cache, or computed";

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
        ..T2
    },
    Machine {
        report: "ec2-t2micro-java",
        clock: 3.3e9,
        // E5-2670 v2 at its highest turbo clock, 3.3 GHz, 8 a cycle.
        flops: bound(26.4e9, "past 26.4 GFLOP/s, one core at 3.3 GHz × 8 a cycle: two CPUs are counted"),
        tcp: bound(2.0 * 831e6, TWICE_IPERF),
        ..T2
    },
    Machine {
        report: "chameleon-baremetal",
        // Two E5-2670 v3: 24 cores, 3.1 GHz at most, 16 a cycle.
        clock: 3.1e9,
        cpus: Some(24.0),
        flops: bound(1190e9, "past 1190 GFLOP/s, 24 cores at 3.1 GHz × 16 a cycle"),
        tcp: bound(10e9, ETHERNET),
        udp: bound(10e9, ETHERNET),
        ..DISK
    },
    Machine {
        report: "chameleon-kvm",
        // LINPACK saw two CPUs at 2.895 GHz; a base clock of 2.29 GHz is that of the testbed's Haswell nodes (E5-2670 v3), at
        // most 3.1 GHz, 16 a cycle. Their disk is the hard disk that the report on the same testbed's bare metal names.
        clock: 3.1e9,
        cpus: Some(2.0),
        flops: bound(99.2e9, "past 99.2 GFLOP/s, the two CPUs that LINPACK saw at 3.1 GHz × 16 a cycle"),
        same_host: true,
        ..DISK
    },
    Machine {
        report: "hyperion-prometheus",
        clock: 2.3e9,
        // Its limits of 540 and 410 MB/s and 93000 operations/s are typical values of a SATA disk's data sheet.
        read: bound(600e6, SATA),
        write: bound(600e6, SATA),
        disk_latency: bound(20e-6, "under 20 µs an operation, in which no SATA disk answers: page cache"),
        tcp: bound(56e9, "past the link of 56 Gbit/s: traffic inside the host, or miscounted"),
        udp: bound(56e9, "past the link of 56 Gbit/s: traffic inside the host, or miscounted"),
        ..Machine::UNKNOWN
    },
];
