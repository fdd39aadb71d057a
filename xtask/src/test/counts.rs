//! Counts of tests.

use std::fmt;
use std::ops::AddAssign;

/// Numbers of tests by result; some stages count as one test.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    pub const PASSED: Counts = Counts::of(1, 0, 0);
    pub const FAILED: Counts = Counts::of(0, 1, 0);
    pub const SKIPPED: Counts = Counts::of(0, 0, 1);

    pub const fn of(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts {
            passed,
            failed,
            skipped,
        }
    }

    /// Returns the counts on a CI machine, where everything has to run: skipped tests count as failed,
    /// except `ignored` tests, which are switched off on every machine.
    pub fn strict(self, ignored: u64) -> Counts {
        let ignored = ignored.min(self.skipped);
        let failed = self.failed + self.skipped - ignored;
        Counts::of(self.passed, failed, ignored)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_are_shown() {
        let mut all = Counts::PASSED;
        all += Counts::FAILED;
        all += Counts::SKIPPED;
        all += Counts::of(10, 0, 1);
        assert_eq!(all.to_string(), "11 passed, 1 failed, 2 skipped");
        assert_eq!(all.strict(0), Counts::of(11, 3, 0));
        assert_eq!(all.strict(1), Counts::of(11, 2, 1));
        assert_eq!(all.strict(9), all);
    }
}
