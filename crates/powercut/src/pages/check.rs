//! Comparison of a page file after a cut or a kill with what was promised.

use super::subject::open;
use super::{ACCOUNTS, PAGE, THREADS, stamp_pages, value_of};
use crate::check::{CheckOutcome, is_corruption};
use crate::ledger::{Entry, Kind};
use crate::subject::seam::{Fault, Faulty};
use anyhow::Result;
use logforce::pages::{PageFile, Snapshot};
use std::path::Path;

/// Promises, by thread.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// Last stamp that was acknowledged, or found by an earlier comparison.
    acknowledged: [u64; THREADS],
    /// Last stamp that was tried.
    tried: [u64; THREADS],
    /// True if something was acknowledged or found: the page file must be there.
    pub(super) exists: bool,
}

impl Promises {
    /// Adds a session: `claimed` was there before the cut, `all` at any time.
    pub fn add(&mut self, claimed: &[impl AsRef<[Entry]>], all: &[impl AsRef<[Entry]>]) {
        fn latest(entries: Option<&impl AsRef<[Entry]>>, kind: Kind) -> u64 {
            let entries = entries.into_iter().flat_map(AsRef::as_ref);
            let stamps = entries.filter(|e| e.kind == kind).map(|e| e.sequence);
            stamps.max().unwrap_or(0)
        }
        for thread in 0..THREADS {
            let acknowledged = latest(claimed.get(thread), Kind::Acked);
            self.exists |= acknowledged > 0;
            self.acknowledged[thread] = self.acknowledged[thread].max(acknowledged);
            let tried = latest(all.get(thread), Kind::RecordRange);
            self.tried[thread] = self.tried[thread].max(tried);
        }
    }
}

/// Opens the page file in `dir` after a cut or a kill, and compares it. The next comparison has to find what it
/// contains now.
pub fn check(dir: &Path, copy_on_write: bool, promises: &mut Promises) -> CheckOutcome {
    let mut found = CheckOutcome {
        acknowledged: promises.acknowledged.iter().sum(),
        ..CheckOutcome::default()
    };
    let system = Faulty::new(Fault::None);
    let file = match open(dir, copy_on_write, 1, &system, !promises.exists) {
        Ok(file) => file,
        Err(e) => {
            match is_corruption(&e) {
                true => found.filesystem_lost = Some(e.to_string()),
                false => found.broken.push(format!("it does not open: {e}")),
            }
            return found;
        }
    };
    match look(&file, promises) {
        Ok(broken) => found.broken = broken,
        Err(e) => found.broken.push(format!("it cannot be read: {e:#}")),
    }
    if let Err(e) = file.close() {
        found.broken.push(format!("it does not close: {e}"));
    }
    found
}

fn look(file: &PageFile, promises: &mut Promises) -> Result<Vec<String>> {
    let snapshot = file.snapshot()?;
    let mut broken = Vec::new();
    let mut sum = 0_u64;
    for page in 0..ACCOUNTS {
        match value(&snapshot, page)? {
            Some(value) => sum = sum.wrapping_add(value),
            None => broken.push(format!("account {page} is not whole")),
        }
    }
    if sum != 0 {
        broken.push(format!("the sum of all accounts is {sum}"));
    }
    for thread in 0..THREADS {
        let [a, b] = stamp_pages(thread);
        let (a, b) = (value(&snapshot, a)?, value(&snapshot, b)?);
        let (Some(stamp), true) = (a, a == b) else {
            broken.push(format!("thread {thread} stamped {a:?} and {b:?}"));
            continue;
        };
        let (least, most) = (promises.acknowledged[thread], promises.tried[thread]);
        if stamp < least {
            broken.push(format!(
                "commit {least} of thread {thread} was acknowledged, and {stamp} is its last"
            ));
        }
        if stamp > most {
            broken.push(format!(
                "thread {thread} has commit {stamp}, and never tried more than {most}"
            ));
        }
        promises.acknowledged[thread] = stamp;
        promises.exists |= stamp > 0;
    }
    Ok(broken)
}

fn value(snapshot: &Snapshot, page: u64) -> Result<Option<u64>> {
    if page >= snapshot.page_count() {
        return Ok(Some(0));
    }
    let mut buf = vec![0; PAGE];
    snapshot.read(page, &mut buf)?;
    Ok(value_of(&buf))
}
