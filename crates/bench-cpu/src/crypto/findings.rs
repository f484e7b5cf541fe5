use plimsoll_bench_api::prelude::*;
use serde_json::json;

use super::{Crypto, CryptoOp, INSTRUCTIONS, NO_INSTRUCTIONS};
use plimsoll_model::job::cpu::CryptoJob;
use plimsoll_units::quantity::percent;

const WORTH_TELLING: f64 = 0.8;

/// Returns a finding per machine and operation whose CPU instructions the hypervisor hides.
pub(super) fn find(run: &[Measurement]) -> Vec<PlainFinding> {
    let mut reported: Vec<(&str, Option<CryptoOp>)> = Vec::new();
    let mut findings = Vec::new();
    for made in select(run, Crypto.name()) {
        let key = (made.node.as_str(), CryptoJob::of(&made.case).map(|job| job.op));
        if let Some(finding) = hidden(made).filter(|_| !reported.contains(&key)) {
            reported.push(key);
            findings.push(finding);
        }
    }
    findings
}

fn hidden(made: &Measurement) -> Option<PlainFinding> {
    let none = made.achieved.get(&INSTRUCTIONS).is_some_and(|instructions| instructions == NO_INSTRUCTIONS);
    let share = made.headline()?.of_limit.filter(|share| none && *share < WORTH_TELLING)?;
    let op = CryptoJob::of(&made.case)?.op.name();
    let text = format!(
        "{op} runs without the CPU's instructions for it, at {} of the limit of those instructions. This processor has them, but the hypervisor or the firmware hides them: enable them there (in a hypervisor: CPU model 'host')",
        percent(share, 2)
    );
    let evidence = json!({ "case": made.case.id(), "of_limit": share });
    Some(PlainFinding { topic: Topic::Limit, code: "instructions-hidden", text, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::metric::Better;
    use plimsoll_model::view::testing::measured;
    use plimsoll_units::quantity::Unit;

    fn made(threads: u32, instructions: &str, share: Option<f64>) -> Measurement {
        let id = format!("cpu.crypto/op=aes-128-gcm/block=16K/threads={threads}");
        let mut made = measured(&id, Unit::BytePerSecond, Better::Higher, &[1e9]);
        made.achieved.set(&INSTRUCTIONS, instructions);
        made.metrics[0].of_limit = share;
        made
    }

    #[test]
    fn hidden_instructions_are_told_once_with_what_they_cost() {
        let found = find(&[made(1, NO_INSTRUCTIONS, Some(0.041)), made(2, NO_INSTRUCTIONS, Some(0.04))]);
        assert_eq!(found.len(), 1);
        let text = &found[0].text;
        let start = "aes-128-gcm runs without the CPU's instructions for it, at 4.1 % of the limit";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("hypervisor or the firmware hides them: enable them"), "{text}");
        assert_eq!(found[0].evidence["case"], "cpu.crypto/op=aes-128-gcm/block=16K/threads=1");
    }

    #[test]
    fn it_is_silent_where_they_are_used_or_nobody_knows_of_them() {
        assert!(find(&[made(1, "AESENC and PCLMULQDQ", Some(0.3))]).is_empty());
        assert!(find(&[made(1, NO_INSTRUCTIONS, None)]).is_empty());
        assert!(find(&[made(1, NO_INSTRUCTIONS, Some(0.9))]).is_empty());
    }
}
