//! The families of tables of each report, with its own words for operations and sizes.

use super::{Key, Kind, Spec};
use crate::{Figure, LATENCY, THROUGHPUT};

use Key::{Block, Metric, Operation, Part, Role, Source, Statistic, Subsystem, Threads};

/// The families of tables of a report, in its order.
pub(super) fn of(name: &str) -> &'static [Spec] {
    match name {
        "ec2-t2micro" => T2_MICRO,
        "chameleon-baremetal" => BARE_METAL,
        "chameleon-kvm" => KVM,
        "hyperion-prometheus" => HYPERION,
        "ec2-t2micro-java" => T2_MICRO_JAVA,
        _ => &[],
    }
}

fn own(figure: &Figure, subsystem: &str) -> bool {
    figure.subsystem == subsystem && !figure.is_of_text() && figure.source == "own"
}

fn own_of(figure: &Figure, subsystem: &str, metric: &str) -> bool {
    own(figure, subsystem) && figure.metric == metric
}

/// Of any source: the report prints reference and theory beside each point.
fn any_of(figure: &Figure, subsystem: &str, metric: &str) -> bool {
    figure.subsystem == subsystem && !figure.is_of_text() && figure.metric == metric
}

fn program(figure: &Figure, source: &str) -> bool {
    figure.source == source && !figure.is_of_text()
}

/// Whether it is one run of a program and no summary of several.
fn single(figure: &Figure) -> bool {
    figure.statistic == "single"
}

type Labels = &'static [(&'static str, &'static str, &'static str)];
type Blocks = &'static [(&'static str, &'static str)];

/// Numbers of the text, in every report.
const TEXT: Spec = Spec {
    title: "numbers of the text",
    kind: Kind::Text,
    takes: Figure::is_of_text,
    tables: &[],
    rows: &[Subsystem, Operation, Block, Metric, Part(0)],
    columns: &[Role],
    labels: &[],
    blocks: &[],
};

const OWN: Spec = Spec {
    title: "",
    kind: Kind::Own,
    takes: |_| false,
    tables: &[],
    rows: &[],
    columns: &[],
    labels: &[],
    blocks: &[],
};

const PROGRAM: Spec = Spec { kind: Kind::Program, ..OWN };

const T2_CPU: Labels =
    &[("integer-ops", "", "integer operations"), ("float-ops", "", "floating-point operations")];
const T2_DISK: Labels = &[
    ("write", "sequential", "Seq_Write"),
    ("read", "sequential", "Seq_Read"),
    ("write", "random", "Rand_Write"),
    ("read", "random", "Rand_Read"),
];
const TRANSPORTS: Labels = &[("tcp", "", "TCP"), ("udp", "", "UDP")];
const T2_BLOCKS: Blocks = &[("1", "1B"), ("1024", "1KB"), ("1048576", "1MB"), ("65536", "64KB")];

const T2_MICRO: &[Spec] = &[
    Spec {
        title: "CPU throughput",
        takes: |f| own(f, "cpu"),
        tables: &[Operation],
        rows: &[Threads],
        columns: &[Statistic],
        labels: T2_CPU,
        ..OWN
    },
    Spec {
        title: "LINPACK, each trial",
        takes: |f| program(f, "linpack") && single(f),
        rows: &[Part(0), Part(1)],
        columns: &[Metric],
        ..PROGRAM
    },
    Spec {
        title: "LINPACK, summary by problem size",
        takes: |f| program(f, "linpack"),
        rows: &[Part(0)],
        columns: &[Statistic],
        ..PROGRAM
    },
    Spec {
        title: "disk throughput and latency",
        takes: |f| own(f, "disk"),
        tables: &[Threads, Block],
        rows: &[Operation],
        columns: &[Metric, Statistic],
        labels: T2_DISK,
        blocks: T2_BLOCKS,
        ..OWN
    },
    Spec {
        title: "network throughput and latency",
        takes: |f| own(f, "network"),
        tables: &[Operation, Threads],
        rows: &[Block],
        columns: &[Metric, Statistic],
        labels: TRANSPORTS,
        blocks: T2_BLOCKS,
        ..OWN
    },
    TEXT,
];

const CHAMELEON_BLOCKS: Blocks =
    &[("8", "8B"), ("8192", "8kB"), ("8388608", "8MB"), ("83886080", "80MB"), ("65536", "64Kb")];
const BARE_METAL_OPERATIONS: Labels = &[
    ("float-ops", "", "GFLOPS"),
    ("integer-ops", "", "GIOPS"),
    ("read+write", "sequential", "Sequential R+W"),
    ("read", "sequential", "Sequential R"),
    ("write", "sequential", "Sequential W"),
    ("read", "random", "Random R"),
    ("write", "random", "Random W"),
    ("tcp", "", "TCP"),
    ("udp", "", "UDP"),
];

/// By threads, the operations beside each other.
const BARE_METAL_LATENCY: Spec = Spec {
    tables: &[Block],
    rows: &[Threads],
    columns: &[Operation],
    labels: BARE_METAL_OPERATIONS,
    blocks: CHAMELEON_BLOCKS,
    ..OWN
};
/// A table for each number of threads, blocks by operations.
const BARE_METAL_THROUGHPUT: Spec = Spec { tables: &[Threads], rows: &[Block], ..BARE_METAL_LATENCY };

