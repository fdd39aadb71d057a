//! Changes of the control file and of the metadata beside it.

use crate::engine::Engine;
use crate::error::{Error, Result};
use logforce_format::{Control, planted};

impl Engine {
    /// Changes the control file durably, and updates its anchor, which never moves backwards.
    pub(crate) fn update_control(&self, change: impl FnOnce(&mut Control)) -> Result<()> {
        self.check_location()?;
        let mut anchor = self.state().pipeline.anchor;
        if planted!("anchor-above-durable") {
            anchor = self.state().pipeline.written_anchor();
        }
        // A thread that panics here may leave a slot half written. The panic poisons the log, so that no
        // later update overwrites the other slot, the only valid one.
        let result = self.poison_on_panic("write the control file of", || {
            self.files.control.update(&self.poison, |c| {
                if anchor.lsn > c.anchor.lsn {
                    c.anchor = anchor;
                }
                change(c);
            })
        });
        result.map_err(|e| self.fail(e))
    }

    /// Replaces the metadata durably, by barriers.
    pub(crate) fn set_meta(&self, bytes: &[u8]) -> Result<()> {
        // A close waits for this change, because the file belongs to the next opening after a close.
        let _in_progress = self.begin_file_change()?;
        self.check_location()?;
        let set = self.poison_on_panic("write the control file of", || {
            self.files.control.set_meta(&self.poison, bytes)
        });
        set.map_err(|e| match e {
            Error::Poisoned { .. } => self.fail(e),
            refused => refused,
        })
    }
}
