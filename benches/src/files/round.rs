//! Rounds of one workload: a slice of every subject with every number of threads, in a different order each
//! time.

use super::by_hand::ByHand;
use super::case::{Case, Subject};
use super::report::FileRow;
use super::targets;
use super::work::{Committer, FileWork, Offsets, SyncEach, WriteCommit, WriteThenCommit};
use super::{FILE, Options, Workload};
use crate::group::baseline::{Baseline, BaselineWork};
use crate::group::records::record;
use crate::target::Target;
use logforce::file::{self, Prepare};
use logforce::{Verdict, internal};
use logforce_device::{File, OpenFile};
use logforce_measure::MeasureError;
use logforce_measure::group::{MeasuredSlice, Series, Slices};
use logforce_measure::workers::{Work, together};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A subject that is ready to commit.
enum Ready {
    Committer(Box<dyn Committer>),
    Baseline(Baseline),
}

/// The files and subjects of one workload.
struct Bench<'a> {
    options: &'a Options,
    slices: &'a Slices,
    workload: Workload,
    record: Vec<u8>,
}

/// Measures one workload. `before` is the part of the whole bench that is done.
pub(super) fn measure(
    options: &Options,
    slices: &Slices,
    workload: Workload,
    before: f64,
) -> Result<(Vec<FileRow>, Vec<Target>), MeasureError> {
    let bench = Bench {
        options,
        slices,
        workload,
        record: record(workload.size()),
    };
    let subjects = bench.subjects()?;
    let mut cases = Vec::new();
    for &threads in &options.threads {
        let all = subjects.iter().map(|(subject, _)| Case {
            threads,
            subject: *subject,
            series: Series::default(),
        });
        cases.extend(all);
    }
    let result = bench.rounds(&subjects, &mut cases, before);
    drop(subjects);
    for name in [bench.name(), bench.journal()] {
        // A file of a subject that was left out is missing.
        let _ = slices.directory().remove(&name);
    }
    // An interrupt leaves complete rounds.
    if !slices.interrupt().is_raised() {
        result?;
    }
    if cases.iter().all(|c| c.series.points.is_empty()) {
        return Err(MeasureError::Interrupted);
    }
    let rows = cases.iter().map(|c| FileRow::measured(workload, c, &cases));
    Ok((rows.collect(), targets::of(workload, &cases)))
}

