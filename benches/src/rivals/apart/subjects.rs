//! The logs of etcd and of HashiCorp.

use super::process::Process;
use super::program::{path, required};
use super::task::{Task, Work};
use crate::rivals::rival::{
    ETCD_WAL, Entry, Kept, OwnProcess, RAFT_WAL, Rival, RivalRun, Turn, Until, WARM_UP, Way,
    Writers,
};
use anyhow::Result;
use logforce_measure::counters::Delta;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One of these logs.
struct GoLog {
    name: &'static str,
    /// Module whose version is reported.
    module: &'static str,
    settings: &'static str,
    program: &'static Path,
}

/// Result of a turn; mirrored in `go/turn.go`.
#[derive(Debug, Clone, Deserialize)]
struct TurnDone {
    /// Number of commits in the timed part.
    commits: u64,
    /// Duration of the timed part.
    seconds: f64,
    /// Median duration of a commit, microseconds.
    p50_us: f64,
    /// 99th percentile of a commit's duration, microseconds.
    p99_us: f64,
    /// 99.9th percentile of a commit's duration, microseconds.
    p999_us: f64,
    /// Number of acknowledged records, including the warm-up.
    acknowledged: u64,
    /// Number of acknowledged records that were missing.
    missing: u64,
    /// Number of records that were never written, or came back changed.
    foreign: u64,
}

/// Bulk settings of each log. Both sync at the end of every write, so neither has just one force at the
/// end.
pub const BULK: [(&str, &str); 2] = [
    (
        ETCD_WAL,
        "64 MiB of records in a Save, which syncs: that is a sync for each segment; all records \
         are in memory when it has opened",
    ),
    (RAFT_WAL, "1 MiB of records in a StoreLogs, which syncs"),
];

/// Returns both logs, or the reason why they cannot run.
pub fn entries() -> Vec<Entry> {
    let etcd = (
        ETCD_WAL,
        "go.etcd.io/etcd/server/v3",
        "Save of what waits (fdatasync); segments of 64 MB, allocated ahead and not written \
         (neither can be set otherwise)",
    );
    let raft = (
        RAFT_WAL,
        "github.com/hashicorp/raft-wal",
        "StoreLogs of what waits (fsync); segments of 64 MiB as by default, allocated ahead and \
         not written",
    );
    let entry = |(name, module, settings)| match path() {
        Ok(program) => Entry::Here(Box::new(GoLog {
            name,
            module,
            settings,
            program,
        })),
        Err(why) => Entry::Absent { name, why },
    };
    [etcd, raft].map(entry).into()
}

impl Rival for GoLog {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> String {
        required(self.module).trim_start_matches('v').to_owned()
    }

    fn settings(&self) -> String {
        format!(
            "{}; a separate Go program whose threads are goroutines; one thread calls the log \
                itself",
            self.settings
        )
    }

    fn writers(&self) -> Writers {
        Writers::Caller
    }

    fn way(&self) -> Way<'_> {
        Way::Apart(self)
    }
}

impl OwnProcess for GoLog {
    fn turn(&self, turn: &Turn<'_>) -> Result<RivalRun> {
        let (warm_up, seconds, commits) = match turn.until {
            Until::Time(time) => (WARM_UP, time.as_secs_f64(), 0),
            Until::Count(commits) => (0, 0.0, commits),
        };
        let task = Task {
            work: Work::Turn,
            log: self.name.to_owned(),
            dir: turn.dir.to_owned(),
            record: turn.shape.record,
            threads: turn.shape.threads,
            warm_up,
            seconds,
            commits,
        };
        let mut process = Process::start(Command::new(self.program), &task)?;
        process.wait_for("begin", turn.interrupt)?;
        let before = turn.counters.read();
        process.answer()?;
        process.wait_for("end", turn.interrupt)?;
        let device = before
            .zip(turn.counters.read())
            .map(|(before, after)| Delta::between(before, after));
        process.answer()?;
        let done: TurnDone = process.done(turn.interrupt)?;
        Ok(RivalRun {
            commits: done.commits,
            took: Duration::try_from_secs_f64(done.seconds)?,
            p50_us: done.p50_us,
            p99_us: done.p99_us,
            p999_us: done.p999_us,
            flushes: device.and_then(|d| d.flushes),
            writes: device.map(|d| d.writes),
            kept: Some(Kept {
                acknowledged: done.acknowledged,
                missing: done.missing,
                foreign: done.foreign,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::records::Records;

    #[test]
    fn go_makes_the_same_records() {
        let program = match path() {
            Ok(program) => program,
            Err(why) => {
                println!("skipped: {why}");
                return;
            }
        };
        let (threads, commits) = (3, 2);
        for record in [16, 100, 1024] {
            let task = Task {
                work: Work::Records,
                log: String::new(),
                dir: Path::new("").to_owned(),
                record,
                threads,
                warm_up: 0,
                seconds: 0.0,
                commits,
            };
            let task = serde_json::to_string(&task).unwrap();
            let output = Command::new(program).arg(task).output().unwrap();
            let mut wanted = String::new();
            for writer in 0..threads {
                let mut records = Records::new(writer, record).unwrap();
                for _ in 0..commits {
                    for byte in records.following().1 {
                        wanted += &format!("{byte:02x}");
                    }
                    wanted += "\n";
                }
            }
            assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
        }
    }

    #[test]
    fn versions_are_those_of_the_modules() {
        assert_eq!(required("no.such/module"), "?");
        for module in ["go.etcd.io/etcd/server/v3", "github.com/hashicorp/raft-wal"] {
            assert!(required(module).starts_with('v'), "{module}");
        }
    }
}
