//! What was found after a run, held against what was acknowledged.

use super::Sale;
use logforce_terminal::numbers::count;

/// Receives every row that is read back.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// How often each number was there.
    times: Vec<u8>,
    foreign: u64,
    redone: Option<u64>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Rows that were acknowledged, and are there exactly once.
    pub rows: u64,
    /// Rows that were in one log alone, and were written to the other one; `None` with one log.
    pub redone: Option<u64>,
    /// What is wrong; `None` if nothing is.
    pub wrong: Option<String>,
}

impl ReadBack {
    /// For rows of the numbers below `begun`.
    pub fn below(begun: u64) -> ReadBack {
        ReadBack {
            times: vec![0; usize::try_from(begun).unwrap_or(0)],
            ..ReadBack::default()
        }
    }

    /// A row that is there; `None` for one that was never inserted as it stands there.
    pub fn see(&mut self, sale: Option<&Sale>) {
        let place = sale
            .filter(|s| **s == Sale::new(s.id))
            .and_then(|s| self.times.get_mut(usize::try_from(s.id).ok()?));
        match place {
            Some(times) => *times = times.saturating_add(1),
            None => self.foreign += 1,
        }
    }

    /// So many rows were in one of two logs alone, and were written to the other one.
    pub fn redone(&mut self, rows: u64) {
        self.redone = Some(rows);
    }

    /// Whether each of the acknowledged is there once, and nothing is there that nobody inserted.
    /// What was not acknowledged may be there or not.
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
            wrong.push(format!("{foreign} that nobody inserted so"));
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
            assert!(words.contains("1 row that nobody inserted so"), "{words}");
        }
    }
}
