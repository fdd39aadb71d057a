//! Every way to open a log, and the results. Reads, steps and memory are bounded, so that a hang is a
//! failure.

use crate::mending::OnDamage;
use crate::model::PATH;
use logforce_core::{
    BatchInfo, Damage, Error, ErrorKind, Inspector, Log, Lsn, OpenMode, Options, ReadOnly, Record,
    RecoveryReport, Visit,
};
use logforce_testkit::{SimDisk, SimRuntime};

/// Largest number of records, batches or damages in these logs. More counts as a hang.
const MOST: usize = 20_000;
const STEPS: u64 = 2_000_000;

/// Results of an inspection.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) records: Vec<Record>,
    /// Records among them that are reported as proven.
    pub(super) proven: Vec<Record>,
    pub(super) batches: Vec<BatchInfo>,
    pub(super) damages: Vec<Damage>,
    pub(super) meta: Option<Result<Option<Vec<u8>>, Error>>,
}

/// Results of reading, and the error that ended it.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) records: Vec<Record>,
    pub(super) ended: Option<Error>,
    pub(super) meta: Option<Vec<u8>>,
    /// True if a repair reported a loss.
    pub(super) lost: bool,
    /// Report of the opening.
    pub(super) recovered: Option<RecoveryReport>,
    /// LSN below which records are gone.
    pub(super) front: Lsn,
}

/// Results of the next opening, and the committed record if it exists.
type Again = Result<(Shown, Result<Record, Error>), Error>;

/// Results of an opening for writing, and of reading back a record that it acknowledged.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) before: Shown,
    /// Record that was committed, and the results of the next opening. None if the log could not
    /// take the record, or could not be closed.
    pub(super) after: Option<(Record, Again)>,
}

fn run<T>(body: impl FnOnce(&SimRuntime) -> T) -> T {
    SimRuntime::run(1, |rt| {
        rt.set_step_limit(STEPS);
        body(rt)
    })
}

/// Walks the log, as `logforce dump --salvage` and `verify` do.
pub(super) fn walk(disk: &SimDisk, salvage: bool) -> Result<Walked, Error> {
    run(|rt| {
        let system = disk.system(rt);
        let inspector = match salvage {
            true => Inspector::salvage(&*system, PATH),
            false => Inspector::open(&*system, PATH),
        };
        let inspector = inspector?;
        let summary = inspector.summary();
        assert!(summary.segments.len() + summary.spares.len() + summary.strays.len() < MOST);
        let _ = inspector.live();
        let mut walked = Walked {
            meta: Some(inspector.meta()),
            ..Walked::default()
        };
        let mut visits = 0;
        let found = inspector.walk(&mut |visit| {
            visits += 1;
            assert!(visits < MOST, "a walk without an end");
            match visit {
                Visit::Batch(b) => walked.batches.push(b.clone()),
                Visit::Record { record, proven } => {
                    walked.records.push(record.clone());
                    walked.proven.extend(proven.then(|| record.clone()));
                }
                Visit::Part(_) => {}
                Visit::Damage(d) => walked.damages.push(d.clone()),
            }
            true
        });
        let found = found?;
        assert_eq!(found.batches, walked.batches.len() as u64);
        assert_eq!(found.records, walked.records.len() as u64);
        assert_eq!(found.damages, walked.damages.len() as u64);
        Ok(walked)
    })
}

fn read(reader: Result<logforce_core::Reader, Error>) -> (Vec<Record>, Option<Error>) {
    let mut records = Vec::new();
    let reader = match reader {
        Ok(reader) => reader,
        Err(e) => return (records, Some(e)),
    };
    for record in reader {
        match record {
            Ok(record) => records.push(record),
            Err(e) => return (records, Some(e)),
        }
        assert!(records.len() < MOST, "a log without an end");
    }
    (records, None)
}

