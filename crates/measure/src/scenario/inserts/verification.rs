//! Verification after a run: the rows that were read back against the acknowledged ones.

use super::Sale;
use logforce_terminal::numbers::count;

/// Receiver of every row that is read back.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// Number of occurrences of each row, by its number.
    times: Vec<u8>,
    foreign: u64,
    redone: Option<u64>,
}

/// Result of the verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Number of acknowledged rows that were found.
    pub rows: u64,
    /// Number of rows that only one of two logs had and that were written to the other; `None` with
    /// one log.
    pub redone: Option<u64>,
    /// Description of the errors; `None` without errors.
    pub wrong: Option<String>,
}

impl ReadBack {
    /// Expects rows with numbers below `begun`.
    pub fn below(begun: u64) -> ReadBack {
        ReadBack {
            times: vec![0; usize::try_from(begun).unwrap_or(0)],
            ..ReadBack::default()
        }
    }

    /// Counts a row that was found; `None` for a row with contents that were never inserted.
    pub fn see(&mut self, sale: Option<&Sale>) {
        let place = sale
            .filter(|s| **s == Sale::new(s.id))
            .and_then(|s| self.times.get_mut(usize::try_from(s.id).ok()?));
        match place {
            Some(times) => *times = times.saturating_add(1),
            None => self.foreign += 1,
        }
    }

    /// Sets the number of rows that only one of two logs had and that were written to the other.
    pub fn redone(&mut self, rows: u64) {
        self.redone = Some(rows);
    }

    /// Checks that each acknowledged row was found once, and that no row was found that was never
    /// inserted. A row that was not acknowledged may be found or not.
    pub fn check(&self, acknowledged: &[u64]) -> Checked {
        let mut lost = Vec::new();
        let mut rows = 0;
        for &id in acknowledged {
            let place = usize::try_from(id).ok().and_then(|n| self.times.get(n));
            match place {
                Some(1..) => rows += 1,
                _ => lost.push(id),
            }
        }
        let twice = self.times.iter().filter(|&&t| t > 1).count() as u64;
        let mut wrong = Vec::new();
        if let Some(first) = lost.iter().min() {
            let lost = count(lost.len() as u64, "acknowledged row");
            wrong.push(format!("{lost} missing, the first is number {first}"));
        }
        if twice > 0 {
            wrong.push(format!("{} more than once", count(twice, "row")));
        }
        if self.foreign > 0 {
            let foreign = count(self.foreign, "row");
            wrong.push(format!("{foreign} with contents that were never inserted"));
        }
        Checked {
            rows,
            redone: self.redone,
            wrong: (!wrong.is_empty()).then(|| format!("read back: {}", wrong.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: &[u64]) -> ReadBack {
        let mut found = ReadBack::below(5);
        ids.iter().for_each(|id| found.see(Some(&Sale::new(*id))));
        found
    }

    #[test]
    fn each_acknowledged_row_is_there_once() {
        let whole = found(&[2, 0, 1, 4]).check(&[0, 1, 2]);
        assert_eq!((whole.rows, whole.wrong), (3, None));
        let lost = found(&[0, 2]).check(&[0, 1, 2, 3]);
        assert_eq!(lost.rows, 2);
        let words = lost.wrong.unwrap();
        assert!(
            words.contains("2 acknowledged rows missing, the first is number 1"),
            "{words}"
        );
        let twice = found(&[0, 1, 1]).check(&[0, 1]).wrong.unwrap();
        assert!(twice.contains("1 row more than once"), "{twice}");
    }

    #[test]
    fn what_nobody_inserted_is_seen() {
        for strange in [
            Some(Sale::new(5)),
            Some(Sale {
                quantity: 99,
                ..Sale::new(1)
            }),
            None,
        ] {
            let mut found = found(&[0]);
            found.see(strange.as_ref());
            let words = found.check(&[0]).wrong.unwrap();
            assert!(
                words.contains("1 row with contents that were never inserted"),
                "{words}"
            );
        }
    }
}
