//! Metadata of the owner, in two slots after the control slots.
//!
//! Invariant: **a slot is overwritten with other bytes only while the other slot is durable and valid**, and
//! the first slot always gets new bytes first. If a crash tears a slot, the other one contains either the
//! last acknowledged value or the one in flight.

use super::{ControlFile, READ_LEN, read_slot, write, write_slot, write_slots};
use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::durability::{Why, barrier};
use crate::sync::poison::Poison;
use logforce_device::sync::MutexGuard;
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile};
use logforce_format::{
    CONTROL_FILE_LEN, Control, Lsn, MAX_META_LEN, META_SLOT_LEN, META_SLOT_OFFSETS, Meta,
    MetaReject, MetaSlots, RecoveryCase, newest_meta, planted,
};
use std::path::Path;
use std::sync::{Arc, PoisonError};

const _: () = assert!(META_SLOT_OFFSETS[1] - META_SLOT_OFFSETS[0] >= READ_LEN as u64);

/// Contents of the two slots.
#[derive(Debug, Clone)]
pub(crate) struct LoadedMeta {
    slots: MetaSlots,
    /// True if the slots were read through the page cache: the bytes may not be on the medium.
    cached: bool,
    /// True if a control slot tells if metadata was ever set.
    known: bool,
}

impl LoadedMeta {
    /// Returns the state of metadata that was never set.
    pub(crate) fn none() -> LoadedMeta {
        LoadedMeta {
            slots: MetaSlots::Never,
            cached: false,
            known: true,
        }
    }

    /// Loads the metadata without a valid control slot. Then missing metadata proves nothing.
    pub(crate) fn salvaged(dir: &Arc<dyn Directory>, control: &Control) -> Result<LoadedMeta> {
        let loaded = match Self::load(dir, control) {
            Err(e) if e.is_not_found() => LoadedMeta {
                slots: MetaSlots::Never,
                cached: false,
                known: false,
            },
            loaded => loaded?,
        };
        Ok(LoadedMeta {
            known: false,
            ..loaded
        })
    }

    /// Reads both slots, past the cache if possible: after a failed write the cache may hold a slot
    /// that the medium never got.
    pub(crate) fn load(dir: &Arc<dyn Directory>, control: &Control) -> Result<LoadedMeta> {
        Self::load_from(dir, names::CONTROL, control)
    }

    /// Reads both slots of the file `name`, as [`LoadedMeta::load`] does.
    pub(crate) fn load_from(
        dir: &Arc<dyn Directory>,
        name: &str,
        control: &Control,
    ) -> Result<LoadedMeta> {
        let path = dir.path().join(name);
        let file = dir
            .open(name, OpenFile::READ)
            .map_err(Error::io("open", &path))?;
        let mut cached = false;
        let mut slot = |offset| {
            Ok(match read_slot(&*file, &path, offset, &mut cached)? {
                Ok((buf, n)) => Meta::decode(&buf[..n], control.log_id),
                // A slot that cannot be read is a damaged slot, not one that was never written.
                Err(_) => Err(MetaReject::Unreadable),
            })
        };
        let slots = [slot(META_SLOT_OFFSETS[0])?, slot(META_SLOT_OFFSETS[1])?];
        Ok(LoadedMeta {
            slots: newest_meta(slots, control.has_meta),
            cached,
            known: true,
        })
    }

    /// Returns the metadata; `None` if it was never set or is lost.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.slots {
            MetaSlots::Is(meta, ..) => Some(&meta.bytes),
            _ => None,
        }
    }

    /// Returns true if both slots are valid and equal, or if it is known that they were never written.
    pub(crate) fn is_whole(&self) -> bool {
        match self.slots {
            MetaSlots::Never => self.known,
            MetaSlots::Is(_, _, both) => both,
            MetaSlots::Lost(_) => false,
        }
    }

    /// Returns true if it is known whether metadata was ever set.
    pub(crate) fn is_known(&self) -> bool {
        self.known || self.slots != MetaSlots::Never
    }

    /// Returns the damage to report if it is unknown whether metadata was ever set.
    pub(crate) fn unknown(&self, path: &Path) -> Option<Damage> {
        (!self.is_known()).then(|| {
            let found = "no control slot is valid, so it is unknown whether there was metadata";
            damaged(path, found.to_owned())
        })
    }

    /// Makes the metadata durable in both slots of the `file` from which it was loaded. Returns it.
    pub(crate) fn sync(&self, file: &dyn File, path: &Path) -> Result<Option<Meta>> {
        let MetaSlots::Is(meta, slot, both) = &self.slots else {
            return Ok(None);
        };
        if planted!("metadata-not-settled") {
            return Ok(Some(meta.clone()));
        }
        let bytes = meta.encode();
        if self.cached {
            // Writes the slot again: it is in the cache, and after a failed barrier the next barrier would
            // not write it. This is harmless if the medium already has these bytes. If not, the other slot is
            // durable, because the writer had not started to write it.
            write_slot(file, META_SLOT_OFFSETS[*slot], &bytes).map_err(Error::io("write", path))?;
        }
        // Forces this slot before the other one is written, which may be the only one on the medium.
        file.barrier(Barrier::Full)
            .map_err(Error::io("sync", path))?;
        if !both || self.cached {
            write_slot(file, META_SLOT_OFFSETS[1 - slot], &bytes)
                .map_err(Error::io("write", path))?;
            file.barrier(Barrier::Data)
                .map_err(Error::io("sync", path))?;
        }
        Ok(Some(meta.clone()))
    }

    /// Returns the damage to report if metadata was set and both slots are damaged.
    pub(crate) fn lost(&self, path: &Path) -> Option<Damage> {
        let MetaSlots::Lost([a, b]) = &self.slots else {
            return None;
        };
        if planted!("lost-metadata-is-none") {
            return None;
        }
        let found = format!("both slots of the metadata are unusable ({a}; {b})");
        Some(damaged(path, found))
    }
}