const BARE_METAL: &[Spec] = &[
    Spec { title: "CPU throughput", takes: |f| own(f, "cpu"), tables: &[], ..BARE_METAL_LATENCY },
    Spec { title: "memory latency", takes: |f| own_of(f, "memory", LATENCY), ..BARE_METAL_LATENCY },
    Spec { title: "memory throughput", takes: |f| own_of(f, "memory", THROUGHPUT), ..BARE_METAL_THROUGHPUT },
    Spec { title: "disk latency", takes: |f| own_of(f, "disk", LATENCY), ..BARE_METAL_LATENCY },
    Spec { title: "disk throughput", takes: |f| own_of(f, "disk", THROUGHPUT), ..BARE_METAL_THROUGHPUT },
    Spec { title: "network latency", takes: |f| own_of(f, "network", LATENCY), ..BARE_METAL_LATENCY },
    Spec { title: "network throughput", takes: |f| own_of(f, "network", THROUGHPUT), ..BARE_METAL_LATENCY },
    TEXT,
];

const KVM_BLOCKS: Blocks =
    &[("8", "8B"), ("8192", "8KB"), ("8388608", "8MB"), ("83886080", "80MB"), ("65536", "64kb")];
const KVM_CPU: Labels = &[("integer-ops", "", "GIOPS"), ("float-ops", "", "GFLOPS")];
const KVM_MEMORY: Labels = &[
    ("read+write", "", "ReadWrite"),
    ("write", "sequential", "SequentialWrite"),
    ("write", "random", "RandomWrite"),
];
const KVM_DISK: Labels = &[
    ("read+write", "", "WriteRead"),
    ("read", "sequential", "Sequential Read"),
    ("read", "random", "Random READ"),
];
const KVM_DISK_LATENCY: Labels =
    &[("read+write", "", "WriteRead"), ("read", "sequential", "Seq_read"), ("read", "random", "Ran_Read")];

const KVM: &[Spec] = &[
    Spec {
        title: "CPU throughput",
        takes: |f| own(f, "cpu"),
        rows: &[Operation],
        columns: &[Threads],
        labels: KVM_CPU,
        ..OWN
    },
    Spec {
        title: "LINPACK, each trial",
        takes: |f| program(f, "linpack") && single(f),
        rows: &[Part(0), Part(1)],
        columns: &[Metric],
        ..PROGRAM
    },
    Spec {
        title: "LINPACK, summary by problem size",
        takes: |f| program(f, "linpack"),
        rows: &[Part(0)],
        columns: &[Statistic],
        ..PROGRAM
    },
    Spec {
        title: "memory latency",
        takes: |f| own_of(f, "memory", LATENCY),
        tables: &[Block],
        rows: &[Operation],
        columns: &[Threads],
        labels: KVM_MEMORY,
        blocks: KVM_BLOCKS,
        ..OWN
    },
    Spec {
        title: "memory throughput",
        takes: |f| own_of(f, "memory", THROUGHPUT),
        tables: &[Operation],
        rows: &[Block],
        columns: &[Threads],
        labels: KVM_MEMORY,
        blocks: KVM_BLOCKS,
        ..OWN
    },
    Spec {
        title: "STREAM",
        takes: |f| program(f, "stream"),
        tables: &[Part(0)],
        rows: &[Operation],
        columns: &[Metric],
        ..PROGRAM
    },
    Spec {
        title: "disk throughput",
        takes: |f| own_of(f, "disk", THROUGHPUT),
        tables: &[Operation],
        rows: &[Threads],
        columns: &[Block],
        labels: KVM_DISK,
        blocks: KVM_BLOCKS,
        ..OWN
    },
    Spec {
        title: "disk latency",
        takes: |f| own_of(f, "disk", LATENCY),
        tables: &[Block],
        rows: &[Threads],
        columns: &[Operation],
        labels: KVM_DISK_LATENCY,
        blocks: KVM_BLOCKS,
        ..OWN
    },
    Spec {
        title: "IOzone",
        takes: |f| program(f, "iozone"),
        rows: &[Part(0)],
        columns: &[Operation],
        ..PROGRAM
    },
    Spec {
        title: "network throughput (64kb) and latency (8kb)",
        takes: |f| own(f, "network"),
        tables: &[Operation],
        rows: &[Threads],
        columns: &[Metric],
        ..OWN
    },
    Spec {
        title: "iperf",
        takes: |f| program(f, "iperf"),
        tables: &[Operation, Part(0), Part(1)],
        rows: &[Part(2)],
        columns: &[Metric],
        ..PROGRAM
    },
    TEXT,
];

