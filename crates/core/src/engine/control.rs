//! Changes of the control file and of the metadata beside it.

use crate::engine::Engine;
use crate::error::{Error, Result};
use logforce_format::{Control, planted};

impl Engine {
    /// Forces a change of the control file; the anchor goes along, never backwards.
    pub(crate) fn update_control(&self, change: impl FnOnce(&mut Control)) -> Result<()> {
        self.check_location()?;
        let mut anchor = self.state().pipeline.anchor;
        if planted!("anchor-above-durable") {
            anchor = self.state().pipeline.written_anchor();
        }
        // Of two slots half written by a thread that unwound, neither may be the one that counts.
        let result = self.whole("write the control file of", || {
            self.files.control.update(&self.poison, |c| {
                if anchor.lsn > c.anchor.lsn {
                    c.anchor = anchor;
                }
                change(c);
            })
        });
        result.map_err(|e| self.fail(e))
    }

    /// Replaces the metadata, forced by barriers.
    pub(crate) fn set_meta(&self, bytes: &[u8]) -> Result<()> {
        // A close waits for it: it would write to a file that is another opening's by then.
        let _under_way = self.begin_truncation()?;
        self.check_location()?;
        let set = self.whole("write the control file of", || {
            self.files.control.set_meta(&self.poison, bytes)
        });
        set.map_err(|e| match e {
            Error::Poisoned { .. } => self.fail(e),
            refused => refused,
        })
    }
}
