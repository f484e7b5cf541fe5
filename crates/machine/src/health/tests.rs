use super::*;
use crate::fixture::Fixture;
use link::tests::tree;
use smart::tests::made;

/// A server by the kernel's Documentation
/// (ABI/testing/sysfs-{class-powercap,devices-edac,devices-system-cpu,class-thermal,bus-pci},
/// hwmon/sysfs-interface.rst).
const SERVER: &str = r"
proc/cpuinfo = processor\t: 0\nmicrocode\t: 0x5003604\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmicrocode\t: 0x5003604
sys/devices/system/cpu/vulnerabilities/meltdown = Not affected
sys/devices/system/cpu/vulnerabilities/mds = Mitigation: Clear CPU buffers; SMT vulnerable
sys/devices/system/cpu/cpu[0-3]/topology/physical_package_id = 0
sys/devices/system/cpu/cpu[0-3]/topology/core_id = {n%2}
sys/devices/system/cpu/cpu[0-3]/thermal_throttle/core_throttle_count = {n%2}
sys/devices/system/cpu/cpu[0-3]/thermal_throttle/package_throttle_count = 7
sys/devices/system/edac/mc/mc0/ce_count = 2
sys/devices/system/edac/mc/mc1/ce_count = 0
sys/devices/system/edac/mc/mc[0-1]/ue_count = 0
sys/class/powercap/intel-rapl:0/name = package-0
sys/class/powercap/intel-rapl:0/energy_uj = 262143000000
sys/class/powercap/intel-rapl:0/max_energy_range_uj = 262143328850
sys/class/powercap/intel-rapl:0:0/name = dram
sys/class/powercap/intel-rapl:0:0/energy_uj = 1000000
sys/class/powercap/intel-rapl:0:0/max_energy_range_uj = 65712999613
sys/class/powercap/intel-rapl-mmio:0/name = package-0
sys/class/powercap/intel-rapl-mmio:0/energy_uj = 5
sys/class/powercap/intel-rapl-mmio:0/max_energy_range_uj = 262143328850
sys/class/hwmon/hwmon0/name = coretemp
sys/class/hwmon/hwmon0/temp1_label = Package id 0
sys/class/hwmon/hwmon0/temp1_input = 64000
sys/class/hwmon/hwmon0/temp2_label = Core 0
sys/class/hwmon/hwmon0/temp2_input = 61000
sys/class/hwmon/hwmon0/temp[1-2]_crit = 100000
sys/class/hwmon/hwmon1/name = drivetemp
sys/class/hwmon/hwmon1/temp1_input = 30000
sys/class/hwmon/hwmon2/name = nct6775
sys/class/hwmon/hwmon2/temp1_input = 127000
sys/class/hwmon/hwmon2/temp1_crit = 100000
sys/class/hwmon/hwmon2/temp2_input = -128000
sys/class/thermal/thermal_zone0/type = x86_pkg_temp
sys/class/thermal/thermal_zone0/temp = 64000
sys/class/thermal/thermal_zone1/type = pch_lewisburg
sys/class/thermal/thermal_zone1/temp = 41500
sys/class/thermal/thermal_zone1/trip_point_0_type = passive
sys/class/thermal/thermal_zone1/trip_point_0_temp = 60000
sys/class/thermal/thermal_zone1/trip_point_1_type = critical
sys/class/thermal/thermal_zone1/trip_point_1_temp = 115000
sys/class/net/eth0/mtu = 1500
sys/class/net/eth0/device/vendor = 0x8086
sys/class/net/lo/mtu = 65536
proc/net/dev = Inter-|   Receive                                                |  Transmit
proc/net/dev =  face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
proc/net/dev =     lo:  100       1    9    9    0     0          0         0      100       1    9    9    0     0       0          0
proc/net/dev =   eth0:  100       1    1    2    0     0          0         0      100       1    0    0    0     0       0          0
";

