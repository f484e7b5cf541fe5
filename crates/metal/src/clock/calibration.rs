//! Selects the chains for a kind of work: in the densest vector work beside which an addition does
//! not slow down, a multiplication must take a whole number of additions.

use super::links::{ChainKind, ChainLink, seed_operands};
use super::step::{TimeKept, timer_step};
use super::{ClockUnknown, CoreClock, LINK_TOLERANCE, ProbeWork, longest_undisturbed, mean_up_to};
use crate::arch::chain::{Density, Woven};
use crate::arch::native;
use crate::kernel::Vectors;

/// 2 to 5 µs.
const LINK_CYCLES: f64 = 10_240.0;
/// Maximum of the timer's step as a share of a link.
const STEP_SHARE: f64 = 0.002;
/// Maximum length of a link in seconds: a longer one is disturbed too often.
const LONGEST_LINK: f64 = 200e-6;
const COARSEST: f64 = 0.01;
/// Length of a link divided by that of the short one that gives the constant part.
const SHORTER: u64 = 8;
const CALIBRATION_ROUNDS: usize = 96;
/// Rounds of about 1 ms in all before timing, in which the core reaches the clock for such work.
const WARM_UP: usize = 48;
const CALIBRATION_ATTEMPTS: u32 = 3;
/// Maximum relative deviation of a multiplication from a whole number of additions.
const WHOLE_RATIO_TOLERANCE: f64 = 0.005;
/// Maximum relative shortfall of a multiplication next to a busy sibling, which delays additions.
const SIBLING: f64 = 0.04;
/// Cycles of a dependent integer multiplication on known cores: 2 (Neoverse V1) to 6 (Bulldozer).
const MULTIPLICATION: std::ops::RangeInclusive<f64> = 2.0..=8.0;

impl CoreClock {
    /// Calibrates a clock probe for `work` on this thread's core in some ms; pin the thread first.
    pub fn calibrate(work: ProbeWork) -> Result<Self, ClockUnknown> {
        let scalar = native::SCALAR_CHAINS.ok_or(ClockUnknown::NoChain)?;
        let step = timer_step();
        let cycles = cycles_of_link(scalar, step)?;
        let woven = work.woven().and_then(|row| Some((row, seed_operands(row)?)));
        let first = TimeKept::now();
        let chosen = woven.as_ref().and_then(|(row, operands)| {
            (0..CALIBRATION_ATTEMPTS).find_map(|_| in_vectors(row, operands, cycles, step))
        });
        let (links, operands) = match chosen {
            Some(chosen) => chosen,
            None => (1..CALIBRATION_ATTEMPTS).fold(alone(scalar, cycles, step), |found, _| {
                found.or_else(|_| alone(scalar, cycles, step))
            })?,
        };
        Ok(Self { links, operands, step, time: TimeKept::since(first) })
    }
}

/// Returns how many cycles a timed chain of instructions has to take, so that the timer's
/// resolution `step` (s) is a small share. Fails if the timer stands still or is too coarse.
fn cycles_of_link(scalar: &Density, step: f64) -> Result<u64, ClockUnknown> {
    // SAFETY: a chain without vector work needs nothing.
    let link = unsafe { ChainLink::new(scalar, ChainKind::Additions, LINK_CYCLES as u64, false) };
    let repeats = (1.0 + 4.0 * step / 1e-6) as usize;
    let shortest = (0..CALIBRATION_ROUNDS).map(|_| {
        let start = std::time::Instant::now();
        (0..repeats).for_each(|_| link.run(None));
        super::seconds(start, std::time::Instant::now()) / repeats as f64
    });
    let shortest = shortest.fold(f64::INFINITY, f64::min);
    if shortest <= 0.0 {
        return Err(ClockUnknown::TimerStuck);
    }
    let wanted = (step / STEP_SHARE).clamp(shortest, LONGEST_LINK.max(shortest));
    if step > COARSEST * wanted {
        return Err(ClockUnknown::TimerCoarse(step));
    }
    Ok((LINK_CYCLES * wanted / shortest) as u64)
}

type ChosenLinks = (Vec<ChainLink>, Option<Vectors>);

