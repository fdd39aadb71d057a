//! Bar chart: amounts as lengths from zero.

use super::canvas::{Anchor, Canvas, Key, LINE, Width, legend, name_of_row, width_of};
use super::scale::{Scale, axis};

/// A bar chart.
#[derive(Debug)]
pub struct Bars {
    /// Names of the bars in each row.
    pub series: Vec<String>,
    /// Names of the rows, and their values; `None` if a value is unknown.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Unit of the scale.
    pub unit: String,
}

/// Height of a bar, in units of the drawing.
const BAR: f64 = 14.0;

impl Bars {
    /// Draws the chart; returns its height.
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
        let left = match width {
            // Names are above the bars.
            Width::Narrow => 12.0,
            Width::Wide => (names + 16.0).min(340.0),
        };
        let right = w - 62.0;
        let values = self.rows.iter().flat_map(|r| r.1.iter().flatten().copied());
        let scale = Scale::from_zero(values, left, right);
        let rows: Vec<Placed<'_>> = self
            .rows
            .iter()
            .map(|r| Placed::of(r, left, width))
            .collect();
        let height: f64 = rows.iter().map(|r| r.head + r.body + 8.0).sum();
        let bottom = top + height;
        for tick in scale.ticks(((right - left) / 70.0) as usize) {
            if let Some(x) = scale.at(tick) {
                let mut y = top;
                for row in &rows {
                    // Leaves out the lines of names.
                    let below = y + row.head + row.body + 8.0;
                    canvas.line("grid", (x, y + row.head), (x, below));
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
        for row in &rows {
            let (name, values) = row.of;
            match width {
                Width::Narrow => canvas.lines("label", (12.0, y + 13.0), Anchor::Start, &row.name),
                Width::Wide => {
                    let more = LINE * (row.name.len() - 1) as f64;
                    let middle = y + (row.body - more) / 2.0 + 4.0;
                    canvas.lines("label", (left - 8.0, middle), Anchor::End, &row.name);
                }
            }
            y += row.head;
            let mut at = y + (row.body - Placed::bars(values)) / 2.0;
            for (n, value) in values.iter().enumerate() {
                let (text, end) = match value {
                    Some(value) => (axis(*value), scale.at(*value).unwrap_or(left)),
                    None => ("n/a".to_owned(), left),
                };
                let series = self.series.get(n).map_or("", String::as_str);
                let title = format!("{name}, {series}: {text}");
                canvas.rect(&format!("bar s{n}"), (left, at), (end - left, BAR), &title);
                canvas.text("value", (end + 6.0, at + BAR - 3.0), Anchor::Start, &text);
                at += BAR + 2.0;
            }
            y += row.body + 8.0;
        }
        bottom + 44.0
    }
}

type Row = (String, Vec<Option<f64>>);

/// A row with the lines of its name, and the height of these and of the bars.
struct Placed<'a> {
    of: &'a Row,
    name: Vec<String>,
    /// Height above the bars.
    head: f64,
    body: f64,
}

impl Placed<'_> {
    fn of(of: &Row, left: f64, width: Width) -> Placed<'_> {
        let bars = Placed::bars(&of.1);
        let (name, head, beside) = name_of_row(&of.0, width, left);
        let body = bars.max(beside);
        Placed {
            of,
            name,
            head,
            body,
        }
    }

    fn bars(values: &[Option<f64>]) -> f64 {
        values.len() as f64 * (BAR + 2.0)
    }
}
