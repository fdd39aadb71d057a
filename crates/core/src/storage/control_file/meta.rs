//! The metadata: some bytes of the log's owner in two slots behind the control slots.
//!
//! One invariant carries all of it: **a slot is overwritten with other bytes only while the other
//! one is durable and whole**, and the first slot is always the first to get new bytes. So whatever
//! a crash tears, the other slot tells either the last acknowledged value or the one in flight.

use super::{ControlFile, READ_LEN, read_slot, write, write_slot};
use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::durability::{Why, barrier};
use crate::sync::poison::Poison;
use logforce_device::sync::MutexGuard;
use logforce_device::{AlignedBuf, Barrier, Directory, OpenFile};
use logforce_format::{
    CONTROL_FILE_LEN, Control, Lsn, MAX_META_LEN, META_SLOT_LEN, META_SLOT_OFFSETS, Meta,
    MetaReject, MetaSlots, RecoveryCase, newest_meta, planted,
};
use std::path::Path;
use std::sync::{Arc, PoisonError};

const _: () = assert!(META_SLOT_OFFSETS[1] - META_SLOT_OFFSETS[0] >= READ_LEN as u64);

/// What the two slots hold.
#[derive(Debug, Clone)]
pub(crate) struct LoadedMeta {
    slots: MetaSlots,
    /// The system's cache answered: the medium may never have got it.
    cached: bool,
    /// A control slot says whether there ever was any.
    known: bool,
}

impl LoadedMeta {
    /// What is whole of it though no control slot is: that there is none says nothing then.
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

