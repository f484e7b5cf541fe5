//! Features of AArch64 beyond the instruction sets, named as in /proc/cpuinfo.

use std::arch::is_aarch64_feature_detected;

use crate::isa::Feature;

pub(super) const DOT_PROD: Feature =
    Feature { name: "asimddp", present: || is_aarch64_feature_detected!("dotprod") };
pub(super) const FP16: Feature =
    Feature { name: "asimdhp", present: || is_aarch64_feature_detected!("fp16") };
pub(super) const BF16: Feature = Feature { name: "bf16", present: || is_aarch64_feature_detected!("bf16") };
pub(super) const I8MM: Feature = Feature { name: "i8mm", present: || is_aarch64_feature_detected!("i8mm") };
