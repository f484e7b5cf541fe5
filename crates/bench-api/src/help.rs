//! Help text of parameters.

use plimsoll_model::case::Key;
use plimsoll_units::group::grouped;

use crate::{Benchmark, Subsystem};

/// Returns the help of parameter `key` for the command of `part`. Meanings that differ between
/// benchmarks follow the benchmark's name, with `--only` if it does not run by default.
pub fn help_of(part: &Subsystem, key: &Key) -> String {
    let own = |help: &[(&str, &'static str)]| {
        help.iter().find(|(name, _)| *name == key.name).map(|(_, text)| *text)
    };
    if let Some(text) = own(part.help) {
        return text.to_owned();
    }
    let asked = part.benchmarks.iter().filter(|benchmark| benchmark.keys().contains(&key.name));
    let texts = grouped(asked.map(|one| (own(one.descriptor().help).unwrap_or(key.help), *one)));
    match texts.as_slice() {
        [] => key.help.to_owned(),
        [(text, benchmarks)] if *text == key.help && benchmarks.iter().any(|b| b.descriptor().by_default) => {
            (*text).to_owned()
        }
        texts => {
            let stated = texts.iter().map(|(text, benchmarks)| format!("{}: {text}", applies_to(benchmarks)));
            let stated = stated.collect::<Vec<_>>().join("; ");
            // A default benchmark refuses the operations of another one.
            let is_default =
                |(_, of): &&(&str, Vec<&dyn Benchmark>)| of.iter().any(|b| b.descriptor().by_default);
            match key.name == "op" && texts.iter().filter(is_default).count() > 1 {
                true => format!("by the benchmark of --only; {stated}"),
                false => stated,
            }
        }
    }
}

/// Returns the names of `benchmarks`, after "with --only" if none of them runs by default.
fn applies_to(benchmarks: &[&dyn Benchmark]) -> String {
    let names: Vec<&str> = benchmarks.iter().map(|benchmark| benchmark.name()).collect();
    match benchmarks.iter().any(|benchmark| benchmark.descriptor().by_default) {
        true => names.join(", "),
        false => format!("with --only {}", names.join(" or ")),
    }
}
