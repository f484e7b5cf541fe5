use proptest::prelude::*;

use super::*;

fn transfers(id: &str) -> Result<DiskTransfers, String> {
    DiskTransfers::of(&format!("disk.io/{id}").parse().expect("an id"))
}

proptest! {
    #[test]
    fn any_target_is_read_or_refused_in_one_line(text in "p[0-9.]{1,4}[=:][0-9]{1,3}(ms|us|s)|\\PC{0,20}") {
        match LatencyTarget::parse(&text) {
            Ok(target) => prop_assert_eq!(LatencyTarget::parse(&target.to_string()), Ok(target)),
            Err(error) => prop_assert!(!error.contains('\n')),
        }
    }
}

#[test]
fn what_a_case_leaves_out_has_its_default() {
    let plain = transfers("block=4K").expect("a job");
    assert_eq!((plain.operation, plain.order), (DiskOperation::Read, BlockOrder::Random));
    assert_eq!((plain.depth, plain.threads, plain.in_flight(), plain.has_one_in_flight()), (1, 1, 1.0, true));
    assert_eq!((plain.engine, plain.cache, plain.shared), (DiskEngine::PLAIN, CacheMode::Direct, false));
    assert_eq!((plain.through, plain.flush), (WriteThrough::No, Flush::Never));
    assert_eq!((plain.open_loop, plain.target, plain.amount), (None, None, None));
    assert_eq!(transfers("op=mixed").unwrap().operation, DiskOperation::Mixed { read_share: 70 });
    assert_eq!(transfers("op=read").unwrap().mean_block(), None);
}

#[test]
fn words_are_read_back_as_they_are_named() {
    for (word, engine) in DiskEngine::ALL {
        assert_eq!((transfers(&format!("engine={word}")).unwrap().engine, engine.word()), (*engine, *word));
    }
    assert_eq!(DiskEngine::parse_synchronous("psync"), Some(DiskEngine::Psync));
    assert_eq!(DiskEngine::parse_synchronous("libaio"), None);
    assert!(transfers("engine=null").is_err(), "what does nothing measures no disk");
    for (word, operation) in DiskOperation::ALL {
        assert_eq!(operation.word(), *word);
    }
    assert_eq!(DiskOperation::Mixed { read_share: 1 }.word(), "mixed");
    for word in ["direct", "buffered", "cold"] {
        assert_eq!(transfers(&format!("cache={word}")).unwrap().cache.word(), word);
    }
    assert_eq!(transfers("block=4K").unwrap().blocks.to_string(), "4K");
    assert_eq!(transfers("block=4K@60+64K@40").unwrap().blocks.to_string(), "4K@60+64K@40");
}

#[test]
fn what_is_no_value_is_told_by_parameter() {
    for (id, why) in [
        ("op=rewrite", "op must be one of read, write"),
        ("pattern=gauss", "pattern must be one of sequential"),
        ("pattern=zipf:0", "pattern zipf:EXPONENT must"),
        ("pattern=zoned:50-5", "pattern zoned must"),
        ("engine=posixaio", "engine must be one of io_uring"),
        ("sync=every:0", "sync every:N must"),
        ("sync=fsync:0", "sync every:N must"),
        ("sync=often", "sync must be none"),
        ("read-share=101", "read-share must be between 0 and 100"),
        ("arrivals=even", "--arrivals requires --rate"),
        ("scaling=strong", "--scaling requires --volume or --count"),
        ("volume=1M/count=5", "--volume and --count are mutually exclusive"),
    ] {
        let error = transfers(id).expect_err(id);
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn a_fixed_amount_is_a_number_of_transfers() {
    let fixed = |id: &str| transfers(id).unwrap().fixed_transfers();
    assert_eq!(fixed("block=4K/volume=40K"), Some(10));
    assert_eq!(fixed("block=1M/volume=40K"), Some(1), "one at the least");
    assert_eq!(fixed("block=4K/count=7"), Some(7));
    assert_eq!(fixed("block=4K"), None);
}
