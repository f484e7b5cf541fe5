use super::*;
use crate::cli;

fn said(line: &str) -> String {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    answer(&cli::command(), &words).unwrap_or_default()
}

#[test]
fn a_command_of_fio_is_answered_with_the_line_to_type() {
    assert_eq!(
        said("plimsoll disk --rw randread --bs 4k --iodepth=32 --numjobs 4 --runtime 10s --rate_iops 500"),
        "--rw --bs --iodepth --numjobs --runtime --rate_iops are options of fio: write plimsoll disk --op read --pattern random \
         --block 4k --depth 32 --threads 4 --samples 10 --sample-time 1s --rate 2000"
    );
    let of = |line: &str| said(&format!("plimsoll disk {line}"));
    assert_eq!(
        of("--filename=/dev/sdb"),
        "--filename is an option of fio: write plimsoll disk --target /dev/sdb"
    );
    assert_eq!(of("--filename=/mnt/x"), "--filename is an option of fio: write plimsoll disk --dir /mnt");
    let five = of("--runtime=5m --name a");
    assert!(five.contains("--samples 300 --sample-time 1s; --name is not needed"), "{five}");
    assert!(of("--bssplit=4k/60:64k/40").ends_with("--block 4k@60+64k@40"));
    assert!(of("--rwmixwrite=30").ends_with("--read-share 70"));
    let target = of("--latency_target=500 --latency_percentile=99.9");
    assert!(target.ends_with("write plimsoll disk --latency-target p99.9=500us"), "{target}");
    assert!(
        of("--rw=read --verify=crc32c --sync=1")
            .ends_with("--op read --pattern sequential --verify --sync each")
    );
}

#[test]
fn a_command_of_iperf3_is_answered_with_the_line_to_type() {
    assert_eq!(
        said("plimsoll network -c db1 -P4 -t 10 -R -u -b 100M"),
        "-c -P -t -R -u -b are options of iperf3: write plimsoll network --server db1 --only network.udp --streams 4 --samples 10 \
         --sample-time 1s --direction down --rate 400M (to an iperf3 server: --server iperf3://HOST)"
    );
    let long = said(
        "plimsoll network --client db1 --port 5201 --parallel 4 --time 10 --reverse --udp --bandwidth 1M --length 1400 --omit 2 --zerocopy --set-mss 900 --tos 0x20",
    );
    assert!(long.contains(
        "write plimsoll network --server db1:5201 --only network.udp --streams 4 --samples 10 --sample-time 1s --direction down \
         --rate 4M --message 1400 --omit 2s --zerocopy --mss 900 --dscp 8"
    ), "{long}");
    assert!(
        said("plimsoll network -c db1").contains("write plimsoll network --server db1 --only network.tcp")
    );
    assert!(said("plimsoll -s -p 7000").ends_with("write plimsoll serve --port 7000"));
    assert!(said("plimsoll network -c h --timeout 1s --rate 1G").contains("--timeout 1s --rate 1G"));
}

#[test]
fn what_is_ones_own_is_kept_and_what_nobody_knows_is_named() {
    assert_eq!(
        said("plimsoll disk --rw read --samples 5 --norandommap --cpus_allowed 0-3 job.fio --steady"),
        "--rw is an option of fio: write plimsoll disk --op read --pattern sequential --samples 5 --steady; plimsoll has nothing \
         like --norandommap, --cpus_allowed, job.fio: leave it out"
    );
    assert!(said("plimsoll run quick --iodepth 3").ends_with("write plimsoll disk --depth 3"));
    assert!(said("plimsoll cpu --numjobs 4").ends_with("write plimsoll cpu --threads 4"));
    assert!(
        said("plimsoll disk --ioengine=rbd").ends_with("plimsoll has nothing like --ioengine: leave it out")
    );
    assert!(said("plimsoll network -c db1 --json").contains("--json VALUE"));
    assert!(said("plimsoll disk --name $(reboot) --bs $(reboot)").contains("--block '$(reboot)'"));
}

#[test]
fn options_of_our_own_are_no_habits() {
    assert_eq!(
        said(
            "plimsoll disk --op read --block 4K --depth 32 --threads 4 --target /dev/null --size 1G --sync each --rate 5"
        ),
        ""
    );
    assert_eq!(said("plimsoll network --streams 4 --rate 1G --omit 1s --bind 127.0.0.1 --timeout 1s"), "");
}

#[test]
fn a_checksum_of_fio_is_answered() {
    let values = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        values(&cli::command(), &words).map_err(|e| cli::one_line(&e))
    };
    assert!(values("plimsoll disk --verify").is_ok() && values("plimsoll disk --verify=off").is_ok());
    assert!(values("plimsoll disk --verify --op read").is_ok());
    assert!(
        values("plimsoll disk --verify=on,off").is_ok() && values("plimsoll disk --verify=on,md5").is_err()
    );
    let wrong = values("plimsoll disk --verify=crc32c").unwrap_err();
    assert!(
        wrong.starts_with("--verify must be on or off: 'crc32c' is neither; plimsoll has one checksum"),
        "{wrong}"
    );
}
