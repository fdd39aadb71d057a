//! Cases: the size, location and number of the committed pages.

use logforce_testkit::Rng;
use serde::Serialize;
use std::collections::BTreeSet;

/// Size of a page, bytes.
pub const PAGE: usize = 4096;

/// Distribution of a commit's pages over the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Uniformly distributed.
    Uniform,
    /// 80 % of the accesses go to 5 % of the pages, which are spread over the file.
    Skewed,
}

/// Duration of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Duration {
    /// As long as `--seconds`. Deferred work counts and is done within the measured time.
    Sustained,
    /// As many commits as fit between two checkpoints of a logged page file. Deferred work is done after
    /// the measured time.
    Burst,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Case {
    pub duration: Duration,
    pub access: Access,
    /// Pages per commit.
    pub pages: usize,
    /// Number of committing threads.
    pub threads: usize,
    /// Bytes changed in each page; `PAGE` for the whole page.
    pub changed: usize,
}

/// Returns all cases.
pub fn all() -> Vec<Case> {
    let of = |duration, access| {
        [5, 20, 80].map(|pages| Case {
            duration,
            access,
            pages,
            threads: 1,
            changed: PAGE,
        })
    };
    let mut cases = Vec::new();
    cases.extend(of(Duration::Sustained, Access::Uniform));
    cases.extend(of(Duration::Sustained, Access::Skewed));
    cases.extend(of(Duration::Burst, Access::Uniform));
    cases.push(Case {
        duration: Duration::Sustained,
        access: Access::Uniform,
        pages: 1,
        threads: 64,
        changed: 100,
    });
    cases
}

impl Case {
    /// Returns the name that `--cases` takes.
    pub fn name(&self) -> String {
        let duration = match self.duration {
            Duration::Sustained => "sustained",
            Duration::Burst => "burst",
        };
        let access = match self.access {
            Access::Uniform => "uniform",
            Access::Skewed => "skewed",
        };
        match self.threads {
            1 => format!("{duration}-{access}-{}", self.pages),
            threads => format!("{duration}-{access}-{}-threads-{threads}", self.pages),
        }
    }

    /// Picks the pages of the next commit of `thread`, ascending, in a file of `total` pages. No other
    /// thread gets any of them.
    pub fn pick(&self, rng: &mut Rng, thread: usize, total: u64) -> BTreeSet<u64> {
        let threads = self.threads as u64;
        let own = total / threads;
        let mut picked = BTreeSet::new();
        while picked.len() < self.pages {
            let n = match self.access {
                Access::Skewed if rng.below(5) < 4 => {
                    let hot = rng.below((own / 20).max(1));
                    hot * 20 + hot * 7 % 20
                }
                _ => rng.below(own),
            };
            picked.insert(n * threads + thread as u64);
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_no_page_and_hot_pages_are_a_twentieth() {
        let case = Case {
            duration: Duration::Sustained,
            access: Access::Skewed,
            pages: 20,
            threads: 3,
            changed: PAGE,
        };
        let mut rng = Rng::new(1);
        let mut seen = BTreeSet::new();
        for _ in 0..500 {
            for thread in 0..3 {
                let picked = case.pick(&mut rng, thread, 60_000);
                assert_eq!(picked.len(), 20);
                assert!(picked.iter().all(|p| *p < 60_000));
                assert!(picked.iter().all(|p| p % 3 == thread as u64));
                seen.extend(picked);
            }
        }
        // 30,000 picks: 24,000 of them among 3,000 pages.
        assert!((7_000..9_200).contains(&seen.len()), "{}", seen.len());
    }

    #[test]
    fn names_are_of_one_case_each() {
        let names: BTreeSet<_> = all().iter().map(Case::name).collect();
        assert_eq!(names.len(), all().len());
    }
}
