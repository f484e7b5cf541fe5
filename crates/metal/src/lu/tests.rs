use super::*;
use crate::kernel::random::{STEP, mixed};
use crate::team::testing::team;
use crate::{effort, gemm};
use proptest::prelude::*;

/// Returns a number between −1/2 and 1/2 that depends only on seed, row and column.
fn element(seed: u64, row: usize, column: usize) -> f64 {
    let state = seed.wrapping_add((row as u64) << 32 | column as u64).wrapping_mul(STEP);
    (mixed(state) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
}

/// Returns ‖Ax−b‖∞ / (ε (‖A‖∞ ‖x‖∞ + ‖b‖∞) N), as HPL scales it.
fn residual(element: impl Fn(usize, usize) -> f64, x: &[f64]) -> f64 {
    let n = x.len();
    let (mut rest, mut norm_a, mut norm_b) = (0.0_f64, 0.0_f64, 0.0_f64);
    for row in 0..n {
        let b = element(row, n);
        let product: f64 = (0..n).map(|column| element(row, column) * x[column]).sum();
        let sum: f64 = (0..n).map(|column| element(row, column).abs()).sum();
        (rest, norm_a, norm_b) = (rest.max((product - b).abs()), norm_a.max(sum), norm_b.max(b.abs()));
    }
    let norm_x = x.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
    rest / (f64::EPSILON * (norm_a * norm_x + norm_b) * n as f64)
}

fn fill(lu: &mut Lu, team: &mut Team, element: impl Fn(usize, usize) -> f64 + Sync) {
    let run = |row: usize, column: usize, numbers: &mut [f64]| {
        numbers.iter_mut().zip(row..).for_each(|(number, row)| *number = element(row, column));
    };
    lu.fill(team, run).unwrap();
}

fn solve(
    isa: Isa,
    (rows, block): (usize, usize),
    threads: usize,
    element: impl Fn(usize, usize) -> f64 + Sync,
) -> Result<Vec<f64>, LuError> {
    let mut team = team(threads);
    let mut lu = Lu::new(SystemSize::new(isa, CoreCaches::default(), rows, block)?, &mut team, true)?;
    fill(&mut lu, &mut team, element);
    lu.solve(&mut team)?;
    Ok(lu.solution().to_vec())
}

fn usable() -> impl Iterator<Item = Isa> {
    gemm::isas().filter(|isa| isa.available().is_ok())
}

proptest! {
    #![proptest_config(effort::cases(48))]

    #[test]
    fn every_instruction_set_solves_random_systems(
        rows in 1_usize..230, block in 1_usize..100, threads in 1_usize..=4, seed: u64,
    ) {
        let element = |row, column| element(seed, row, column);
        for isa in usable() {
            let x = solve(isa, (rows, block), threads, element).unwrap();
            prop_assert_eq!(x.len(), rows);
            let residual = residual(element, &x);
            prop_assert!(residual < 16.0, "{}: {}", isa, residual);
        }
    }
}

#[test]
fn blocks_of_common_widths_solve_systems_of_several_panels() {
    let element = |row, column| element(42, row, column);
    let sizes = [(300, 1024), (600, 96), (601, 128), (530, 192), (768, 256)];
    // More threads than CPUs wait long for each other under an emulator.
    let (sizes, most) = if effort::is_emulated() { (&sizes[..2], 2) } else { (&sizes[..], 4) };
    for &size in sizes {
        for isa in usable() {
            for threads in 1..=most {
                let x = solve(isa, size, threads, element).unwrap();
                let residual = residual(element, &x);
                assert!(residual < 16.0, "{isa} {size:?} on {threads} threads: {residual}");
            }
        }
    }
}

#[test]
fn who_helps_changes_no_bit_of_the_solution() {
    let element = |row, column| element(7, row, column);
    let (rows, block) = (if effort::is_emulated() { 400 } else { 2000 }, 96);
    let alone = solve(gemm::best_isa(), (rows, block), 1, element).unwrap();
    for threads in [2, 3, 9] {
        let mut team = team(threads);
        let system = SystemSize::new(gemm::best_isa(), CoreCaches::default(), rows, block).unwrap();
        let mut lu = Lu::new(system, &mut team, true).unwrap();
        lu.alone = true;
        fill(&mut lu, &mut team, element);
        lu.solve(&mut team).unwrap();
        assert!(lu.solution() == alone, "{threads} threads");
    }
}

#[test]
fn a_system_can_be_solved_again() {
    let mut team = team(2);
    let system = SystemSize::new(gemm::best_isa(), CoreCaches::default(), 100, 24).unwrap();
    let mut lu = Lu::new(system, &mut team, true).unwrap();
    let solutions = [1, 2, 1].map(|seed| {
        fill(&mut lu, &mut team, |row, column| element(seed, row, column));
        lu.solve(&mut team).unwrap();
        lu.solution().to_vec()
    });
    assert_eq!(solutions[0], solutions[2]);
    assert_ne!(solutions[0], solutions[1]);
}

/// 37 divides none of these sizes. Elimination without exchanges would divide by zero at once.
#[test]
fn permutations_are_solved_exactly() {
    for size in [(1, 1), (2, 1), (7, 3), (64, 16), (100, 24), (129, 64)] {
        let rows = size.0;
        let target = |column: usize| (column * 37 + 5) % rows;
        let element = |row, column| match column == rows {
            true => row as f64,
            false => 2.0 * f64::from(u8::from(target(column) == row)),
        };
        for isa in usable() {
            let x = solve(isa, size, 2, element).unwrap();
            for (column, x) in x.iter().enumerate() {
                assert_eq!(*x, target(column) as f64 / 2.0, "{isa} {size:?}");
            }
        }
    }
}

#[test]
fn tiny_pivots_need_exchanges_and_get_them_and_subnormal_ones_do_not_overflow() {
    let tiny = f64::MIN_POSITIVE / 8.0;
    // Without exchanges the first pivot 1e-20 leaves no digit of the second unknown.
    let exchanged = [[1e-20, 1.0, 1.0], [1.0, 1.0, 2.0]];
    for (system, error) in [(exchanged, 1e-15), ([[tiny, 0.0, tiny], [tiny / 2.0, 1.0, 1.0]], 0.0)] {
        for isa in usable() {
            let x = solve(isa, (2, 2), 1, |row: usize, column: usize| system[row][column]).unwrap();
            assert!((x[0] - 1.0).abs() <= error && (x[1] - 1.0).abs() < 1e-15, "{isa}: {x:?}");
        }
    }
}

#[test]
fn singular_matrices_are_an_error_and_not_a_panic() {
    for (rows, twin) in [(40, 3), (90, 63), (90, 89)] {
        let element = |row, column| if column == twin { 0.0 } else { element(9, row, column) };
        for isa in usable() {
            for threads in [1, 3] {
                let found = solve(isa, (rows, 16), threads, element);
                assert!(matches!(found, Err(LuError::Singular(at)) if at == twin), "{isa}: {found:?}");
            }
        }
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for bad in [f64::NAN, f64::INFINITY] {
        let element = |row, column| if column == 0 { bad } else { element(5, row, column) };
        for isa in usable() {
            let result = solve(isa, (30, 8), 2, element);
            assert!(matches!(result, Err(LuError::Singular(0))), "{isa}: {result:?}");
        }
    }
}

#[test]
fn impossible_sizes_are_refused_in_words() {
    for (rows, block) in [(0, 8), (8, 0), (8, 4096), (usize::MAX, 8)] {
        let error = SystemSize::new(Isa::Portable, CoreCaches::default(), rows, block).unwrap_err();
        assert!(error.to_string().contains("cannot be set up"), "{error}");
    }
}

#[test]
fn the_bytes_foretold_are_those_of_the_matrix_and_little_more() {
    for isa in usable() {
        let system = SystemSize::new(isa, CoreCaches::default(), 2000, 192).unwrap();
        let matrix = 2000 * 2000 * 8;
        assert!((matrix..matrix + matrix / 3).contains(&system.bytes(2)), "{isa}: {}", system.bytes(2));
        assert_eq!(system.block() % 12, 0, "{isa}");
    }
}