    /// Reads both slots, past the cache where that is possible: after a failed write the cache may
    /// hold one that the medium never got.
    pub(crate) fn load(dir: &Arc<dyn Directory>, control: &Control) -> Result<LoadedMeta> {
        let path = dir.path().join(names::CONTROL);
        let file = dir
            .open(names::CONTROL, OpenFile::READ)
            .map_err(Error::io("open", &path))?;
        let mut cached = false;
        let mut slot = |offset| {
            Ok(match read_slot(&*file, &path, offset, &mut cached)? {
                Ok((buf, n)) => Meta::decode(&buf[..n], control.log_id),
                // A slot that the medium does not give back is a damaged slot, never one that was
                // not written.
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

    /// The metadata; `None` if it was never set, or is lost.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.slots {
            MetaSlots::Is(meta, ..) => Some(&meta.bytes),
            _ => None,
        }
    }

    /// Both slots hold the same, or nothing was ever written.
    pub(crate) fn is_whole(&self) -> bool {
        match self.slots {
            MetaSlots::Never => self.known,
            MetaSlots::Is(_, _, both) => both,
            MetaSlots::Lost(_) => false,
        }
    }

    /// Somebody knows whether there was any.
    pub(crate) fn is_known(&self) -> bool {
        self.known || self.slots != MetaSlots::Never
    }

    /// What to say where nobody knows whether there was any.
    pub(crate) fn unknown(&self, path: &Path) -> Option<Damage> {
        (!self.is_known()).then(|| {
            let found = "no control slot is whole, so nobody knows whether there was metadata";
            damaged(path, found.to_owned())
        })
    }

    /// What to report if there was metadata that cannot be believed.
    pub(crate) fn lost(&self, path: &Path) -> Option<Damage> {
        let MetaSlots::Lost([a, b]) = &self.slots else {
            return None;
        };
        if logforce_format::planted!("lost-metadata-is-none") {
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
        truncatable: true,
    }
}

impl ControlFile {
    fn meta(&self) -> MutexGuard<'_, Option<Meta>> {
        self.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metadata as it was found or last set.
    pub(crate) fn meta_bytes(&self) -> Option<Vec<u8>> {
        self.meta().as_ref().map(|m| m.bytes.clone())
    }

    /// Makes what was read durable, in both slots. An opening shows it, and what was shown (a vote
    /// that was under way, say) must not be gone after the next crash.
    pub(crate) fn settle_meta(&self, loaded: &LoadedMeta) -> Result<()> {
        let MetaSlots::Is(meta, slot, both) = &loaded.slots else {
            return Ok(());
        };
        if planted!("metadata-not-settled") {
            *self.meta() = Some(meta.clone());
            return Ok(());
        }
        let path = self.dir.path().join(names::CONTROL);
        let bytes = meta.encode();
        let _turn = self.turn.lock();
        if loaded.cached {
            // The cache shows the slot, and after a barrier that failed the next one would not
            // write it. Where the medium has it, the same bytes do no harm; where it has not, the
            // other slot is durable: the one that counts got no further.
            write_slot(&*self.file, META_SLOT_OFFSETS[*slot], &bytes)
                .map_err(Error::io("write", &path))?;
        }
        // Before the other slot is touched: it may be the only one that the medium has.
        self.file
            .barrier(Barrier::Full)
            .map_err(Error::io("sync", &path))?;
        if !both || loaded.cached {
            write_slot(&*self.file, META_SLOT_OFFSETS[1 - slot], &bytes)
                .map_err(Error::io("write", &path))?;
            self.file
                .barrier(Barrier::Data)
                .map_err(Error::io("sync", &path))?;
        }
        *self.meta() = Some(meta.clone());
        Ok(())
    }

    /// Replaces the metadata by at most [`MAX_META_LEN`] bytes, durably. A failure poisons, but for
    /// no space to make a control file of earlier programs longer.
    ///
    /// A crash in the first write leaves the second slot, with the old value; one in the second
    /// write leaves the first, with the new. A rotten slot later leaves the same bytes in the other.
    pub(crate) fn set_meta(&self, poison: &Poison, bytes: &[u8]) -> Result<()> {
        debug_assert!(bytes.len() <= MAX_META_LEN);
        // The turn of the control slots too: a barrier that failed for them would take these bytes
        // with it, and the next one would succeed without having written them.
        let _turn = self.turn.lock();
        poison.check()?;
        self.whole(poison, || self.set_meta_in_turn(poison, bytes))
    }

    fn set_meta_in_turn(&self, poison: &Poison, bytes: &[u8]) -> Result<()> {
        let path = self.dir.path().join(names::CONTROL);
        let before = self.meta().as_ref().map_or(0, |m| m.sequence);
        let meta = Meta {
            log_id: self.state().1.log_id,
            sequence: before.saturating_add(1),
            bytes: bytes.to_vec(),
        };
        self.grow(poison)?;
        let encoded = meta.encode();
        for offset in META_SLOT_OFFSETS {
            if planted!("metadata-in-one-slot") && offset != META_SLOT_OFFSETS[0] {
                continue;
            }
            write_slot(&*self.file, offset, &encoded)
                .map_err(Error::io("write", &path))
                .and_then(|()| {
                    let synced = barrier(&*self.file, Barrier::Data, Why::MetadataSlot);
                    synced.map_err(Error::io("sync", &path))
                })
                .map_err(|e| poison.set(e))?;
        }
        // Last, and before the first acknowledgement: from now on two empty slots are a loss. Any
        // earlier, a crash would leave the word without the slots.
        if !self.state().1.has_meta {
            self.update_in_turn(poison, |c| c.has_meta = true)?;
        }
        *self.meta() = Some(meta);
        Ok(())
    }

    /// Makes room for the slots in a control file of earlier programs.
    fn grow(&self, poison: &Poison) -> Result<()> {
        let path = self.dir.path().join(names::CONTROL);
        let len = self.file.len().map_err(Error::io("look at", &path))?;
        if len >= CONTROL_FILE_LEN {
            return Ok(());
        }
        self.file
            .reserve(CONTROL_FILE_LEN)
            .map_err(Error::io("reserve space in", &path))?;
        let zeroes = AlignedBuf::zeroed((CONTROL_FILE_LEN - len) as usize, META_SLOT_LEN);
        write(&*self.file, len, zeroes).map_err(|e| poison.set(Error::io("fill", &path)(e)))?;
        // The size and the blocks are durable, with all the file's metadata, before a slot lies behind
        // the old end: from then on a change is an overwrite like any other.
        self.file
            .barrier(Barrier::Full)
            .map_err(|e| poison.set(Error::io("sync", &path)(e)))
    }
}

const _: () = assert!(META_SLOT_LEN == logforce_format::CONTROL_SLOT_LEN);
