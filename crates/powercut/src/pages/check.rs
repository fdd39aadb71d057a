//! Compares what is left of a page file with what was promised of it.

use super::subject::open;
use super::{ACCOUNTS, PAGE, THREADS, stamp_pages, value_of};
use crate::ledger::{Entry, Kind};
use crate::subject::seam::{Fault, Faulty};
use anyhow::Result;
use logforce::pages::{PageFile, Snapshot};
use logforce_crashtest::testbed::{Filesystem, Image, Mounted};
use std::path::Path;

/// What was promised, by thread.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// The last stamp that was acknowledged, or found by an earlier comparison.
    acknowledged: [u64; THREADS],
    /// The last stamp that was tried.
    tried: [u64; THREADS],
    /// Something was acknowledged or found: the page file must be there.
    exists: bool,
}

impl Promises {
    /// What a session was promised: `claimed` before the cut, `all` whenever.
    pub fn add(&mut self, claimed: &[Vec<Entry>], all: &[Vec<Entry>]) {
        let of_kind = |entries: Option<&Vec<Entry>>, kind| {
            let entries = entries.into_iter().flatten();
            let stamps = entries.filter(|e| e.kind == kind).map(|e| e.sequence);
            stamps.max().unwrap_or(0)
        };
        for thread in 0..THREADS {
            let acknowledged = of_kind(claimed.get(thread), Kind::Acked);
            self.exists |= acknowledged > 0;
            self.acknowledged[thread] = self.acknowledged[thread].max(acknowledged);
            let tried = of_kind(all.get(thread), Kind::RecordRange);
            self.tried[thread] = self.tried[thread].max(tried);
        }
    }
}

/// Result of a comparison.
#[derive(Debug, Clone, Default)]
pub struct PageCheckOutcome {
    /// Commits that had to be there.
    pub acknowledged: u64,
    /// What broke, in words.
    pub broken: Vec<String>,
    /// The filesystem itself did not survive, in its words.
    pub filesystem_lost: Option<String>,
}

/// Opens the page file in `dir`, which is what a cut or a kill left there, and compares. What it holds
/// now is what the next comparison has to find.
pub fn check(dir: &Path, copy_on_write: bool, promises: &mut Promises) -> PageCheckOutcome {
    let mut found = PageCheckOutcome {
        acknowledged: promises.acknowledged.iter().sum(),
        ..PageCheckOutcome::default()
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

/// Whether the filesystem says that its own metadata is damaged: EFSBADCRC, EFSCORRUPTED.
fn is_corruption(error: &logforce::pages::Error) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = source {
        let code = e
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error);
        if matches!(
            code.map(rustix::io::Errno::from_raw_os_error),
            Some(rustix::io::Errno::BADMSG | rustix::io::Errno::UCLEAN)
        ) {
            return true;
        }
        source = e.source();
    }
    false
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

/// Mounts what a cut left, as the next boot would, and compares.
pub(super) fn survivor(
    filesystem: Filesystem,
    image: &Image,
    home: &Path,
    copy_on_write: bool,
    promises: &mut Promises,
) -> Result<PageCheckOutcome> {
    let mounted = match Mounted::survivor(filesystem, image, home)? {
        Ok(mounted) => mounted,
        Err(lost) => {
            return Ok(PageCheckOutcome {
                filesystem_lost: Some(lost),
                ..PageCheckOutcome::default()
            });
        }
    };
    let found = check(&mounted.path().join("file"), copy_on_write, promises);
    mounted.unmount()?;
    Ok(found)
}
