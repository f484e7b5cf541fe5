//! Consequences of unknown facts.

/// Prefix of a fact's name, the most specific first, and the effect of not knowing the fact.
const COSTS: [(&str, &str); 33] = [
    ("host", "runs of several machines are hard to tell apart"),
    ("kernel.release", "runs before and after an update look alike"),
    (
        "cpu.clock.max_hz",
        "it cannot be said how near the measured clock is to the highest; limits use the measured one",
    ),
    (
        "cpu.clock.base_hz",
        "it cannot be said whether the clock fell below nominal; limits use the measured one",
    ),
    ("cpu.allowed", "all online CPUs are taken to be allowed"),
    ("cpu.online", "threads cannot be placed"),
    ("cpu.sockets", "threads cannot be spread over sockets"),
    ("cpu.cores", "which CPUs share a core is unknown, and so is how many cores a limit may count"),
    ("cpu.caches", "memory sizes cannot be chosen by the caches: give them with --size"),
    ("cpu.flags", "kernels are chosen by the processor's own word alone"),
    ("cpu", "the microarchitecture is not known, so neither is the compute limit: give it with --limits"),
    ("memory.total", "sizes cannot be checked against the memory: give them with --size"),
    ("memory.available", "sizes cannot be checked against the memory: give them with --size"),
    ("memory.huge_pages", "measurements with huge pages are skipped"),
    ("memory.transparent", "it cannot be said which page size a measurement had"),
    ("memory.node", "memory cannot be placed by node, and remote access looks like local"),
    (
        "memory.modules",
        "memory is held to the most that the socket can carry, where that is known, and not to the channels in use",
    ),
    ("memory.swap", "swapping during a run may go unnoticed"),
    ("cgroup.cpuset", "CPUs may be used that the group does not allow"),
    ("cgroup.cpu", "a CPU quota may hold figures below the limit unnoticed"),
    ("cgroup.memory", "a memory limit may end a measurement without warning"),
    ("cgroup", "the group's bounds may go unnoticed"),
    ("storage", "there is no device limit for the test directory"),
    ("disks.", "there is no limit for that disk"),
    ("disks", "there is no limit for any disk"),
    ("network", "there is no line rate to hold the figure against: give it with --limits"),
    ("virtualisation.product", "the provider's rated figures cannot be looked up"),
    ("virtualisation", "it cannot be said whether other machines share this one"),
    ("state.load", "other load may go unnoticed before the start"),
    ("state.steal", "time taken by a hypervisor may go unnoticed"),
    ("state.pressure", "waiting for CPU, memory and I/O may go unnoticed"),
    ("state.turbo", "it cannot be said whether the clock may rise above nominal"),
    ("state", "disturbance may go unnoticed"),
];

pub(super) fn of(what: &str) -> Option<&'static str> {
    COSTS.iter().find(|(fact, _)| what.starts_with(fact)).map(|(_, cost)| *cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_more_specific_name_comes_first() {
        for (at, (fact, _)) in COSTS.iter().enumerate() {
            let earlier = COSTS[..at].iter().find(|(before, _)| fact.starts_with(before));
            assert_eq!(earlier, None, "{fact} is hidden");
        }
    }
}
