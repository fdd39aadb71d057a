//! Options of a durable file, and the call that opens it.

use super::{File, Result};
use crate::disk::calibration::Calibrator;
use crate::{Guarantee, Method, Verdict};
use logforce_device::System;
use logforce_device_os::OsSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of a durable file, and the call that opens it. By default the file must exist, may be opened
/// beside others, and each commit survives a loss of power.
#[derive(Debug, Clone, Default)]
pub struct Options(logforce_commit::file::Options);

impl Options {
    /// Returns the defaults.
    pub fn new() -> Self {
        Options::default()
    }

    /// Opens the file `path` for reading and writing.
    ///
    /// The opening syncs the file and its name, because an earlier process may have written it and ended
    /// before its sync. After a sync that has failed this proves nothing: see
    /// [`File::read_medium_at`](logforce_commit::file::File::read_medium_at). A failed opening may leave an
    /// empty file that it has created.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](super::ErrorKind::NotFound) if there is no file and [`create`](Self::create)
    /// is not set;
    /// [`ErrorKind::AlreadyExists`](super::ErrorKind::AlreadyExists) if there is one and
    /// [`create_new`](Self::create_new) is set;
    /// [`ErrorKind::Locked`](super::ErrorKind::Locked) if another opening has locked it;
    /// [`ErrorKind::Unavailable`](super::ErrorKind::Unavailable) if [`require`](Self::require) cannot be met;
    /// nothing was created then;
    /// [`ErrorKind::Io`](super::ErrorKind::Io).
    pub fn open(self, path: impl AsRef<Path>) -> Result<File> {
        // The advisor measures if the user has named no method.
        self.with(|file| file.default_advisor(Arc::new(Calibrator)))
            .open_in(&OsSystem::new(), path.as_ref())
    }

    /// Sets whether an opening creates the file if it is missing. Its directory must exist. Default `false`.
    pub fn create(self, create: bool) -> Self {
        self.with(|file| file.create(create))
    }

    /// Sets whether an opening creates the file, and fails if there is one. If set, [`create`](Self::create)
    /// is ignored. Default `false`.
    pub fn create_new(self, create_new: bool) -> Self {
        self.with(|file| file.create_new(create_new))
    }

    /// Sets whether the opening locks the file: another opening with this option, in this process or in
    /// another, fails with [`ErrorKind::Locked`](super::ErrorKind::Locked). Makes the file `<path>.lock`
    /// beside it, which stays. The lock ends with the file and the last of its handles. Default `false`.
    pub fn lock(self, lock: bool) -> Self {
        self.with(|file| file.lock(lock))
    }

    /// Promises that offset and length of each write are multiples of
    /// [`File::write_unit`](logforce_commit::file::File::write_unit), mostly 4 KiB. Writes may bypass the
    /// system's cache then, which is mostly faster, and several durable writes may be in flight. Any other
    /// write is refused. Default `false`.
    pub fn aligned(self, aligned: bool) -> Self {
        self.with(|file| file.aligned(aligned))
    }

    /// Sets the method of durable writes and commits. Without it, the file uses the fastest measured method
    /// if that is clearly faster than the default one; see [`calibrate`](Self::calibrate). A file that is not
    /// [aligned](Self::aligned) cannot have a method that bypasses the system's cache.
    pub fn method(self, method: Method) -> Self {
        self.with(|file| file.method(method))
    }

    /// Sets the minimum guarantee of a commit. Opening fails if it is not available. Default
    /// [`Guarantee::PowerLoss`].
    pub fn require(self, guarantee: Guarantee) -> Self {
        self.with(|file| file.require(guarantee))
    }

    /// Requires this verdict on the guarantee: opening fails if the verdict is lower. The default is
    /// [`Verdict::Declared`]; see [`crate::Options::require_verdict`].
    pub fn require_verdict(self, verdict: Verdict) -> Self {
        self.with(|file| file.require_verdict(verdict))
    }

    /// Sets whether opening measures the methods, if none is named and no result is known. The first opening
    /// of a file then measures for at most 300 ms, in the temporary file `<path>.calibration-….tmp`. It keeps
    /// the result in the file `<path>.calibration`, or in the [cache](Self::calibration_cache). Files of one
    /// process share it. With `false` the file uses the default method. Default `true`.
    pub fn calibrate(self, calibrate: bool) -> Self {
        self.with(|file| file.calibrate(calibrate))
    }

    /// Sets the directory (created if missing) in which programs of one user share their measurements and
    /// the results of power cuts; see [`crate::Options::calibration_cache`].
    pub fn calibration_cache(self, dir: impl Into<PathBuf>) -> Self {
        self.with(|file| file.calibration_cache(dir))
    }

    /// Sets the permission bits of a file that this opening creates, as in `chmod`, independent of the umask.
    /// Default: `0o600` less the bits of the umask. No effect on Windows.
    pub fn file_mode(self, mode: u32) -> Self {
        self.with(|file| file.file_mode(mode))
    }

    pub(crate) fn with(
        self,
        change: impl FnOnce(logforce_commit::file::Options) -> logforce_commit::file::Options,
    ) -> Self {
        Options(change(self.0))
    }

    /// Opens a file on any system, without an advisor.
    pub(crate) fn open_in(self, system: &dyn System, path: &Path) -> Result<File> {
        self.0.open(system, path).map(File::new)
    }
}
