//! Values of many rows on one scale of orders of magnitude, each with how far it spreads.

use super::canvas::{Anchor, Canvas, Key, LINE, Width, cut, legend, width_of};
use super::scale::{Scale, axis};
use crate::sign::Sign;

/// One row.
#[derive(Debug, Clone)]
pub struct Dot {
    /// Its name.
    pub label: String,
    /// Its colour and shape.
    pub sign: Sign,
    /// Where the sign is.
    pub value: f64,
    /// Up to here a thin line goes.
    pub high: Option<f64>,
    /// The value in words.
    pub text: String,
}

/// All of them.
#[derive(Debug)]
pub struct Dots {
    /// The rows, from top to bottom.
    pub rows: Vec<Dot>,
    /// Of the scale.
    pub unit: String,
    /// A value to hold them against.
    pub base: Option<f64>,
}

/// Below the last row.
const AXIS: f64 = 44.0;

impl Dots {
    /// Draws it; returns its height.
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
        let (left, step) = match width {
            // Names have lines of their own.
            Width::Narrow => (12.0, 2.0 * LINE + 4.0),
            Width::Wide => ((names + 16.0).min(390.0), LINE + 8.0),
        };
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
        let bottom = top + step * self.rows.len() as f64;
        let most = ((right - left) / 70.0) as usize;
        for tick in scale.ticks(most) {
            if let Some(x) = scale.at(tick) {
                self.upright(canvas, "grid", x, (top, step, width));
                canvas.text("tick", (x, bottom + 16.0), Anchor::Middle, &axis(tick));
            }
        }
        if let Some(x) = self.base.and_then(|b| scale.at(b)) {
            self.upright(canvas, "base", x, (top, step, width));
        }
        let middle = match width {
            Width::Narrow => w / 2.0,
            Width::Wide => (left + right) / 2.0,
        };
        canvas.text("axis", (middle, bottom + 36.0), Anchor::Middle, &self.unit);
        for (n, row) in self.rows.iter().enumerate() {
            let above = top + step * n as f64;
            let y = above + step - LINE / 2.0 - 2.0;
            match width {
                Width::Narrow => canvas.text(
                    "label",
                    (12.0, above + LINE - 3.0),
                    Anchor::Start,
                    &cut(&row.label, w - 20.0),
                ),
                Width::Wide => canvas.text(
                    "label",
                    (left - 8.0, y + 4.0),
                    Anchor::End,
                    &cut(&row.label, left - 12.0),
                ),
            }
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

    /// A line from top to bottom, which does not go through names.
    fn upright(
        &self,
        canvas: &mut Canvas,
        class: &str,
        x: f64,
        (top, step, width): (f64, f64, Width),
    ) {
        let end = |n: usize| top + step * n as f64;
        match width {
            Width::Wide => canvas.line(class, (x, top), (x, end(self.rows.len()))),
            Width::Narrow => {
                for n in 0..self.rows.len() {
                    canvas.line(class, (x, end(n) + LINE), (x, end(n + 1)));
                }
            }
        }
    }
}
