//! `openssl speed`: the same calls on blocks of the same length. With `-aead` a call includes
//! nonce, 13 bytes of header, the block in place, and the tag; a digest covers a whole message.

use crate::tools::prelude::*;
use plimsoll_model::job::cpu::{CryptoJob, CryptoOp};

pub(super) const OPENSSL: RefTool = RefTool {
    name: "openssl",
    checks: "AES, SHA-256, ChaCha20-Poly1305",
    package: Package::Debian("openssl"),
    version: ("version", "OpenSSL "),
    library: Some("libcrypto"),
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

const SEALED: &[CryptoOp] = &[CryptoOp::Gcm, CryptoOp::ChaCha];

/// Parses calls and seconds in a complete line `+R:CALLS:NAME:SECONDS`; else `None`.
fn counted(line: &str) -> Option<Result<Account, String>> {
    let fields = line.strip_prefix("+R:")?;
    let [calls, _, seconds] = fields.split(':').collect::<Vec<_>>()[..] else { return None };
    let wrong = || format!("its number of calls is '{}'", shown_within(calls, 40));
    let calls = calls.parse::<u64>().map_err(|_| wrong());
    Some(calls.and_then(|calls| Ok(Account::of(calls as f64, Seconds::printed(seconds)?))))
}

/// Returns the block size in bytes, from the line `+DT:NAME:SECONDS:BYTES`.
fn bytes(text: &str) -> Option<f64> {
    let line = whole_lines(text).find_map(|line| line.strip_prefix("+DT:"))?;
    line.rsplit(':').next()?.trim_end().parse::<u32>().ok().map(f64::from)
}

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    let known = has_only_parameters(case, "op block affinity threads");
    (case.benchmark() == "cpu.crypto" && known).then_some(())?;
    let note = "the same calls on blocks as long, by OpenSSL's own code";
    Some(Pairing::new("throughput", Match::Exact, note, 1.1))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let CryptoJob { op, block, threads } = CryptoJob::of(&ask.case).ok_or("the operation is unknown")?;
    let (name, seconds) = (op.name(), whole_seconds(ask));
    let multi = if threads.count > 1 { format!("-multi {}", threads.count) } else { String::new() };
    let aead = if SEALED.contains(&op) { "-aead" } else { "" };
    let line = format!("speed -elapsed -mr -seconds {seconds} -bytes {block} {multi} -evp {name} {aead}");
    Ok(Invocation { output: Output::Stderr, ..ask.call(words(&line)) })
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let CryptoJob { block, threads, .. } = CryptoJob::of(case).ok_or("the operation is unknown")?;
    let used = bytes(text).ok_or("its output has no '+DT:' and bytes of a block")?;
    let counts: Vec<Account> = whole_lines(text).filter_map(counted).collect::<Result<_, _>>()?;
    let (first, processes) = (counts.first().ok_or("its output has no '+R:' and numbers")?, counts.len());
    if processes != threads.count {
        return Err(format!("it reported results of {processes} processes: {} were started", threads.count));
    }
    let rate: f64 = counts.iter().map(|counted| counted.amount * used / counted.seconds.value()).sum();
    let amount: f64 = counts.iter().map(|counted| counted.amount * used).sum();
    let mut reading = ToolFigure::of(rate, Account::of(amount, first.seconds))?;
    reading.compare(&fact::BLOCK_BYTES, used, block as f64, 0.0);
    reading.record(&fact::PROCESSES, processes);
    Ok(reading)
}
