//! Operations, element types and instruction sets of `cpu.peak`.

use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{ComputeKernel, Element, Op, kernels};

use super::dense::distinct;
use plimsoll_model::case::find_word;
use plimsoll_model::plan::Group;

pub(super) const ALL_VALUE: &str = "all";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypedOp {
    pub(super) op: Op,
    pub(super) element: Element,
}

impl TypedOp {
    fn kernels(self) -> impl Iterator<Item = &'static ComputeKernel> {
        let own = move |kernel: &&ComputeKernel| kernel.op == self.op && kernel.element == self.element;
        kernels().filter(own).filter(|kernel| !kernel.is_variant())
    }

    fn exists(self) -> bool {
        self.kernels().next().is_some()
    }

    /// Returns the best instruction set with this operation and type on this CPU, else on any CPU.
    pub(super) fn best(self) -> Isa {
        let best = self.kernels().map(|kernel| (kernel.available().is_ok(), kernel.isa)).max();
        best.map_or_else(Isa::best, |(_, isa)| isa)
    }

    pub(super) fn isas(self, words: &[String]) -> Result<Vec<Isa>, String> {
        let all: Vec<Isa> = self.kernels().map(|kernel| kernel.isa).collect();
        named_isas(words, self.best(), &all)
    }

    /// Returns why there is no kernel of this operation and type in `isa`.
    pub(super) fn missing_in(self, isa: Isa) -> String {
        if let Err(absence) = isa.available() {
            return absence.to_string();
        }
        let Self { op, element } = self;
        let others: Vec<&str> = self.kernels().map(|kernel| kernel.isa.name()).collect();
        let others = others.join(", ");
        format!("--isa {isa} is not supported with --op {op} and --type {element}: use {others}")
    }
}

/// Returns the distinct instruction sets that `words` name: `best` or `all`, which stand for these,
/// or one by its name. Fails for an unknown name.
pub(super) fn named_isas(words: &[String], best: Isa, all: &[Isa]) -> Result<Vec<Isa>, String> {
    let mut isas = Vec::new();
    for word in words {
        match word.as_str() {
            "best" => isas.push(best),
            ALL_VALUE => isas.extend(all),
            word => isas.push(parse_value("isa", word, &Isa::ALL, Isa::name)?),
        }
    }
    Ok(distinct(isas))
}

/// Returns the requested operations and types that have a kernel; fma of f64 and f32 by default. A
/// default that does not fit a requested value is replaced by all that fit.
pub(super) fn pairs(group: &Group) -> Result<Vec<TypedOp>, String> {
    super::foreign::check(group)?;
    let ops = chosen(group, "op", Op::ALL, Op::name, &[Op::FMA])?;
    let elements = chosen(group, "type", &Element::ALL, Element::name, &[Element::F64, Element::F32])?;
    let product = |ops: &[Op], elements: &[Element]| -> Vec<TypedOp> {
        let pairs = ops.iter().flat_map(|&op| elements.iter().map(move |&element| TypedOp { op, element }));
        pairs.filter(|pair| pair.exists()).collect()
    };
    let mut pairs = Vec::new();
    let or_all = |usual: Vec<TypedOp>, all: Vec<TypedOp>| if usual.is_empty() { all } else { usual };
    match (group.asked("op"), group.asked("type")) {
        (true, false) => pairs.extend(
            ops.iter().flat_map(|op| or_all(product(&[*op], &elements), product(&[*op], &Element::ALL))),
        ),
        (false, true) => {
            let of = |element: &Element| or_all(product(&ops, &[*element]), product(Op::ALL, &[*element]));
            pairs.extend(elements.iter().flat_map(of));
        }
        _ => {
            pairs = product(&ops, &elements);
            let all = |key| group.words(key, &[]).iter().any(|word| word.eq_ignore_ascii_case(ALL_VALUE));
            let lonely_op = ops.iter().find(|op| !pairs.iter().any(|pair| pair.op == **op));
            let lonely_element = elements.iter().find(|e| !pairs.iter().any(|pair| pair.element == **e));
            if let (Some(&op), false) = (lonely_op, all("op")) {
                return Err(missing(TypedOp { op, element: elements[0] }));
            }
            if let (Some(&element), false) = (lonely_element, all("type")) {
                return Err(missing(TypedOp { op: ops[0], element }));
            }
        }
    }
    if pairs.is_empty() {
        return Err(format!("--op and --type are not supported together on {}", std::env::consts::ARCH));
    }
    Ok(pairs)
}

