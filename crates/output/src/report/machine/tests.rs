use plimsoll_machine::fixture::{Fault, Fixture};
use plimsoll_machine::{Root, storage_behind};

use super::*;
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// Description of a saved machine with test directory `dir`, at 80 columns.
fn shown(name: &str, dir: &str) -> Result<String, Fault> {
    let fixture = Fixture::open(name)?;
    let mut machine = fixture.machine();
    machine.storage = Some(storage_behind(&fixture.root, Path::new(dir)));
    let text = text(&describe(&machine), 80);
    assert_eq!(text.lines().find(|line| line.width() > 80 || line.contains(char::is_control)), None);
    Ok(text)
}

#[test]
fn saved_machines() -> Result<(), Fault> {
    for (snapshot, name, dir) in [
        ("a_firecracker_vm", "firecracker-zen4", "/home"),
        ("a_two_socket_xeon", "xeon-gold-6230-2s", "/var/tmp"),
        ("an_epyc", "epyc-7543-nps4", "/"),
        ("a_graviton_in_a_container", "graviton2-container", "/root"),
        ("stacked_storage", "stacked-storage", "/srv/image mount/x"),
        ("garbage", "garbage", "/"),
    ] {
        insta::assert_snapshot!(snapshot, shown(name, dir)?);
    }
    Ok(())
}

#[test]
fn every_unknown_fact_has_a_cost() -> Result<(), Fault> {
    for tree in ["", &std::fs::read_to_string(plimsoll_machine::fixture::tree_file("garbage"))?] {
        let fixture = Fixture::unpack(tree)?;
        let mut machine = fixture.machine();
        machine.set_storage_behind(&fixture.root, Path::new("/"));
        let behind = machine.storage.iter().flat_map(|s| &s.unknown);
        for unknown in machine.unknown.iter().chain(behind) {
            assert!(cost::of(&unknown.what).is_some(), "{}", unknown.what);
        }
    }
    Ok(())
}

#[test]
fn this_machine_is_described() {
    let mut machine = Machine::discover(&Root::live());
    machine.set_storage_behind(&Root::live(), Path::new("."));
    let sections = describe(&machine);
    let titles: Vec<&str> = sections.iter().map(|section| section.title).collect();
    for title in ["system", "CPU", "memory", "storage", "state at discovery"] {
        assert!(titles.contains(&title), "{title}");
    }
}

#[test]
fn what_is_not_known_of_a_core_is_told_and_widths_that_it_lacks_are_not() -> Result<(), Fault> {
    let lines = |machine: &Machine| text(&cores(machine), 200);
    let mut xeon = Fixture::open("xeon-gold-6230-2s")?.machine();
    xeon.cpu.model_name = Some("Intel(R) Xeon(R) D-2183IT CPU @ 2.20GHz".to_owned());
    let of_xeon = lines(&xeon);
    assert!(of_xeon.contains("2.0 of 256 bits, unknown of 512 bits"), "{of_xeon}");
    assert!(of_xeon.contains("one or two 512-bit units"), "{of_xeon}");
    let mut graviton = Fixture::open("graviton2-container")?.machine();
    graviton.cpu.arm.as_mut().expect("an Arm").part = 0xd40;
    graviton.cpu.flags.remove("sve");
    assert!(lines(&graviton).contains("FMA per cycle        4.0 of 128 bits\n"), "{}", lines(&graviton));
    graviton.cpu.flags.insert("sve".to_owned());
    assert!(lines(&graviton).contains("4.0 of 128 bits, 2.0 of 256 bits"), "{}", lines(&graviton));
    graviton.cpu.flags.remove("sve");
    graviton.cpu.arm.as_mut().expect("an Arm").part = 0xd05;
    assert!(lines(&graviton).contains("rates              not listed for this chip"), "{}", lines(&graviton));
    Ok(())
}

/// A Pentium has the core of a Xeon with fewer instructions; a hypervisor may hide some, too.
#[test]
fn rates_of_instructions_that_are_missing_are_not_listed() -> Result<(), Fault> {
    let mut machine = Fixture::open("xeon-gold-6230-2s")?.machine();
    let rates = |machine: &Machine| {
        let text = text(&cores(machine), 200);
        text.lines().filter(|line| line.contains("per cycle")).collect::<Vec<_>>().join("\n")
    };
    assert!(rates(&machine).contains("FMA per cycle") && rates(&machine).contains("of 512 bits"));
    let is_kept = |flag: &str| !["fma", "avx", "avx2"].contains(&flag) && !flag.starts_with("avx512");
    machine.cpu.flags.retain(|flag| is_kept(flag));
    let left = rates(&machine);
    assert!(left.contains("of 128 bits"), "{left}");
    assert!(["FMA", "of 256 bits", "of 512 bits"].iter().all(|lost| !left.contains(lost)), "{left}");
    Ok(())
}
