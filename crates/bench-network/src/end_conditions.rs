//! Conditions measured at both ends: CPU time, busiest CPU, TCP statistics, drops.

use crate::condition::{
    COPIED_DESPITE_ZEROCOPY, END_CPU, END_CPU_PER_BYTE, END_CPU_PER_MESSAGE, END_FULLEST_CPU,
    END_FULLEST_CPU_BUSY, END_NIC_DROPS, END_NIC_ERRORS, END_TCP_RETRANSMITS, TCP_BUFFER_LIMITED, TCP_CWND,
    TCP_MSS, TCP_RECEIVER_LIMITED, TCP_RETRANSMITS, TCP_RTT, TCP_TIMESTAMPS,
};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::sample::Numbers;
use plimsoll_server::traffic::tcp::TcpOutcome;
use plimsoll_server::wire::{EndReport, SendingReport, TcpLook, TcpOrder};

pub(super) fn conditions(work: &TcpOrder, outcome: &TcpOutcome, there: &EndReport) -> Numbers {
    let here = &outcome.here;
    let mut more = Numbers::default();
    for (end, report) in [("near", here), ("far", there)] {
        let mut put = |row: &OwnCondition, value: f64| {
            if value.is_finite() {
                more.set_of(row, end, value);
            }
        };
        let (sent, received) = (report.sent.as_ref(), report.received.as_ref());
        let cpu = sent.map_or(0, |s| s.cpu_nanos) + received.map_or(0, |r| r.cpu_nanos);
        let bytes = sent.map_or(0, |s| s.bytes) + received.map_or(0, |r| r.bytes);
        let account = &report.account;
        put(&END_CPU, busy(work, report));
        put(&END_CPU_PER_BYTE, cpu as f64 * 1e-9 / bytes as f64);
        put(&END_CPU_PER_MESSAGE, cpu as f64 * 1e-9 * f64::from(work.message) / bytes as f64);
        put(&END_FULLEST_CPU, f64::from(account.fullest_cpu));
        put(&END_FULLEST_CPU_BUSY, f64::from(account.fullest_busy) * 1e-6);
        put(&END_NIC_DROPS, account.nic_drops as f64);
        put(&END_NIC_ERRORS, account.nic_errors as f64);
        put(&END_TCP_RETRANSMITS, account.tcp_retransmits as f64);
    }
    let sender = here.sent.as_ref().or(there.sent.as_ref()).map(of_sender);
    more.add(sender.into_iter().flatten().filter(|(_, value)| value.is_finite()).collect());
    more
}

fn busy(work: &TcpOrder, report: &EndReport) -> f64 {
    let sent = report.sent.as_ref().map(|s| (s.cpu_nanos, s.nanos));
    let received = report.received.as_ref().map(|r| (r.cpu_nanos, r.nanos.saturating_add(work.omit)));
    let shares = [sent, received].into_iter().flatten();
    let shares: Vec<f64> =
        shares.map(|(cpu, time)| cpu as f64 / time as f64 / f64::from(work.streams)).collect();
    shares.iter().sum::<f64>() / shares.len() as f64
}

fn of_sender(sent: &SendingReport) -> [(OwnCondition, f64); 8] {
    let busy = sent.busy_nanos as f64;
    [
        (TCP_RTT, sent.rtt_nanos as f64 * 1e-9),
        (TCP_CWND, sent.cwnd_bytes as f64),
        (TCP_RETRANSMITS, sent.retransmits as f64),
        (TCP_MSS, f64::from(sent.mss)),
        (TCP_TIMESTAMPS, f64::from(u8::from(sent.timestamps))),
        (TCP_RECEIVER_LIMITED, sent.receiver_limited_nanos as f64 / busy),
        (TCP_BUFFER_LIMITED, sent.buffer_limited_nanos as f64 / busy),
        (COPIED_DESPITE_ZEROCOPY, sent.copied as f64 / sent.bytes as f64),
    ]
}

/// Returns the TCP statistics of a sender over time. Counters are differences; times are shares of
/// the time between two samples.
pub(super) fn timeline(sent: &SendingReport) -> Vec<CurvePoint> {
    let mut before = TcpLook::default();
    let mut points = Vec::new();
    for look in &sent.looks {
        let since = |field: fn(&TcpLook) -> u64| field(look).saturating_sub(field(&before)) as f64;
        let time = since(|l| l.at).max(1.0);
        let point = [
            ("t", look.at as f64 * 1e-9),
            ("tcp_rtt", look.rtt_nanos as f64 * 1e-9),
            ("tcp_cwnd", look.cwnd_bytes as f64),
            ("tcp_retransmits", since(|l| l.retransmits)),
            ("tcp_busy", since(|l| l.busy_nanos) / time),
            ("tcp_receiver_limited", since(|l| l.receiver_limited_nanos) / time),
            ("tcp_buffer_limited", since(|l| l.buffer_limited_nanos) / time),
        ];
        points.push(point.map(|(name, value)| (name.to_owned(), value)).into());
        before = *look;
    }
    points
}
