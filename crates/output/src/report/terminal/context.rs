//! Context of a group heading: the measured part of the machine.

use plimsoll_machine::Machine;
use plimsoll_model::measurement::Measurement;
use plimsoll_result::document::Run;
use plimsoll_units::text::format_count;

/// Returns the host name, or the number of machines; `None` if a single machine has no name.
pub(crate) fn host_or_count(run: &Run) -> Option<String> {
    match run.nodes.len() {
        0 | 1 => run.machine.host.clone(),
        count => Some(format_count(count, "machine")),
    }
}

pub(crate) fn title(subsystem: &str) -> &str {
    plimsoll_bench::subsystem(subsystem).map_or(subsystem, |part| part.title)
}

/// Returns facts about the measured part of the machine (CPU, disk …), the most relevant first.
pub(crate) fn context(machine: &Machine, first: &Measurement) -> Vec<String> {
    (plimsoll_bench::subsystem_of(&first.case).context)(machine, first)
}

#[cfg(test)]
mod tests {
    use plimsoll_result::fixture;

    use super::*;

    #[test]
    fn each_subsystem_tells_what_it_measures() {
        let run = fixture::run();
        let of = |index: usize| context(&run.machine, &run.measurements[index]).join(" · ");
        assert_eq!(of(0), "AMD EPYC 9R14 · Zen 4 · 2 CPUs on 1 core · Firecracker");
        assert_eq!(of(3), "24 GiB");
        assert_eq!(of(7), "/srv/data · ext4 · vda virtio (host may cache) · direct I/O");
        assert_eq!(of(11), "loopback: memory, not a link");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut machine = fixture::machine();
        machine.storage = None;
        machine.memory.total_bytes = None;
        let run = fixture::run();
        assert!(context(&machine, &run.measurements[7]).is_empty());
        assert!(context(&machine, &run.measurements[3]).is_empty());
    }
}
