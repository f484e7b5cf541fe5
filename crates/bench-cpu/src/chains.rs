//! Kernel of a `cpu.peak` case: an instruction set's fastest, or one with given chains and width. A
//! chain is a sequence of dependent instructions; latency × units chains occupy all units.

use std::fmt;

use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{self, ComputeKernel};

use super::dense::distinct;
use super::matrix::{ALL_VALUE, TypedOp};
use plimsoll_bench_api::check_range;
use plimsoll_model::case::Case;
use plimsoll_model::job::cpu::CpuKernel;
use plimsoll_model::plan::Group;
use plimsoll_model::sample::CannotMeasure;

const FULL_WIDTH: &str = "full";
const SCALAR_WIDTH: &str = "scalar";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum VectorWidth {
    Scalar,
    Bits(u32),
}

impl VectorWidth {
    fn of(kernel: &ComputeKernel) -> Self {
        if kernel.is_scalar() { Self::Scalar } else { Self::Bits(kernel.vector_bits()) }
    }

    fn read(word: &str) -> Result<Self, String> {
        match word.parse() {
            _ if word == SCALAR_WIDTH => Ok(Self::Scalar),
            Ok(bits) if kernel::chained().any(|one| Self::of(one) == Self::Bits(bits)) => {
                Ok(Self::Bits(bits))
            }
            _ => Err(format!(
                "width must be {FULL_WIDTH}, {ALL_VALUE}, {SCALAR_WIDTH} or the bits of a vector (128, 256, 512): '{}' is not",
                plimsoll_units::text::shown(word)
            )),
        }
    }
}

impl fmt::Display for VectorWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar => f.write_str(SCALAR_WIDTH),
            Self::Bits(bits) => write!(f, "{bits}"),
        }
    }
}

pub(super) struct RequestedChains {
    isas: Vec<String>,
    widths: Vec<String>,
    pub(super) chains: Option<Vec<u64>>,
}

impl RequestedChains {
    /// Reads `isa`, `width` and `chains` of `group`. Fails for bad values, or width without chains.
    pub(super) fn of(group: &Group) -> Result<Self, String> {
        let chains = group.asked_numbers("chains");
        let widths = group.words("width", &[FULL_WIDTH]);
        if chains.is_none() && group.asked("width") {
            return Err("--width requires --chains, such as --chains 1,2,4,8".to_owned());
        }
        let most = kernel::chained().map(|kernel| kernel.accumulators).max().unwrap_or(0);
        if chains.is_some() && most == 0 {
            let arch = std::env::consts::ARCH;
            return Err(format!("--chains is not supported on {arch}"));
        }
        for n in chains.iter().flatten() {
            check_range(1..=u64::from(most), "chains", *n)?;
        }
        for word in widths.iter().filter(|word| ![ALL_VALUE, FULL_WIDTH].contains(&word.as_str())) {
            VectorWidth::read(word)?;
        }
        Ok(Self { isas: group.words("isa", &["best"]), widths, chains })
    }

    pub(super) fn no_case_error(&self) -> String {
        format!(
            "--width {1} is not supported with --isa {0} for this operation and type",
            self.isas.join(", "),
            self.widths.join(", ")
        )
    }

    /// Returns a `cpu.peak` case per requested kernel of `pair`, without affinity and threads.
    pub(super) fn cases(&self, pair: TypedOp) -> Result<Vec<Case>, String> {
        let named = |isa: Isa| {
            Case::of("cpu.peak")
                .with_word("op", pair.op.name())
                .with_word("type", pair.element.name())
                .with_word("isa", isa.name())
        };
        let Some(chains) = &self.chains else {
            return Ok(pair.isas(&self.isas)?.into_iter().map(named).collect());
        };
        let mut kinds = Vec::new();
        for word in &self.widths {
            for width in widths(pair, word)? {
                let fits = |isa: Isa| {
                    let all = of_pair(pair).filter(move |kernel| kernel.isa == isa).map(VectorWidth::of);
                    all.filter(|other| width.is_none_or(|width| *other == width)).max()
                };
                for isa in &self.isas {
                    let isas = match isa.as_str() {
                        "best" => best(pair, width).into_iter().collect(),
                        _ => pair.isas(std::slice::from_ref(isa))?,
                    };
                    kinds.extend(isas.into_iter().filter_map(|isa| Some((isa, fits(isa)?))));
                }
            }
        }
        let mut cases = Vec::new();
        for (isa, width) in distinct(kinds) {
            let case = named(isa).with_word("width", &width.to_string());
            cases.extend(chains.iter().map(|&n| case.clone().with_count("chains", n)));
        }
        Ok(cases)
    }
}

fn of_pair(pair: TypedOp) -> impl Iterator<Item = &'static ComputeKernel> {
    kernel::chained().filter(move |kernel| (kernel.op, kernel.element) == (pair.op, pair.element))
}

/// Returns the widths of `pair` that `word` requests, the widest first; `None` is the full width.
fn widths(pair: TypedOp, word: &str) -> Result<Vec<Option<VectorWidth>>, String> {
    Ok(match word {
        FULL_WIDTH => vec![None],
        ALL_VALUE => {
            let all: std::collections::BTreeSet<VectorWidth> = of_pair(pair).map(VectorWidth::of).collect();
            all.into_iter().rev().map(Some).collect()
        }
        word => vec![Some(VectorWidth::read(word)?)],
    })
}

