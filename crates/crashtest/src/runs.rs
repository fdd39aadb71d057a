//! Runs of the workload that say less than they seem to: it failed by itself, the disk was full, it printed too much.

use crate::finished::Finished;
use rustix::fs::statvfs;
use std::path::Path;

/// Share of the runs above which the test proves nothing.
const MOST_SPOILT: f64 = 0.5;

/// Counts of the runs on one filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Number of runs.
    all: u64,
    /// Runs in which the workload failed before the power went.
    failed: u64,
    /// End of the last of them, in words.
    failure: String,
    /// Runs at whose end the disk was full.
    full: u64,
    /// Runs that wrote too many acknowledgements.
    flooded: u64,
}

/// A run at its end.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) ended: Finished,
    /// True if it ended before the power went.
    pub(crate) had_ended: bool,
    pub(crate) is_full: bool,
    pub(crate) is_flooded: bool,
}

impl Runs {
    pub(crate) fn add(&mut self, run: &Run) {
        let failed = run.had_ended && run.ended.status.is_some_and(|status| !status.success());
        self.all += 1;
        self.failed += u64::from(failed);
        self.full += u64::from(run.is_full);
        self.flooded += u64::from(run.is_flooded);
        if failed {
            self.failure = run.ended.failure();
        }
    }

    /// Returns true if the test proves nothing because of these runs.
    pub(crate) fn are_spoilt(&self) -> bool {
        let most = self.failed.max(self.full).max(self.flooded);
        most as f64 > self.all as f64 * MOST_SPOILT
    }

    /// Returns the remarks for the report. `size` is that of the disk, bytes.
    pub(crate) fn remarks(&self, size: u64) -> Vec<String> {
        let Runs {
            all,
            failed,
            failure,
            full,
            flooded,
        } = self;
        let mut remarks = Vec::new();
        if *failed > 0 {
            remarks.push(format!("in {failed} of {all} sessions the workload failed before the power went: it {failure}"));
        }
        if *full > 0 {
            let larger = size.saturating_mul(4) >> 20;
            remarks.push(format!(
                "the disk was full at the end of {full} of {all} sessions; --size {larger}MiB gives a larger one"
            ));
        }
        if *flooded > 0 {
            remarks.push(format!(
                "in {flooded} of {all} sessions writes of acknowledgements were refused, because there were too many; \
                 a program that prints something else has to acknowledge by --acks file"
            ));
        }
        remarks
    }
}

/// Returns true if less than 1 % of a filesystem is free for the program, or no file can be created.
pub(crate) fn is_full(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|s| s.f_bavail < s.f_blocks / 100 || (s.f_files > 0 && s.f_favail == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn only_most_spoilt_runs_spoil_a_test() {
        let run = |code: i32, had_ended| Run {
            ended: Finished {
                status: Some(ExitStatus::from_raw(code << 8)),
                output: "no space\n".to_owned(),
            },
            had_ended,
            is_full: code != 0,
            is_flooded: false,
        };
        let mut runs = Runs::default();
        // The power went, and then a write failed.
        runs.add(&run(0, false));
        runs.add(&run(0, true));
        assert_eq!(runs.remarks(48 << 20), [""; 0]);
        runs.add(&run(1, true));
        runs.add(&run(1, true));
        let remarks = runs.remarks(48 << 20);
        assert!(
            remarks[0].starts_with("in 2 of 4 sessions")
                && remarks[0].ends_with("exited with 1: no space")
        );
        assert!(
            remarks[1]
                .starts_with("the disk was full at the end of 2 of 4 sessions; --size 192MiB")
        );
        assert_eq!(remarks.len(), 2);
        assert!(!runs.are_spoilt());
        runs.add(&run(1, true));
        assert!(runs.are_spoilt());
    }
}
