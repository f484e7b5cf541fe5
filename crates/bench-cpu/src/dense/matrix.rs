use plimsoll_metal::team::{Team, TeamError};

/// Sequence x ← a·x + c modulo 2⁶⁴ (HPL 2.3, include/hpl_matgen.h; a is Knuth's for MMIX).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1;
/// HPL's seed (testing/ptest/HPL_pdtest.c).
const SEED: u64 = 100;
/// Scaled residual from which a solution is wrong (HPL.dat).
pub(crate) const THRESHOLD: f64 = 16.0;
const PRECISION: f64 = f64::EPSILON / 2.0;
const TOGETHER: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// The (a, c) that make 1, 2, 4 … steps of the sequence one.
    powers: [(u64, u64); 64],
}

fn step((a, c): (u64, u64), x: u64) -> u64 {
    a.wrapping_mul(x).wrapping_add(c)
}

impl Sequence {
    pub(crate) fn new() -> Self {
        let mut power = (MULTIPLIER, INCREMENT);
        let powers = std::array::from_fn(|_| {
            let (a, c) = power;
            power = (a.wrapping_mul(a), step(power, c));
            (a, c)
        });
        Self { powers }
    }

    pub(crate) fn fill(&self, place: u64, numbers: &mut [f64]) {
        // The first number is one step from the seed.
        let mut x = step(self.powers[0], SEED);
        for (bit, power) in self.powers.iter().enumerate() {
            if place >> bit & 1 == 1 {
                x = step(*power, x);
            }
        }
        for number in numbers {
            *number = 0.5 - x as f64 / 18_446_744_073_709_551_616.0;
            x = step(self.powers[0], x);
        }
    }

    /// Fills `numbers` with column number `column` of HPL's system of `rows` equations, from row
    /// `row` down. Column number `rows` is the right-hand side.
    pub(crate) fn column(&self, rows: usize, row: usize, column: usize, numbers: &mut [f64]) {
        self.fill(row as u64 + column as u64 * rows as u64, numbers);
    }
}

pub(crate) fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn greatest(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|norm| greater(a[norm], b[norm]))
}

/// Returns ‖Ax − b‖∞, ‖A‖∞ and ‖b‖∞ of the system by `sequence`, over `count` rows from `row` on.
fn norms_of_rows(sequence: &Sequence, x: &[f64], row: usize, count: usize) -> [f64; 3] {
    let rows = x.len();
    let (mut products, mut sums) = ([0.0_f64; TOGETHER], [0.0_f64; TOGETHER]);
    let mut numbers = [0.0_f64; TOGETHER];
    for (column, x) in x.iter().enumerate() {
        sequence.column(rows, row, column, &mut numbers[..count]);
        for ((product, sum), number) in products.iter_mut().zip(&mut sums).zip(&numbers[..count]) {
            *product += number * x;
            *sum += number.abs();
        }
    }
    sequence.column(rows, row, rows, &mut numbers[..count]);
    let one = |index: usize| [(products[index] - numbers[index]).abs(), sums[index], numbers[index].abs()];
    (0..count).map(one).fold([0.0; 3], greatest)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Residual {
    pub(crate) unscaled: f64,
    /// ‖Ax − b‖∞ ÷ (ε (‖A‖∞ ‖x‖∞ + ‖b‖∞) N), as in HPL; below [`THRESHOLD`] if right.
    pub(crate) scaled: f64,
}

pub(crate) fn residual(team: &mut Team, sequence: &Sequence, x: &[f64]) -> Result<Residual, TeamError> {
    let rows = x.len();
    let parts = team.run(|member| {
        let firsts = (0..rows).step_by(TOGETHER).skip(member.index).step_by(member.count);
        let norms = firsts.map(|row| norms_of_rows(sequence, x, row, TOGETHER.min(rows - row)));
        norms.fold([0.0; 3], greatest)
    })?;
    let [rest, matrix, right] = parts.into_iter().fold([0.0; 3], greatest);
    let solution = x.iter().fold(0.0, |most, x| greater(x.abs(), most));
    let scaled = rest / (PRECISION * (matrix * solution + right) * rows as f64);
    Ok(Residual { unscaled: rest, scaled })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(place: u64, count: usize) -> Vec<f64> {
        let mut numbers = vec![0.0; count];
        Sequence::new().fill(place, &mut numbers);
        numbers
    }

    fn slowly(count: usize) -> Vec<f64> {
        let next = |x: u128| (x * 6_364_136_223_846_793_005 + 1) % (1 << 64);
        let states = std::iter::successors(Some(next(100)), |x| Some(next(*x)));
        states.take(count).map(|x| 0.5 - x as f64 / (1_u128 << 64) as f64).collect()
    }

    proptest! {
        #[test]
        fn any_part_of_the_sequence_can_be_made_alone(place in 0_usize..3000, count in 0_usize..200) {
            prop_assert_eq!(numbers(place as u64, count), &slowly(place + count)[place..]);
        }

        #[test]
        fn far_places_follow_each_other(place in 0..u64::MAX - 1) {
            prop_assert_eq!(numbers(place, 2)[1], numbers(place + 1, 1)[0]);
        }
    }

    #[test]
    fn numbers_lie_around_zero() {
        let numbers = numbers(0, 10_000);
        assert!(numbers.iter().all(|number| (-0.5..=0.5).contains(number)));
        assert!((numbers.iter().sum::<f64>() / 1e4).abs() < 0.01);
    }

    #[test]
    fn a_right_solution_passes_and_a_slightly_wrong_one_does_not() {
        let part = numbers(0, 6);
        let [a, c, b, d, e, f] = part[..] else { panic!("{part:?}") };
        let determinant = a * d - b * c;
        let x = [(e * d - b * f) / determinant, (a * f - e * c) / determinant];
        let cpu = crate::fixture::here().cpu.allowed.first().unwrap();
        let mut team = Team::new(&[cpu]).unwrap();
        let mut residual = |x: &[f64]| residual(&mut team, &Sequence::new(), x).unwrap().scaled;
        assert!(residual(&x) < THRESHOLD, "{}", residual(&x));
        assert!(residual(&[x[0] * (1.0 + 1e-12), x[1]]) > THRESHOLD);
        assert!(residual(&[f64::NAN, x[1]]).is_nan());
        assert!(residual(&[x[0], f64::NAN]).is_nan());
    }
}
