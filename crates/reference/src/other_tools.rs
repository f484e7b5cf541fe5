//! Recognises results that are not read, so that the error can name their tool.

const OTHER_TOOLS: &[(&[&str], &str)] = &[
    (&["\"exit_codes\"", "\"median\""], "hyperfine (plimsoll steady --results FILE reads it)"),
    (
        &["\"benchmarks\"", "\"machine_info\"", "\"stats\""],
        "pytest-benchmark (plimsoll steady --results FILE reads it)",
    ),
    (&["\"benchmarks\"", "\"real_time\""], "google-benchmark (plimsoll steady --results FILE reads it)"),
    (&["# OSU "], "another program of the OSU micro-benchmarks"),
    (&["Pinging ", " bytes of data"], "ping of Windows"),
    (&["TTL=", "ms"], "ping of Windows"),
    (&["\tIozone: "], "iozone"),
    (&["Iozone: Performance Test"], "iozone"),
    (&["ioping statistics"], "ioping"),
    (&["Timing buffered disk reads:"], "hdparm"),
    (&["Timing cached reads:"], "hdparm"),
    (&["Timing O_DIRECT"], "hdparm"),
    (&["Version ", "------Sequential Output------"], "bonnie++"),
    (&["dbench version "], "dbench"),
    (&["Operation", "Count", "AvgLat", "MaxLat"], "dbench"),
    (&["BYTE UNIX Benchmarks"], "UnixBench"),
    (&["System Benchmarks Index"], "UnixBench"),
    (&["HPLinpack benchmark input file"], "HPL, as its input"),
    (&["stress-ng: ", "bogo ops"], "stress-ng"),
    (&["RESULT\tdatetime="], "pmbw"),
    (&["Intel(R) Memory Latency Checker"], "Intel's Memory Latency Checker"),
    (&["BabelStream"], "BabelStream"),
    (&["tinymembench"], "tinymembench"),
    (&["Intel(R) MPI Benchmarks"], "Intel's MPI benchmarks"),
    (&["Intel (R) MPI Benchmark"], "Intel's MPI benchmarks"),
    (&["Residual(norm)", "GFlops"], "Intel's LINPACK benchmark"),
    (&["LINPACK benchmark, "], "LINPACK in C"),
    (&["HPCG"], "HPCG"),
    (&["NAS Parallel Benchmarks"], "the NAS Parallel Benchmarks"),
    (&["CoreMark Size"], "CoreMark"),
    (&["Dhrystone"], "Dhrystone or UnixBench"),
    (&["Geekbench"], "Geekbench"),
    (&["7-Zip", "Benchmark"], "7-Zip's benchmark"),
    (&["7-Zip", "MIPS"], "7-Zip's benchmark"),
    (&["type             16 bytes"], "openssl speed"),
    (&["The 'numbers' are in 1000s of bytes per second processed"], "openssl speed"),
    (&["sign/s verify/s"], "openssl speed"),
    (&["#bytes     #iterations", "BW"], "perftest (ib_write_bw and others)"),
    (&["#bytes #iterations", "t_typical"], "perftest (ib_write_lat and others)"),
    (&["tcp_bw:"], "qperf"),
    (&["tcp_lat:"], "qperf"),
    (&["Running ", " test @ http"], "wrk"),
    (&["This is ApacheBench"], "ApacheBench"),
    (&["Speedtest by Ookla"], "Speedtest"),
    (&["Testing download speed", "Download: "], "speedtest-cli"),
    (&["nuttcp"], "nuttcp"),
    (&[" MB / ", " Mbps ", " %TX "], "nuttcp"),
    (&["uperf", "Txn"], "uperf"),
    (&["elbencho"], "elbencho"),
    (&["OPERATION", "RESULT TYPE", "FIRST DONE"], "elbencho"),
    (&["Vdbench"], "vdbench"),
    (&["interval", "MB/sec", "1024**2"], "vdbench"),
    (&["Command Line: ", "diskspd"], "diskspd"),
    (&["CrystalDiskMark"], "CrystalDiskMark"),
    (&["NTttcp"], "NTttcp"),
    (&["ntttcp"], "ntttcp"),
    (&["LIKWID", "Group "], "likwid-perfctr"),
    (&["Phoronix Test Suite"], "the Phoronix Test Suite"),
    (&["L M B E N C H"], "lmbench's summary"),
    (&["SQL statistics:", "transactions:"], "sysbench with a database"),
];

/// Returns the tool (such as `dd`) that wrote `text`, if plimsoll knows it but cannot read it.
pub(crate) fn named(text: &str) -> Option<&'static str> {
    let known = OTHER_TOOLS.iter().find(|(parts, _)| parts.iter().all(|part| text.contains(part)));
    known.map(|(_, tool)| *tool).or_else(|| is_from_dd(text).then_some("dd"))
}

/// Returns whether a text has dd's two counts, `1024+0 records in`, in any language.
fn is_from_dd(text: &str) -> bool {
    let is_count = |line: &str| {
        let counts = line.split_whitespace().next().and_then(|word| word.split_once('+'));
        counts.is_some_and(|(whole, part)| [whole, part].iter().all(|count| count.parse::<u64>().is_ok()))
    };
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(2).any(|pair| pair.iter().all(|line| is_count(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_are_not_read_are_named() {
        for (text, tool) in [
            (
                "1024+0 records in\n1024+0 records out\n1073741824 bytes (1.1 GB) copied, 0.5 s, 2.1 GB/s\n",
                "dd",
            ),
            (r#"{"results": [{"command": "true", "median": 0.1, "exit_codes": [0]}]}"#, "hyperfine"),
            (r#"{"machine_info": {}, "benchmarks": [{"stats": {"min": 1}}]}"#, "pytest"),
            (r#"{"context": {}, "benchmarks": [{"name": "a", "real_time": 1}]}"#, "google"),
            ("1024+0 Datensätze ein\n1024+0 Datensätze aus\n", "dd"),
            ("Antwort von 192.0.2.1: Bytes=32 Zeit=13ms TTL=57\n", "Windows"),
            ("# OSU MPI Bi-Directional Bandwidth Test v5.8\n# Size\n1 2\n", "OSU"),
            (" Timing cached reads:   31480 MB in  1.99 seconds\n", "hdparm"),
            ("\nCommand Line: C:\\tools\\diskspd.exe -b4K -d30 testfile.dat\n", "diskspd"),
            ("   1178.9375 MB /  10.00 sec =  988.6393 Mbps 7 %TX 12 %RX 0 retrans\n", "nuttcp"),
            ("Version 2.00a       ------Sequential Output------ --Sequential Input-\n", "bonnie++"),
            ("dbench version 4.00 - Copyright Andrew Tridgell\n", "dbench"),
        ] {
            assert!(named(text).is_some_and(|name| name.contains(tool)), "{text}");
        }
        assert_eq!(named("a text"), None);
    }
}
