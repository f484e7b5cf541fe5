//! Test data that cannot be compressed or deduplicated and that identifies its location: every
//! 512-byte sector starts with its number and a serial number, both scrambled by the run's secret.
//! Sealed data (`--verify`) has the write's generation and a checksum instead.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::load::pattern::{derive, mix, unmix};

/// Bytes of a sector: the smallest block of any disk.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Bytes of a sector's head: scrambled number, then scrambled serial number or generation.
const HEAD: usize = 16;

/// End of the checksum in a sealed sector; it covers the rest and is keyed with the head.
const SEALED: usize = HEAD + 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seal {
    Open,
    /// Addresses, generations and checksums.
    Sealed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("verify failed at offset {offset}: {how}")]
pub(crate) struct WrongSector {
    /// Offset in bytes.
    pub(crate) offset: u64,
    pub(crate) how: SectorError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SectorError {
    /// Written for another location, or not by plimsoll.
    #[error("the sector there is not one that was written to that place")]
    Address,
    /// The bytes do not match the checksum.
    #[error("the sector is the right one, but its bytes do not fit their checksum")]
    Checksum,
    /// A trimmed sector that is not zero.
    #[error("the sector there was trimmed and does not read as zeros")]
    NotFreed,
    /// A version that was found and cannot be there; oldest and newest possible version.
    #[error("{}", impossible_version(*.found, *.oldest, *.newest))]
    Generation { found: u64, oldest: u64, newest: u64 },
}

fn impossible_version(found: u64, oldest: u64, newest: u64) -> String {
    match found < oldest {
        true => format!("an old version came back (write number {found}, after number {newest} was done)"),
        false => format!("write number {found} is there, but {newest} was the last to that place"),
    }
}

impl SectorError {
    /// Returns the mismatch in a few words, such as "a wrong checksum".
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Address => "another sector",
            Self::Checksum => "a wrong checksum",
            Self::NotFreed => "data in a trimmed sector",
            Self::Generation { .. } => "another version",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SectorContent {
    #[error("zeros")]
    Zeros,
    #[error("nothing but {0:02x}")]
    Only(u8),
    /// Data for another location, at this offset in bytes.
    #[error("data written for offset {0}")]
    Of(u64),
    /// Data for this location, with its generation.
    #[error("write number {0}")]
    Own(u64),
    #[error("the right sector with corrupted bytes")]
    Corrupted,
    /// Other data, with its first bytes.
    #[error("data that plimsoll did not write: {:016x}…", u64::from_be_bytes(*.0))]
    Foreign([u8; 8]),
}

/// Last byte of a boot sector or DOS partition table, 55 aa (UEFI specification §5.2.1).
const BOOT_MARK_ENDS: u8 = 0xaa;

/// Changes the last byte of each sector of `buffer`, written at byte `offset`, if it is 0xaa: a
/// boot sector ends with 55 aa, and the next run would refuse to overwrite a device that has one.
fn no_boot_sector(buffer: &mut [u8], offset: u64) {
    let first = SECTOR_BYTES - 1 - (offset % SECTOR_BYTES as u64) as usize;
    for last in buffer.iter_mut().skip(first).step_by(SECTOR_BYTES).filter(|byte| **byte == BOOT_MARK_ENDS) {
        *last = !BOOT_MARK_ENDS;
    }
}

#[derive(Debug)]
pub(crate) struct TestData {
    rng: SmallRng,
    secret: u64,
    serial: u64,
    seal: Seal,
    /// Whether a buffer with partial sectors was addressed, so that any byte may end a sector.
    shifts: bool,
}

impl TestData {
    /// Creates a generator of test data. `seed` is common to all writers and checkers of a file;
    /// `writer` is unique per writer, so that their random bytes differ.
    pub(crate) fn new(seed: u64, writer: &str) -> Self {
        let own = derive(derive(seed, "data"), writer);
        TestData {
            rng: SmallRng::seed_from_u64(own),
            secret: derive(seed, "sectors"),
            serial: mix(own),
            seal: Seal::Open,
            shifts: false,
        }
    }

    /// Selects whether [`Self::fill`] uses [`Self::seal`] or (default) [`Self::address`].
    #[must_use]
    pub(crate) fn with(self, seal: Seal) -> Self {
        TestData { seal, ..self }
    }

