//! Parts that the scenarios share: formatting of values, and charts that several have.

use crate::amount::significant;
use crate::chart::{Bars, Chart, ChartPoint, Lines, MOST, Series};
use crate::figure::{Figure, Table};
use crate::sign::{Guarantee, doubt};
use logforce_measure::run::Ratio;
use logforce_measure::{Quantity, Row};

/// Formats a value; a dash if it was not measured.
pub fn value(value: Option<f64>, decimals: usize) -> String {
    logforce_terminal::numbers::number(value.filter(|v| v.is_finite()), decimals)
}

/// Formats a ratio with its interval: `1.12 × (1.05 to 1.20)`.
pub fn multiple(ratio: &Ratio) -> String {
    let figure = value(Some(ratio.figure), 2);
    match ratio.high.is_finite() {
        true => format!("{figure} × ({})", ratio.interval()),
        false => format!("{figure} ×"),
    }
}

/// Returns the time of a row as a multiple of another's, from their figures and their rounds.
pub fn ratio(of: &Row, to: &Row, figure: impl Fn(&Row) -> Option<f64>) -> Option<Ratio> {
    let rounds = of.each.iter().copied().zip(to.each.iter().copied());
    Some(Ratio::of(figure(of)? / figure(to)?, rounds))
}

/// Returns a name with the sign of the guarantee before it and the mark of doubt after it.
pub fn signed(name: &str, row: &Row) -> String {
    format!("{} {name}{}", Guarantee::of(row).character(), doubt(row))
}

/// Returns the chart of the device's counters per commit; `None` without counters.
pub fn device(id: &str, rows: &[(String, &Row)]) -> Option<Figure> {
    if rows
        .iter()
        .all(|(_, r)| r.device_writes_per_commit.is_none())
    {
        return None;
    }
    let mut table = Table::new([
        "a commit",
        "device writes",
        "cache flushes",
        "bytes",
        "bytes of the file",
    ]);
    let bars = rows.iter().map(|(name, row)| {
        let values = vec![row.device_writes_per_commit, row.device_flushes_per_commit];
        let bytes = |of: Option<f64>| {
            let whole = of.map(|b| b.round().max(0.0) as u64);
            whole.map_or_else(|| "-".to_owned(), logforce_terminal::numbers::bytes)
        };
        table.push([
            name.clone(),
            value(values[0], 2),
            value(values[1], 2),
            bytes(row.device_bytes_per_commit),
            bytes(row.file_bytes_per_commit),
        ]);
        (name.clone(), values)
    });
    let bars = bars.collect();
    Some(Figure {
        id: id.to_owned(),
        title: "Writes and flushes of the device per commit".to_owned(),
        caption: "Writes and cache flushes that the block device completed, by its own counters, divided by the number of commits. They \
                  include the work of other processes. A method that promises to survive a loss of power and flushes nothing \
                  relies on the device: either the device writes through by itself, or the promise is not kept."
            .to_owned(),
        chart: Chart::Bars(Bars {
            series: ["writes", "flushes"].map(str::to_owned).to_vec(),
            rows: bars,
            unit: "per commit".to_owned(),
        }),
        table,
    })
}

/// A series: its name, its points by step, and true for published figures of others.
pub type Named = (String, Vec<Option<ChartPoint>>, bool);

/// Description of a line chart with its table.
pub struct Against {
    /// Identifier of the figure.
    pub id: String,
    /// Title of the figure.
    pub title: String,
    /// Caption of the figure.
    pub caption: String,
    /// Names of the steps.
    pub steps: Vec<String>,
    /// Meaning of the steps.
    pub across: String,
    /// Unit of the values.
    pub unit: String,
    /// True for a logarithmic scale.
    pub is_log: bool,
    /// Series; only the first [`MOST`] are drawn.
    pub series: Vec<Named>,
}

impl Against {
    /// Returns the figure; `None` if no series has a point.
    pub fn figure(mut self) -> Option<Figure> {
        self.series.truncate(MOST);
        let has_points = self
            .series
            .iter()
            .any(|(_, points, _)| points.iter().any(Option::is_some));
        if !has_points {
            return None;
        }
        let first = format!("{} by {}", self.unit, self.across);
        let figure = |v| significant(v, 4);
        let mut table = Table::new([first.as_str()]);
        table.heads.extend(self.steps.iter().cloned());
        for (name, points, _) in &self.series {
            let words = points.iter().map(|p| match p {
                None => "-".to_owned(),
                Some(ChartPoint {
                    value: v,
                    spread: None,
                }) => figure(*v),
                Some(ChartPoint {
                    value: v,
                    spread: Some((low, high)),
                }) => format!("{} ({}–{})", figure(*v), figure(*low), figure(*high)),
            });
            table.push([name.clone()].into_iter().chain(words));
        }
        let series = self
            .series
            .into_iter()
            .map(|(label, points, is_published)| Series {
                label,
                points,
                is_published,
            });
        Some(Figure {
            id: self.id,
            title: self.title,
            caption: self.caption,
            chart: Chart::Lines(Lines {
                steps: self.steps,
                across: self.across,
                unit: self.unit,
                series: series.collect(),
                is_log: self.is_log,
            }),
            table,
        })
    }
}

/// Returns a value with the spread of its slices.
pub fn spread(row: &Row, of: Quantity) -> Option<ChartPoint> {
    let [value, p10, p90] = row.triple(of);
    Some(ChartPoint {
        value: value?,
        spread: p10.zip(p90),
    })
}

/// Returns the distinct values of a field, ascending.
pub fn steps(rows: &[&Row], of: impl Fn(&Row) -> u64) -> Vec<u64> {
    let mut steps: Vec<u64> = rows.iter().map(|r| of(r)).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Returns the distinct texts of a field, in the order of the rows.
pub fn words<'a>(rows: &[&'a Row], of: impl Fn(&'a Row) -> &'a str) -> Vec<&'a str> {
    let mut words = Vec::new();
    for row in rows {
        if !words.contains(&of(row)) {
            words.push(of(row));
        }
    }
    words
}
