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

/// Called with the bytes that are done and all that are to be: each is copied, then read back.
pub type BackupProgress<'a> = dyn FnMut(u64, u64) + 'a;

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
    require: Guarantee,
    progress: &mut BackupProgress<'_>,
) -> Result<BackupReport> {
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
                progress(done, all);
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
