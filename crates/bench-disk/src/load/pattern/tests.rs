use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use plimsoll_model::job::disk::BlockOrder;

impl WalkExtent {
    pub(crate) fn of_blocks(blocks: u64, block: u64) -> Self {
        WalkExtent { start: 0, bytes: blocks * block, unit: block, largest: block }
    }
}

proptest! {
    #[test]
    fn what_was_mixed_is_found_again(x: u64) {
        prop_assert_eq!(unmix(mix(x)), x);
        prop_assert_eq!(mix(unmix(x)), x);
    }

    #[test]
    fn a_permutation_hits_every_number_once(n in 1_u64..5000, key: u64) {
        let permutation = Permutation::new(n, key);
        let mut seen = vec![false; n as usize];
        for index in 0..n {
            let image = permutation.apply(index);
            prop_assert!(image < n);
            prop_assert!(!std::mem::replace(&mut seen[image as usize], true), "{image} twice");
        }
    }

    #[test]
    fn a_huge_permutation_is_one_to_one(n in 1_u64 << 32..u64::MAX, key: u64, first: u64) {
        let permutation = Permutation::new(n, key);
        let images: HashSet<u64> = (0..500).map(|i| permutation.apply(first.wrapping_add(i) % n)).collect();
        let indices: HashSet<u64> = (0..500).map(|i| first.wrapping_add(i) % n).collect();
        prop_assert_eq!(images.len(), indices.len());
        prop_assert!(images.iter().all(|image| *image < n));
    }

    #[test]
    fn every_block_is_visited_once_in_each_pass(
        order in prop_oneof![
            Just(BlockOrder::Random), Just(BlockOrder::Sequential), Just(BlockOrder::Backward), Just(BlockOrder::Strided)
        ],
        blocks in 1_u64..2000, seed: u64, start in 0_u64..1 << 40,
    ) {
        let extent = WalkExtent { start, ..WalkExtent::of_blocks(blocks, 512) };
        let mut walk = BlockWalk::new(order, extent, seed);
        let mut passes: Vec<Vec<u64>> = Vec::new();
        for pass in 0..3 {
            let steps: Vec<NextBlock> = (0..blocks).map(|_| walk.step(512)).collect();
            prop_assert!(steps.iter().enumerate().all(|(i, s)| s.begins_anew == (pass > 0 && i == 0)));
            passes.push(steps.iter().map(|step| step.offset).collect());
        }
        for pass in &passes {
            prop_assert!(pass.iter().all(|offset| (start..start + blocks * 512).contains(offset)));
            prop_assert!(pass.iter().all(|offset| (offset - start).is_multiple_of(512)));
            prop_assert_eq!(pass.iter().collect::<HashSet<_>>().len() as u64, blocks);
        }
        if blocks > 30 && order == BlockOrder::Random {
            prop_assert_ne!(&passes[0], &passes[1]);
            prop_assert_ne!(&passes[1], &passes[2]);
        }
    }

    /// Blocks of several sizes are inside, at multiples of the unit; a sequential walk has no gap,
    /// a random one repeats no offset within a pass.
    #[test]
    fn mixed_blocks_stay_inside(
        word in prop::sample::select(BlockOrder::ALL.iter().map(|(word, _)| *word).collect::<Vec<_>>()),
        lens in prop::collection::vec(1_u64..17, 1..300), units in 16_u64..500, seed: u64,
    ) {
        let order = BlockOrder::parse(word).expect("an order");
        let extent = WalkExtent { start: 4096, bytes: units * 512, unit: 512, largest: 16 * 512 };
        let mut walk = BlockWalk::new(order, extent, seed);
        let (mut end, mut seen) = (None, HashSet::new());
        for len in lens {
            let step = walk.step(len * 512);
            prop_assert!(step.offset >= 4096 && step.offset + len * 512 <= 4096 + units * 512);
            prop_assert!(step.offset.is_multiple_of(512));
            if order == BlockOrder::Sequential {
                prop_assert!(step.begins_anew || end.is_none_or(|end| end == step.offset));
                end = Some(step.offset + len * 512);
            }
            if order == BlockOrder::Random {
                if step.begins_anew {
                    seen.clear();
                }
                prop_assert!(seen.insert(step.offset));
            }
        }
    }
}

fn offsets(order: BlockOrder, blocks: u64, seed: u64, steps: u64) -> Vec<u64> {
    let mut walk = BlockWalk::new(order, WalkExtent::of_blocks(blocks, 1), seed);
    (0..steps).map(|_| walk.step(1).offset).collect()
}

