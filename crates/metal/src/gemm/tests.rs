//! Products of every instruction set against the definition, over odd sizes, strides and teams.

use super::*;
use crate::effort;
use crate::kernel::random;
use crate::team::testing::team;
use matrixmultiply::dgemm;
use proptest::prelude::*;

/// Returns small whole numbers: products and sums are exact in both types, in any order.
fn whole<T: Real>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    (0..count).map(|_| T::from_f64((random::next(&mut state) % 17) as f64 - 8.0)).collect()
}

/// Caches so small that a small matrix has many blocks.
const TINY: CoreCaches = CoreCaches { first: 1 << 10, second: 4 << 10 };

#[derive(Debug, Clone)]
struct Problem {
    shape: ProductShape,
    /// Elements between the end of a column and the next, for A, B and C.
    gaps: [usize; 3],
    update: Update,
    threads: usize,
    caches: CoreCaches,
    seed: u64,
}

fn check<T: Real>(isa: Isa, problem: &Problem) {
    let ProductShape { rows, columns, depth } = problem.shape;
    let [gap_a, gap_b, gap_c] = problem.gaps;
    let (stride_a, stride_b, stride_c) = (rows + gap_a, depth + gap_b, rows + gap_c);
    let a: Vec<T> = whole(stride_a * depth, problem.seed);
    let b: Vec<T> = whole(stride_b * columns, problem.seed.wrapping_add(1));
    let mut c: Vec<T> = whole(stride_c * columns, problem.seed.wrapping_add(2));
    let before = c.clone();
    let mut team = team(problem.threads);
    let mut gemm = Gemm::<T>::new(isa, problem.caches, problem.shape, &mut team).unwrap();
    gemm.multiply(
        &mut team,
        MatrixView::new(&a, rows, depth, stride_a).unwrap(),
        MatrixView::new(&b, depth, columns, stride_b).unwrap(),
        &mut MatrixMut::new(&mut c, rows, columns, stride_c).unwrap(),
        problem.update,
    )
    .unwrap();
    for column in 0..columns {
        for row in 0..stride_c {
            let place = column * stride_c + row;
            let old = before[place].to_f64();
            let product = |k: usize| a[k * stride_a + row].to_f64() * b[column * stride_b + k].to_f64();
            let sum = || (0..depth).map(product).sum::<f64>();
            let wanted = match problem.update {
                _ if row >= rows => old,
                Update::Set => sum(),
                Update::Add => old + sum(),
                Update::Subtract => old - sum(),
            };
            assert_eq!(c[place].to_f64(), wanted, "{isa}: row {row}, column {column} of {problem:?}");
        }
    }
}

fn check_all(problem: &Problem) {
    for isa in isas().filter(|isa| isa.available().is_ok()) {
        check::<f64>(isa, problem);
        check::<f32>(isa, problem);
    }
}

proptest! {
    #![proptest_config(effort::cases(64))]

    #[test]
    fn every_instruction_set_computes_the_product(
        rows in 0_usize..150, columns in 0_usize..60, depth in 0_usize..300,
        gaps in [0_usize..9, 0_usize..9, 0_usize..9], threads in 1_usize..=4,
        update in prop_oneof![Just(Update::Set), Just(Update::Add), Just(Update::Subtract)],
        caches in prop_oneof![Just(TINY), Just(CoreCaches::default())], seed: u64,
    ) {
        let shape = ProductShape { rows, columns, depth };
        check_all(&Problem { shape, gaps, update, threads, caches, seed });
    }
}

#[test]
fn whole_tiles_and_one_more_or_less_are_exact() {
    let depth = if effort::is_emulated() { 17 } else { 129 };
    for isa in isas().filter(|isa| isa.available().is_ok()) {
        let tile = tile_for::<f64>(isa).unwrap();
        for (more_rows, more_columns) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            for fewer in 0..2 {
                let rows = 2 * tile.rows + more_rows - fewer;
                let columns = 3 * tile.columns + more_columns - fewer;
                let shape = ProductShape { rows, columns, depth };
                let update = Update::Subtract;
                let problem = Problem { shape, gaps: [1, 2, 3], update, threads: 2, caches: TINY, seed: 7 };
                check::<f64>(isa, &problem);
                check::<f32>(isa, &problem);
            }
        }
    }
}

