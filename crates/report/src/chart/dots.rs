//! Dot chart: values of many rows on one logarithmic scale, each with its spread.

use super::canvas::{Anchor, Canvas, Key, LINE, Width, legend, name_of_row, width_of};
use super::scale::{Scale, axis};
use crate::sign::Sign;

/// A row of the chart.
#[derive(Debug, Clone)]
pub struct Dot {
    /// Name of the row.
    pub label: String,
    /// Colour and shape of the mark.
    pub sign: Sign,
    /// Value at the mark.
    pub value: f64,
    /// End of the thin line from the mark.
    pub high: Option<f64>,
    /// Value as text.
    pub text: String,
}

/// A dot chart.
#[derive(Debug)]
pub struct Dots {
    /// Rows, from top to bottom.
    pub rows: Vec<Dot>,
    /// Unit of the scale.
    pub unit: String,
    /// Reference value, drawn as a line.
    pub base: Option<f64>,
}

/// Height below the last row, in units of the drawing.
const AXIS: f64 = 44.0;

impl Dots {
    /// Draws the chart; returns its height.
    pub fn draw(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let w = width.units();
        let names = self
            .rows
            .iter()
            .map(|r| width_of(&r.label))
            .fold(0.0, f64::max);
        let texts = self
            .rows
            .iter()
            .map(|r| width_of(&r.text))
            .fold(0.0, f64::max);
        let left = match width {
            // Names are above the rows.
            Width::Narrow => 12.0,
            Width::Wide => (names + 16.0).min(390.0),
        };
        let rows: Vec<Placed<'_>> = self
            .rows
            .iter()
            .map(|r| Placed::of(r, left, width))
            .collect();
        let right = w - texts - 14.0;
        let mut used: Vec<Sign> = Vec::new();
        for row in &self.rows {
            if !used.contains(&row.sign) {
                used.push(row.sign);
            }
        }
        used.sort_by_key(|sign| sign.shape);
        let keys: Vec<Key> = used
            .into_iter()
            .map(|sign| Key {
                class: sign.class.to_owned(),
                shape: sign.shape,
                has_line: false,
                label: sign.words.to_owned(),
            })
            .collect();
        let top = legend(canvas, &keys, w);
        let values = self
            .rows
            .iter()
            .flat_map(|r| [Some(r.value), r.high])
            .flatten();
        let values = values.chain(self.base);
        let scale = Scale::log(values, left + 6.0, right - 6.0);
        let bottom = top + rows.iter().map(|r| r.head + r.body).sum::<f64>();
        let most = ((right - left) / 70.0) as usize;
        for tick in scale.ticks(most) {
            if let Some(x) = scale.at(tick) {
                upright(canvas, "grid", x, top, &rows);
                canvas.text("tick", (x, bottom + 16.0), Anchor::Middle, &axis(tick));
            }
        }
        if let Some(x) = self.base.and_then(|b| scale.at(b)) {
            upright(canvas, "base", x, top, &rows);
        }
        let middle = match width {
            Width::Narrow => w / 2.0,
            Width::Wide => (left + right) / 2.0,
        };
        canvas.text("axis", (middle, bottom + 36.0), Anchor::Middle, &self.unit);
        let mut above = top;
        for Placed {
            of: row,
            name,
            head,
            body,
        } in &rows
        {
            let y = above + head + body / 2.0 - 1.0;
            match width {
                Width::Narrow => {
                    let at = (12.0, above + LINE - 3.0);
                    canvas.lines("label", at, Anchor::Start, name);
                }
                Width::Wide => {
                    let more = LINE * (name.len() - 1) as f64;
                    let at = (left - 8.0, y + 4.0 - more / 2.0);
                    canvas.lines("label", at, Anchor::End, name);
                }
            }
            above += head + body;
            let title = format!("{}: {}, {}", row.label, row.text, row.sign.words);
            let at = scale.at(row.value);
            let class = row.sign.class;
            if let (Some(x), Some(to)) = (at, row.high.and_then(|h| scale.at(h))) {
                canvas.line(&format!("range {class}"), (x, y), (to, y));
                canvas.line(&format!("range {class}"), (to, y - 4.0), (to, y + 4.0));
            }
            if let Some(x) = at {
                canvas.mark(class, row.sign.shape, (x, y), &title);
            }
            canvas.text("value", (w - 6.0, y + 4.0), Anchor::End, &row.text);
        }
        bottom + AXIS
    }
}

/// A row with the lines of its name, and its height.
struct Placed<'a> {
    of: &'a Dot,
    name: Vec<String>,
    /// Height above the mark.
    head: f64,
    body: f64,
}

impl Placed<'_> {
    fn of(of: &Dot, left: f64, width: Width) -> Placed<'_> {
        let (name, head, beside) = name_of_row(&of.label, width, left);
        let body = (LINE + 4.0).max(beside + 8.0);
        Placed {
            of,
            name,
            head,
            body,
        }
    }
}

/// Draws a vertical line that leaves out the lines of names.
fn upright(canvas: &mut Canvas, class: &str, x: f64, top: f64, rows: &[Placed<'_>]) {
    let mut above = top;
    for row in rows {
        let end = above + row.head + row.body;
        canvas.line(class, (x, above + row.head), (x, end));
        above = end;
    }
}
