//! Help text of parameters.

use plimsoll_model::case::Key;

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
    let mut texts: Vec<(Vec<&dyn Benchmark>, &str)> = Vec::new();
    for benchmark in part.benchmarks.iter().filter(|benchmark| benchmark.keys().contains(&key.name)) {
        let text = own(benchmark.descriptor().help).unwrap_or(key.help);
        match texts.iter_mut().find(|(_, other)| *other == text) {
            Some((benchmarks, _)) => benchmarks.push(*benchmark),
            None => texts.push((vec![*benchmark], text)),
        }
    }
    match texts.as_slice() {
        [] => key.help.to_owned(),
        [(benchmarks, text)] if *text == key.help && benchmarks.iter().any(|b| b.descriptor().by_default) => {
            (*text).to_owned()
        }
        texts => {
            let stated = texts.iter().map(|(benchmarks, text)| format!("{}: {text}", applies_to(benchmarks)));
            let stated = stated.collect::<Vec<_>>().join("; ");
            // A default benchmark refuses the operations of another one.
            let is_default =
                |(of, _): &&(Vec<&dyn Benchmark>, &str)| of.iter().any(|b| b.descriptor().by_default);
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