/// Returns the best instruction set with a kernel of `pair` in `width` on this CPU, else on any.
fn best(pair: TypedOp, width: Option<VectorWidth>) -> Option<Isa> {
    let fits = of_pair(pair).filter(|kernel| width.is_none_or(|width| VectorWidth::of(kernel) == width));
    fits.map(|kernel| (kernel.available().is_ok(), kernel.isa)).max().map(|(_, isa)| isa)
}

/// Returns the kernel of a `cpu.peak` case, even if this CPU cannot run it. The error is one line.
pub fn kernel_of(case: &Case) -> Result<&'static ComputeKernel, String> {
    let CpuKernel { op, element, isa, chains, width, .. } = CpuKernel::of(case);
    let (Some(op), Some(element), Some(isa)) = (op, element, isa) else {
        return Err(format!("this version has no kernel for {case}"));
    };
    let Some(chains) = chains else {
        return kernel::find(op, element, isa).ok_or_else(|| TypedOp { op, element }.missing_in(isa));
    };
    let width = VectorWidth::read(width.unwrap_or_default())?;
    let alike = || {
        of_pair(TypedOp { op, element })
            .filter(|kernel| kernel.isa == isa && VectorWidth::of(kernel) == width)
    };
    let found = alike().find(|kernel| u64::from(kernel.accumulators) == chains);
    found.ok_or_else(|| match alike().map(|kernel| kernel.accumulators).max() {
        None => format!("{isa} has no chains of {op} of {element} of width {width}"),
        Some(most) if chains > u64::from(most) => {
            format!("--chains must be at most {most} with --isa {isa} and --width {width}: {chains} is not")
        }
        Some(_) => {
            format!("--op {op} requires an even number of --chains (additions and multiplications in turn): {chains} is not")
        }
    })
}

/// Returns the kernel of a `cpu.peak` case. Fails if the kernel is missing or cannot run here.
pub(super) fn runnable(case: &Case) -> Result<&'static ComputeKernel, CannotMeasure> {
    let kernel = kernel_of(case).map_err(CannotMeasure::not_here)?;
    kernel.available().map_err(CannotMeasure::not_here)?;
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parse_group;
    use plimsoll_metal::kernel::{Element, Op};

    fn ids(op: Op, element: Element, lists: &str) -> Vec<String> {
        let cases = RequestedChains::of(&parse_group(lists)).unwrap().cases(TypedOp { op, element }).unwrap();
        cases.iter().map(|case| case.to_string().replace("cpu.peak/op=", "")).collect()
    }

    #[test]
    fn each_width_takes_an_instruction_set_that_has_it() {
        let built = |isa: Isa| kernel::chained().any(|kernel| kernel.isa == isa);
        if built(Isa::Avx512) {
            let all = ids(Op::FMA, Element::F64, "chains=4/isa=avx2,avx512/width=all");
            let wanted = ["avx512/width=512", "avx2/width=256", "avx2/width=128", "avx2/width=scalar"];
            assert_eq!(all, wanted.map(|kind| format!("fma/type=f64/isa={kind}/chains=4")));
            let full = ids(Op::ADD, Element::I8, "chains=1,2/isa=sse2");
            assert_eq!(full, [1, 2].map(|n| format!("add/type=i8/isa=sse2/width=128/chains={n}")));
            assert!(ids(Op::ADD, Element::I8, "chains=1/width=scalar").is_empty());
            assert!(ids(Op::FMA, Element::F64, "chains=1/isa=avx2/width=512").is_empty());
        }
        if built(Isa::Neon) {
            let all = ids(Op::FMA, Element::F64, "chains=4/isa=neon/width=all");
            assert_eq!(all.len(), 2, "{all:?}");
        }
    }

    #[test]
    fn every_case_of_chains_names_its_kernel() {
        for kernel in kernel::chained() {
            let case = Case::of("cpu.peak")
                .with_word("op", kernel.op.name())
                .with_word("type", kernel.element.name())
                .with_word("isa", kernel.isa.name())
                .with_word("width", &VectorWidth::of(kernel).to_string())
                .with_count("chains", kernel.accumulators.into());
            assert!(std::ptr::eq(kernel_of(&case).unwrap(), kernel), "{case}");
            assert_eq!(runnable(&case).is_ok(), kernel.available().is_ok(), "{case}");
        }
    }

    #[test]
    fn what_does_not_exist_is_named_with_the_reason() {
        let why = |lists| RequestedChains::of(&parse_group(lists)).err().unwrap_or_default();
        if Isa::best() == Isa::Portable {
            assert!(why("chains=1").contains("is not supported on"));
            return;
        }
        assert!(why("chains=0").starts_with("chains must be between 1 and"));
        assert!(why("chains=1,4000").ends_with(": 4000 is not"));
        assert!(why("chains=1/width=wide").starts_with("width must be"));
        assert!(why("width=128").starts_with("--width requires --chains"));
        let isa = kernel::chained().find(|kernel| kernel.vector_bits() == 128).unwrap().isa;
        let kernel = |rest: &str| kernel_of(&format!("cpu.peak/{rest}").parse().unwrap()).unwrap_err();
        let odd = kernel(&format!("op=mix/type=f64/isa={isa}/width=128/chains=3"));
        assert!(odd.contains("requires an even number"), "{odd}");
        let many = kernel(&format!("op=fma/type=f64/isa={isa}/width=128/chains=200"));
        assert!(many.starts_with("--chains must be at most"), "{many}");
        let none = kernel(&format!("op=add/type=i8/isa={isa}/width=scalar/chains=1"));
        assert!(none.contains("has no chains"), "{none}");
    }
}
