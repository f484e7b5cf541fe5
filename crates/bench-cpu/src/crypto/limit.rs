//! Limit of `cpu.crypto`: instructions per call that occupy the core's units.
//!
//! throughput ≤ block ÷ instructions of a call × instructions per cycle × clock × cores, for each
//! kind of necessary instruction, in the vectors that the code uses:
//!
//! - AES: 10 rounds per 16 bytes with a 128-bit key plus one block for the tag, 14 with 256 bits
//!   (FIPS 197);
//! - GCM's tag: 3 carry-less multiplications per 16 bytes of header, block and lengths (Karatsuba);
//! - SHA-256: 64 rounds per 64 bytes with padding (FIPS 180-4), two (x86) or four (Arm) per
//!   instruction. They are dependent, so their latency counts; threads on one core overlap;
//! - ChaCha20: per 64 bytes, and one block for the tag's key, 80 quarter rounds of 4 additions, 4
//!   XORs and 4 rotations (RFC 8439), and 2 instructions per word. Rotations by whole bytes (two of
//!   four) take one instruction, the other two three.
//!
//! The rest of a call (Poly1305, loads, stores) only makes it slower.

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::kernel::CoreRate;

use super::THROUGHPUT_METRIC;
use super::op::{CryptoInstructions, CryptoOp};
use crate::limit::{Share, UnitRate};
use plimsoll_model::job::cpu::CryptoJob;
use plimsoll_model::limit::common_core::limits_by_core_sharing;
use plimsoll_model::limit::credits::credits;
use plimsoll_model::limit::microarchitecture::Core;
use plimsoll_model::limit::tightest_first;

const AES: CoreRate = CoreRate::new("aes", "AES rounds");
const CARRYLESS: CoreRate = CoreRate::new("carryless_multiply", "CLMUL");
/// SHA256RNDS2 on x86; SHA256H and SHA256H2 on Arm.
const SHA256: CoreRate =
    CoreRate { in_cycles: true, ..CoreRate::new("sha256_cycles", "SHA-256 instructions") };
const SHA256_LATENCY: &str = "sha256_latency";
const INTEGER: CoreRate = CoreRate::new("integer", "vector integer instructions");

/// Instructions per 32-bit word of ChaCha20.
const OF_A_WORD: f64 = 80.0 * 16.0 / 16.0 + 2.0;

pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    if question.metric != THROUGHPUT_METRIC {
        return Vec::new();
    }
    let Some(CryptoJob { op, block, .. }) = CryptoJob::of(question.case) else {
        return vec![Limit::unknown(LimitKind::Ceiling, "this version does not know the operation")];
    };
    let (mut known, mut unknown) = (Vec::new(), None);
    for needs in needs(op, block as u64) {
        let of = |question: &Question<'_>| derived(question, op, block as f64, &needs);
        match limits_by_core_sharing(question, of) {
            Ok(limits) => known.extend(limits),
            Err(why) => unknown = unknown.or(Some(Limit::unknown(LimitKind::Ceiling, why))),
        }
    }
    tightest_first(&mut known);
    let by_credits: Vec<Limit> = known.iter().filter_map(|limit| credits(question, limit)).collect();
    known.extend(by_credits);
    if known.is_empty() { unknown.into_iter().collect() } else { known }
}

struct Needs {
    rate: CoreRate,
    each: f64,
    lane_bits: u32,
    chained: bool,
}

