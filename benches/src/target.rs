//! What was aimed at, and whether it was reached. A target that was missed is told and fails
//! nothing: a busy neighbour can make anybody miss it.

use logforce_terminal::numbers::short;
use serde::Serialize;

/// Which way a target binds.
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
    /// Whether `value` reaches `target`.
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

/// A target and how it went, such as `target ≤ 1.05: PASS`.
pub fn verdict(bound: Bound, target: f64, met: bool) -> String {
    let met = if met { "PASS" } else { "MISS" };
    format!("target {} {target}: {met}", bound.sign())
}

/// A number with three digits, or a dash.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| short(v, 3))
}

/// Where 8 of 10 values lie, such as ` [0.9–1.1]`.
pub fn between(p10: Option<f64>, p90: Option<f64>) -> String {
    format!(" [{}–{}]", number(p10), number(p90))
}
