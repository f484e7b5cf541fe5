use super::*;
use crate::cli;

/// Returns the error for a line, as printed.
pub(in crate::cli) fn refused(line: &str) -> Option<String> {
    let words = line.split_whitespace().map(OsString::from);
    cli::parse(cli::command(), words).err().map(|error| cli::one_line(&error))
}

#[test]
fn options_before_the_command_are_answered_with_the_line() {
    for (typed, options, line) in [
        ("--json - cpu", "--json", "cpu --json -"),
        ("--dry-run cpu", "--dry-run", "cpu --dry-run"),
        ("-q --seed=5 --html x cpu --n 500", "-q and --seed and --html", "cpu --n 500 -q --seed=5 --html x"),
        ("--json x run quick --json y", "--json", "run quick --json y"),
        ("--store f history show last", "--store", "history show last --store f"),
    ] {
        let says = format!("{options} must come after the command: write plimsoll {line}");
        assert_eq!(refused(&format!("plimsoll {typed}")), Some(says), "{typed}");
        assert_eq!(refused(&format!("plimsoll {line}")), None, "{line}");
    }
    let unknown = refused("plimsoll --samples 5 report last").unwrap();
    let start = "--samples is not supported on plimsoll report: it is an option of";
    assert!(unknown.starts_with(start), "{unknown}");
    let ended = refused("plimsoll run -- x.fio --store none").unwrap();
    assert_eq!(ended, "--store is not an option after --, which ends the options: put it before --");
    // Other errors in the line.
    let after = refused("plimsoll --samples 5 cpu --smaples 3").unwrap();
    assert_eq!(after, "--smaples is not an option of plimsoll cpu; did you mean --samples?");
    let after = refused("plimsoll --samples 5 disk --bs 4k").unwrap();
    assert_eq!(after, "--bs is an option of fio: here it is --block, as in plimsoll disk --block 4K");
}

#[test]
fn an_example_follows_what_a_command_requires() {
    for (command, _, example) in EXAMPLES {
        // Splits like a shell: a word in quotes contains a space.
        let words = example.split(" '").enumerate().flat_map(|(place, part)| match place {
            0 => part.split(' ').collect(),
            _ => vec![part.trim_end_matches('\'')],
        });
        let parsed = cli::parse(cli::command(), words.map(OsString::from));
        assert!(parsed.is_ok(), "{example}: {}", cli::one_line(&parsed.unwrap_err()));
        let missing = refused(command).unwrap();
        assert!(missing.starts_with(&format!("{command} requires ")), "{missing}");
        assert!(missing.ends_with(&format!(": write, for example, {example}")), "{missing}");
    }
    fn complete(command: &Command, name: &str) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = format!("{name} {}", sub.get_name());
            let alone = sub.clone().try_get_matches_from([sub.get_name()]);
            let requires = alone.is_err_and(|e| e.kind() == ErrorKind::MissingRequiredArgument);
            assert_eq!(EXAMPLES.iter().any(|(known, ..)| *known == name), requires, "{name}");
            complete(sub, &name);
        }
    }
    complete(&cli::command(), "plimsoll");
}

#[test]
fn a_name_is_guessed_where_few_letters_differ() {
    for (typed, name) in
        [("smaples", "samples"), ("sampletime", "sample-time"), ("thread", "threads"), ("affin", "affinity")]
    {
        assert!(is_slip(typed, name), "{typed}");
    }
    for (typed, name) in [("metric", "strict"), ("out", "only"), ("", "op"), ("depht", "strict")] {
        assert!(!is_slip(typed, name), "{typed}");
    }
    let metric = "--metric is not an option of plimsoll compare; plimsoll compare --help lists its options";
    assert_eq!(refused("plimsoll compare a b --metric bw").as_deref(), Some(metric));
    let threads = refused("plimsoll network --thread 5").unwrap();
    assert!(!threads.contains("--threads"), "network refuses --threads: {threads}");
}