fn damaged(path: &Path, found: String) -> Damage {
    Damage {
        lsn: Lsn::ORIGIN,
        case: RecoveryCase::Damaged,
        path: path.to_owned(),
        file: Some(names::CONTROL.to_owned()),
        offset: META_SLOT_OFFSETS[0],
        found,
        durable_to: Lsn::ORIGIN,
        in_reading: false,
        repairable: true,
        needed_from: None,
    }
}

impl ControlFile {
    fn meta(&self) -> MutexGuard<'_, Option<Meta>> {
        self.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the metadata as it was loaded or last set.
    pub(crate) fn meta_bytes(&self) -> Option<Vec<u8>> {
        self.meta().as_ref().map(|m| m.bytes.clone())
    }

    /// Makes the loaded metadata durable, in both slots. The caller of an opening reads the metadata, for
    /// example a vote that was in flight. It must then survive the next crash.
    pub(crate) fn sync_meta(&self, loaded: &LoadedMeta) -> Result<()> {
        if loaded.bytes().is_none() {
            return Ok(());
        }
        let path = self.dir.path().join(names::CONTROL);
        let _lock = self.update_lock.lock();
        *self.meta() = loaded.sync(&*self.file()?, &path)?;
        Ok(())
    }

    /// Replaces the metadata with at most [`MAX_META_LEN`] bytes, durably. A failure poisons the log, unless
    /// it is a lack of space to extend an old control file.
    ///
    /// A crash in the first write leaves the old value in the second slot. A crash in the second write leaves
    /// the new value in the first slot. If a slot decays later, the other one has the same bytes.
    pub(crate) fn set_meta(&self, poison: &Poison, bytes: &[u8]) -> Result<()> {
        debug_assert!(bytes.len() <= MAX_META_LEN);
        // Control slots and metadata share a lock. Otherwise a failed barrier for a control slot could cover
        // these bytes, too, and the next barrier would succeed without writing them.
        let _lock = self.update_lock.lock();
        poison.check()?;
        self.poison_on_panic(poison, || self.set_meta_locked(poison, bytes))
    }

    fn set_meta_locked(&self, poison: &Poison, bytes: &[u8]) -> Result<()> {
        let path = self.dir.path().join(names::CONTROL);
        let before = self.meta().as_ref().map_or(0, |m| m.sequence);
        let meta = Meta {
            log_id: self.state().1.log_id,
            sequence: before.saturating_add(1),
            bytes: bytes.to_vec(),
        };
        let file = self.file()?;
        self.grow(&*file, poison)?;
        let encoded = meta.encode();
        let both = META_SLOT_OFFSETS;
        let slots = planted!("metadata-in-one-slot", &both[..1], else &both[..]);
        write_slots(&*file, &path, slots, &encoded, Why::MetadataSlot)
            .map_err(|e| poison.set(e))?;
        // Sets the flag after the slots: otherwise a crash would leave the flag without metadata. Sets it
        // before the first acknowledgement: from now on, two empty slots count as damage.
        if !self.state().1.has_meta {
            self.update_locked(&*file, poison, |c| c.has_meta = true)?;
        }
        *self.meta() = Some(meta);
        Ok(())
    }

    /// Gives up the metadata, of which both slots are damaged. From now on the log has none. After a crash
    /// before the control slots are updated, the metadata still counts as lost.
    pub(crate) fn forget_meta(&self, poison: &Poison) -> Result<()> {
        let _lock = self.update_lock.lock();
        poison.check()?;
        self.poison_on_panic(poison, || {
            let path = self.dir.path().join(names::CONTROL);
            let file = self.file()?;
            self.grow(&*file, poison)?;
            for offset in META_SLOT_OFFSETS {
                write_slot(&*file, offset, &[0; META_SLOT_LEN])
                    .map_err(Error::io("write", &path))?;
            }
            let synced = barrier(&*file, Barrier::Data, Why::MetadataSlot);
            synced.map_err(Error::io("sync", &path))?;
            self.update_locked(&*file, poison, |c| c.has_meta = false)
        })
    }

    /// Adds the slots to the control file of an earlier version.
    fn grow(&self, file: &dyn File, poison: &Poison) -> Result<()> {
        let path = self.dir.path().join(names::CONTROL);
        let len = file.len().map_err(Error::io("check the size of", &path))?;
        if len >= CONTROL_FILE_LEN {
            return Ok(());
        }
        file.reserve(CONTROL_FILE_LEN)
            .map_err(Error::io("reserve space in", &path))?;
        let zeroes = AlignedBuf::zeroed((CONTROL_FILE_LEN - len) as usize, META_SLOT_LEN);
        write(file, len, zeroes).map_err(|e| poison.set(Error::io("fill", &path)(e)))?;
        // A full barrier makes the size and the blocks durable before a slot is written after the old end.
        // From then on, each change overwrites in place.
        file.barrier(Barrier::Full)
            .map_err(|e| poison.set(Error::io("sync", &path)(e)))
    }
}

const _: () = assert!(META_SLOT_LEN == logforce_format::CONTROL_SLOT_LEN);
