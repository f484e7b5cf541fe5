//! What is written: bytes that can neither be compressed nor deduplicated, and that say where they belong.
//!
//! Every 512-byte sector begins with its own number and a serial number, both scrambled by the run's secret, so
//! no two sectors ever written are equal, and a read can be checked against the place it claims to come from.
//! The rest is pseudo-random; a block about to be written gets only new sector heads, which costs a thousandth of
//! making it anew, so that the measured CPU time is not the generator's.
//!
//! Sealed (`--verify`), the second number is the generation of the write instead, and a checksum over the whole sector
//! follows: a flipped bit, another place's data and an old version that came back are told apart.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::load::pattern::{derive, mix, unmix};

/// The unit that carries an address: the smallest block of any disk.
pub const SECTOR: usize = 512;

/// Bytes of a sector's head: its scrambled number and its scrambled serial number or generation.
const HEAD: usize = 16;

/// Where the checksum of a sealed sector ends; it covers what follows, and is keyed with the head.
const SEALED: usize = HEAD + 8;

/// Whether every sector carries a generation and a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// Addresses and serial numbers alone.
    Open,
    /// Addresses, generations and checksums.
    Sealed,
}

/// What is wrong with a sector that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong {
    /// Where it is, in bytes.
    pub offset: u64,
    /// In which way.
    pub how: How,
}

/// In which way a sector is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was made for another place, or by nobody.
    Address,
    /// Its bytes are not those that were written.
    Checksum,
    /// It was freed and is not zeros.
    NotFreed,
    /// It is another version than those that can be there.
    Generation {
        /// The one that was read.
        found: u64,
        /// The oldest and the newest that can be there.
        oldest: u64,
        /// See `oldest`.
        newest: u64,
    },
}

impl How {
    /// The way in a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::Address => "another sector",
            Self::Checksum => "a wrong checksum",
            Self::NotFreed => "data in a trimmed sector",
            Self::Generation { .. } => "another version",
        }
    }
}

/// What is in a sector that is not what belongs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The same byte everywhere.
    Only(u8),
    /// What was written for another place, which begins at this byte.
    Of(u64),
    /// What was written for this place: this generation, whole, or with bytes that do not fit.
    Own(Option<u64>),
    /// Something else, which begins with these bytes.
    Foreign([u8; 8]),
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Found::Only(0) => f.write_str("zeros"),
            Found::Only(byte) => write!(f, "nothing but {byte:02x}"),
            Found::Of(offset) => write!(f, "data written for offset {offset}"),
            Found::Own(Some(generation)) => write!(f, "write number {generation}"),
            Found::Own(None) => f.write_str("the right sector with corrupted bytes"),
            Found::Foreign(head) => {
                write!(f, "data that plimsoll did not write: {:016x}…", u64::from_be_bytes(*head))
            }
        }
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "verify failed at offset {}: ", self.offset)?;
        match self.how {
            How::Address => f.write_str("the sector there is not one that was written to that place"),
            How::Checksum => {
                f.write_str("the sector is the right one, but its bytes do not fit their checksum")
            }
            How::NotFreed => f.write_str("the sector there was trimmed and does not read as zeros"),
            How::Generation { found, oldest, newest } if found < oldest => {
                write!(f, "an old version came back (write number {found}, after number {newest} was done)")
            }
            How::Generation { found, newest, .. } => {
                write!(f, "write number {found} is there, but {newest} was the last to that place")
            }
        }
    }
}

/// The last byte of a boot sector, and of a sector with a DOS partition table (UEFI specification §5.2.1): 55 aa.
const BOOT_MARK_ENDS: u8 = 0xaa;

/// Keeps sectors of `buffer`, which will be written at `offset`, from ending as a boot sector does: by chance one in 65,000
/// would, and the next run would find somebody's data on the device.
fn no_boot_sector(buffer: &mut [u8], offset: u64) {
    let first = SECTOR - 1 - (offset % SECTOR as u64) as usize;
    for last in buffer.iter_mut().skip(first).step_by(SECTOR).filter(|byte| **byte == BOOT_MARK_ENDS) {
        *last = !BOOT_MARK_ENDS;
    }
}

/// Makes and checks test data.
#[derive(Debug)]
pub struct Noise {
    rng: SmallRng,
    secret: u64,
    serial: u64,
    seal: Seal,
    /// Whether a buffer was addressed that begins or ends within a sector: any of its bytes can be the last of a sector then.
    shifts: bool,
}

