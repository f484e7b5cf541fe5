//! Amount of data in a sample: the sample time, or the fixed `--volume` or `--count`.

use std::time::Duration;

use crate::fact::MESSAGE_COUNT;
use crate::warning::NetworkWarning;
use plimsoll_bench_api::fixed::{Scaling, scaling};
use plimsoll_bench_api::prelude::*;
use plimsoll_model::job::disk::TransferAmount;
use plimsoll_model::job::network::NetworkStreams;
use plimsoll_server::traffic::{MAX_FIXED_DURATION, nanos};
use plimsoll_server::wire::{MAX_MESSAGES, OrderedAmount, Welcome};

const FIXED_AMOUNT_KEYS: [&str; 2] = ["volume", "count"];

pub(super) fn check(group: &Group) -> Result<(), String> {
    match FIXED_AMOUNT_KEYS.map(|key| group.asked(key)) {
        [true, true] => Err("--volume and --count are mutually exclusive".to_owned()),
        [false, false] if group.asked("scaling") => Err("--scaling requires --volume or --count".to_owned()),
        _ => Ok(()),
    }
}

/// Returns the messages per sample, of all streams, that `volume` or `count` fixes; else `None`.
pub(super) fn messages(case: &Case) -> Result<Option<u64>, String> {
    let scaling = scaling(case)?;
    let NetworkStreams { message, streams, amount, .. } = NetworkStreams::of(case);
    let (bytes, streams) = (message.unwrap_or(1).max(1), streams.max(1));
    let (key, asked, each) = match amount {
        Some(TransferAmount::Bytes(volume)) => ("volume", volume / bytes, bytes),
        Some(TransferAmount::Transfers(count)) => ("count", count, 1),
        None => return Ok(None),
    };
    let (least, all) = match scaling {
        Scaling::Weak => (1, asked.checked_mul(streams)),
        Scaling::Strong => (streams, Some(asked)),
    };
    let shown = |messages: u64| match key {
        "volume" => format_size(messages.saturating_mul(each)),
        _ => messages.to_string(),
    };
    match all {
        _ if asked < least => {
            Err(format!("{key} must be at least {}, a message for each stream", shown(least)))
        }
        Some(all) if all <= MAX_MESSAGES => Ok(Some(all)),
        _ => Err(format!("{key} must be at most {}", shown(MAX_MESSAGES / streams))),
    }
}

