//! Two network namespaces joined by a veth pair, with a server in the second. They end with the
//! processes that hold them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use crate::support::{PATIENCE, skipped};

/// Addresses of both ends: a network for benchmarks (RFC 2544) that only these namespaces know.
const NEAR: &str = "198.18.0.1/24";
const FAR: &str = "198.18.0.2/24";
pub(crate) const SERVER: &str = "198.18.0.2";

pub(crate) struct Namespaces {
    near: Child,
    far: Child,
    server: Option<Child>,
}

fn holder() -> Child {
    // `cat` keeps the namespace alive until its input closes; the first line shows that it exists.
    Command::new("unshare")
        .args(["--net", "sh", "-c", "ip link set lo up && echo here && exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn there(holder: &mut Child) -> bool {
    let mut line = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut line).is_ok() && line == "here\n"
}

impl Namespaces {
    /// Makes them; `None`, and a skipped test, without the rights.
    pub(crate) fn new(test: &str) -> Option<Self> {
        for tool in ["unshare", "nsenter", "ip", "tc", "nft"] {
            if Command::new(tool).arg("-V").output().is_err() {
                skipped(test, &format!("needs {tool}"));
                return None;
            }
        }
        let mut made = Namespaces { near: holder(), far: holder(), server: None };
        if !there(&mut made.near) || !there(&mut made.far) {
            skipped(test, "needs the right to make network namespaces");
            return None;
        }
        made.near(&format!("ip link add veth0 type veth peer name veth0 netns {}", made.far.id()));
        for (end, address) in [(made.near.id(), NEAR), (made.far.id(), FAR)] {
            ok(within(end, &format!("ip address add {address} dev veth0 && ip link set veth0 up")));
        }
        Some(made)
    }

    /// Runs a shell command in the near namespace, which must succeed.
    pub(crate) fn near(&self, script: &str) {
        ok(within(self.near.id(), script));
    }

    /// Runs a shell command in the far namespace, which must succeed.
    pub(crate) fn far(&self, script: &str) {
        ok(within(self.far.id(), script));
    }

    /// Starts `plimsoll serve` in the far namespace and waits until it listens.
    pub(crate) fn serve(&mut self) {
        let mut server = Command::new("nsenter")
            .args(["--net", "-t", &self.far.id().to_string()])
            .args([env!("CARGO_BIN_EXE_plimsoll"), "serve", "--bind", SERVER, "--open", "--allow-root"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut listening = [0];
        // The first byte of output shows that it listens.
        let stated = server.stdout.as_mut().unwrap().read(&mut listening).unwrap_or_default();
        assert!(stated == 1, "the server did not start");
        self.server = Some(server);
    }

    pub(crate) fn server(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    pub(crate) fn plimsoll(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let (near, most) = (self.near.id().to_string(), PATIENCE.as_secs().to_string());
        command
            .args(["--net", "-t", &near, "timeout", &most, env!("CARGO_BIN_EXE_plimsoll")])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `plimsoll network` in the near namespace; its run document goes to stdout.
    pub(crate) fn network(&self, arguments: &[&str]) -> Command {
        let usual = ["network", "--server", SERVER, "--json", "-", "--store", "none", "--quiet"];
        self.plimsoll(&[&usual[..], arguments].concat())
    }

    /// Runs it; it must end with 0, and the first measurement is handed back.
    pub(crate) fn measured(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.network(arguments).output().unwrap();
        let stated = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stated}");
        let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        run["measurements"][0].clone()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for child in self.server.iter_mut().chain([&mut self.near, &mut self.far]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn within(holder: u32, script: &str) -> Output {
    Command::new("nsenter")
        .args(["--net", "-t", &holder.to_string(), "timeout", "120", "sh", "-euc", script])
        .output()
        .unwrap()
}

#[track_caller]
fn ok(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn median(measurement: &serde_json::Value, metric: &str) -> f64 {
    let metrics = measurement["metrics"].as_array().unwrap();
    let found = metrics.iter().find(|m| m["name"] == metric);
    found
        .and_then(|m| m["summary"]["median"].as_f64())
        .unwrap_or_else(|| panic!("no {metric}: {measurement}"))
}
