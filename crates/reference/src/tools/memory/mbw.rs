//! mbw: copy bandwidth of the C library's memcpy, one thread. It counts a copied byte once.

mod stated;

use crate::tools::prelude::*;
use plimsoll_metal::stream::StreamOp;
use plimsoll_model::job::MemoryStream;

const BYTES_PER_MIB: u64 = 1 << 20;
/// Bytes read and written for each counted byte.
const BOTH_WAYS: f64 = 2.0;

/// Returns the MiB of each of mbw's two arrays, half of the case's size; `None` if it is no copy.
fn array_mib(case: &Case) -> Option<u64> {
    let stream = MemoryStream::of(case).ok().filter(|stream| stream.op == StreamOp::Copy)?;
    Some(stream.site.size / 2 / BYTES_PER_MIB).filter(|mib| *mib > 0)
}

pub(crate) const MBW: RefTool = RefTool {
    name: "mbw",
    checks: "memory copy by memcpy, one thread",
    programs: &["mbw"],
    package: Package::Debian("mbw"),
    version_arguments: &["-h"],
    version_after: "mbw v",
    results: ResultFormat::of_text("its text output", stated::recognises, stated::starts, stated::read),
    pairing,
    invocation,
    parse,
    ..RefTool::NONE
};

fn pairing(case: &Case, _: &Machine) -> Option<Pairing> {
    array_mib(case).filter(|_| case.threads() == 1)?;
    let note = "bytes × 2: it counts a copied byte once; memcpy chooses its own stores";
    Some(Pairing::new("bandwidth", Match::Scaled, note, 1.0))
}

fn invocation(ask: &InvocationInput) -> Result<Invocation, String> {
    let mib = array_mib(&ask.case).ok_or("its smallest array is 1 MiB")?;
    let arguments = ["-t0", "-n", "5", &mib.to_string()].map(str::to_owned).to_vec();
    Ok(ask.call("mbw", arguments))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let line = text.lines().find(|line| line.starts_with("AVG") && line.contains("MEMCPY"));
    let line = line.ok_or("its output has no line AVG … MEMCPY")?;
    if !line.trim_end().ends_with(" MiB/s") {
        return Err("the line AVG is cut off".to_owned());
    }
    let mib = number_after(line, "MiB:")?;
    let seconds = Seconds::printed(word_after(line, "Elapsed:")?)?;
    let account = Account::of(mib * BYTES_PER_MIB as f64 * BOTH_WAYS, seconds);
    let mut reading =
        ToolFigure::of(number_after(line, "Copy:")? * BYTES_PER_MIB as f64 * BOTH_WAYS, account)?;
    reading.record(&fact::WORKING_SET_BYTES, mib * 2.0 * BYTES_PER_MIB as f64);
    if array_mib(case).is_some_and(|wanted| (mib - wanted as f64).abs() > 0.5) {
        reading.differs.push(format!("its arrays had {mib} MiB"));
    }
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::golden;

    const SMALL: &str = include_str!("../../../tests/fixtures/peers/mbw-1.2.2-small.txt");

    #[test]
    fn arrays_of_another_size_are_told() {
        let case = "memory.bandwidth/op=copy/size=512M/threads=1".parse().unwrap();
        assert_eq!(parse(&case, &golden::body(SMALL)).unwrap().differs.len(), 1);
    }
}
