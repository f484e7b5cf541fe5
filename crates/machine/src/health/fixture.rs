//! Fixtures for tests of health.

use plimsoll_metal::nvme::SMART_BYTES;

/// Returns a log page of an NVMe drive with these values.
pub(super) fn made(warning: u8, kelvin: u16, used: u8, errors: u64) -> Vec<u8> {
    let mut page = vec![0; SMART_BYTES];
    page[0] = warning;
    page[1..3].copy_from_slice(&kelvin.to_le_bytes());
    page[3..6].copy_from_slice(&[100, 10, used]);
    page[48..56].copy_from_slice(&2_000_u64.to_le_bytes());
    page[128..136].copy_from_slice(&8760_u64.to_le_bytes());
    page[160..168].copy_from_slice(&errors.to_le_bytes());
    page
}