/// Returns chains of about `cycles` cycles: additions amid the densest vector work of `row` that
/// does not slow them, then amid the next sparser, each followed by multiplications; `None` if none
/// is sound. `step` is the timer's resolution in seconds.
fn in_vectors(row: &Woven, operands: &Vectors, cycles: u64, step: f64) -> Option<ChosenLinks> {
    let links = |of| {
        // SAFETY: `operands` belong to this row; `ProbeWork::woven` checked its set.
        row.densities.iter().map(move |density| unsafe { ChainLink::new(density, of, cycles, true) })
    };
    let both = links(ChainKind::Additions).chain(links(ChainKind::Multiplications));
    let (mut links, each) = timed_links(both, Some(operands), step);
    let (adds, multiplications) = each.split_at_checked(row.densities.len())?;
    let place = (0..adds.len()).find(|place| {
        let sparser = adds.get(place + 1).and_then(|link| *link);
        adds[*place]
            .is_some_and(|dense| sparser.is_none_or(|sparser| dense <= sparser * (1.0 + LINK_TOLERANCE)))
    })?;
    let (add, multiply) = ((*adds.get(place)?)?, (*multiplications.get(place)?)?);
    let cycles = cycles_per_multiply(add, multiply).ok()?;
    let densities = row.densities.len();
    let multiplications = links.get(densities + place)?.clone().with_instruction_cycles(cycles);
    let adds = links.drain(..densities).skip(place).take(2);
    let links = adds.flat_map(|add| [add, multiplications.clone()]).collect();
    Some((links, Some(operands.clone())))
}

fn alone(scalar: &Density, cycles: u64, step: f64) -> Result<ChosenLinks, ClockUnknown> {
    let links = [ChainKind::Additions, ChainKind::Multiplications]
        // SAFETY: a chain without vector work needs nothing.
        .map(|of| unsafe { ChainLink::new(scalar, of, cycles, false) });
    let (links, each) = timed_links(links.into_iter(), None, step);
    let (add, multiply) = match each.as_slice() {
        [Some(add), Some(multiply)] => (*add, *multiply),
        _ => return Err(ClockUnknown::TimerStuck),
    };
    let multiplications =
        |cycles| links.iter().skip(1).map(move |link| link.clone().with_instruction_cycles(cycles));
    let links = match (cycles_per_multiply(add, multiply), cycles_with_sibling(add, multiply)) {
        (Ok(cycles), _) => links.iter().take(1).cloned().chain(multiplications(cycles)).collect(),
        (Err(_), Some(cycles)) => multiplications(cycles).collect(),
        (Err(why), None) => return Err(why),
    };
    Ok((links, None))
}

/// Returns the cycles per multiplication from the seconds per addition and multiplication, if the
/// additions took up to 4 % more than a cycle, as with a busy sibling thread; else `None`.
fn cycles_with_sibling(add: f64, multiply: f64) -> Option<f64> {
    let ratio = multiply / add;
    let cycles = ratio.round();
    (MULTIPLICATION.contains(&cycles) && (1.0 - SIBLING..1.0).contains(&(ratio / cycles))).then_some(cycles)
}

/// Returns the cycles per multiplication from the seconds per addition and multiplication; fails if
/// their ratio is no whole number from 2 to 8.
fn cycles_per_multiply(add: f64, multiply: f64) -> Result<f64, ClockUnknown> {
    let ratio = multiply / add;
    let whole = Some(ratio.round()).filter(|whole| (ratio / whole - 1.0).abs() <= WHOLE_RATIO_TOLERANCE);
    whole.filter(|whole| MULTIPLICATION.contains(whole)).ok_or(ClockUnknown::NotWhole(ratio))
}

/// Times all `links` (chains) in turn, and shorter copies that give the constant overhead; vector
/// work needs `operands`, `step` is the timer's resolution in seconds. Returns the links and the
/// seconds per addition of each, `None` below the overhead.
fn timed_links(
    links: impl Iterator<Item = ChainLink>,
    operands: Option<&Vectors>,
    step: f64,
) -> (Vec<ChainLink>, Vec<Option<f64>>) {
    let mut links: Vec<ChainLink> = links.collect();
    let short: Vec<(ChainLink, f64)> = links.iter().map(|link| link.shorter(SHORTER)).collect();
    let mut times = vec![Vec::with_capacity(CALIBRATION_ROUNDS); links.len()];
    let mut constants = times.clone();
    for round in 0..WARM_UP + CALIBRATION_ROUNDS {
        for (place, (link, (short, times_shorter))) in links.iter().zip(&short).enumerate() {
            let (long, brief) = (link.time(operands), short.time(operands));
            if round < WARM_UP {
                continue;
            }
            times[place].push(long);
            // long = constant + n·t, brief = constant + n·t ÷ times
            constants[place].push((times_shorter * brief - long) / (times_shorter - 1.0));
        }
    }
    let each = links.iter_mut().zip(times.iter().zip(&mut constants)).map(|(link, (times, constants))| {
        let longest = longest_undisturbed(times, step)?;
        let mean = mean_up_to(times, longest);
        link.constant = middle_mean(constants).clamp(0.0, mean / 10.0);
        link.addition_seconds(mean)
    });
    let each = each.collect();
    (links, each)
}

