//! A copy of a log as a log of its own, made while the log is written.
//!
//! `source.rs` decides what is copied: everything from the front to a batch boundary that is durable.
//! `target.rs` writes it. The control file comes last: without one, a directory is no log.

pub(crate) mod source;
mod target;

use crate::error::{Error, Result};
use crate::options::Modes;
use crate::read::inspect::Inspector;
use crate::storage::directory::{check_path, existing_directory};
use logforce_device::{Guarantee, System};
use source::Source;
use std::path::Path;
pub use target::BackupReport;
use target::Progress;
pub(crate) use target::Wanted;

/// How often the copy of a log that another process writes begins again, because a truncation has
/// removed what was being copied.
const RETRIES: usize = 5;

/// Options of a backup, of a log or a page file.
#[derive(Default)]
pub struct BackupOptions<'a> {
    require: Option<Guarantee>,
    progress: Option<Box<dyn FnMut(u64, u64) + 'a>>,
}

impl<'a> BackupOptions<'a> {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the least that a sync must guarantee in the backup's directory; nothing is made where it is not
    /// available. Default: what an open log requires of itself; of anything else
    /// [`Guarantee::PowerLoss`].
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = Some(guarantee);
        self
    }

    /// Sets a function to call with what is done and all that is to be done: of a log about every MiB, in bytes,
    /// where each byte counts twice, because it is copied and then read back; of a page file after each page, in
    /// numbers of pages. If it closes the log, the backup ends with [`Error::Closed`].
    pub fn progress(mut self, call: impl FnMut(u64, u64) + 'a) -> Self {
        self.progress = Some(Box::new(call));
        self
    }

    /// Returns the guarantee of [`require`](Self::require), or the default.
    #[doc(hidden)]
    pub fn required_or(&self, default: Guarantee) -> Guarantee {
        self.require.unwrap_or(default)
    }

    /// Calls what [`progress`](Self::progress) was set to.
    #[doc(hidden)]
    pub fn report(&mut self, done: u64, all: u64) {
        if let Some(call) = &mut self.progress {
            call(done, all);
        }
    }
}

impl std::fmt::Debug for BackupOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupOptions")
            .field("require", &self.require)
            .finish_non_exhaustive()
    }
}

/// Copies `source` into the directory `to` of `system`. `still_there` is asked at the end, before the
/// copy becomes a log.
pub(crate) fn make(
    system: &dyn System,
    source: &Source,
    to: &Path,
    wanted: Wanted,
    progress: &mut Progress<'_>,
    still_there: impl FnOnce() -> Result<()>,
) -> Result<BackupReport> {
    check_path(to)?;
    if system
        .resolved(to)
        .starts_with(system.resolved(source.dir.path()))
    {
        return Err(Error::BackupTarget {
            path: to.to_owned(),
            why: "it lies in the log's own directory".to_owned(),
        });
    }
    target::make(system, source, to, wanted, progress, still_there)
}

/// Copies the log in `from`, which another process may be writing, into `to`.
#[doc(hidden)]
pub fn backup(
    system: &dyn System,
    from: &Path,
    to: &Path,
    mut options: BackupOptions<'_>,
) -> Result<BackupReport> {
    let require = options.required_or(Guarantee::PowerLoss);
    let dir = existing_directory(system, from)?;
    let mut attempts = 0;
    loop {
        let source = Inspector::read_stable(&dir, Source::of_inspector)?;
        let modes = Modes::default();
        let made = make(
            system,
            &source,
            to,
            Wanted { require, modes },
            &mut |done, all| {
                options.report(done, all);
                Ok(())
            },
            || source.check_unchanged(),
        );
        match made {
            Err(Error::Truncated { .. }) if attempts < RETRIES => attempts += 1,
            other => return other,
        }
    }
}
