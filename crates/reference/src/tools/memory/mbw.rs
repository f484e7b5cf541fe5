//! mbw: copy bandwidth of the C library's memcpy, one thread. It counts a copied byte once.

use crate::tools::prelude::*;

/// Bytes read and written for each counted byte.
const BOTH_WAYS: f64 = 2.0;

/// Returns the MiB of each of mbw's two arrays, half of the case's size; `None` if it is no copy.
fn array_mib(case: &Case) -> Option<u64> {
    let stream = MemoryStream::of(case).ok().filter(|stream| stream.op == StreamOp::Copy)?;
    Some(stream.site.size / (2 << 20)).filter(|mib| *mib > 0)
}

pub(crate) const MBW: RefTool = RefTool {
    name: "mbw",
    checks: "memory copy by memcpy, one thread",
    package: Package::Debian("mbw"),
    version: ("-h", "mbw v"),
    results: ResultFormat::of_text("its text output", recognises, starts, read),
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
    Ok(ask.call(words(&format!("-t0 -n 5 {mib}"))))
}

fn parse(case: &Case, text: &str) -> Result<ToolFigure, String> {
    let line = text.lines().find(|line| line.starts_with("AVG") && line.contains("MEMCPY"));
    let line = line.ok_or("its output has no line AVG … MEMCPY")?;
    if !line.trim_end().ends_with(" MiB/s") {
        return Err("the line AVG is cut off".to_owned());
    }
    let mib = number_after(line, "MiB:")?;
    let seconds = Seconds::printed(word_after(line, "Elapsed:")?)?;
    let account = Account::of(mib * BYTES_PER_MIB * BOTH_WAYS, seconds);
    let mut reading = ToolFigure::of(number_after(line, "Copy:")? * BYTES_PER_MIB * BOTH_WAYS, account)?;
    reading.record(&fact::WORKING_SET_BYTES, mib * 2.0 * BYTES_PER_MIB);
    if array_mib(case).is_some_and(|wanted| (mib - wanted as f64).abs() > 0.5) {
        reading.differs.push(format!("its arrays had {mib} MiB"));
    }
    Ok(reading)
}

fn recognises(text: &str) -> bool {
    text.lines().any(is_row)
}

/// Returns the byte offsets at which results start: the heading, or with `-q` the first row.
fn starts(text: &str) -> Vec<usize> {
    let mut is_inside = false;
    line_starts(text, |line| {
        let is_heading = line.starts_with("Long uses ") && line.contains("Allocating");
        let is_start = is_heading || is_row(line) && !is_inside;
        is_inside = is_heading || is_row(line) || is_inside && line.starts_with(['U', 'G']);
        is_start
    })
}

fn is_row(line: &str) -> bool {
    line.contains("Method:") && line.contains("Elapsed:") && line.contains("MiB:") && line.contains("Copy:")
}

/// Reads results of mbw: a line per run of a method, and a line of means.
fn read(text: &str) -> Result<Stated, String> {
    let mut stated = Stated::default();
    let rows = || text.split_inclusive('\n').filter(|line| is_row(line));
    // With -a the means are not printed.
    let means = rows().any(|line| line.starts_with("AVG"));
    let wanted = rows().filter(|line| !means || line.starts_with("AVG"));
    stated.figures = wanted.map(copied).collect::<Result<_, _>>()?;
    if means {
        let contradictions = other_means(rows());
        stated.figures.iter_mut().zip(contradictions).for_each(|(figure, why)| figure.contradiction = why);
    }
    Ok(stated)
}

/// Returns, per row with a mean, why it contradicts the runs above with its method and size, if so.
fn other_means<'a>(rows: impl Iterator<Item = &'a str>) -> Vec<Option<String>> {
    let mut runs: Vec<(&str, f64)> = Vec::new();
    let mut found = Vec::new();
    let mut size = None;
    for line in rows {
        let Some((method, seconds)) = elapsed(line) else { continue };
        let its = number_after(line, "MiB:").ok();
        if its != size {
            runs.clear();
        }
        size = its;
        match line.starts_with("AVG") {
            true => {
                found.push(other_mean((method, seconds), &runs));
                runs.retain(|(other, _)| *other != method);
            }
            false => runs.push((method, seconds)),
        }
    }
    found
}

/// Parses method and seconds of a row; `None` for other lines.
fn elapsed(line: &str) -> Option<(&str, f64)> {
    Some((word_after(line, "Method:").ok()?, number_after(line, "Elapsed:").ok()?))
}

/// Returns why a mean time of a method is below or above all its `runs` (method, seconds), if so.
fn other_mean((method, mean): (&str, f64), runs: &[(&str, f64)]) -> Option<String> {
    /// Times are rounded to 10 µs.
    const ROUNDED: f64 = 1.1e-5;
    let times = runs.iter().filter(|(other, _)| *other == method).map(|(_, seconds)| *seconds);
    let (least, most) = times
        .fold((f64::INFINITY, 0.0_f64), |(least, most), seconds| (least.min(seconds), most.max(seconds)));
    let is_between = mean >= least - ROUNDED && mean <= most + ROUNDED;
    (least <= most && !is_between)
        .then(|| format!("its mean time is {mean} s, and its runs took {least} to {most} s"))
}

/// Parses the figure of a row. A copied byte counts as read and as written; MCBLOCK may copy one
/// cached block repeatedly, so only its writes count.
fn copied(line: &str) -> Result<StatedFigure, String> {
    let method = word_after(line, "Method:")?;
    let (op, times, note) = match method {
        "MCBLOCK" => ("write", 1.0, "written"),
        _ => ("copy", BOTH_WAYS, "read and written"),
    };
    let array = number_after(line, "MiB:")? * BYTES_PER_MIB;
    let rate = number_after(line, "Copy:")? * BYTES_PER_MIB * times;
    let name = format!("{} {method}, {note}", line.split_whitespace().next().unwrap_or_default());
    let used = MemoryUse { footprint: Some(array * 2.0), array: Some(array), may_be_cache: false };
    let mut figure = StatedFigure::of_memory(&name, rate, (op, 1.0), used);
    let elapsed = number_after(line, "Elapsed:")?;
    let seconds = Seconds::printed(word_after(line, "Elapsed:")?)?;
    figure.account = (elapsed > 0.0).then(|| Account::of(array * times, seconds));
    figure.absurd = (!elapsed.is_finite() || elapsed < 0.0).then(|| format!("its time is {elapsed} s"));
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_means_are_read_and_without_them_every_run() {
        let run = "0\tMethod: MEMCPY\tElapsed: 0.02000\tMiB: 256.00000\tCopy: 12800.000 MiB/s\n";
        let both = format!("{run}{}", run.replacen('0', "AVG", 1));
        for (text, count) in [(run.repeat(3), 3), (both, 1)] {
            let figures = read(&text).unwrap().figures;
            assert_eq!(figures.len(), count, "{text}");
            assert_eq!(figures[0].value, 12800.0 * 2.0 * 1048576.0);
            assert_eq!(figures[0].contradiction, None, "{text}");
        }
        let other = format!("{}{}", run.repeat(2), run.replacen('0', "AVG", 1).replace("0.02000", "0.00200"));
        assert!(read(&other).unwrap().figures[0].contradiction.is_some());
        let next = format!("{}{}", run.replacen('0', "AVG", 1), run.replace("0.02000", "0.08000"));
        assert_eq!(read(&next).unwrap().figures[0].contradiction, None);
        let block = read(&run.replace("MEMCPY", "MCBLOCK")).unwrap().figures.remove(0);
        assert_eq!(block.value, 12800.0 * 1048576.0);
    }
}
