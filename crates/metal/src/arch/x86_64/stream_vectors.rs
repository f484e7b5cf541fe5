//! Vector bandwidth kernels. SSE2 loads sources separately: its operands must be aligned.

use core::arch::asm;

use super::stream::{distances, stream_kernel};
use crate::isa::Isa;
use crate::stream::{StoreKind, StreamKernel, StreamOp, Terms};

/// Kernels of an instruction set. A read has four sums, folded at the end; a write stores the first
/// four registers; register 15 is the scalar. Prefetches use r8 for b, r11 for c.
macro_rules! streams {
    (
        $kernels:ident: $isa:ident, $turn:literal, $lines:literal;
        zero $zero:tt; fold $fold:tt; scalar $scalar:tt; end $end:tt; end_nt $end_nt:tt;
        store $store:tt; store_nt $store_nt:tt;
        Read $read:tt: $r:ident $r_ahead:ident $r_l1ahead:ident $r_l2ahead:ident;
        Write $write:tt: $w:ident $w_nt:ident;
        { $($op:ident $step:tt $sources:tt: $plain:ident $ahead:ident $nt:ident $nt_ahead:ident $nt_l2ahead:ident;)+ }
        Update $update:tt: $u:ident;
    ) => {
        pub(super) static $kernels: [StreamKernel; 27] = [
            stream_kernel!($r: Read, $isa, Ordinary, turn $turn, start $zero, prefetch "" [] lines $lines, step $read, write [], end $fold),
            stream_kernel!($r_ahead: Read, $isa, Ordinary, turn $turn, start $zero, prefetch "prefetchnta" ["r8"] lines $lines, step $read, write [], end $fold),
            stream_kernel!($r_l1ahead: Read, $isa, Ordinary, turn $turn, start $zero, prefetch "prefetcht0" ["r8"] lines $lines, step $read, write [], end $fold),
            stream_kernel!($r_l2ahead: Read, $isa, Ordinary, turn $turn, start $zero, prefetch "prefetcht1" ["r8"] lines $lines, step $read, write [], end $fold),
            stream_kernel!($w: Write, $isa, Ordinary, turn $turn, start $scalar, prefetch "" [] lines $lines, step $write, write $store, end $end),
            stream_kernel!($w_nt: Write, $isa, NonTemporal, turn $turn, start $scalar, prefetch "" [] lines $lines, step $write, write $store_nt, end $end_nt),
            $(
                stream_kernel!($plain: $op, $isa, Ordinary, turn $turn, start $scalar, prefetch "" [] lines $lines, step $step, write $store, end $end),
                stream_kernel!($ahead: $op, $isa, Ordinary, turn $turn, start $scalar, prefetch "prefetchnta" $sources lines $lines, step $step, write $store, end $end),
                stream_kernel!($nt: $op, $isa, NonTemporal, turn $turn, start $scalar, prefetch "" [] lines $lines, step $step, write $store_nt, end $end_nt),
                stream_kernel!($nt_ahead: $op, $isa, NonTemporal, turn $turn, start $scalar, prefetch "prefetchnta" $sources lines $lines, step $step, write $store_nt, end $end_nt),
                stream_kernel!($nt_l2ahead: $op, $isa, NonTemporal, turn $turn, start $scalar, prefetch "prefetcht1" $sources lines $lines, step $step, write $store_nt, end $end_nt),
            )+
            stream_kernel!($u: Update, $isa, Ordinary, turn $turn, start $scalar, prefetch "" [] lines $lines, step $update, write $store, end $end),
        ];
    };
}

streams! {
    SSE2: Sse2, 64, "0";
    zero ["pxor xmm0, xmm0", "pxor xmm1, xmm1", "pxor xmm2, xmm2", "pxor xmm3, xmm3"];
    fold ["paddq xmm0, xmm1", "paddq xmm2, xmm3", "paddq xmm0, xmm2", "pshufd xmm1, xmm0, 0xee", "paddq xmm0, xmm1", "movq rax, xmm0"];
    scalar ["unpcklpd xmm15, xmm15"]; end []; end_nt ["sfence"];
    store ["movapd [rdi + rcx + 16*\\k], xmm\\k"]; store_nt ["movntpd [rdi + rcx + 16*\\k], xmm\\k"];
    Read ["movdqu xmm8, [rsi + rcx + 16*\\k]", "paddq xmm\\k, xmm8"]: read_sse2 read_ahead_sse2 read_l1ahead_sse2 read_l2ahead_sse2;
    Write ["movapd xmm\\k, xmm15"]: write_sse2 write_nt_sse2;
    {
        Copy ["movupd xmm\\k, [rsi + rcx + 16*\\k]"] ["r8"]: copy_sse2 copy_ahead_sse2 copy_nt_sse2 copy_nt_ahead_sse2 copy_nt_l2ahead_sse2;
        Scale ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15"] ["r8"]: scale_sse2 scale_ahead_sse2 scale_nt_sse2 scale_nt_ahead_sse2 scale_nt_l2ahead_sse2;
        Add ["movupd xmm\\k, [rsi + rcx + 16*\\k]", "movupd xmm8, [rdx + rcx + 16*\\k]", "addpd xmm\\k, xmm8"] ["r8", "r11"]:
            add_sse2 add_ahead_sse2 add_nt_sse2 add_nt_ahead_sse2 add_nt_l2ahead_sse2;
        Triad ["movupd xmm\\k, [rdx + rcx + 16*\\k]", "movupd xmm8, [rsi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15", "addpd xmm\\k, xmm8"] ["r8", "r11"]:
            triad_sse2 triad_ahead_sse2 triad_nt_sse2 triad_nt_ahead_sse2 triad_nt_l2ahead_sse2;
    }
    Update ["movapd xmm\\k, [rdi + rcx + 16*\\k]", "mulpd xmm\\k, xmm15"]: update_sse2;
}

