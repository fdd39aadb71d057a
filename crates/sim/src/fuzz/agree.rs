//! Checks that opening, reading, `verify` and `dump`, and salvage agree on a mutated log.

use super::mutated::Mutated;
use super::opening::{self, Shown, Walked, Written};
use super::oracle::Case;
use crate::mending::OnDamage;
use logforce_core::{BatchInfo, Error, ErrorKind, Record};
use logforce_testkit::SimDisk;

/// Results of reading one log in each way.
struct Ways {
    strict: Result<Written, Error>,
    truncated: Result<Written, Error>,
    read: Result<Shown, Error>,
    walked: Result<Walked, Error>,
    salvaged: Option<Walked>,
}

impl Ways {
    fn of(disk: &SimDisk, m: &Mutated<'_>) -> Ways {
        let before = disk.snapshot();
        let open = |on_damage| {
            disk.restore(&before);
            m.make_unreadable(disk);
            opening::write(disk, &m.base.options, on_damage)
        };
        let strict = open(OnDamage::Refuse);
        let truncated = open(OnDamage::Repair);
        disk.restore(&before);
        m.make_unreadable(disk);
        Ways {
            strict,
            truncated,
            read: opening::read_only(disk),
            walked: opening::walk(disk, false),
            salvaged: opening::walk(disk, true).ok(),
        }
    }
}

/// Returns true if the error reports damage.
fn is_damage(e: &Error) -> bool {
    e.kind() == ErrorKind::Damaged
}

/// Returns the records of `some` that are not among `all`.
fn missing<'e>(some: &'e [Record], all: &[Record]) -> Vec<&'e Record> {
    some.iter().filter(|e| !all.contains(e)).collect()
}

/// Checks that the walk has a reason to miss these records: a forgery contradicts bytes that an opening
/// does not read, and the walk reports damage there and accepts no batch after it.
fn denied_by_forgery(extra: &[&Record], walked: &Walked, case: &Case<'_>, how: &str) {
    let is_denied = |e: &&&Record| {
        let covers = |b: &BatchInfo| (b.lsn..b.end).contains(&e.start);
        !walked.batches.iter().any(covers) && walked.damages.iter().any(|d| d.lsn <= e.start)
    };
    let unexplained = extra.iter().find(|e| !case.is_forged() || !is_denied(e));
    assert_eq!(unexplained, None, "{how}: the walk denies it");
}

/// Opens a log in every way, and compares the results.
///
/// # Panics
/// If two ways contradict each other.
pub(super) fn agree(disk: &SimDisk, m: &Mutated<'_>, case: &Case<'_>) {
    let ways = Ways::of(disk, m);
    if super::says() {
        eprintln!("{:#?}\n{:?}\n{:?}", ways.walked, ways.strict, ways.read);
    }
    let walked = match &ways.walked {
        Ok(walked) => walked,
        Err(e) => {
            // A log that cannot be listed cannot be opened either; only salvage reads it.
            let opened = ways.strict.is_ok() || ways.read.is_ok();
            assert!(!opened, "opened, but cannot be inspected: {e}");
            return;
        }
    };
    let damages: Vec<_> = walked.damages.iter().map(|d| d.lsn).collect();
    let says = |what: &str| format!("{what}, and the walk found {:?}", walked.damages);
    match &ways.strict {
        Ok(written) => {
            same(&written.before, walked, case, "opened");
        }
        Err(e) if is_damage(e) => {
            assert!(!damages.is_empty(), "{}", says(&format!("refused: {e}")));
        }
        // An error such as a full disk or a taken lock says nothing about the log.
        Err(_) => {}
    }
    match &ways.read {
        Ok(shown) => same(shown, walked, case, "read"),
        Err(e) if is_damage(e) => {
            assert!(!damages.is_empty(), "{}", says(&format!("not read: {e}")));
        }
        Err(_) => {}
    }
    if let Ok(written) = &ways.truncated {
        let shown = &written.before;
        let extra = missing(&shown.records, &walked.records);
        // Records that an earlier truncation voided may come back, and the opening reports that. It knows
        // the voided ranges from the anchor on, and a forged control slot can name another range.
        let reported = shown.lost && (case.void_damaged() || case.is_forged());
        if !reported {
            denied_by_forgery(&extra, walked, case, "truncated");
        }
    }
    if let Some(salvaged) = &ways.salvaged {
        assert_eq!(
            salvaged.records, walked.records,
            "salvage shows other records"
        );
        assert_eq!(
            salvaged.proven, walked.proven,
            "salvage proves other records"
        );
    }
    case.proven(&walked.proven);
}

/// Checks that an opening shows what the walk shows, and ends where the walk found damage.
fn same(shown: &Shown, walked: &Walked, case: &Case<'_>, how: &str) {
    let damages = &walked.damages;
    let control = Some("control".to_owned());
    match &shown.ended {
        Some(e) if is_damage(e) => {
            assert!(
                !damages.is_empty(),
                "{how}: {e}, and the walk found nothing"
            );
            let extra = missing(&shown.records, &walked.records);
            denied_by_forgery(&extra, walked, case, how);
            let mut both = shown.records.clone();
            both.retain(|e| !extra.contains(&e));
            let all = both.len().min(walked.records.len());
            assert_eq!(both[..], walked.records[..all], "{how}: {e}");
        }
        Some(_) => {}
        // Damage below the front loses no record.
        None if damages
            .iter()
            .all(|d| d.lsn < shown.front && d.file != control) =>
        {
            // A batch that begins below the front may hold the first record above it.
            let extra = missing(&shown.records, &walked.records);
            denied_by_forgery(&extra, walked, case, how);
            let mut both = shown.records.clone();
            both.retain(|e| !extra.contains(&e));
            assert_eq!(both, walked.records, "{how}: other records");
        }
        // A forgery may contradict bytes that an opening does not read.
        None => case.fail(&format!("{how} to the end, and the walk found {damages:?}")),
    }
}
