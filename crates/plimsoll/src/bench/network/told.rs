//! What both ends tell beside the figures: processor time, the fullest CPU, TCP's own account, drops.

use std::collections::BTreeMap;

use crate::sample::Point;
use crate::traffic::tcp::Outcome;
use crate::wire::{Look, Report, Sent, Tcp};

/// The conditions of one transfer, by name; shares are between 0 and 1, times in seconds.
pub(super) fn conditions(work: &Tcp, outcome: &Outcome, there: &Report) -> BTreeMap<String, f64> {
    let here = &outcome.here;
    let mut more = BTreeMap::new();
    let mut put = |name: &str, value: f64| {
        if value.is_finite() {
            more.insert(name.to_owned(), value);
        }
    };
    for (end, report) in [("near", here), ("far", there)] {
        let cpu = report.sent.as_ref().map_or(0, |s| s.cpu_nanos)
            + report.received.as_ref().map_or(0, |r| r.cpu_nanos);
        let bytes =
            report.sent.as_ref().map_or(0, |s| s.bytes) + report.received.as_ref().map_or(0, |r| r.bytes);
        let account = &report.account;
        put(&format!("{end}_cpu"), busy(work, report));
        put(&format!("{end}_cpu_per_byte"), cpu as f64 * 1e-9 / bytes as f64);
        put(&format!("{end}_cpu_per_message"), cpu as f64 * 1e-9 * f64::from(work.message) / bytes as f64);
        put(&format!("{end}_fullest_cpu"), f64::from(account.fullest_cpu));
        put(&format!("{end}_fullest_cpu_busy"), f64::from(account.fullest_busy) * 1e-6);
        put(&format!("{end}_nic_drops"), account.nic_drops as f64);
        put(&format!("{end}_nic_errors"), account.nic_errors as f64);
        put(&format!("{end}_tcp_retransmits"), account.tcp_retransmits as f64);
    }
    if let Some(sent) = here.sent.as_ref().or(there.sent.as_ref()) {
        for (name, value) in of_sender(sent) {
            put(name, value);
        }
    }
    more
}

/// The share of the time that an end's threads were busy, the mean over them.
fn busy(work: &Tcp, report: &Report) -> f64 {
    let sent = report.sent.as_ref().map(|s| (s.cpu_nanos, s.nanos));
    let received = report.received.as_ref().map(|r| (r.cpu_nanos, r.nanos.saturating_add(work.omit)));
    let shares = [sent, received].into_iter().flatten();
    let shares: Vec<f64> =
        shares.map(|(cpu, time)| cpu as f64 / time as f64 / f64::from(work.streams)).collect();
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// What TCP says of the sending side (`TCP_INFO`).
fn of_sender(sent: &Sent) -> Vec<(&'static str, f64)> {
    let busy = sent.busy_nanos as f64;
    vec![
        ("tcp_rtt", sent.rtt_nanos as f64 * 1e-9),
        ("tcp_cwnd", sent.cwnd_bytes as f64),
        ("tcp_retransmits", sent.retransmits as f64),
        ("tcp_mss", f64::from(sent.mss)),
        ("tcp_timestamps", f64::from(u8::from(sent.timestamps))),
        ("tcp_receiver_limited", sent.receiver_limited_nanos as f64 / busy),
        ("tcp_buffer_limited", sent.buffer_limited_nanos as f64 / busy),
        ("copied_although_lent", sent.copied as f64 / sent.bytes as f64),
    ]
}

/// The first sender's TCP in the course of the transfer, a point for each look: what was since the look before, and as shares
/// of the time where it is a time.
pub(super) fn course(senders: &[&Sent]) -> Vec<Point> {
    let Some(sent) = senders.first() else { return Vec::new() };
    let mut before = Look::default();
    let mut points = Vec::new();
    for look in &sent.looks {
        let since = |field: fn(&Look) -> u64| field(look).saturating_sub(field(&before)) as f64;
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
