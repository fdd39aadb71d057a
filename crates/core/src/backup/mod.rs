//! Backups: a copy of a log that is itself a log, made while the log is written.
//!
//! `import.rs` makes a log of the chunks that a replica has kept, and `checkpoint.rs` lets it go on after a crash.
//! `source.rs` selects the range: from the front to a durable batch boundary. `target.rs` writes the copy,
//! and its control file last, because a directory without a control file does not count as a log.

mod chain;
mod checkpoint;
mod import;
pub(crate) mod source;
mod target;

use crate::error::{Error, Result};
use crate::options::Modes;
use crate::read::inspect::Inspector;
use crate::storage::directory::{check_path, existing_directory};
pub use chain::ChunkChain;
pub use import::{Import, ImportOptions};
use logforce_device::{Guarantee, System};
use source::Source;
use std::path::Path;
pub use target::BackupReport;
use target::Progress;
pub(crate) use target::Wanted;

/// Maximum number of times that the copy of a log that another process writes is restarted because a
/// truncation removed segments that were being copied.
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

    /// Sets the minimum guarantee that a sync must give in the backup's directory. The backup fails and
    /// copies nothing if the guarantee is not available there. Default: the guarantee that an open log
    /// requires of the log's directory; in all other cases [`Guarantee::PowerLoss`].
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.require = Some(guarantee);
        self
    }

    /// Sets a function to call with the amount of work done and the total. For a log it is called about
    /// every MiB, with numbers of bytes; each byte counts twice, because it is copied and then read back.
    /// For a page file it is called after each page, with numbers of pages. If the function closes the
    /// log, the backup ends with [`Error::Closed`].
    pub fn progress(mut self, call: impl FnMut(u64, u64) + 'a) -> Self {
        self.progress = Some(Box::new(call));
        self
    }

    /// Returns the guarantee of [`require`](Self::require), or the default.
    #[doc(hidden)]
    pub fn required_or(&self, default: Guarantee) -> Guarantee {
        self.require.unwrap_or(default)
    }

    /// Calls the function that was set with [`progress`](Self::progress), if any.
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

/// Copies `source` into the directory `to` of `system`. Calls `still_there` at the end, before the copy
/// becomes a log. It fails if the source was truncated meanwhile.
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

/// Copies the log in `from` into `to`. Another process may be writing the log.
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
