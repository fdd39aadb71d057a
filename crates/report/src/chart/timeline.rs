//! Timeline: events of several kinds before a moment, one row for each kind.

use super::canvas::{Anchor, Canvas, LINE, Width, width_of};
use super::scale::{Scale, axis};

/// A row of events.
#[derive(Debug)]
pub struct Lane {
    /// Name of the row.
    pub label: String,
    /// Times before the end, in the unit of the scale.
    pub times: Vec<f64>,
}

/// A timeline, which ends at zero on the right.
#[derive(Debug)]
pub struct Timeline {
    /// Rows, from top to bottom.
    pub lanes: Vec<Lane>,
    /// Unit of the scale, with the moment at its end.
    pub unit: String,
}

/// Height of a row of marks, in units of the drawing.
const BODY: f64 = 26.0;

impl Timeline {
    /// Draws the chart; returns its height.
    pub fn draw(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let names = self.lanes.iter().map(|lane| width_of(&lane.label));
        // In a narrow drawing the names are above the rows.
        let (left, head) = match width {
            Width::Narrow => (14.0, LINE),
            Width::Wide => (names.fold(0.0, f64::max) + 20.0, 0.0),
        };
        let right = width.units() - 16.0;
        let times = self
            .lanes
            .iter()
            .flat_map(|lane| lane.times.iter().copied());
        // From the right to the left: the scale begins at the end.
        let scale = Scale::from_zero(times, right, left);
        let top = 8.0;
        let bottom = top + (head + BODY) * self.lanes.len() as f64;
        for tick in scale.ticks(((right - left) / 70.0) as usize) {
            let Some(x) = scale.at(tick) else { continue };
            for row in 0..self.lanes.len() {
                let y = top + (head + BODY) * row as f64 + head;
                canvas.line("grid", (x, y), (x, y + BODY));
            }
            canvas.text("tick", (x, bottom + 16.0), Anchor::Middle, &axis(tick));
        }
        for (row, lane) in self.lanes.iter().enumerate() {
            let y = top + (head + BODY) * row as f64;
            let middle = y + head + BODY / 2.0;
            let baseline = match width {
                Width::Narrow => y + LINE - 5.0,
                Width::Wide => middle + 4.0,
            };
            canvas.text("label", (4.0, baseline), Anchor::Start, &lane.label);
            let class = format!("s{row}");
            for time in &lane.times {
                if let Some(x) = scale.at(*time) {
                    let title = format!("{}: {time:.3}", lane.label);
                    canvas.mark(&class, row, (x, middle), &title);
                }
            }
        }
        let unit_at = ((left + right) / 2.0, bottom + 36.0);
        canvas.text("axis", unit_at, Anchor::Middle, &self.unit);
        bottom + 44.0
    }
}
