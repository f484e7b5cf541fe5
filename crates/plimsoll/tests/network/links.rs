//! Measures over a link: two network namespaces, joined by a pair of virtual interfaces. They end
//! with the processes that hold them.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use plimsoll_server::wire::{Channel, Message, SharedKey};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::{Serving, program, signal, ticks};
use crate::support::{scratch, short_of_cpu, skipped, until, without_numbers};

/// A process in a network namespace of its own.
pub(super) struct Namespace(Child);

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Namespace {
    fn new() -> Option<Self> {
        let child =
            Command::new("unshare").args(["--net", "sleep", "300"]).stderr(Stdio::null()).spawn().ok()?;
        let mut namespace = Namespace(child);
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let place = format!("/proc/{}/ns/net", namespace.0.id());
        // Either it gets a namespace, or the system refuses and it ends.
        until("a network namespace", || {
            std::fs::read_link(&place).is_ok_and(|other| other != own)
                || namespace.0.try_wait().unwrap().is_some()
        });
        namespace.0.try_wait().unwrap().is_none().then_some(namespace)
    }

    /// A process of this namespace.
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.0.id().to_string(), program]);
        command
    }

    /// Runs a command line in it.
    pub(super) fn run(&self, line: &str) -> bool {
        let mut words = line.split(' ');
        let mut command = self.command(words.next().unwrap());
        command.args(words).stderr(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
    }

    pub(super) fn must(&self, line: &str) {
        assert!(self.run(line), "{line}");
    }
}

const NEAR: &str = "10.77.0.1";
pub(super) const FAR: &str = "10.77.0.2";

/// Two ends of a link.
pub(super) struct Link {
    pub(super) near: Namespace,
    pub(super) far: Namespace,
}

impl Link {
    /// `None`, and a skipped test, if this is not possible.
    pub(super) fn new(test: &str) -> Option<Self> {
        let made = Self::made();
        if made.is_none() {
            skipped(test, "no network namespaces here: needs root, unshare, nsenter, ip and tc");
        }
        made
    }

    fn made() -> Option<Self> {
        let link = Link { near: Namespace::new()?, far: Namespace::new()? };
        let peer = link.far.0.id();
        link.near.run(&format!("ip link add near0 type veth peer name far0 netns {peer}")).then_some(())?;
        for (end, device, number) in [(&link.near, "near0", 1), (&link.far, "far0", 2)] {
            let up = end.run("ip link set lo up")
                && end.run(&format!("ip address add 10.77.0.{number}/24 dev {device}"))
                && end.run(&format!("ip link set {device} up"));
            up.then_some(())?;
            // Without IPv6, only its own test is skipped.
            end.run(&format!("ip address add fd77::{number}/64 dev {device} nodad"));
        }
        Some(link)
    }

    pub(super) fn server(&self, flags: &[&str]) -> Serving {
        let mut command = self.far.command(program().to_str().unwrap());
        Serving::start(command.args(["serve", "--allow-root"]).args(flags))
    }

    /// Starts a client of `server`, for TCP.
    pub(super) fn client(&self, server: &Serving, arguments: &[&str]) -> Child {
        let tcp = ["--only", "network.tcp"];
        self.client_of(server, &[&tcp[..], arguments].concat())
    }

    /// Starts a client of `server`.
    pub(super) fn client_of(&self, server: &Serving, arguments: &[&str]) -> Child {
        Self::started(self.near.command(program().to_str().unwrap()), server, arguments)
    }

    /// Starts a client of `server` whose `/sys` shows the interfaces of its namespace.
    pub(super) fn client_with_sysfs(&self, server: &Serving, arguments: &[&str]) -> Child {
        let mut command = self.near.command("unshare");
        let mount = "mount -t sysfs sysfs /sys && exec \"$@\"";
        command.args(["--mount", "sh", "-c", mount, "sh"]).arg(program());
        Self::started(command, server, arguments)
    }

