//! Memory on a given NUMA node: memory policy of a thread, and location of pages.

use std::collections::BTreeMap;
use std::{io, ptr};

/// `CONFIG_NODES_SHIFT` is at most 10.
const MOST_NODES: usize = 1024;
const ASKED: usize = 256;

/// Reason why memory of a node is not available, or its location unknown.
#[derive(Debug, thiserror::Error)]
pub enum NumaError {
    /// The node does not exist, has no memory or is outside this cpuset (set_mempolicy(2)).
    #[error(
        "cannot allocate memory on NUMA node {0}: {1}; check that the node has memory and that the cpuset allows it"
    )]
    Policy(usize, io::Error),
    /// The kernel does not report the location of pages.
    #[error("cannot find out on which NUMA node the memory is: {0}")]
    Place(io::Error),
}

/// Runs `work` and returns its result. Memory that `work` touches first is bound to NUMA node
/// `node`, if given. On an error, `work` does not run.
pub fn on_node<T>(node: Option<usize>, work: impl FnOnce() -> T) -> Result<T, NumaError> {
    let Some(node) = node else { return Ok(work()) };
    let refused = |source| NumaError::Policy(node, source);
    let mut mask = [0_u64; MOST_NODES / 64];
    let word = mask.get_mut(node / 64).ok_or_else(|| refused(io::ErrorKind::InvalidInput.into()))?;
    *word = 1 << (node % 64);
    // The kernel subtracts one from the number of bits (mm/mempolicy.c, get_nodes).
    policy(libc::MPOL_BIND, mask.as_ptr(), MOST_NODES + 1).map_err(refused)?;
    let _usual = UsualPolicy;
    Ok(work())
}

struct UsualPolicy;

impl Drop for UsualPolicy {
    fn drop(&mut self) {
        let _cannot_fail = policy(libc::MPOL_DEFAULT, ptr::null(), 0);
    }
}

fn policy(mode: libc::c_int, mask: *const u64, bits: usize) -> io::Result<()> {
    // SAFETY: set_mempolicy(2) reads `bits` bits from the mask: null, or an array of this size.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Looks up about 256 evenly spaced pages of `memory`; counts the resident ones by NUMA node.
pub fn resident_pages_by_node(memory: &[u8]) -> Result<BTreeMap<usize, usize>, NumaError> {
    let spacing = (memory.len() / ASKED).max(rustix::param::page_size());
    let pages: Vec<*const u8> = memory.iter().step_by(spacing).map(ptr::from_ref).collect();
    let mut nodes = vec![-1 as libc::c_int; pages.len()];
    // SAFETY: move_pages(2) without target nodes moves nothing; it reads `pages.len()` addresses
    // and writes as many integers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            ptr::null::<libc::c_int>(),
            nodes.as_mut_ptr(),
            0,
        )
    };
    if result < 0 {
        return Err(NumaError::Place(io::Error::last_os_error()));
    }
    let mut found = BTreeMap::new();
    for node in nodes.into_iter().filter_map(|node| usize::try_from(node).ok()) {
        *found.entry(node).or_default() += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::buffer::{Buffer, Pages};

    fn allowed<T>(result: Result<T, NumaError>) -> Option<T> {
        match result {
            Err(NumaError::Policy(_, source) | NumaError::Place(source))
                if matches!(source.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) =>
            {
                writeln!(io::stderr(), "SKIPPED a test of NUMA nodes: {source}").unwrap();
                None
            }
            other => Some(other.unwrap()),
        }
    }

    #[test]
    fn memory_lies_on_the_node_asked_for() {
        let make = || Buffer::touched(1 << 20, Pages::Small).unwrap();
        let Some(buffer) = allowed(on_node(Some(0), make)) else { return };
        let Some(nodes) = allowed(resident_pages_by_node(buffer.bytes())) else { return };
        assert_eq!(nodes, BTreeMap::from([(0, 256)]));
        let untouched = Buffer::new(1 << 20, Pages::Small).unwrap();
        assert_eq!(allowed(resident_pages_by_node(untouched.bytes())), Some(BTreeMap::new()));
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_and_nothing_is_done() {
        for node in [777, 1 << 20] {
            let mut done = false;
            let error = on_node(Some(node), || done = true).unwrap_err().to_string();
            let named = format!("cannot allocate memory on NUMA node {node}: ");
            assert!(!done && error.starts_with(&named), "{error}");
        }
    }

    #[test]
    fn the_policy_ends_with_the_work_also_when_it_panics() {
        let unwound =
            std::panic::catch_unwind(|| on_node(Some(0), || std::panic::resume_unwind(Box::new(()))));
        assert!(unwound.is_err());
        let mut mode = -1 as libc::c_int;
        let (mask, address) = (ptr::null_mut::<u64>(), ptr::null::<u8>());
        // SAFETY: get_mempolicy(2) without flags, mask and address writes one integer.
        let result = unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask, 0, address, 0) };
        if result == 0 {
            assert_eq!(mode, libc::MPOL_DEFAULT);
        }
    }
}
