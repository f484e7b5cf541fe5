//! Kernels in general registers: X8 to X15 are the chains. The macro says how a line is read.

general! { Neon (
    is_aarch64_feature_detected
    "ldr {a}, [{rows}]" "ldr {b}, [{rows}, #8]"
    "ldr x\\i, [{rows}, #(8*\\i - 48)]" "str x\\i, [{rows}, #(8*\\i - 48)]" "subs {turns}, {turns}, #1" "b.ne 2b"
    ("x8" "x9" "x10" "x11" "x12" "x13" "x14" "x15"));
}
