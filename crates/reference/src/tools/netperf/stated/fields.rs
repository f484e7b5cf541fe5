//! Fields of netperf's omni tests, by key: from KEY=VALUE lines (`-k`) or CSV (`-o`).

use std::collections::BTreeMap;

pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Parses the fields of each result: all KEY=VALUE lines, or a row of CSV below a heading.
    pub(super) fn all(text: &str) -> Vec<Self> {
        let lines = text.lines().filter_map(key_value);
        let known: BTreeMap<String, String> =
            lines.map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned())).collect();
        if !known.is_empty() {
            return vec![Self(known)];
        }
        let mut heading: Vec<String> = Vec::new();
        let mut found = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let names: Vec<String> = cells(line).map(key).collect();
            let values: Vec<&str> = cells(line).collect();
            if names.len() > 1 && names.iter().any(|name| name == "THROUGHPUT" || name == "RT_LATENCY") {
                heading = names;
            } else if heading.len() == values.len() && !heading.is_empty() {
                let values = values.into_iter().map(str::to_owned);
                found.push(Self(heading.iter().cloned().zip(values).collect()));
            } else {
                heading.clear();
            }
        }
        found
    }

    /// Returns whether the keys are netperf's, not another program's.
    pub(super) fn is_of_netperf(&self) -> bool {
        ["THROUGHPUT", "ELAPSED_TIME", "RT_LATENCY", "REMOTE_RECV_THROUGHPUT", "LOCAL_RECV_THROUGHPUT"]
            .iter()
            .any(|key| self.0.contains_key(*key))
    }

    pub(super) fn word(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.word(key)?.parse().ok()
    }
}

pub(super) fn key_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let is_key = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    (key.starts_with(|c: char| c.is_ascii_uppercase()) && key.bytes().all(is_key))
        .then_some((key, value.trim()))
}

/// Returns the cells of a line of CSV, without quotes; a quoted cell may contain commas.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    line.split(move |c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    })
    .map(|cell| cell.trim().trim_matches('"'))
}

/// Returns the key, as in KEY=VALUE lines, for the name of a CSV column.
fn key(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let key = words.map(str::to_ascii_uppercase).collect::<Vec<_>>().join("_");
    match key.as_str() {
        "ELAPSED_TIME_SEC" => "ELAPSED_TIME".to_owned(),
        "ROUND_TRIP_LATENCY_USEC_TRAN" => "RT_LATENCY".to_owned(),
        "TRANSACTION_RATE_TRAN_S" => "TRANSACTION_RATE".to_owned(),
        "REMOTE_BYTES_RECEIVED" => "REMOTE_BYTES_RECVD".to_owned(),
        "LOCAL_BYTES_RECEIVED" => "LOCAL_BYTES_RECVD".to_owned(),
        _ => key,
    }
}
