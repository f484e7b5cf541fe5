//! Versions of each block of the file that a read may return, for `--verify`. Every write has a
//! number, its generation. If writes overlap each other or a read, any of them or a mixture is
//! accepted until the next write alone, as caches copy bytes in between; all else is wrong.

use std::ops::RangeInclusive;

use crate::load::{SECTOR_BYTES, SectorError, TestData, WrongSector};

/// Most bytes of memory of a ledger.
const MAX_LEDGER_BYTES: u64 = 1 << 30;

/// Largest unit of places, in bytes.
const COARSEST: u64 = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct BlockState {
    newest: u64,
    /// Oldest version that can be there.
    oldest: u64,
    /// First of the concurrent writes.
    first: u64,
    /// Ledger time when the last of them ended.
    settled: u64,
    writers: u32,
    /// Whether writes overlapped since the last write alone, so that bytes may be mixed.
    mixed: bool,
}

/// The file is too large for a ledger; the bytes that one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "--verify needs {0} bytes of memory to know what each block holds; use a smaller --size or a larger --block"
)]
pub(crate) struct TooLarge(u64);

/// Versions of all places in a part of the file. Places without a write have generation 0.
#[derive(Debug)]
pub(crate) struct Ledger {
    begin: u64,
    unit: u64,
    places: Vec<BlockState>,
    /// Counts starts and ends of writes.
    clock: u64,
}

impl Ledger {
    /// Creates a ledger of the versions of all blocks in `bytes` bytes of a file from `begin` on.
    /// `unit` (whole sectors) divides all block sizes and offsets. Fails if it needs over 1 GiB.
    pub(crate) fn new(begin: u64, bytes: u64, unit: u64) -> Result<Self, TooLarge> {
        // The largest power of two that divides the unit: 4 KiB for blocks of 12 KiB.
        let unit = (1 << unit.trailing_zeros().min(COARSEST.trailing_zeros())).max(SECTOR_BYTES as u64);
        let count = bytes.div_ceil(unit);
        let needs = count.saturating_mul(size_of::<BlockState>() as u64);
        match usize::try_from(count) {
            Ok(count) if needs <= MAX_LEDGER_BYTES => {
                Ok(Ledger { begin, unit, places: vec![BlockState::default(); count], clock: 0 })
            }
            _ => Err(TooLarge(needs)),
        }
    }

    /// Returns the ledger time: how many starts and ends of writes were recorded so far.
    pub(crate) fn time(&self) -> u64 {
        self.clock
    }

    /// Records the start of a write of `len` bytes; returns its generation (version), to seal it.
    pub(crate) fn begin_write(&mut self, offset: u64, len: usize) -> u64 {
        self.clock += 1;
        let generation = self.clock;
        for place in self.blocks_mut(offset, len) {
            if place.writers == 0 {
                place.first = generation;
            }
            place.mixed = place.writers > 0;
            place.writers += 1;
            place.newest = generation;
        }
        generation
    }

    /// Records the end of a write of `len` bytes at `offset`. Older data becomes wrong once no
    /// other write is in progress there.
    pub(crate) fn end_write(&mut self, offset: u64, len: usize) {
        self.clock += 1;
        let now = self.clock;
        for place in self.blocks_mut(offset, len) {
            place.writers = place.writers.saturating_sub(1);
            if place.writers == 0 {
                (place.oldest, place.settled) = (place.first, now);
            }
        }
    }

    /// Returns the versions at `offset` that a read which started at ledger time `began` may find.
    pub(crate) fn possible_generations(&self, offset: u64, began: u64) -> RangeInclusive<u64> {
        let Some(place) = self.place(offset) else { return 0..=0 };
        // The read may have preceded any write that ended during it.
        let oldest = if place.settled > began { 0 } else { place.oldest };
        oldest..=place.newest
    }

    /// Whether a read that started at ledger time `began` may find a mixture of writes at `offset`.
    fn may_be_mixed(&self, offset: u64, began: u64) -> bool {
        self.place(offset).is_some_and(|place| place.mixed || place.writers > 0 || place.settled > began)
    }