impl Bench<'_> {
    /// Returns the name of the workload's file. The calls on a file `journal…` are counted.
    fn name(&self) -> String {
        format!("journal-{}", self.workload.name())
    }

    /// Returns the name of the baseline's file.
    fn journal(&self) -> String {
        "journal-baseline".to_owned()
    }

    /// Prepares the file and opens it once for each subject. Nothing but zeroes is in it then, and every
    /// commit overwrites.
    fn subjects(&self) -> Result<Vec<(Subject, Ready)>, MeasureError> {
        let name = self.name();
        self.slices.progress().doing(&format!("preparing {name}"));
        let is_aligned = self.workload == Workload::Aligned;
        let file = || self.file(&name, is_aligned);
        let prepared = file()?;
        prepare(&prepared)?;
        let direct = prepared.method().plan().direct;
        drop(prepared);
        let bare = || {
            let how = OpenFile {
                direct,
                ..OpenFile::WRITE
            };
            let opened = self.slices.directory().open(&name, how);
            opened.map_err(MeasureError::io("opening a file"))
        };
        let mut ready = Vec::new();
        for &subject in &self.options.subjects {
            let committer: Box<dyn Committer> = match subject {
                Subject::WriteCommit => Box::new(WriteCommit(file()?)),
                Subject::Commit => Box::new(WriteThenCommit(file()?)),
                Subject::SyncEach => Box::new(SyncEach(bare()?)),
                Subject::ByHand => Box::new(ByHand::new(bare()?)),
                Subject::Baseline if self.workload == Workload::Append => {
                    ready.push((subject, Ready::Baseline(self.baseline()?)));
                    continue;
                }
                Subject::Baseline => continue,
            };
            ready.push((subject, Ready::Committer(committer)));
        }
        Ok(ready)
    }

    /// Opens or creates a durable file, without measuring methods.
    fn file(&self, name: &str, is_aligned: bool) -> Result<file::File, MeasureError> {
        let path = self.slices.directory().path().join(name);
        let mut options = file::Options::new()
            .create(true)
            .aligned(is_aligned)
            .require(self.slices.assessment().guarantee)
            // A doubtful guarantee is measured too, and printed as doubtful.
            .require_verdict(Verdict::Contradicted);
        if let Some(method) = self.options.method {
            options = options.method(method);
        }
        let opened = internal::open_file(self.slices.system(), path, options);
        opened.map_err(|e| MeasureError::NotOffered(e.to_string()))
    }

    fn baseline(&self) -> Result<Baseline, MeasureError> {
        let (name, slices) = (self.journal(), self.slices);
        prepare(&self.file(&name, true)?)?;
        let how = OpenFile {
            direct: slices.method().plan().direct,
            ..OpenFile::WRITE
        };
        let opened: std::io::Result<Arc<dyn File>> = slices.directory().open(&name, how);
        let opened = opened.map_err(MeasureError::io("opening a file"))?;
        let (method, unit) = (slices.method(), slices.unit());
        Ok(Baseline::new(opened, method, unit, FILE))
    }

    fn offsets(&self, threads: u32) -> Offsets {
        let size = self.workload.size();
        match self.workload {
            Workload::Slots | Workload::Aligned => Offsets::Slots {
                block: size,
                region: FILE / u64::from(threads) / size * size,
            },
            Workload::Append => Offsets::Append {
                record: size,
                len: FILE,
                written: AtomicU64::new(0),
            },
        }
    }

    fn rounds(
        &self,
        subjects: &[(Subject, Ready)],
        cases: &mut [Case],
        before: f64,
    ) -> Result<(), MeasureError> {
        let threads = &self.options.threads;
        let offsets: Vec<_> = threads.iter().map(|t| self.offsets(*t)).collect();
        let progress = self.slices.progress();
        let all = f64::from(self.options.rounds) * self.options.workloads.len() as f64;
        for nth in 0..self.options.rounds {
            progress.doing(&format!("{}: round {}", self.workload.name(), nth + 1));
            progress.fraction(before + f64::from(nth) / all);
            let mut taken: Vec<_> = cases.iter().map(|_| None).collect();
            // Each case comes first equally often.
            for turn in 0..cases.len() {
                let at = (nth as usize + turn) % cases.len();
                let (group, nth) = (at / subjects.len(), at % subjects.len());
                let subject = &subjects[nth].1;
                taken[at] = Some(self.slice(subject, threads[group], &offsets[group])?);
            }
            for (case, taken) in cases.iter_mut().zip(&taken) {
                taken.iter().for_each(|t| case.series.push(t));
            }
        }
        Ok(())
    }

    fn slice(
        &self,
        subject: &Ready,
        threads: u32,
        offsets: &Offsets,
    ) -> Result<MeasuredSlice, MeasureError> {
        match subject {
            Ready::Committer(committer) => {
                let committer = &**committer;
                self.together(&FileWork { committer, offsets }, threads)
            }
            Ready::Baseline(baseline) => {
                let record = &self.record;
                self.together(&BaselineWork { baseline, record }, threads)
            }
        }
    }

    fn together<W: Work>(&self, work: &W, threads: u32) -> Result<MeasuredSlice, MeasureError> {
        self.slices.slice(|limit, recorder, counts| {
            let run = || together(work, threads, limit, recorder);
            self.slices.counted(counts, run).map(drop)
        })
    }
}

fn prepare(file: &file::File) -> Result<(), MeasureError> {
    let prepared = file.prepare(0..FILE, Prepare::Written);
    prepared.map_err(|e| MeasureError::NotOffered(e.to_string()))?;
    Ok(())
}
