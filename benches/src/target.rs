//! Targets, and whether they are met. A missed target is reported but is not a failure: a busy neighbour
//! on the machine can cause one.

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
