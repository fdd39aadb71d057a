//! Canvas: the SVG elements of a drawing, and the approximate size of their text.

use maud::{Markup, PreEscaped, html};

/// Width for which a chart is drawn. Each width has its own drawing, so that text keeps its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Width of a telephone.
    Narrow,
    /// Width of a page.
    Wide,
}

impl Width {
    /// Returns the width in units of the drawing.
    pub fn units(self) -> f64 {
        match self {
            Width::Narrow => 340.0,
            Width::Wide => 720.0,
        }
    }
}

/// Height of a line of text, in units of the drawing.
pub const LINE: f64 = 18.0;
/// Approximate width of a character, in units of the drawing.
const CHARACTER: f64 = 7.7;

/// Returns the approximate width of a text.
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Returns the approximate width of the widest line.
pub fn longest(lines: &[String]) -> f64 {
    lines.iter().map(|l| width_of(l)).fold(0.0, f64::max)
}

/// Splits the name of a row into lines. In a narrow drawing they are above the row, else left of it, up to
/// `left`. Also returns the height above the row and the height beside it, one of which is 0.
pub fn name_of_row(name: &str, width: Width, left: f64) -> (Vec<String>, f64, f64) {
    let room = match width {
        Width::Narrow => width.units() - 20.0,
        Width::Wide => left - 12.0,
    };
    let lines = wrapped(name, room);
    let height = LINE * lines.len() as f64;
    match width {
        Width::Narrow => (lines, height, 0.0),
        Width::Wide => (lines, 0.0, height),
    }
}

/// Splits a text into lines of at most `width`. A line ends at a space, else after a punctuation character,
/// else anywhere.
pub fn wrapped(text: &str, width: f64) -> Vec<String> {
    let most = (width / CHARACTER).max(4.0) as usize;
    let mut lines = Vec::new();
    let mut rest: Vec<char> = text.trim().chars().collect();
    while rest.len() > most {
        let space = rest[..=most].iter().rposition(|c| *c == ' ');
        let sign = rest[..most].iter().rposition(|c| ",=/;:_-.".contains(*c));
        // Avoids very short lines.
        let end = space.filter(|at| *at > most / 3);
        let end = end.or(sign.map(|at| at + 1).filter(|at| *at > most / 3));
        let behind = rest.split_off(end.unwrap_or(most));
        lines.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = behind.into_iter().skip_while(|c| *c == ' ').collect();
    }
    lines.push(rest.into_iter().collect());
    lines
}

/// Position of a text relative to its coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// Formats a coordinate with at most two decimals.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Elements, in the order in which they are drawn.
#[derive(Default)]
pub struct Canvas(String);

impl Canvas {
    fn push(&mut self, element: Markup) {
        self.0.push_str(&element.0);
        self.0.push('\n');
    }

