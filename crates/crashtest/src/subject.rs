//! The interface of a program under test, and the cases that its sessions lead to.

use crate::counters::Counters;
use crate::disk::{Event, Met, Survival};
use crate::testbed::{Filesystem, Image, Mounted};
use anyhow::Result;
use std::path::Path;

/// Filesystem and images of a subject's sessions.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The filesystem on the disk.
    pub filesystem: Filesystem,
    /// The disk before the first session.
    pub template: &'a Image,
    /// Counters of acknowledgements, which are sampled at the power cut.
    pub counters: &'a Image,
    /// Directory for mount points.
    pub home: &'a Path,
}

/// Program on one filesystem, with a ledger in which it writes what it was promised.
///
/// The ledger has a list of entries for each counter. An entry is there before its counter counts it.
pub trait Subject {
    /// Program of a session.
    type Running;
    /// Entry of the ledger.
    type Entry;
    /// Everything that was promised since the disk was fresh.
    type Promised: Clone + Default;
    /// Result of a check.
    type Checked: Outcome;

    /// Returns the filesystem and the images.
    fn site(&self) -> Site<'_>;

    /// Empties the ledger. Called before the disk is switched on: until then the disk would sample the counters of the
    /// session before.
    ///
    /// # Errors
    /// Errors of the machine.
    fn begin(&self) -> Result<()>;

    /// Starts the program on a mounted filesystem. `before` is what earlier sessions promised.
    ///
    /// # Errors
    /// Errors of the machine.
    fn start(&self, mounted: &Path, before: &Self::Promised, seed: u64) -> Result<Self::Running>;

    /// Ends the program after the power cut, which sampled these counters. No process uses the directory afterwards.
    /// Returns a description of how it ended if that was wrong.
    ///
    /// # Errors
    /// Errors of the machine.
    fn end(&self, running: Self::Running, sampled: &Counters) -> Result<Option<String>>;

    /// Returns all entries of the session.
    ///
    /// # Errors
    /// Errors of the machine.
    fn entries(&self) -> Result<Vec<Vec<Self::Entry>>>;

    /// Adds what a session promised.
    fn promise(&self, promised: &mut Self::Promised, session: &Session<'_, Self::Entry>);

    /// Returns true if something must be there.
    fn is_promised(promised: &Self::Promised) -> bool;

    /// Checks what a power cut left in a mounted filesystem. Returns also the promises from now on if the check has
    /// changed them: what it saw must stay.
    ///
    /// # Errors
    /// Errors of the machine.
    fn check(
        &self,
        mounted: &Path,
        promised: &Self::Promised,
    ) -> Result<(Self::Checked, Option<Self::Promised>)>;

    /// Changes a crash state from which recording number `number` of a row starts, counted from 0. Returns false if
    /// no recording can start from it.
    ///
    /// # Errors
    /// Errors of the machine.
    fn prepare(
        &self,
        _number: usize,
        _state: &Image,
        _promised: &mut Self::Promised,
    ) -> Result<bool> {
        Ok(true)
    }

    /// Mounts what a power cut left, as the next boot would, and checks it. Changes the image.
    ///
    /// # Errors
    /// Errors of the machine.
    fn check_image(
        &self,
        image: &Image,
        promised: &Self::Promised,
    ) -> Result<(Self::Checked, Option<Self::Promised>)> {
        let site = self.site();
        let check = |mounted: &Path| self.check(mounted, promised);
        let checked = Mounted::visit(site.filesystem, image, site.home, check)?;
        Ok(checked.unwrap_or_else(|why| (Self::Checked::filesystem_lost(why), None)))
    }
}

/// Result of a check.
pub trait Outcome {
    /// Returns the result for a filesystem that cannot be mounted.
    fn filesystem_lost(why: String) -> Self;

    /// Returns true if everything was there, so that another session may follow.
    fn is_whole(&self) -> bool;
}

/// Entries of a session, by counter.
#[derive(Debug)]
pub struct Session<'a, E> {
    /// Entries that were there before the power cut: what they acknowledge must have survived.
    pub claimed: Vec<&'a [E]>,
    /// All entries: what was begun in the instant of the power cut may have survived.
    pub all: Vec<&'a [E]>,
}

impl<'a, E> Session<'a, E> {
    /// Returns the session of a live cut that sampled `counters`.
    pub(crate) fn live(entries: &'a [Vec<E>], counters: &Counters) -> Self {
        Session {
            claimed: counted(entries, counters),
            all: entries.iter().map(Vec::as_slice).collect(),
        }
    }

    /// Returns the session of a state in which the event that sampled `counters` is the last. What was begun later had
    /// not been begun then.
    pub(crate) fn state(entries: &'a [Vec<E>], counters: &Counters) -> Self {
        Session {
            claimed: counted(entries, counters),
            all: counted(entries, counters),
        }
    }
}

fn counted<'a, E>(entries: &'a [Vec<E>], counters: &Counters) -> Vec<&'a [E]> {
    let lists = entries.iter().zip(counters);
    lists
        .map(|(list, count)| &list[..list.len().min(*count as usize)])
        .collect()
}

/// A checked case.
pub struct Case<'a, S: Subject> {
    /// The promises before the check.
    pub promised: &'a S::Promised,
    /// Result of the check.
    pub checked: S::Checked,
    /// Description of how the program ended, if that was wrong.
    pub wrong: Option<String>,
    /// Unflushed data at the cut.
    pub met: Met,
    /// Size in bytes of the pieces into which the cut tore writes.
    pub grain: u64,
    /// Returns the disk as the cut left it, before the check.
    pub left: &'a dyn Fn() -> Result<&'a Image>,
    /// The origin of a replayed state; `None` after a live cut.
    pub origin: Option<Origin<'a, S::Entry>>,
}

/// The recorded run and the cut from which a state was built.
#[derive(Debug, Clone)]
pub struct Origin<'a, E> {
    /// The disk before the run.
    pub start: &'a Image,
    /// Everything that reached the disk.
    pub events: &'a [Event],
    /// Entries of the run, by counter.
    pub entries: &'a [Vec<E>],
    /// Index of the event at which the power goes.
    pub number: usize,
    /// The part of the unflushed data that survives.
    pub survival: Survival,
}

/// Receives the cases; returns false if there are enough.
pub type Sink<'a, S> = dyn FnMut(Case<'_, S>) -> Result<bool> + 'a;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::COUNTERS;

    #[test]
    fn what_the_sample_does_not_cover_is_not_claimed() {
        let entries = vec![vec!['a', 'b', 'c'], vec![], vec!['d']];
        let mut counters = [0; COUNTERS];
        counters[0] = 2;
        let live = Session::live(&entries, &counters);
        assert_eq!(live.claimed, [&['a', 'b'][..], &[], &[]]);
        assert_eq!(live.all, [&['a', 'b', 'c'][..], &[], &['d']]);
        let state = Session::state(&entries, &counters);
        assert_eq!(state.all, state.claimed);
        assert_eq!(state.claimed, live.claimed);
    }
}
