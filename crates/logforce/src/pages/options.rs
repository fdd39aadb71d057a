//! Options of a page file, and the call that opens it.

use crate::disk::calibration::Calibrator;
use crate::options::mode;
use crate::{Guarantee, Verdict};
use logforce_device::System;
use logforce_device_os::OsSystem;
use logforce_pages::{CommitMode, PageFile, Result, WriteThroughLimit};
use std::path::Path;
use std::sync::Arc;

/// Options of a page file, and the call that opens it. By default the page file must exist.
#[derive(Debug, Clone, Default)]
pub struct Options {
    core: logforce_pages::Options,
    create: bool,
    create_new: bool,
}

impl Options {
    /// Returns the defaults: an existing page file, whose commits survive a loss of power.
    pub fn new() -> Self {
        Options::default()
    }

    /// Sets whether an opening creates a page file if the directory is missing or empty. Default `false`:
    /// such a directory is an error.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether an opening creates a new page file, and fails if there is one. If set,
    /// [`create`](Self::create) is ignored. Default `false`.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Opens the page file in the directory `path`, and recovers it first. The parent of a new file's
    /// directory must exist.
    ///
    /// # Errors
    /// [`ErrorKind::NoPageFile`](super::ErrorKind::NoPageFile) if there is no page file and
    /// [`create`](Self::create) is not set;
    /// [`ErrorKind::AlreadyExists`](super::ErrorKind::AlreadyExists) if there is one and
    /// [`create_new`](Self::create_new) is set;
    /// [`ErrorKind::Locked`](super::ErrorKind::Locked) if the file is open already;
    /// [`ErrorKind::Unsuitable`](super::ErrorKind::Unsuitable) if it was created with other options than
    /// these;
    /// [`ErrorKind::Damaged`](super::ErrorKind::Damaged).
    pub fn open(self, path: impl AsRef<Path>) -> Result<PageFile> {
        // The advisor measures: for the log, the method if the user has named none; for a copy-on-write file,
        // the write-through limit of its commits.
        let advisor = Arc::new(Calibrator);
        let with_advisors = self.with(|core| {
            core.default_advisor(advisor.clone())
                .default_write_through_advisor(advisor)
        });
        with_advisors.open_in(&OsSystem::new(), path.as_ref())
    }

    /// Sets the commit mode. Default for a new file: [`CommitMode::Logged`]. An existing file must have been
    /// created with this mode; without this option it is opened in its mode.
    pub fn mode(self, mode: CommitMode) -> Self {
        self.with(|core| core.mode(mode))
    }

    /// Sets the size of a page in bytes: a power of two from 512 to 65,536. Default for a new file:
    /// 4096. An existing file must have this page size.
    pub fn page_size(self, bytes: u32) -> Self {
        self.with(|core| core.page_size(bytes))
    }

    /// Sets whether each page has a checksum, which is verified whenever the page is read from the file.
    /// Default for a new file: `true`. An existing file must have been created with the same value.
    pub fn checksums(self, checksums: bool) -> Self {
        self.with(|core| core.checksums(checksums))
    }

    /// Sets the minimum guarantee of a durable commit. Opening fails if it is not available. Default
    /// [`Guarantee::PowerLoss`].
    pub fn require(self, guarantee: Guarantee) -> Self {
        self.with(|core| core.require(guarantee))
    }

    /// Requires this verdict on that guarantee: opening fails if the verdict is lower. The default is
    /// [`Verdict::Declared`]; see [`crate::Options::require_verdict`].
    pub fn require_verdict(self, verdict: Verdict) -> Self {
        self.with(|core| core.require_verdict(verdict))
    }

    /// Sets the maximum bytes of page contents in memory. Default 256 MiB. In a logged file half of it is for
    /// changes that the data file does not contain yet, and half for pages that are read. Contents that do
    /// not fit are read back from the log and the data file. A checkpoint begins before the
    /// [`checkpoint_distance`](Options::checkpoint_distance) if changed pages take a quarter of this memory.
    ///
    /// Additional memory is used by about 64 pages, by the changes of commits in flight, and by pages that
    /// programs hold (as transactions, or as [`Page`](crate::pages::Page)). From 2,048 pages on (8 MiB with
    /// pages of 4 KiB) a logged file keeps several copies of the most-read pages, one for each few threads.
    /// So threads that read them do not wait for each other.
    pub fn cache_size(self, bytes: u64) -> Self {
        self.with(|core| core.cache(usize::try_from(bytes).unwrap_or(usize::MAX)))
    }

    /// Sets, for logged files, the bytes of log between two checkpoints. This limits the size of the log and
    /// the work of an opening, which redoes at most twice as many bytes. Default 256 MiB.
    pub fn checkpoint_distance(self, bytes: u64) -> Self {
        self.with(|core| core.checkpoint_distance(bytes))
    }

    /// Sets the number of threads that write pages to the data file with direct I/O: 1 to 64. It is also the
    /// number of writes in flight. No threads are started if the system has a queue for writes (`io_uring` on
    /// Linux, which some containers forbid), or for a logged file whose pages go through the system's cache
    /// ([`direct`](Self::direct)). Default 8.
    pub fn writers(self, count: usize) -> Self {
        self.with(|core| core.writers(count))
    }

    /// Sets, for logged files, whether pages are written to the data file with direct I/O. Default: `true` on
    /// Windows, where such writes overlap. Elsewhere `false`: a few hundred pages go through the system's
    /// cache before each sync.
    ///
    /// Direct I/O is slower if each write needs a thread, and about as fast if the system has a queue for
    /// writes (try it). Without it, the system's cache contains a second copy of pages that are read often.
    /// The system takes that memory back when it needs it.
    pub fn direct(self, direct: bool) -> Self {
        self.with(|core| core.direct(direct))
    }

    /// Sets, for copy-on-write files, the largest commit that is written through. Small commits are faster so
    /// than with a barrier after the writes. Default: the measured limit; without a measurement, one
    /// contiguous run of at most 1 MiB.
    pub fn write_through(self, limit: WriteThroughLimit) -> Self {
        self.with(|core| core.write_through(limit))
    }

    /// Sets options of the log of a logged file, such as its method. The page file's options determine the
    /// guarantee and the verdict that the log must have. `calibrate`, `calibration_cache`, `wait_for_lock`
    /// and the modes of files and directory also apply to the page file itself, in either commit mode.
    pub fn log(self, options: crate::Options) -> Self {
        self.with(|core| core.log(options.into_core()))
    }

    fn with(
        mut self,
        change: impl FnOnce(logforce_pages::Options) -> logforce_pages::Options,
    ) -> Self {
        self.core = change(self.core);
        self
    }

    /// Opens a page file on any system, without advisors.
    pub(crate) fn open_in(self, system: &dyn System, path: &Path) -> Result<PageFile> {
        let mode = mode(self.create, self.create_new);
        PageFile::open(system, path, mode, self.core)
    }
}
