//! Selection of the program for a node: this one, or a static one of the node's architecture.

use std::path::Path;
use std::{fs, io};

use sha2::{Digest, Sha256};

/// ELF's numbers of processors (`e_machine` of the generic ABI), and their names in `uname -m`.
const PROCESSORS: [(u16, &str); 3] = [(62, "x86_64"), (183, "aarch64"), (243, "riscv64")];
/// Segment type that names an interpreter (elf(5)): the program needs shared libraries.
const INTERPRETER: u32 = 3;
const MAX_PROGRAM_BYTES: u64 = 1 << 30;

/// A program for nodes of one architecture.
#[derive(Clone, Debug)]
pub struct ProgramCopy {
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Architecture as in `uname -m`.
    pub architecture: &'static str,
    /// Whether it needs no shared library.
    pub is_static: bool,
}

impl ProgramCopy {
    /// Reads a program file: ELF for Linux on x86_64, aarch64 or riscv64. Fails for any other file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let size = fs::metadata(path).map_err(|e| e.to_string())?.len();
        if size > MAX_PROGRAM_BYTES {
            return Err("larger than a program can be".to_owned());
        }
        Self::parsed(fs::read(path).map_err(|e| e.to_string())?)
    }

    fn parsed(bytes: Vec<u8>) -> Result<Self, String> {
        let number = |at: usize, size: usize| {
            let field = bytes.get(at..at.checked_add(size)?)?;
            Some(field.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)))
        };
        let processor =
            number(18, 2).and_then(|found| PROCESSORS.iter().find(|(n, _)| u64::from(*n) == found));
        let architecture = match processor {
            Some((_, name)) if bytes.starts_with(b"\x7fELF\x02\x01") => *name,
            _ => return Err("not a Linux program for x86_64, aarch64 or riscv64".to_owned()),
        };
        let header =
            |at: usize, size: usize| number(at, size).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let (first, each, count) = (header(32, 8), header(54, 2), header(56, 2));
        let kind = |index: usize| number(first.checked_add(index.checked_mul(each)?)?, 4);
        let is_static = !(0..count).any(|index| kind(index) == Some(u64::from(INTERPRETER)));
        Ok(Self { sha256: digest(&bytes), architecture, is_static, bytes })
    }

    /// Returns the program for `architecture`, as printed by `uname -m`. Fails if there is none.
    pub fn of<'a>(programs: &'a [Self], architecture: &str) -> Result<&'a Self, String> {
        let known = if architecture == "arm64" { "aarch64" } else { architecture };
        programs.iter().find(|program| program.architecture == known).ok_or_else(|| {
            format!("its architecture is {architecture}: give a static plimsoll for it with --program FILE")
        })
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Returns the SHA-256 of the file at `path`, in hexadecimal.
pub fn own_digest(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| digest(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_program_is_one_and_goes_to_machines_of_its_kind() {
        let own = ProgramCopy::read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.architecture, std::env::consts::ARCH);
        assert_eq!(own.sha256, own_digest(&std::env::current_exe().unwrap()).unwrap());
        let all = [own];
        assert!(ProgramCopy::of(&all, std::env::consts::ARCH).is_ok());
        assert!(ProgramCopy::of(&all, "sparc64").unwrap_err().contains("--program"));
        for no_program in [&b"#!/bin/sh\n"[..], b""] {
            assert!(ProgramCopy::parsed(no_program.to_vec()).is_err());
        }
    }

    proptest! {
        #[test]
        fn headers_that_lie_are_read_without_a_panic(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0".to_vec();
            bytes.extend(tail);
            prop_assert_eq!(ProgramCopy::parsed(bytes).unwrap().architecture, "x86_64");
        }
    }
}
