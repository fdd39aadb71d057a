//! The scenario `journal`: a pre-sized file and one commit per chunk, for every method in each
//! file state.

pub mod conclusion;
mod in_turns;
pub(super) mod notes;
pub mod places;
pub mod published;
pub mod row;
mod table;
mod text;

use super::{Conclusion, Scenario, ScenarioOutcome};
use crate::MeasureError;
use crate::result::legend::Shown;
use crate::result::machine::Machine;
use crate::result::{Document, Kind, Row};
use crate::run::counters::Neighbours;
use crate::run::library::{self, LogJournal, LogSetup, SharedLog};
use crate::run::prepare::PreparedFile;
use crate::run::raw::RawJournal;
use crate::run::schedule::{Budget, Planned};
use crate::run::{RowKey, Setup, SubjectKind};
use logforce_device::{Directory, Facts, FileState, Method, Platform};
use logforce_terminal::numbers::{bytes, count};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Name of the scenario in reports.
pub const NAME: &str = "journal";

/// Size of the records in the rows with several threads, bytes.
const SMALL: u64 = 128;
/// Numbers of threads that commit such records.
const COMMITTERS: [u32; 4] = [1, 4, 16, 64];

/// Options of the scenario.
#[derive(Debug, Clone)]
pub struct Options {
    /// Size of each file, bytes.
    pub size: u64,
    /// Bytes per commit.
    pub chunk: usize,
    /// Methods, in the order of the rows.
    pub methods: Vec<Method>,
    /// File states, in the order of the rows.
    pub states: Vec<FileState>,
    /// True to measure the library's log too; otherwise its rows are left out.
    pub logs: bool,
    /// Methods of the log, in the order of the rows; empty for the library's default.
    pub log_methods: Vec<Method>,
    /// Time for the whole run; `None` for as many commits as the file holds, however long that takes.
    pub time: Option<Duration>,
}

impl Scenario for Options {
    const KIND: Kind = Kind::Journal;
    /// Work of other processes on the device before the run.
    type More = Option<Neighbours>;

    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome<Self::More>, MeasureError> {
        let mut outcomes = self.in_turns(std::slice::from_ref(setup))?.into_iter();
        outcomes.next().ok_or(MeasureError::Interrupted)
    }

    fn conclude(&self, outcome: &ScenarioOutcome<Self::More>, machine: &Machine) -> Conclusion {
        let platform = machine.platform().unwrap_or(Platform::HERE);
        conclusion::conclude(&outcome.rows, platform)
    }

    fn notes(&self, outcome: &ScenarioOutcome<Self::More>) -> Vec<String> {
        let rows = &outcome.rows;
        let flushes_counted = rows.iter().any(|r| r.device_flushes_per_commit.is_some());
        let mut notes = outcome.notes.clone();
        notes.extend(notes::guarantees(rows));
        notes.extend(notes::marks(rows));
        notes.extend(notes::counters(outcome.more, flushes_counted));
        notes.extend(notes::missing(rows));
        notes
    }

    fn text(&self, document: &Document, shown: Shown, width: usize) -> String {
        text::text(document, shown, width)
    }
}

/// Plans the rows: every method in each file state. The rows of one state share a file.
fn planned(
    options: &Options,
    setup: &Setup,
    directory: &Arc<dyn Directory>,
    facts: &Facts,
    size: u64,
) -> Vec<Planned> {
    let unit = facts.write_unit() as usize;
    let mut planned = Vec::new();
    for &state in &options.states {
        let directory = Arc::clone(directory);
        let (interrupt, progress) = (setup.interrupt.clone(), Rc::clone(&setup.progress));
        let file = Rc::new(RefCell::new(PreparedFile::new(
            directory, state, size, unit, interrupt, progress,
        )));
        for &method in &options.methods {
            let key = RowKey {
                scenario: NAME,
                subject: SubjectKind::Raw,
                method,
                file_state: Some(state),
                threads: 1,
                bytes: options.chunk as u64,
            };
            let assessment = facts.assess(method, state);
            let row = match assessment {
                None => Err(facts.why_not_offered(method)),
                Some(_) if method.plan().direct && !options.chunk.is_multiple_of(unit) => {
                    Err(format!(
                        "direct I/O needs a chunk size that is a multiple of {} here: {} is not",
                        bytes(unit as u64),
                        bytes(options.chunk as u64)
                    ))
                }
                Some(assessment) => {
                    let file = Rc::clone(&file);
                    Ok(RawJournal::new(
                        NAME,
                        method,
                        options.chunk,
                        unit,
                        assessment,
                        file,
                    ))
                }
            };
            planned.push(match row {
                Ok(subject) => Planned::Run(Box::new(subject)),
                Err(reason) => Planned::NotOffered { key, reason },
            });
        }
    }
    planned
}