    /// Returns the generation of the last write at `offset` (0: none), and whether it is complete.
    pub(crate) fn last_write(&self, offset: u64) -> (u64, bool) {
        self.place(offset).map_or((0, true), |place| (place.newest, place.writers == 0))
    }

    /// Verifies `read`, data at `offset` from a read that started at ledger time `began`: addresses
    /// and checksums with `noise`, then generations. Fails with the first wrong sector.
    pub(crate) fn check(
        &self,
        noise: &TestData,
        read: &[u8],
        offset: u64,
        began: u64,
    ) -> Result<(), WrongSector> {
        let first = offset / SECTOR_BYTES as u64;
        for (number, sector) in (first..).zip(read.chunks_exact(SECTOR_BYTES)) {
            let place = number * SECTOR_BYTES as u64;
            let wrong = |how| WrongSector { offset: place, how };
            let found = match noise.generation(sector, number) {
                // A mixture of writes to the place still has its address.
                Err(SectorError::Checksum) if self.may_be_mixed(place, began) => continue,
                found => found.map_err(wrong)?,
            };
            let possible = self.possible_generations(place, began);
            if !possible.contains(&found) {
                let (oldest, newest) = possible.into_inner();
                return Err(wrong(SectorError::Generation { found, oldest, newest }));
            }
        }
        Ok(())
    }

    fn place(&self, offset: u64) -> Option<&BlockState> {
        self.places.get(self.index(offset)?)
    }

    fn index(&self, offset: u64) -> Option<usize> {
        usize::try_from(offset.checked_sub(self.begin)? / self.unit).ok()
    }

