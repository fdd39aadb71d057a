//! What openings have given up at damage, for the log's owner.

use crate::error::Result;
use crate::log::Log;
use crate::storage::given_up::{self, GivenUp};

impl Log {
    /// The ranges that openings with [`OnDamage::Truncate`](crate::OnDamage::Truncate) have given
    /// up and that are still kept on disk.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the directory cannot be read.
    pub fn given_up(&self) -> Result<Vec<GivenUp>> {
        let engine = self.engine();
        engine.view.check_process()?;
        given_up::list(&engine.view.dir, engine.view.log_id)
    }

    /// Deletes what was given up at damage, for good, and returns how many bytes that frees.
    /// Segments that still hold records of the log stay until [`Log::truncate_front`] passes them,
    /// and are reused then. Nothing else deletes what was given up.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), and [`Error::Io`](crate::Error::Io) if a file
    /// cannot be removed; call it again then.
    pub fn discard_given_up(&self) -> Result<u64> {
        let engine = self.engine();
        // Locks out a close, and truncations, which add to what is kept.
        let _in_progress = engine.begin_file_change()?;
        let _no_moves = engine.pins.lock_moves();
        let freed = given_up::discard(&engine.view.dir)?;
        engine.files.retired.forget_given_up();
        Ok(freed)
    }
}
