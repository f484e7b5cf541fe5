//! `plimsoll doctor` on a terminal: checks with their effects, then the noise floor between runs.

use plimsoll_compare::Floors;
use plimsoll_doctor::{CheckState, MachineCheck, NoiseFloorRange, by_subsystem, noise_floor_ranges};
use plimsoll_units::quantity::percent;
use unicode_width::UnicodeWidthStr;

use super::style::{Style, TextRole};
use super::wrap::{pad, paragraph};

/// Formats per check `ok`, `!!` (problem) or `??` (unknown), name and value; below, its effect.
pub fn checks(checks: &[MachineCheck], style: &Style) -> String {
    let room = checks.iter().map(|c| c.name.width()).max().unwrap_or(0);
    checks.iter().map(|check| one(check, room, style)).collect()
}

/// Formats which and how many checks found a problem, and an explanation of the marks.
pub fn conclusion(checks: &[MachineCheck], style: &Style) -> String {
    let costly: Vec<&str> = checks.iter().filter(|c| c.state == CheckState::Costs).map(|c| c.name).collect();
    let all = checks.len();
    let what = "that disturbs measurements";
    let (role, found) = match costly.len() {
        0 => (TextRole::Good, format!("none of {all} checks found anything {what}")),
        n => {
            let (find, names) = (if n == 1 { "finds" } else { "find" }, costly.join(", "));
            (TextRole::Warning, format!("{n} of {all} checks {find} something {what}: {names}"))
        }
    };
    let marks = "ok: nothing found; !!: it disturbs measurements; ??: it cannot be known here";
    format!("\n{}{}", paragraph(style, role, "", &found), paragraph(style, TextRole::Dim, "", marks))
}

fn one(check: &MachineCheck, room: usize, style: &Style) -> String {
    let (mark, role) = match check.state {
        CheckState::Good => ("ok", TextRole::Good),
        CheckState::Costs => ("!!", TextRole::Warning),
        CheckState::Unknown => ("??", TextRole::Dim),
    };
    let lead = format!("{mark}  {}{}  ", check.name, pad(check.name, room));
    let text = paragraph(style, TextRole::Plain, &lead, &check.found);
    let indent = " ".repeat(lead.width());
    let cost = check.cost.as_deref().map(|cost| paragraph(style, TextRole::Dim, &indent, cost));
    text.replacen(mark, &style.paint(role, mark), 1) + &cost.unwrap_or_default()
}

/// Formats noise floors (smallest real differences of runs): per subsystem, then per benchmark.
pub fn floors(floors: &Floors, style: &Style) -> String {
    let all = noise_floor_ranges(floors);
    if all.is_empty() {
        let text = "no case was measured twice: the noise floor is unknown";
        return paragraph(style, TextRole::Warning, "", text);
    }
    let without = match floors.left_out {
        0 => String::new(),
        n => format!("; {n} excluded (interrupted, or vCPUs migrated)"),
    };
    let title =
        format!("Noise floor between {} runs of the same, one after the other{without}", floors.rounds);
    let mut text = format!("\n{}\n", style.paint(TextRole::Strong, &style.styled(&title)));
    let room = all.iter().map(|s| name(s).width()).max().unwrap_or(0);
    let line = |role: TextRole, name: &str, of: &NoiseFloorRange| {
        let says = format!("{name:<room$}  {}", range(of));
        style.paint(role, &style.styled(&says)) + "\n"
    };
    for worst in by_subsystem(&all) {
        text += &line(role(worst.most), &worst.benchmark, &worst);
        for one in all.iter().filter(|s| s.benchmark.split('.').next() == Some(&worst.benchmark)) {
            text += &line(TextRole::Dim, &name(one), one);
        }
        if let Some(case) = worst.noisiest.as_deref().filter(|_| uneven(&worst)) {
            text += &paragraph(style, TextRole::Dim, "    ", &format!("noisiest: {case}"));
        }
    }
    let about = "plimsoll compare calls a difference real only beyond these: Student's t at 99.9 % of two runs' deviations, half as much again as the largest difference seen here, and never less than 1 %; each case by its own deviations and those that are typical of its benchmark";
    text + &paragraph(style, TextRole::Plain, "", about)
}

fn uneven(of: &NoiseFloorRange) -> bool {
    of.most > 1.5 * of.least
}

fn range(of: &NoiseFloorRange) -> String {
    let [least, most] = [of.least, of.most].map(|share| percent(share, 2));
    if uneven(of) { format!("{least:>7} to {most} by case") } else { format!("{most:>7}") }
}

fn name(of: &NoiseFloorRange) -> String {
    format!("  {} {}", of.benchmark, of.metric)
}

/// Returns the colour of a noise floor (0.1: 10 %): good below 3 %, plain below 10 %, else yellow.
fn role(share: f64) -> TextRole {
    match share {
        s if s < 0.03 => TextRole::Good,
        s if s < 0.1 => TextRole::Plain,
        _ => TextRole::Warning,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_compare::{NoiseFloor, RunNoise};

    use super::*;

    #[test]
    fn facts_and_noise_at_80_columns() {
        let check = |name, state, found: &str, cost: Option<&str>| {
            let (found, cost) = (found.to_owned(), cost.map(str::to_owned));
            MachineCheck { name, state, found, cost }
        };
        let cost = "the clock depends on temperature and on how many cores work; limits follow the clock that was held";
        let facts = [
            check("governor", CheckState::Good, "performance", None),
            check("turbo", CheckState::Costs, "on", Some(cost)),
            check("SMT", CheckState::Unknown, "none seen \u{1b}[2J", Some("a guest may not be told")),
        ];
        let stated = conclusion(&facts, &Style::plain(80));
        let wanted = "\n1 of 3 checks finds something that disturbs measurements: turbo\nok: ";
        assert!(stated.starts_with(wanted), "{stated}");
        assert!(conclusion(&facts[..1], &Style::plain(80)).contains("none of 1 checks"));
        let floor = |benchmark: &str, metric: &str, deviation, case: Option<&str>| {
            let (benchmark, metric) = (benchmark.to_owned(), metric.to_owned());
            let noise = RunNoise { deviation, freedom: 10.0, largest: 0.0 };
            NoiseFloor { benchmark, metric, case: case.map(str::to_owned), noise }
        };
        let floors = vec![
            floor("cpu.peak", "rate", 0.001, None),
            floor("disk.io", "throughput", 0.01, None),
            floor("disk.fsync", "latency", 0.08, None),
            floor("disk.fsync", "latency", 0.08, Some("disk.fsync/op=fsync")),
            floor("disk.fsync", "latency", 0.01, Some("disk.fsync/op=fdatasync")),
        ];
        let noise = Floors { rounds: 6, floors, ..Floors::default() };
        let style = Style::plain(80);
        insta::assert_snapshot!(checks(&facts, &style) + &super::floors(&noise, &style));
        assert!(super::floors(&Floors::default(), &style).contains("no case was measured twice"));
    }
}
