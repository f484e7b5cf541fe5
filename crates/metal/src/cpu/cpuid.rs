//! The CPUID instruction of x86, as answered by the processor or a hypervisor.

use crate::arch::native;

/// Result registers of CPUID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// Executes CPUID on the calling thread's processor; `None` on other architectures. The caller must
/// check that the leaf exists: above the highest, Intel's processors repeat another leaf.
pub fn read_leaf(leaf: u32, subleaf: u32) -> Option<Registers> {
    let [eax, ebx, ecx, edx] = native::cpuid(leaf, subleaf)?;
    Some(Registers { eax, ebx, ecx, edx })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_leaf_names_the_maker_in_letters() {
        let Some(first) = read_leaf(0, 0) else { return };
        let letters = [first.ebx, first.edx, first.ecx].into_iter().flat_map(u32::to_le_bytes);
        assert!(first.eax >= 1 && letters.into_iter().all(|byte| (0x20..0x7f).contains(&byte)), "{first:x?}");
    }
}
