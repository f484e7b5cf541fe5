//! Kernels in general-purpose registers. RBX, reserved by the compiler, and the rows' address are
//! saved in vector registers.

general! { Sse2 is_x86_feature_detected (
    "r8,r9,r10,r11,r12,r13,r14,r15,rdx,rsi,rbx,rdi"
    "movq xmm0, rdi\nmovq xmm1, rbx\nmov rax, [rdi]\nadd rdi, 8" "add rdi, 8\nmov \\i, [rdi]" "dec rcx" "jnz 2b"
    "movq rcx, xmm0\nadd rcx, 8" "add rcx, 8\nmov [rcx], \\i" "movq rbx, xmm1" rows "rdi" turns "rcx"
    ("rax" "rdx" "rsi" "r8" "r9" "r10" "r11" "r12" "r13" "r14" "r15" "xmm0" "xmm1"));

    crc32c_i64_sse2 CRC32C I64 ["crc32" 8 "crc32 \\i, rax"] needs "sse4_2" "sse4.2";
}
