//! A short workload of a page file, in both commit modes: every crash, every pair of crashes, every failing
//! operation, every bit.

mod bits;
mod crashes;
mod failures;

use logforce_core::{Method, OpenMode};
use logforce_pages::{CommitMode, Error, Options, PageFile, Result, WriteThroughLimit};
use logforce_sim::pages::model::{Done, History, State, Step, Universe};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

const PATH: &str = "/db";
const PAGE: u32 = 512;

/// A page file under test: its commit mode and options.
#[derive(Debug, Clone)]
struct Subject {
    mode: CommitMode,
    options: Options,
    universe: Universe,
}

/// Returns a page file with small pages and short distances, so that a short workload has checkpoints and
/// uses places again.
fn subject(mode: CommitMode, through: usize, checksums: bool) -> Subject {
    let last = match mode {
        CommitMode::CopyOnWrite => 1 << 40,
        CommitMode::Logged => 1024,
    };
    Subject {
        mode,
        options: Options::new()
            .mode(mode)
            .page_size(PAGE)
            .checksums(checksums)
            .checkpoint_distance(16 * u64::from(PAGE))
            .cache(8 * PAGE as usize)
            .writers(2)
            .write_through(WriteThroughLimit {
                runs: through,
                bytes: 1 << 20,
            }),
        universe: Universe::new(PAGE, 24, last),
    }
}

fn log_options(disk: &SimOptions) -> logforce_core::Options {
    logforce_core::Options::new()
        .method(match disk.direct {
            true => Method::DirectDsync,
            false => Method::Fdatasync,
        })
        .segment_size(64 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(16 << 10)
        .live_stats(false)
}

/// Returns both commit modes, copy-on-write with barriers and with write-through.
fn subjects() -> Vec<Subject> {
    vec![
        subject(CommitMode::Logged, 0, true),
        subject(CommitMode::Logged, 0, false),
        subject(CommitMode::CopyOnWrite, 0, true),
        subject(CommitMode::CopyOnWrite, 9, false),
    ]
}

fn change(page: u64) -> Step {
    Step::Change {
        page,
        at: 100,
        len: 30,
    }
}

/// Returns every kind of change, and enough of them that places are used again.
fn transactions(mode: CommitMode) -> Vec<Done> {
    use Step::{Discard, Grow, Shrink, Write};
    let far = match mode {
        CommitMode::CopyOnWrite => 1 << 40,
        CommitMode::Logged => 257,
    };
    let steps: [Vec<Step>; 9] = [
        vec![Write(0), Write(1), Write(2), Write(3)],
        vec![change(1), Write(33)],
        vec![Write(0), change(2), Discard(3), Write(far)],
        vec![change(1), change(33), Write(1023)],
        vec![Shrink(300), Write(3)],
        vec![change(0), change(1), change(2), change(3)],
        // Drops pages and adds them again, also in a map sector that no other transaction changes.
        vec![Shrink(2), Grow(300), Write(32)],
        vec![Discard(0), Write(1)],
        vec![Write(0), Write(2), Write(1024)],
    ];
    let numbered = (1..).zip(steps);
    numbered.map(|(n, steps)| Done::new(n, steps)).collect()
}

/// Numbers of the transactions after which a checkpoint follows.
const CHECKPOINTS: [u64; 2] = [3, 7];

impl Subject {
    fn open(&self, disk: &SimDisk, rt: &SimRuntime, mode: OpenMode) -> Result<PageFile> {
        let options = self.options.clone().log(log_options(&disk.options()));
        PageFile::open(&*disk.system(rt), PATH, mode, options)
    }

    /// Returns the states after each commit, beginning with the empty one.
    fn states(&self) -> Vec<State> {
        let history = History {
            done: (1..).zip(transactions(self.mode)).collect(),
            ..History::default()
        };
        let last = history.done.len() as u64;
        (0..=last).map(|n| history.at(n, &self.universe)).collect()
    }

    fn commit(&self, file: &PageFile, done: &Done) -> Result<u64> {
        let mut txn = file.begin()?;
        done.perform(&mut txn, &self.universe)?;
        Ok(txn.commit()?.commit)
    }

    /// Commits one transaction after the other. Returns the number of acknowledged ones, and the first error.
    fn work(&self, disk: &SimDisk, rt: &SimRuntime) -> (u64, Option<Error>) {
        let mut acknowledged = 0;
        let mut body = || {
            let file = self.open(disk, rt, OpenMode::OpenOrCreate)?;
            for (n, done) in (1..).zip(transactions(self.mode)) {
                assert_eq!(self.commit(&file, &done)?, n);
                acknowledged = n;
                if CHECKPOINTS.contains(&n) {
                    file.checkpoint()?;
                }
            }
            file.close()
        };
        let result = body();
        (acknowledged, result.err())
    }

    fn look(&self, file: &PageFile) -> Result<(u64, State)> {
        let snapshot = file.snapshot()?;
        Ok((snapshot.commit(), State::of(&snapshot, &self.universe)?))
    }

    /// Opens the file after a crash. Its state must lie between the last acknowledged commit and the one
    /// that was in progress. Then goes on from there. Returns the number of commits in the file.
    fn check(&self, disk: &SimDisk, acknowledged: u64, what: &str) -> u64 {
        let states = self.states();
        SimRuntime::run(7, |rt| {
            let mode = match acknowledged {
                0 => OpenMode::OpenOrCreate,
                _ => OpenMode::OpenExisting,
            };
            let log = || disk.log();
            let file = self.open(disk, rt, mode);
            let file = file.unwrap_or_else(|e| panic!("{what}: {e}\n{}", log()));
            let found = self.look(&file);
            let (commit, mut found) = found.unwrap_or_else(|e| panic!("{what}: {e}\n{}", log()));
            let last = states.len() as u64 - 1;
            assert!(
                (acknowledged..=(acknowledged + 1).min(last)).contains(&commit),
                "{what}: {acknowledged} were acknowledged, and {commit} are there\n{}",
                log()
            );
            if let Some(difference) = states[commit as usize].difference(&found) {
                panic!("{what}: commit {commit}: {difference}\n{}", log());
            }
            for n in 0..2 {
                let done = Done::new(100 + n, vec![Step::Write(n), Step::Write(7), change(20)]);
                let done = self.commit(&file, &done).map(|_| done);
                found.apply(
                    &done.unwrap_or_else(|e| panic!("{what}: {e}")),
                    &self.universe,
                );
            }
            file.close().unwrap_or_else(|e| panic!("{what}: {e}"));
            let file = self.open(disk, rt, OpenMode::OpenExisting);
            let (_, again) = file.and_then(|f| self.look(&f)).expect("it was closed");
            assert_eq!(again.difference(&found), None, "{what}: after going on");
            commit
        })
    }
}

fn disks() -> Vec<SimOptions> {
    let quick = SimOptions {
        log_lines: 60,
        ..SimOptions::default()
    };
    vec![
        quick.clone(),
        SimOptions {
            in_place: false,
            sector: 4096,
            blocking: true,
            ..quick.clone()
        },
        SimOptions {
            direct: false,
            physical_sector: 8192,
            ..quick
        },
    ]
}
