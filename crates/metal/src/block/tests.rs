use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

const OPS: [BlockOp; 3] = [BlockOp::Read, BlockOp::Write, BlockOp::ReadWrite];
const ORDERS: [BlockTraversal; 2] = [BlockTraversal::Sequential, BlockTraversal::Random];

fn shape(op: BlockOp, order: BlockTraversal, block: usize, blocks: usize) -> BlockShape {
    BlockShape { op, order, block, bytes: block * blocks * op.regions(), pages: Pages::Small, seed: 5 }
}

fn work(region: &mut Region, kernel: BlockKernel, blocks: u64) -> Vec<u64> {
    region.draw(blocks);
    let places: Vec<u64> = match region.shape.order {
        BlockTraversal::Random => region.places.clone(),
        BlockTraversal::Sequential => {
            (region.done..region.done + blocks).map(|number| number % region.count).collect()
        }
    };
    assert_eq!(region.work(kernel), places.len() as u64);
    places
}

fn reference(fresh: &Region, places: &[u64]) -> (Vec<u8>, u64) {
    let Region { shape, count, .. } = fresh;
    let block = shape.block;
    let mut bytes = fresh.buffer.bytes()[fresh.target..].to_vec();
    let mut sum = 0_u64;
    for (index, place) in places.iter().enumerate() {
        let pass = index as u64 / count;
        let start = *place as usize * block;
        let target = &mut bytes[start..start + block];
        match shape.op {
            BlockOp::Read => {
                for chunk in target.chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    sum = sum.wrapping_add(u64::from_le_bytes(word));
                }
            }
            BlockOp::Write if block <= 8 => target.copy_from_slice(&unit_value(pass).to_le_bytes()[..block]),
            BlockOp::Write => target.fill(1 + (pass % 127) as u8),
            BlockOp::ReadWrite => target.copy_from_slice(&fresh.buffer.bytes()[start..start + block]),
        }
    }
    (bytes, sum)
}

fn any_block() -> impl Strategy<Value = usize> {
    prop_oneof![prop::sample::select(vec![1_usize, 2, 4, 8]), (1_usize..30).prop_map(|n| n * LINE_BYTES)]
}

proptest! {
    #[test]
    fn every_kernel_does_what_the_reference_does(
        block in any_block(), blocks in 1_usize..300, which in 0_usize..3, random in 0_usize..2,
        batches in prop::collection::vec(0_u64..400, 0..5),
    ) {
        let shape = shape(OPS[which], ORDERS[random], block, blocks);
        for kernel in available(shape.op, block) {
            let mut region = Region::new(shape).unwrap();
            let fresh = Region::new(shape).unwrap();
            prop_assert_eq!(region.count, blocks as u64);
            let mut places = Vec::new();
            for batch in &batches {
                places.extend(work(&mut region, kernel, *batch));
                region.verify().unwrap();
            }
            let (bytes, sum) = reference(&fresh, &places);
            prop_assert_eq!(&region.buffer.bytes()[region.target..], &bytes[..], "{}", kernel.name());
            prop_assert_eq!(region.sum, sum, "{}", kernel.name());
            // The source of a copy and the gap are unchanged.
            let source = region.target.min(blocks * block);
            prop_assert_eq!(&region.buffer.bytes()[..source], &fresh.buffer.bytes()[..source]);
        }
    }

    #[test]
    fn each_block_comes_once_in_a_pass_and_passes_differ(blocks in 60_u64..700, batch in 1_u64..100, block in any_block()) {
        let shape = shape(BlockOp::Read, BlockTraversal::Random, block, blocks as usize);
        let kernel = candidates(shape.op, block)[0];
        let mut region = Region::new(shape).unwrap();
        let mut places = Vec::new();
        while (places.len() as u64) < 2 * blocks {
            places.extend(work(&mut region, kernel, batch));
        }
        let (first, rest) = places.split_at(blocks as usize);
        let second = &rest[..blocks as usize];
        for pass in [first, second] {
            prop_assert_eq!(pass.iter().collect::<HashSet<_>>().len() as u64, blocks);
        }
        prop_assert_ne!(first, second);
    }

    #[test]
    fn damage_to_what_was_worked_on_is_found(
        which in 1_usize..3, random in 0_usize..2, block in any_block(), blocks in 2_usize..100, done in 1_u64..300,
        place: prop::sample::Index, byte: prop::sample::Index,
    ) {
        let shape = shape(OPS[which], ORDERS[random], block, blocks);
        let mut region = Region::new(shape).unwrap();
        let places = work(&mut region, candidates(shape.op, block)[0], done);
        let place = *place.get(&places) as usize;
        let at = region.target + place * block + byte.index(block);
        region.buffer.bytes_mut()[at] ^= 0x40;
        prop_assert!(region.verify().is_err());
    }
}

