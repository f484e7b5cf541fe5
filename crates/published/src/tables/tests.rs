use std::collections::BTreeSet;

use super::*;
use crate::{find, names};

#[test]
fn every_number_is_in_one_table_and_every_table_is_full_but_where_the_report_prints_nothing() {
    for name in names() {
        let baseline = find(name).unwrap();
        let tables = build_tables(&baseline);
        assert!(tables.iter().enumerate().all(|(at, table)| table.number == at + 1));
        let titles: BTreeSet<&String> = tables.iter().map(|table| &table.title).collect();
        assert_eq!(titles.len(), tables.len(), "{name}");
        let mut found: BTreeSet<*const PublishedFigure> = BTreeSet::new();
        for figure in tables.iter().flat_map(PublishedTable::figures) {
            assert!(found.insert(figure), "{name}: twice: {figure:?}");
        }
        let missing = baseline.figures.iter().find(|figure| !found.contains(&std::ptr::from_ref(*figure)));
        assert!(missing.is_none(), "{name}: in no table: {missing:?}");
        for table in tables.iter().filter(|table| table.kind == TableKind::Own) {
            assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
            let empty = table.rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.is_none()).count();
            // HPL ran in double precision only: nine rows have neither result nor efficiency.
            let expected = if (name, table.number) == ("hyperion-prometheus", 1) { 18 } else { 0 };
            assert_eq!(empty, expected, "{name} {}", table.title);
        }
    }
}

#[test]
fn rows_and_columns_are_those_of_the_reports() {
    let of_title = |name: &str, title: &str| {
        let baseline = find(name).unwrap();
        let table = build_tables(&baseline).into_iter().find(|table| table.title == title);
        let table = table.unwrap_or_else(|| panic!("{name} has no {title}"));
        let rows: Vec<String> = table.rows.iter().map(|row| row.label.clone()).collect();
        let first: Vec<&str> = table.rows[0].cells.iter().map(|cell| cell.map_or("", |f| f.value)).collect();
        (rows, table.columns, first)
    };
    let (rows, columns, first) = of_title("ec2-t2micro", "disk throughput and latency: 2 threads, 1MB");
    assert_eq!(rows, ["Seq_Write", "Seq_Read", "Rand_Write", "Rand_Read"]);
    assert_eq!(columns, ["throughput, mean", "throughput, stdev", "latency, mean", "latency, stdev"]);
    assert_eq!(first, ["742.089", "47.015", "0.847", "0.041"]);
    let (rows, columns, first) = of_title("hyperion-prometheus", "memory throughput");
    assert_eq!((rows.len(), rows[17].as_str()), (18, "RWR, 4 threads, 10MB"));
    assert_eq!(columns, ["own", "pmbw", "theory", "own eff.", "ref. eff."]);
    assert_eq!(first, ["5.671611", "16.75573811", "68.256", "8.309322257", "24.5483739"]);
    let (rows, columns, _) = of_title("chameleon-kvm", "disk throughput: Sequential Read");
    assert_eq!(rows, ["1 thread", "2 threads", "4 threads", "8 threads"]);
    assert_eq!(columns, ["8B", "8KB", "8MB", "80MB"]);
    let (rows, ..) = of_title("chameleon-kvm", "disk latency: 8B");
    assert_eq!(rows.last().unwrap(), "mean of all threads");
    let (rows, columns, _) = of_title("chameleon-baremetal", "memory throughput: 4 threads");
    assert_eq!(rows, ["8kB", "8MB", "80MB"]);
    assert_eq!(columns, ["Sequential R+W", "Sequential W", "Random W"]);
    let (_, columns, _) = of_title("chameleon-kvm", "IOzone");
    assert_eq!(columns[..3], ["write sequential", "rewrite sequential", "read sequential"]);
    let (_, columns, first) = of_title("ec2-t2micro-java", "CPU throughput: Integer Operation");
    assert_eq!(columns, ["sample 1", "sample 2", "sample 3", "mean", "stdev"]);
    assert_eq!(first, ["24.39", "24.48", "24.39", "24.42", "0.305505046"]);
}

#[test]
fn a_text_with_two_numbers_for_one_place_has_two_rows() {
    let baseline = find("ec2-t2micro-java").unwrap();
    let tables = build_tables(&baseline);
    let text = tables.iter().find(|table| table.kind == TableKind::Text).unwrap();
    let rows = text.rows.iter().filter(|row| row.label.starts_with("cpu, float-ops"));
    let own: Vec<&str> = rows.filter_map(|row| row.cells[0].map(|figure| figure.value)).collect();
    assert_eq!(own, ["13", "13.37"]);
    assert_eq!(text.columns, ["own", "reference", "theory", "own eff.", "ref. eff."]);
}
