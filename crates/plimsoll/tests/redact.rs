//! `--redact` by the whole program: no mark of a document's private names is in the output.

use std::fs;

use plimsoll_output::report::format::FormatSubject;
use serde_json::{Value, json};

use crate::support::{done, json, json_of, list, recorded, scratch, text};

/// Part of each private name.
const MARK: &str = "zq7x";
/// Begin of the names that redaction gives to machines.
const ALIAS: &str = "host-";

/// A document with every kind of private name.
fn telling() -> Value {
    let mut run = recorded();
    let host = "zq7xhost.zq7xsite.example";
    let path = "/srv/zq7xteam/zq7xset";
    run["machine"]["host"] = host.into();
    run["machine"]["network"][0]["name"] = "zq7xlink".into();
    run["machine"]["network"][0]["mac"] = "52:54:00:a7:b8:c9".into();
    run["machine"]["cgroup"]["group"] = "/system.slice/zq7xunit.service".into();
    run["machine"]["storage"]["path"] = path.into();
    run["machine"]["storage"]["layers"] =
        json!([{ "name": "dm-0", "kind": "device-mapper", "detail": "LVM zq7xvg-zq7xlv" }]);
    run["machine"]["storage"]["file_system"] = json!({
        "fs_type": "nfs4", "mount_point": "/srv/zq7xteam", "source": "zq7xnas.example:/export/zq7xvolume",
        "options": ["rw", "username=zq7xuser", "addr=198.51.100.7", "lowerdir=/var/lib/zq7xa:/var/lib/zq7xb"],
        "medium": "network"
    });
    run["nodes"] = json!([{ "name": host, "machine": run["machine"] }]);
    run["health"] = json!([{ "node": host, "shown": {
        "counters": { "interfaces": [{
            "name": "zq7xlink", "rx_errors": 0, "rx_dropped": 0, "tx_errors": 0, "tx_dropped": 0
        }] },
        "missing": ["energy of zq7xhost"],
    } }]);
    run["plan"]["text"] = "[[group]]\nserver = [\"zq7xnever.example:1\", '198.51.100.9:2']\n".into();
    let text = format!(
        "{host} (zq7xhost) from 198.51.100.7:80 and [2001:db8:77::9]:1 on zq7xlink, mac 52:54:00:a7:b8:c9, \
         at {path}/file, /home/zq7xuser/.ssh/zq7xkey, /dev/mapper/zq7xvg-zq7xlv, /dev/disk/by-id/nvme-zq7xserial_1, \
         /dev/disk/by-uuid/6f1d2c3b-1111-4222-8333-444455556666, file:/opt/zq7xtools/bin/fio, /tmp/zq7xlog.json: \
         nqn.2014-08.org.nvmexpress:uuid:6f1d2c3b-1111-4222-8333-444455556666 zq7xhost-data"
    );
    for measurement in run["measurements"].as_array_mut().unwrap() {
        measurement["node"] = host.into();
        measurement["warnings"] = json!([{ "code": "other", "text": text }]);
        measurement["achieved"]["file"] = format!("{path}/x y").into();
    }
    let tool = json!({
        "name": "fio", "version": "3.33", "status": "unavailable", "match": "exact", "note": text, "reason": text,
        "command": ["taskset", "/opt/zq7xtools/bin/fio", "--filename=/srv/zq7xteam/zq7xset/file", "-c", "zq7xfar.example"],
        "input": { "server": "iperf3 -s -B 198.51.100.7", "job": text }, "achieved": {}, "samples": [], "ratio": null,
        "own": [], "median": null, "own_of_limit": null, "of_limit": null, "margin": 0.03, "verdict": "inconclusive", "warnings": []
    });
    run["measurements"][0]["metrics"][0]["references"] = json!([tool]);
    run["measurements"][1]["status"] = "failed".into();
    run["measurements"][1]["reason"] = text.clone().into();
    run["measurements"][1]["metrics"] = json!([]);
    let servers = ["zq7xfar.example:5201", "198.51.100.7:5201", "198.51.100.8:5201", "[2001:db8:77::9]:5201"];
    for (index, server) in servers.into_iter().enumerate() {
        let mut far = run["measurements"][0].clone();
        let written = server.replace('[', "%5B").replace(']', "%5D");
        let id = format!("network.tcp/message=64K/streams=1/direction=up/server={written}");
        far["case"] = json!({ "id": id, "benchmark": "network.tcp", "params": {
            "message": 65536, "streams": 1, "direction": "up", "server": server } });
        far["requested"] = far["case"]["params"].clone();
        let metric = &mut far["metrics"][0];
        (metric["name"], metric["unit"]) = ("goodput".into(), "bit/s".into());
        metric["references"] = json!([]);
        far["repeat"] = 0.into();
        let evidence = json!({
            "case": id, "cases": [id], "node": host, "server": server, "steps": [{ "case": id, "far": { "id": id } }],
            "lost": format!("network.tcp/message=1K/streams=1/direction=up/server=zq7xlost{index}.example:1"),
            "nodes": [host, format!("zq7xgone{index}.example")],
        });
        let finding = json!({ "code": "outlier", "text": format!("{id} on zq7xgone{index}.example: {text}"), "evidence": evidence });
        run["findings"].as_array_mut().unwrap().push(finding);
        run["measurements"].as_array_mut().unwrap().push(far);
    }
    run["plan"]["cases"] = 8.into();
    run
}

