//! Charts as SVG, drawn once for a page and once for a telephone: a drawing that is only made smaller
//! has words that nobody can read.

mod bars;
mod canvas;
mod curves;
mod dots;
mod heat;
mod lines;
mod scale;

use crate::figure::Figure;
use crate::page::STYLE_OF_CHARTS;
pub use bars::Bars;
pub use canvas::Width;
use canvas::{Anchor, Canvas, LINE, wrapped};
pub use curves::{Curve, Curves, percent};
pub use dots::{Dot, Dots};
pub use heat::Heat;
pub use lines::{Lines, MOST, Point, Series};
use maud::{Markup, PreEscaped, html};
pub use scale::axis;

/// A chart.
#[derive(Debug)]
pub enum Chart {
    /// Values on a scale of orders of magnitude.
    Dots(Dots),
    /// Series against steps.
    Lines(Lines),
    /// Amounts from zero.
    Bars(Bars),
    /// A grid.
    Heat(Heat),
    /// Distributions.
    Curves(Curves),
}

impl Chart {
    fn draw(&self, width: Width) -> (Markup, f64) {
        let mut canvas = Canvas::default();
        let height = match self {
            Chart::Dots(dots) => dots.draw(&mut canvas, width),
            Chart::Lines(lines) => lines.draw(&mut canvas, width),
            Chart::Bars(bars) => bars.draw(&mut canvas, width),
            Chart::Heat(heat) => heat.draw(&mut canvas, width),
            Chart::Curves(curves) => curves.draw(&mut canvas, width),
        };
        (canvas.finish(), height)
    }
}

/// The chart as an element of a page.
pub fn element(figure: &Figure, width: Width) -> Markup {
    let (drawn, height) = figure.chart.draw(width);
    let class = match width {
        Width::Narrow => "chart narrow",
        Width::Wide => "chart wide",
    };
    html! {
        svg class=(class) role="img" aria-label=(format!("{}. {} The table below has every figure.", figure.title, figure.caption))
            viewBox=(format!("0 0 {} {height:.0}", width.units())) {
            (drawn)
        }
    }
}

/// The chart as a file of its own.
pub fn file(figure: &Figure) -> String {
    let (drawn, height) = figure.chart.draw(Width::Wide);
    let w = Width::Wide.units();
    let lines = wrapped(&figure.title, w - 12.0);
    let room = 12.0 + LINE * lines.len() as f64;
    let h = height + room;
    let mut title = Canvas::default();
    title.lines("title", (6.0, 20.0), Anchor::Start, &lines);
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="chart" width=(w) height=(format!("{h:.0}"))
            viewBox=(format!("0 0 {w} {h:.0}")) {
            title { (figure.title) }
            desc { (figure.caption) }
            style { (PreEscaped(STYLE_OF_CHARTS)) }
            (title.finish())
            g transform=(format!("translate(0 {room})")) { (drawn) }
        }
    };
    svg.into_string()
}
