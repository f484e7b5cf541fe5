//! Features of x86-64 beyond the instruction sets, named as in /proc/cpuinfo.

use std::arch::is_x86_feature_detected;

use super::amx;
use crate::isa::Feature;

pub(super) const SSE41: Feature = Feature { name: "sse4_1", present: || is_x86_feature_detected!("sse4.1") };
pub(super) const AVX_VNNI: Feature =
    Feature { name: "avx_vnni", present: || is_x86_feature_detected!("avxvnni") };
pub(super) const AVX512_VNNI: Feature =
    Feature { name: "avx512_vnni", present: || is_x86_feature_detected!("avx512vnni") };
pub(super) const AVX512_BF16: Feature =
    Feature { name: "avx512_bf16", present: || is_x86_feature_detected!("avx512bf16") };
pub(super) const AVX512_FP16: Feature =
    Feature { name: "avx512_fp16", present: || is_x86_feature_detected!("avx512fp16") };
pub(super) const AMX_INT8: Feature = Feature { name: "amx_int8", present: || amx::bit(amx::INT8_BIT) };
pub(super) const AMX_BF16: Feature = Feature { name: "amx_bf16", present: || amx::bit(amx::BF16_BIT) };
