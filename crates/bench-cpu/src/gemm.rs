//! `cpu.gemm`: multiplies square matrices, C ← A·B. A sample is one product, 2 N³ operations,
//! checked against A·(B·v) for a vector v of signs.

use std::time::Instant;

use plimsoll_bench_api::prelude::*;
use plimsoll_metal::buffer::{Buffer, Pages};
use plimsoll_metal::gemm::{Gemm, MatrixMut, MatrixView, ProductShape, Real, Update};
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::Element;
use plimsoll_metal::team::Team;
use plimsoll_model::job::cpu::{CpuKernel, DenseProblem};
use serde::{Deserialize, Serialize};

use super::dense::matrix::{Sequence, greater};
use super::dense::{self, MOST_ROWS, OrderTarget, caches, fits, isas};
use super::fact::{CHAIN_DEPTH, KERNEL, ROWS};
use super::how::{kinds, note_threads};
use super::matrix::parse_value;
use plimsoll_bench_api::buffer::{human, record_pages};
use plimsoll_machine::cpu::CoreKind;

/// About a second per sample, three matrices plus a tenth for packed strips.
const WANTED: OrderTarget = OrderTarget { work: 2.0, seconds: 1.0, cases: 1, bytes_per_element: 3.3 * 8.0 };
const MAX_LINE_ELEMENTS: usize = 16;

/// The benchmark `cpu.gemm`.
pub struct MatrixProduct;

impl Benchmark for MatrixProduct {
    fn descriptor(&self) -> &Descriptor {
        &Descriptor {
            name: "cpu.gemm",
            synonyms: &["dgemm", "sgemm", "cpu.dgemm", "cpu.sgemm"],
            about: "floating-point rate of multiplying square matrices",
            words: &[
                LabelPart::Word("gemm"),
                LabelPart::Value("type"),
                LabelPart::Named("n"),
                LabelPart::Value("isa"),
                LabelPart::Times,
            ],
            keys: &["type", "n", "isa", "affinity", "threads"],
            by_default: false,
            look: super::look,
            limits: dense::limit::limits,
            metrics: &dense::METRICS,
            ..Descriptor::USUAL
        }
    }

    fn roofline(&self, case: &Case) -> Roofline {
        let bytes = if CpuKernel::of(case).element == Some(Element::F32) { 4.0 } else { 8.0 };
        Roofline::Computes(DenseProblem::of(case).n.map(|n| 2.0 * n as f64 / (3.0 * bytes)))
    }

    fn cases(&self, machine: &Machine, group: &Group) -> Result<Vec<Candidate>, String> {
        let words = group.words("type", &["f64", "f32"]);
        let element = |word: &String| parse_value("type", word, &[Element::F64, Element::F32], Element::name);
        let elements = words.iter().map(element).collect::<Result<Vec<_>, _>>()?;
        let isas = isas(group)?;
        let seats = dense::seats(machine, group, &default_threads(machine))?;
        let wanted = OrderTarget { cases: elements.len() * isas.len() * seats.len(), ..WANTED };
        let mut candidates = Vec::new();
        for element in elements {
            for &isa in &isas {
                let order = dense::default_order(machine, group, isa, wanted);
                for n in counts_in_range(group, "n", &[order], MOST_ROWS)? {
                    candidates.extend(seats.iter().map(|cpus| {
                        let case = Case::of(self.name())
                            .with_word("type", element.name())
                            .with_count("n", n)
                            .with_word("isa", isa.name());
                        let case = case.with_params_of(cpus);
                        let job = GemmJob { element, isa, n: n as usize, threads: Threads::of(&case) };
                        let feasible = job.fits(machine);
                        Candidate::new(case, feasible).parsed(&job)
                    }));
                }
            }
        }
        Ok(candidates)
    }

