//! Limit of `network.tcp`: the payload share of full segments on the link.

use crate::condition::{TCP_MSS, TCP_TIMESTAMPS};
use crate::limit::{Framed, headers, ip_header, throughput};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::limit::frame::{ETHERNET, ETHERNET_HEADER, TCP_HEADER, TIMESTAMPS};

pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    throughput(question, segments(question))
}

fn segments(question: &Question<'_>) -> Framed {
    let formula = "payload ÷ (payload + options + 20 + ip + ethernet)";
    let Some(payload) = question.condition(&TCP_MSS).filter(|mss| *mss > 0.0) else {
        let share = Err("the segment size is unknown: the kernel does not report TCP_INFO");
        return Framed { share, counted: 1.0, formula, inputs: Vec::new() };
    };
    let options = question.condition(&TCP_TIMESTAMPS).map_or(0.0, |on| on.round() * TIMESTAMPS);
    let ip = ip_header(question);
    let mut inputs = vec![
        Input::new("payload", payload, "B", "segment size of the connection (TCP_INFO)"),
        Input::new("options", options, "B", "timestamps, if the connection has them (RFC 7323)"),
    ];
    inputs.extend(headers(ip));
    let segment = payload + options + TCP_HEADER + ip;
    let (share, counted) = (Ok(payload / (segment + ETHERNET)), payload / (segment + ETHERNET_HEADER));
    Framed { share, counted, formula, inputs }
}
