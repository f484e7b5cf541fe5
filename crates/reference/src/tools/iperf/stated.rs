//! Reads results of iperf 2, text or CSV (`-y C`): whole tests of streams and sums.

use std::collections::{BTreeMap, BTreeSet};

use crate::tools::prelude::*;

const DATAGRAM: f64 = 1470.0;

pub(super) fn recognises(text: &str) -> bool {
    let is_its = |line: &str| is_banner(line) || IperfRow::of_csv(line).is_some();
    let is_heading = |line: &str| line.starts_with("[ ID] Interval") && line.contains("Bandwidth");
    let any = |is: &dyn Fn(&str) -> bool| text.lines().map(str::trim_start).any(is);
    any(&is_its) || any(&is_heading) && any(&|line| IperfRow::of(line).is_some())
}

/// Returns the byte offset of each result in `text`: of its banner (client or server), or of its
/// first line of CSV.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let (mut has_rows, mut is_in_csv) = (true, false);
    let mut last_banner = None;
    line_starts(text, |line| {
        let line = line.trim();
        let is_csv = IperfRow::of_csv(line).is_some();
        let banner = is_banner(line).then(|| line.starts_with("Client"));
        let is_start = is_csv && !is_in_csv || banner.is_some() && (has_rows || banner == last_banner);
        has_rows = IperfRow::of(line).is_some() || has_rows && !is_start;
        last_banner = banner.or(last_banner);
        is_in_csv = is_csv;
        is_start
    })
}

fn is_banner(line: &str) -> bool {
    let is_port = |line: &str| line.contains("TCP port ") || line.contains("UDP port ");
    (line.starts_with("Client connecting to ") || line.starts_with("Server listening on ")) && is_port(line)
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let mut run = IperfRows::default();
    text.lines().map(str::trim).for_each(|line| run.add(line));
    let stated = Stated { figures: run.figures(), ..Stated::default() };
    stated.unless_empty("it has no line of a whole test in bits or bytes a second")
}

#[derive(Default)]
struct IperfRows {
    rows: Vec<IperfRow>,
    /// Both ends of each connection, by stream number.
    ends: BTreeMap<String, [String; 2]>,
    last_ends: Option<[String; 2]>,
    is_udp: bool,
    is_client: bool,
    is_server: bool,
    is_reverse: bool,
    in_report: bool,
    segment: Option<f64>,
    datagram: Option<f64>,
}

type Contradictions = BTreeMap<*const IperfRow, String>;

impl IperfRows {
    fn add(&mut self, line: &str) {
        self.is_client |= line.starts_with("Client connecting to ");
        self.is_server |= line.starts_with("Server listening on ");
        self.is_udp |= is_banner(line) && line.contains("UDP port ");
        self.is_reverse |= line.contains(" connected with ") && line.contains("(reverse)");
        self.in_report |= line.contains("Server Report:");
        if let Some((before, after)) = line.split_once(" connected with ") {
            let local = before.split_once("local ").map(|(_, rest)| rest);
            let ends = [local, Some(after)].map(|end| end.and_then(|end| end.split_whitespace().next()));
            if let [Some(near), Some(far)] = ends {
                let id = before.split(['[', ']']).nth(1).unwrap_or_default().trim();
                let ends = [near, far].map(|end| shown_within(end, 64));
                self.ends.insert(id.to_owned(), ends.clone());
                self.last_ends = Some(ends);
            }
        }
        self.segment = parse_mss(line).or(self.segment);
        let datagram =
            line.split_once(" byte datagrams").and_then(|(before, _)| before.split_whitespace().last());
        self.datagram = datagram.and_then(|word| word.parse().ok()).or(self.datagram);
        let row = IperfRow::of(line).or_else(|| IperfRow::of_csv(line));
        if let Some(mut row) = row {
            row.is_reported = self.in_report || row.lost.is_some();
            self.in_report = false;
            self.is_udp |= row.lost.is_some();
            let id = row.id.trim_start_matches('*');
            let known = self.ends.get(id).or(self.last_ends.as_ref());
            row.ends = row.ends.or_else(|| known.cloned());
            self.rows.push(row);
        }
    }

