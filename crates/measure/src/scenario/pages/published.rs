//! Published figures of the same workload, for comparison with ours as ratios.

/// Source of the figures.
pub const SOURCE: &str = "SQLite users' list; Windows, a disk of 7200 rpm";

/// One published row: commits per second of a number of pages of 4 KiB and a header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Number of pages.
    pub pages: u64,
    /// Commits per second with write-through.
    pub through: f64,
    /// Commits per second with plain writes and a flush.
    pub flush: f64,
}

const fn row(pages: u64, through: f64, flush: f64) -> Published {
    Published {
        pages,
        through,
        flush,
    }
}

/// All published rows.
pub const P3: [Published; 5] = [
    row(5, 200.0, 21.3),
    row(10, 83.1, 20.0),
    row(20, 57.1, 21.2),
    row(40, 24.2, 19.5),
    row(80, 14.0, 17.0),
];

/// Revolutions per second of that disk.
const TURNS: f64 = 7200.0 / 60.0;

impl Published {
    /// Returns the row of a number of pages.
    pub fn of(pages: u64) -> Option<Published> {
        P3.into_iter().find(|p| p.pages == pages)
    }

    /// Returns the time of write-through divided by that of the flush.
    pub fn ratio(&self) -> f64 {
        self.flush / self.through
    }

    /// Returns the durable writes per second, those of the header included.
    fn durable_writes(&self) -> f64 {
        self.through * (self.pages + 1) as f64
    }
}

/// Returns the crossover of the published figures: the last number of pages for which write-through is cheaper,
/// and the first one for which the flush is.
pub fn crossover_of_p3() -> Option<(u64, u64)> {
    let through = P3.iter().rfind(|p| p.ratio() < 1.0)?;
    let flush = P3.iter().find(|p| p.ratio() > 1.0)?;
    Some((through.pages, flush.pages))
}

/// Returns a remark on the disk of the published figures.
pub fn remark() -> String {
    let first = P3[0];
    format!(
        "Published: {:.0} durable writes a second at N = {} on a disk with {TURNS:.0} revolutions a \
         second. So its cache answered, and the disk did not write through.",
        first.durable_writes(),
        first.pages
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_was_published_and_crosses_between_40_and_80() {
        let sums = P3.iter().fold((0, 0.0, 0.0), |(n, a, b), p| {
            (n + p.pages, a + p.through, b + p.flush)
        });
        assert_eq!(sums.0, 155);
        assert!((sums.1 - 378.4_f64).abs() < 1e-9 && (sums.2 - 99.0_f64).abs() < 1e-9);
        assert_eq!(crossover_of_p3(), Some((40, 80)));
        assert!(remark().contains("1200 durable writes"), "{}", remark());
    }
}
