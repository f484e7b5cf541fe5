//! Jobs of the CPU benchmarks.

use plimsoll_metal::handover::HandoverMethod;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{Element, Op};
use serde::{Deserialize, Serialize};

pub use super::word::CaseWord;
use crate::case::Case;
use crate::place::Threads;

/// Returns the one of `all` whose name is the case's word `key`; `None` if missing or unknown.
fn named<T: Copy>(case: &Case, key: &str, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
    let word = case.word(key)?;
    all.iter().copied().find(|one| name(*one) == word)
}

/// Kernel of a CPU case. `None`: not in the case, which may be another tool's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuKernel<'a> {
    /// Operation.
    pub op: Option<Op>,
    /// Type of the numbers.
    pub element: Option<Element>,
    /// Instruction set.
    pub isa: Option<Isa>,
    /// Bits of a vector, or `scalar`.
    pub width: Option<&'a str>,
    /// Number of independent chains of instructions.
    pub chains: Option<u64>,
    /// Fixed operations per sample, per thread or in total.
    pub work: Option<u64>,
}

impl<'a> CpuKernel<'a> {
    /// Reads a case of `cpu.peak`, `cpu.gemm` or `cpu.linpack`.
    pub fn of(case: &'a Case) -> Self {
        Self {
            op: named(case, "op", Op::ALL, Op::name),
            element: named(case, "type", &Element::ALL, Element::name),
            isa: named(case, "isa", &Isa::ALL, Isa::name),
            width: case.word("width"),
            chains: case.number("chains"),
            work: case.number("work"),
        }
    }

    /// Returns the names of operation, type and instruction set; empty if missing.
    pub fn names(&self) -> [&'static str; 3] {
        [self.op.map_or("", Op::name), self.element.map_or("", Element::name), self.isa.map_or("", Isa::name)]
    }
}

/// Sizes of `cpu.gemm`, `cpu.linpack` and `cpu.hpl`. `None`: left to the program that computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseProblem {
    /// Rows and columns of a matrix.
    pub n: Option<u64>,
    /// Columns of a block.
    pub nb: Option<u64>,
    /// Rows and columns of the process grid.
    pub grid: [Option<u64>; 2],
}

impl DenseProblem {
    /// Reads a case of one of these benchmarks.
    pub fn of(case: &Case) -> Self {
        let [n, nb, p, q] = ["n", "nb", "p", "q"].map(|key| case.number(key));
        Self { n, nb, grid: [p, q] }
    }
}

/// Operation of `cpu.crypto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CryptoOp {
    /// AES-128-GCM: encryption with a tag.
    Gcm,
    /// AES-256-CTR: encryption alone.
    Ctr,
    /// SHA-256: a digest.
    Sha256,
    /// ChaCha20-Poly1305: encryption with a tag.
    ChaCha,
}

impl CryptoOp {
    /// All operations with their words.
    pub const ALL_OPS: [(&'static str, Self); 4] = [
        ("aes-128-gcm", Self::Gcm),
        ("aes-256-ctr", Self::Ctr),
        ("sha256", Self::Sha256),
        ("chacha20-poly1305", Self::ChaCha),
    ];

    /// Returns the word of the operation, such as `sha256`, which OpenSSL uses too.
    pub fn name(self) -> &'static str {
        Self::ALL_OPS.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| name)
    }
}

/// A case of `cpu.crypto`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CryptoJob {
    /// Operation.
    pub op: CryptoOp,
    /// Bytes of a call.
    pub block: usize,
    /// Threads.
    pub threads: Threads,
}

impl CryptoJob {
    /// Default bytes of a call: a TLS record.
    pub const DEFAULT_BLOCK_BYTES: u64 = 16 << 10;

    /// Reads a `cpu.crypto` case; `None` if the operation is unknown.
    pub fn of(case: &Case) -> Option<Self> {
        let op = CryptoOp::ALL_OPS.into_iter().find(|(name, _)| case.word("op") == Some(name))?.1;
        let block = case.number("block").unwrap_or(Self::DEFAULT_BLOCK_BYTES) as usize;
        Some(Self { op, block, threads: Threads::of(case) })
    }
}

impl CaseWord for HandoverMethod {
    const CASE_WORDS: &'static [(&'static str, Self)] =
        &[("cas", Self::CompareAndSwap), ("store", Self::Store)];
}