/// Fails if the limits of `server` do not allow one message of `message` bytes per stream.
pub(super) fn check_server_limits(server: &Welcome, streams: u16, message: u32) -> Result<(), CannotMeasure> {
    let bits = f64::from(streams) * f64::from(message) * 8.0;
    let (needed, allowed) = (bits / server.max_rate as f64, server.max_nanos as f64 * 1e-9);
    if needed <= allowed {
        return Ok(());
    }
    Err(CannotMeasure::server_failed(format!(
        "one message of each stream takes {needed:.0} s at the server's --max-rate ({}), and the server allows transfers of {allowed:.0} s; use a smaller --message or fewer --streams, or start the server with a higher --max-rate",
        Quantity { value: server.max_rate as f64, unit: Unit::BitPerSecond }
    )))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FixedTransfer {
    pub(super) messages: u64,
    moved: u64,
}

impl FixedTransfer {
    pub(super) fn new(messages: u64) -> Self {
        Self { messages, moved: messages }
    }

    pub(super) fn moved(&mut self, messages: u64) {
        self.moved = self.moved.min(messages);
    }

    /// Records the number of moved messages, with a warning if it is below the fixed amount.
    pub(super) fn note(&self, facts: &mut Facts) {
        facts.achieved.set(&MESSAGE_COUNT, self.moved);
        if self.moved < self.messages {
            let (moved, wanted, seconds) = (self.moved, self.messages, MAX_FIXED_DURATION.as_secs());
            facts.warnings.push(NetworkWarning::VolumeCut { moved, wanted, seconds }.into());
        }
    }
}

/// Returns the amount to request for a sample: `fixed` if given, else `wanted`, but at least one
/// message per stream.
pub(super) fn amount_of_sample(
    fixed: Option<FixedTransfer>,
    wanted: SampleAmount,
    streams: u16,
) -> OrderedAmount {
    let streams = u64::from(streams);
    match (fixed, wanted) {
        (Some(fixed), _) => OrderedAmount::Messages(fixed.messages),
        (None, SampleAmount::Work(messages)) => OrderedAmount::Messages(messages.max(streams)),
        (None, SampleAmount::Seconds(s)) if s > 0.0 => {
            OrderedAmount::Nanos(nanos(Duration::from_secs_f64(s.min(86_400.0))))
        }
        (None, SampleAmount::Seconds(_)) => OrderedAmount::Messages(streams),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::welcome;
    use plimsoll_server::wire::Shaping;

    fn case(streams: u64) -> Case {
        Case::of("network.tcp").with_size("message", 1000).with_count("streams", streams)
    }

    #[test]
    fn an_amount_is_each_streams_or_all_streams_together() {
        let volume = |streams, scaling: &str| {
            messages(&case(streams).with_size("volume", 10_500).with_word("scaling", scaling))
        };
        assert_eq!(volume(4, "weak"), Ok(Some(40)));
        assert_eq!(volume(4, "strong"), Ok(Some(10)));
        assert!(volume(16, "strong").unwrap_err().contains("at least 16000"));
        assert_eq!(messages(&case(4)), Ok(None));
        assert_eq!(messages(&case(4).with_count("count", 7)), Ok(Some(28)));
        assert!(messages(&case(4).with_count("count", 0)).unwrap_err().starts_with("count"));
        for count in [u64::MAX, MAX_MESSAGES / 4 + 1] {
            let error = messages(&case(4).with_count("count", count)).unwrap_err();
            assert!(error.contains(&(MAX_MESSAGES / 4).to_string()), "{error}");
        }
        assert!(messages(&case(1).with_count("count", 1).with_word("scaling", "x")).is_err());
    }

    #[test]
    fn what_the_caps_never_let_through_is_refused_with_what_would_be_right() {
        let server = welcome(400_000, Shaping::default());
        assert!([1, 22].iter().all(|streams| check_server_limits(&server, *streams, 128 << 10).is_ok()));
        let error = check_server_limits(&server, 64, 128 << 10).unwrap_err().reason;
        assert!(error.contains("168 s") && error.contains("400 kbit/s"), "{error}");
        assert!(error.contains("--message") && error.contains("--streams"), "{error}");
    }

    #[test]
    fn a_fixed_amount_stands_over_what_the_run_wants() {
        let wanted = SampleAmount::Seconds(0.5);
        let nine = Some(FixedTransfer::new(9));
        assert_eq!(amount_of_sample(nine, wanted, 4), OrderedAmount::Messages(9));
        assert_eq!(amount_of_sample(None, wanted, 4), OrderedAmount::Nanos(500_000_000));
        assert_eq!(amount_of_sample(None, SampleAmount::Seconds(0.0), 4), OrderedAmount::Messages(4));
        assert_eq!(amount_of_sample(None, SampleAmount::Work(2), 4), OrderedAmount::Messages(4));
    }

    #[test]
    fn what_was_cut_is_told_and_what_was_not_has_no_warning() {
        let mut fixed = FixedTransfer::new(28);
        let reported = |fixed: &FixedTransfer| {
            let mut facts = Facts::default();
            fixed.note(&mut facts);
            (facts.achieved.get(&MESSAGE_COUNT), facts.warnings)
        };
        fixed.moved(28);
        assert_eq!(reported(&fixed), (Some(28), Vec::new()));
        [20, 28].into_iter().for_each(|messages| fixed.moved(messages));
        let (messages, warnings) = reported(&fixed);
        assert_eq!((messages, warnings[0].code()), (Some(20), "volume-cut"));
        assert!(warnings[0].to_string().starts_with("only 20 of 28 messages were moved in 60 s"));
    }

    #[test]
    fn two_amounts_and_a_scaling_of_nothing_are_refused() {
        let checked = |lists| check(&plimsoll_model::fixture::parse_group(lists));
        assert!(checked("count=5").is_ok() && checked("count=5/scaling=strong").is_ok());
        assert!(checked("count=5/volume=5").is_err());
        assert!(checked("scaling=strong").unwrap_err().contains("--count"));
    }
}
