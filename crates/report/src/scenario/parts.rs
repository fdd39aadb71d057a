//! What the scenarios share: words for values, charts that several have.

use crate::chart::{Bars, Chart, ChartPoint, Lines, MOST, Series, axis};
use crate::figure::{Figure, Table};
use crate::sign::{Guarantee, doubt};
use logforce_measure::{Quantity, Row};

/// A value; a dash for what was not measured.
pub fn value(value: Option<f64>, decimals: usize) -> String {
    logforce_terminal::numbers::number(value.filter(|v| v.is_finite()), decimals)
}

/// A name with its sign in front, and its doubt behind.
pub fn signed(name: &str, row: &Row) -> String {
    format!("{} {name}{}", Guarantee::of(row).character(), doubt(row))
}

/// What the device did for a commit, by its own counters.
pub fn device(id: &str, rows: &[(String, &Row)]) -> Option<Figure> {
    if rows
        .iter()
        .all(|(_, r)| r.device_writes_per_commit.is_none())
    {
        return None;
    }
    let mut table = Table::new(["a commit", "device writes", "cache flushes", "bytes"]);
    let bars = rows.iter().map(|(name, row)| {
        let values = vec![row.device_writes_per_commit, row.device_flushes_per_commit];
        let bytes = row.device_bytes_per_commit.map(|b| b.round().max(0.0));
        let bytes = bytes.map_or_else(
            || "-".to_owned(),
            |b| logforce_terminal::numbers::bytes(b as u64),
        );
        table.push([
            name.clone(),
            value(values[0], 2),
            value(values[1], 2),
            bytes,
        ]);
        (name.clone(), values)
    });
    let bars = bars.collect();
    Some(Figure {
        id: id.to_owned(),
        title: "What the device did for a commit".to_owned(),
        caption: "Writes and cache flushes that the block device completed, by its own counters, divided by the commits; what \
                  others did to it meanwhile is in them. A method that promises a loss of power and flushes nothing relies on \
                  the device: it writes through by itself, or the promise is not kept."
            .to_owned(),
        chart: Chart::Bars(Bars {
            series: ["writes", "flushes"].map(str::to_owned).to_vec(),
            rows: bars,
            unit: "per commit".to_owned(),
        }),
        table,
    })
}

/// One series: its name, its points by step, and whether somebody else measured it.
pub type Named = (String, Vec<Option<ChartPoint>>, bool);

/// Series against steps, with their table.
pub struct Against {
    /// Of the figure.
    pub id: String,
    /// Of the figure.
    pub title: String,
    /// Of the figure.
    pub caption: String,
    /// The steps.
    pub steps: Vec<String>,
    /// What they are.
    pub across: String,
    /// Of the values.
    pub unit: String,
    /// By orders of magnitude.
    pub is_log: bool,
    /// The series.
    pub series: Vec<Named>,
}

impl Against {
    /// The figure; `None` if there is nothing to compare.
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
        let mut table = Table::new([first.as_str()]);
        table.heads.extend(self.steps.iter().cloned());
        for (name, points, _) in &self.series {
            let words = points.iter().map(|p| match p {
                None => "-".to_owned(),
                Some(ChartPoint {
                    value: v,
                    spread: None,
                }) => axis(*v),
                Some(ChartPoint {
                    value: v,
                    spread: Some((low, high)),
                }) => format!("{} ({}–{})", axis(*v), axis(*low), axis(*high)),
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

/// A value with the spread of its slices.
pub fn spread(row: &Row, of: Quantity) -> Option<ChartPoint> {
    let [value, p10, p90] = row.triple(of);
    Some(ChartPoint {
        value: value?,
        spread: p10.zip(p90),
    })
}

/// The different values of a field, from small to large.
pub fn steps(rows: &[&Row], of: impl Fn(&Row) -> u64) -> Vec<u64> {
    let mut steps: Vec<u64> = rows.iter().map(|r| of(r)).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// The different words of a field, in their order.
pub fn words<'a>(rows: &[&'a Row], of: impl Fn(&'a Row) -> &'a str) -> Vec<&'a str> {
    let mut words = Vec::new();
    for row in rows {
        if !words.contains(&of(row)) {
            words.push(of(row));
        }
    }
    words
}