    fn started(mut command: Command, server: &Serving, arguments: &[&str]) -> Child {
        command
            .env("PLIMSOLL_KEY", &server.key)
            .args(["network", "--store", "none", "--json", "-", "--quiet"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// The run document of a client that must end with `code`.
pub(super) fn document(client: Child, code: i32) -> Value {
    let output = client.wait_with_output().unwrap();
    let stated = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{stated}{out}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn median(measurement: &Value) -> f64 {
    measurement["metrics"][0]["summary"]["median"].as_f64().unwrap()
}

#[test]
fn a_shaped_link_is_filled_and_not_overfilled() {
    let Some(link) = Link::new("a_shaped_link_is_filled_and_not_overfilled") else { return };
    for (end, device) in [(&link.near, "near0"), (&link.far, "far0")] {
        end.must(&format!("tc qdisc add dev {device} root tbf rate 100mbit burst 32kb latency 50ms"));
    }
    let server = link.server(&[]);
    let limits = scratch();
    let file = limits.path().join("limits.toml");
    // Goodput of a segment: the shaper counts frames without preamble, checksum and gap.
    let goodput = 100e6 * 1448.0 / 1514.0;
    let row = format!(
        "[[limit]]\nmatch = \"network.tcp/*\"\nmetric = \"goodput\"\nunit = \"bit/s\"\nvalue = {goodput}\nkind = \"ceiling\"\nsource = \"tbf\"\n"
    );
    std::fs::write(&file, row).unwrap();
    let run = link.client(
        &server,
        &[
            "--server",
            FAR,
            "--direction",
            "up,down",
            "--omit",
            "300ms",
            "--samples",
            "3",
            "--sample-time",
            "1s",
            "--limits",
            file.to_str().unwrap(),
        ],
    );
    let run = document(run, 0);
    for measurement in run["measurements"].as_array().unwrap() {
        let got = median(measurement);
        assert!(got <= 100e6, "{got} past the shape");
        // A quota stops both ends for most of some samples.
        let least = if short_of_cpu() { 0.2 } else { 0.95 } * goodput;
        assert!(got >= least, "{got} of {goodput}");
        assert_eq!(measurement["achieved"]["link"], "near0");
        assert_eq!(measurement["status"], "ok");
    }
}

/// A send buffer that grew on a fast link would occupy a slow one for a minute after each sample.
#[test]
fn a_slow_link_gets_no_more_than_it_carries_also_after_a_fast_run() {
    let test = "a_slow_link_gets_no_more_than_it_carries_also_after_a_fast_run";
    let Some(link) = Link::new(test) else { return };
    let server = link.server(&[]);
    let run = |direction: &str, samples: &str| {
        let how = ["--server", FAR, "--direction", direction, "--samples", samples, "--sample-time", "200ms"];
        document(link.client(&server, &how), 0)
    };
    for (end, device, direction) in [(&link.near, "near0", "up"), (&link.far, "far0", "down")] {
        run(direction, "3");
        end.must(&format!("tc qdisc add dev {device} root tbf rate 1mbit burst 4k latency 200ms"));
        let slow = run(direction, "2");
        let got = median(&slow["measurements"][0]);
        assert!(got > 0.2e6 && got <= 1.05e6, "{direction}: {got}");
        // 64 KiB in the send buffer and 25 kB in the queue: less than a second per transfer.
        let elapsed = slow["elapsed_s"].as_f64().unwrap();
        assert!(elapsed < 30.0, "{direction}: {elapsed}");
        end.must(&format!("tc qdisc del dev {device} root"));
    }
}

#[test]
fn a_small_mtu_is_seen_in_the_segments() {
    let Some(link) = Link::new("a_small_mtu_is_seen_in_the_segments") else { return };
    link.near.must("ip link set near0 mtu 576");
    link.far.must("ip link set far0 mtu 576");
    let server = link.server(&[]);
    let run =
        document(link.client(&server, &["--server", FAR, "--samples", "1", "--sample-time", "50ms"]), 0);
    let measurement = &run["measurements"][0];
    // 576 less 20 of IP, 20 of TCP and 12 of timestamps.
    assert_eq!(measurement["conditions"]["tcp_mss"], 524.0);
    assert!(median(measurement) > 0.0);
    // A veth has no line.
    insta::assert_snapshot!(measurement["metrics"][0]["limit"]["reason"].as_str().unwrap());
}

#[test]
fn ipv6_is_measured_as_well() {
    let Some(link) = Link::new("ipv6_is_measured_as_well") else { return };
    if !link.near.run("ip -6 address show dev near0 to fd77::1") {
        return skipped("ipv6_is_measured_as_well", "no IPv6 here");
    }
    let server = link.server(&[]);
    let run = document(
        link.client(&server, &["--server", "fd77::2", "--samples", "1", "--sample-time", "50ms"]),
        0,
    );
    // Means over the samples, weighted by time: not exact to the last digit.
    let condition = |name: &str| run["measurements"][0]["conditions"][name].as_f64().unwrap().round();
    assert_eq!((condition("path_ipv6"), condition("tcp_mss")), (1.0, 1428.0));
}

/// Starts an endless transfer in `direction`, breaks it, and returns why the client ended with 5.
fn broken(link: &Link, server: &Serving, direction: &str, by: impl FnOnce()) -> String {
    let before = ticks(server.child.id()).unwrap();
    let client = link.client(
        server,
        &["--server", FAR, "--direction", direction, "--samples", "1", "--sample-time", "10m"],
    );
    until("a busy server", || ticks(server.child.id()).unwrap() > before + 5);
    by();
    let run = document(client, 5);
    run["measurements"][0]["reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_far_end_killed_in_each_direction_is_a_far_end_failure() {
    let Some(link) = Link::new("a_far_end_killed_in_each_direction_is_a_far_end_failure") else { return };
    for direction in ["up", "down", "both"] {
        let server = link.server(&["--max-duration", "1h"]);
        // The namespace's command has become the server itself.
        let reason = broken(&link, &server, direction, || signal(server.child.id(), Signal::KILL));
        assert!(reason.starts_with(&format!("the server at {FAR}:7546 was lost during a ")), "{reason}");
    }
}

#[test]
fn a_link_that_goes_down_ends_both_ends() {
    let Some(link) = Link::new("a_link_that_goes_down_ends_both_ends") else { return };
    let server = link.server(&["--max-duration", "1h"]);
    for direction in ["up", "down", "both"] {
        let reason = broken(&link, &server, direction, || link.near.must("ip link set near0 down"));
        let begins = format!("the path to the server at {FAR}:7546: the link of near0 was lost once ");
        assert!(reason.starts_with(&begins), "{reason}");
        until("the session's end", || server.threads() == 1);
        link.near.must("ip link set near0 up");
    }
    let log = server.log();
    assert_eq!(log.matches("aborted").count(), 3, "{log}");
}

#[test]
fn the_address_to_send_from_is_kept() {
    let Some(link) = Link::new("the_address_to_send_from_is_kept") else { return };
    link.near.must("ip address add 10.77.0.9/24 dev near0");
    let server = link.server(&["--allow", "10.77.0.9"]);
    let client = |from: &str, code| {
        let flags = ["--server", FAR, "--bind", from, "--samples", "1", "--sample-time", "20ms"];
        document(link.client(&server, &flags), code)
    };
    assert_eq!(client("10.77.0.9", 0)["measurements"][0]["status"], "ok");
    let refused = client(NEAR, 5);
    assert_eq!(refused["measurements"][0]["status"], "failed");
    // A mistake of the client, found before anything is measured.
    let flags = ["--server", FAR, "--bind", "192.0.2.1", "--samples", "1", "--sample-time", "20ms"];
    let refused = link.client(&server, &flags).wait_with_output().unwrap();
    let stated = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stated}");
    insta::assert_snapshot!(stated);
}

/// A new network namespace has its loopback down, and no server would help.
#[test]
fn a_loopback_that_is_down_is_named() {
    let Some(own) = Namespace::new() else {
        return skipped("a_loopback_that_is_down_is_named", "needs root, unshare and nsenter");
    };
    let mut command = own.command(program().to_str().unwrap());
    command.args(["network", "--only", "network.tcp", "--store", "none", "--json", "-", "--quiet"]);
    let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    insta::assert_snapshot!(without_numbers(
        document(client, 4)["measurements"][0]["reason"].as_str().unwrap()
    ));
}

#[test]
fn a_client_that_vanishes_between_two_requests_leaves_no_session() {
    let Some(link) = Link::new("a_client_that_vanishes_between_two_requests_leaves_no_session") else {
        return;
    };
    let server = link.server(&[]);
    let place = std::fs::File::open(format!("/proc/{}/ns/net", link.near.0.id())).unwrap();
    let key = SharedKey::from_hex(&server.key, "the server's word").unwrap();
    let port = server.address.rsplit(':').next().unwrap();
    let to = format!("{FAR}:{port}");
    // This thread alone enters the namespace, and ends in it.
    let client = std::thread::spawn(move || {
        move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let mut channel = Channel::connect(TcpStream::connect(to).unwrap(), &key).unwrap();
        let answer = channel.ask(&Message::Open { other_session: None }).unwrap();
        assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
        channel
    });
    let channel = client.join().unwrap();
    // The session, and the watch over its links.
    until("the session", || server.threads() == 3);
    link.near.must("ip link set near0 down");
    until("the session's end", || server.threads() == 1);
    drop(channel);
    let log = server.log();
    assert_eq!(log.matches("aborted").count(), 1, "{log}");
}
