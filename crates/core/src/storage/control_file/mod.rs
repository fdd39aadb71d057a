pub(crate) mod meta;

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::durability::{Why, barrier};
use crate::storage::reads::{Had, Lost, read};
use crate::sync::poison::Poison;
use crate::sync::runtime_mutex::RuntimeMutex;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, ReadSource, Runtime, Write};
use logforce_format::{
    CONTROL_FILE_LEN, CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, ControlReject,
    FORMAT_VERSION, MAX_WRITE_UNIT, Meta, newest, planted,
};
use std::path::Path;
use std::sync::{Arc, PoisonError};

const READ_LEN: usize = MAX_WRITE_UNIT as usize;
const _: () = assert!(CONTROL_SLOT_OFFSETS[1] == MAX_WRITE_UNIT as u64);

/// The two slots, and the discipline of writing them: the older one is overwritten and forced, then
/// the other likewise. So a slot that rots later leaves the same words in the other.
pub(crate) struct ControlFile {
    dir: Arc<dyn Directory>,
    file: Arc<dyn File>,
    /// Held across the write, so that sequence numbers reach the file in order.
    turn: RuntimeMutex,
    state: Mutex<(usize, Control)>,
    /// The metadata that is durable.
    meta: Mutex<Option<Meta>>,
}

/// What the slots hold.
pub(crate) struct Loaded {
    pub(crate) slot: usize,
    pub(crate) control: Control,
    /// Both slots were whole. Only then may the newer one's word on a clean close be taken: a
    /// rotten newest slot would leave an older clean one that knows nothing of what came since.
    pub(crate) both: bool,
    /// The system's cache answered: the medium may never have got it.
    pub(crate) cached: bool,
}

impl ControlFile {
    /// Reads both slots past the cache where that is possible: after a failed write the cache may
    /// hold a slot that the medium never got.
    pub(crate) fn load(dir: &Arc<dyn Directory>) -> Result<Loaded> {
        let path = dir.path().join(names::CONTROL);
        let file = dir
            .open(names::CONTROL, OpenFile::READ)
            .map_err(Error::io("open", &path))?;
        let mut cached = false;
        // One slot that the medium does not give back is a damaged slot, and the other may do.
        // Any other error says nothing about it.
        let mut unread = Vec::new();
        let mut slot = |offset| {
            Ok(match read_slot(&*file, &path, offset, &mut cached)? {
                Ok((buf, n)) if n >= CONTROL_SLOT_LEN => Control::decode(&buf),
                Ok(_) => Err(ControlReject::Magic),
                Err(lost) => {
                    unread.push(format!("at offset {offset}: {}", lost.found));
                    Err(ControlReject::Checksum)
                }
            })
        };
        let a = slot(CONTROL_SLOT_OFFSETS[0])?;
        let b = slot(CONTROL_SLOT_OFFSETS[1])?;
        if let Some(version) = [&a, &b].into_iter().find_map(|s| match s {
            Err(ControlReject::Version(v)) if *v > FORMAT_VERSION => Some(*v),
            _ => None,
        }) {
            return Err(Error::NewerFormat { path, version });
        }
        let both = a.is_ok() && b.is_ok();
        match newest([a, b]) {
            Ok((slot, control)) => Ok(Loaded {
                slot,
                control,
                both,
                cached,
            }),
            Err([ControlReject::Magic, ControlReject::Magic]) => Err(Error::NotALog {
                path: dir.path().to_owned(),
                why: format!(
                    "'{}' is no control file; if this was a log, look with `logforce dump --salvage`, and save what there is with `logforce salvage`",
                    names::CONTROL
                ),
            }),
            Err(rejects) => Err(Error::Damaged(Box::new(Damage {
                lsn: logforce_format::Lsn::ORIGIN,
                case: logforce_format::RecoveryCase::Damaged,
                path: dir.path().to_owned(),
                file: Some(names::CONTROL.to_owned()),
                offset: 0,
                found: format!(
                    "both slots of the control file are unusable ({})",
                    if unread.is_empty() {
                        format!("{}; {}", rejects[0], rejects[1])
                    } else {
                        unread.join("; ")
                    }
                ),
                durable_to: logforce_format::Lsn::ORIGIN,
                in_reading: false,
                truncatable: false,
            }))),
        }
    }

