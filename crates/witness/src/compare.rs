//! Comparison of a log's contents after a power cut with the acknowledged records.

use crate::ledger::Ack;
use crate::record::Name;
use crate::run_dir::{RunDir, line};
use crate::write::LEAST_SEGMENT;
use crate::{CutError, RunId};
use logforce::{
    Error, ErrorKind, Guarantee, Log, Lsn, Method, Options, Record, Tuning, inspect::Visit,
};
use std::collections::HashMap;

/// Maximum number of reported findings.
const TOLD: usize = 6;

/// Records that must be in the log.
pub struct Promised<'a> {
    pub run: RunId,
    pub round: u32,
    /// LSN below which records may be missing.
    pub front: u64,
    /// Acknowledgements, in order of LSNs.
    pub acks: &'a [Ack],
}

/// Result of the comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Examined {
    pub found: u64,
    /// Number of acknowledged records that are missing or different.
    pub missing: u64,
    /// Number of impossible records (never appended, of another round, out of order, twice) and of damages.
    pub wrong: u64,
    pub findings: Vec<String>,
}

impl Examined {
    fn note(&mut self, finding: String) {
        if self.findings.len() < TOLD {
            self.findings.push(line(&finding));
        }
    }

    fn wrong(&mut self, finding: String) {
        self.wrong += 1;
        self.note(finding);
    }
}

/// Comparison that goes through a log in order of LSNs.
struct Exam<'a> {
    promised: &'a Promised<'a>,
    next: usize,
    last: HashMap<u16, u64>,
    /// True if the log is known to be damaged. Gaps in a committer's numbers are then not reported as wrong.
    has_gaps: bool,
    examined: Examined,
}

impl Exam<'_> {
    fn miss(&mut self, ack: Ack) {
        self.examined.missing += 1;
        self.examined.note(format!(
            "record {} of committer {}, acknowledged at LSN {}, is missing",
            ack.sequence, ack.stream, ack.lsn
        ));
    }

    fn miss_below(&mut self, lsn: u64) {
        while let Some(&ack) = self.promised.acks.get(self.next).filter(|a| a.lsn < lsn) {
            self.next += 1;
            self.miss(ack);
        }
    }

    fn compare(&mut self, record: &Record) {
        let at = record.start;
        self.miss_below(at.0);
        let Some(name) = Name::of(&record.data) else {
            let bytes = record.data.len();
            let what = format!("the record at LSN {at} ({bytes} bytes) was never appended");
            self.examined.wrong(what);
            return;
        };
        if (name.run, name.round) != (self.promised.run, self.promised.round) {
            // All earlier records were truncated before this round began.
            self.examined.wrong(format!(
                "the record at LSN {at} belongs to round {} of run {}",
                name.round, name.run
            ));
            return;
        }
        let last = self.last.insert(name.stream, name.sequence);
        if let Some(last) = last
            && name.sequence != last + 1
            && !(self.has_gaps && name.sequence > last)
        {
            self.examined.wrong(format!(
                "at LSN {at} record {} of committer {} follows its record {last}",
                name.sequence, name.stream
            ));
        }
        if let Some(&ack) = self.promised.acks.get(self.next).filter(|a| a.lsn == at.0) {
            self.next += 1;
            if (ack.stream, ack.sequence) == (name.stream, name.sequence) {
                self.examined.found += 1;
            } else {
                self.miss(ack);
            }
        }
    }

    /// Restarts the comparison for another way to read the log. Findings stay.
    fn again(&mut self) {
        self.next = 0;
        self.last.clear();
        (self.examined.found, self.examined.missing) = (0, 0);
    }

    fn end(mut self) -> Examined {
        self.miss_below(u64::MAX);
        self.examined
    }
}

/// Opens the log after the power cut, as a program would, and compares it.
///
/// A damaged or missing log is a finding. Any other failure to open or read the log is an error.
pub fn examine(
    home: &RunDir,
    method: Method,
    promised: &Promised<'_>,
) -> Result<Examined, CutError> {
    let mut exam = Exam {
        promised,
        next: 0,
        last: HashMap::new(),
        has_gaps: false,
        examined: Examined::default(),
    };
    let options = Options::new()
        .method(method)
        .require(Guarantee::Nothing)
        // Recovery may need a new segment. With the usual size it could exceed the maximum size of the log in
        // the next round, whose writer would wait for space for ever.
        .segment_size(LEAST_SEGMENT)
        .tuning(Tuning::new().live_stats(false));
    match logforce::open_existing(home.log(), options) {
        Ok(log) => {
            let is_whole = read(&log, &mut exam)?;
            drop(log);
            if !is_whole {
                exam.again();
                salvage(home, &mut exam);
            }
        }
        Err(e) if is_loss(&e) => {
            exam.examined
                .wrong(format!("the log cannot be opened: {e}"));
            salvage(home, &mut exam);
        }
        Err(e) => return Err(e.into()),
    }
    Ok(exam.end())
}

