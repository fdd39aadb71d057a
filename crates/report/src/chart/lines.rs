//! Line chart: values of several series against steps, such as threads or pages.

use super::canvas::{Anchor, Canvas, Key, Width, legend, width_of};
use super::scale::{Scale, axis};

/// A value of a chart with its spread.
#[derive(Debug, Clone, Copy)]
pub struct ChartPoint {
    /// Value at the mark.
    pub value: f64,
    /// Range in which 8 of 10 values lie.
    pub spread: Option<(f64, f64)>,
}

impl ChartPoint {
    /// Creates a value without spread.
    pub fn of(value: f64) -> ChartPoint {
        ChartPoint {
            value,
            spread: None,
        }
    }
}

/// One series.
#[derive(Debug)]
pub struct Series {
    /// Name of the series.
    pub label: String,
    /// Points, one for each step; `None` if there was no measurement.
    pub points: Vec<Option<ChartPoint>>,
    /// True for published figures of others, which are drawn thin.
    pub is_published: bool,
}

/// A line chart.
#[derive(Debug)]
pub struct Lines {
    /// Names of the steps.
    pub steps: Vec<String>,
    /// Meaning of the steps.
    pub across: String,
    /// Unit of the values.
    pub unit: String,
    /// Series, at most [`MOST`].
    pub series: Vec<Series>,
    /// True for a logarithmic scale, otherwise a linear scale from zero.
    pub is_log: bool,
}

/// Maximum number of series that a reader can distinguish.
pub const MOST: usize = 6;

/// Height of the chart without its texts, in units of the drawing.
const HEIGHT: f64 = 260.0;

impl Lines {
    /// Draws the chart; returns its height.
    pub fn draw(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let w = width.units();
        let keys: Vec<Key> = self
            .series
            .iter()
            .enumerate()
            .map(|(n, s)| Key {
                class: class(n, s),
                shape: n,
                has_line: true,
                label: s.label.clone(),
            })
            .collect();
        let top = legend(canvas, &keys, w) + 22.0;
        let bottom = top + HEIGHT;
        let points = self.series.iter().flat_map(|s| s.points.iter().flatten());
        let values = points.flat_map(|p| {
            let (low, high) = p.spread.unwrap_or((p.value, p.value));
            [p.value, low, high]
        });
        let scale = match self.is_log {
            true => Scale::log(values, bottom, top),
            false => Scale::from_zero(values, bottom, top),
        };
        let ticks: Vec<(f64, String)> = scale.ticks(7).into_iter().map(|t| (t, axis(t))).collect();
        let left = 14.0 + ticks.iter().map(|(_, t)| width_of(t)).fold(20.0, f64::max);
        let right = w - 14.0;
        canvas.text("axis", (6.0, top - 12.0), Anchor::Start, &self.unit);
        for (tick, text) in &ticks {
            if let Some(y) = scale.at(*tick) {
                canvas.line("grid", (left, y), (right, y));
                canvas.text("tick", (left - 6.0, y + 4.0), Anchor::End, text);
            }
        }
        let gap = (right - left) / self.steps.len().max(1) as f64;
        let x = |n: usize| left + gap * (n as f64 + 0.5);
        let longest = self.steps.iter().map(|s| width_of(s)).fold(0.0, f64::max) + 8.0;
        let each = (longest / gap).ceil().max(1.0) as usize;
        for (n, step) in self.steps.iter().enumerate().step_by(each) {
            canvas.text("tick", (x(n), bottom + 18.0), Anchor::Middle, step);
        }
        canvas.text(
            "axis",
            ((left + right) / 2.0, bottom + 38.0),
            Anchor::Middle,
            &self.across,
        );
        for (n, series) in self.series.iter().enumerate() {
            self.draw_series(canvas, (n, series), &scale, &x);
        }
        bottom + 46.0
    }

    fn draw_series(
        &self,
        canvas: &mut Canvas,
        (n, series): (usize, &Series),
        scale: &Scale,
        x: &dyn Fn(usize) -> f64,
    ) {
        let class = class(n, series);
        let mut run = Vec::new();
        for (step, point) in series.points.iter().enumerate() {
            match point.and_then(|p| scale.at(p.value)) {
                Some(y) => run.push((x(step), y)),
                None => canvas.path(&format!("line {class}"), &std::mem::take(&mut run)),
            }
        }
        canvas.path(&format!("line {class}"), &run);
        for (step, point) in series.points.iter().enumerate() {
            let Some((point, y)) = point.and_then(|p| Some((p, scale.at(p.value)?))) else {
                continue;
            };
            let place = x(step);
            if let Some((low, high)) = point.spread
                && let (Some(low), Some(high)) = (scale.at(low), scale.at(high))
            {
                canvas.line(&format!("range {class}"), (place, low), (place, high));
            }
            let at = self.steps.get(step).map_or("", String::as_str);
            let title = format!(
                "{}, {at} {}: {} {}",
                series.label,
                self.across,
                axis(point.value),
                self.unit
            );
            canvas.mark(&class, n, (place, y), &title);
        }
    }
}

fn class(n: usize, series: &Series) -> String {
    let published = if series.is_published {
        " published"
    } else {
        ""
    };
    format!("s{}{published}", n % MOST)
}
