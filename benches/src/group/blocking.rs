//! Threads that wait for each of their commits. The log, the baseline and the raw loop take turns.

use super::baseline::{Baseline, BaselineWork};
use super::raw::RawWork;
use super::records::record;
use super::report::{GroupRow, Subject};
use super::targets::of_commits;
use super::{Bench, FILE, Part, Results};
use logforce_device::FileState;
use logforce_measure::MeasureError;
use logforce_measure::group::{MeasuredSlice, Series};
use logforce_measure::library::{LONGEST_SEGMENT, SharedLog};
use logforce_measure::prepare::PreparedFile;
use logforce_measure::workers::{Work, together};
use logforce_terminal::numbers::bytes;
use std::rc::Rc;
use std::sync::Arc;

/// One case: a number of threads and a record size.
struct Case {
    threads: u32,
    bytes: u64,
    /// Bytes per write of the raw loop.
    piece: u64,
}

/// Measures all cases.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> Result<(), MeasureError> {
    let mut log = bench.slices.log("log-commits", LONGEST_SEGMENT);
    let mut file = PreparedFile::new(
        Arc::clone(bench.slices.directory()),
        FileState::Zeroed,
        FILE,
        usize::try_from(bench.slices.unit()).unwrap_or(4096),
        bench.slices.interrupt().clone(),
        Rc::clone(bench.slices.progress()),
    );
    file.ensure(FILE)?;
    let file = file.open(bench.slices.method().plan().direct)?;
    let baseline = Baseline::new(
        Arc::clone(&file),
        bench.slices.method(),
        bench.slices.unit(),
        FILE,
    );
    for &bytes in &bench.options.records {
        for &threads in &bench.options.threads {
            // With one thread, the raw loop writes as many bytes as the log does. Where commits share
            // writes, it writes the smallest multiple of the write unit.
            let piece = match threads {
                1 => log.padded(bytes)?,
                _ => bytes.next_multiple_of(bench.slices.unit()),
            };
            let case = Case {
                threads,
                bytes,
                piece,
            };
            let raw = RawWork::new(
                Arc::clone(&file),
                bench.slices.method().plan(),
                piece,
                threads,
                FILE,
            );
            let Some(raw) = raw else {
                let why = format!("{threads} threads do not fit into the raw loop's file");
                let e = MeasureError::NotOffered(why);
                results
                    .rows
                    .push(GroupRow::failed(Part::Commits, &e).of(threads, threads, bytes));
                continue;
            };
            let result = case.compare(bench, &mut log, &baseline, &raw, results);
            bench.slices.interrupt().check()?;
            if let Err(e) = result {
                results
                    .rows
                    .push(GroupRow::failed(Part::Commits, &e).of(threads, threads, bytes));
            }
        }
    }
    let path = log.path().to_owned();
    drop(log);
    logforce_measure::workplace::remove(&path)
}

impl Case {
    fn compare(
        &self,
        bench: &Bench<'_>,
        log: &mut SharedLog,
        baseline: &Baseline,
        raw: &RawWork,
        results: &mut Results,
    ) -> Result<(), MeasureError> {
        let record = record(self.bytes);
        let simple = BaselineWork {
            baseline,
            record: &record,
        };
        let mut all: [Series; 3] = Default::default();
        let doing = format!("{} × {}", self.threads, bytes(self.bytes));
        let result = bench.each_pair(&doing, |nth| {
            let mut taken = [None, None, None];
            // Each subject comes first equally often.
            for turn in 0..3 {
                let which = (nth as usize + turn) % 3;
                taken[which] = Some(match which {
                    0 => bench
                        .slices
                        .of_log(log, self.bytes, self.threads, LONGEST_SEGMENT)?,
                    1 => self.slice(bench, &simple)?,
                    _ => self.slice(bench, raw)?,
                });
            }
            for (series, taken) in all.iter_mut().zip(&taken) {
                taken.iter().for_each(|t| series.push(t));
            }
            Ok(())
        });
        let [log, baseline, raw] = &all;
        if !log.points.is_empty() {
            self.report(log, baseline, raw, results);
        }
        result
    }

    fn slice<W: Work>(&self, bench: &Bench<'_>, work: &W) -> Result<MeasuredSlice, MeasureError> {
        bench.slices.slice(|limit, recorder, counts| {
            bench
                .slices
                .counted(counts, || together(work, self.threads, limit, recorder))
                .map(drop)
        })
    }

    fn report(&self, log: &Series, baseline: &Series, raw: &Series, results: &mut Results) {
        let row = |subject, series| {
            GroupRow::measured(Part::Commits, subject, series).of(
                self.threads,
                self.threads,
                self.bytes,
            )
        };
        let mut own = row(Subject::Log, log);
        own.compare_to(log, baseline, raw);
        let mut bare = row(Subject::Raw, raw);
        bare.written_bytes = Some(self.piece);
        results
            .rows
            .extend([own, row(Subject::Baseline, baseline), bare]);
        let targets = of_commits(self.threads, self.bytes, log, baseline, raw);
        results.targets.extend(targets);
    }
}
