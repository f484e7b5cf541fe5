//! The CPUID instruction of x86, as answered by the processor or a hypervisor.

use crate::arch::native;

/// Executes CPUID on the calling thread's processor; returns EAX, EBX, ECX and EDX, `None` on other
/// architectures. The caller must check that the leaf exists: above the highest, Intel's processors
/// repeat another leaf.
pub fn read_leaf(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    native::cpuid(leaf, subleaf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_leaf_names_the_maker_in_letters() {
        let Some(first) = read_leaf(0, 0) else { return };
        let [eax, ebx, ecx, edx] = first;
        let letters = [ebx, edx, ecx].into_iter().flat_map(u32::to_le_bytes);
        assert!(eax >= 1 && letters.into_iter().all(|byte| (0x20..0x7f).contains(&byte)), "{first:x?}");
    }
}
