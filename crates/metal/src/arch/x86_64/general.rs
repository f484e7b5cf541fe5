//! Kernels in general registers: R8 to R15 are the chains. The macro says how a line is read.

general! { Sse2 (
    is_x86_feature_detected
    "mov {a}, [{rows}]" "mov {b}, [{rows} + 8]"
    "mov r\\i, [{rows} + 8*\\i - 48]" "mov [{rows} + 8*\\i - 48], r\\i" "dec {turns}" "jnz 2b"
    ("r8" "r9" "r10" "r11" "r12" "r13" "r14" "r15"));
}
