//! Gate of a pipeline: losses that are beyond the noise and larger than accepted, and figures that cannot
//! be compared.

use super::{Comparison, Pair, Verdict};
use logforce_terminal::numbers::count;

/// Reasons to stop a pipeline.
#[derive(Debug)]
pub struct Gate<'a> {
    /// Rows that are slower in B, beyond the noise and by more than is accepted.
    pub slower: Vec<&'a Pair>,
    /// Rows that took longer in B than is accepted, but not more than the machine may have moved. With them alone
    /// nothing can be concluded.
    pub machine: Vec<&'a Pair>,
    /// Rows that A measured and for which B has no figure.
    pub failed: Vec<&'a Pair>,
    /// Figures of A that have no counterpart in B.
    pub not_comparable: &'a [String],
}

impl Gate<'_> {
    /// Returns whether there is no reason to stop. Does not consider [`machine`](Self::machine).
    pub fn is_open(&self) -> bool {
        self.slower.is_empty() && self.failed.is_empty() && self.not_comparable.is_empty()
    }
}

/// Formats a part as on the command line: `10 %`.
pub fn part_in_percent(part: f64) -> String {
    let text = format!("{:.2}", part * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Comparison {
    /// Returns the reasons to stop a pipeline that accepts a loss of `part` (0.1 is 10 %).
    pub fn gate(&self, part: f64) -> Gate<'_> {
        let of = |verdict: Verdict| self.rows.iter().filter(move |p| p.verdict == verdict);
        let is_more = |pair: &&Pair| pair.time_ratio.is_some_and(|r| r > 1.0 + part);
        Gate {
            slower: of(Verdict::Slower).filter(is_more).collect(),
            machine: of(Verdict::Machine).filter(is_more).collect(),
            failed: of(Verdict::Failed).collect(),
            not_comparable: &self.not_comparable,
        }
    }

    /// Describes the rows whose noise is larger than `part`, and the smallest losses that can be detected
    /// there. Returns `None` if `part` takes effect in every row.
    pub fn least_effective(&self, part: f64) -> Option<String> {
        let noisy = |pair: &&Pair| pair.noise.is_some_and(|n| n > part);
        let noisy: Vec<&Pair> = self.rows.iter().filter(noisy).collect();
        let (known, unknown): (Vec<&Pair>, Vec<&Pair>) =
            noisy.iter().partition(|pair| pair.is_known_noise);
        let mut parts = Vec::new();
        if let Some(noise) = unknown.first().and_then(|pair| pair.noise) {
            let (from, rows) = (part_in_percent(noise), rows_of(unknown.len()));
            parts.push(format!("{from} or more in {rows} without slices (~)"));
        }
        let of = |pair: &&Pair| pair.noise.unwrap_or(0.0);
        let noisiest = known.iter().max_by(|a, b| of(a).total_cmp(&of(b)));
        if let Some(worst) = noisiest {
            let from = |noise: f64| format!("{:.1} %", noise * 100.0);
            let least = known.iter().map(of).fold(f64::INFINITY, f64::min);
            let (least, most) = (from(least), from(of(worst)));
            parts.push(match known.len() {
                1 => format!("{most} in {}", worst.row),
                n => format!(
                    "{least} to {most} in {} by their slices (most: {})",
                    rows_of(n),
                    worst.row
                ),
            });
        }
        (!noisy.is_empty()).then(|| {
            format!(
                "In {} of {} the noise is larger than {}, so a loss within the noise cannot fail. Smallest losses that can: {}.",
                noisy.len(),
                rows_of(self.rows.len()),
                part_in_percent(part),
                parts.join("; ")
            )
        })
    }
}

fn rows_of(n: usize) -> String {
    count(n as u64, "row")
}