fn is_loss(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::NoLog | ErrorKind::NotALog | ErrorKind::Damaged
    )
}

/// Compares all records. Returns true if all of the log could be read. Loss and damage become findings.
fn read(log: &Log, exam: &mut Exam<'_>) -> Result<bool, CutError> {
    let front = log.front_lsn();
    if front > Lsn(exam.promised.front) {
        exam.examined.wrong(format!(
            "the log begins at LSN {front}, but was truncated at most to LSN {}",
            exam.promised.front
        ));
    }
    let damaged = |exam: &mut Exam<'_>, e: Error| {
        if !is_loss(&e) {
            return Err(e.into());
        }
        exam.examined.wrong(e.to_string());
        Ok(false)
    };
    let reader = match log.read_from(front) {
        Ok(reader) => reader,
        Err(e) => return damaged(exam, e),
    };
    for record in reader {
        match record {
            Ok(record) => exam.compare(&record),
            Err(e) => return damaged(exam, e),
        }
    }
    Ok(true)
}

/// Compares the records that can still be read, to find out how much is lost.
fn salvage(home: &RunDir, exam: &mut Exam<'_>) {
    let Ok(inspector) = logforce::inspect::salvage(home.log()) else {
        return;
    };
    let front = exam.promised.front;
    // Behind damage the numbers of a committer's records continue with a gap.
    exam.has_gaps = true;
    let _ = inspector.walk(&mut |visit| {
        if let Visit::Record { record, .. } = visit
            && record.start.0 >= front
        {
            exam.compare(record);
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId(9);

    fn record(stream: u16, sequence: u64, start: u64) -> Record {
        let name = Name {
            run: RUN,
            round: 2,
            stream,
            sequence,
        };
        let data = name.record();
        Record {
            start: Lsn(start),
            end: Lsn(start + data.len() as u64),
            data,
        }
    }

    fn ack(stream: u16, sequence: u64, lsn: u64) -> Ack {
        Ack {
            stream,
            sequence,
            lsn,
        }
    }

    fn exam(acks: &[Ack], records: &[Record]) -> Examined {
        let promised = Promised {
            run: RUN,
            round: 2,
            front: 0,
            acks,
        };
        let mut exam = Exam {
            promised: &promised,
            next: 0,
            last: HashMap::new(),
            has_gaps: false,
            examined: Examined::default(),
        };
        records.iter().for_each(|e| exam.compare(e));
        exam.end()
    }

    #[test]
    fn what_was_acknowledged_must_be_there_as_it_was() {
        let acks = [ack(0, 4, 100), ack(1, 7, 300), ack(0, 5, 500)];
        let all = [record(0, 4, 100), record(1, 7, 300), record(0, 5, 500)];
        let good = exam(&acks, &all);
        assert_eq!((good.found, good.missing, good.wrong), (3, 0, 0));
        // A record that was not acknowledged may be there or not.
        let more = exam(&acks[..2], &all);
        assert_eq!((more.found, more.missing, more.wrong), (2, 0, 0));
        let cut = exam(&acks, &all[..1]);
        assert_eq!((cut.found, cut.missing), (1, 2));
        assert!(cut.findings[0].contains("record 7 of committer 1"));
        let gap = exam(&acks, &[all[0].clone(), all[2].clone()]);
        assert_eq!((gap.found, gap.missing, gap.wrong), (2, 1, 0));
        let moved = exam(&[ack(0, 4, 99)], &all[..1]);
        assert_eq!((moved.found, moved.missing), (0, 1));
        let exchanged = exam(&[ack(1, 4, 100)], &all[..1]);
        assert_eq!((exchanged.found, exchanged.missing), (0, 1));
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (records, words) in [
            (
                vec![record(0, 4, 1), record(0, 4, 2)],
                "follows its record 4",
            ),
            (
                vec![record(0, 4, 1), record(0, 6, 2)],
                "follows its record 4",
            ),
            (
                vec![record(0, 4, 1), record(0, 3, 2)],
                "follows its record 4",
            ),
            (
                vec![Record {
                    start: Lsn(1),
                    end: Lsn(9),
                    data: vec![0; 8],
                }],
                "never appended",
            ),
        ] {
            let e = exam(&[], &records);
            assert_eq!(e.wrong, 1);
            assert!(e.findings[0].contains(words), "{e:?}");
        }
        let mut other = record(0, 1, 1);
        other.data = Name {
            run: RUN,
            round: 1,
            stream: 0,
            sequence: 1,
        }
        .record();
        let e = exam(&[], &[other]);
        assert!(e.findings[0].contains("round 1"), "{e:?}");
    }
}