    /// Makes the file. It appears under its name whole and forced, or not at all: a crash in the
    /// middle leaves a directory that holds no log yet.
    pub(crate) fn create(dir: &Arc<dyn Directory>, control: &Control) -> Result<()> {
        let path = dir.path().join(names::CONTROL_NEW);
        match dir.remove(names::CONTROL_NEW) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path)(e));
            }
            _ => {}
        }
        let file = dir
            .open(names::CONTROL_NEW, OpenFile::CREATE)
            .map_err(Error::io("create", &path))?;
        file.reserve(CONTROL_FILE_LEN)
            .map_err(Error::io("reserve space in", &path))?;
        // All of it is written, not the slots alone: a later first write to a reserved block would
        // change the file's extents, and a filesystem without a journal may be left by a cut with an
        // inode that points to a tree of extents which was not written yet. Its repair drops the
        // whole file then, and with it what had been forced.
        let mut buf = AlignedBuf::zeroed(CONTROL_FILE_LEN as usize, CONTROL_SLOT_LEN);
        for offset in CONTROL_SLOT_OFFSETS {
            let at = offset as usize;
            buf[at..at + CONTROL_SLOT_LEN].copy_from_slice(&control.encode());
        }
        write(&*file, 0, buf).map_err(Error::io("write", &path))?;
        barrier(&*file, Barrier::Full, Why::NewControlFile).map_err(Error::io("sync", &path))?;
        dir.rename(names::CONTROL_NEW, names::CONTROL)
            .map_err(Error::io("rename", &path))?;
        dir.sync().map_err(Error::io("sync directory", dir.path()))
    }

    /// Opens the file for updates.
    pub(crate) fn open(
        dir: Arc<dyn Directory>,
        loaded: Loaded,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Self> {
        let path = dir.path().join(names::CONTROL);
        let file = dir
            .open(names::CONTROL, OpenFile::WRITE)
            .map_err(Error::io("open for writing", &path))?;
        settle(&*file, &path, &loaded)?;
        Ok(ControlFile {
            dir,
            file,
            turn: RuntimeMutex::new(runtime),
            state: Mutex::new((loaded.slot, loaded.control)),
            meta: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, (usize, Control)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the contents and forces them into the other slot. A failure poisons: which of the
    /// two slots counts is not known any more.
    pub(crate) fn update(&self, poison: &Poison, change: impl FnOnce(&mut Control)) -> Result<()> {
        let _turn = self.turn.lock();
        poison.check()?;
        self.whole(poison, || self.update_in_turn(poison, change))
    }

    /// Runs what writes slots; if it unwinds, the log is poisoned before anybody else has the turn:
    /// the slot may be half written, and the next change would begin with the other one.
    fn whole<T>(&self, poison: &Poison, body: impl FnOnce() -> T) -> T {
        struct UnwindGuard<'a>(&'a Poison, &'a ControlFile);
        impl Drop for UnwindGuard<'_> {
            fn drop(&mut self) {
                let path = self.1.dir.path().join(names::CONTROL);
                let source = std::io::Error::other("the thread that was at it panicked");
                self.0.set(Error::io("write", path)(source));
            }
        }
        let half = UnwindGuard(poison, self);
        let done = body();
        std::mem::forget(half);
        done
    }

    /// As [`ControlFile::update`], by whoever has the turn.
    fn update_in_turn(&self, poison: &Poison, change: impl FnOnce(&mut Control)) -> Result<()> {
        let (slot, mut control) = self.state().clone();
        change(&mut control);
        // It was checked at opening, and there is no end to reach from there.
        control.sequence += 1;
        let path = self.dir.path().join(names::CONTROL);
        let encoded = control.encode();
        let both = if planted!("control-in-one-slot") {
            [slot, slot]
        } else {
            [1 - slot, slot]
        };
        for slot in both {
            write_slot(&*self.file, CONTROL_SLOT_OFFSETS[slot], &encoded)
                .map_err(Error::io("write", &path))
                .and_then(|()| {
                    let synced = barrier(&*self.file, Barrier::Data, Why::ControlSlot);
                    synced.map_err(Error::io("sync", &path))
                })
                .map_err(|e| poison.set(e))?;
        }
        *self.state() = (slot, control);
        Ok(())
    }
}

/// No log counts its openings, its changes or its bytes so far. Whoever finds a higher number must
/// not go on counting: with a number that has no successor, two openings or two slots could not be
/// told apart, and the log would take records that no later opening finds.
const COUNTED_TO: u64 = u64::MAX / 2;

/// Refuses a number that says that a log has got further than one can.
pub(crate) fn check_counter(counter: u64, of: &str, dir: &Path) -> Result<()> {
    if counter <= COUNTED_TO {
        return Ok(());
    }
    Err(Error::Damaged(Box::new(Damage {
        lsn: logforce_format::Lsn::ORIGIN,
        case: logforce_format::RecoveryCase::Damaged,
        path: dir.to_owned(),
        file: Some(names::CONTROL.to_owned()),
        offset: 0,
        found: format!("it counts {counter} {of}: no log has so many"),
        durable_to: logforce_format::Lsn::ORIGIN,
        in_reading: false,
        truncatable: false,
    })))
}

/// Reads the slot at `offset`: its memory and how many bytes of it were there. `cached` becomes true
/// where the filesystem cannot read past the cache.
fn read_slot(
    file: &dyn File,
    path: &Path,
    offset: u64,
    cached: &mut bool,
) -> Had<(AlignedBuf, usize)> {
    // As much as the coarsest device wants to be read at once; the next slot is that far away.
    let mut buf = AlignedBuf::zeroed(READ_LEN, READ_LEN);
    let n = match read(file, path, offset, &mut buf, ReadSource::Medium) {
        Err(e) if e.is_unsupported() => {
            *cached = true;
            read(file, path, offset, &mut buf, ReadSource::Cache)
        }
        Err(e) if planted!("control-slot-error-is-damage") => Ok(Err(Lost::bytes(e.to_string()))),
        other => other,
    }?;
    Ok(n.map(|n| (buf, n)))
}

/// Makes sure that what was read of the control file is on the medium: it may have been written, and
/// not forced, by a process that crashed, and what follows builds on it.
fn settle(file: &dyn File, path: &Path, loaded: &Loaded) -> Result<()> {
    if planted!("control-not-settled") {
        return Ok(());
    }
    if loaded.cached {
        // After a barrier that failed the cache shows it as if it were there, and the next
        // barrier would not write it: a crash would bring back a slot that promises segments
        // which are removed by then. The bytes are the same, so tearing does no harm.
        let slot = loaded.control.encode();
        write_slot(file, CONTROL_SLOT_OFFSETS[loaded.slot], &slot)
            .map_err(Error::io("write", path))?;
    }
    barrier(file, Barrier::Full, Why::RecoveredControl).map_err(Error::io("sync", path))
}

fn write_slot(file: &dyn File, offset: u64, bytes: &[u8; CONTROL_SLOT_LEN]) -> std::io::Result<()> {
    let mut buf = AlignedBuf::zeroed(CONTROL_SLOT_LEN, CONTROL_SLOT_LEN);
    buf.copy_from_slice(bytes);
    write(file, offset, buf)
}

fn write(file: &dyn File, offset: u64, buf: AlignedBuf) -> std::io::Result<()> {
    let range = 0..buf.len();
    let ticket = file.submit(Write {
        offset,
        buf,
        range,
        through: false,
    });
    file.complete(ticket).result
}
