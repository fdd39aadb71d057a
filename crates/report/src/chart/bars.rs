//! Amounts side by side, as lengths from zero.

use super::canvas::{Anchor, Canvas, Key, LINE, Width, cut, legend, width_of};
use super::scale::{Scale, axis};

/// Rows of some bars each.
#[derive(Debug)]
pub struct Bars {
    /// Of the bars in each row.
    pub series: Vec<String>,
    /// Names of rows, and their values; `None` where nothing is known.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Of the scale.
    pub unit: String,
}

/// Height of a bar.
const BAR: f64 = 14.0;

impl Bars {
    /// Draws it; returns its height.
    pub fn draw(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let w = width.units();
        let keys: Vec<Key> = self
            .series
            .iter()
            .enumerate()
            .map(|(n, label)| Key {
                class: format!("s{n}"),
                shape: 1,
                has_line: false,
                label: label.clone(),
            })
            .collect();
        let keys = if keys.len() > 1 { keys } else { Vec::new() };
        let top = legend(canvas, &keys, w) + 6.0;
        let names = self.rows.iter().map(|r| width_of(&r.0)).fold(0.0, f64::max);
        let (left, head) = match width {
            Width::Narrow => (12.0, LINE),
            Width::Wide => ((names + 16.0).min(340.0), 0.0),
        };
        let right = w - 62.0;
        let values = self.rows.iter().flat_map(|r| r.1.iter().flatten().copied());
        let scale = Scale::from_zero(values, left, right);
        let bars = |row: &(String, Vec<Option<f64>>)| row.1.len() as f64 * (BAR + 2.0);
        let height: f64 = self.rows.iter().map(|r| head + bars(r) + 8.0).sum();
        let bottom = top + height;
        for tick in scale.ticks(((right - left) / 70.0) as usize) {
            if let Some(x) = scale.at(tick) {
                let mut y = top;
                for row in &self.rows {
                    // Not through names.
                    let below = y + head + bars(row) + 8.0;
                    canvas.line("grid", (x, y + head), (x, below));
                    y = below;
                }
                canvas.text("tick", (x, bottom + 16.0), Anchor::Middle, &axis(tick));
            }
        }
        canvas.text(
            "axis",
            ((left + right) / 2.0, bottom + 36.0),
            Anchor::Middle,
            &self.unit,
        );
        let mut y = top;
        for row in &self.rows {
            match width {
                Width::Narrow => canvas.text(
                    "label",
                    (12.0, y + 13.0),
                    Anchor::Start,
                    &cut(&row.0, w - 20.0),
                ),
                Width::Wide => {
                    let middle = y + bars(row) / 2.0 + 4.0;
                    canvas.text(
                        "label",
                        (left - 8.0, middle),
                        Anchor::End,
                        &cut(&row.0, left - 12.0),
                    );
                }
            }
            y += head;
            for (n, value) in row.1.iter().enumerate() {
                let (text, end) = match value {
                    Some(value) => (axis(*value), scale.at(*value).unwrap_or(left)),
                    None => ("n/a".to_owned(), left),
                };
                let name = self.series.get(n).map_or("", String::as_str);
                let title = format!("{}, {name}: {text}", row.0);
                canvas.rect(&format!("bar s{n}"), (left, y), (end - left, BAR), &title);
                canvas.text("value", (end + 6.0, y + BAR - 3.0), Anchor::Start, &text);
                y += BAR + 2.0;
            }
            y += 8.0;
        }
        bottom + 44.0
    }
}
