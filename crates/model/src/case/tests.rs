use super::*;
use proptest::prelude::*;

fn any_value(kind: ValueKind) -> BoxedStrategy<Value> {
    match kind {
        ValueKind::Size => any::<u64>().prop_map(Value::Size).boxed(),
        ValueKind::Sizes => prop_oneof![
            any::<u64>().prop_map(Value::Size),
            (1u64..1 << 40, 1u32..100).prop_map(|(bytes, weight)| {
                let parts = [(bytes, weight), (bytes + 1, 1)];
                let parts = parts.map(|(bytes, weight)| quantity::MixPart { bytes, weight });
                Value::Mix(Mix::try_from(parts.to_vec()).unwrap())
            }),
        ]
        .boxed(),
        ValueKind::Count => (0..=1u64 << 53).prop_map(Value::Count).boxed(),
        ValueKind::Time => {
            any::<u32>().prop_map(|ms| Value::Time(Duration::from_millis(u64::from(ms)))).boxed()
        }
        ValueKind::Rate => (0u32..).prop_map(|r| Value::Rate(f64::from(r))).boxed(),
        ValueKind::Switch => "on|off".prop_map(Value::Word).boxed(),
        ValueKind::Word => "[^\\x00]{1,20}".prop_map(Value::Word).boxed(),
    }
}

fn any_case() -> impl Strategy<Value = Case> {
    let params =
        proptest::sample::subsequence(KEYS.to_vec(), 0..KEYS.len()).prop_shuffle().prop_flat_map(|keys| {
            keys.into_iter().map(|k| any_value(k.kind).prop_map(move |v| (k.name, v))).collect::<Vec<_>>()
        });
    ("[a-z]{1,8}\\.[a-z-]{1,12}", params).prop_map(|(b, params)| Case { benchmark: b, params })
}

proptest! {
    #[test]
    fn an_id_round_trips(case in any_case()) {
        let id = case.id().to_string();
        prop_assume!(id.len() <= MAX_ID);
        prop_assert_eq!(id.parse::<Case>(), Ok(case.clone()));
        prop_assert!(id.chars().all(|c| c.is_ascii_graphic()));
        let json = serde_json::to_string(&case).unwrap();
        prop_assert_eq!(serde_json::from_str::<Case>(&json).unwrap(), case);
    }

    #[test]
    fn any_text_gives_a_case_or_an_error_of_one_line(text in "\\PC{0,40}|[a-z./=%0-9K]{0,40}|.{0,20}") {
        if let Err(e) = text.parse::<Case>() {
            prop_assert!(!e.to_string().contains('\n'), "{e}");
        }
    }
}

#[test]
fn sizes_print_canonical_and_params_hold_bytes() {
    let case: Case = "disk.io/op=read/block=4096/threads=2".parse().unwrap();
    assert_eq!(case.id().as_str(), "disk.io/op=read/block=4K/threads=2");
    let json = serde_json::to_value(&case).unwrap();
    assert_eq!(json["params"]["block"], 4096);
    assert_eq!(json["benchmark"], "disk.io");
}

#[test]
fn a_misspelt_parameter_names_the_nearest() {
    let error = "cpu.peak/thread=2".parse::<Case>().unwrap_err();
    assert_eq!(error.to_string(), "unknown parameter 'thread'; did you mean 'threads'?");
}