#[test]
fn a_server_is_read() {
    let fixture = Fixture::unpack(SERVER).unwrap();
    let health = Health::read(&fixture.root);
    assert_eq!(health.microcode, ["0x5003604"]);
    let mds = "Mitigation: Clear CPU buffers; SMT vulnerable";
    assert_eq!(health.mitigations, BTreeMap::from([("mds".to_owned(), mds.to_owned())]));
    let throttled = health.counters.throttled.as_ref().unwrap();
    assert_eq!(throttled.cores, BTreeMap::from([("0:1".to_owned(), 1)]));
    assert_eq!(throttled.packages, BTreeMap::from([("0".to_owned(), 7)]));
    let names: Vec<String> = health.sensors.iter().map(Sensor::name).collect();
    assert_eq!(names, ["coretemp Package id 0", "coretemp Core 0", "nct6775", "pch_lewisburg"]);
    assert_eq!(health.sensors[3].critical, Some(115.0));
    let zones: Vec<&str> = health.counters.energy.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(zones, ["package-0", "dram"]);
    assert_eq!(health.counters.interfaces.len(), 1);
    assert_eq!((health.faults(), health.missing.len()), (Vec::new(), 0));
    let json = serde_json::to_string(&health).unwrap();
    assert_eq!(serde_json::from_str::<Health>(&json).unwrap(), health);
}

#[test]
fn what_happens_between_two_readings_is_told() {
    let fixture = Fixture::unpack(SERVER).unwrap();
    let probe = CounterFiles::new(&fixture.root);
    let before = Health::read(&fixture.root);
    assert!(Health::read(&fixture.root).counters.since(&before.counters).is_empty());
    fixture.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", b"4\n").unwrap();
    fixture.write("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", b"9\n").unwrap();
    fixture.write("sys/devices/system/edac/mc/mc1/ce_count", b"3\n").unwrap();
    fixture.write("sys/class/powercap/intel-rapl:0/energy_uj", b"671150\n").unwrap();
    let change = Health::read(&fixture.root).counters.since(&before.counters);
    assert_eq!((change.throttled(), change.memory_errors()), (4, [3, 0]));
    let packages = change.throttled.map(|throttled| throttled.packages);
    assert_eq!(packages, Some(BTreeMap::from([("0".to_owned(), 2)])));
    assert_eq!(change.controllers[0].name, "mc1");
    // The counter wrapped: 0.32885 J up to its range, and 0.67115 J after.
    let energy = used(&before.counters.energy, &probe.energy(), 0.5);
    assert_eq!((energy.packages_j, energy.memory_j), (Some(1.0), Some(0.0)));
    let kept = before.into_stored();
    assert!(kept.counters.energy.is_empty() && kept.sensors.len() == 3);
}

#[test]
fn faults_have_a_code_and_a_short_sentence() {
    let fixture = Fixture::unpack(SERVER).unwrap();
    fixture.write("sys/devices/system/edac/mc/mc0/ue_count", b"18446744073709551615\n").unwrap();
    fixture.write("sys/class/hwmon/hwmon0/temp1_input", b"100000\n").unwrap();
    fixture.write("smart/nvme0", &made(0b1010, 350, 130, u64::MAX)).unwrap();
    let faults = Health::read(&fixture.root).faults();
    let stated: Vec<String> = faults.iter().map(|fault| format!("{}: {fault}", fault.code())).collect();
    let expected = [
        "edac-uncorrected: memory controller mc0: uncorrected errors: 18446744073709551615",
        "nvme-critical-warning: nvme0: critical warning 0x0a: temperature past its limit and more",
        "nvme-media-errors: nvme0: media errors: 18446744073709551615",
        "nvme-worn: nvme0: 130 % of its expected endurance used",
        "too-hot: coretemp Package id 0: 100 °C; critical from 100 °C",
    ];
    assert_eq!(stated, expected);
}

