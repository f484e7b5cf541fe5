//! Matrix products and systems of equations as bursts with known answers.

use std::fmt::Debug;
use std::sync::Arc;

use plimsoll_metal::gemm::{CoreCaches, Gemm, MatrixMut, MatrixView, ProductShape, Real, Update, isas};
use plimsoll_metal::isa::Isa;
use plimsoll_metal::lu::{Lu, SystemSize};
use plimsoll_metal::team::Team;

use super::matrix::{Sequence, THRESHOLD, residual};
use crate::integrity::{Burst, BurstMaker, WrongBurst};

/// Order of products and systems: the matrices of a burst fit in a level-1 cache.
const ORDER: usize = 40;
const ELEMENTS: usize = ORDER * ORDER;
const SHAPE: ProductShape = ProductShape { rows: ORDER, columns: ORDER, depth: ORDER };

struct ProductBurst<T: Real> {
    name: String,
    team: Team,
    gemm: Gemm<T>,
    answer: Vec<T>,
    known: Arc<[KnownProduct<T>]>,
}

/// Factors of small integers, so that the product is exact in any order of summation.
struct KnownProduct<T> {
    a: Vec<T>,
    b: Vec<T>,
    product: Vec<T>,
}

pub(super) fn available() -> impl Iterator<Item = Isa> {
    isas().filter(|isa| isa.available().is_ok())
}

/// Returns a [`BurstMaker`] per type and instruction set, for products of `inputs` matrix pairs.
pub(crate) fn products(inputs: u64) -> Vec<BurstMaker> {
    let f64s: Arc<[_]> = (0..inputs).map(|input| known_product::<f64>(input, 1 << 20)).collect();
    let f32s: Arc<[_]> = (0..inputs).map(|input| known_product::<f32>(input, 1 << 8)).collect();
    available().flat_map(|isa| [product("f64", isa, &f64s), product("f32", isa, &f32s)]).collect()
}

/// Returns pair `input` of matrices of integers below `bound` in size, with their exact product.
fn known_product<T: Real>(input: u64, bound: i64) -> KnownProduct<T> {
    let number = |at: usize| {
        let mixed = (at as u64 + 1 + input * 2 * ELEMENTS as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as i64 % (2 * bound) - bound
    };
    let a: Vec<i64> = (0..ELEMENTS).map(number).collect();
    let b: Vec<i64> = (ELEMENTS..2 * ELEMENTS).map(number).collect();
    let element = |at: usize| {
        let (row, column) = (at % ORDER, at / ORDER);
        (0..ORDER).map(|k| a[row + k * ORDER] * b[k + column * ORDER]).sum::<i64>()
    };
    let product: Vec<i64> = (0..ELEMENTS).map(element).collect();
    let reals = |numbers: &[i64]| numbers.iter().map(|number| T::from_f64(*number as f64)).collect();
    KnownProduct { a: reals(&a), b: reals(&b), product: reals(&product) }
}

fn product<T: Real>(element: &'static str, isa: Isa, known: &Arc<[KnownProduct<T>]>) -> BurstMaker {
    let known = Arc::clone(known);
    Box::new(move |cpu| {
        let mut team = Team::of_caller(cpu);
        let gemm = Gemm::new(isa, CoreCaches::default(), SHAPE, &mut team).map_err(|e| e.to_string())?;
        let (name, answer) = (format!("gemm_{element}_{isa}"), vec![T::default(); ELEMENTS]);
        Ok(Box::new(ProductBurst { name, team, gemm, answer, known: Arc::clone(&known) }))
    })
}

/// Fails with the first element of `got`, a vector or column-major matrix, other than in `right`.
fn compare<T: PartialEq + Debug>(got: &[T], right: &[T]) -> Result<(), WrongBurst> {
    match got.iter().zip(right).enumerate().find(|(_, (got, right))| got != right) {
        None => Ok(()),
        Some((at, (got, right))) => {
            let at = format!("row {}, column {}", at % ORDER, at / ORDER);
            Err(WrongBurst::new(format!("{got:?}"), format!("{right:?}"), at))
        }
    }
}

/// Returns `number` with one of its upper bits, selected by `random`, inverted (f32: then rounded).
fn inverted<T: Real>(number: T, random: u64) -> T {
    T::from_f64(f64::from_bits(number.to_f64().to_bits() ^ 1 << (32 + random % 32)))
}

impl<T: Real> Burst for ProductBurst<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, input: u64) {
        let Self { team, gemm, answer, known, .. } = self;
        let KnownProduct { a, b, .. } = &known[input as usize % known.len()];
        answer.fill(T::default());
        let view = |numbers| MatrixView::new(numbers, ORDER, ORDER, ORDER);
        if let (Ok(a), Ok(b), Ok(mut c)) = (view(a), view(b), MatrixMut::new(answer, ORDER, ORDER, ORDER)) {
            // A failure leaves zeros, which are not the answer.
            drop(gemm.multiply(team, a, b, &mut c, Update::Set));
        }
    }

    fn invert_bit(&mut self, random: u64) {
        let number = &mut self.answer[random as usize % ELEMENTS];
        *number = inverted(*number, random >> 32);
    }

    fn compare(&self, input: u64) -> Result<(), WrongBurst> {
        compare(&self.answer, &self.known[input as usize % self.known.len()].product)
    }

    fn confirm(&mut self, input: u64) -> bool {
        let at = input % self.known.len() as u64;
        let bound = if size_of::<T>() == 4 { 1 << 8 } else { 1 << 20 };
        known_product::<T>(at, bound).product == self.known[at as usize].product
    }
}

