//! The options of a page file, and opening it.

use crate::disk::calibration::Calibrator;
use crate::options::mode;
use crate::{Guarantee, Verdict};
use logforce_device::System;
use logforce_device_os::OsSystem;
use logforce_pages::{CommitMode, PageFile, Result, WriteThroughLimit};
use std::path::Path;
use std::sync::Arc;

/// Options of a page file, and the call that opens it. By default an opening takes only a page file that is there.
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

    /// Sets whether an opening makes a page file where the directory is missing or empty. Default `false`: such a
    /// directory is an error.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether an opening makes a new page file, and fails if there is one; [`create`](Self::create) is
    /// ignored then. Default `false`.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Opens the page file in the directory `path`, and recovers it first. The parent of a new one must exist.
    ///
    /// # Errors
    /// [`ErrorKind::NoPageFile`](super::ErrorKind::NoPageFile) if there is none and [`create`](Self::create) is not
    /// set; [`ErrorKind::AlreadyExists`](super::ErrorKind::AlreadyExists) with [`create_new`](Self::create_new);
    /// [`ErrorKind::Locked`](super::ErrorKind::Locked) if it is open already;
    /// [`ErrorKind::Unsuitable`](super::ErrorKind::Unsuitable) if it was created otherwise than these options say;
    /// [`ErrorKind::Damaged`](super::ErrorKind::Damaged).
    pub fn open(self, path: impl AsRef<Path>) -> Result<PageFile> {
        // With advisors that measure: for the log, where the user named no method; and for a copy-on-write
        // file, up to how much its commits are written through.
        let advisor = Arc::new(Calibrator);
        let with_advisors = self.with(|core| {
            core.default_advisor(advisor.clone())
                .default_write_through_advisor(advisor)
        });
        with_advisors.open_in(&OsSystem::new(), path.as_ref())
    }

    /// Sets how the file commits. Default for a new file: [`CommitMode::Logged`]. An existing file must
    /// have been created so; without this option it is opened as it is.
    pub fn mode(self, mode: CommitMode) -> Self {
        self.with(|core| core.mode(mode))
    }

    /// Sets the size of a page in bytes: a power of two from 512 to 65,536. Default for a new file:
    /// 4096. An existing file must have it.
    pub fn page_size(self, bytes: u32) -> Self {
        self.with(|core| core.page_size(bytes))
    }

    /// Sets whether each page has a checksum, which is verified whenever the page is read from the file.
    /// Default for a new file: `true`. An existing file must have been created so.
    pub fn checksums(self, checksums: bool) -> Self {
        self.with(|core| core.checksums(checksums))
    }

    /// Sets the least that a durable commit must guarantee; opening fails where it is not available.
    /// Default [`Guarantee::PowerLoss`].
    pub fn require(self, guarantee: Guarantee) -> Self {
        self.with(|core| core.require(guarantee))
    }

    /// Requires this verdict on that guarantee: opening fails if the verdict is lower. The default is
    /// [`Verdict::Declared`]; see [`crate::Options::require_verdict`].
    pub fn require_verdict(self, verdict: Verdict) -> Self {
        self.with(|core| core.require_verdict(verdict))
    }

    /// Sets the bytes of page contents that the page file may keep in memory. Default 256 MiB. Of a logged file
    /// half is for what the data file does not hold yet, and half for what is read; contents that do
    /// not fit are read back from the log and the data file. A checkpoint begins early, before a
    /// [`checkpoint_distance`](Options::checkpoint_distance), where a quarter of it has changed.
    ///
    /// Contents of up to some 64 pages, what commits in flight change and what programs hold (as
    /// transactions, or as [`Page`](crate::pages::Page)) come on top. From 2,048 pages on (8 MiB with pages of
    /// 4 KiB) a logged file copies the pages that are read most for each few threads, so that threads
    /// that read them do not wait for each other.
    pub fn cache_size(self, bytes: u64) -> Self {
        self.with(|core| core.cache(usize::try_from(bytes).unwrap_or(usize::MAX)))
    }

    /// Sets, for logged files, the bytes of log between two checkpoints, which bounds what opening has to redo
    /// (twice as many) and the size of the log. Default 256 MiB.
    pub fn checkpoint_distance(self, bytes: u64) -> Self {
        self.with(|core| core.checkpoint_distance(bytes))
    }

    /// Sets the number of threads that write pages to the data file past the system's cache, so many writes are in flight
    /// at once: 1 to 64. None are started where the system has a queue for that (`io_uring` on Linux,
    /// which some containers forbid), nor for a logged file whose pages go through the cache
    /// ([`direct`](Self::direct)). Default 8.
    pub fn writers(self, count: usize) -> Self {
        self.with(|core| core.writers(count))
    }

    /// Sets, for logged files, whether pages go to the data file past the system's cache. Default: on Windows,
    /// where such writes overlap; elsewhere they go through the cache, a few hundred before each sync.
    /// Past it is slower where single pages need a thread each, and about as fast where the system has a
    /// queue for them (try it). Through the cache there is
    /// a second copy of pages that are read often, which gives the memory back when it is needed
    /// elsewhere.
    pub fn direct(self, direct: bool) -> Self {
        self.with(|core| core.direct(direct))
    }

    /// Sets, for copy-on-write files, up to how much a commit writes through, where that is faster than a barrier
    /// after the writes. Default: what the advisor of the crate `logforce` has measured; without one,
    /// one contiguous run of at most 1 MiB.
    pub fn write_through(self, limit: WriteThroughLimit) -> Self {
        self.with(|core| core.write_through(limit))
    }

    /// Sets options of the log of a logged file, such as its method. The page file's own options set the
    /// guarantee and the verdict that the log must have. `calibrate`, `calibration_cache`, `wait_for_lock`
    /// and the modes of files and directory also hold for the page file itself, of either kind.
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

    /// Opens a page file of any system, without advisors.
    pub(crate) fn open_in(self, system: &dyn System, path: &Path) -> Result<PageFile> {
        let mode = mode(self.create, self.create_new);
        PageFile::open(system, path, mode, self.core)
    }
}
