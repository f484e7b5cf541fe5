//! Line charts over labelled columns (thread counts), grouped in bands of one block or precision.

use crate::report::html::charts::is_wide;
use crate::report::html::data::{Band, Chart, ChartAxis, ChartSeries, SeriesRole};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct AxisPlace {
    pub(super) band: String,
    pub(super) name: String,
}

pub(super) struct ReportLines {
    columns: Vec<AxisPlace>,
    pub(super) series: Vec<ChartSeries>,
}

impl ReportLines {
    pub(super) fn new(columns: Vec<AxisPlace>) -> Self {
        Self { columns, series: Vec::new() }
    }

    /// Adds the point (`x`, value) or (`x`, value, minimum, maximum) to line `name` if the value is
    /// positive. Lines break between bands (groups of columns), and between points in one column.
    pub(super) fn add(&mut self, name: &str, role: SeriesRole, x: usize, values: &[f64], label: String) {
        if !values.first().is_some_and(|value| value.is_finite() && *value > 0.0) {
            return;
        }
        let index = self.series.iter().position(|one| one.name == name).unwrap_or_else(|| {
            self.series.push(ChartSeries::new(name, role, Vec::new()));
            self.series.len() - 1
        });
        let band = |column: usize| self.columns.get(column).map(|c| c.band.as_str());
        let line = &mut self.series[index];
        let before = line.points.last().and_then(|p| p.first().copied().flatten());
        if before.is_some_and(|before| before as usize == x || band(before as usize) != band(x)) {
            line.points.push(vec![None, None]);
            line.labels.push(String::new());
        }
        line.points.push([x as f64].iter().chain(values).copied().map(Some).collect());
        line.labels.push(label);
    }

    /// Builds the chart, with `threads` on the x axis if all columns are numbers. Lines are sorted
    /// by role, and shifted sideways against overlap.
    pub(super) fn chart(mut self, title: String, note: String, y: ChartAxis) -> Chart {
        const MIN_LABEL_DISTANCE: f64 = 0.13;
        self.series.sort_by_key(|one| one.role);
        let is_measured = |one: &ChartSeries| !matches!(one.role, SeriesRole::Limit | SeriesRole::Theory);
        let measured: Vec<&mut ChartSeries> = self.series.iter_mut().filter(|one| is_measured(one)).collect();
        let distance = MIN_LABEL_DISTANCE.min(0.6 / measured.len().max(1) as f64);
        shift(measured, distance);
        let counts = self.columns.iter().all(|column| column.name.parse::<u64>().is_ok());
        let names = self.columns.iter().map(|column| column.name.clone()).collect();
        Chart {
            title,
            note,
            x: ChartAxis::places(if counts { "threads" } else { "" }, names),
            y: y.scaled(is_wide(&self.series)),
            bands: self.bands(),
            series: self.series,
            ..Chart::default()
        }
    }

    fn bands(&self) -> Vec<Band> {
        let mut bands: Vec<Band> = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let (from, to) = (Some(index as f64 - 0.5), Some(index as f64 + 0.5));
            match bands.last_mut().filter(|band| band.name == column.band) {
                Some(band) => band.to = to,
                None => bands.push(Band { name: column.band.clone(), from, to }),
            }
        }
        if bands.len() > 1 { bands } else { Vec::new() }
    }
}

/// Shifts series sideways by multiples of `distance`, on the x axis; the middle one stays.
pub(super) fn shift(series: Vec<&mut ChartSeries>, distance: f64) {
    let middle = (series.len() as f64 - 1.0) / 2.0;
    for (place, one) in series.into_iter().enumerate() {
        let shift = (place as f64 - middle) * distance;
        one.points.iter_mut().filter_map(|p| p.first_mut()).for_each(|x| *x = x.map(|x| x + shift));
    }
}
