//! Kernels in general-purpose registers; X14 is the constant. See the macro for the syntax.

general! { Neon is_aarch64_feature_detected (
    "2,3,4,5,6,7,8,9,10,11,12,13"
    "ldr x14, [x0]\nadd x0, x0, #16" "ldr x\\i, [x0], #8" "subs x1, x1, #1" "b.ne 2b"
    "sub x0, x0, #(8*{chains})" "str x\\i, [x0], #8" "" rows "x0" turns "x1"
    ("x2" "x3" "x4" "x5" "x6" "x7" "x8" "x9" "x10" "x11" "x12" "x13" "x14"));

    crc32c_i64_neon CRC32C I64 ["crc32cx" 8 "crc32cx w\\i, w\\i, x14"] needs "crc32" "crc";
}