streams! {
    AVX2: Avx2, 128, "0,64";
    zero ["vpxor xmm0, xmm0, xmm0", "vpxor xmm1, xmm1, xmm1", "vpxor xmm2, xmm2, xmm2", "vpxor xmm3, xmm3, xmm3"];
    fold ["vpaddq ymm0, ymm0, ymm1", "vpaddq ymm2, ymm2, ymm3", "vpaddq ymm0, ymm0, ymm2", "vextracti128 xmm1, ymm0, 1", "vpaddq xmm0, xmm0, xmm1", "vpshufd xmm1, xmm0, 0xee", "vpaddq xmm0, xmm0, xmm1", "vmovq rax, xmm0", "vzeroupper"];
    scalar ["vbroadcastsd ymm15, xmm15"]; end ["vzeroupper"]; end_nt ["vzeroupper", "sfence"];
    store ["vmovapd [rdi + rcx + 32*\\k], ymm\\k"]; store_nt ["vmovntpd [rdi + rcx + 32*\\k], ymm\\k"];
    Read ["vpaddq ymm\\k, ymm\\k, [rsi + rcx + 32*\\k]"]: read_avx2 read_ahead_avx2 read_l1ahead_avx2 read_l2ahead_avx2;
    Write ["vmovapd ymm\\k, ymm15"]: write_avx2 write_nt_avx2;
    {
        Copy ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]"] ["r8"]: copy_avx2 copy_ahead_avx2 copy_nt_avx2 copy_nt_ahead_avx2 copy_nt_l2ahead_avx2;
        Scale ["vmulpd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"] ["r8"]: scale_avx2 scale_ahead_avx2 scale_nt_avx2 scale_nt_ahead_avx2 scale_nt_l2ahead_avx2;
        Add ["vmovupd ymm\\k, [rsi + rcx + 32*\\k]", "vaddpd ymm\\k, ymm\\k, [rdx + rcx + 32*\\k]"] ["r8", "r11"]:
            add_avx2 add_ahead_avx2 add_nt_avx2 add_nt_ahead_avx2 add_nt_l2ahead_avx2;
        Triad ["vmovupd ymm\\k, [rdx + rcx + 32*\\k]", "vfmadd213pd ymm\\k, ymm15, [rsi + rcx + 32*\\k]"] ["r8", "r11"]:
            triad_avx2 triad_ahead_avx2 triad_nt_avx2 triad_nt_ahead_avx2 triad_nt_l2ahead_avx2;
    }
    Update ["vmulpd ymm\\k, ymm15, [rdi + rcx + 32*\\k]"]: update_avx2;
}

streams! {
    AVX512: Avx512, 256, "0,64,128,192";
    zero ["vpxor xmm0, xmm0, xmm0", "vpxor xmm1, xmm1, xmm1", "vpxor xmm2, xmm2, xmm2", "vpxor xmm3, xmm3, xmm3"];
    fold ["vpaddq zmm0, zmm0, zmm1", "vpaddq zmm2, zmm2, zmm3", "vpaddq zmm0, zmm0, zmm2", "vextracti64x4 ymm1, zmm0, 1", "vpaddq ymm0, ymm0, ymm1", "vextracti128 xmm1, ymm0, 1", "vpaddq xmm0, xmm0, xmm1", "vpshufd xmm1, xmm0, 0xee", "vpaddq xmm0, xmm0, xmm1", "vmovq rax, xmm0", "vzeroupper"];
    scalar ["vbroadcastsd zmm15, xmm15"]; end ["vzeroupper"]; end_nt ["vzeroupper", "sfence"];
    store ["vmovapd [rdi + rcx + 64*\\k], zmm\\k"]; store_nt ["vmovntpd [rdi + rcx + 64*\\k], zmm\\k"];
    Read ["vpaddq zmm\\k, zmm\\k, [rsi + rcx + 64*\\k]"]: read_avx512 read_ahead_avx512 read_l1ahead_avx512 read_l2ahead_avx512;
    Write ["vmovapd zmm\\k, zmm15"]: write_avx512 write_nt_avx512;
    {
        Copy ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]"] ["r8"]: copy_avx512 copy_ahead_avx512 copy_nt_avx512 copy_nt_ahead_avx512 copy_nt_l2ahead_avx512;
        Scale ["vmulpd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"] ["r8"]: scale_avx512 scale_ahead_avx512 scale_nt_avx512 scale_nt_ahead_avx512 scale_nt_l2ahead_avx512;
        Add ["vmovupd zmm\\k, [rsi + rcx + 64*\\k]", "vaddpd zmm\\k, zmm\\k, [rdx + rcx + 64*\\k]"] ["r8", "r11"]:
            add_avx512 add_ahead_avx512 add_nt_avx512 add_nt_ahead_avx512 add_nt_l2ahead_avx512;
        Triad ["vmovupd zmm\\k, [rdx + rcx + 64*\\k]", "vfmadd213pd zmm\\k, zmm15, [rsi + rcx + 64*\\k]"] ["r8", "r11"]:
            triad_avx512 triad_ahead_avx512 triad_nt_avx512 triad_nt_ahead_avx512 triad_nt_l2ahead_avx512;
    }
    Update ["vmulpd zmm\\k, zmm15, [rdi + rcx + 64*\\k]"]: update_avx512;
}
