//! Datagrams that a third program sends with the addresses of both ends are reported as such.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::namespaces::{FAR, Link, first};
use crate::support::{start, warns};

/// The local and the remote port of each connected UDP socket of a process's network namespace.
fn ports(pid: u32) -> Vec<(u16, u16)> {
    let table = |name| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    // A server that listens for both families has mapped addresses.
    let tables = [table("udp"), table("udp6")];
    let port = |word: &str| u16::from_str_radix(word.split_once(':')?.1, 16).ok();
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((port(words.get(1)?)?, port(words.get(2)?)?))
    };
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines.filter_map(of).filter(|(_, remote)| *remote != 0).collect()
}

/// An IPv4 datagram (RFC 791, RFC 768); the kernel sets the header's checksum, UDP's is optional.
fn datagram(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), bytes: &[u8]) -> Vec<u8> {
    let length = 28 + bytes.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(from.0.octets());
    packet.extend(to.0.octets());
    for word in [from.1, to.1, length - 20, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(bytes);
    packet
}

/// Sends datagrams from a namespace under the addresses and ports of its client or server.
fn attack(own: u32, [here, there]: [Ipv4Addr; 2], size: usize, stop: &AtomicBool) {
    let namespace = std::fs::File::open(format!("/proc/{own}/ns/net")).unwrap();
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    let raw = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).unwrap();
    let mut turn = 0_u8;
    while !stop.load(Ordering::Relaxed) {
        turn = turn.wrapping_add(1);
        for (local, remote) in ports(own) {
            // With the expected size, and another one.
            for size in [size, size + 1] {
                let bytes: Vec<u8> = (0..size).map(|n| turn.wrapping_mul(31) ^ n as u8).collect();
                let packet = datagram((here, local), (there, remote), &bytes);
                // The port may be gone again.
                let to = std::net::SocketAddr::from((there, 0));
                let _ = rustix::net::sendto(&raw, &packet, SendFlags::empty(), &to);
            }
        }
        // The pace of the attack.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Measures while both ends get datagrams of the right size under each other's address.
fn attacked(link: &Link, line: &str, size: usize) -> Value {
    let server = link.server(&[]);
    let client = start(&mut link.client(&server, line));
    let stop = AtomicBool::new(false);
    let [near, far] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];
    std::thread::scope(|scope| {
        scope.spawn(|| attack(link.near.pid(), [near, far], size, &stop));
        scope.spawn(|| attack(link.far.pid(), [far, near], size, &stop));
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| first(client, 0)));
        stop.store(true, Ordering::Relaxed);
        run.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn spoofed_datagrams_are_somebody_elses_and_no_corruption() {
    let Some(link) = Link::new() else { return };
    for (what, message) in [
        ("network.latency --protocol udp", 64),
        ("network.latency --protocol udp", 1),
        ("network.udp --rate 5M", 64),
        ("network.udp --rate 5M", 4),
    ] {
        let line =
            format!("--server {FAR} --samples 4 --sample-time 300ms --only {what} --message {message}");
        let measurement = attacked(&link, &line, message);
        assert_eq!(measurement["status"], "ok", "{line}: {measurement}");
        assert!(warns(&measurement, "foreign-datagrams"), "{line}: {measurement}");
    }
}
