use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::Machine;
use plimsoll_model::case::{Case, nearest};

use super::search::NOT_INSTALLED;
use super::{InstalledTool, Match, Package, Pairing, ProgramSearch, REF_TOOLS, RefTool, find};

/// Which tools `--against` selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Against {
    /// No tool.
    #[default]
    NoTool,
    /// One installed tool per metric: the closest definition, then the shortest reading.
    Installed,
    /// Every installed tool with a metric of the case.
    All,
    /// These tools, installed or not.
    Named(Vec<&'static str>),
    /// These tools, installed or not. An installed tool with faster readings and a definition at
    /// least as close replaces one with readings above 5 s. For plans that are scaled down.
    NamedOrQuicker(Vec<&'static str>),
}

/// Seconds. IOzone 3.489 sleeps 8 to 14 s in each call that starts several processes.
const LONG_READING_S: f64 = 5.0;

impl Against {
    /// Parses the value of `option`, such as `--against`: no word, `installed`, `all` or names of
    /// tools. Fails for an unknown name.
    pub fn parse(option: &str, words: &[String]) -> Result<Self, String> {
        match words {
            [] => Ok(Against::NoTool),
            [one] if one == "installed" => Ok(Against::Installed),
            [one] if one == "all" => Ok(Against::All),
            names => names.iter().map(|one| known(option, one)).collect::<Result<_, _>>().map(Against::Named),
        }
    }
}

fn known(option: &str, name: &str) -> Result<&'static str, String> {
    find(name).map(|tool| tool.name).ok_or_else(|| {
        if ["installed", "all"].contains(&name) {
            return format!("{option} {name} and names of tools are mutually exclusive");
        }
        let shown = plimsoll_units::text::shown(name);
        let names: Vec<&str> = REF_TOOLS.iter().map(|tool| tool.name).collect();
        let near = nearest(name, names.iter().copied()).map(|near| format!("did you mean '{near}'?"));
        let list = || format!("tools are {}, or installed, or all", names.join(", "));
        format!("{option} must name reference tools: '{shown}' is not one; {}", near.unwrap_or_else(list))
    })
}

/// Returns a sentence for each tool that is requested by name and can check no case of `asked`.
pub fn tools_without_cases<'a>(
    asked: impl Iterator<Item = (&'a Against, &'a Case)>,
    machine: &Machine,
) -> Vec<String> {
    let mut speaks: BTreeMap<&str, bool> = BTreeMap::new();
    for (against, case) in asked {
        let (Against::Named(names) | Against::NamedOrQuicker(names)) = against else { continue };
        for ref_tool in REF_TOOLS.iter().filter(|ref_tool| names.contains(&ref_tool.name)) {
            let says = pairing(ref_tool, case, machine).is_some() || ref_tool.reason(case).is_some();
            *speaks.entry(ref_tool.name).or_default() |= says;
        }
    }
    let silent = REF_TOOLS.iter().filter(|tool| speaks.get(tool.name) == Some(&false));
    let reported = |tool: &&RefTool| {
        format!("--against {}: it can check no case of this run, only {}", tool.name, tool.checks)
    };
    silent.map(reported).collect()
}

pub(super) struct Choice {
    pub tool: &'static RefTool,
    pub pairing: Pairing,
    /// The installed tool, or why there is none.
    pub found: Result<InstalledTool, String>,
}

impl Choice {
    /// Reduces the comparison to one pair at most, and the time to that of the smallest problem.
    pub(super) fn scale_down(&mut self) {
        self.pairing.pairs = self.pairing.pairs.min(1);
        self.pairing.seconds = self.pairing.seconds_scaled_down.unwrap_or(self.pairing.seconds);
    }
}

/// Selects the tools that check `case`, installed or not, in the order of [`REF_TOOLS`]. `plan` has
/// the names of all benchmarks of the run: some tools are only for runs with certain benchmarks.
pub(super) fn choose_tools(
    against: &Against,
    search: &ProgramSearch,
    plan: &BTreeSet<String>,
    case: &Case,
    machine: &Machine,
) -> Vec<Choice> {
    let is_wanted =
        |tool: &&&RefTool| tool.only_with.is_empty() || tool.only_with.iter().any(|b| plan.contains(*b));
    let installed = REF_TOOLS.iter().filter(is_wanted).filter_map(|&tool| {
        let pairing = pairing(tool, case, machine)?;
        let found = InstalledTool::find_programs(tool, search).ok()?;
        Some(Choice { tool, pairing, found: Ok(found) })
    });
    match against {
        Against::NoTool => Vec::new(),
        Against::Named(names) => {
            let named = REF_TOOLS.iter().copied().filter(|ref_tool| names.contains(&ref_tool.name));
            named.filter_map(|ref_tool| choose_named(ref_tool, search, case, machine)).collect()
        }
        Against::NamedOrQuicker(names) => {
            let named = choose_tools(&Against::Named(names.clone()), search, plan, case, machine);
            let quicker = |mut choice: Choice| {
                choice.scale_down();
                if choice.found.is_err() || choice.pairing.seconds <= LONG_READING_S {
                    return choice;
                }
                let all = choose_tools(&Against::All, search, plan, case, machine).into_iter();
                let Pairing { metric, definition, seconds, .. } = choice.pairing;
                let is_quicker = |other: &Pairing| {
                    other.metric == metric && other.definition <= definition && other.seconds < seconds
                };
                all.filter(|other| is_quicker(&other.pairing))
                    .min_by(|one, other| one.pairing.seconds.total_cmp(&other.pairing.seconds))
                    .unwrap_or(choice)
            };
            named.into_iter().map(quicker).collect()
        }
        Against::All => installed.collect(),
        Against::Installed => {
            let mut best: BTreeMap<&str, Choice> = BTreeMap::new();
            for choice in installed {
                let metric = choice.pairing.metric;
                let key = |choice: &Choice| (choice.pairing.definition, choice.pairing.seconds);
                if best.get(metric).is_none_or(|known| key(&choice) < key(known)) {
                    best.insert(metric, choice);
                }
            }
            best.into_values().collect()
        }
    }
}