    fn blocks_mut(&mut self, offset: u64, len: usize) -> impl Iterator<Item = &mut BlockState> {
        let last = self.index(offset.saturating_add((len as u64).max(1) - 1));
        let range = self.index(offset).zip(last).map(|(first, last)| first..=last);
        range.and_then(|range| self.places.get_mut(range)).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::Seal;

    const BLOCK: usize = 4096;

    fn ledger() -> Ledger {
        Ledger::new(0, 16 * BLOCK as u64, BLOCK as u64).expect("small")
    }

    #[test]
    fn the_last_write_to_a_place_is_what_is_there() {
        let mut ledger = ledger();
        assert_eq!(ledger.possible_generations(0, 0), 0..=0);
        for _ in 0..3 {
            let generation = ledger.begin_write(4096, BLOCK);
            ledger.end_write(4096, BLOCK);
            assert_eq!(ledger.possible_generations(4096, ledger.time()), generation..=generation);
        }
        assert_eq!(ledger.possible_generations(0, ledger.time()), 0..=0);
    }

    #[test]
    fn of_overlapping_writes_any_may_win_and_none_before_them() {
        let mut ledger = ledger();
        let (first, second) = (ledger.begin_write(0, BLOCK), ledger.begin_write(0, BLOCK));
        assert_eq!(ledger.possible_generations(0, ledger.time()), 0..=second);
        ledger.end_write(0, BLOCK);
        assert_eq!(ledger.possible_generations(0, ledger.time()), 0..=second);
        ledger.end_write(0, BLOCK);
        assert_eq!(ledger.possible_generations(0, ledger.time()), first..=second);
    }

    #[test]
    fn a_read_that_overlaps_a_write_may_see_either() {
        let mut ledger = ledger();
        let began = ledger.time();
        let generation = ledger.begin_write(0, BLOCK);
        ledger.end_write(0, BLOCK);
        assert_eq!(ledger.possible_generations(0, began), 0..=generation);
        assert_eq!(ledger.possible_generations(0, ledger.time()), generation..=generation);
    }

    #[test]
    fn what_is_read_is_told_right_from_old_foreign_and_broken() {
        let mut ledger = ledger();
        let mut noise = TestData::new(1, "fill").with(Seal::Sealed);
        let mut block = vec![0; BLOCK];
        noise.fill(&mut block, 8192);
        assert_eq!(ledger.check(&noise, &block, 8192, 0), Ok(()));
        let old = block.clone();
        let generation = ledger.begin_write(8192, BLOCK);
        noise.seal(&mut block, 8192, generation);
        ledger.end_write(8192, BLOCK);
        let now = ledger.time();
        assert_eq!(ledger.check(&noise, &block, 8192, now), Ok(()));
        let wrong = ledger.check(&noise, &old, 8192, now).expect_err("old");
        assert!(wrong.to_string().contains("verify failed at offset 8192: an old version"), "{wrong}");
        let mut torn = block.clone();
        torn[BLOCK / 2..].copy_from_slice(&old[BLOCK / 2..]);
        assert_eq!(ledger.check(&noise, &torn, 8192, now).map_err(|wrong| wrong.offset), Err(8192 + 2048));
        let wrong = ledger.check(&noise, &block, 4096, now).expect_err("foreign");
        assert_eq!(wrong, WrongSector { offset: 4096, how: SectorError::Address });
        block[BLOCK - 1] ^= 1;
        let wrong = ledger.check(&noise, &block, 8192, now).expect_err("broken");
        assert_eq!(wrong, WrongSector { offset: 8192 + 3584, how: SectorError::Checksum });
    }

    #[test]
    fn memory_is_bounded_and_small_blocks_have_places_of_their_own() {
        assert!(Ledger::new(0, 1 << 50, 512).is_err_and(|e| e.to_string().contains("--size")));
        let mut ledger = Ledger::new(1 << 20, 1 << 16, 512 * 3).expect("small");
        let generation = ledger.begin_write((1 << 20) + 512, 512);
        assert_eq!(ledger.possible_generations((1 << 20) + 512, 0), 0..=generation);
        assert_eq!(ledger.possible_generations(1 << 20, 0), 0..=0);
        // Outside its range nothing is known, and nothing panics.
        ledger.begin_write(0, 512);
        ledger.end_write(u64::MAX - 511, 512);
        assert_eq!(ledger.possible_generations(0, 0), 0..=0);
    }

    #[test]
    fn a_mixture_is_no_fault_where_writes_overlapped_until_the_place_is_written_alone() {
        let mut ledger = ledger();
        let mut noise = TestData::new(1, "fill").with(Seal::Sealed);
        let sealed = |noise: &mut TestData, generation| {
            let mut block = vec![0; BLOCK];
            noise.fill(&mut block, 0);
            noise.seal(&mut block, 0, generation);
            block
        };
        let (one, two) = (ledger.begin_write(0, BLOCK), ledger.begin_write(0, BLOCK));
        let (first, second) = (sealed(&mut noise, one), sealed(&mut noise, two));
        let mut mixture = first.clone();
        mixture[256..].copy_from_slice(&second[256..]);
        assert_eq!(ledger.check(&noise, &mixture, 0, ledger.time()), Ok(()));
        ledger.end_write(0, BLOCK);
        ledger.end_write(0, BLOCK);
        assert_eq!(ledger.check(&noise, &mixture, 0, ledger.time()), Ok(()));
        let old = sealed(&mut noise, 0);
        assert!(ledger.check(&noise, &old, 0, ledger.time()).is_err());
        let foreign = ledger.check(&noise, &vec![0; BLOCK], 0, ledger.time());
        assert_eq!(foreign.map_err(|wrong| wrong.how), Err(SectorError::Address));
        ledger.begin_write(0, BLOCK);
        ledger.end_write(0, BLOCK);
        let wrong = ledger.check(&noise, &mixture, 0, ledger.time());
        assert_eq!(wrong.map_err(|wrong| wrong.how), Err(SectorError::Checksum));
    }

    /// A device that copies half sectors in any order during other transfers.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Write(u64),
        Read(u64),
        Move(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let block = 0_u64..3;
        prop_oneof![
            2 => block.clone().prop_map(Step::Write),
            1 => block.prop_map(Step::Read),
            12 => any::<usize>().prop_map(Step::Move),
        ]
    }

    struct Transfer {
        block: u64,
        data: Vec<u8>,
        moved: usize,
        read_since: Option<u64>,
    }

    const HALF: usize = SECTOR_BYTES / 2;
    const SMALL: usize = 2 * SECTOR_BYTES;

    proptest! {
        /// Overlaps are never a fault; after a write alone, a flipped bit and an old version are.
        #[test]
        fn no_overlap_is_called_a_fault_and_faults_are(steps in proptest::collection::vec(step(), 1..300)) {
            let mut ledger = Ledger::new(0, 3 * SMALL as u64, SMALL as u64).expect("small");
            let mut noise = TestData::new(1, "fill").with(Seal::Sealed);
            let mut device = vec![0; 3 * SMALL];
            noise.fill(&mut device, 0);
            let filled = device.clone();
            let mut under_way: Vec<Transfer> = Vec::new();
            let rest = (0..64).map(|_| Step::Move(0)).cycle();
            for step in steps.iter().copied().chain(rest.take(64 * steps.len())) {
                match step {
                    Step::Write(block) => {
                        let mut data = vec![0; SMALL];
                        noise.fill(&mut data, block * SMALL as u64);
                        let generation = ledger.begin_write(block * SMALL as u64, SMALL);
                        noise.seal(&mut data, block * SMALL as u64, generation);
                        under_way.push(Transfer { block, data, moved: 0, read_since: None });
                    }
                    Step::Read(block) => {
                        let read_since = Some(ledger.time());
                        under_way.push(Transfer { block, data: vec![0; SMALL], moved: 0, read_since });
                    }
                    Step::Move(_) if under_way.is_empty() => {}
                    Step::Move(which) => {
                        let which = which % under_way.len();
                        let transfer = &mut under_way[which];
                        let at = transfer.moved * HALF;
                        let place = transfer.block as usize * SMALL + at;
                        match transfer.read_since {
                            None => device[place..place + HALF].copy_from_slice(&transfer.data[at..at + HALF]),
                            Some(_) => transfer.data[at..at + HALF].copy_from_slice(&device[place..place + HALF]),
                        }
                        transfer.moved += 1;
                        if transfer.moved * HALF == SMALL {
                            let Transfer { block, data, read_since, .. } = under_way.remove(which);
                            match read_since {
                                None => ledger.end_write(block * SMALL as u64, SMALL),
                                Some(began) => {
                                    prop_assert_eq!(ledger.check(&noise, &data, block * SMALL as u64, began), Ok(()));
                                }
                            }
                        }
                    }
                }
            }
            prop_assert!(under_way.is_empty());
            for block in 0..3 {
                let (offset, at) = (block * SMALL as u64, block as usize * SMALL);
                let mut read = device[at..at + SMALL].to_vec();
                prop_assert_eq!(ledger.check(&noise, &read, offset, ledger.time()), Ok(()));
                let generation = ledger.begin_write(offset, SMALL);
                noise.seal(&mut read, offset, generation);
                ledger.end_write(offset, SMALL);
                prop_assert_eq!(ledger.check(&noise, &read, offset, ledger.time()), Ok(()));
                prop_assert!(ledger.check(&noise, &filled[at..at + SMALL], offset, ledger.time()).is_err());
                read[SMALL - 1] ^= 1;
                prop_assert!(ledger.check(&noise, &read, offset, ledger.time()).is_err());
            }
        }

        #[test]
        fn what_can_be_there_is_never_refused(steps in proptest::collection::vec((any::<bool>(), 0_u64..4), 1..200)) {
            let mut ledger = ledger();
            let mut under_way: Vec<Vec<u64>> = vec![Vec::new(); 4];
            let mut newest = [0; 4];
            for (begins, at) in steps {
                let (offset, at) = (at * BLOCK as u64, at as usize);
                let group = under_way[at].first().copied();
                if begins {
                    newest[at] = ledger.begin_write(offset, BLOCK);
                    under_way[at].push(newest[at]);
                } else if !under_way[at].is_empty() {
                    under_way[at].pop();
                    ledger.end_write(offset, BLOCK);
                }
                let possible = ledger.possible_generations(offset, ledger.time());
                prop_assert!(possible.contains(&newest[at]), "{newest:?} {possible:?}");
                prop_assert!(under_way[at].iter().all(|version| possible.contains(version)));
                if let (Some(group), true) = (group, under_way[at].is_empty()) {
                    prop_assert_eq!(possible, group..=newest[at]);
                }
            }
        }
    }
}