/// Returns the size of the log's segments: the library's default, or less if `size` is small.
fn segment_size(size: u64) -> u64 {
    size.next_multiple_of(1 << 20)
        .clamp(1 << 20, library::LONGEST_SEGMENT)
}

/// Plans the rows of the log by one method: chunks by one thread, then small records by one and by
/// several threads. The rows share one log.
fn planned_logs(
    options: &Options,
    setup: &Setup,
    facts: &Facts,
    method: Method,
    path: PathBuf,
    budget: &Budget,
) -> Vec<Planned> {
    let chunk = (1, options.chunk as u64);
    let rows = std::iter::once(chunk).chain(COMMITTERS.map(|n| (n, SMALL)));
    let keys = rows.map(|(threads, bytes)| RowKey {
        scenario: NAME,
        subject: SubjectKind::Logforce,
        method,
        file_state: None,
        threads,
        bytes,
    });
    let Some(assessment) = library::assess(facts, method) else {
        let reason = facts.why_not_offered(method);
        return keys
            .map(|key| Planned::NotOffered {
                key,
                reason: reason.clone(),
            })
            .collect();
    };
    let log = LogSetup {
        path,
        method,
        guarantee: assessment.guarantee,
        segment_size: segment_size(options.size),
    };
    let (interrupt, progress) = (setup.interrupt.clone(), Rc::clone(&setup.progress));
    let log = Rc::new(RefCell::new(SharedLog::new(log, interrupt, progress)));
    let subject = |key: RowKey| {
        // Small records take little space, so the time limits them. In a full run their number
        // grows with the threads; otherwise many threads would finish at once.
        let most = (key.bytes == SMALL).then(|| match options.time {
            Some(_) => u64::MAX,
            None => budget.commits * u64::from(key.threads.min(4)),
        });
        let (assessment, log) = (assessment.clone(), Rc::clone(&log));
        Planned::Run(Box::new(LogJournal::new(key, assessment, most, log)))
    };
    keys.map(subject).collect()
}

fn how_measured(
    options: &Options,
    size: u64,
    budget: Budget,
    rows: &[Row],
    took: Duration,
) -> String {
    let chunk = bytes(options.chunk as u64);
    let Budget {
        commits, rounds, ..
    } = budget;
    let rounds = format!("{rounds} rounds of slices, rows taking turns");
    let files = format!("rows of one file state share a file of {}", bytes(size));
    let Some(time) = options.time else {
        return format!(
            "Each raw row, one thread: {} of {chunk}, in {rounds}; {files}. Took {:.0} s.",
            count(commits, "commit"),
            took.as_secs_f64()
        );
    };
    let raw = || rows.iter().filter(|r| r.subject == SubjectKind::Raw);
    let cut = raw()
        .filter(|r| r.commits.is_some_and(|n| n < commits))
        .count();
    let stopped = match cut {
        0 => "every row made all of them".to_owned(),
        n => {
            let share = "made fewer, because their share of the time was over (see commits)";
            format!("{n} of {} rows {share}", raw().count())
        }
    };
    format!(
        "Each raw row, one thread: up to {} of {chunk}, in {rounds}; {stopped}; {files}. Took {:.1} s of the {:.0} s \
         allowed by --seconds, preparation included.",
        count(commits, "commit"),
        took.as_secs_f64(),
        time.as_secs_f64()
    )
}

/// Describes how the rows of the log differ from the raw ones; `None` without such rows.
fn how_logged(rows: &[Row], segment_size: u64) -> Option<String> {
    let logged = |r: &&Row| r.subject == SubjectKind::Logforce && r.error.is_none();
    let row = rows.iter().filter(logged).find(|r| r.threads == 1)?;
    let takes = row.file_bytes_per_commit?;
    // Rounded down to the padding unit, which removes the share of segment headers.
    let takes = (takes / 4096.0).floor() as u64 * 4096;
    Some(format!(
        "The log (×: number of committing threads) uses segments of {}, which are prepared ahead and recycled by truncation \
         between slices. A record of {} takes {} there, including header and padding to the write unit. Commits of several \
         threads share writes. For other numbers of threads and sizes: logforce bench group.",
        bytes(segment_size),
        bytes(row.bytes),
        bytes(takes),
    ))
}

#[cfg(test)]
mod tests;