/// Returns which metric of `case` the tool measures, too; `None` if none, or on a fixed NUMA node.
fn pairing(ref_tool: &RefTool, case: &Case, machine: &Machine) -> Option<Pairing> {
    if case.node().is_some() { None } else { (ref_tool.pairing)(case, machine) }
}

/// Returns the tool and its pairing, or why it cannot check `case`; `None` if it is unrelated.
fn choose_named(
    ref_tool: &'static RefTool,
    search: &ProgramSearch,
    case: &Case,
    machine: &Machine,
) -> Option<Choice> {
    if let Some(pairing) = pairing(ref_tool, case, machine) {
        let found = InstalledTool::find_programs(ref_tool, search);
        let found = found.map_err(|why| format!("{why}; {}", remedy(ref_tool, search, &why)));
        return Some(Choice { tool: ref_tool, pairing, found });
    }
    let declined = ref_tool.reason(case)?;
    let why = if case.node().is_some() { "its memory is that of its threads' own nodes" } else { declined };
    let metric = plimsoll_bench::find(case.benchmark())?.metrics(case).first()?.name;
    let pairing = Pairing { pairs: 0, ..Pairing::new(metric, Match::Related, "", 0.0) };
    Some(Choice { tool: ref_tool, pairing, found: Err(why.to_owned()) })
}

/// Returns how to make a tool usable that is unavailable because of `why`: a command or advice.
pub fn remedy(tool: &RefTool, search: &ProgramSearch, why: &str) -> String {
    let name = tool.name;
    match why == NOT_INSTALLED {
        true => how_to_get(tool.package),
        false if search.named.contains_key(name) => {
            format!("use its program, or leave out --reference-path {name}")
        }
        false => format!("fix that, or use a trusted one with --reference-path {name}=FILE"),
    }
}

/// Returns one line for each program of a reference tool on the search path that is not trusted.
pub fn untrusted_programs(search: &ProgramSearch) -> Vec<String> {
    let of_tool = |tool: &&RefTool| [Some(tool.program.unwrap_or(tool.name)), tool.server];
    let programs: BTreeSet<&str> = REF_TOOLS.iter().flat_map(of_tool).flatten().collect();
    programs.into_iter().flat_map(|program| search.refused(program)).collect()
}