/// Returns the mean of the middle half, robust against interrupts and timer steps. Sorts `values`.
fn middle_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let middle = values.get(quarter..values.len() - quarter).unwrap_or_default();
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::kernel::kernels;

    #[test]
    fn only_whole_numbers_of_cycles_are_sound() {
        let cycles = |ratio| cycles_per_multiply(1.0, ratio);
        assert_eq!([2.0, 3.0, 2.99, 3.01, 5.0].map(cycles), [2.0, 3.0, 3.0, 3.0, 5.0].map(Ok));
        let unsound = [0.0, 1.0, 2.5, 2.6, 3.05, 12.0, f64::NAN, f64::INFINITY].map(cycles);
        assert!(unsound.iter().all(Result::is_err), "{unsound:?}");
    }

    #[test]
    fn beside_a_sibling_multiplications_count_the_cycles() {
        let cycles = |ratio| cycles_with_sibling(1.0, ratio);
        assert_eq!([2.9, 2.948, 2.99].map(cycles), [Some(3.0); 3]);
        assert_eq!([0.0, 0.99, 2.5, 2.8, 3.01, 8.99, f64::NAN, f64::INFINITY].map(cycles), [None; 8]);
    }

    #[test]
    fn a_turn_that_the_vector_work_decides_is_no_whole_number_of_cycles() {
        let rows = native::WOVEN_KERNELS.iter().flat_map(|row| &row.densities).chain(native::SCALAR_CHAINS);
        for density in rows {
            let ratio = density.adds as f64 / density.multiplications as f64;
            assert!(cycles_per_multiply(1.0, ratio).is_err(), "{density:?}");
        }
    }

    #[test]
    fn the_middle_is_not_moved_by_a_few_interrupts() {
        assert_eq!(middle_mean(&mut [1e9, 2.0, 1.0, 3.0, -1e9, 2.0, 2.0, 2.0]), 2.0);
        assert_eq!(middle_mean(&mut []), 0.0);
    }

    #[test]
    fn each_kind_of_work_is_probed_in_its_own_or_alone() {
        for kernel in kernels().filter(|kernel| kernel.available().is_ok()) {
            let work = ProbeWork::of(kernel);
            let row = work.woven();
            if kernel.is_general() {
                assert!(row.is_none(), "{}: no vector work", kernel.name);
            } else if matches!(kernel.isa, Isa::Sse2 | Isa::Avx2 | Isa::Avx512 | Isa::Neon | Isa::Sve) {
                assert_eq!(row.map(|row| row.isa), Some(kernel.isa), "{}", kernel.name);
            }
            assert!(row.is_none_or(|row| seed_operands(row).is_some()), "{}", kernel.name);
        }
        assert!(ProbeWork::SCALAR.woven().is_none());
    }

    #[test]
    fn every_chain_that_this_processor_has_runs_and_changes_no_operand() {
        for row in native::WOVEN_KERNELS.iter().filter(|row| row.isa.available().is_ok()) {
            let operands = seed_operands(row).unwrap();
            let before = format!("{operands:?}");
            for density in &row.densities {
                for of in [ChainKind::Additions, ChainKind::Multiplications] {
                    // SAFETY: the operands are this row's, and the instruction set is available.
                    let link = unsafe { ChainLink::new(density, of, 1_000, true) };
                    assert!(link.time(Some(&operands)) > 0.0 && link.instructions >= 333.0);
                }
            }
            assert_eq!(format!("{operands:?}"), before, "{:?} {:?}", row.isa, row.weight);
        }
    }
}
