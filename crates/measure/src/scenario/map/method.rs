//! The commit methods.

use super::{Mapping, PAGE};
use crate::MeasureError;
use crate::result::name::named;
use crate::run::counting::{CallCounts, CountingSystem};
use crate::run::in_flight::InFlight;
use logforce::pages::PageFile;
use logforce_device::{
    AlignedBuf, Assessment, Barrier, Facts, File, FileState, ForceBy, Plan, Write,
};
use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of pages that are gathered into one write.
const LONGEST_RUN: u64 = 256;

/// Method to commit pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapMethod {
    /// Changes pages in the mapping and syncs the whole mapping.
    MsyncAll,
    /// Changes pages in the mapping and syncs each run of changed pages.
    MsyncRanges,
    /// Writes sorted runs one after the other, then a barrier.
    Gathered,
    /// Writes sorted runs, several in flight, then a barrier.
    InFlight,
    /// Writes sorted runs, several in flight, each durable by itself.
    InFlightThrough,
    /// Commits to our page file, copy-on-write.
    CopyOnWrite,
    /// Commits to our page file, logged.
    Logged,
}

impl MapMethod {
    /// All methods, the baseline first.
    pub const ALL: [MapMethod; 7] = [
        MapMethod::MsyncAll,
        MapMethod::MsyncRanges,
        MapMethod::Gathered,
        MapMethod::InFlight,
        MapMethod::InFlightThrough,
        MapMethod::CopyOnWrite,
        MapMethod::Logged,
    ];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            MapMethod::MsyncAll => "msync-all",
            MapMethod::MsyncRanges => "msync-ranges",
            MapMethod::Gathered => "gathered+barrier",
            MapMethod::InFlight => "in-flight+barrier",
            MapMethod::InFlightThrough => "in-flight+write-through",
            MapMethod::CopyOnWrite => "copy-on-write",
            MapMethod::Logged => "logged",
        }
    }

    /// Returns whether the method uses a page file of the library.
    pub fn is_ours(self) -> bool {
        matches!(self, MapMethod::CopyOnWrite | MapMethod::Logged)
    }
}

impl std::fmt::Display for MapMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

named!(MapMethod);

/// Committer: commits by one method to one file.
pub(super) trait Committer {
    /// Changes these pages atomically and durably. The pages are in ascending order.
    fn commit(&mut self, pages: &[u64], number: u64) -> Result<(), MeasureError>;
    /// Does the work that commits left for later.
    fn finish(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }
    /// Returns the calls so far. Calls of page files are not counted.
    fn calls(&self) -> CallCounts {
        CallCounts::default()
    }
    /// Returns the guarantee of a commit.
    fn worth(&self, facts: &Facts) -> Option<Assessment>;
}