fn chosen<T: Copy>(
    group: &Group,
    key: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    defaults: &[T],
) -> Result<Vec<T>, String> {
    let names = |of: &[T]| of.iter().map(|one| name(*one)).collect::<Vec<_>>();
    let words = group.words_of(key, &names(defaults), &names(all));
    words.iter().map(|word| parse_value(key, word, all, name)).collect()
}

fn missing(pair: TypedOp) -> String {
    let TypedOp { op, element } = pair;
    let elements = Element::ALL.into_iter().filter(|&element| TypedOp { op, element }.exists());
    let ops = Op::ALL.iter().filter(|&&op| TypedOp { op, element }.exists());
    let elements: Vec<&str> = elements.map(Element::name).collect();
    let ops: Vec<&str> = ops.map(|op| op.name()).collect();
    let or_none = |names: Vec<&str>| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!(
        "--op {op} is not supported with --type {element} on {}: {op} has {}; {element} has {}",
        std::env::consts::ARCH,
        or_none(elements),
        or_none(ops),
    )
}

/// Returns the value in `all` whose `name` is `word`. The error names parameter `key` and all
/// names.
pub(super) fn parse_value<T: Copy>(
    key: &str,
    word: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, String> {
    let known: Vec<(&'static str, T)> = all.iter().map(|one| (name(*one), *one)).collect();
    find_word(key, word, &known).map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parse_group;
    use plimsoll_metal::kernel::find;

    #[test]
    fn each_name_is_of_its_value_and_others_are_refused_with_all_names() {
        let element = |word: &str| parse_value("type", word, &Element::ALL, Element::name);
        let isa = |word: &str| parse_value("isa", word, &Isa::ALL, Isa::name);
        assert!(Element::ALL.into_iter().all(|one| element(one.name()) == Ok(one)));
        assert!(Isa::ALL.into_iter().all(|one| isa(one.name()) == Ok(one)));
        assert!(Op::ALL.iter().all(|op| parse_value("op", op.name(), Op::ALL, Op::name) == Ok(*op)));
        let wanted = "type must be one of f64, f32, f16, bf16, i64, i32, i16, i8: 'i9' is not";
        assert_eq!(element("i9").unwrap_err(), wanted);
    }

    fn named(lists: &str) -> Result<Vec<String>, String> {
        let pairs = pairs(&parse_group(lists))?;
        Ok(pairs.iter().map(|pair| format!("{} {}", pair.op, pair.element)).collect())
    }

    #[test]
    fn the_default_is_short_and_gives_way_to_what_was_typed() {
        assert_eq!(named("").unwrap(), ["fma f64", "fma f32"]);
        assert_eq!(named("type=f64").unwrap(), ["fma f64"]);
        if Isa::best() == Isa::Portable {
            return;
        }
        assert_eq!(named("op=add,mix").unwrap(), ["add f64", "add f32", "mix f64", "mix f32"]);
        let of_i16 = named("type=i16").unwrap();
        assert!(of_i16.starts_with(&["add i16".to_owned(), "mul i16".to_owned()]), "{of_i16:?}");
        let all = named("op=all/type=all").unwrap();
        assert!(all.len() >= 17 && !all.contains(&"fma i32".to_owned()), "{all:?}");
    }

    #[test]
    fn what_no_instruction_set_has_is_refused_with_the_nearest_or_left_out_of_a_product() {
        if Isa::best() == Isa::Portable {
            return;
        }
        let error = named("op=fma/type=i32").unwrap_err();
        let arch = std::env::consts::ARCH;
        let wanted = format!("--op fma is not supported with --type i32 on {arch}: fma has f64, f32");
        assert!(error.starts_with(&wanted) && error.contains("i32 has add, mul"), "{error}");
        let error = named("op=div/type=f64,i8").unwrap_err();
        assert!(error.contains("--op div is not supported with --type i8"), "{error}");
        let mixed = named("op=fma,add/type=f64,i32").unwrap();
        assert_eq!(mixed, ["fma f64", "add f64", "add i32"]);
    }

    #[test]
    fn the_best_instruction_set_is_one_that_has_the_pair() {
        for kernel in kernels() {
            let pair = TypedOp { op: kernel.op, element: kernel.element };
            let best = pair.best();
            let found = find(pair.op, pair.element, best).unwrap();
            let here = pair.kernels().any(|kernel| kernel.available().is_ok());
            assert_eq!(found.available().is_ok(), here, "{pair:?}");
            assert!(pair.isas(&["best".to_owned(), ALL_VALUE.to_owned()]).unwrap().contains(&kernel.isa));
        }
    }
}