/// A row a point: own figure, reference program, theory, both efficiencies.
const HYPERION_OWN: Spec = Spec { columns: &[Source], blocks: HYPERION_BLOCKS, ..OWN };
const HYPERION_BLOCKS: Blocks = &[
    ("1", "1B"),
    ("1024", "1KB"),
    ("32768", "32KB"),
    ("1048576", "1MB"),
    ("10485760", "10MB"),
    ("104857600", "100MB"),
];
const HYPERION_CPU: Labels = &[
    ("integer-ops", "QP", "QP (char)"),
    ("integer-ops", "HP", "HP (short)"),
    ("integer-ops", "SP", "SP (int)"),
    ("float-ops", "DP", "DP (double)"),
];
const HYPERION_MEMORY: Labels = &[("read+write", "sequential", "RWS"), ("read+write", "random", "RWR")];
const HYPERION_DISK: Labels = &[
    ("read", "sequential", "RS"),
    ("write", "sequential", "WS"),
    ("read", "random", "RR"),
    ("write", "random", "WR"),
];

const HYPERION: &[Spec] = &[
    Spec {
        title: "CPU throughput",
        takes: |f| any_of(f, "cpu", THROUGHPUT),
        rows: &[Operation, Threads],
        labels: HYPERION_CPU,
        ..HYPERION_OWN
    },
    Spec {
        title: "memory throughput",
        takes: |f| any_of(f, "memory", THROUGHPUT),
        rows: &[Operation, Threads, Block],
        labels: HYPERION_MEMORY,
        ..HYPERION_OWN
    },
    Spec {
        title: "memory latency",
        takes: |f| any_of(f, "memory", LATENCY),
        rows: &[Operation, Threads, Block],
        labels: HYPERION_MEMORY,
        ..HYPERION_OWN
    },
    Spec {
        title: "disk throughput",
        takes: |f| any_of(f, "disk", THROUGHPUT),
        rows: &[Operation, Threads, Block],
        labels: HYPERION_DISK,
        ..HYPERION_OWN
    },
    Spec {
        title: "disk latency",
        takes: |f| any_of(f, "disk", LATENCY),
        rows: &[Operation, Threads, Block],
        labels: HYPERION_DISK,
        ..HYPERION_OWN
    },
    Spec {
        title: "disk IOPS",
        takes: |f| any_of(f, "disk", "iops"),
        rows: &[Operation, Threads, Block],
        labels: HYPERION_DISK,
        ..HYPERION_OWN
    },
    Spec {
        title: "network throughput",
        takes: |f| any_of(f, "network", THROUGHPUT),
        rows: &[Operation, Threads, Block],
        labels: TRANSPORTS,
        ..HYPERION_OWN
    },
    Spec {
        title: "network latency",
        takes: |f| any_of(f, "network", LATENCY),
        rows: &[Operation, Threads, Block],
        labels: TRANSPORTS,
        ..HYPERION_OWN
    },
];

const JAVA_CPU: Labels = &[("integer-ops", "", "Integer Operation"), ("float-ops", "", "Floating Operation")];
const JAVA_DISK: Labels = &[
    ("write", "sequential", "Write_Sequential"),
    ("read", "sequential", "Read_Sequential"),
    ("write", "random", "Write_Random"),
    ("read", "random", "Read_Random"),
];
const JAVA_BLOCKS: Blocks =
    &[("1", "1 Byte"), ("1024", "1 KB"), ("1048576", "1 MB"), ("65507", "64 KB (65507 bytes)")];

/// A table for each number of threads and block.
const JAVA_DISK_TABLE: Spec = Spec {
    tables: &[Threads, Block],
    rows: &[Operation],
    columns: &[Statistic],
    labels: JAVA_DISK,
    blocks: &[("1", "1B"), ("1024", "1KB"), ("1048576", "1MB")],
    ..OWN
};
/// A table for each transport and number of threads.
const JAVA_NETWORK: Spec = Spec {
    tables: &[Operation, Threads],
    rows: &[Block],
    columns: &[Statistic],
    labels: TRANSPORTS,
    blocks: JAVA_BLOCKS,
    ..OWN
};

const T2_MICRO_JAVA: &[Spec] = &[
    Spec {
        title: "CPU throughput",
        takes: |f| own(f, "cpu"),
        tables: &[Operation],
        rows: &[Threads],
        columns: &[Statistic],
        labels: JAVA_CPU,
        ..OWN
    },
    Spec { title: "disk throughput", takes: |f| own_of(f, "disk", THROUGHPUT), ..JAVA_DISK_TABLE },
    Spec { title: "disk latency", takes: |f| own_of(f, "disk", LATENCY), ..JAVA_DISK_TABLE },
    Spec {
        title: "network latency",
        takes: |f| own_of(f, "network", LATENCY) && f.operation == "tcp",
        ..JAVA_NETWORK
    },
    Spec {
        title: "network throughput",
        takes: |f| own_of(f, "network", THROUGHPUT) && f.operation == "tcp",
        ..JAVA_NETWORK
    },
    Spec { title: "network latency", takes: |f| own_of(f, "network", LATENCY), ..JAVA_NETWORK },
    Spec { title: "network throughput", takes: |f| own_of(f, "network", THROUGHPUT), ..JAVA_NETWORK },
    Spec {
        title: "iperf, TCP",
        takes: |f| program(f, "iperf"),
        rows: &[Part(0)],
        columns: &[Metric],
        ..PROGRAM
    },
    TEXT,
];