#[test]
fn deep_products_cross_slabs() {
    let shape = ProductShape { rows: 31, columns: 17, depth: 64 * 16 * 2 + 5 };
    for update in [Update::Set, Update::Add] {
        check_all(&Problem { shape, gaps: [0, 1, 2], update, threads: 3, caches: TINY, seed: 3 });
    }
}

#[test]
fn wrong_shapes_are_refused_and_nothing_is_written() {
    let shape = ProductShape { rows: 4, columns: 4, depth: 4 };
    let mut team = team(1);
    let mut gemm = Gemm::<f64>::new(Isa::Portable, CoreCaches::default(), shape, &mut team).unwrap();
    let data = vec![1.0; 20];
    let mut c = vec![5.0; 20];
    let a = MatrixView::new(&data, 4, 5, 4).unwrap();
    let b = MatrixView::new(&data, 5, 4, 5).unwrap();
    let error = gemm
        .multiply(&mut team, a, b, &mut MatrixMut::new(&mut c, 4, 4, 4).unwrap(), Update::Set)
        .unwrap_err()
        .to_string();
    assert!(error.contains("A is 4 × 5") && error.contains("k = 4"), "{error}");
    assert!(c.iter().all(|number| *number == 5.0));
}

#[test]
fn an_instruction_set_without_a_tile_names_those_that_have_one() {
    if Isa::Sse2.available().is_ok() {
        let error = tile_for::<f64>(Isa::Sse2).unwrap_err().to_string();
        assert!(error.contains("portable") && error.contains("avx2"), "{error}");
    }
    assert!(isas().any(|isa| isa == best_isa()));
}

#[test]
fn tiles_fit_the_block_for_edges() {
    fn check<T: Real>() {
        let tiles = T::tiles();
        for tile in std::iter::once(tiles.portable).chain(tiles.native.iter().copied()) {
            assert!(tile.rows * tile.columns <= tile::MAX_TILE, "{}", tile.name);
        }
    }
    check::<f64>();
    check::<f32>();
}

/// Numbers that round, compared with another library.
#[test]
fn products_agree_with_another_library() {
    let shape = ProductShape { rows: 203, columns: 131, depth: 401 };
    let ProductShape { rows, columns, depth } = shape;
    let number = |place: usize| ((place * 7919 + 13) % 1009) as f64 / 1009.0 - 0.5;
    let a: Vec<f64> = (0..rows * depth).map(number).collect();
    let b: Vec<f64> = (0..depth * columns).map(|place| number(place + 5)).collect();
    let mut wanted = vec![0.0_f64; rows * columns];
    let [of_a, of_b] = [rows, depth].map(|rows| isize::try_from(rows).unwrap());
    let to = wanted.as_mut_ptr();
    // SAFETY: the vectors have the sizes and strides of the matrices; only `wanted` is written.
    unsafe {
        dgemm(rows, depth, columns, 1.0, a.as_ptr(), 1, of_a, b.as_ptr(), 1, of_b, 0.0, to, 1, of_a);
    }
    let mut team = team(2);
    for isa in isas().filter(|isa| isa.available().is_ok()) {
        let mut c = vec![0.0_f64; rows * columns];
        let mut gemm = Gemm::<f64>::new(isa, TINY, shape, &mut team).unwrap();
        let a = MatrixView::new(&a, rows, depth, rows).unwrap();
        let b = MatrixView::new(&b, depth, columns, depth).unwrap();
        let mut view = MatrixMut::new(&mut c, rows, columns, rows).unwrap();
        gemm.multiply(&mut team, a, b, &mut view, Update::Set).unwrap();
        for (ours, theirs) in c.iter().zip(&wanted) {
            assert!((ours - theirs).abs() < 1e-12, "{isa}: {ours} and {theirs}");
        }
    }
}
