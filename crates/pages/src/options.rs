//! Options of a page file.

use crate::error::{Error, Result};
use crate::files::DataDir;
use logforce_commit::advisor::Advisor;
use logforce_core::{Guarantee, Verdict};
use logforce_device::{Directory, Facts, Platform, Runtime};
use logforce_format::{MAX_PAGE_SIZE, MIN_PAGE_SIZE};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// Commit mode of a page file. Fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitMode {
    /// Each written page gets a new place, and a header that refers to all of them is written last. Nothing
    /// is written twice, and opening has nothing to redo.
    CopyOnWrite,
    /// The changes go to a log first, and to the pages' places later. A commit is one sequential write,
    /// shared by threads that commit together.
    Logged,
}

/// Largest commit that is forced by write-through, each write durable by itself. A larger one is forced by a
/// barrier after its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteThroughLimit {
    /// Maximum number of contiguous runs of pages.
    pub runs: usize,
    /// Maximum number of bytes in all runs together.
    pub bytes: u64,
}

impl WriteThroughLimit {
    /// Limit without a measurement: one run of up to 1 MiB.
    pub(crate) const UNMEASURED: WriteThroughLimit = WriteThroughLimit {
        runs: 1,
        bytes: 1 << 20,
    };
}

/// Question to the advisor: the directory, its facts, and if the file is new.
pub struct WriteThroughQuestion<'a> {
    /// The page file's directory. Files with names that the advisor keeps for itself
    /// (`calibration-pages`, `calibration-<16 hexadecimal digits>.tmp`) may be created in it.
    pub dir: &'a Arc<dyn Directory>,
    /// The page file's runtime.
    pub runtime: &'a Arc<dyn Runtime>,
    /// Facts that the system reports about the directory.
    pub facts: &'a Facts,
    /// True if the file is being created. Measuring takes time that later openings should not spend.
    pub is_new: bool,
    /// The directory of `calibration_cache` in [`Options::log`].
    pub cache: Option<&'a Path>,
}

/// Advisor for the write-through limit of a copy-on-write file. The limit affects only speed. The advisor is
/// not asked where write-through guarantees less than a barrier.
pub trait WriteThroughAdvisor: Debug + Send + Sync {
    /// Returns the limit, if it is known. Called once by the thread that opens the file, while it holds the
    /// lock. The call may take time, but must return.
    fn write_through(&self, question: &WriteThroughQuestion<'_>) -> Option<WriteThroughLimit>;
}

/// Options of a page file.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) mode: Option<CommitMode>,
    pub(crate) page_size: Option<u32>,
    pub(crate) checksums: Option<bool>,
    pub(crate) require: Guarantee,
    pub(crate) require_verdict: Verdict,
    pub(crate) cache: usize,
    pub(crate) checkpoint_distance: u64,
    pub(crate) writers: usize,
    pub(crate) direct: Option<bool>,
    pub(crate) write_through: Option<WriteThroughLimit>,
    pub(crate) write_through_advisor: Option<Arc<dyn WriteThroughAdvisor>>,
    pub(crate) log: logforce_core::Options,
}

/// Page size in bytes of a new page file if no option sets it.
pub(crate) const DEFAULT_PAGE_SIZE: u32 = 4096;

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: None,
            page_size: None,
            checksums: None,
            require: Guarantee::PowerLoss,
            require_verdict: Verdict::Declared,
            cache: 256 << 20,
            checkpoint_distance: 256 << 20,
            writers: 8,
            direct: None,
            write_through: None,
            write_through_advisor: None,
            log: logforce_core::Options::new(),
        }
    }
}

impl Options {
    /// Returns the default options.
    pub fn new() -> Self {
        Options::default()
    }

    /// Sets the commit mode.
    pub fn mode(mut self, mode: CommitMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the size of a page in bytes: a power of two from 512 to 65,536.
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Sets if each page has a checksum, which is verified whenever the page is read from the file.
    pub fn checksums(mut self, checksums: bool) -> Self {
        self.checksums = Some(checksums);
        self
    }

    /// Sets the weakest guarantee that a durable commit may have. Opening fails where it is not available.
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = guarantee;
        self
    }

    /// Requires this verdict on that guarantee: opening fails if the verdict is lower.
    pub fn require_verdict(mut self, verdict: Verdict) -> Self {
        self.require_verdict = verdict;
        self
    }