/// Strings that no output may contain.
const SECRETS: &[&str] = &[MARK, "198.51.100.", "2001:db8:77", "52:54:00:a7", "6f1d2c3b", "4222-8333"];

#[track_caller]
fn tells_nothing(what: &str, text: &str) {
    let lower = text.to_lowercase();
    for secret in SECRETS {
        if let Some(at) = lower.find(secret) {
            let from = lower.floor_char_boundary(at.saturating_sub(80));
            let to = lower.ceil_char_boundary((at + 60).min(lower.len()));
            panic!("{what} tells {secret}: …{}…", &lower[from..to]);
        }
    }
}

#[test]
fn no_name_of_a_machine_leaves_in_any_format() {
    let dir = scratch();
    fs::write(dir.path().join("run.json"), telling().to_string()).unwrap();
    done(dir.path(), "history import run.json --store history", 0);
    done(dir.path(), "history tag last zq7xtag --store history", 0);
    done(dir.path(), "history note last 'zq7x wrote this' --store history", 0);
    for format in FormatSubject::Run.formats().map(|format| format.name) {
        let line = format!("export last --format {format} --store history");
        let (out, err) = done(dir.path(), &format!("{line} --redact"), 0);
        tells_nothing(format, &out);
        tells_nothing(format, &err);
        // These formats name no machine.
        if ["github-smaller", "otava", "otava-config"].contains(&format) {
            continue;
        }
        assert!(out.contains(ALIAS), "{format}: {out}");
        // Without redaction the marks are in the output.
        assert!(done(dir.path(), &line, 0).0.contains(MARK), "{format}");
    }
    for from in ["last", "./run.json"] {
        let (out, err) =
            done(dir.path(), &format!("report {from} --redact --html page.html --store history"), 0);
        tells_nothing("table", &out);
        tells_nothing("stderr", &err);
        tells_nothing("page", &fs::read_to_string(dir.path().join("page.html")).unwrap());
    }
}

/// As a run is measured; its events could not be redacted.
#[test]
fn a_run_leaves_its_machine_redacted() {
    let dir = scratch();
    let null = "run --only null --samples 3 --sample-time 1ms --quiet --store none";
    done(dir.path(), &format!("{null} --redact --json run.json --html run.html"), 0);
    let run = json_of(dir.path(), "run.json");
    let own = [&run["machine"]["host"], &run["nodes"][0]["name"], &run["measurements"][0]["node"]];
    assert!(own.iter().all(|name| text(name) == "host-1"), "{own:?}");
    let page = fs::read_to_string(dir.path().join("run.html")).unwrap();
    assert!(page.contains(&format!("{ALIAS}1")));
    let nics = fs::read_dir("/sys/class/net").unwrap().map(|nic| nic.unwrap().path().join("address"));
    let macs = nics.filter_map(|file| fs::read_to_string(file).ok());
    for mac in macs.filter(|mac| !mac.starts_with("00:00:00:00")) {
        let mac = mac.trim();
        assert!(mac.is_empty() || !page.contains(mac) && !run.to_string().contains(mac), "{mac}");
    }
    done(dir.path(), &format!("{null} --redact --events events.json"), 2);
}

#[test]
fn machines_stay_apart_and_a_redacted_run_is_read_and_compared_as_any_other() {
    let dir = scratch();
    fs::write(dir.path().join("run.json"), telling().to_string()).unwrap();
    done(dir.path(), "history import run.json --store a", 0);
    let export = |store: &str| done(dir.path(), &format!("export last --redact --store {store}"), 0).0;
    let redacted = export("a");
    fs::write(dir.path().join("redacted.json"), &redacted).unwrap();
    let document = json(&redacted);
    let ids: Vec<&str> = list(&document["measurements"]).iter().map(|m| text(&m["case"]["id"])).collect();
    let mut apart = ids.clone();
    apart.sort_unstable();
    apart.dedup();
    assert_eq!(apart.len(), ids.len(), "{ids:?}");
    // A finding names its case by the id that the case has.
    for (finding, id) in list(&document["findings"]).iter().zip(&ids[4..]) {
        let evidence = &finding["evidence"];
        let step = &evidence["steps"][0];
        for named in [&evidence["case"], &evidence["cases"][0], &step["case"], &step["far"]["id"]] {
            assert_eq!(named, id);
        }
        assert!(text(&finding["text"]).starts_with(id), "{finding}");
    }
    done(dir.path(), "history import redacted.json --store b", 0);
    // Too long for a message.
    assert!(export("b") == redacted, "nothing is left to redact");
    let line = "compare ./redacted.json ./redacted.json --format json --store none";
    let compared = json(&done(dir.path(), line, 0).0);
    let found: Vec<&str> =
        list(&compared["compared"]).iter().filter_map(|c| c["case"]["id"].as_str()).collect();
    assert!(ids[4..].iter().all(|id| found.contains(id)), "{found:?}");
}