/// Opens for reading.
pub(super) fn read_only(disk: &SimDisk) -> Result<Shown, Error> {
    run(|rt| {
        let log = ReadOnly::open(&*disk.system(rt), PATH)?;
        let (records, ended) = read(log.read_from(log.front_lsn()));
        for e in records.iter().take(4) {
            assert_eq!(log.read_at(e.start).ok().as_ref(), Some(e), "read_at");
        }
        let (meta, ended) = match log.meta() {
            Ok(meta) => (meta, ended),
            Err(e) => (None, ended.or(Some(e))),
        };
        Ok(Shown {
            records,
            ended,
            meta,
            lost: false,
            recovered: None,
            front: log.front_lsn(),
        })
    })
}

/// Follows the log as another process does.
pub(super) fn follow(disk: &SimDisk) -> Option<Vec<Record>> {
    run(|rt| {
        let log = ReadOnly::open(&*disk.system(rt), PATH).ok()?;
        let mut follower = log.follow_lsn(log.front_lsn()).ok()?;
        let mut records = Vec::new();
        for _ in 0..MOST {
            match follower.try_next() {
                Ok(Some(record)) => records.push(record),
                Err(Error::Voided { .. }) => {}
                Ok(None) | Err(_) => return Some(records),
            }
        }
        panic!("a follower without an end");
    })
}

fn show(log: &Log) -> Shown {
    let (records, ended) = read(log.read_from(log.front_lsn()));
    Shown {
        records,
        ended,
        meta: log.meta(),
        recovered: Some(log.recovered().clone()),
        lost: false,
        front: log.front_lsn(),
    }
}

/// Opens for writing, commits a record, closes, and opens again.
pub(super) fn write(
    disk: &SimDisk,
    options: &Options,
    on_damage: OnDamage,
) -> Result<Written, Error> {
    let mended = run(|rt| on_damage.mend(&*disk.system(rt)))?;
    let open = |rt: &SimRuntime| {
        let system = disk.system(rt);
        Log::open(&*system, PATH, OpenMode::OpenExisting, options.clone())
    };
    let data = b"committed after the opening".to_vec();
    let (before, committed) = run(|rt| {
        let log = open(rt)?;
        let mut before = show(&log);
        before.lost = mended.as_ref().is_some_and(|report| report.aside.is_some());
        let committed = log.commit(&data).and_then(|c| log.close().map(|()| c));
        Ok((before, committed))
    })?;
    let Ok(at) = committed else {
        return Ok(Written {
            before,
            after: None,
        });
    };
    let new = Record {
        start: at.start,
        end: at.end,
        data,
    };
    let again = run(|rt| {
        let log = open(rt)?;
        let shown = show(&log);
        let found = log.read_at(new.start);
        log.close()?;
        Ok((shown, found))
    });
    Ok(Written {
        before,
        after: Some((new, again)),
    })
}

impl Written {
    /// Checks that the next opening shows all that the first one showed, and the record committed after
    /// it. This also holds for a forged log, because the opening accepted it.
    pub(super) fn check(&self) {
        let before = &self.before;
        let Some((new, again)) = &self.after else {
            return;
        };
        let (after, found) = match again {
            Ok(shown) => shown,
            Err(e) => panic!("committed and closed, but does not open again: {e}"),
        };
        match found {
            Ok(found) => assert_eq!(found, new, "committed, but the log has other bytes"),
            Err(e) => panic!("committed, but missing: {e}"),
        }
        let mut expected = before.records.clone();
        if before.ended.is_none() {
            expected.push(new.clone());
        }
        assert_eq!(after.records, expected, "other records after a commit");
        let kind = |shown: &Shown| shown.ended.as_ref().map(|e| e.kind());
        assert_eq!(kind(after), kind(before), "another end");
        assert_eq!(after.meta, before.meta, "other metadata");
        assert_eq!(after.front, before.front, "another front");
        assert_ne!(kind(after), Some(ErrorKind::Truncated), "its own front");
    }
}