/// Splits pages in ascending order into runs of contiguous pages.
pub(super) fn runs(pages: &[u64]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page && page - run.start < LONGEST_RUN => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

/// Makes every block of a page different from the contents that any commit before wrote.
pub(super) fn stamp(bytes: &mut [u8], page: u64, number: u64) {
    for (n, block) in bytes.chunks_mut(512).enumerate() {
        let of = number ^ (page << 8) ^ n as u64;
        block[..8].copy_from_slice(&of.to_le_bytes());
    }
}

fn worth(facts: &Facts, force: ForceBy) -> Option<Assessment> {
    let plan = Plan {
        direct: false,
        force,
    };
    facts.assess_plan(plan, FileState::Recycled)
}

/// A file mapped into memory.
pub(super) struct Mapped {
    method: MapMethod,
    size: u64,
    mapping: Rc<RefCell<Box<dyn Mapping>>>,
    page: Vec<u8>,
    msyncs: u64,
}

impl Mapped {
    pub(super) fn new(
        method: MapMethod,
        size: u64,
        mapping: Rc<RefCell<Box<dyn Mapping>>>,
    ) -> Mapped {
        Mapped {
            method,
            size,
            mapping,
            page: vec![0; PAGE as usize],
            msyncs: 0,
        }
    }

    fn store(&mut self, page: u64, number: u64) -> io::Result<()> {
        stamp(&mut self.page, page, number);
        self.mapping.borrow_mut().write(page * PAGE, &self.page)
    }

    fn sync(&mut self, ranges: &[Range<u64>]) -> io::Result<()> {
        self.msyncs += ranges.len() as u64;
        self.mapping.borrow_mut().sync(ranges)
    }

    fn both(&mut self, pages: &[u64], number: u64) -> io::Result<()> {
        for &page in pages {
            self.store(page, number)?;
        }
        let ranges = match self.method {
            MapMethod::MsyncAll => vec![Range {
                start: 0,
                end: self.size,
            }],
            _ => runs(pages)
                .iter()
                .map(|r| r.start * PAGE..r.end * PAGE)
                .collect(),
        };
        self.sync(&ranges)?;
        // After the pages are durable, because this page makes the change take effect.
        self.store(0, number)?;
        self.sync(&[Range {
            start: 0,
            end: PAGE,
        }])
    }
}

impl Committer for Mapped {
    fn commit(&mut self, pages: &[u64], number: u64) -> Result<(), MeasureError> {
        self.both(pages, number).map_err(MeasureError::io("commit"))
    }

    fn calls(&self) -> CallCounts {
        CallCounts {
            msyncs: self.msyncs,
            ..CallCounts::default()
        }
    }

    fn worth(&self, facts: &Facts) -> Option<Assessment> {
        worth(facts, ForceBy::Barrier(Barrier::Full))
    }
}

/// Writes to the same file through the system's cache.
pub(super) struct Raw {
    pub(super) method: MapMethod,
    pub(super) file: Arc<dyn File>,
    pub(super) in_flight: Rc<InFlight>,
    pub(super) system: Arc<CountingSystem>,
}

impl Raw {
    fn write(&self, run: &Range<u64>, number: u64) -> Write {
        let pages = (run.end - run.start) as usize;
        let mut buf = AlignedBuf::zeroed(pages * PAGE as usize, PAGE as usize);
        for (page, bytes) in run.clone().zip(buf.chunks_mut(PAGE as usize)) {
            stamp(bytes, page, number);
        }
        Write {
            offset: run.start * PAGE,
            range: 0..buf.len(),
            buf,
            through: self.method == MapMethod::InFlightThrough,
        }
    }

    fn both(&self, pages: &[u64], number: u64) -> io::Result<()> {
        let writes = runs(pages);
        let writes = writes.iter().map(|run| self.write(run, number));
        match self.method {
            MapMethod::Gathered => {
                for write in writes {
                    self.file.complete(self.file.submit(write)).result?;
                }
            }
            _ => self.in_flight.write(&self.file, writes.collect()).1?,
        }
        self.barrier()?;
        // After the pages are durable, because this page makes the change take effect.
        let meta = self.write(&(0..1), number);
        self.file.complete(self.file.submit(meta)).result?;
        self.barrier()
    }

    fn barrier(&self) -> io::Result<()> {
        match self.method {
            MapMethod::InFlightThrough => Ok(()),
            _ => self.file.barrier(Barrier::Data),
        }
    }
}

impl Committer for Raw {
    fn commit(&mut self, pages: &[u64], number: u64) -> Result<(), MeasureError> {
        self.both(pages, number).map_err(MeasureError::io("commit"))
    }

    fn calls(&self) -> CallCounts {
        self.system.counts()
    }

    fn worth(&self, facts: &Facts) -> Option<Assessment> {
        worth(
            facts,
            match self.method {
                MapMethod::InFlightThrough => ForceBy::Through,
                _ => ForceBy::Barrier(Barrier::Data),
            },
        )
    }
}

/// One of our page files.
pub(super) struct Ours {
    file: PageFile,
    method: MapMethod,
    page: Vec<u8>,
}

impl Ours {
    /// Commits to `file`.
    pub(super) fn new(file: PageFile, method: MapMethod) -> Ours {
        let page = vec![0; PAGE as usize];
        Ours { file, method, page }
    }
}

impl Committer for Ours {
    fn commit(&mut self, pages: &[u64], number: u64) -> Result<(), MeasureError> {
        let mut commit = || {
            let mut transaction = self.file.begin()?;
            for &page in pages {
                stamp(&mut self.page, page, number);
                // Writes whole pages like the other methods, so that nothing is read and no
                // difference is logged.
                transaction.write(page, &self.page)?;
            }
            transaction.commit().map(drop)
        };
        commit().map_err(failed)
    }

    /// Checkpoints a logged file, whose commits have not written the pages to the data file.
    fn finish(&mut self) -> Result<(), MeasureError> {
        match self.method {
            MapMethod::Logged => self.file.checkpoint().map_err(failed),
            _ => Ok(()),
        }
    }

    fn worth(&self, facts: &Facts) -> Option<Assessment> {
        let mut barrier = worth(facts, ForceBy::Barrier(Barrier::Data))?;
        barrier.guarantee = self.file.guarantee().guarantee;
        Some(barrier)
    }
}

/// Converts the error of a page file.
pub(super) fn failed(error: logforce::pages::Error) -> MeasureError {
    MeasureError::NotOffered(format!("the page file: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_pages_are_one_run() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[1, 2, 3, 7, 9, 10]), [1..4, 7..8, 9..11]);
        let long: Vec<u64> = (0..LONGEST_RUN + 1).collect();
        assert_eq!(runs(&long), [0..LONGEST_RUN, LONGEST_RUN..LONGEST_RUN + 1]);
    }
}