#[test]
fn no_sentence_is_longer_than_80_characters() {
    let long = || "W".repeat(20);
    let pace = |lanes| LinkPace { transfers_per_s: 2_500_000_000, lanes };
    let (now, possible) = (pace(16), pace(32));
    let (what, device) = (|| "storage device".to_owned(), || "0000:41:00.0".to_owned());
    let faults = [
        HardwareFault::EdacUncorrected { controller: "W".repeat(16), count: u64::MAX },
        HardwareFault::NvmeCriticalWarning { drive: "W".repeat(16), bits: 0b11_0000 },
        HardwareFault::NvmeMediaErrors { drive: "W".repeat(16), count: u64::MAX },
        HardwareFault::NvmeWorn { drive: "W".repeat(16), percent: 255 },
        HardwareFault::TooHot { sensor: format!("{} {}", long(), long()), celsius: 150.0, critical: 150.0 },
        HardwareFault::PcieLink { what: what(), device: device(), now, possible, saves_power: false },
        HardwareFault::PcieSpeed { what: what(), device: device(), now, possible },
        HardwareFault::MicrocodeDiffers { revisions: 8 },
    ];
    let codes: Vec<&str> = faults.iter().map(HardwareFault::code).collect();
    assert_eq!(codes, HardwareFault::FAULT_CODES);
    for fault in faults {
        assert_eq!(serde_json::to_value(&fault).unwrap()["fault"], fault.code());
        let text = fault.to_string();
        assert!(text.chars().count() <= 80, "{text}");
        assert!(!fault.remedy().is_empty() && !fault.meaning().ends_with('.'));
    }
}

#[test]
fn a_saved_machine_has_the_health_of_the_machine() {
    let device = "sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0";
    let link = tree("0x010802", ["8.0", "4", "16.0", "4"], ["16.0", "4"]);
    let names = format!("{device}/serial = SECRET\nsys/class/hwmon/hwmon0/device/serial = SECRET\n");
    let fixture = Fixture::unpack(&format!("{SERVER}{link}{names}")).unwrap();
    let mut page = made(0, 300, 20, 0);
    page[400..406].copy_from_slice(b"SECRET");
    fixture.write("smart/nvme1", &page).unwrap();
    let mut health = Health::read(&fixture.root);
    assert_eq!((health.links.len(), health.drives.len()), (1, 1));
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("saved.tar.gz");
    crate::saved::save(&fixture.root, &fixture.machine(), &place).unwrap();
    let saved = crate::saved::open(&place).unwrap();
    health.counters.interfaces.clear();
    assert_eq!(Health::read(&saved), health);
    assert!(!saved.exists(format!("{device}/serial")));
    let page = saved.bytes(Path::new("smart/nvme1"), 512).unwrap();
    assert!(!String::from_utf8_lossy(&page).contains("SECRET"));
}

#[test]
fn a_system_that_shows_nothing_is_healthy() {
    let health = Health::read(&Fixture::unpack("proc/\nsys/\n").unwrap().root);
    assert!(health.is_empty() && health.faults().is_empty());
    assert_eq!(serde_json::to_string(&health).unwrap(), "{}");
}

#[test]
fn garbage_is_no_fault() {
    let fixture = Fixture::unpack(&SERVER.replace(" = ", " = \\x1b[31m")).unwrap();
    let health = Health::read(&fixture.root);
    assert_eq!(health.faults(), []);
    assert!(!serde_json::to_string(&health).unwrap().contains("\\u001b["));
    for name in ["garbage", "epyc-7543-nps4", "xeon-gold-6230-2s", "nvme-and-raid", "graviton2-container"] {
        let _ = Health::read(&Fixture::open(name).unwrap().root).faults();
    }
}

#[test]
fn this_machine_is_read() {
    let root = Root::live();
    let before = Health::read(&root);
    let after = Health::read(&root);
    assert_eq!(after.microcode, before.microcode);
    assert!(after.sensors.iter().all(|sensor| sensor.celsius.is_finite()));
    let _ = after.counters.since(&before.counters);
    let probe = CounterFiles::new(&root);
    let counters = probe.counters();
    let _ = probe.counters().since(&counters);
}

#[test]
fn many_cores_are_read_by_package_for_each_case() {
    let fixture = Fixture::unpack(
        "sys/devices/system/cpu/cpu[0-99]/topology/physical_package_id = {n/50}\n\
         sys/devices/system/cpu/cpu[0-99]/topology/core_id = {n%50}\n\
         sys/devices/system/cpu/cpu[0-99]/thermal_throttle/core_throttle_count = 1\n\
         sys/devices/system/cpu/cpu[0-99]/thermal_throttle/package_throttle_count = 2\n",
    )
    .unwrap();
    let of_case = CounterFiles::new(&fixture.root).counters().throttled.unwrap();
    assert_eq!((of_case.cores.len(), of_case.packages.len()), (0, 2));
    let whole = Health::read(&fixture.root).counters.throttled.unwrap();
    assert_eq!((whole.cores.len(), whole.packages.len()), (100, 2));
}
