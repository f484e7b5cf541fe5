//! Reads results of ping in any language: counts and times below the statistics' heading.

use super::PING_TOOL;
use crate::stated::prelude::*;

const NO_LIMIT: &str = "plimsoll derives no limit of a round trip: the path between both ends sets it";

pub(super) fn recognises(text: &str) -> bool {
    !summaries(text).is_empty()
}

pub(super) fn starts(text: &str) -> Vec<usize> {
    line_starts(text, |line| {
        line.starts_with("PING ") && (line.contains(" bytes of data") || line.contains(" data bytes"))
    })
}

pub(super) fn read(text: &str) -> Result<Stated, String> {
    let mut stated = Stated::by(PING_TOOL.name, None);
    stated.figures = summaries(text).iter().map(figure).collect::<Result<_, _>>()?;
    stated.unless_empty("it has no statistics below its echoes")
}

pub(super) struct PingSummary {
    pub(super) sent: f64,
    pub(super) received: f64,
    lost_percent: Option<f64>,
    /// Minimum, mean and maximum in ms.
    pub(super) times: Option<[f64; 3]>,
}

/// Parses all statistics: `--- HOST ping statistics ---`, a line of counts, later one of times.
pub(super) fn summaries(text: &str) -> Vec<PingSummary> {
    let mut found: Vec<PingSummary> = Vec::new();
    let mut is_below_heading = false;
    for line in text.lines().map(str::trim) {
        if let Some((sent, received)) = counts(line).filter(|_| is_below_heading) {
            found.push(PingSummary { sent, received, lost_percent: percent(line), times: None });
        } else if let Some(last) = found.last_mut()
            && last.times.is_none()
        {
            last.times = times(line);
        }
        is_below_heading =
            line.starts_with("---") && line.ends_with("---") && line.to_lowercase().contains("ping");
    }
    found
}

/// Parses (sent, received) in `3 packets transmitted, 3 received, 0% packet loss`, in any language.
fn counts(line: &str) -> Option<(f64, f64)> {
    let mut numbers =
        line.split(|c: char| !(c.is_ascii_digit() || c == '-')).filter_map(|word| word.parse().ok());
    line.contains('%').then_some((numbers.next()?, numbers.next()?))
}

fn percent(line: &str) -> Option<f64> {
    let (before, _) = line.split_once('%')?;
    let before = before.trim_end();
    let from = before
        .rfind(|c: char| !(c.is_ascii_digit() || matches!(c, '-' | '.' | ',')))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    before[from..].replace(',', ".").parse().ok()
}

/// Parses minimum, mean and maximum in ms of `rtt min/avg/max/mdev = 0.004/0.008/0.037/0.006 ms`.
fn times(line: &str) -> Option<[f64; 3]> {
    let (_, values) = line.split_once(" = ").filter(|(names, _)| names.contains('/'))?;
    let mut values = values.split_whitespace().next()?.split('/').map(|value| value.parse::<f64>().ok());
    Some([values.next()??, values.next()??, values.next()??])
}

fn figure(summary: &PingSummary) -> Result<StatedFigure, String> {
    let PingSummary { sent, received, lost_percent, times } = summary;
    let echoes = Messages {
        what: "echoes",
        sent: Some(*sent),
        received: Some(*received),
        lost_percent: *lost_percent,
        ..Messages::default()
    };
    let [least, mean, most] = match times {
        Some(times) => *times,
        None if *received <= 0.0 => [0.0; 3],
        None => return Err("it has no line of times: messages below 16 B have none".to_owned()),
    };
    let mut figure =
        StatedFigure::new("round trip (mean)", mean * 1e-3, Unit::Second, Err(NO_LIMIT.to_owned()));
    figure.void = (*received == 0.0).then(|| format!("no echo of {sent} came back"));
    figure.absurd = match [least, most].iter().find(|time| !time.is_finite() || **time < 0.0) {
        Some(time) => Some(format!("one of its times is {time} ms")),
        None => echoes.absurd().or_else(|| BoundedEvent::RoundTrip.too_short(figure.value)),
    };
    let is_between = (least..=most).contains(&mean);
    let why = format!("its mean of {mean} ms is not between its least, {least} ms, and its most, {most} ms");
    figure.contradiction = echoes.contradiction().or((!is_between).then_some(why));
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: &str = "PING h (192.0.2.1) 56(84) bytes of data.\n\n--- h ping statistics ---\n\
        3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 2043ms\n";

    #[test]
    fn echoes_that_did_not_come_back_are_no_figure() {
        assert!(recognises(LOST) && read(LOST).unwrap().figures[0].void.is_some());
        let times = "rtt min/avg/max/mdev = 0.042/0.058/0.071/0.006 ms\n";
        let some = format!("{}{times}", LOST.replace(" 0 rec", " 3 rec").replace("100%", "0%"));
        let figure = read(&some).unwrap().figures.remove(0);
        assert!((figure.value - 58e-6).abs() < 1e-12 && figure.contradiction.is_none());
        let contradicts = |text: &str| read(text).unwrap().figures[0].contradiction.is_some();
        assert!(contradicts(&some.replace("0.058", "0.580")));
        assert!(contradicts(&some.replace(" 3 rec", " 4 rec")));
        assert!(contradicts(&some.replace("3 packets", "12 packets")));
        for share in ["200%", "-50%"] {
            assert!(read(&some.replace("0%", share)).unwrap().figures[0].absurd.is_some(), "{share}");
        }
        for time in ["-0.042", "nan", "inf"] {
            assert!(read(&some.replace("0.042", time)).unwrap().figures[0].absurd.is_some(), "{time}");
        }
    }

    #[test]
    fn statistics_in_any_language_are_read() {
        for text in [
            "--- 192.0.2.1 ping-Statistiken ---\n4 Pakete übertragen, 4 empfangen, 0% packet loss, time 3004ms\n\
             rtt min/avg/max/mdev = 0.042/0.058/0.071/0.006 ms\n",
            "--- statistiques ping 192.0.2.1 ---\n4 paquets transmis, 4 reçus, 0 % paquets perdus, temps 3004 ms\n\
             rtt min/moy/max/mdev = 0.042/0.058/0.071/0.006 ms\n",
            "--- 192.0.2.1 ping 统计 ---\n已发送 4 个包， 已接收 4 个包, 0% packet loss, time 3054ms\n\
             rtt min/avg/max/mdev = 0.042/0.058/0.071/0.006 ms\n",
            "----192.0.2.1 PING Statistics----\n4 packets transmitted, 4 packets received, 0.0% packet loss\n\
             round-trip (ms)  min/avg/max/stddev = 0.042/0.058/0.071/0.006\n",
        ] {
            let figures = read(text).unwrap().figures;
            assert!(figures.len() == 1 && (figures[0].value - 58e-6).abs() < 1e-12, "{text}: {figures:?}");
            assert!(figures[0].void.is_none() && figures[0].contradiction.is_none());
            assert_eq!(read(&text.repeat(2)).unwrap().figures.len(), 2);
        }
        assert!(!recognises("--- a.txt ---\n3 of 4, 5%\n"));
    }
}