fn needs(op: CryptoOp, block: u64) -> Vec<Needs> {
    let vectors = |rate, each: u64| Needs { rate, each: each as f64, lane_bits: 128, chained: false };
    match op {
        CryptoOp::Gcm => {
            let blocks = block.div_ceil(16);
            vec![vectors(AES, (blocks + 1) * 10), vectors(CARRYLESS, (blocks + 2) * 3)]
        }
        CryptoOp::Ctr => vec![vectors(AES, block.div_ceil(16) * 14)],
        CryptoOp::Sha256 => {
            // A bit and a 64-bit length follow the message.
            let blocks = (block + 9).div_ceil(64);
            vec![Needs { chained: true, ..vectors(SHA256, blocks * 32) }]
        }
        CryptoOp::ChaCha => {
            let words = (block.div_ceil(64) + 1) * 16;
            vec![Needs { rate: INTEGER, each: words as f64 * OF_A_WORD, lane_bits: 32, chained: false }]
        }
    }
}

fn derived(question: &Question<'_>, op: CryptoOp, block: f64, needs: &Needs) -> Result<Limit, String> {
    let machine = question.machine;
    let cpus: CpuSet = cpus_of_case(machine, question.case).into_iter().collect();
    let share = Share::of(question, &cpus);
    let means = CryptoInstructions::of(op, &machine.cpu);
    let core = Core::of_all(machine, &cpus.iter().collect::<Vec<_>>())?;
    if op == CryptoOp::ChaCha && means.is_none() {
        let why =
            "its code for these processors computes in general registers too, of which no rate is listed";
        return Err(why.to_owned());
    }
    let bits = means.map_or(128, |means| means.bits);
    let started = core.per_cycle(needs.rate, bits, &machine.cpu).map_err(|why| match means {
        Some(_) => why,
        None => format!("this processor shows no instructions for {}, and {why}", op.name()),
    })?;
    // Arm has instructions of four rounds; two of them are independent.
    let abreast = if machine.cpu.arm.is_some() { 2 } else { 1 };
    let latency = core.number(SHA256_LATENCY).filter(|_| needs.chained);
    let chained = latency.map(|latency| ((share.threads_per_core * abreast) as f64, latency));
    let units = UnitRate::new(core, needs.rate.name, bits, started, chained);
    let lanes = f64::from(units.bits / needs.lane_bits);
    let of_a_call = format!("{} of a call", units.name);
    let mut inputs = vec![
        Input::new("block", block, "B", "the case"),
        Input::new(&of_a_call, needs.each, "1", "the definition of the algorithm"),
    ];
    let (mut of_the_core, more) = units.formula();
    inputs.extend(more);
    if lanes > 1.0 {
        of_the_core += " × lanes";
        let by = means.map_or(String::new(), |means| format!(", {}", means.name));
        inputs.push(Input::new("lanes", lanes, "1", &format!("vectors of {} bits{by}", units.bits)));
    }
    let formula = format!("block ÷ {of_a_call} × {of_the_core}");
    let of_a_cycle = block / needs.each * units.per_cycle * lanes;
    let mut limit = share.at_the_clock(question, of_a_cycle, &formula, inputs)?;
    limit.reason = means.is_none().then(|| {
        let (core, op) = (&units.core.name, op.name());
        format!(
            "{core} has instructions for {op} which this system does not show: it is computed without them"
        )
    });
    Ok(units.core.mark(limit).resting_on(units.fact()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{chip, limits_of, samples};
    use plimsoll_machine::cpu::ArmId;

    const X86: &[&str] = &["sse2", "ssse3", "sse4_1", "aes", "pclmulqdq"];
    const AVX2: &[&str] = &["avx", "avx2", "bmi2"];
    const SHA: &[&str] = &["sha_ni"];
    const VAES: &[&str] = &["vaes", "vpclmulqdq"];
    const AVX512: &[&str] = &["avx512f"];

    fn machine(vendor: &str, family: u32, model: u32, flags: &[&[&str]]) -> Machine {
        let mut machine = chip(vendor, family, model);
        machine.cpu.flags = flags.iter().copied().flatten().map(|flag| (*flag).to_owned()).collect();
        machine
    }

    fn all(machine: &Machine, op: &str, how: &str) -> Vec<Limit> {
        let id = format!("cpu.crypto/op={op}/{how}").parse().unwrap();
        limits_of(limits, (machine, &id, THROUGHPUT_METRIC), &samples(&[Some(1.0)]))
    }

    fn per_cycle(machine: &Machine, op: &str) -> Option<f64> {
        all(machine, op, "block=16K/threads=1")[0].value
    }

    fn near(value: Option<f64>, wanted: f64) {
        assert!(value.is_some_and(|value| (value / wanted - 1.0).abs() < 1e-9), "{value:?} for {wanted}");
    }

    const KIB16: f64 = 16384.0;

    #[test]
    fn aes_takes_its_rounds_and_gcm_multiplications_too() {
        // Zen 4: two AES rounds of 128 or 256 bits per cycle, one of 512; half a multiplication.
        let zen4 = machine("AuthenticAMD", 25, 17, &[X86, AVX2, SHA, VAES, AVX512]);
        near(per_cycle(&zen4, "aes-256-ctr"), 16.0 / 14.0 * 4.0);
        let both = all(&zen4, "aes-128-gcm", "block=16K/threads=1");
        near(both[0].value, KIB16 / (1026.0 * 3.0) * 0.5 * 2.0);
        near(both[1].value, KIB16 / (1025.0 * 10.0) * 2.0 * 2.0);
        let formula = "block ÷ AES rounds of a call × AES rounds per cycle × lanes × clock × cores";
        assert_eq!(both[1].formula, formula);
        near(all(&zen4, "aes-128-gcm", "block=16/threads=1")[0].value, 16.0 / (3.0 * 3.0) * 0.5 * 2.0);
        // Haswell: one AES round per cycle, a multiplication in two, 128 bits.
        let haswell = machine("GenuineIntel", 6, 63, &[X86, AVX2]);
        near(per_cycle(&haswell, "aes-256-ctr"), 16.0 / 14.0);
        near(per_cycle(&haswell, "aes-128-gcm"), KIB16 / (1025.0 * 10.0));
    }

    #[test]
    fn sha_256_waits_for_each_two_rounds_and_threads_of_a_core_take_turns() {
        // Zen 4: latency of four cycles, one started per cycle.
        let zen4 = machine("AuthenticAMD", 25, 17, &[X86, AVX2, SHA, VAES, AVX512]);
        let blocks = 257.0;
        near(per_cycle(&zen4, "sha256"), KIB16 / (blocks * 32.0 * 4.0));
        let both = all(&zen4, "sha256", "block=16K/affinity=0,2/threads=2");
        near(both[0].value, 2.0 * KIB16 / (blocks * 32.0 * 4.0));
        // Zen 2 starts one in two cycles, Ice Lake one in three.
        let zen2 = machine("AuthenticAMD", 23, 49, &[X86, AVX2, SHA]);
        let both = all(&zen2, "sha256", "block=16K/affinity=0,2/threads=2");
        near(both[0].value, KIB16 / (blocks * 32.0 * 2.0));
        let ice_lake = machine("GenuineIntel", 6, 126, &[X86, AVX2, SHA, VAES, AVX512]);
        let both = all(&ice_lake, "sha256", "block=16K/affinity=0,2/threads=2");
        near(both[0].value, KIB16 / (blocks * 32.0 * 3.0));
        // The padding of 55 bytes fits their block; that of 56 needs another.
        let small = |block| all(&zen4, "sha256", &format!("block={block}/threads=1"))[0].value;
        near(small(55), 55.0 / 128.0);
        near(small(56), 56.0 / 256.0);
    }

    #[test]
    fn on_arm_two_instructions_of_four_rounds_work_abreast() {
        // Neoverse V2: four AES rounds and products per cycle, one 4-cycle SHA-256 instruction.
        let mut v2 = machine("", 0, 0, &[&["asimd", "aes", "pmull", "sha2"]]);
        (v2.cpu.vendor, v2.cpu.family, v2.cpu.model) = (None, None, None);
        v2.cpu.arm = Some(ArmId { implementer: 0x41, part: 0xd4f, variant: 0, revision: 1, midr: None });
        near(per_cycle(&v2, "aes-256-ctr"), 16.0 / 14.0 * 4.0);
        near(per_cycle(&v2, "aes-128-gcm"), KIB16 / (1025.0 * 10.0) * 4.0);
        near(per_cycle(&v2, "sha256"), KIB16 / (257.0 * 16.0 * 4.0));
        let chacha = &all(&v2, "chacha20-poly1305", "block=16K/threads=1")[0];
        assert!(chacha.reason.as_ref().is_some_and(|why| why.contains("general registers")), "{chacha:?}");
    }

    #[test]
    fn chacha_takes_82_instructions_for_each_word() {
        let zen4 = machine("AuthenticAMD", 25, 17, &[X86, AVX2, SHA, VAES, AVX512]);
        near(per_cycle(&zen4, "chacha20-poly1305"), KIB16 / (257.0 * 16.0 * 82.0) * 4.0 * 8.0);
        let westmere = machine("GenuineIntel", 6, 0x2c, &[X86]);
        near(per_cycle(&westmere, "chacha20-poly1305"), KIB16 / (257.0 * 16.0 * 82.0) * 3.0 * 4.0);
    }

    #[test]
    fn instructions_that_are_not_there_bound_nothing_and_hidden_ones_are_told() {
        let haswell = machine("GenuineIntel", 6, 63, &[X86, AVX2]);
        let limit = &all(&haswell, "sha256", "block=16K/threads=1")[0];
        assert_eq!((limit.value, limit.source), (None, LimitSource::Unknown));
        let wanted = "this processor shows no instructions for sha256, and the rate of 128-bit SHA-256 instructions of \
                      Haswell is not known";
        assert_eq!(limit.reason.as_deref(), Some(wanted));
        let masked = machine("AuthenticAMD", 25, 17, &[&["sse2", "ssse3", "sse4_1"]]);
        let limit = &all(&masked, "aes-256-ctr", "block=16K/threads=1")[0];
        near(limit.value, 16.0 / 14.0 * 2.0);
        let wanted = "Zen 4 has instructions for aes-256-ctr which this system does not show: it is computed without them";
        assert_eq!(limit.reason.as_deref(), Some(wanted));
        let unlisted = machine("AuthenticAMD", 25, 250, &[X86]);
        assert!(all(&unlisted, "sha256", "block=16K/threads=1")[0].reason.is_some());
        assert!(all(&unlisted, "rc4", "block=16K/threads=1")[0].value.is_none());
    }

    #[test]
    fn chips_whose_rates_are_listed_have_limits_of_their_kind() {
        let full: &[&[&str]] = &[X86, AVX2, SHA, VAES, AVX512];
        for (vendor, flags, chips) in [
            ("AuthenticAMD", &[X86, AVX2, SHA][..], &[(23, 1), (23, 49)][..]),
            ("AuthenticAMD", &[X86, AVX2, SHA, VAES], &[(25, 1)]),
            ("AuthenticAMD", full, &[(25, 17), (26, 2), (26, 36)]),
            ("GenuineIntel", full, &[(6, 126), (6, 140), (6, 167), (6, 106), (6, 143), (6, 207), (6, 173)]),
        ] {
            for (family, model) in chips {
                let machine = machine(vendor, *family, *model, flags);
                for (_, op) in CryptoOp::ALL_OPS {
                    let limits = all(&machine, op.name(), "block=16K/threads=1");
                    let said = format!("{vendor} {family} {model} {op:?}: {limits:?}");
                    assert!(limits[0].value.is_some_and(|value| (0.3..20.0).contains(&value)), "{said}");
                    assert!(limits[0].inputs.iter().any(|input| input.from.contains("InstLatx64")), "{said}");
                }
            }
        }
    }
}