    /// Fills `buffer` with new random bytes and marks its sectors for byte `offset` of the file.
    pub(crate) fn fill(&mut self, buffer: &mut [u8], offset: u64) {
        self.rng.fill_bytes(buffer);
        no_boot_sector(buffer, offset);
        match self.seal {
            Seal::Open => self.address(buffer, offset),
            Seal::Sealed => self.seal(buffer, offset, 0),
        }
    }

    /// Marks each sector of a filled `buffer`, which starts at byte `offset` of the file, with its
    /// address, `generation` (number of the write) and checksum; needs whole sectors.
    pub(crate) fn seal(&self, buffer: &mut [u8], offset: u64, generation: u64) {
        let first = offset / SECTOR_BYTES as u64;
        for (number, sector) in (first..).zip(buffer.chunks_exact_mut(SECTOR_BYTES)) {
            sector[..HEAD / 2].copy_from_slice(&mix(self.secret ^ number).to_le_bytes());
            sector[HEAD / 2..HEAD].copy_from_slice(&(generation ^ self.veil(number)).to_le_bytes());
            let sum = self.checksum(sector, number, generation);
            sector[HEAD..SEALED].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Returns the generation (number of the write) in a sector marked by [`Self::seal`]; `number`
    /// is the sector's offset in the file ÷ 512. Fails if address or checksum is wrong.
    pub(crate) fn generation(&self, sector: &[u8], number: u64) -> Result<u64, SectorError> {
        let word = |at: usize| sector.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        let (Some(address), Some(veiled), Some(sum)) = (word(0), word(HEAD / 2), word(HEAD)) else {
            return Err(SectorError::Address);
        };
        if u64::from_le_bytes(address) != mix(self.secret ^ number) {
            return Err(SectorError::Address);
        }
        let generation = u64::from_le_bytes(veiled) ^ self.veil(number);
        let right = u64::from_le_bytes(sum) == self.checksum(sector, number, generation);
        if right { Ok(generation) } else { Err(SectorError::Checksum) }
    }

    /// Identifies the contents of a sector read at byte `offset` of the file: its own data, data of
    /// another offset, one repeated byte, or foreign data.
    pub(crate) fn identify(&self, sector: &[u8], offset: u64) -> SectorContent {
        /// Offsets below 1 PiB: a random word matches once in eight million times.
        const SECTORS: u64 = 1 << 41;
        let first = sector.first().copied().unwrap_or_default();
        if sector.iter().all(|byte| *byte == first) {
            return if first == 0 { SectorContent::Zeros } else { SectorContent::Only(first) };
        }
        let head: [u8; 8] = sector.get(..HEAD / 2).and_then(|head| head.try_into().ok()).unwrap_or_default();
        let number = unmix(u64::from_le_bytes(head)) ^ self.secret;
        match number {
            _ if number == offset / SECTOR_BYTES as u64 => {
                self.generation(sector, number).map_or(SectorContent::Corrupted, SectorContent::Own)
            }
            _ if number < SECTORS => SectorContent::Of(number * SECTOR_BYTES as u64),
            _ => SectorContent::Foreign(head),
        }
    }

    /// Returns the mask to XOR with the generation of sector `number`, against compression.
    fn veil(&self, number: u64) -> u64 {
        mix(self.secret.rotate_left(17) ^ number)
    }

    fn checksum(&self, sector: &[u8], number: u64, generation: u64) -> u64 {
        let key = mix(self.secret ^ mix(number)) ^ mix(generation);
        xxh3_64_with_seed(sector.get(SEALED..).unwrap_or_default(), key)
    }

    /// Marks each sector of a filled `buffer`, for byte `offset` of the file, with its address and
    /// a new serial number, at a thousandth of the cost of new data.
    pub(crate) fn address(&mut self, buffer: &mut [u8], offset: u64) {
        if !offset.is_multiple_of(SECTOR_BYTES as u64) || !buffer.len().is_multiple_of(SECTOR_BYTES) {
            return self.address_parts(buffer, offset);
        }
        let first = offset / SECTOR_BYTES as u64;
        for (number, sector) in (first..).zip(buffer.chunks_exact_mut(SECTOR_BYTES)) {
            self.serial = self.serial.wrapping_add(1);
            sector[..HEAD / 2].copy_from_slice(&mix(self.secret ^ number).to_le_bytes());
            let serial = mix(self.secret.rotate_left(32) ^ self.serial);
            sector[HEAD / 2..HEAD].copy_from_slice(&serial.to_le_bytes());
        }
        if self.shifts {
            no_boot_sector(buffer, offset);
        }
    }

    /// Like [`TestData::address`], for partial sectors: writes only the covered bytes of addresses.
    fn address_parts(&mut self, buffer: &mut [u8], offset: u64) {
        self.shifts = true;
        self.serial = self.serial.wrapping_add(1);
        let serial = mix(self.secret.rotate_left(32) ^ self.serial).to_le_bytes();
        for (place, byte) in (offset..).zip(buffer.iter_mut()) {
            match (place % SECTOR_BYTES as u64) as usize {
                at if at < HEAD / 2 => *byte = self.number_at(place / SECTOR_BYTES as u64, at),
                at => *byte ^= serial[at % serial.len()],
            }
        }
        no_boot_sector(buffer, offset);
    }

    fn number_at(&self, sector: u64, at: usize) -> u8 {
        mix(self.secret ^ sector).to_le_bytes()[at % (HEAD / 2)]
    }

    /// Returns the file offset of the first sector in `buffer`, read at byte `offset`, that has a
    /// wrong address; `None` if all addresses are right.
    pub(crate) fn first_misplaced(&self, buffer: &[u8], offset: u64) -> Option<u64> {
        let (sector, end) = (SECTOR_BYTES as u64, offset + buffer.len() as u64);
        let mut starts = (offset / sector..end.div_ceil(sector)).map(|number| number * sector);
        starts.find(|start| {
            // Partial sectors have a part of the address, or none.
            let (from, to) = (offset.max(*start), end.min(start + HEAD as u64 / 2));
            let part = |base: u64| (from - base) as usize..(to - base) as usize;
            let address = mix(self.secret ^ (start / sector)).to_le_bytes();
            from < to && buffer[part(offset)] != address[part(*start)]
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn data_is_at_home_where_it_was_made_for(seed: u64, sector in 0_u64..1 << 40, other in 0_u64..1 << 40) {
            let mut noise = TestData::new(seed, "fill");
            let mut buffer = vec![0; 8 * SECTOR_BYTES];
            let offset = sector * SECTOR_BYTES as u64;
            noise.fill(&mut buffer, offset);
            prop_assert_eq!(noise.first_misplaced(&buffer, offset), None);
            noise.address(&mut buffer, other * SECTOR_BYTES as u64);
            prop_assert_eq!(noise.first_misplaced(&buffer, other * SECTOR_BYTES as u64), None);
            if sector != other {
                prop_assert_eq!(noise.first_misplaced(&buffer, offset), Some(offset));
            }
        }

        #[test]
        fn no_sector_ends_as_a_boot_sector(seed: u64, offset in 0_u64..1 << 40, writes in 1_usize..4) {
            let ends = |buffer: &[u8], offset: u64| {
                let place = |at: usize| (offset + at as u64) % SECTOR_BYTES as u64;
                (0..buffer.len()).any(|at| place(at) == 511 && buffer[at] == BOOT_MARK_ENDS)
            };
            let mut noise = TestData::new(seed, "fill");
            let mut buffer = vec![0; 64 * SECTOR_BYTES];
            noise.fill(&mut buffer, 0);
            prop_assert!(!ends(&buffer, 0));
            for write in 1..=writes as u64 {
                let place = if write == 2 { offset / 512 * 512 } else { offset + write * 777 };
                noise.address(&mut buffer, place);
                prop_assert!(!ends(&buffer, place), "{place}");
            }
            let mut noise = noise.with(Seal::Sealed);
            noise.fill(&mut buffer, 0);
            noise.seal(&mut buffer, 0, writes as u64);
            prop_assert!(!ends(&buffer, 0));
        }

        #[test]
        fn a_flipped_bit_in_a_head_is_found(seed: u64, sector in 0_usize..8, bit in 0_usize..64) {
            let mut noise = TestData::new(seed, "fill");
            let mut buffer = vec![0; 8 * SECTOR_BYTES];
            noise.fill(&mut buffer, 1 << 20);
            buffer[sector * SECTOR_BYTES + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(noise.first_misplaced(&buffer, 1 << 20), Some((1 << 20) + (sector * SECTOR_BYTES) as u64));
        }

        #[test]
        fn a_flipped_bit_anywhere_in_a_sealed_sector_is_found(
            seed: u64, number in 0_u64..1 << 40, generation: u64, bit in 0_usize..SECTOR_BYTES * 8
        ) {
            let mut noise = TestData::new(seed, "fill").with(Seal::Sealed);
            let mut sector = vec![0; SECTOR_BYTES];
            noise.fill(&mut sector, number * SECTOR_BYTES as u64);
            prop_assert_eq!(noise.generation(&sector, number), Ok(0));
            noise.seal(&mut sector, number * SECTOR_BYTES as u64, generation);
            prop_assert_eq!(noise.generation(&sector, number), Ok(generation));
            prop_assert_eq!(noise.first_misplaced(&sector, number * SECTOR_BYTES as u64), None);
            prop_assert_eq!(noise.generation(&sector, number + 1), Err(SectorError::Address));
            sector[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(noise.generation(&sector, number).is_err());
            prop_assert_eq!(noise.generation(&sector[..SECTOR_BYTES / 64], number), Err(SectorError::Address));
        }

        #[test]
        fn pieces_of_sectors_make_whole_ones(seed: u64, cuts in prop::collection::btree_set(1_usize..4095, 0..9)) {
            let mut noise = TestData::new(seed, "fill");
            let mut file = vec![0; 8 * SECTOR_BYTES];
            noise.fill(&mut file, 1 << 20);
            let mut writer = TestData::new(seed, "case");
            let mut from = 0;
            for to in cuts.into_iter().chain([4096]) {
                let offset = (1 << 20) + from as u64;
                writer.address(&mut file[from..to], offset);
                prop_assert_eq!(noise.first_misplaced(&file[from..to], offset), None);
                from = to;
            }
            prop_assert_eq!(noise.first_misplaced(&file, 1 << 20), None);
            file[513] ^= 1;
            prop_assert_eq!(noise.first_misplaced(&file[1..], (1 << 20) + 1), Some((1 << 20) + 512));
        }
    }

    #[test]
    fn what_is_in_the_wrong_place_is_told() {
        let mut noise = TestData::new(1, "fill").with(Seal::Sealed);
        let mut sector = vec![0; SECTOR_BYTES];
        assert_eq!(noise.identify(&sector, 4096), SectorContent::Zeros);
        noise.fill(&mut sector, 8192);
        assert_eq!(noise.identify(&sector, 4096), SectorContent::Of(8192));
        noise.seal(&mut sector, 4096, 7);
        assert_eq!(noise.identify(&sector, 4096), SectorContent::Own(7));
        sector[100] ^= 1;
        assert_eq!(noise.identify(&sector, 4096), SectorContent::Corrupted);
        let head = sector[..8].try_into().expect("eight");
        assert_eq!(TestData::new(2, "fill").identify(&sector, 4096), SectorContent::Foreign(head));
    }

    #[test]
    fn no_two_sectors_are_ever_equal() {
        let mut noise = TestData::new(1, "fill");
        let mut again = TestData::new(1, "case");
        let mut buffer = vec![0; 64 * SECTOR_BYTES];
        let mut seen = HashSet::new();
        noise.fill(&mut buffer, 0);
        for _ in 0..10 {
            for sector in buffer.chunks_exact(SECTOR_BYTES) {
                assert!(seen.insert(sector.to_vec()));
            }
            noise.address(&mut buffer, 0);
        }
        again.fill(&mut buffer, 0);
        assert!(buffer.chunks_exact(SECTOR_BYTES).all(|sector| seen.insert(sector.to_vec())));
        assert_eq!(noise.first_misplaced(&buffer, 0), None);
    }

    #[test]
    fn zeros_and_another_runs_data_are_strangers() {
        let noise = TestData::new(1, "fill");
        assert_eq!(noise.first_misplaced(&[0; 4096], 8192), Some(8192));
        let mut foreign = vec![0; 4096];
        TestData::new(2, "fill").fill(&mut foreign, 8192);
        assert_eq!(noise.first_misplaced(&foreign, 8192), Some(8192));
    }

    #[test]
    fn the_bytes_are_evenly_spread() {
        let mut noise = TestData::new(3, "fill");
        let mut buffer = vec![0; 1 << 20];
        noise.fill(&mut buffer, 0);
        noise.address(&mut buffer, 1 << 20);
        let mut counts = [0_u32; 256];
        buffer.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4096 expected, standard deviation 64: six of them.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 384), "{counts:?}");
    }
}
