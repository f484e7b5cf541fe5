//! Limit of `network.udp`: the payload share of datagrams and their fragments on the link.

use crate::condition::PATH_MTU;
use crate::limit::{Framed, headers, ip_header, throughput};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::network::NetworkStreams;
use plimsoll_model::limit::frame::{ETHERNET, ETHERNET_HEADER, IPV4_HEADER, MIN_FRAME_BYTES, UDP_HEADER};

pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    throughput(question, datagrams(question))
}

fn datagrams(question: &Question<'_>) -> Framed {
    let formula = "datagram ÷ (datagram + 8 + frames × (ip + ethernet))";
    let message = NetworkStreams::of(question.case).message;
    let (Some(mtu), Some(bytes)) = (question.condition(&PATH_MTU), message) else {
        let share = Err("the largest packet of the interface (MTU) is unknown");
        return Framed { share, counted: 1.0, formula, inputs: Vec::new() };
    };
    let (bytes, ip) = (bytes as f64, ip_header(question));
    let (frames, wire) = on_the_wire(bytes + UDP_HEADER, mtu, ip);
    let mut inputs = vec![
        Input::new("datagram", bytes, "B", "--message"),
        Input::new("frames", frames, "1", "one, or as many fragments as the interface's MTU wants"),
    ];
    inputs.extend(headers(ip));
    let counted = bytes / (bytes + UDP_HEADER + frames * (ip + ETHERNET_HEADER));
    Framed { share: Ok(bytes / wire), counted, formula, inputs }
}

/// Returns (number of frames, their bytes on the wire) for an IP payload, an MTU and an IP header,
/// in bytes. A fragment's payload is a multiple of 8 (RFC 791); IPv6 adds 8 (RFC 8200); a frame
/// takes at least 84 (IEEE 802.3).
fn on_the_wire(payload: f64, mtu: f64, ip: f64) -> (f64, f64) {
    if payload + ip <= mtu {
        return (1.0, (payload + ip + ETHERNET).max(MIN_FRAME_BYTES));
    }
    let more = if ip > IPV4_HEADER { 8.0 } else { 0.0 };
    let each = (((mtu - ip - more) / 8.0).floor() * 8.0).max(8.0);
    let frames = (payload / each).ceil();
    (frames, payload + frames * (ip + more + ETHERNET))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{PATH_IPV6, PATH_LOOPBACK, PATH_SPEED};
    use crate::{GOODPUT, fixture};

    #[test]
    fn datagrams_pay_for_their_frames_and_fragments() {
        let of = |bytes: u64, mtu: f64, v6: f64| {
            let case = Case::of("network.udp").with_size("message", bytes).with_count("streams", 1);
            let conditions = [(PATH_LOOPBACK, 0.0), (PATH_SPEED, 1e9), (PATH_MTU, mtu), (PATH_IPV6, v6)];
            let limits = fixture::limits(&case, GOODPUT, None, conditions.into_iter().collect());
            limits[0].value.unwrap() / 1e9
        };
        // Largest unfragmented datagram: 1472 of 1538 bytes on the wire; smallest: 1 of 84.
        assert!((of(1472, 1500.0, 0.0) - 1472.0 / 1538.0).abs() < 1e-9);
        assert!((of(1, 1500.0, 0.0) - 1.0 / 84.0).abs() < 1e-9);
        // One more byte needs a second frame of 20 + 38 bytes.
        assert!((of(1473, 1500.0, 0.0) - 1473.0 / (1481.0 + 2.0 * 58.0)).abs() < 1e-9);
        assert!((of(65_507, 1500.0, 0.0) - 65_507.0 / (65_515.0 + 45.0 * 58.0)).abs() < 1e-9);
        assert!((of(1452, 1500.0, 1.0) - 1452.0 / 1538.0).abs() < 1e-9);
    }
}
