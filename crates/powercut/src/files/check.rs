//! Comparison of a durable file after a cut with what was promised.

use super::subject::open;
use super::{Layout, SLOTS, THREADS, contents, version_of};
use crate::check::{CheckOutcome, is_corruption};
use crate::ledger::{Entry, Kind};
use crate::subject::seam::{Fault, Faulty};
use logforce::file::{self, Error, File};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Versions that a slot may have.
#[derive(Debug, Clone, Copy, Default)]
struct Versions {
    /// Last version that was acknowledged, or found whole by an earlier comparison.
    acknowledged: u64,
    /// Last version that was begun.
    begun: u64,
}

/// Promises, by thread and slot.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    slots: BTreeMap<(usize, u64), Versions>,
    /// True if something was acknowledged or found: the file must be there.
    pub(super) exists: bool,
}

impl Promises {
    /// Adds a session: `claimed` was there before the cut, `all` at any time.
    pub fn add(&mut self, claimed: &[impl AsRef<[Entry]>], all: &[impl AsRef<[Entry]>]) {
        for thread in 0..THREADS {
            let entries = |of: Option<&_>| of.map_or(&[][..], AsRef::as_ref).to_vec();
            for entry in entries(all.get(thread)) {
                if entry.kind == Kind::RecordRange {
                    let slot = self.slots.entry((thread, entry.start)).or_default();
                    slot.begun = slot.begun.max(entry.sequence);
                }
            }
            let claimed = claimed.get(thread).map_or(&[][..], AsRef::as_ref);
            for entry in claimed.iter().filter(|e| e.kind == Kind::Acked) {
                let slot = self.slots.entry((thread, entry.start)).or_default();
                slot.acknowledged = slot.acknowledged.max(entry.sequence);
                self.exists = true;
            }
        }
    }
}

/// Opens the file in `dir` after a cut, and compares it. The next comparison has to find what it contains
/// now.
pub fn check(dir: &Path, layout: Layout, promises: &mut Promises) -> CheckOutcome {
    let acknowledged = promises.slots.values().filter(|s| s.acknowledged > 0);
    let mut outcome = CheckOutcome {
        acknowledged: acknowledged.count() as u64,
        ..CheckOutcome::default()
    };
    if !promises.exists && !dir.exists() {
        return outcome;
    }
    let system = Faulty::new(Fault::None);
    let file = match open(dir, layout, 1, &system, !promises.exists) {
        Ok(file) => file,
        Err(e) => {
            match is_corruption(&e) {
                true => outcome.filesystem_lost = Some(e.to_string()),
                false => {
                    outcome.lost = outcome.acknowledged;
                    outcome.broken.push(format!("it does not open: {e}"));
                }
            }
            return outcome;
        }
    };
    if let Err(e) = compare(&file, layout, promises, &mut outcome) {
        match is_corruption(&e) {
            true => outcome.filesystem_lost = Some(e.to_string()),
            false => outcome.broken.push(format!("it cannot be read: {e}")),
        }
    }
    if let Err(e) = file.close() {
        outcome.broken.push(format!("it does not close: {e}"));
    }
    outcome
}

/// Compares each slot with the versions that it may have.
fn compare(
    file: &File,
    layout: Layout,
    promises: &mut Promises,
    outcome: &mut CheckOutcome,
) -> file::Result<()> {
    for (thread, slot) in (0..THREADS).flat_map(|t| (0..SLOTS).map(move |s| (t, s))) {
        let found = read(file, layout, thread, slot)?;
        let version = version_of(&found);
        let versions = promises.slots.entry((thread, slot)).or_default();
        let Versions {
            acknowledged,
            begun,
        } = *versions;
        let len = layout.slot_len();
        let candidates = acknowledged..=begun.max(acknowledged);
        let candidates: Vec<_> = candidates.map(|v| contents(thread, slot, v, len)).collect();
        // A version that was begun may have arrived in part, over the one before.
        let is_known = |i: usize| candidates.iter().any(|c| c[i] == found[i]);
        if let Some(at) = (0..len).find(|i| !is_known(*i)) {
            outcome.lost += u64::from(acknowledged > 0);
            if outcome.broken.len() < 5 {
                outcome.broken.push(format!(
                    "slot {slot} of thread {thread}: version {acknowledged} was acknowledged, {begun} begun, and \
                     byte {at} is of neither; it says {version}"
                ));
            }
            continue;
        }
        if found == contents(thread, slot, version, len) {
            (versions.acknowledged, versions.begun) = (version, version);
            promises.exists |= version > 0;
        }
        outcome.present += u64::from(version > 0);
    }
    Ok(())
}

/// Reads a slot from the medium, where that is possible. Beyond the end of the file there are zeroes.
fn read(file: &File, layout: Layout, thread: usize, slot: u64) -> file::Result<Vec<u8>> {
    let mut found = vec![0; layout.slot_len()];
    let offset = layout.offset(thread, slot);
    match file.read_medium_at(&mut found, offset) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::Unsupported => {
            file.read_at(&mut found, offset)?
        }
        read => read?,
    };
    Ok(found)
}
