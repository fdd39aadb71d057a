//! Heat map: a grid of values. Higher values have a stronger colour, the same on a light and a dark ground.

use super::canvas::{Anchor, Canvas, Width, width_of};
use super::scale::axis;

/// A heat map.
#[derive(Debug)]
pub struct Heat {
    /// Names of the columns, from left to right.
    pub columns: Vec<String>,
    /// Meaning of the columns.
    pub across: String,
    /// Names of the rows and their values; `None` if a value was not measured.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Meaning of the rows.
    pub down: String,
    /// Unit of the values.
    pub unit: String,
    /// For each row, the column whose cell has an outline.
    pub outlined: Vec<Option<usize>>,
}

/// Number of shades in the style sheet.
const SHADES: usize = 8;
const CELL: f64 = 30.0;

impl Heat {
    /// Draws the chart; returns its height.
    pub fn draw(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let w = width.units();
        let names = self.rows.iter().map(|r| width_of(&r.0)).fold(0.0, f64::max);
        let left = (names + 14.0).min(w * 0.4);
        let top = 62.0;
        let gap = (w - left - 4.0) / self.columns.len().max(1) as f64;
        let all = self.rows.iter().flat_map(|r| r.1.iter().flatten().copied());
        let all: Vec<f64> = all.filter(|v| *v > 0.0).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        // Logarithmic: twice the value is the same step everywhere.
        let shade = |value: f64| match high > low && value > 0.0 {
            true => {
                let part = (value / low).ln() / (high / low).ln();
                ((part * SHADES as f64) as usize).min(SHADES - 1)
            }
            false => 0,
        };
        let head = format!("{} by {}; {}", self.down, self.across, self.unit);
        canvas.text("axis", (w / 2.0, 16.0), Anchor::Middle, &head);
        let longest = self.columns.iter().map(|c| width_of(c)).fold(0.0, f64::max) + 6.0;
        for (n, column) in self.columns.iter().enumerate() {
            let x = left + gap * (n as f64 + 0.5);
            // Names that do not fit next to each other alternate between two lines.
            let up = if longest > gap && n % 2 == 0 {
                26.0
            } else {
                10.0
            };
            canvas.text("tick", (x, top - up), Anchor::Middle, column);
        }
        for (r, (name, cells)) in self.rows.iter().enumerate() {
            let y = top + CELL * r as f64;
            canvas.text(
                "label",
                (left - 6.0, y + CELL / 2.0 + 4.0),
                Anchor::End,
                name,
            );
            for (n, cell) in cells.iter().enumerate() {
                let x = left + gap * n as f64;
                let (class, text) = match cell {
                    Some(value) => (format!("h{}", shade(*value)), axis(*value)),
                    None => ("h-none".to_owned(), "–".to_owned()),
                };
                let class = match self.outlined.get(r) {
                    Some(Some(column)) if *column == n => format!("{class} outlined"),
                    _ => class,
                };
                let column = self.columns.get(n).map_or("", String::as_str);
                let title = format!("{name}, {column}: {text} {}", self.unit);
                canvas.rect(
                    &format!("cell {class}"),
                    (x, y),
                    (gap - 2.0, CELL - 2.0),
                    &title,
                );
                if width_of(&text) < gap {
                    let at = (x + gap / 2.0 - 1.0, y + CELL / 2.0 + 4.0);
                    canvas.text(
                        &format!("in-cell t-{}", class.split(' ').next().unwrap_or("")),
                        at,
                        Anchor::Middle,
                        &text,
                    );
                }
            }
        }
        top + CELL * self.rows.len() as f64 + 6.0
    }
}