struct SystemBurst {
    name: String,
    team: Team,
    lu: Lu,
    matrix: Arc<[f64]>,
    answer: Vec<f64>,
    expected: Arc<[f64]>,
}

/// Returns a [`BurstMaker`] per instruction set, for the solution of a linear system. The right
/// answer is computed on the calling thread, which must be pinned to CPU `cpu`.
pub(crate) fn systems(cpu: usize) -> Result<Vec<BurstMaker>, String> {
    let sequence = Sequence::new();
    let mut matrix = vec![0.0; ELEMENTS + ORDER];
    sequence.fill(0, &mut matrix);
    let matrix: Arc<[f64]> = matrix.into();
    let maker = |isa: Isa| -> Result<BurstMaker, String> {
        let mut first = SystemBurst::new(isa, cpu, &matrix, Arc::from([]))?;
        first.run(0);
        let expected: Arc<[f64]> = first.answer.into();
        let matrix = Arc::clone(&matrix);
        Ok(Box::new(move |cpu| Ok(Box::new(SystemBurst::new(isa, cpu, &matrix, Arc::clone(&expected))?))))
    };
    available().map(maker).collect()
}

impl SystemBurst {
    fn new(isa: Isa, cpu: usize, matrix: &Arc<[f64]>, expected: Arc<[f64]>) -> Result<Self, String> {
        let mut team = Team::of_caller(cpu);
        let size =
            SystemSize::new(isa, CoreCaches::default(), ORDER, ORDER / 2).map_err(|e| e.to_string())?;
        let lu = Lu::new(size, &mut team, false).map_err(|e| e.to_string())?;
        let (name, answer) = (format!("lu_f64_{isa}"), Vec::new());
        Ok(Self { name, team, lu, matrix: Arc::clone(matrix), answer, expected })
    }
}

impl Burst for SystemBurst {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, _: u64) {
        let Self { team, lu, matrix, answer, .. } = self;
        let copy = |row: usize, column: usize, numbers: &mut [f64]| {
            let start = column * ORDER + row;
            numbers.copy_from_slice(&matrix[start..start + numbers.len()]);
        };
        answer.clear();
        if lu.fill(team, copy).is_ok() && lu.solve(team).is_ok() {
            answer.extend(lu.solution());
        }
        answer.resize(ORDER, f64::NAN);
    }

    fn invert_bit(&mut self, random: u64) {
        let number = &mut self.answer[random as usize % ORDER];
        *number = inverted(*number, random >> 32);
    }

    fn compare(&self, _: u64) -> Result<(), WrongBurst> {
        compare(&self.answer, &self.expected)
    }

    fn confirm(&mut self, _: u64) -> bool {
        let residual = residual(&mut self.team, &Sequence::new(), &self.expected);
        residual.is_ok_and(|residual| residual.scaled < THRESHOLD)
    }
}
