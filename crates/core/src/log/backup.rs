//! Backups of an open log.

use crate::backup::source::Source;
use crate::backup::{BackupOptions, BackupReport, Wanted, make};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::policy::WaitLevel;
use logforce_device::System;
use std::path::Path;

impl Log {
    /// Copies the log into the directory `to`, while other threads continue to write. `to` must be missing
    /// or empty, and its parent must exist.
    ///
    /// The copy is a log with the same id, positions and metadata. It contains every record from the front
    /// on that was appended before this call, and perhaps some that were appended during it, up to
    /// [`BackupReport::end`]. Open it like any log. When this returns, the copy is durable and was read
    /// back, so that corruption in the log is found now.
    ///
    /// Appends meanwhile do not wait, but share the device. [`Log::pin`] holds the front until the copy is
    /// complete; a close waits for it. A crash leaves a directory that cannot be opened, and that another
    /// call overwrites.
    ///
    /// ```
    /// # fn save(log: &logforce_core::Log) -> logforce_core::Result<()> {
    /// use logforce_core::BackupOptions;
    /// let backup = log.backup("/backup/orders-2026-11-24", BackupOptions::new())?;
    /// println!("{} bytes, everything below {}", backup.bytes, backup.end);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::BackupTarget`] if `to` is not empty, lies in the log's directory, or guarantees less
    /// than [`BackupOptions::require`]; [`Error::NoSpace`]; [`Error::Damaged`] if the log is damaged;
    /// [`Error::Truncated`] if the log had to move the front meanwhile
    /// ([`Options::max_pinned_size`](crate::Options::max_pinned_size)). After an error, the files written to
    /// `to` are removed as far as possible.
    pub fn backup(
        &self,
        to: impl AsRef<Path>,
        mut options: BackupOptions<'_>,
    ) -> Result<BackupReport> {
        let engine = self.engine();
        // A close waits for this backup, because the files belong to the next opening after a close.
        let in_progress = engine.begin_file_change()?;
        let pin = self.pin(None)?;
        let tail = engine.state().tail();
        engine.wait_until(tail, WaitLevel::Force)?;
        // Moves the anchor to the tail or beyond. It then lies between two appends.
        engine.wait_until(tail, WaitLevel::Barrier)?;
        let anchor = engine.state().pipeline.anchor;
        let control = engine.files.control.current();
        let meta = engine.files.control.meta_bytes();
        let dir = engine.view.dir.clone();
        let source = {
            let segments = engine.view.segments().all();
            Source::new(dir, &control, anchor, meta, segments)?
        };
        let system: std::sync::Arc<dyn System> = engine
            .view
            .dir
            .system()
            .map_err(Error::io("copy", engine.view.path.clone()))?;
        let wanted = Wanted {
            require: options.required_or(engine.config.options.require),
            modes: engine.config.options.modes,
        };
        make(
            &*system,
            &source,
            to.as_ref(),
            wanted,
            &mut |done, all| {
                options.report(done, all);
                in_progress.check_open()
            },
            || match pin.is_broken() {
                false => Ok(()),
                true => Err(Error::Truncated {
                    lsn: source.control.front,
                    front: engine.front(),
                }),
            },
        )
    }
}
