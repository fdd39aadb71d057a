//! Figures of the methods on files that were filled beforehand, as the conclusion has them.

use super::candidate::candidates;
use crate::result::{Name, Row};
use crate::run::Ratio;
use crate::scenario::journal::row::is_written;
use logforce_device::Method;

/// A method that survives loss of power, over its rows on files that were filled beforehand.
#[derive(Debug, Clone, PartialEq)]
pub struct Filled {
    /// The method.
    pub method: Method,
    /// Milliseconds per commit: mean over the rows.
    pub ms: f64,
    /// Time as a multiple of the recommended method's; `None` for that method itself, and without one.
    pub ratio: Option<Ratio>,
}

/// Returns the methods, the fastest first.
pub fn filled(rows: &[&Row], recommended: &Name) -> Vec<Filled> {
    let rows = rows.iter().copied();
    let rows: Vec<&Row> = rows.filter(|r| r.is_safe() && is_written(r)).collect();
    let all = candidates(&rows);
    let chosen = all.iter().find(|c| *recommended == c.method);
    let of = all.iter().map(|c| Filled {
        method: c.method,
        ms: c.ms,
        ratio: chosen
            .filter(|chosen| chosen.method != c.method)
            .map(|chosen| c.ratio(chosen)),
    });
    of.collect()
}
