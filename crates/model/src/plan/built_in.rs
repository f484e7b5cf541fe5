//! Built-in plans, as plan files.

/// A built-in plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Plan file.
    pub text: &'static str,
    /// Whether it repeats the experiments of a published report.
    pub is_published: bool,
}

const fn plan(name: &'static str, about: &'static str, text: &'static str) -> BuiltIn {
    BuiltIn { name, about, text, is_published: false }
}

const fn published(name: &'static str, about: &'static str, text: &'static str) -> BuiltIn {
    BuiltIn { is_published: true, ..plan(name, about, text) }
}

/// All built-in plans, in the order of help and lists.
pub const BUILT_IN: &[BuiltIn] = &[
    plan(
        "quick",
        "CPU, memory, disk and network in less than a minute: the default",
        include_str!("built_in/quick.toml"),
    ),
    plan(
        "standard",
        "CPU, memory, disk, network and kernel in about ten minutes",
        include_str!("built_in/standard.toml"),
    ),
    plan(
        "thorough",
        "CPU, memory, disk and network, more cases and samples: two hours, or --budget",
        include_str!("built_in/thorough.toml"),
    ),
    plan(
        "gate",
        "what plimsoll gate measures in 15 seconds; its runs give the gate usual figures",
        include_str!("built_in/gate.toml"),
    ),
    plan("watch", "what plimsoll watch measures in each probe", include_str!("built_in/watch.toml")),
    plan(
        "steady",
        "what plimsoll steady measures before and after a command",
        include_str!("built_in/steady.toml"),
    ),
    plan(
        "chains",
        "arithmetic by the number of independent instruction chains, at each vector width",
        include_str!("built_in/chains.toml"),
    ),
    plan(
        "mpi",
        "MPI between the machines of run --hosts, with the installed OSU micro-benchmarks",
        include_str!("built_in/mpi.toml"),
    ),
    published(
        "ec2-t2micro",
        "report on an EC2 t2.micro: CPU, disk, network; an hour without --scale",
        include_str!("built_in/ec2-t2micro.toml"),
    ),
    published(
        "chameleon-baremetal",
        "report on a Chameleon node: CPU, memory, disk, network; 20 minutes without --scale",
        include_str!("built_in/chameleon-baremetal.toml"),
    ),
    published(
        "chameleon-kvm",
        "report on Chameleon instances: CPU, memory, disk, network; 35 minutes without --scale",
        include_str!("built_in/chameleon-kvm.toml"),
    ),
    published(
        "hyperion-prometheus",
        "report on the cluster Hyperion: CPU, memory blocks, disk, network; two hours without --scale",
        include_str!("built_in/hyperion-prometheus.toml"),
    ),
    published(
        "ec2-t2micro-java",
        "report on an EC2 t2.micro measured in Java: CPU, disk, network; an hour without --scale",
        include_str!("built_in/ec2-t2micro-java.toml"),
    ),
];

/// Returns the built-in plan with this name, such as `quick`; `None` if there is none.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|plan| plan.name == name)
}

/// Returns the published plans whose names share the most words with `typed` (a title), if any.
pub fn titled(typed: &str) -> Vec<&'static BuiltIn> {
    let typed: String = typed.chars().filter(char::is_ascii_alphanumeric).collect();
    let typed = typed.to_ascii_lowercase();
    let is_named = |word: &&str| typed.contains(word) || (typed.len() >= 3 && word.contains(&typed));
    let rated: Vec<(usize, &BuiltIn)> = BUILT_IN
        .iter()
        .filter(|plan| plan.is_published)
        .map(|plan| (plan.name.split('-').filter(is_named).count(), plan))
        .collect();
    let most = rated.iter().map(|(count, _)| *count).max().unwrap_or(0);
    rated.into_iter().filter(|(count, _)| most > 0 && *count == most).map(|(_, plan)| plan).collect()
}

/// Returns the names of all built-in plans.
pub fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|plan| plan.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_or_a_part_of_it_names_its_plans() {
        let names = |typed: &str| titled(typed).iter().map(|plan| plan.name).collect::<Vec<_>>();
        assert_eq!(names("Hyperion"), ["hyperion-prometheus"]);
        assert_eq!(names("Evaluation of Hyperion and Prometheus"), ["hyperion-prometheus"]);
        assert_eq!(names("Benchmarks on Chameleon (bare metal)"), ["chameleon-baremetal"]);
        assert_eq!(names("chameleon"), ["chameleon-baremetal", "chameleon-kvm"]);
        assert_eq!(names("Amazon EC2 t2.micro, in Java"), ["ec2-t2micro-java"]);
        assert_eq!(names("t2 micro"), ["ec2-t2micro", "ec2-t2micro-java"]);
        for typed in ["", "t2", "cloud", "investigate", "standard"] {
            assert!(names(typed).len() != 1, "{typed}");
        }
    }
}
