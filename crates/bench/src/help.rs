//! What the help of a command says of a parameter, from what subsystems and benchmarks say of it.

use crate::case::Key;
use crate::{BENCHMARKS, Subsystem};

/// The help of a parameter of a subsystem's command: what the subsystem says of it, or else each benchmark that takes it.
pub fn help_of(part: &Subsystem, key: &Key) -> String {
    let own = |help: &[(&str, &'static str)]| {
        help.iter().find(|(name, _)| *name == key.name).map(|(_, text)| *text)
    };
    if let Some(text) = own(part.help) {
        return text.to_owned();
    }
    let mut texts: Vec<(Vec<&str>, &str)> = Vec::new();
    for benchmark in
        BENCHMARKS.iter().filter(|b| b.name().starts_with(part.name) && b.keys().contains(&key.name))
    {
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
            let said = texts.iter().map(|(names, text)| format!("{}: {text}", names.join(", ")));
            said.collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::Group;
    use crate::{fixture, subsystem};

    /// What the help says is taken: `all` is every operation that it lists.
    #[test]
    fn help_is_that_of_the_benchmarks_and_all_is_every_operation() {
        let machine = fixture::machine();
        let key = Key::find("op").expect("a parameter");
        let mut seen = 0;
        for benchmark in BENCHMARKS {
            let help = benchmark.descriptor().help.iter().find(|(name, _)| *name == key.name);
            let Some(words) = help.and_then(|(_, text)| text.strip_suffix(" or all")) else { continue };
            let ops = |value: &str| {
                let group = Group::default().with(key.name, vec![key.parse(value).expect("a word")]);
                let cases = benchmark.cases(&machine, &group).unwrap_or_else(|why| panic!("{value}: {why}"));
                cases
                    .iter()
                    .filter_map(|one| one.case.word(key.name).map(str::to_owned))
                    .collect::<BTreeSet<_>>()
            };
            let listed = words.replace(" (as STREAM)", "");
            let listed: BTreeSet<String> = listed.split(", ").map(str::to_owned).collect();
            assert_eq!(ops("all"), listed, "{}", benchmark.name());
            seen += 1;
        }
        assert!(seen >= 6);
        let of = |part: &str, name: &str| {
            help_of(subsystem(part).expect("a part"), Key::find(name).expect("a key"))
        };
        assert_eq!(of("cpu", "block"), "cpu.crypto: size of a block [default: 16K]");
        assert!(of("cpu", "op").contains("; cpu.crypto: aes-128-gcm, "), "{}", of("cpu", "op"));
        assert!(of("disk", "op").starts_with("read, write, append"), "{}", of("disk", "op"));
        assert_eq!(of("memory", "pages"), Key::find("pages").expect("a key").help);
    }
}