    fn prepare(&self, _: &Case, parsed: &Parsed, cx: &Context<'_>) -> PreparedCase {
        let job: GemmJob = parsed.read()?;
        job.fits(cx.machine)?;
        match job.element {
            Element::F32 => Ok(Box::new(GemmTeam::<f32>::new(&job, cx.machine)?)),
            _ => Ok(Box::new(GemmTeam::<f64>::new(&job, cx.machine)?)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct GemmJob {
    element: Element,
    isa: Isa,
    n: usize,
    threads: Threads,
}

/// Returns the elements from one column to the next: an odd number of cache lines, no power of two.
fn stride(rows: usize) -> usize {
    (rows.div_ceil(MAX_LINE_ELEMENTS) | 1).saturating_mul(MAX_LINE_ELEMENTS)
}

fn square(rows: usize) -> ProductShape {
    ProductShape { rows, columns: rows, depth: rows }
}

impl GemmJob {
    fn fits(&self, machine: &Machine) -> Result<(), CannotMeasure> {
        let &Self { element, isa, n, ref threads } = self;
        let (shape, caches, threads) = (square(n), caches(machine, threads), threads.count);
        let (strips, bytes) = match element {
            Element::F32 => (Gemm::<f32>::buffer_bytes(isa, caches, shape, threads), size_of::<f32>()),
            _ => (Gemm::<f64>::buffer_bytes(isa, caches, shape, threads), size_of::<f64>()),
        };
        let strips = strips.map_err(CannotMeasure::not_here)?;
        let matrices = n.saturating_mul(stride(n)).saturating_mul(3 * bytes);
        let (whole, packed) = (human(matrices as u64), human(strips as u64));
        let sum = format!("3 matrices of {bytes} B × {n}² = {whole}, {packed} for packed parts");
        fits(machine, matrices.saturating_add(strips), &sum, "a smaller --n")
    }
}

struct GemmTeam<T: Real> {
    team: Team,
    gemm: Gemm<T>,
    rows: usize,
    a: Buffer,
    b: Buffer,
    c: Buffer,
    /// Signs, and A·(B·signs).
    check: (Vec<f64>, Vec<f64>),
    worst: f64,
    kinds: Vec<CoreKind>,
    facts: Facts,
}

impl<T: Real> GemmTeam<T> {
    fn new(job: &GemmJob, machine: &Machine) -> Result<Self, CannotMeasure> {
        let &GemmJob { isa, n: rows, ref threads, .. } = job;
        let mut team = Team::new(&threads.cpus(machine))?;
        let gemm = Gemm::new(isa, caches(machine, threads), square(rows), &mut team);
        let gemm = gemm.map_err(CannotMeasure::environment)?;
        let bytes = rows.saturating_mul(stride(rows)).saturating_mul(size_of::<T>());
        let matrix = || Buffer::new(bytes, Pages::Thp).map_err(CannotMeasure::environment);
        let mut facts = Facts::default();
        note_threads(&mut facts, machine, team.cpus());
        facts.achieved.set(&KERNEL, gemm.tile());
        let blocking = gemm.blocking();
        facts.achieved.set(&CHAIN_DEPTH, blocking.depth);
        facts.achieved.set(&ROWS, blocking.rows);
        let mut running = Self {
            kinds: kinds(machine, &team.cpus().iter().copied().collect()),
            team,
            gemm,
            rows,
            a: matrix()?,
            b: matrix()?,
            c: matrix()?,
            check: Default::default(),
            worst: 0.0,
            facts,
        };
        running.fill()?;
        let mut signs = vec![0.0; rows];
        Sequence::new().column(rows, 0, 2 * rows, &mut signs);
        signs.iter_mut().for_each(|sign| *sign = f64::signum(*sign));
        let wanted = running.times(&running.a, &running.times(&running.b, &signs));
        running.check = (signs, wanted);
        Ok(running)
    }

    /// Fills A and B with HPL's sequence, C with zeros; threads first touch their own columns.
    fn fill(&mut self) -> Result<(), CannotMeasure> {
        let (rows, stride) = (self.rows, stride(self.rows));
        let sequence = Sequence::new();
        let columns = rows.div_ceil(self.team.count());
        for (matrix, buffer) in [&mut self.a, &mut self.b, &mut self.c].into_iter().enumerate() {
            let mut shares: Vec<&mut [T]> = buffer.elements_mut().chunks_mut(columns * stride).collect();
            shares.resize_with(self.team.count(), Default::default);
            self.team.run_each(&mut shares, |member, share| {
                let mut numbers = vec![0.0; if matrix < 2 { rows } else { 0 }];
                for (column, place) in (member.index * columns..rows).zip(share.chunks_mut(stride)) {
                    sequence.column(rows, 0, matrix * rows + column, &mut numbers);
                    place.fill(T::default());
                    place.iter_mut().zip(&numbers).for_each(|(place, number)| *place = T::from_f64(*number));
                }
            })?;
        }
        Ok(())
    }

    fn times(&self, matrix: &Buffer, vector: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.rows];
        for (column, factor) in matrix.elements::<T>().chunks(stride(self.rows)).zip(vector) {
            sums.iter_mut().zip(column).for_each(|(sum, number)| *sum += number.to_f64() * factor);
        }
        sums
    }

    /// Returns ‖C·v − A·(B·v)‖∞ ÷ (ε/4 · N^1.5), v signs, about 1 if all is rounding: N elements of
    /// a row of C sum N products of at most 1/4, whose roundings add up like a random walk.
    fn residual(&self) -> f64 {
        let (signs, wanted) = &self.check;
        let product = self.times(&self.c, signs);
        let off = product.iter().zip(wanted).map(|(product, wanted)| (product - wanted).abs());
        let off = off.fold(0.0, |most, off| greater(off, most));
        let precision = if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        off / (precision / 4.0 * (self.rows as f64).powf(1.5))
    }
}

impl<T: Real> Prepared for GemmTeam<T> {
    fn sample(&mut self, _: SampleAmount) -> Result<Sample, CannotMeasure> {
        let (rows, stride) = (self.rows, stride(self.rows));
        let view = |numbers| MatrixView::new(numbers, rows, rows, stride).map_err(CannotMeasure::environment);
        let (a, b) = (view(self.a.elements::<T>())?, view(self.b.elements())?);
        let c = MatrixMut::new(self.c.elements_mut(), rows, rows, stride);
        let mut c = c.map_err(CannotMeasure::environment)?;
        let begun = Instant::now();
        let clocks = self.gemm.multiply(&mut self.team, a, b, &mut c, Update::Set);
        let clocks = clocks.map_err(CannotMeasure::environment)?;
        let elapsed = begun.elapsed().as_secs_f64();
        let residual = self.residual();
        self.worst = greater(residual, self.worst);
        let operations = 2.0 * (rows as f64).powi(3);
        Ok(dense::sample([operations, elapsed, residual], &self.team, &clocks, &self.kinds))
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        let what = "the error of the product in units of rounding";
        dense::check_residual(self.team.cpus(), "gemm", self.worst, what)?;
        let mut facts = self.facts.clone();
        let resident: Vec<_> = [&self.a, &self.b, &self.c].iter().filter_map(|b| b.resident().ok()).collect();
        record_pages(&mut facts, Pages::Thp, &resident);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::matrix::THRESHOLD;
    use crate::fixture::{group, here, parse_group, prepared};
    use plimsoll_model::place::ThreadOrder;
    use plimsoll_model::sample::FailureCause;

    #[test]
    fn both_types_at_one_thread_and_all() {
        let candidates = MatrixProduct.cases(&here(), &Group::default()).unwrap();
        assert_eq!(candidates.len(), 2 * default_threads(&here()).len());
        let first = candidates[0].case.to_string();
        assert!(first.starts_with("cpu.gemm/type=f64/n="), "{first}");
        assert!(candidates.iter().all(|candidate| candidate.feasible.is_ok()), "{candidates:?}");
    }

    #[test]
    fn places_are_honoured_and_stand_in_the_id() {
        let machine = here();
        let last = machine.cpu.allowed.iter().last().unwrap();
        let lists = format!("affinity=compact,{last}/type=f64/n=48/threads=1");
        let candidates = MatrixProduct.cases(&machine, &parse_group(&lists)).unwrap();
        assert_eq!(candidates.len(), 2);
        let Candidate { case, parsed, .. } = &candidates[1];
        assert!(case.to_string().ends_with(&format!("/affinity={last}/threads=1")), "{case}");
        let running = GemmTeam::<f64>::new(&parsed.read().unwrap(), &machine).unwrap();
        assert_eq!(running.facts.achieved.get(&super::super::fact::CPUS), Some(vec![last]));
        let error = MatrixProduct.cases(&machine, &group(&[("affinity", &["8191"])])).unwrap_err();
        assert!(error.starts_with("affinity: CPU 8191"), "{error}");
    }

    #[test]
    fn wrong_values_are_refused_in_one_line() {
        let error = |key, word| MatrixProduct.cases(&here(), &group(&[(key, &[word])])).unwrap_err();
        assert_eq!(error("type", "i8"), "type must be one of f64, f32: 'i8' is not");
        assert!(error("n", "0").starts_with("n must be between 1 and"));
    }

    #[test]
    fn matrices_beyond_memory_are_refused_with_the_sum() {
        for candidate in MatrixProduct.cases(&here(), &group(&[("n", &["1073741824"])])).unwrap() {
            let refusal = candidate.feasible.unwrap_err();
            assert_eq!(refusal.cause, FailureCause::Environment);
            assert!(refusal.reason.contains("3 matrices of"), "{refusal}");
        }
    }

    #[test]
    fn every_kernel_here_multiplies_and_a_wrong_element_is_noticed() {
        fn check<T: Real>(isa: Isa, rows: usize) {
            let threads = Threads { count: 2, place: ThreadOrder::Spread };
            let job = GemmJob { element: Element::F64, isa, n: rows, threads };
            let mut running = GemmTeam::<T>::new(&job, &here()).unwrap();
            let sample = running.sample(SampleAmount::Seconds(0.1)).unwrap();
            assert!(sample.values["rate"] > 0.0 && sample.elapsed > 0.0);
            assert!(sample.values["residual"] < THRESHOLD && sample.values["time"] == sample.elapsed);
            running.verify().unwrap_or_else(|wrong| panic!("{isa} {rows}: {wrong}"));
            let place = &mut running.b.elements_mut::<T>()[0];
            *place = T::from_f64(place.to_f64() + 0.5);
            running.sample(SampleAmount::Seconds(0.1)).unwrap();
            assert_eq!(running.verify().unwrap_err().cause, FailureCause::WrongAnswer);
            running.c.elements_mut::<T>()[0] = T::from_f64(f64::NAN);
            assert!(running.residual().is_nan());
        }
        for isa in plimsoll_metal::gemm::isas().filter(|isa| isa.available().is_ok()) {
            for rows in [1, 7, 100, 300] {
                check::<f64>(isa, rows);
                check::<f32>(isa, rows);
            }
        }
    }

    #[test]
    fn the_machine_measures_what_it_lists() {
        let machine = here();
        for candidate in MatrixProduct.cases(&machine, &parse_group("type=f32/n=200")).unwrap() {
            let mut running = prepared(&MatrixProduct, &candidate, &machine);
            running.sample(SampleAmount::Seconds(0.1)).unwrap();
            let kernel = running.verify().unwrap().achieved.get(&KERNEL).unwrap();
            assert!(kernel.starts_with("gemm_f32"));
        }
    }
}
