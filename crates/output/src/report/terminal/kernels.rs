//! Table of the kernels of `cpu.peak`: operation, limit, and why some cannot run.

use plimsoll_bench::Candidate;
use plimsoll_bench_cpu::peak::limit::per_cycle;
use plimsoll_bench_cpu::{counted_in, kernel_of};
use plimsoll_machine::Machine;
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{self, ComputeKernel};
use plimsoll_units::quantity::format::significant;
use plimsoll_units::quantity::{Quantity, Unit};

use crate::report::wrap::widths;

const COLUMN_TITLES: [&str; 5] = ["kernel", "lanes", "per cycle", "ops/cycle", "limit of one core here"];

/// Formats a table of compute kernels: those of the cases `named`, or all of this architecture
/// (`None`). Limits are for the core clock `clock_hz` in Hz; unknown for `None`.
pub fn table(machine: &Machine, named: Option<&[Candidate]>, clock_hz: Option<f64>) -> String {
    let kernels: Vec<&ComputeKernel> = match named {
        None => {
            let mut all: Vec<_> = kernel::kernels().filter(|kernel| !kernel.is_variant()).collect();
            all.sort_by_key(|kernel| Isa::ALL.iter().position(|isa| *isa == kernel.isa));
            all
        }
        Some(candidates) => named_by(candidates),
    };
    let mut rows = vec![COLUMN_TITLES.map(str::to_owned)];
    rows.extend(kernels.into_iter().map(|kernel| row(machine, kernel, clock_hz)));
    let widths = widths(&rows);
    let line = |[kernel, lanes, each, operations, limit]: &[String; 5]| {
        let rates = format!("{each:>0$}  {operations:>1$}  ", widths[2], widths[3]);
        let rates = if each.is_empty() && operations.is_empty() { "" } else { &rates };
        let line = format!("{kernel:<0$}  {lanes:>1$}  {rates}{limit}", widths[0], widths[1]);
        line.trim_end().to_owned() + "\n"
    };
    let at = clock_hz.map_or("the core clock could not be measured".to_owned(), |hertz| {
        format!("at {}, measured just now on one CPU", Quantity::new(hertz, Unit::Hertz))
    });
    format!("{}({at})\n", rows.iter().map(line).collect::<String>())
}

fn named_by(candidates: &[Candidate]) -> Vec<&'static ComputeKernel> {
    let mut known = std::collections::HashSet::new();
    let named = candidates.iter().filter_map(|candidate| kernel_of(&candidate.case).ok());
    named.filter(|kernel| known.insert(kernel.name)).collect()
}

fn row(machine: &Machine, kernel: &ComputeKernel, clock_hz: Option<f64>) -> [String; 5] {
    let mut name = format!("{:<4}  {:<4}  {}", kernel.op, kernel.element, kernel.isa);
    if kernel.chains {
        let bits = format!("{} bits", kernel.vector_bits());
        let width = if kernel.is_scalar() { "scalar" } else { &bits };
        name += &format!("  {width}  chains {}", kernel.accumulators);
    }
    let first = machine.cpu.allowed.iter().next().unwrap_or(0);
    let rates = per_cycle(machine, first, kernel);
    let available = kernel.available();
    let (each, operations) = match &rates {
        Ok(rates) if available.is_ok() => (number(rates.instructions), number(rates.operations)),
        _ => Default::default(),
    };
    let unit = counted_in(Some(kernel.op), Some(kernel.element));
    let limit = match (available, rates, clock_hz) {
        (Err(absence), ..) => {
            let why = absence.to_string();
            why.split_once(" is ").map_or(why.clone(), |(_, why)| why.to_owned())
        }
        (Ok(()), Err(why), _) => format!("unknown: {why}"),
        (Ok(()), Ok(_), None) => "unknown without a clock".to_owned(),
        (Ok(()), Ok(rates), Some(hertz)) => Quantity::new(rates.operations * hertz, unit).to_string(),
    };
    [name, kernel.lanes.to_string(), each, operations, limit]
}

/// Formats integers without decimals, and other numbers with three significant digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { significant(value, 3) }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::fixture::Fixture;
    use plimsoll_metal::isa::Isa;

    use super::*;

    #[test]
    fn every_kernel_has_a_line_with_its_limit_or_the_reason() {
        if kernel::find(kernel::Op::FMA, kernel::Element::F64, Isa::Avx512).is_none() {
            return;
        }
        let machine = Fixture::open("firecracker-zen4").unwrap().machine();
        let text = table(&machine, None, Some(3.7e9));
        let count = kernel::kernels().filter(|kernel| !kernel.is_variant()).count();
        assert_eq!(text.lines().count(), count + 2, "{text}");
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        let words = |start: &str| line(start).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words("add   i8    sse2")[3..], ["16", "4", "64", "237", "GOP/s"]);
        assert_eq!(words("sqrt  f64   sse2")[3..6], ["2", "0.119", "0.239"]);
        assert!(line("fma   f64   portable").contains("unknown: the compiler chose"), "{text}");
        let amx = kernel::find(kernel::Op::DOT, kernel::Element::I8, Isa::Amx);
        if amx.is_some_and(|kernel| kernel.available().is_err()) {
            assert!(line("dot   i8    amx").ends_with("not supported by this CPU: needs amx_int8"), "{text}");
        }
        assert!(table(&machine, None, None).contains("unknown without a clock"));
    }

    #[test]
    fn candidates_name_their_kernels_once() {
        let machine = Fixture::open("firecracker-zen4").unwrap().machine();
        let case = |threads: u32| {
            let id = format!("cpu.peak/op=fma/type=f32/isa=portable/threads={threads}");
            Candidate::new(id.parse().unwrap(), Ok(()))
        };
        let text = table(&machine, Some(&[case(1), case(2)]), None);
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
