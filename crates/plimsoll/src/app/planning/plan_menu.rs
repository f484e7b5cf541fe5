//! Menu of the built-in plans, for `plimsoll run` without a plan on a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use plimsoll_command::cli::{self, Common, DEFAULT_PLAN, Measurable};
use plimsoll_command::resolve;
use plimsoll_machine::Machine;
use plimsoll_output::report::{Style, StyleOptions};
use plimsoll_units::text::shown;

use crate::app::signals::is_in_foreground;
use crate::app::{Failure, plans, prepared};

/// Returns `what`; if it is unnamed, the plan that the user chooses on the terminal, or, without a
/// terminal, the default plan. Fails if the input ends before a choice.
pub(crate) fn named(what: Measurable, common: &Common) -> Result<Measurable, Failure> {
    if what != Measurable::Unnamed {
        return Ok(what);
    }
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    let is_alone = !common.quiet && plimsoll_cluster::started_with_others().is_none() && is_in_foreground();
    let name = if is_terminal && is_alone { chosen(common)? } else { DEFAULT_PLAN };
    Ok(Measurable::Plan(name.to_owned()))
}

fn chosen(common: &Common) -> Result<&'static str, Failure> {
    let rows = cli::built_in_rows();
    let width = Style::detect(StyleOptions::default()).width;
    let mut out = io::stderr().lock();
    let asked = write!(out, "{}", menu(&rows, common, &plans::discovered(), width));
    let names: Vec<&'static str> = rows.iter().map(|(name, _)| *name).collect();
    let answer = asked.and_then(|()| ask(&names, &mut io::stdin().lock(), &mut out));
    match answer {
        Ok(Some(name)) => Ok(name),
        Ok(None) => Err(Failure::usage(
            "no plan was chosen: the input ended; plimsoll run PLAN measures one, and plimsoll plan list lists them",
        )),
        Err(e) => Err(Failure::environment(format!("cannot ask for a plan on this terminal: {e}"))),
    }
}

/// Formats one line per plan: number, name, duration and contents; `rows` has (name, contents).
fn menu(rows: &[(&'static str, String)], common: &Common, machine: &Machine, width: usize) -> String {
    let times: Vec<String> = rows.iter().map(|(name, _)| time(name, common, machine)).collect();
    let name_width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let time_width = times.iter().map(|time| time.chars().count()).max().unwrap_or(0);
    let head = |(at, ((name, _), time)): (usize, (&(&str, String), &String))| {
        format!("{:>2}  {name:<name_width$}  {time:>time_width$}", at + 1)
    };
    let heads: Vec<String> = rows.iter().zip(&times).enumerate().map(head).collect();
    let about = rows.iter().map(|(_, about)| about.clone());
    let lines: Vec<(&str, String)> = heads.iter().map(String::as_str).zip(about).collect();
    cli::rows(&lines, width)
}

/// Returns the estimated duration, as `50 s`, `5 min`, `3 h` or, if it cannot run, `not here`.
fn time(name: &str, common: &Common, machine: &Machine) -> String {
    let plan = resolve::plan(&Measurable::Plan(name.to_owned()), common);
    let planned = plan.and_then(|plan| resolve::planned(&plan, machine).map(|planned| (plan, planned)));
    match planned {
        Ok((plan, planned)) if planned.iter().any(|p| p.candidate.feasible.is_ok()) => {
            let tools =
                crate::app::ref_tools::expected_seconds(common, &plan, &planned, machine).unwrap_or(0.0);
            in_words(prepared::expected_seconds(machine, &plan, &planned) + tools)
        }
        // Nothing can be measured, or the options do not fit: an error once it is chosen.
        _ => "not here".to_owned(),
    }
}

fn in_words(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

/// Prompts for one of `names` or its number; an empty line is the first. `None` if `input` ends.
fn ask<'a>(names: &[&'a str], input: &mut impl BufRead, out: &mut impl Write) -> io::Result<Option<&'a str>> {
    loop {
        let first = names.first().copied().unwrap_or_default();
        write!(out, "number or name of a plan [1, {first}]: ")?;
        out.flush()?;
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            writeln!(out)?;
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let answer = line.trim();
        let by_number = answer.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        let found = match answer {
            "" => names.first(),
            _ => by_number.and_then(|at| names.get(at)).or_else(|| names.iter().find(|n| **n == answer)),
        };
        if let Some(name) = found {
            return Ok(Some(name));
        }
        let last = names.len();
        writeln!(out, "{} is neither a number from 1 to {last} nor one of these plans", shown(answer))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(typed: &str) -> (Option<&'static str>, usize) {
        let mut out = Vec::new();
        let name = ask(&["quick", "standard", "chains"], &mut typed.as_bytes(), &mut out).unwrap();
        (name, String::from_utf8(out).unwrap().matches("number or name").count())
    }

    #[test]
    fn a_number_a_name_or_an_empty_line_chooses_a_plan_and_a_wrong_answer_is_asked_again() {
        assert_eq!(answered("2\n"), (Some("standard"), 1));
        assert_eq!(answered(" 3 \n"), (Some("chains"), 1));
        assert_eq!(answered("chains\n"), (Some("chains"), 1));
        assert_eq!(answered("\n"), (Some("quick"), 1));
        assert_eq!(answered("0\n4\n-1\nquik\n1\n"), (Some("quick"), 5));
        assert_eq!(answered("99"), (None, 2));
        assert_eq!(answered(""), (None, 1));
    }

    #[test]
    fn each_plan_has_its_number_and_its_time() {
        let machine = plimsoll_machine::fixture::Fixture::open("firecracker-zen4").unwrap().machine();
        let rows = cli::built_in_rows();
        let text = menu(&rows, &Common::default(), &machine, usize::MAX);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), rows.len());
        for (at, (line, (name, _))) in lines.iter().zip(&rows).enumerate() {
            assert_eq!(line[..2], [(at + 1).to_string().as_str(), *name]);
        }
        assert_eq!(lines[0][3], "s", "quick takes seconds: {:?}", lines[0]);
    }

    #[test]
    fn a_named_plan_is_not_asked_for() {
        let plan = Measurable::Plan("standard".to_owned());
        assert_eq!(named(plan.clone(), &Common::default()).unwrap(), plan);
    }
}
