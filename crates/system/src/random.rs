//! Random bytes of the operating system; getrandom(2) can fail early in the boot or be filtered.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use rand::TryRng;
use rand::rngs::SysRng;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

/// Fails if the system has no random bytes for Rust's hash tables, which abort without them. A
/// missing or forbidden system call is no failure, because Rust has a fallback.
pub fn check_available() -> io::Result<()> {
    let ask = |flags| match getrandom(&mut [0_u8; 16], flags) {
        Ok(_) | Err(Errno::INTR | Errno::NOSYS | Errno::PERM) => Ok(()),
        Err(errno) => Err(errno),
    };
    let asked = match ask(GetRandomFlags::INSECURE) {
        // Before Linux 5.6, where /dev/urandom has bytes before the pool is ready.
        Err(Errno::INVAL) => {
            ask(GetRandomFlags::NONBLOCK).or_else(|e| if e == Errno::AGAIN { Ok(()) } else { Err(e) })
        }
        asked => asked,
    };
    asked.map_err(|errno| none(&io::Error::from(errno)))
}

fn none(why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("the system gives no random bytes ({why}); see getrandom(2)"))
}

/// Returns `N` unpredictable bytes for keys and tokens; fails instead of using a weaker source.
pub fn secret_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(|e| none(&e))?;
    Ok(bytes)
}

/// Returns `N` bytes for seeds and names, random if possible, different in each call and process.
pub fn unique_bytes<const N: usize>() -> [u8; N] {
    secret_bytes().or_else(|_| from_device()).unwrap_or_else(|_: io::Error| from_surroundings())
}

/// Returns a number for seeds and names, different in each call and process.
pub fn unique_number() -> u64 {
    u64::from_ne_bytes(unique_bytes())
}

fn from_device<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn from_surroundings<const N: usize>() -> [u8; N] {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; N];
    for part in bytes.chunks_mut(32) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let mut mixed = Sha256::new();
        mixed.update(MADE.fetch_add(1, Ordering::Relaxed).to_ne_bytes());
        mixed.update(now.tv_sec.to_ne_bytes());
        mixed.update(now.tv_nsec.to_ne_bytes());
        mixed.update(std::process::id().to_ne_bytes());
        part.copy_from_slice(&mixed.finalize()[..part.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike_whatever_they_come_from() {
        check_available().unwrap();
        assert_ne!(secret_bytes::<32>().unwrap(), secret_bytes::<32>().unwrap());
        assert_ne!(unique_bytes::<16>(), unique_bytes::<16>());
        assert_ne!(from_device::<16>().unwrap(), from_device::<16>().unwrap());
        let long = from_surroundings::<70>();
        assert_ne!(long, from_surroundings::<70>());
        assert_ne!(long[..32], long[32..64]);
        assert_ne!(unique_number(), unique_number());
    }
}
