use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn shape(bytes: usize, stride: usize) -> ChaseShape {
    ChaseShape { bytes, stride, group: None, pages: Pages::Small, chases: 1, seed: 1, node: None }
}

/// Returns the byte offsets of the nodes in the order of the walk.
fn walked(chase: &mut Chase) -> Vec<usize> {
    let base = chase.buffer.bytes().as_ptr().addr();
    (0..chase.nodes())
        .map(|_| {
            chase.walk(1);
            chase.at[0] - base
        })
        .collect()
}

proptest! {
    #[test]
    fn every_stride_is_visited_once_in_one_turn(
        nodes in 2_usize..600, lines in 1_usize..5, per_group in proptest::option::of(1_usize..80), seed: u64,
    ) {
        let stride = lines * LINE_BYTES;
        let group = per_group.map(|per_group| per_group * stride);
        let mut chase = Chase::new(ChaseShape { group, seed, ..shape(nodes * stride + 8, stride) }).unwrap();
        prop_assert_eq!(chase.nodes(), nodes as u64);
        chase.verify().unwrap();
        let offsets = walked(&mut chase);
        prop_assert!(offsets.iter().all(|offset| offset % LINE_BYTES == 0));
        let strides: HashSet<usize> = offsets.iter().map(|offset| offset / stride).collect();
        prop_assert_eq!(strides.len(), nodes);
    }

    #[test]
    fn a_group_is_left_only_when_all_of_it_was_visited(nodes in 2_usize..600, per_group in 1_usize..80, seed: u64) {
        let group = per_group * 256;
        let grouped = ChaseShape { group: Some(group), seed, ..shape(nodes * 256, 256) };
        let mut chase = Chase::new(grouped).unwrap();
        let groups: Vec<usize> = walked(&mut chase).iter().map(|offset| offset / group).collect();
        // The walk starts behind the first node, so its group may be seen at both ends.
        let mut changes = groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
        changes += usize::from(groups.first() != groups.last());
        let expected = nodes.div_ceil(per_group);
        prop_assert_eq!(changes, if expected == 1 { 0 } else { expected });
    }

    #[test]
    fn walks_add_up(first in 0_u64..1000, second in 0_u64..1000) {
        let mut chase = Chase::new(shape(64 << 10, 256)).unwrap();
        chase.walk(first);
        chase.walk(second);
        let apart = chase.at[0];
        chase.walk(2 * chase.nodes() - (first + second) % chase.nodes());
        prop_assert_eq!(chase.at[0], chase.cycles[0].anchors[0]);
        chase.walk(first + second);
        prop_assert_eq!(chase.at[0], apart);
    }

    #[test]
    fn several_cycles_share_the_nodes_and_are_walked_together(
        nodes in 20_usize..600, chases in 1_usize..=MOST_CHASES, steps in 0_u64..300, seed: u64,
    ) {
        let whole = ChaseShape { group: Some(1024), chases, seed, ..shape(nodes * 256, 256) };
        let mut chase = Chase::new(whole).unwrap();
        chase.verify().unwrap();
        prop_assert_eq!((chase.cycles.len(), chase.nodes()), (chases, nodes as u64));
        let lengths: Vec<u64> = chase.cycles.iter().map(|cycle| cycle.nodes).collect();
        prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
        let alone: Vec<usize> = chase.at.iter().map(|at| walk([*at], steps)[0]).collect();
        chase.walk(steps);
        prop_assert_eq!(&chase.at, &alone);
        let mut seen = HashSet::new();
        for cycle in &chase.cycles {
            let mut at = cycle.anchors[0];
            for _ in 0..cycle.nodes {
                [at] = walk([at], 1);
                prop_assert!(seen.insert(at));
            }
        }
    }
}

#[test]
fn the_number_of_chases_is_bounded() {
    for chases in [0, MOST_CHASES + 1] {
        let error = Chase::new(ChaseShape { chases, ..shape(1 << 20, 256) }).unwrap_err();
        assert!(error.to_string().contains("from 1 to 10"), "{error}");
    }
    let few = Chase::new(ChaseShape { chases: 4, ..shape(7 * 256, 256) });
    assert!(matches!(few, Err(ChaseError::Nodes { .. })));
}

#[test]
fn the_seed_decides_the_order() {
    let build = |seed| walked(&mut Chase::new(ChaseShape { seed, ..shape(1 << 20, 256) }).unwrap());
    assert_eq!(build(7), build(7));
    assert_ne!(build(7), build(8));
}

#[test]
fn nodes_lie_on_all_lines_of_their_strides() {
    let offsets = walked(&mut Chase::new(shape(1 << 20, 256)).unwrap());
    let lines: HashSet<usize> = offsets.iter().map(|offset| offset % 256 / LINE_BYTES).collect();
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_damaged_cycle_is_found_out_wherever_it_is() {
    let nodes = 1024;
    for position in [0, 1, 9, 63, 64, 65, 500, 1022, 1023] {
        for short_cut in [0, 1, 64, 100, 1023] {
            let mut chase = Chase::new(shape(nodes * LINE_BYTES, LINE_BYTES)).unwrap();
            let base = chase.buffer.bytes().as_ptr().addr();
            chase.walk(short_cut);
            let target = chase.at[0];
            chase.walk(nodes as u64 - short_cut + position);
            let damaged = (chase.at[0] - base) / 8;
            let whole = chase.buffer.elements::<u64>()[damaged] == target as u64;
            chase.buffer.elements_mut::<u64>()[damaged] = target as u64;
            assert_eq!(chase.verify().is_ok(), whole, "node {position} leads to node {short_cut}");
        }
    }
}

#[test]
fn a_chaser_walks_on_from_where_it_stopped() {
    let mut chaser = Chaser::new(shape(64 << 10, 256), 0.05);
    let first = chaser.chase().unwrap().cycles[0].anchors[0];
    assert_eq!(chaser.chase().unwrap().at[0], first);
    chaser.run(100);
    chaser.settle(100);
    assert_ne!(chaser.chase().unwrap().at[0], first);
    chaser.run(256 - 100);
    assert_eq!(chaser.chase().unwrap().at[0], first);
    let mut none = Chaser::new(shape(64, 256), 0.05);
    none.run(100);
    assert!(matches!(none.chase(), Err(ChaseError::Nodes { .. })));
}

#[test]
fn uneven_and_empty_shapes_are_refused() {
    for (stride, group) in [(0, None), (60, None), (96, None), (256, Some(0)), (256, Some(300))] {
        let result = Chase::new(ChaseShape { group, ..shape(1 << 20, stride) });
        assert!(matches!(result, Err(ChaseError::Uneven { .. })), "{stride} {group:?}");
    }
    assert!(matches!(Chase::new(shape(256, 256)), Err(ChaseError::Nodes { .. })));
}

#[test]
fn a_walk_that_left_its_way_once_is_found() {
    for chases in [1, 3] {
        let mut chase = Chase::new(ChaseShape { chases, ..shape(64 << 10, 256) }).unwrap();
        for steps in [0, 1, 70, 1000, 4096] {
            chase.walk(steps);
            chase.verify().unwrap();
        }
        // One load returns another node of the cycle, and the walk continues from there.
        let [next] = walk([chase.at[0]], 1);
        let right = std::mem::replace(&mut chase.at[0], next);
        chase.walk(500);
        assert!(matches!(chase.verify(), Err(ChaseError::Astray(5667))));
        chase.at[0] = right;
    }
}