#[test]
fn a_sum_that_lacks_a_block_or_has_one_twice_is_wrong() {
    for order in ORDERS {
        let shape = shape(BlockOp::Read, order, 64, 40);
        let mut region = Region::new(shape).unwrap();
        work(&mut region, candidates(shape.op, 64)[0], 55);
        region.verify().unwrap();
        region.done += 1;
        assert!(region.verify().unwrap_err().to_string().contains("adds up to"));
        region.done -= 2;
        assert!(region.verify().is_err());
    }
}

#[test]
fn a_block_written_out_of_its_turn_is_found() {
    let shape = shape(BlockOp::Write, BlockTraversal::Random, 8, 64);
    let mut region = Region::new(shape).unwrap();
    let mut places = work(&mut region, candidates(shape.op, 8)[0], 64 + 20);
    places.extend(work(&mut region, candidates(shape.op, 8)[0], 1));
    region.done -= 1;
    let error = region.verify().unwrap_err();
    assert!(error.what.starts_with("21 blocks are written of 20"), "{error}");
}

#[test]
fn at_random_no_more_is_drawn_than_has_room() {
    let mut region = Region::new(shape(BlockOp::Read, BlockTraversal::Random, 1, 100_000)).unwrap();
    region.draw(50_000);
    assert_eq!(region.work(candidates(BlockOp::Read, 1)[0]), MOST_DRAWN);
    assert_eq!(region.work(candidates(BlockOp::Read, 1)[0]), 0, "nothing is drawn any more");
    let mut region = Region::new(shape(BlockOp::Read, BlockTraversal::Sequential, 1, 100_000)).unwrap();
    region.draw(250_000);
    assert_eq!(region.work(candidates(BlockOp::Read, 1)[0]), 250_000);
    region.verify().unwrap();
}

#[test]
fn blocks_that_no_kernel_takes_and_regions_too_small_are_refused() {
    let refused = |block, bytes, op| {
        let shape = BlockShape { bytes, ..shape(op, BlockTraversal::Sequential, block, 1) };
        Region::new(shape).unwrap_err().to_string()
    };
    for block in [0, 3, 12, 100, 65] {
        assert!(refused(block, 1 << 20, BlockOp::Read).contains("a multiple of 64"), "{block}");
        assert!(!is_block(block));
    }
    assert!(refused(4096, 4095, BlockOp::Read).contains("does not fit into a region of 4095"));
    assert!(refused(4096, 8191, BlockOp::ReadWrite).contains("does not fit into a region of 4095"));
    assert!(refused(1, 1 << 62, BlockOp::Write).contains("memory"));
}

#[test]
fn bytes_count_both_ways_and_leave_the_rest_over() {
    let of = |op, bytes| {
        let shape = BlockShape { bytes, ..shape(op, BlockTraversal::Sequential, 4096, 1) };
        let region = Region::new(shape).unwrap();
        (region.count, region.bytes_per_block(), region.bytes())
    };
    assert_eq!(of(BlockOp::ReadWrite, 2 * 4096 + 200), (1, 8192, 8192));
    assert_eq!(of(BlockOp::Write, 3 * 4096 + 200), (3, 4096, 12288));
}

#[test]
fn better_kernels_stand_alone_and_every_block_has_one() {
    for op in OPS {
        for block in [1, 8, 64, 128, 192, 4096] {
            let found = candidates(op, block);
            assert!(!found.is_empty());
            let names: HashSet<String> = found.iter().map(BlockKernel::name).collect();
            assert_eq!(names.len(), found.len());
            assert!(found.len() == 1 || !names.contains("portable"), "{names:?}");
        }
        assert_eq!(candidates(op, 2)[0].name(), "scalar");
    }
}