    /// Returns the rows that cover a whole test: they start at 0 s, as does the next row of the
    /// same stream. Skips sums of both directions; a server report replaces the client's figure.
    fn totals(&self) -> Vec<&IperfRow> {
        let mut later: BTreeMap<&str, &IperfRow> = BTreeMap::new();
        let mut has_report = false;
        let mut found = Vec::new();
        for row in self.rows.iter().rev() {
            let next = later.insert(&row.id, row);
            let is_interval = row.begin > MOMENT || next.is_some_and(|next| next.begin > MOMENT);
            let is_reported_later = next.is_some_and(|next| next.is_reported) || row.is_sum() && has_report;
            if !is_interval && (row.is_reported || !is_reported_later) && !row.id.starts_with("FD") {
                found.push(row);
            }
            has_report |= row.is_reported;
        }
        found.reverse();
        found
    }

    /// Returns, by pointer to the row, why the bytes of a whole test in `totals` contradict the sum
    /// of its intervals; rows that agree are not in the result.
    fn contradicting_totals(&self, totals: &[&IperfRow]) -> Contradictions {
        /// Bytes after the last whole interval may lack a row.
        const STATED_TOLERANCE: f64 = 0.05;
        #[derive(Clone, Copy, Default)]
        struct Added {
            end: f64,
            moved: f64,
            rounding: f64,
            has_gap: bool,
        }
        let totals: BTreeSet<*const IperfRow> = totals.iter().map(|row| std::ptr::from_ref(*row)).collect();
        let mut streams: BTreeMap<(&str, bool), Added> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for row in &self.rows {
            let added = streams.entry((&row.id, row.is_reported)).or_default();
            if !totals.contains(&std::ptr::from_ref(row)) {
                if row.begin < MOMENT {
                    *added = Added::default();
                }
                added.has_gap |= (row.begin - added.end).abs() > MOMENT;
                added.end = row.end;
                added.moved += row.bytes;
                added.rounding += row.rounding;
                continue;
            }
            let Added { end, moved, rounding, has_gap } = std::mem::take(added);
            let is_whole = !has_gap && end > 0.0 && (end - row.end).abs() <= row.end * STATED_TOLERANCE / 2.0;
            let off = row.bytes.mul_add(STATED_TOLERANCE, rounding + row.rounding);
            if is_whole && (moved - row.bytes).abs() > off {
                let [moved, all] = [moved, row.bytes].map(|bytes| Quantity::new(bytes, Unit::Byte).human(3));
                let why = format!("its intervals moved {moved} and the whole test {all}");
                found.insert(std::ptr::from_ref(row), why);
            }
        }
        found
    }

    /// Returns the summed row of a client's simultaneous streams in one direction; `None` if
    /// `totals` has it (new versions), only one stream, or streams that did not run together.
    fn sum_of_streams(&self, totals: &[&IperfRow]) -> Option<IperfRow> {
        let is_at_once = self.is_client && !self.is_server && !self.is_reverse;
        let [first, rest @ ..] = totals else { return None };
        let is_of_one_test = |row: &&IperfRow| {
            (row.seconds.value() - first.seconds.value()).abs() < first.seconds.value() * 0.1
                && row.is_reported == first.is_reported
        };
        let is_all = !totals.iter().any(|row| row.id.starts_with('*') || row.is_sum())
            && rest.iter().all(is_of_one_test)
            && rest.iter().all(|row| row.id != first.id);
        (is_at_once && !rest.is_empty() && is_all).then(|| IperfRow {
            id: "SUM".to_owned(),
            bytes: totals.iter().map(|row| row.bytes).sum(),
            rounding: totals.iter().map(|row| row.rounding).sum(),
            is_exact: totals.iter().all(|row| row.is_exact),
            rate: totals.iter().map(|row| row.rate).sum(),
            lost: None,
            ..(*first).clone()
        })
    }

