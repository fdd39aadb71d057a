//! Distributions: the share of the commits that took no longer than a time.
//!
//! Each step of the same width to the right leaves a tenth of the commits: 90 %, 99 %, 99.9 %.
//! On a linear scale the slow commits, for which users wait, would lie in the last millimetre.

use super::canvas::{Anchor, Canvas, Key, Width, legend, width_of};
use super::lines::MOST;
use super::scale::Scale;
use crate::{tick, time};

/// One distribution.
#[derive(Debug)]
pub struct Curve {
    /// Name of the curve.
    pub label: String,
    /// Points, ascending: a percentage of the commits, and their longest time in microseconds.
    pub points: Vec<(f64, f64)>,
}

/// A chart of distributions.
#[derive(Debug)]
pub struct Curves {
    /// Curves, at most [`MOST`].
    pub curves: Vec<Curve>,
}

/// Height of the chart without its texts, in units of the drawing.
const HEIGHT: f64 = 280.0;
/// Maximum number of nines. No run has enough commits for more.
const MOST_NINES: f64 = 6.0;
/// Distance from the last percentage to the longest commit, in nines.
const LONGEST: f64 = 0.4;
/// Percentages with a label, the most important first, because not all may fit.
const TICKS: [f64; 8] = [50.0, 90.0, 99.0, 99.9, 100.0, 99.99, 99.999, 0.0];
/// Percentages at which a curve has a mark.
const MARKED: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Returns the number of nines: 1 for 90 %, 2 for 99 %.
fn nines(percent: f64) -> f64 {
    let rest = (1.0 - percent / 100.0).max(10_f64.powf(-MOST_NINES));
    -rest.log10()
}

/// Returns a percentage in words.
pub fn percent(percent: f64) -> String {
    match percent {
        p if p >= 100.0 => "longest".to_owned(),
        p if p <= 0.0 => "shortest".to_owned(),
        p => format!("{p} %"),
    }
}

/// Horizontal scale of percentages.
struct Across {
    left: f64,
    right: f64,
    /// Number of nines at the left end; `most` is that at the right end.
    least: f64,
    most: f64,
}

impl Across {
    fn at(&self, percent: f64) -> f64 {
        let at = match percent {
            p if p >= 100.0 => self.most,
            p => nines(p).clamp(self.least, self.most),
        };
        self.left + (at - self.least) / (self.most - self.least) * (self.right - self.left)
    }
}

impl Curves {
    /// Draws the chart; returns its height.
    pub fn draw(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let w = width.units();
        let keys: Vec<Key> = self.curves.iter().enumerate().map(key).collect();
        let top = legend(canvas, &keys, w) + 10.0;
        let bottom = top + HEIGHT;
        let all = || self.curves.iter().flat_map(|c| c.points.iter().copied());
        let scale = Scale::log(all().map(|(_, us)| us), bottom, top);
        let ticks: Vec<(f64, String)> = scale.ticks(8).into_iter().map(|t| (t, tick(t))).collect();
        let widest = ticks.iter().map(|(_, t)| width_of(t)).fold(20.0, f64::max);
        let inside = || all().map(|(p, _)| p).filter(|p| *p < 100.0).map(nines);
        // An older result has no percentiles below its first one.
        let least = inside().fold(1.0, f64::min);
        let across = Across {
            left: 14.0 + widest,
            right: w - 20.0,
            least,
            most: inside().fold(least + 1.0, f64::max) + LONGEST,
        };
        for (tick, text) in &ticks {
            if let Some(y) = scale.at(*tick) {
                canvas.line("grid", (across.left, y), (across.right, y));
                canvas.text("tick", (across.left - 6.0, y + 4.0), Anchor::End, text);
            }
        }
        // A narrow drawing needs short labels.
        let (of, unit) = match width {
            Width::Narrow => ("% of the commits took no longer", ""),
            Width::Wide => ("of the commits took no longer", " %"),
        };
        draw_percentages(canvas, &across, (top, bottom), unit);
        let middle = ((across.left + across.right) / 2.0, bottom + 38.0);
        canvas.text("axis", middle, Anchor::Middle, of);
        for (n, curve) in self.curves.iter().enumerate() {
            draw(canvas, (n, curve), &scale, &across);
        }
        bottom + 46.0
    }
}

fn key((n, curve): (usize, &Curve)) -> Key {
    Key {
        class: class(n),
        shape: n,
        has_line: true,
        label: curve.label.clone(),
    }
}

fn class(n: usize) -> String {
    format!("s{}", n % MOST)
}

/// Draws a line at each labelled percentage, and the labels that fit.
fn draw_percentages(canvas: &mut Canvas, across: &Across, (top, bottom): (f64, f64), unit: &str) {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for tick in TICKS {
        // There are no data between the last known percentage and the longest commit.
        let known = across.least..=across.most - LONGEST + 1e-9;
        if tick < 100.0 && !known.contains(&nines(tick)) {
            continue;
        }
        let x = across.at(tick);
        canvas.line("grid", (x, top), (x, bottom));
        let text = percent(tick).replace(" %", unit);
        let half = width_of(&text) / 2.0 + 4.0;
        // The last label ends at the edge of the drawing.
        let (from, to, anchor, place) = match tick {
            100.0 => (
                across.right - 2.0 * half,
                across.right + 14.0,
                Anchor::End,
                across.right + 14.0,
            ),
            _ => (x - half, x + half, Anchor::Middle, x),
        };
        if taken.iter().all(|(a, b)| to < *a || from > *b) {
            canvas.text("tick", (place, bottom + 18.0), anchor, &text);
            taken.push((from, to));
        }
    }
}

fn draw(canvas: &mut Canvas, (n, curve): (usize, &Curve), scale: &Scale, across: &Across) {
    let class = class(n);
    let places = curve.points.iter();
    let places: Vec<(f64, f64)> = places
        .filter_map(|(percent, us)| Some((across.at(*percent), scale.at(*us)?)))
        .collect();
    canvas.path(&format!("line {class}"), &places);
    for (at, us) in &curve.points {
        if let Some(y) = scale.at(*us).filter(|_| MARKED.contains(at)) {
            let title = format!("{}, {}: {}", curve.label, percent(*at), time(*us));
            canvas.mark(&class, n, (across.at(*at), y), &title);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_has_as_much_room_as_the_one_before() {
        let across = Across {
            left: 0.0,
            right: 440.0,
            least: 0.0,
            most: 4.4,
        };
        let places = [0.0, 90.0, 99.0, 99.9, 99.99, 100.0].map(|p| across.at(p).round());
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0, 400.0, 440.0]);
        for strange in [99.999_999_999_9, 1e9, -5.0] {
            assert!((-10.0..=440.0).contains(&across.at(strange)), "{strange}");
        }
    }
}