impl Noise {
    /// Data of one test file. Whoever writes to it or checks it needs the same `seed`; no two writers may have the
    /// same `writer`, or they would write the same bytes.
    pub fn new(seed: u64, writer: &str) -> Self {
        let own = derive(derive(seed, "data"), writer);
        Noise {
            rng: SmallRng::seed_from_u64(own),
            secret: derive(seed, "sectors"),
            serial: mix(own),
            seal: Seal::Open,
            shifts: false,
        }
    }

    /// The same, with all that is filled sealed in generation 0, or not.
    #[must_use]
    pub fn with(self, seal: Seal) -> Self {
        Noise { seal, ..self }
    }

    /// Fills `buffer`, which will be written at `offset`, with new bytes throughout.
    pub fn fill(&mut self, buffer: &mut [u8], offset: u64) {
        self.rng.fill_bytes(buffer);
        no_boot_sector(buffer, offset);
        match self.seal {
            Seal::Open => self.address(buffer, offset),
            Seal::Sealed => self.seal(buffer, offset, 0),
        }
    }

    /// Makes `buffer`, once filled, generation `generation` of what is at home at `offset`, with its checksums.
    pub fn seal(&self, buffer: &mut [u8], offset: u64, generation: u64) {
        let first = offset / SECTOR as u64;
        for (number, sector) in (first..).zip(buffer.chunks_exact_mut(SECTOR)) {
            sector[..HEAD / 2].copy_from_slice(&mix(self.secret ^ number).to_le_bytes());
            sector[HEAD / 2..HEAD].copy_from_slice(&(generation ^ self.veil(number)).to_le_bytes());
            let sum = self.checksum(sector, number, generation);
            sector[HEAD..SEALED].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// The generation of the sealed sector `number`.
    ///
    /// # Errors
    /// In which way it is not one.
    pub fn generation(&self, sector: &[u8], number: u64) -> Result<u64, How> {
        let word = |at: usize| sector.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        let (Some(address), Some(veiled), Some(sum)) = (word(0), word(HEAD / 2), word(HEAD)) else {
            return Err(How::Address);
        };
        if u64::from_le_bytes(address) != mix(self.secret ^ number) {
            return Err(How::Address);
        }
        let generation = u64::from_le_bytes(veiled) ^ self.veil(number);
        let right = u64::from_le_bytes(sum) == self.checksum(sector, number, generation);
        if right { Ok(generation) } else { Err(How::Checksum) }
    }

    /// What is in a sector that was read at `offset`.
    pub fn identify(&self, sector: &[u8], offset: u64) -> Found {
        /// Offsets below 1 PiB: a random word is one of them once in eight million times.
        const SECTORS: u64 = 1 << 41;
        let first = sector.first().copied().unwrap_or_default();
        if sector.iter().all(|byte| *byte == first) {
            return Found::Only(first);
        }
        let head: [u8; 8] = sector.get(..HEAD / 2).and_then(|head| head.try_into().ok()).unwrap_or_default();
        let number = unmix(u64::from_le_bytes(head)) ^ self.secret;
        match number {
            _ if number == offset / SECTOR as u64 => Found::Own(self.generation(sector, number).ok()),
            _ if number < SECTORS => Found::Of(number * SECTOR as u64),
            _ => Found::Foreign(head),
        }
    }

    /// What hides the generation, so that a compressor finds nothing.
    fn veil(&self, number: u64) -> u64 {
        mix(self.secret.rotate_left(17) ^ number)
    }

    fn checksum(&self, sector: &[u8], number: u64, generation: u64) -> u64 {
        let key = mix(self.secret ^ mix(number)) ^ mix(generation);
        xxh3_64_with_seed(sector.get(SEALED..).unwrap_or_default(), key)
    }

    /// Makes `buffer`, once filled, different from all that was written before and at home at `offset`.
    pub fn address(&mut self, buffer: &mut [u8], offset: u64) {
        if !offset.is_multiple_of(SECTOR as u64) || !buffer.len().is_multiple_of(SECTOR) {
            return self.address_parts(buffer, offset);
        }
        let first = offset / SECTOR as u64;
        for (number, sector) in (first..).zip(buffer.chunks_exact_mut(SECTOR)) {
            self.serial = self.serial.wrapping_add(1);
            sector[..HEAD / 2].copy_from_slice(&mix(self.secret ^ number).to_le_bytes());
            sector[HEAD / 2..HEAD]
                .copy_from_slice(&mix(self.secret.rotate_left(32) ^ self.serial).to_le_bytes());
        }
        if self.shifts {
            no_boot_sector(buffer, offset);
        }
    }

    /// As [`Noise::address`], for a buffer that begins or ends within a sector: what it covers of a sector's number is
    /// the right part of it, so that others find the number whole.
    fn address_parts(&mut self, buffer: &mut [u8], offset: u64) {
        self.shifts = true;
        self.serial = self.serial.wrapping_add(1);
        let serial = mix(self.secret.rotate_left(32) ^ self.serial).to_le_bytes();
        for (place, byte) in (offset..).zip(buffer.iter_mut()) {
            match (place % SECTOR as u64) as usize {
                at if at < HEAD / 2 => *byte = self.number_at(place / SECTOR as u64, at),
                at => *byte ^= serial[at % serial.len()],
            }
        }
        no_boot_sector(buffer, offset);
    }

    /// One byte of a sector's scrambled number.
    fn number_at(&self, sector: u64, at: usize) -> u8 {
        mix(self.secret ^ sector).to_le_bytes()[at % (HEAD / 2)]
    }

    /// The offset of the first sector in `buffer`, read at `offset`, that does not belong there.
    pub fn stranger(&self, buffer: &[u8], offset: u64) -> Option<u64> {
        if !offset.is_multiple_of(SECTOR as u64) || !buffer.len().is_multiple_of(SECTOR) {
            let number = |place: u64| (place / SECTOR as u64, (place % SECTOR as u64) as usize);
            let strange = |(place, byte): &(u64, &u8)| {
                let (sector, at) = number(*place);
                at < HEAD / 2 && **byte != self.number_at(sector, at)
            };
            return (offset..).zip(buffer).find(strange).map(|(place, _)| place - place % SECTOR as u64);
        }
        let first = offset / SECTOR as u64;
        (first..)
            .zip(buffer.chunks_exact(SECTOR))
            .find(|(number, sector)| sector[..HEAD / 2] != mix(self.secret ^ number).to_le_bytes())
            .map(|(number, _)| number * SECTOR as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What was made for a place is accepted there and nowhere else, filled or only addressed anew.
        #[test]
        fn data_is_at_home_where_it_was_made_for(seed: u64, sector in 0_u64..1 << 40, other in 0_u64..1 << 40) {
            let mut noise = Noise::new(seed, "fill");
            let mut buffer = vec![0; 8 * SECTOR];
            let offset = sector * SECTOR as u64;
            noise.fill(&mut buffer, offset);
            prop_assert_eq!(noise.stranger(&buffer, offset), None);
            noise.address(&mut buffer, other * SECTOR as u64);
            prop_assert_eq!(noise.stranger(&buffer, other * SECTOR as u64), None);
            if sector != other {
                prop_assert_eq!(noise.stranger(&buffer, offset), Some(offset));
            }
        }

        /// Filled, addressed anew or sealed, whole or in parts: no sector ends as a boot sector does.
        #[test]
        fn no_sector_ends_as_a_boot_sector(seed: u64, offset in 0_u64..1 << 40, writes in 1_usize..4) {
            let ends = |buffer: &[u8], offset: u64| {
                let place = |at: usize| (offset + at as u64) % SECTOR as u64;
                (0..buffer.len()).any(|at| place(at) == 511 && buffer[at] == BOOT_MARK_ENDS)
            };
            let mut noise = Noise::new(seed, "fill");
            let mut buffer = vec![0; 64 * SECTOR];
            noise.fill(&mut buffer, 0);
            prop_assert!(!ends(&buffer, 0));
            for write in 1..=writes as u64 {
                // Whole sectors, too, after parts of them.
                let place = if write == 2 { offset / 512 * 512 } else { offset + write * 777 };
                noise.address(&mut buffer, place);
                prop_assert!(!ends(&buffer, place), "{place}");
            }
            let mut noise = noise.with(Seal::Sealed);
            noise.fill(&mut buffer, 0);
            noise.seal(&mut buffer, 0, writes as u64);
            prop_assert!(!ends(&buffer, 0));
        }

        /// One wrong bit in a head is found, with the offset of its sector.
        #[test]
        fn a_flipped_bit_in_a_head_is_found(seed: u64, sector in 0_usize..8, bit in 0_usize..64) {
            let mut noise = Noise::new(seed, "fill");
            let mut buffer = vec![0; 8 * SECTOR];
            noise.fill(&mut buffer, 1 << 20);
            buffer[sector * SECTOR + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(noise.stranger(&buffer, 1 << 20), Some((1 << 20) + (sector * SECTOR) as u64));
        }
    }

    proptest! {
        /// A sealed sector tells its generation; any flipped bit, in head, checksum or body, is found.
        #[test]
        fn a_flipped_bit_anywhere_in_a_sealed_sector_is_found(
            seed: u64, number in 0_u64..1 << 40, generation: u64, bit in 0_usize..SECTOR * 8
        ) {
            let mut noise = Noise::new(seed, "fill").with(Seal::Sealed);
            let mut sector = vec![0; SECTOR];
            noise.fill(&mut sector, number * SECTOR as u64);
            prop_assert_eq!(noise.generation(&sector, number), Ok(0));
            noise.seal(&mut sector, number * SECTOR as u64, generation);
            prop_assert_eq!(noise.generation(&sector, number), Ok(generation));
            prop_assert_eq!(noise.stranger(&sector, number * SECTOR as u64), None);
            prop_assert_eq!(noise.generation(&sector, number + 1), Err(How::Address));
            sector[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(noise.generation(&sector, number).is_err());
            prop_assert_eq!(noise.generation(&sector[..SECTOR / 64], number), Err(How::Address));
        }

        /// Written in pieces of any size, a file is as right as if written whole, and every piece is accepted alone.
        #[test]
        fn pieces_of_sectors_make_whole_ones(seed: u64, cuts in prop::collection::btree_set(1_usize..4095, 0..9)) {
            let mut noise = Noise::new(seed, "fill");
            let mut file = vec![0; 8 * SECTOR];
            noise.fill(&mut file, 1 << 20);
            let mut writer = Noise::new(seed, "case");
            let mut from = 0;
            for to in cuts.into_iter().chain([4096]) {
                let offset = (1 << 20) + from as u64;
                writer.address(&mut file[from..to], offset);
                prop_assert_eq!(noise.stranger(&file[from..to], offset), None);
                from = to;
            }
            prop_assert_eq!(noise.stranger(&file, 1 << 20), None);
            file[513] ^= 1;
            prop_assert_eq!(noise.stranger(&file[1..], (1 << 20) + 1), Some((1 << 20) + 512));
        }
    }

    #[test]
    fn what_is_in_the_wrong_place_is_told() {
        let mut noise = Noise::new(1, "fill").with(Seal::Sealed);
        let mut sector = vec![0; SECTOR];
        assert_eq!(noise.identify(&sector, 4096), Found::Only(0));
        noise.fill(&mut sector, 8192);
        assert_eq!(noise.identify(&sector, 4096), Found::Of(8192));
        noise.seal(&mut sector, 4096, 7);
        assert_eq!(noise.identify(&sector, 4096), Found::Own(Some(7)));
        sector[100] ^= 1;
        assert_eq!(noise.identify(&sector, 4096), Found::Own(None));
        let head = sector[..8].try_into().expect("eight");
        assert_eq!(Noise::new(2, "fill").identify(&sector, 4096), Found::Foreign(head));
    }

    #[test]
    fn no_two_sectors_are_ever_equal() {
        let mut noise = Noise::new(1, "fill");
        let mut again = Noise::new(1, "case");
        let mut buffer = vec![0; 64 * SECTOR];
        let mut seen = HashSet::new();
        noise.fill(&mut buffer, 0);
        for _ in 0..10 {
            for sector in buffer.chunks_exact(SECTOR) {
                assert!(seen.insert(sector.to_vec()));
            }
            noise.address(&mut buffer, 0);
        }
        again.fill(&mut buffer, 0);
        assert!(buffer.chunks_exact(SECTOR).all(|sector| seen.insert(sector.to_vec())));
        assert_eq!(noise.stranger(&buffer, 0), None);
    }

    #[test]
    fn zeros_and_another_runs_data_are_strangers() {
        let noise = Noise::new(1, "fill");
        assert_eq!(noise.stranger(&[0; 4096], 8192), Some(8192));
        let mut foreign = vec![0; 4096];
        Noise::new(2, "fill").fill(&mut foreign, 8192);
        assert_eq!(noise.stranger(&foreign, 8192), Some(8192));
    }

    /// Every byte value is about as frequent as any other, heads included: nothing is left for a compressor.
    #[test]
    fn the_bytes_are_evenly_spread() {
        let mut noise = Noise::new(3, "fill");
        let mut buffer = vec![0; 1 << 20];
        noise.fill(&mut buffer, 0);
        noise.address(&mut buffer, 1 << 20);
        let mut counts = [0_u32; 256];
        buffer.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4096 expected, standard deviation 64: six of them.
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 384), "{counts:?}");
    }
}
