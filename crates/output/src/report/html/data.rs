//! Chart data for the page's script, which decides their appearance.

use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Chart {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) note: String,
    pub(super) kind: ChartKind,
    pub(super) x: ChartAxis,
    pub(super) y: ChartAxis,
    pub(super) series: Vec<ChartSeries>,
    pub(super) bands: Vec<Band>,
}

/// Numbers the charts: their ids become `PREFIX-0`, `PREFIX-1` …
pub(super) fn number<'a>(charts: impl IntoIterator<Item = &'a mut Chart>, prefix: &str) {
    charts.into_iter().enumerate().for_each(|(index, chart)| chart.id = format!("{prefix}-{index}"));
}

/// [x, y] or [x, y, low, high]; `None` breaks the line.
pub(super) type ChartPoint = Vec<Option<f64>>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChartKind {
    #[default]
    Lines,
    Strip,
    Bars,
    /// Points are [column, row, value].
    Heat,
    /// Points are [ratio, row, low, high].
    Forest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ChartAxis {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) scale: AxisScale,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AxisScale {
    #[default]
    Linear,
    Log,
    Category,
    Places,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ChartSeries {
    pub(super) name: String,
    pub(super) role: SeriesRole,
    pub(super) points: Vec<ChartPoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) labels: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) colour: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) scattered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SeriesRole {
    Own,
    Delivered,
    Tool,
    Limit,
    Ideal,
    Fit,
    Published,
    Program,
    Theory,
    Doubted,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Band {
    pub(super) name: String,
    pub(super) from: Option<f64>,
    pub(super) to: Option<f64>,
}

impl ChartAxis {
    pub(super) fn linear(name: &str, unit: &'static str) -> Self {
        Self { name: name.to_owned(), unit, ..Self::default() }
    }

    pub(super) fn log(name: &str, unit: &'static str) -> Self {
        Self { scale: AxisScale::Log, ..Self::linear(name, unit) }
    }

    pub(super) fn categories(name: &str, categories: Vec<String>) -> Self {
        Self { scale: AxisScale::Category, categories, ..Self::linear(name, "") }
    }

    pub(super) fn places(name: &str, categories: Vec<String>) -> Self {
        Self { scale: AxisScale::Places, ..Self::categories(name, categories) }
    }

    /// Makes the axis logarithmic if `wide`, else linear.
    pub(super) fn scaled(self, wide: bool) -> Self {
        Self { scale: if wide { AxisScale::Log } else { AxisScale::Linear }, ..self }
    }
}

impl ChartSeries {
    pub(super) fn new(name: impl Into<String>, role: SeriesRole, points: Vec<ChartPoint>) -> Self {
        Self { name: name.into(), role, points, labels: Vec::new(), colour: None, scattered: false }
    }
}

/// Completes `chart` with rows (name, ratio, interval) and an x axis called `of`; `None` if empty.
pub(super) fn forest(chart: Chart, of: &str, rows: Vec<(String, f64, Option<[f64; 2]>)>) -> Option<Chart> {
    let point = |(at, (_, ratio, ends)): (usize, &(String, f64, Option<[f64; 2]>))| {
        let [low, high] = ends.map_or([None; 2], |ends| ends.map(Some));
        vec![Some(*ratio), Some(at as f64), low, high]
    };
    let series = vec![ChartSeries::new(of, SeriesRole::Own, rows.iter().enumerate().map(point).collect())];
    let names: Vec<String> = rows.into_iter().map(|(name, ..)| name).collect();
    let (x, kind) = (ChartAxis::linear(of, ""), ChartKind::Forest);
    (!names.is_empty()).then(|| Chart { kind, x, y: ChartAxis::categories("", names), series, ..chart })
}

/// Encodes `value` as JSON that is safe within a `<script>` element: no markup, JavaScript line
/// separators or bidirectional control characters.
pub(super) fn island(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out += &format!("\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_island_ends_no_script_and_comes_back(text in "(<[/!]?|script|>|&|\u{2028}|\\PC){0,60}") {
            let island = island(&text).unwrap();
            let bare = island.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(!bare, "{}", island);
            prop_assert_eq!(serde_json::from_str::<String>(&island).unwrap(), text);
        }
    }
}