#[test]
fn each_order_reads_as_it_is_named() {
    assert_eq!(offsets(BlockOrder::Sequential, 3, 1, 7), [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(offsets(BlockOrder::Backward, 3, 1, 7), [2, 1, 0, 2, 1, 0, 2]);
    assert_eq!(offsets(BlockOrder::Same, 3, 1, 4), [0; 4]);
    assert_eq!(offsets(BlockOrder::Strided, 36, 1, 5), [0, 17, 34, 1, 18]);
    assert_eq!(BlockOrder::parse("zipf:0.9"), Ok(BlockOrder::Zipf(0.9)));
    for wrong in ["zipf:", "zipf:0", "zipf:-1", "zipf:nan", "zipf:inf", "zipf:6", "gauss", ""] {
        assert!(BlockOrder::parse(wrong).is_err(), "{wrong}");
    }
}

/// Frequencies of a Zipf walk follow its law: rank 1 to rank 2 as 2^θ, with a random busiest block.
#[test]
fn a_zipf_walk_follows_its_law() {
    let theta = 1.2;
    let mut counts = std::collections::HashMap::new();
    offsets(BlockOrder::Zipf(theta), 10_000, 5, 400_000)
        .into_iter()
        .for_each(|offset| *counts.entry(offset).or_insert(0_u64) += 1);
    let mut ranked: Vec<(u64, u64)> = counts.into_iter().collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let ratio = ranked[0].1 as f64 / ranked[1].1 as f64;
    assert!((ratio / 2_f64.powf(theta) - 1.0).abs() < 0.05, "{ratio}");
    let total = (1..=10_000).map(|k| f64::from(k).powf(-theta)).sum::<f64>();
    let share = ranked[0].1 as f64 / 400_000.0;
    assert!((share * total - 1.0).abs() < 0.05, "{share}");
    assert_ne!(ranked[0].0 + 1, ranked[1].0);
}

/// Neighbours are as rare as in a random order (about 2 in a pass), and distances fill the file, so
/// that a read-ahead or cache cannot follow.
#[test]
fn a_random_walk_does_not_creep() {
    let blocks = 1 << 18;
    let order = offsets(BlockOrder::Random, blocks, 7, blocks);
    let neighbours = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
    assert!(neighbours < 20, "{neighbours} neighbours");
    let mean = order.windows(2).map(|pair| pair[0].abs_diff(pair[1]) as f64).sum::<f64>() / blocks as f64;
    // Two independent uniform points are a third of the length apart.
    assert!((mean / blocks as f64 - 1.0 / 3.0).abs() < 0.01, "mean distance {mean}");
    let lower_half_first = order[..1 << 17].iter().filter(|block| **block < 1 << 17).count();
    assert!(lower_half_first.abs_diff(1 << 16) < 1500, "{lower_half_first} of the lower half come first");
}

#[test]
fn neighbours_follow_each_other_as_in_a_shuffle() {
    for (blocks, seeds) in
        [(16_u64, 4000_u64), (24, 4000), (48, 2000), (64, 2000), (100, 1000), (1024, 200), (1 << 14, 20)]
    {
        let neighbours = |seed| {
            let order = offsets(BlockOrder::Random, blocks, derive(seed, "walk"), blocks);
            order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count()
        };
        let counts: Vec<usize> = (0..seeds).map(neighbours).collect();
        let mean = counts.iter().sum::<usize>() as f64 / seeds as f64;
        // n − 1 steps, each to a neighbour with probability 2 / n; nearly Poisson: variance = mean.
        let expected = 2.0 * (1.0 - 1.0 / blocks as f64);
        // A network of few bits is not quite a shuffle: 0.06 too many of 16.
        let error = 0.1 + 4.0 * (expected / seeds as f64).sqrt();
        assert!((mean - expected).abs() < error, "{blocks} blocks: {mean} neighbours a pass, not {expected}");
        let many = counts.iter().filter(|count| **count >= 8).count() as f64 / seeds as f64;
        assert!(many < 0.01, "{blocks} blocks: {} passes in a hundred creep", many * 100.0);
    }
}

#[test]
fn seeds_and_purposes_give_different_walks() {
    let first = |seed| offsets(BlockOrder::Random, 1 << 20, seed, 3);
    assert_eq!(first(derive(1, "a")), first(derive(1, "a")));
    assert_ne!(first(derive(1, "a")), first(derive(2, "a")));
    assert_ne!(first(derive(1, "a")), first(derive(1, "b")));
}

/// SplitMix64 from seed 1234567 against the published sequence (Vigna's reference program).
#[test]
fn the_mixer_is_the_published_one() {
    let step = 0x9E37_79B9_7F4A_7C15_u64;
    let sequence = [0, 1, 2].map(|i| mix(1_234_567_u64.wrapping_add(step.wrapping_mul(i))));
    assert_eq!(sequence, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn zones_have_their_shares_of_transfers_and_of_the_file() {
    let Ok(order @ BlockOrder::Zoned(_)) = BlockOrder::parse("zoned:50-5:30-15:20-80") else {
        panic!("it is an order")
    };
    let mut walk = BlockWalk::new(order, WalkExtent::of_blocks(1000, 512), 7);
    let mut counts = [0_u32; 3];
    let mut seen = HashSet::new();
    for _ in 0..100_000 {
        let place = walk.step(512).offset / 512;
        seen.insert(place);
        counts[if place < 50 { 0 } else { usize::from(place >= 200) + 1 }] += 1;
    }
    for (count, share) in counts.iter().zip([0.5, 0.3, 0.2]) {
        assert!((f64::from(*count) / 1e5 - share).abs() < 0.01, "{counts:?}");
    }
    assert_eq!(seen.len(), 1000);
    for wrong in ["zoned:", "zoned:50-50", "zoned:100-0", "zoned:1-1:1-1", "zoned:200-100"] {
        assert!(BlockOrder::parse(wrong).is_err(), "{wrong}");
    }
    let nine = format!("zoned:{}", ["10-10"; 10].join(":"));
    assert!(BlockOrder::parse(&nine).is_err());
}
