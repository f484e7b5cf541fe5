//! Lines over named places: a chart whose columns are numbers of threads, in bands of one block or precision each.

use plimsoll_published::Matched;
use plimsoll_units::quantity::Unit;

use crate::report::html::charts::is_wide;
use crate::report::html::data::{Axis, Band, Chart, Kind, Role, Scale, Series};

/// A place of the axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    /// What is the same in a band: the block, the precision; empty where there is one band alone.
    pub(super) band: String,
    /// Its own name, such as the number of threads.
    pub(super) name: String,
}

/// A figure at a column.
pub(super) struct At {
    pub(super) column: usize,
    pub(super) value: f64,
    /// Least and most, where known.
    pub(super) range: Option<[f64; 2]>,
    /// What the hover says of it beside the value.
    pub(super) label: String,
}

/// The lines of a chart, while they are put together.
pub(super) struct Lines {
    columns: Vec<Column>,
    series: Vec<Series>,
}

impl Lines {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self { columns, series: Vec::new() }
    }

    /// Whether anything of this role is drawn.
    pub(super) fn has(&self, role: Role) -> bool {
        self.series.iter().any(|one| one.role == role)
    }

    /// Whether anything is drawn.
    pub(super) fn has_any(&self) -> bool {
        !self.series.is_empty()
    }

    /// Adds a figure to the line of that name. A line is broken between bands, and where a column has several figures.
    pub(super) fn add(&mut self, name: &str, role: Role, at: At) {
        if !(at.value.is_finite() && at.value > 0.0) {
            return;
        }
        let index = self.series.iter().position(|one| one.name == name).unwrap_or_else(|| {
            self.series.push(Series::new(name, role, Vec::new()));
            self.series.len() - 1
        });
        let band = |column: usize| self.columns.get(column).map(|c| c.band.as_str());
        let line = &mut self.series[index];
        let before = line.points.last().and_then(|p| p.first().copied().flatten());
        if before.is_some_and(|x| x as usize == at.column || band(x as usize) != band(at.column)) {
            line.points.push(vec![None, None]);
            line.labels.push(String::new());
        }
        let mut point = vec![Some(at.column as f64), Some(at.value)];
        point.extend(at.range.iter().flatten().copied().map(Some));
        line.points.push(point);
        line.labels.push(at.label);
    }

    /// The chart: lines in the order of their roles, side by side, so that equal figures do not hide each other.
    pub(super) fn chart(mut self, title: String, note: String, axis: &str, y: Axis) -> Chart {
        const MIN_LABEL_DISTANCE: f64 = 0.13;
        self.series.sort_by_key(|one| one.role);
        let beside = |one: &Series| !matches!(one.role, Role::Limit | Role::Theory);
        let count = self.series.iter().filter(|one| beside(one)).count();
        let apart = MIN_LABEL_DISTANCE.min(0.6 / count.max(1) as f64);
        for (place, one) in self.series.iter_mut().filter(|one| beside(one)).enumerate() {
            let shift = (place as f64 - (count as f64 - 1.0) / 2.0) * apart;
            one.points.iter_mut().filter_map(|p| p.first_mut()).for_each(|x| *x = x.map(|x| x + shift));
        }
        let scale = if is_wide(&self.series) { Scale::Log } else { Scale::Linear };
        Chart {
            id: String::new(),
            title,
            note,
            kind: Kind::Lines,
            x: Axis::places(axis, self.columns.iter().map(|c| c.name.clone()).collect()),
            y: Axis { scale, ..y },
            bands: self.bands(),
            series: self.series,
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

/// The axis of our metric.
pub(super) fn metric(of: &Matched, unit: Option<Unit>) -> Axis {
    Axis::linear(of.metric, unit.map_or("", Unit::name))
}