/// Returns the command that installs a package, such as `apt-get install fio`.
pub fn how_to_get(package: Package) -> String {
    match package {
        Package::Debian(name) => format!("apt-get install {name}"),
        Package::DebianNonFree(name) => format!("apt-get install {name} (Debian's non-free section)"),
        Package::Source(command) => format!("{command}; then name its program by --reference-path"),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::Root;

    use super::super::{Selection, Trust};
    use super::*;
    use crate::search::tests::program;

    #[test]
    fn a_named_tool_that_fits_no_case_is_told() {
        let machine = Machine::discover(&Root::live());
        let case = |id: &str| -> Case { id.parse().unwrap() };
        let cases = [case("memory.bandwidth/op=triad/size=512M/threads=1"), case("null")];
        let reported = |asked: &Against| tools_without_cases(cases.iter().map(|c| (asked, c)), &machine);
        let lines = reported(&Against::Named(vec!["stream", "iozone", "ping"]));
        assert_eq!(lines.len(), 2, "{lines:?}");
        for name in ["iozone", "ping"] {
            let begin = format!("--against {name}: ");
            assert_eq!(lines.iter().filter(|line| line.starts_with(&begin)).count(), 1, "{name}: {lines:?}");
        }
        assert_eq!(reported(&Against::All), [""; 0]);
        assert_eq!(reported(&Against::NoTool), [""; 0]);
    }

    #[test]
    fn no_tool_is_paired_with_the_memory_of_a_stated_node() {
        let machine = Machine::discover(&Root::live());
        let case = Case::of("memory.bandwidth").with_word("op", "copy").with_size("size", 1 << 30);
        let paired = |case: &Case| {
            REF_TOOLS.iter().filter(|ref_tool| pairing(ref_tool, case, &machine).is_some()).count()
        };
        assert!(paired(&case.clone().with_count("threads", 1)) > 1);
        assert_eq!(paired(&case.with_count("node", 0).with_count("threads", 1)), 0);
    }

    fn installed(programs: &[&str]) -> (tempfile::TempDir, ProgramSearch, Machine) {
        let dir = tempfile::tempdir().unwrap();
        programs.iter().for_each(|name| drop(program(dir.path(), name, 0o755)));
        let search = ProgramSearch::new(dir.path().as_os_str(), BTreeMap::new(), Trust::here());
        (dir, search, Machine::discover(&Root::live()))
    }

    #[test]
    fn a_tool_that_sleeps_long_is_replaced_by_an_installed_one_in_a_scaled_plan() {
        let case = |threads: u8| -> Case {
            let id = "disk.io/op=read/pattern=random/block=1M/depth=1/engine=psync/cache=direct/size=80M";
            format!("{id}/threads={threads}").parse().unwrap()
        };
        let taken = |programs: &[&str], against: &Against, threads: u8| -> Vec<&'static str> {
            let (_dir, search, machine) = installed(programs);
            let chosen = choose_tools(against, &search, &BTreeSet::new(), &case(threads), &machine);
            chosen.iter().map(|c| c.tool.name).collect()
        };
        let (named, quicker) = (Against::Named(vec!["iozone"]), Against::NamedOrQuicker(vec!["iozone"]));
        let both = ["iozone", "fio"];
        assert_eq!(taken(&both, &named, 4), ["iozone"]);
        assert_eq!(taken(&both, &quicker, 4), ["fio"]);
        assert_eq!(taken(&both, &quicker, 1), ["iozone"], "one process of it does not sleep");
        assert_eq!(taken(&["iozone"], &quicker, 4), ["iozone"], "nothing else is installed");
        assert_eq!(taken(&["fio"], &quicker, 4), ["iozone"], "what is named and missing has its place");
    }

    #[test]
    fn a_tool_with_a_smaller_problem_is_not_replaced_in_a_scaled_plan() {
        let (_dir, search, machine) = installed(&["hpcc", "bw_mem"]);
        let case: Case = "memory.bandwidth/op=copy/size=1000000000/threads=1".parse().unwrap();
        let against = Against::NamedOrQuicker(vec!["hpcc"]);
        let chosen = choose_tools(&against, &search, &BTreeSet::new(), &case, &machine);
        let used: Vec<_> = chosen.iter().filter_map(|c| Some(c.found.as_ref().ok()?.ref_tool.name)).collect();
        assert_eq!(used, ["hpcc"]);
        let seconds = |is_scaled_down: bool| {
            let selection = Selection { is_scaled_down, ..Selection::all(search.clone()) };
            selection.seconds(&Against::Named(vec!["hpcc"]), &case, &machine)
        };
        assert!(seconds(true) <= LONG_READING_S && seconds(true) < seconds(false), "{}", seconds(true));
    }

    #[test]
    fn a_scaled_plan_has_one_pair_of_each_tool_and_is_expected_to_take_that_long() {
        let (_dir, search, machine) = installed(&["stream"]);
        let case: Case = "memory.bandwidth/op=triad/size=1000000000/threads=1".parse().unwrap();
        let all = Selection::all(search);
        let few = Selection { is_scaled_down: true, ..all.clone() };
        let [all, few] = [all, few].map(|selection| selection.seconds(&Against::All, &case, &machine));
        assert!(few > 0.0 && (all / few - 5.0).abs() < 1e-9, "{all} {few}");
    }

    #[test]
    fn linpack_is_taken_where_the_plan_has_it_with_three_pairs() {
        let (_dir, search, machine) = installed(&["hpcc", "xhpl", "xlinpack_xeon64", "stream"]);
        let taken = |against: &Against, plan: &[&str], case: &str| -> Vec<(&'static str, usize)> {
            let plan = plan.iter().map(|name| (*name).to_owned()).collect();
            let chosen = choose_tools(against, &search, &plan, &case.parse().unwrap(), &machine);
            let mut tools: Vec<_> = chosen.iter().map(|c| (c.tool.name, c.pairing.pairs)).collect();
            tools.sort_unstable();
            tools
        };
        let triad = "memory.bandwidth/op=triad/size=1000000000/threads=1";
        let linpack = "cpu.linpack/n=2000/nb=192/threads=1";
        // STREAM by hpcc takes as long as its HPL.
        assert_eq!(taken(&Against::All, &["memory.bandwidth"], triad), [("stream", 5)]);
        for plan in ["cpu.linpack", "cpu.hpl"] {
            let plan = ["memory.bandwidth", plan];
            assert_eq!(taken(&Against::All, &plan, triad), [("hpcc", 1), ("stream", 5)]);
            let all = [("hpcc", 3), ("xhpl", 3), ("xlinpack", 3)];
            assert_eq!(taken(&Against::All, &plan, linpack), all);
            let cheaper_exact = taken(&Against::Installed, &plan, linpack);
            assert_eq!(cheaper_exact, [("xhpl", 3)]);
        }
        assert_eq!(taken(&Against::Named(vec!["hpcc"]), &["memory.bandwidth"], triad), [("hpcc", 1)]);
    }
}
