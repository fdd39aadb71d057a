//! Charts as SVG. Each is drawn once for a page and once for a telephone. The text of a drawing that is only
//! scaled down would be too small to read.

mod bars;
mod canvas;
mod curves;
mod dots;
mod heat;
mod lines;
mod scale;
#[cfg(target_os = "linux")]
mod timeline;

pub use bars::Bars;
pub use canvas::Width;
use canvas::{Anchor, Canvas, LINE, wrapped};
pub use curves::{Curve, Curves, percent};
pub use dots::{Dot, Dots};
pub use heat::Heat;
pub use lines::{ChartPoint, Lines, MOST, Series};
use maud::{Markup, PreEscaped, html};
#[cfg(target_os = "linux")]
pub use timeline::{Lane, Timeline};

/// Style sheet of every chart, in a page and in an SVG file.
pub const STYLE_OF_CHARTS: &str = include_str!("chart.css");

/// A chart.
#[derive(Debug)]
pub enum Chart {
    /// Values on a logarithmic scale.
    Dots(Dots),
    /// Series against steps.
    Lines(Lines),
    /// Amounts from zero.
    Bars(Bars),
    /// A heat map.
    Heat(Heat),
    /// Distributions.
    Curves(Curves),
    /// Events before a moment.
    #[cfg(target_os = "linux")]
    Timeline(Timeline),
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
            #[cfg(target_os = "linux")]
            Chart::Timeline(timeline) => timeline.draw(&mut canvas, width),
        };
        (canvas.finish(), height)
    }

    /// Draws the chart as an element of a page.
    pub fn element(&self, title: &str, caption: &str, width: Width) -> Markup {
        let (drawn, height) = self.draw(width);
        let class = match width {
            Width::Narrow => "chart narrow",
            Width::Wide => "chart wide",
        };
        html! {
            svg class=(class) role="img" aria-label=(format!("{}. {} The table below has every figure.", title, caption))
                viewBox=(format!("0 0 {} {height:.0}", width.units())) {
                (drawn)
            }
        }
    }

    /// Draws the chart as a complete SVG file.
    pub fn file(&self, title: &str, caption: &str) -> String {
        let (drawn, height) = self.draw(Width::Wide);
        let w = Width::Wide.units();
        let lines = wrapped(title, w - 12.0);
        let room = 12.0 + LINE * lines.len() as f64;
        let h = height + room;
        let mut heading = Canvas::default();
        heading.lines("title", (6.0, 20.0), Anchor::Start, &lines);
        let svg = html! {
            svg xmlns="http://www.w3.org/2000/svg" class="chart" width=(w) height=(format!("{h:.0}"))
                viewBox=(format!("0 0 {w} {h:.0}")) {
                title { (title) }
                desc { (caption) }
                style { (PreEscaped(STYLE_OF_CHARTS)) }
                (heading.finish())
                g transform=(format!("translate(0 {room})")) { (drawn) }
            }
        };
        svg.into_string()
    }
}