    /// Sets the maximum number of bytes of page contents that the page file keeps in memory.
    pub fn cache(mut self, bytes: usize) -> Self {
        self.cache = bytes;
        self
    }

    /// Sets the bytes of log between two checkpoints of a logged file. The distance bounds the size of the
    /// log and how much an opening has to redo: at most twice the distance.
    pub fn checkpoint_distance(mut self, bytes: u64) -> Self {
        self.checkpoint_distance = bytes;
        self
    }

    /// Sets the number of threads that write pages to the data file past the system's cache, from 1 to 64. It
    /// is also the maximum number of these writes in flight.
    pub fn writers(mut self, count: usize) -> Self {
        self.writers = count;
        self
    }

    /// Sets if a logged file writes pages to the data file past the system's cache.
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = Some(direct);
        self
    }

    /// Sets the largest commit of a copy-on-write file that is written through, where that is faster than a
    /// barrier after the writes.
    pub fn write_through(mut self, limit: WriteThroughLimit) -> Self {
        self.write_through = Some(limit);
        self
    }

    /// Sets the advisor that is asked if [`write_through`](Self::write_through) is not set. Does nothing if
    /// an advisor is set already.
    #[doc(hidden)]
    pub fn default_write_through_advisor(mut self, advisor: Arc<dyn WriteThroughAdvisor>) -> Self {
        self.write_through_advisor.get_or_insert(advisor);
        self
    }

    /// Sets options of the log of a logged file, such as its method.
    pub fn log(mut self, options: logforce_core::Options) -> Self {
        self.log = options;
        self
    }

    /// Sets the advisor that chooses the log's method if none is named. See
    /// [`logforce_core::Options::default_advisor`].
    #[doc(hidden)]
    pub fn default_advisor(mut self, advisor: Arc<dyn Advisor>) -> Self {
        self.log = self.log.default_advisor(advisor);
        self
    }

    /// Returns true if pages are written past the system's cache where their size allows that.
    pub(crate) fn applies_direct(&self, data_dir: &DataDir) -> bool {
        self.direct
            .unwrap_or(data_dir.facts.platform == Platform::Windows)
    }

    /// Returns the bytes of a logged file's cache for contents that the data file does not hold yet.
    pub(crate) fn changed_cache(&self) -> usize {
        self.cache / 2
    }

    /// Returns the bytes of a logged file's cache for contents that the data file holds.
    pub(crate) fn clean_cache(&self) -> usize {
        self.cache / 4
    }

    /// Returns the bytes of a logged file's cache for the newest contents of pages, for readers.
    pub(crate) fn newest_cache(&self) -> usize {
        self.cache / 4
    }

    /// Returns the write-through limit of this file.
    pub(crate) fn write_through_limit(
        &self,
        data_dir: &DataDir,
        is_new: bool,
    ) -> WriteThroughLimit {
        let ask = |advisor: &Arc<dyn WriteThroughAdvisor>| {
            advisor.write_through(&WriteThroughQuestion {
                dir: &data_dir.dir,
                runtime: &data_dir.runtime,
                facts: &data_dir.facts,
                is_new,
                cache: self.log.calibration_dir(),
            })
        };
        let advisor = self.write_through_advisor.as_ref();
        let advisor = advisor.filter(|_| self.log.calibrates());
        self.write_through
            .or_else(|| advisor.and_then(ask))
            .unwrap_or(WriteThroughLimit::UNMEASURED)
    }

    /// Checks that all numbers are within their limits.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |option, why: String| Err(Error::Option { option, why });
        if let Some(size) = self.page_size
            && !(size.is_power_of_two() && (MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(&size))
        {
            return bad(
                "page_size",
                format!("{size} is not a power of two from {MIN_PAGE_SIZE} to {MAX_PAGE_SIZE}"),
            );
        }
        if !(1..=64).contains(&self.writers) {
            return bad("writers", format!("{} is not from 1 to 64", self.writers));
        }
        let least = 16 * u64::from(self.page_size.unwrap_or(DEFAULT_PAGE_SIZE));
        if self.checkpoint_distance < least {
            return bad(
                "checkpoint_distance",
                format!(
                    "{} is less than 16 pages, {least}",
                    self.checkpoint_distance
                ),
            );
        }
        Ok(())
    }
}
