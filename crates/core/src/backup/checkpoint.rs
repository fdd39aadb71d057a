//! Checkpoint of an import: the control slots and the metadata that `control.backup` has meanwhile.
//!
//! The first checkpoint writes the whole file. Later ones overwrite slots as an open log does, so that a crash
//! leaves the checkpoint before. Metadata is durable in both slots before the control slot with its position is
//! written, because an import that goes on there does not get the chunk of that metadata again.

use crate::error::{Error, Result};
use crate::names;
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::control_file::{ControlFile, sync_loaded, write_slots, write_whole};
use crate::storage::durability::Why;
use logforce_device::{Directory, File, OpenFile};
use logforce_format::{
    CONTROL_SLOT_OFFSETS, Control, META_SLOT_LEN, META_SLOT_OFFSETS, Meta, planted,
};
use std::path::Path;
use std::sync::Arc;

/// Contents of the file, durable.
pub(super) struct Checkpoint {
    pub(super) control: Control,
    pub(super) meta: Option<Meta>,
    /// Index of the control slot that counts.
    slot: usize,
}

impl Checkpoint {
    /// Loads a checkpoint and makes it durable. Returns `None` if there is none yet, if a crash has torn the first
    /// one, or if it is damaged.
    pub(super) fn load(dir: &Arc<dyn Directory>) -> Result<Option<Checkpoint>> {
        let loaded = match ControlFile::load_from(dir, names::BACKUP) {
            Err(Error::NotALog { .. } | Error::Damaged(_)) => return Ok(None),
            // Otherwise the caller would remove a checkpoint that cannot be read just now, or by this version.
            loaded => loaded?,
        };
        let meta = LoadedMeta::load_from(dir, names::BACKUP, &loaded.control)?;
        if meta.lost(dir.path()).is_some() {
            return Ok(None);
        }
        let path = dir.path().join(names::BACKUP);
        let file = dir.open(names::BACKUP, OpenFile::WRITE);
        let file = file.map_err(Error::io("open for writing", &path))?;
        sync_loaded(&*file, &path, &loaded)?;
        Ok(Some(Checkpoint {
            meta: meta.sync(&*file, &path)?,
            slot: loaded.slot,
            control: loaded.control,
        }))
    }

    /// Writes the first checkpoint.
    pub(super) fn create(
        file: &dyn File,
        path: &Path,
        control: Control,
        meta: Option<&[u8]>,
    ) -> Result<Checkpoint> {
        let meta = write_whole(file, path, &control, meta)?;
        Ok(Checkpoint {
            control,
            meta,
            slot: 0,
        })
    }

    /// Replaces the checkpoint. `slots`: 1, or 2 if both control slots are to have the same contents.
    pub(super) fn replace(
        &mut self,
        file: &dyn File,
        path: &Path,
        control: Control,
        meta: Option<&[u8]>,
        slots: usize,
    ) -> Result<()> {
        if planted!("checkpoint-in-one-write") {
            *self = Checkpoint::create(file, path, control, meta)?;
            return Ok(());
        }
        let old = self.meta.as_ref();
        if old.map(|m| &m.bytes[..]) != meta {
            let new = meta.map(|bytes| Meta {
                log_id: control.log_id,
                sequence: old.map_or(0, |m| m.sequence) + 1,
                bytes: bytes.to_vec(),
            });
            let encoded = new.as_ref().map_or([0; META_SLOT_LEN], Meta::encode);
            write_slots(file, path, &META_SLOT_OFFSETS, &encoded, Why::MetadataSlot)?;
            self.meta = new;
        }
        let encoded = control.encode();
        for _ in 0..slots {
            let slot = 1 - self.slot;
            let offsets = &CONTROL_SLOT_OFFSETS[slot..=slot];
            write_slots(file, path, offsets, &encoded, Why::ControlSlot)?;
            self.slot = slot;
        }
        self.control = control;
        Ok(())
    }
}
