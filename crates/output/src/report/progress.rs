//! Progress line on a terminal: current case and remaining time, erased before each row.

use std::io::Write;
use std::time::Instant;

use plimsoll_bench::label::label;
use plimsoll_model::case::{Case, CaseId};
use plimsoll_result::event::RunEvent;
use plimsoll_units::quantity::Quantity;
use plimsoll_units::text::format_count;

use super::style::Style;
use super::wrap::cut;

/// Return to the first column and erase the line (ECMA-48: CR, EL 2).
const ERASE: &str = "\r\x1b[2K";

#[derive(Debug)]
pub(super) struct ProgressLine<W: Write> {
    to: W,
    style: Style,
    now: Option<Now>,
    shown: bool,
}

#[derive(Clone, Debug)]
struct Now {
    case: CaseId,
    index: usize,
    cases: usize,
    left_s: f64,
    since: Instant,
    /// Number of samples and the latest value.
    sampled: Option<(usize, f64)>,
}

impl<W: Write> ProgressLine<W> {
    pub(super) fn new(to: W, style: Style) -> Self {
        Self { to, style, now: None, shown: false }
    }

    /// Updates the line: current case, number of samples, latest value. A finished case clears it.
    pub(super) fn event(&mut self, event: &RunEvent) {
        match event {
            &RunEvent::Preparing { ref case, index, cases, left_s } => {
                let (case, since) = (case.clone(), Instant::now());
                self.now = Some(Now { case, index, cases, left_s, since, sampled: None });
            }
            RunEvent::Sampled { n, value, .. } => {
                self.now.iter_mut().for_each(|now| now.sampled = Some((*n, *value)));
            }
            RunEvent::Measured { .. } | RunEvent::Interrupted => self.now = None,
            RunEvent::Started { .. } => {}
        }
        self.draw();
    }

    pub(super) fn end(&mut self) {
        self.now = None;
        self.draw();
    }

    fn draw(&mut self) {
        let Some(width) = self.style.progress else { return };
        let text = self.now.as_ref();
        let text = text.map(|now| line(now, now.since.elapsed().as_secs_f64(), width, &self.style));
        if std::mem::replace(&mut self.shown, text.is_some()) || self.shown {
            let _ = write!(self.to, "{ERASE}{}", text.unwrap_or_default());
            let _ = self.to.flush();
        }
    }
}

/// Formats the line for a case that started `elapsed` seconds ago, narrower than `width` columns.
fn line(now: &Now, elapsed: f64, width: usize, style: &Style) -> String {
    let case: Option<Case> = now.case.as_str().parse().ok();
    let name = case.as_ref().map_or_else(|| now.case.to_string(), label);
    let mut parts = vec![format!("[{}/{}] {name}", now.index + 1, now.cases)];
    match now.sampled {
        None => parts.push("preparing".to_owned()),
        Some((n, value)) => {
            parts.push(format_count(n, "sample"));
            let metrics = |case: &Case| Some(plimsoll_bench::find(case.benchmark())?.metrics(case));
            let headline = case.as_ref().and_then(metrics).and_then(|all| all.first().copied());
            parts.extend(headline.map(|metric| Quantity::new(value, metric.unit).to_string()));
        }
    }
    let left = (now.left_s - elapsed).max(0.0);
    let left = if left < 0.5 { "finishing".to_owned() } else { format!("{} left", span(left)) };
    let stated = style.styled(&format!("{} · {left}", parts.join(" · ")));
    cut(&stated, width.saturating_sub(1))
}

/// Formats a duration in seconds: `0.3 s`, `47 s`, `3 min 20 s`, `2 h 5 min`.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 1e9).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, 0) if seconds > 0.0 => format!("{seconds:.1} s"),
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_as_fine_as_they_matter() {
        let stated = [0.0, 0.04, 0.31, 0.8, 47.3, 60.0, 200.0, 7500.0, 7200.0].map(span);
        let wanted = "0 s, 0.0 s, 0.3 s, 1 s, 47 s, 1 min, 3 min 20 s, 2 h 5 min, 2 h";
        assert_eq!(stated.join(", "), wanted);
        assert_eq!([f64::NAN, -1.0].map(span), ["0 s", "0 s"]);
    }

    fn now(case: &str, sampled: Option<(usize, f64)>) -> Now {
        let case = case.parse::<Case>().unwrap().id();
        Now { case, index: 3, cases: 13, left_s: 31.0, since: Instant::now(), sampled }
    }

    #[test]
    fn the_line_tells_case_samples_figure_and_time_left() {
        let style = Style::plain(80);
        let case = "disk.io/op=read/pattern=random/block=4K/depth=32/threads=1";
        let preparing = line(&now(case, None), 1.0, 80, &style);
        assert_eq!(preparing, "[4/13] random read 4 KiB depth 32 · preparing · 30 s left");
        let sampled = Some((12, 152e3));
        let running = line(&now(case, sampled), 40.0, 80, &style);
        assert_eq!(running, "[4/13] random read 4 KiB depth 32 · 12 samples · 152 kIOPS · finishing");
    }

    proptest! {
        #[test]
        fn the_line_never_wraps(width in 0usize..120, value in any::<f64>(), n in any::<usize>()) {
            let now = now("disk.io/op=read/pattern=random/block=4K/depth=32/threads=1", Some((n, value)));
            let line = line(&now, 1.0, width, &Style::plain(80));
            prop_assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= width.saturating_sub(1));
        }
    }
}
