//! Reads results of lmbench's lat_mem_rd: a line with the stride, then MiB and nanoseconds.

use super::{BYTES_PER_MIB, LAT_MEM_RD};
use crate::stated::prelude::*;

const HEADING: &str = "\"stride=";

pub(super) fn recognises(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with(HEADING))
}

pub(super) fn starts(text: &str) -> Vec<usize> {
    line_starts(text, recognises)
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let mut stated = Stated::by(LAT_MEM_RD.name, None);
    let table = text.lines().skip_while(|line| !line.trim_start().starts_with(HEADING)).skip(1);
    let row = |line: &str| -> Option<(f64, f64)> {
        let (mib, ns) = line.trim().split_once(char::is_whitespace)?;
        Some((mib.parse().ok()?, ns.trim().parse().ok()?))
    };
    stated.figures = table
        .map_while(row)
        .map(|(mib, ns)| {
            let no = "its loads may be fetched ahead, so plimsoll derives no limit".to_owned();
            let bytes = Quantity::new((mib * BYTES_PER_MIB).round(), Unit::Byte);
            let figure = StatedFigure::new(&format!("load of {bytes}"), ns * 1e-9, Unit::Second, Err(no));
            StatedFigure { absurd: BoundedEvent::Load.too_short(figure.value), ..figure }
        })
        .collect();
    stated.unless_empty("its table has no line of MiB and nanoseconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_read_to_its_end() {
        let text = "\"stride=128\n0.00049 1.250\n64.00000 95.500\n\nother 1\n";
        let figures = read(text).unwrap().figures;
        assert!(figures.len() == 2 && (figures[1].value - 95.5e-9).abs() < 1e-15, "{figures:?}");
        assert_eq!(figures[1].name, "load of 64 MiB");
        assert_eq!((LAT_MEM_RD.results.starts)(&text.repeat(3)).len(), 3);
        assert!(read("\"stride=64\n").is_err());
        let figures = read(&text.replace("1.250", "0.001")).unwrap().figures;
        assert!(figures[0].absurd.is_some() && figures[1].absurd.is_none());
    }
}