    /// Adds a text with its baseline at `y`.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.push(html! {
            text class=(class) x=(short(x)) y=(short(y)) text-anchor=(anchor.name()) { (text) }
        });
    }

    /// Adds lines of text, with the baseline of the first at `y`.
    pub fn lines(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, lines: &[String]) {
        for (n, line) in lines.iter().enumerate() {
            self.text(class, (x, y + LINE * n as f64), anchor, line);
        }
    }

    /// Adds a line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(html! {
            line class=(class) x1=(short(x1)) y1=(short(y1)) x2=(short(x2)) y2=(short(y2)) {}
        });
    }

    /// Adds lines through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{},{}", short(*x), short(*y)))
            .collect();
        self.push(html! { polyline class=(class) points=(points.join(" ")) {} });
    }

    /// Adds a rectangle with a tooltip.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        self.push(html! {
            rect class=(class) x=(short(x)) y=(short(y)) width=(short(w.max(0.0))) height=(short(h)) {
                title { (title) }
            }
        });
    }

    /// Adds a mark of one of six shapes, with a tooltip.
    pub fn mark(&mut self, class: &str, shape: usize, (x, y): (f64, f64), title: &str) {
        const R: f64 = 5.0;
        let points = |all: &[(f64, f64)]| {
            let all: Vec<String> = all
                .iter()
                .map(|(dx, dy)| format!("{},{}", short(x + dx * R), short(y + dy * R)))
                .collect();
            all.join(" ")
        };
        let title = html! { title { (title) } };
        let class = format!("mark {class}");
        self.push(match shape % 6 {
            0 => html! { circle class=(class) cx=(short(x)) cy=(short(y)) r=(R) { (title) } },
            1 => html! {
                rect class=(class) x=(short(x - 4.5)) y=(short(y - 4.5)) width="9" height="9" { (title) }
            },
            2 => html! {
                polygon class=(class) points=(points(&[(0.0, -1.1), (1.1, 0.9), (-1.1, 0.9)])) { (title) }
            },
            3 => html! {
                path class=(format!("{class} cross"))
                    d=(format!("M{} {}L{} {}M{0} {3}L{2} {1}", short(x - 4.5), short(y - 4.5), short(x + 4.5), short(y + 4.5)))
                    { (title) }
            },
            4 => html! {
                polygon class=(class) points=(points(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)])) { (title) }
            },
            _ => html! {
                path class=(format!("{class} cross"))
                    d=(format!("M{0} {1}L{0} {2}M{3} {4}L{5} {4}", short(x), short(y - 5.5), short(y + 5.5), short(x - 5.5), short(y), short(x + 5.5)))
                    { (title) }
            },
        });
    }

    /// Returns all elements.
    pub fn finish(self) -> Markup {
        PreEscaped(self.0)
    }
}

/// An entry of a legend.
pub struct Key {
    /// Class of the colour.
    pub class: String,
    /// Number of the shape.
    pub shape: usize,
    /// True if a line goes through the mark.
    pub has_line: bool,
    /// Meaning.
    pub label: String,
}

/// Draws a legend, and returns the position at which the drawing below it begins.
pub fn legend(canvas: &mut Canvas, keys: &[Key], width: f64) -> f64 {
    let (mut x, mut y) = (10.0, LINE);
    for key in keys {
        let label = wrapped(&key.label, width - 40.0);
        let need = 28.0 + longest(&label) + 18.0;
        if x > 10.0 && x + need > width {
            (x, y) = (10.0, y + LINE + 2.0);
        }
        if key.has_line {
            let class = format!("line {}", key.class);
            canvas.line(&class, (x - 8.0, y - 4.0), (x + 16.0, y - 4.0));
        }
        canvas.mark(&key.class, key.shape, (x + 4.0, y - 4.0), &key.label);
        canvas.lines("label", (x + 22.0, y), Anchor::Start, &label);
        x += need;
        if label.len() > 1 {
            // The next entry begins below this one.
            (x, y) = (width, y + LINE * (label.len() - 1) as f64);
        }
    }
    y + if keys.is_empty() { -LINE } else { 14.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_none_is_lost() {
        let at = |text: &str, most: f64| wrapped(text, most * CHARACTER);
        assert_eq!(at("abcdefgh", 20.0), ["abcdefgh"]);
        assert_eq!(at("abc def", 7.0), ["abc def"]);
        assert_eq!(at("abc defg", 7.0), ["abc", "defg"]);
        assert_eq!(at("abcdefgh", 5.0), ["abcde", "fgh"]);
        assert_eq!(at("", 5.0), [""]);
        let name = "PostgreSQL synchronous_commit=on, open_datasync";
        let lines = at(name, 20.0);
        assert_eq!(
            lines,
            ["PostgreSQL", "synchronous_commit=", "on, open_datasync"]
        );
        for most in 4..60 {
            let lines = at(name, f64::from(most));
            assert!(lines.iter().all(|l| l.chars().count() <= most as usize));
            let letters = |text: &str| text.replace(' ', "");
            assert_eq!(letters(&lines.concat()), letters(name));
        }
    }

    #[test]
    fn words_cannot_become_elements() {
        let mut canvas = Canvas::default();
        canvas.text("label", (0.0, 0.0), Anchor::Start, "<script>&\"");
        let drawn = canvas.finish().0;
        assert!(drawn.contains("&lt;script&gt;&amp;"), "{drawn}");
    }
}
