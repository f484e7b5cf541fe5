//! Limits of what MPI moves between machines: the line's rate less what frames cost, where an interface of the kernel was
//! seen to carry it. Of times nothing is derived: what cables, switches and the library take is not known.

use super::{PATH_KERNEL, PATH_SEVERAL, What, what};
use crate::limit::frame::{ETHERNET, IPV4_HEADER, PASSED_BY, TCP_HEADER, stated};
use crate::limit::user::OF_VIRTUAL_DEVICES;
use crate::limit::{Input, Kind, Limit, Question, Source};
use crate::network::condition::{PATH_MTU, PATH_SPEED};

/// Headers of IPv4 (RFC 791) and TCP (RFC 9293) in each packet.
const HEADERS: f64 = IPV4_HEADER + TCP_HEADER;

/// Limits of these benchmarks.
pub(super) fn limits(question: &Question<'_>) -> Vec<Limit> {
    if let Some(What::Windows { .. }) = what(question.case) {
        return vec![ceiling(question)];
    }
    let why = "nothing bounds it that is known: neither the cables' length nor what switches take; give it by --limits";
    vec![Limit::unknown(Kind::Floor, why)]
}

fn ceiling(question: &Question<'_>) -> Limit {
    let unknown = |why: &str| Limit::unknown(Kind::Ceiling, why);
    let speed = match (question.condition(&PATH_KERNEL), question.condition(&PATH_SPEED)) {
        (Some(_), Some(speed)) => speed,
        (Some(seen), None) if seen > 0.5 => {
            return unknown(&format!(
                "the link's speed is unknown: the interface is software, or its driver does not tell; {OF_VIRTUAL_DEVICES}",
            ));
        }
        (Some(_), None) if question.condition(&PATH_SEVERAL).is_some() => {
            return unknown(
                "several interfaces carried it, each a part; give their rate together by --limits",
            );
        }
        (Some(_), None) => {
            return unknown(
                "no interface of the kernel carried it: shared memory of one host, or a network that passes the kernel by (RDMA); give its rate by --limits",
            );
        }
        (None, _) => return unknown("the pairs do not go the same way, or nothing was measured"),
    };
    let mut inputs = vec![Input::new(
        "speed",
        speed,
        "bit/s",
        "/sys/class/net of the interface whose counter grew by the bytes sent",
    )];
    let (share, formula) = match question.condition(&PATH_MTU).filter(|mtu| *mtu > HEADERS) {
        Some(mtu) => {
            inputs.push(Input::new("mtu", mtu, "B", "/sys/class/net of that interface"));
            inputs.push(Input::new("headers", HEADERS, "B", "IPv4 (RFC 791) and TCP (RFC 9293)"));
            inputs.push(Input::new(
                "ethernet",
                ETHERNET,
                "B",
                "preamble 8, header 14, check 4, gap 12 (IEEE 802.3)",
            ));
            ((mtu - HEADERS) / (mtu + ETHERNET), "speed ÷ 8 × (mtu − headers) ÷ (mtu + ethernet)")
        }
        None => (1.0, "speed ÷ 8"),
    };
    let limit = Limit::fixed(Kind::Ceiling, Source::Derived, speed / 8.0 * share, formula, inputs);
    stated(limit, question.machine).passed_by(PASSED_BY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::limit::Evidence;
    use crate::machine::{Machine, Root};
    use crate::sample::{Conditions, Sample};

    fn limit(conditions: &[(&str, f64)]) -> Limit {
        let more = conditions.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let samples =
            [Sample { conditions: Conditions { more, ..Conditions::default() }, ..Sample::default() }];
        let machine = Machine::discover(&Root::at("/nonexistent"));
        let case = Case::of("mpi.bandwidth").with_size("message", 1 << 20);
        let evidence = Evidence::default();
        let question =
            Question { machine: &machine, case: &case, metric: "throughput", samples: &samples, evidence };
        crate::limits(&question).remove(0)
    }

    #[test]
    fn a_line_that_carried_it_is_its_limit() {
        let found = limit(&[("path_kernel", 1.0), ("path_speed", 1e9), ("path_mtu", 1500.0)]);
        assert!((found.value.unwrap() - 1e9 / 8.0 * 1460.0 / 1538.0).abs() < 1.0, "{found:?}");
        assert_eq!(found.source, Source::Derived);
        assert_eq!(limit(&[("path_kernel", 1.0), ("path_speed", 8e9)]).value, Some(1e9));
        let of_all = limit(&[("path_kernel", 1.0), ("path_speed", 8e9), ("pairs", 3.0)]);
        assert_eq!((of_all.value, of_all.formula.as_str()), (Some(3e9), "pairs × speed ÷ 8"));
    }

    #[test]
    fn what_went_another_way_has_no_limit_and_the_reason() {
        for (conditions, why) in [
            (vec![], "same way"),
            (vec![("path_kernel", 0.0)], "shared memory"),
            (vec![("path_kernel", 0.0), ("path_several", 1.0)], "several interfaces"),
            (vec![("path_kernel", 1.0)], "software"),
        ] {
            let found = limit(&conditions);
            assert!(found.value.is_none() && found.reason.as_ref().unwrap().contains(why), "{found:?}");
        }
    }
}
