//! What openings gave up at damage, as the log's owner sees it.

use crate::error::Result;
use crate::log::Log;
use crate::storage::aside::{self, GivenUp};

impl Log {
    /// What openings with [`OnDamage::Truncate`](crate::OnDamage::Truncate) have given up of this log
    /// and is still kept on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] where the directory cannot be read.
    pub fn given_up(&self) -> Result<Vec<GivenUp>> {
        let engine = self.engine();
        engine.view.check_process()?;
        aside::kept(&engine.view.dir, engine.view.log_id)
    }

    /// Gives back the space of what was given up at damage; answers how many bytes that are. Segments
    /// that still hold records of the log stay until [`Log::truncate_front`] passes them, and are used
    /// again then. Nothing else discards it, and it cannot be had back.
    ///
    /// # Errors
    /// [`Error::Closed`], and [`Error::Io`] where a file cannot be removed; call it again then.
    pub fn discard_given_up(&self) -> Result<u64> {
        let engine = self.engine();
        // Neither a close nor a truncation, which adds to what is kept, comes in between.
        let _under_way = engine.begin_truncation()?;
        let _turn = engine.pins.turn();
        let freed = aside::discard(&engine.view.dir)?;
        engine.files.retired.forget_cuts();
        Ok(freed)
    }
}