    fn figures(&self) -> Vec<StatedFigure> {
        let mut found: Vec<StatedFigure> = Vec::new();
        let mut streams: Vec<&IperfRow> = Vec::new();
        let mut totals = self.totals();
        let intervals = self.contradicting_totals(&totals);
        let added = self.sum_of_streams(&totals);
        totals.extend(&added);
        let is_duplex = totals.iter().any(|row| row.id.starts_with('*'));
        for row in totals.into_iter().filter(|row| !(is_duplex && row.is_sum())) {
            if !row.is_sum() {
                streams.push(row);
                continue;
            }
            let added = streams.len() - first_of_sum(&streams, row.bytes).unwrap_or(streams.len());
            let mut figure = self.figure(row, added.max(1) as u64, &intervals);
            let all: f64 = streams.iter().map(|stream| stream.bytes).sum();
            // If both directions ran at once, a sum may be that of both. A server of iperf 2.0 that
            // prints intervals adds the first of each stream twice.
            let has_first_twice = row.bytes > all && self.rows.len() > streams.len() + 1;
            let is_of_both_ends = self.is_client && self.is_server;
            let is_other = added == 0 && !(streams.is_empty() || is_of_both_ends || has_first_twice);
            let other = is_other.then(|| {
                let [all, sum] = [all, row.bytes].map(|bytes| Quantity::new(bytes, Unit::Byte));
                format!("its streams moved {all} and their sum is {sum}")
            });
            figure.contradiction = figure.contradiction.or(other);
            streams.truncate(streams.len() - added);
            found.extend(streams.drain(..).map(|stream| self.figure(stream, 1, &intervals)));
            found.push(figure);
        }
        found.extend(streams.into_iter().map(|stream| self.figure(stream, 1, &intervals)));
        found
    }

    /// Returns the numbers of sent and lost datagrams in `row`. If `row` is one stream of a
    /// client's text, adds the bytes that arrived and the size of a datagram.
    fn datagram_counts(&self, row: &IperfRow) -> Messages {
        let size = self.datagram.filter(|_| self.is_client && !row.is_sum());
        Messages {
            what: "datagrams",
            sent: row.lost.map(|(_, all)| all),
            lost: row.lost.map(|(lost, _)| lost),
            arrived: size.map(|size| (row.bytes, size)),
            ..Messages::default()
        }
    }

    fn figure(&self, row: &IperfRow, streams: u64, intervals: &Contradictions) -> StatedFigure {
        let is_received = row.is_reported
            || self.is_reverse
            || row.id.starts_with('*')
            || !self.is_client && self.is_server;
        let datagram = self.is_udp.then_some(self.datagram.unwrap_or(DATAGRAM));
        let kind = if self.is_udp { "UDP" } else { "TCP" };
        let end = if is_received { "received" } else { "sent" };
        let name = match row.is_sum() {
            true => format!("{kind}, all streams, as {end}"),
            false => format!("{kind}, stream {}, as {end}", row.id.trim_start_matches('*')),
        };
        let seconds = row.seconds.value();
        let used = LinkUse {
            ends: row.ends.clone(),
            streams,
            segment: self.segment,
            is_v6: row.ends.as_ref().is_some_and(|[_, far]| far.contains(':')),
            seconds: Some(seconds),
            // Datagrams always have a target rate, which the text may lack.
            asked: self.is_udp.then_some(f64::INFINITY),
            is_sent: !is_received,
            datagram,
            ..LinkUse::default()
        };
        let mut figure = StatedFigure::of_link(&name, row.rate, datagram, used);
        figure.account = (row.is_exact && row.bytes > 0.0 && seconds > 0.0)
            .then(|| Account::of(row.bytes * 8.0, row.seconds));
        let is_lost = row.lost.is_some_and(|(lost, all)| lost == all && all > 0.0);
        figure.void = is_lost.then(|| "every datagram was lost".to_owned());
        let datagrams = self.datagram_counts(row);
        figure.absurd = datagrams.absurd();
        figure.contradiction =
            datagrams.contradiction().or_else(|| intervals.get(&std::ptr::from_ref(row)).cloned());
        figure
    }
}

/// Returns the lowest index from which on the bytes of all `streams` add up to `bytes` (± 3 %);
/// `None` if they do so from no index.
fn first_of_sum(streams: &[&IperfRow], bytes: f64) -> Option<usize> {
    const STATED_TOLERANCE: f64 = 0.03;
    let mut all = 0.0;
    let mut found = None;
    for (from, stream) in streams.iter().enumerate().rev() {
        all += stream.bytes;
        if (all - bytes).abs() <= bytes * STATED_TOLERANCE {
            found = Some(from);
        }
    }
    found
}

/// Parses the MSS in bytes: `(icwnd/mss/irtt=14/1448/228)` or `MSS size 1448 bytes (MTU 1500…`.
fn parse_mss(line: &str) -> Option<f64> {
    let word = match line.split_once("(icwnd/mss/irtt=") {
        Some((_, rest)) => rest.split('/').nth(1)?,
        None => line.split_once("MSS size ")?.1.split_whitespace().next()?,
    };
    word.parse().ok()
}

