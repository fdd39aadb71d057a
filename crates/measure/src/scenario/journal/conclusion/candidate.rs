//! Methods that may be recommended, and the comparison of two.

use crate::result::Row;
use crate::run::Ratio;
use crate::run::ratio::FEWEST_ROUNDS;
use logforce_device::Method;

/// Minimum number of commits of a row for a comparison.
pub const FEWEST_COMMITS: u64 = 20;

/// A method, over all its rows that count.
pub struct Candidate<'a> {
    /// The method.
    pub method: Method,
    /// Milliseconds per commit: mean over the rows.
    pub ms: f64,
    /// The rows.
    pub rows: Vec<&'a Row>,
}

impl Candidate<'_> {
    /// Returns whether too little was measured for a comparison.
    pub fn is_lacking(&self) -> bool {
        !self.rows.iter().any(|r| is_enough(r))
    }

    /// Returns the time of this method as a multiple of another's, from the slices of the rows on files in the
    /// same state. Without such rows every row of one is compared with every row of the other.
    pub fn ratio(&self, to: &Candidate) -> Ratio {
        let pairs = || {
            self.rows
                .iter()
                .flat_map(|a| to.rows.iter().map(move |b| (*a, *b)))
        };
        let has_common = pairs().any(|(a, b)| a.file_state == b.file_state);
        let comparable = pairs().filter(|(a, b)| {
            (!has_common || a.file_state == b.file_state) && is_enough(a) && is_enough(b)
        });
        let slices =
            comparable.flat_map(|(a, b)| a.each.iter().copied().zip(b.each.iter().copied()));
        Ratio::of(self.ms / to.ms, slices)
    }
}

/// Returns whether a row was measured long enough for a comparison.
fn is_enough(row: &Row) -> bool {
    row.each.len() >= FEWEST_ROUNDS && row.commits.unwrap_or(0) >= FEWEST_COMMITS
}

/// Returns the methods of the rows, the fastest first.
pub fn candidates<'a>(rows: &[&'a Row]) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for by in Method::ALL {
        let of = rows.iter().copied();
        let mut of: Vec<&Row> = of
            .filter(|r| r.method == by && r.ms_per_commit.is_some())
            .collect();
        if of.is_empty() {
            continue;
        }
        if of.iter().any(|r| is_enough(r)) {
            of.retain(|r| is_enough(r));
        }
        let ms = of.iter().filter_map(|r| r.ms_per_commit).sum::<f64>() / of.len() as f64;
        candidates.push(Candidate {
            method: by,
            ms,
            rows: of,
        });
    }
    candidates.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    candidates
}
