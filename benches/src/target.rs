//! Targets, and whether they are met. A missed target is reported but is not a failure: a busy neighbour
//! on the machine can cause one.

use logforce_measure::run::stats::Spread;
use logforce_terminal::numbers::short;
use serde::Serialize;

/// Direction of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The value must not be higher.
    AtMost,
    /// The value must not be lower.
    AtLeast,
    /// The value must be lower.
    Below,
}

impl Bound {
    /// Returns true if `value` meets `target`.
    pub fn is_met(self, value: f64, target: f64) -> bool {
        match self {
            Bound::AtMost => value <= target,
            Bound::AtLeast => value >= target,
            Bound::Below => value < target,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Bound::AtMost => "≤",
            Bound::AtLeast => "≥",
            Bound::Below => "<",
        }
    }
}

/// A target and its result.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// Name, such as `commits-16x128B`.
    pub name: String,
    /// Compared values, in words.
    pub what: String,
    /// Result, in `unit`: the median over all pairs where each pair has a value.
    pub value: Option<f64>,
    /// 10th percentile of the pairs.
    pub value_p10: Option<f64>,
    /// 90th percentile of the pairs.
    pub value_p90: Option<f64>,
    /// Unit of `value`: `ratio`, `commits/s` or `share`.
    pub unit: &'static str,
    /// Direction of the target; `None` for a value without a target.
    pub bound: Option<Bound>,
    /// Target value.
    pub target: Option<f64>,
    /// Ratio to the raw loop, if at least as many commits as the raw loop's also meet the target.
    pub or_to_raw: Option<f64>,
    /// True if the target was met.
    pub met: Option<bool>,
    /// Number of pairs.
    pub pairs: u64,
}

impl Target {
    /// Returns the result of a case, without a target.
    pub fn of(
        name: String,
        what: String,
        value: Option<Spread>,
        unit: &'static str,
        pairs: usize,
    ) -> Target {
        Target {
            name,
            what,
            value: value.map(|s| s.median),
            value_p10: value.map(|s| s.p10),
            value_p90: value.map(|s| s.p90),
            unit,
            bound: None,
            target: None,
            or_to_raw: None,
            met: None,
            pairs: pairs as u64,
        }
    }

    /// Adds the target value.
    pub fn aim(self, bound: Bound, target: f64) -> Target {
        let met = self.value.map(|v| bound.is_met(v, target));
        Target {
            bound: Some(bound),
            target: Some(target),
            met,
            ..self
        }
    }

    /// Accepts a ratio to the raw loop of at least 1 as well.
    pub fn or_as_raw(self, ratio: Option<Spread>) -> Target {
        let ratio = ratio.map(|s| s.median);
        Target {
            or_to_raw: ratio,
            met: self.met.map(|met| met || ratio.is_some_and(|r| r >= 1.0)),
            ..self
        }
    }

    /// Returns the text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}: ", self.what);
        text.push_str(&match self.unit {
            "share" => format!("{} %", number(self.value.map(|v| v * 100.0))),
            "commits/s" => number(self.value),
            _ => format!("× {}", number(self.value)),
        });
        if self.value_p10.is_some() && self.pairs > 1 {
            let scale = if self.unit == "share" { 100.0 } else { 1.0 };
            let edge = |v: Option<f64>| v.map(|v| v * scale);
            text.push_str(&between(edge(self.value_p10), edge(self.value_p90)));
        }
        if let Some(raw) = self.or_to_raw {
            text.push_str(&format!(", × {} the raw loop's", number(Some(raw))));
        }
        if let (Some(bound), Some(target), Some(met)) = (self.bound, self.target, self.met) {
            text.push_str("   ");
            text.push_str(&verdict(bound, target, met));
            if self.or_to_raw.is_some() {
                text.push_str(" (or the raw loop's rate)");
            }
        }
        text.push('\n');
        text
    }
}

/// Returns a target and its result, such as `target ≤ 1.05: PASS`.
pub fn verdict(bound: Bound, target: f64, met: bool) -> String {
    let met = if met { "PASS" } else { "MISS" };
    format!("target {} {target}: {met}", bound.sign())
}

/// Returns a number with three digits, or a dash.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| short(v, 3))
}

/// Returns the range of the middle 80 % of the values, such as ` [0.9–1.1]`.
pub fn between(p10: Option<f64>, p90: Option<f64>) -> String {
    format!(" [{}–{}]", number(p10), number(p90))
}

/// Returns a ratio with the range of the middle 80 %, or nothing.
pub fn ratio(value: Option<f64>, p10: Option<f64>, p90: Option<f64>) -> String {
    match value {
        Some(value) => format!("{}{}", short(value, 2), between(p10, p90)),
        None => String::new(),
    }
}