/// A test that starts within these seconds starts at 0.
const MOMENT: f64 = 0.005;

#[derive(Clone, Debug)]
pub(super) struct IperfRow {
    pub(super) id: String,
    begin: f64,
    end: f64,
    pub(super) seconds: Seconds,
    pub(super) bytes: f64,
    rounding: f64,
    /// Whether bytes and rate have enough digits to be compared.
    is_exact: bool,
    pub(super) rate: f64,
    lost: Option<(f64, f64)>,
    is_reported: bool,
    ends: Option<[String; 2]>,
}

impl IperfRow {
    /// Parses `[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec   0.012 ms    0/  893 (0%)`.
    pub(super) fn of(line: &str) -> Option<Self> {
        let (id, rest) = line.strip_prefix('[')?.split_once(']')?;
        let (interval, rest) = rest.split_once(" sec ")?;
        let interval: String = interval.split_whitespace().collect();
        let (begin, end) = interval.split_once('-')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [amount, amount_unit, rate, rate_unit, ..] = words[..] else { return None };
        let (_, bytes) = parse_unit(amount_unit)?;
        let (is_bytes, factor) = parse_unit(rate_unit.strip_suffix("/sec")?)?;
        Some(Self {
            id: id.trim().to_owned(),
            begin: begin.parse().ok()?,
            end: end.parse().ok()?,
            seconds: Seconds::between(Seconds::printed(begin).ok()?, Seconds::printed(end).ok()?),
            bytes: amount.parse::<f64>().ok()? * bytes,
            rounding: half_digit(amount) * bytes,
            is_exact: [amount, rate].iter().all(|number| is_exact(number)),
            rate: rate.parse::<f64>().ok()? * factor * if is_bytes { 8.0 } else { 1.0 },
            lost: rest.split_once(" ms ").and_then(|(_, rest)| parse_lost(rest)),
            is_reported: false,
            ends: None,
        })
    }

    /// Parses `20260101000000,192.0.2.1,42012,192.0.2.2,5001,3,0.0-10.0,1180000000,944000000`;
    /// received datagrams have five more fields. `None` for other lines.
    fn of_csv(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let [date, near, _, far, _, id, interval, bytes, rate, more @ ..] = cells.as_slice() else {
            return None;
        };
        let is_date = date.len() >= 14
            && date.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b':'));
        let (begin, end) = interval.split_once('-').filter(|_| is_date)?;
        let lost = match more {
            [_, lost, all, ..] => Some((lost.parse().ok()?, all.parse().ok()?)),
            _ => None,
        };
        let is_sum = *id == "-1";
        Some(Self {
            id: if is_sum { "SUM".to_owned() } else { (*id).to_owned() },
            begin: begin.parse().ok()?,
            end: end.parse().ok()?,
            seconds: Seconds::between(Seconds::printed(begin).ok()?, Seconds::printed(end).ok()?),
            bytes: bytes.parse().ok()?,
            rounding: 0.0,
            is_exact: true,
            rate: rate.parse().ok()?,
            lost,
            is_reported: false,
            ends: (!is_sum).then(|| [near, far].map(|end| shown_within(end, 64))),
        })
    }

    fn is_sum(&self) -> bool {
        self.id.starts_with("SUM")
    }
}

/// Returns half of the last digit of a printed number: 0.05 for `1.2`.
fn half_digit(number: &str) -> f64 {
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    0.5 / 10_f64.powi(i32::try_from(decimals).unwrap_or(0))
}

/// Returns whether rounding changes a printed number by at most 0.5 %, as with three digits; in a
/// fixed unit it may have fewer (`-f g`: 0.01).
fn is_exact(number: &str) -> bool {
    const ROUNDING_SHARE: f64 = 0.005;
    number.parse::<f64>().is_ok_and(|value| half_digit(number) <= value.abs() * ROUNDING_SHARE)
}

/// Parses `0/  893 (0%)` to (lost datagrams, all datagrams); `None` for other text.
fn parse_lost(text: &str) -> Option<(f64, f64)> {
    let counts: String = text.split('(').next()?.split_whitespace().collect();
    let (lost, all) = counts.split_once('/')?;
    Some((lost.parse().ok()?, all.parse().ok()?))
}

