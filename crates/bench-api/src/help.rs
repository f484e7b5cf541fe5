use plimsoll_model::case::Key;

use crate::Subsystem;

/// Returns the help text of parameter `key` in subsystem `part`: its own, else the texts of its
/// benchmarks (`names: text; names: text` if they differ), else the general one.
pub fn help_of(part: &Subsystem, key: &Key) -> String {
    let own = |help: &[(&str, &'static str)]| {
        help.iter().find(|(name, _)| *name == key.name).map(|(_, text)| *text)
    };
    if let Some(text) = own(part.help) {
        return text.to_owned();
    }
    let mut texts: Vec<(Vec<&str>, &str)> = Vec::new();
    for benchmark in part.benchmarks.iter().filter(|benchmark| benchmark.keys().contains(&key.name)) {
        let text = own(benchmark.descriptor().help).unwrap_or(key.help);
        match texts.iter_mut().find(|(_, other)| *other == text) {
            Some((names, _)) => names.push(benchmark.name()),
            None => texts.push((vec![benchmark.name()], text)),
        }
    }
    match texts.as_slice() {
        [] => key.help.to_owned(),
        [(_, text)] if *text == key.help => (*text).to_owned(),
        texts => {
            let stated = texts.iter().map(|(names, text)| format!("{}: {text}", names.join(", ")));
            stated.collect::<Vec<_>>().join("; ")
        }
    }
}