/// Parses a unit such as `MBytes` to (whether it counts bytes, not bits; its factor: a power of
/// 1024 for bytes, of 1000 for bits). `None` for another word.
fn parse_unit(word: &str) -> Option<(bool, f64)> {
    let (prefix, is_bytes) = match word.strip_suffix("Bytes").or_else(|| word.strip_suffix("Byte")) {
        Some(prefix) => (prefix, true),
        None => (word.strip_suffix("bits").or_else(|| word.strip_suffix("bit"))?, false),
    };
    let power = ["", "K", "M", "G", "T"].iter().position(|known| *known == prefix)?;
    let each: f64 = if is_bytes { 1024.0 } else { 1000.0 };
    Some((is_bytes, each.powi(i32::try_from(power).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "------------------------------------------------------------\n\
        Client connecting to 192.0.2.2, TCP port 5001\nTCP window size: 85.0 KByte (default)\n\
        ------------------------------------------------------------\n\
        [  3] local 192.0.2.1 port 42012 connected with 192.0.2.2 port 5001\n\
        [ ID] Interval       Transfer     Bandwidth\n";

    const ROWS: &str = "[  3]  0.0- 1.0 sec   112 MBytes   940 Mbits/sec\n\
        [  3]  1.0- 2.0 sec   112 MBytes   940 Mbits/sec\n[  3]  0.0- 2.0 sec   224 MBytes   941 Mbits/sec\n";

    fn figures(text: &str) -> Vec<(String, f64, bool)> {
        assert!(recognises(text), "{text}");
        let read = read(text).unwrap().figures.into_iter();
        let is_sent = |figure: &StatedFigure| matches!(&figure.subject, Subject::Link(used) if used.is_sent);
        read.map(|figure| (figure.name.clone(), figure.value, is_sent(&figure))).collect()
    }

    #[test]
    fn the_whole_time_counts_and_not_its_intervals() {
        assert_eq!(figures(&format!("{CLIENT}{ROWS}")), [("TCP, stream 3, as sent".to_owned(), 941e6, true)]);
        let two = "[  3]  0.0-10.0 sec   560 MBytes   470 Mbits/sec\n[  4]  0.0-10.0 sec   560 MBytes   471 Mbits/sec\n";
        let all = [("TCP, all streams, as sent".to_owned(), 941e6, true)];
        assert_eq!(figures(&format!("{CLIENT}{two}")), all);
        let sum = "[SUM]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec\n";
        assert_eq!(figures(&format!("{CLIENT}{two}{sum}")), all);
        let next = "[  5]  0.0-10.0 sec  1.00 GBytes   860 Mbits/sec\n";
        let values: Vec<f64> =
            figures(&format!("{CLIENT}{next}{two}{sum}{next}")).iter().map(|figure| figure.1).collect();
        assert_eq!(values, [860e6, 941e6, 860e6]);
        let wrong = format!("{CLIENT}{two}{}", sum.replace("1.10", "2.20"));
        assert!(read(&wrong).unwrap().figures.iter().any(|figure| figure.contradiction.is_some()));
        let both = "[FD1]  0.0-10.0 sec  2.20 GBytes  1.88 Gbits/sec\n";
        assert!(figures(&format!("{CLIENT}{two}{both}")).iter().all(|figure| figure.1 < 1e9));
        let bytes = "[  3]  0.0-10.0 sec  1.10 GBytes   112 MBytes/sec\n";
        assert_eq!(figures(&format!("{CLIENT}{bytes}"))[0].1, 112.0 * 1048576.0 * 8.0);
    }

    #[test]
    fn intervals_and_their_whole_test_agree_or_are_named() {
        let wrong = |rows: &str| read(&format!("{CLIENT}{rows}")).unwrap().figures.remove(0).contradiction;
        assert_eq!(wrong(ROWS), None);
        assert!(wrong(&ROWS.replace("224", "448")).is_some());
        // A server's next test may have the same number, and other units have fewer digits.
        let again = ROWS.replace("112", "56").replace("224", "112");
        let both = read(&format!("{CLIENT}{ROWS}{again}")).unwrap().figures;
        assert!(both.iter().all(|figure| figure.contradiction.is_none()), "{both:?}");
        let ends =
            "[  3]  0.0- 2.0 sec  90 MBytes  378 Mbits/sec\n[  3]  0.0- 2.0 sec  110 MBytes  461 Mbits/sec\n";
        assert_eq!((wrong(ends), read(&format!("{CLIENT}{ends}")).unwrap().figures.len()), (None, 2));
        let coarse = "[  3]  0.0- 1.0 sec  0.01 GBytes  0.09 Gbits/sec\n[  3]  1.0- 2.0 sec  0.01 GBytes  0.09 Gbits/sec\n\
            [  3]  0.0- 2.0 sec  0.03 GBytes  0.09 Gbits/sec\n";
        let figure = read(&format!("{CLIENT}{coarse}")).unwrap().figures.remove(0);
        assert_eq!((figure.contradiction, figure.account), (None, None));
        // Without one of its intervals, the sum is unknown.
        let missing = ROWS.replacen("[  3]  0.0- 1.0 sec   112 MBytes   940 Mbits/sec\n", "", 1);
        assert_eq!(wrong(&missing.replace("224", "448")), None);
        let row = |id: &str, from: u8, to: u8, mbytes: u32| {
            format!("[{id}]  {from}.0- {to}.0 sec  {mbytes} MBytes  {} Mbits/sec\n", mbytes * 8)
        };
        let part = |from: u8, to: u8, times: u32| {
            row("  3", from, to, 112 * times)
                + &row("  4", from, to, 56 * times)
                + &row("SUM", from, to, 168 * times)
        };
        let both = part(0, 1, 1) + &part(1, 2, 1) + &part(0, 2, 2);
        let figures = read(&format!("{CLIENT}{both}")).unwrap().figures;
        assert!(figures.iter().all(|figure| figure.contradiction.is_none()), "{figures:?}");
    }

    #[test]
    fn what_arrived_of_datagrams_is_the_servers_report() {
        let text = CLIENT.replace("TCP port", "UDP port")
            + "[  3]  0.0-10.0 sec  1.10 GBytes   945 Mbits/sec\n[  3] Sent 803571 datagrams\n[  3] Server Report:\n\
            [  3]  0.0-10.0 sec  1.00 GBytes   860 Mbits/sec   0.012 ms 72321/803571 (9%)\n";
        assert_eq!(figures(&text), [("UDP, stream 3, as received".to_owned(), 860e6, false)]);
        for lost in ["-1", "nan", "803572"] {
            let figure = read(&text.replace("72321/", &format!("{lost}/"))).unwrap().figures.remove(0);
            assert!(figure.absurd.is_some(), "{lost}");
        }
        let sum = "[SUM]  0.0-10.0 sec  2.20 GBytes  1.89 Gbits/sec\n[  4] Server Report:\n\
            [  4]  0.0-10.0 sec  1.00 GBytes   861 Mbits/sec   0.012 ms 72321/803571 (9%)\n";
        let values: Vec<f64> = figures(&format!("{text}{sum}")).iter().map(|figure| figure.1).collect();
        assert_eq!(values, [1721e6]);
        let none = text.replace("72321/", "803571/");
        assert!(read(&none).unwrap().figures[0].void.is_some());
        let (sent, _) = text.split_once("[  3] Sent").unwrap();
        assert_eq!(figures(sent), [("UDP, stream 3, as sent".to_owned(), 945e6, true)]);
    }

    #[test]
    fn csv_is_read() {
        let row = "20260101000010,192.0.2.1,42012,192.0.2.2,5001,3,0.0-10.0,1176256512,941005209\n";
        assert_eq!(figures(row)[0].1, 941_005_209.0);
        let other = row.replace("192.0.2.2", "127.0.0.1").replace("192.0.2.1", "127.0.0.1");
        let ends = |figure: &StatedFigure| match &figure.subject {
            Subject::Link(used) => used.ends.as_ref().map(|[_, far]| far.clone()),
            _ => None,
        };
        let both: Vec<_> = read(&format!("{row}{other}")).unwrap().figures.iter().map(ends).collect();
        assert_eq!(both, [Some("192.0.2.2".to_owned()), Some("127.0.0.1".to_owned())]);
        let udp = format!("{row}{},0.012,5,100,5.000,0\n", row.trim_end());
        assert_eq!(figures(&udp), [("UDP, stream 3, as received".to_owned(), 941_005_209.0, false)]);
    }
}
