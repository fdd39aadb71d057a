//! Control file: two slots with the state of the log, and two with its metadata.

pub(crate) mod meta;

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::durability::{Why, barrier};
use crate::storage::transfer::write;
use crate::storage::transfer::{Lost, ReadResult, read};
use crate::sync::poison::Poison;
use logforce_commit::sync::runtime_mutex::RuntimeMutex;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, ReadSource, Runtime};
use logforce_format::{
    CONTROL_FILE_LEN, CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, ControlReject,
    FORMAT_VERSION, MAX_WRITE_UNIT, META_SLOT_OFFSETS, Meta, newest, planted,
};
use std::path::Path;
use std::sync::{Arc, PoisonError};

const READ_LEN: usize = MAX_WRITE_UNIT as usize;
const _: () = assert!(CONTROL_SLOT_OFFSETS[1] == MAX_WRITE_UNIT as u64);

/// The control file. Each update overwrites and forces the older slot, then the other one. So a crash leaves
/// at least one valid slot. If a slot decays later, the other one has the same contents.
pub(crate) struct ControlFile {
    dir: Arc<dyn Directory>,
    /// Open file; `None` if the log is in an environment, where each change opens the file anew.
    kept_open: Option<Arc<dyn File>>,
    /// Lock that is held across the write, so that sequence numbers reach the file in order.
    update_lock: RuntimeMutex,
    state: Mutex<(usize, Control)>,
    /// Durable metadata.
    meta: Mutex<Option<Meta>>,
}

/// Contents of the slots.
pub(crate) struct Loaded {
    pub(crate) slot: usize,
    pub(crate) control: Control,
    /// True if both slots are valid. Only then `clean` counts: if the newest slot has decayed, the older one
    /// may contain a `clean` from before the last opening.
    pub(crate) both: bool,
    /// True if the bytes come from the system's cache: the medium may never have got them.
    pub(crate) cached: bool,
}

impl ControlFile {
    /// Reads both slots, past the cache if possible: after a failed write the cache may hold a slot
    /// that the medium never got.
    pub(crate) fn load(dir: &Arc<dyn Directory>) -> Result<Loaded> {
        Self::load_from(dir, names::CONTROL)
    }

    /// Reads both slots of the file `name`, as [`ControlFile::load`] does.
    pub(crate) fn load_from(dir: &Arc<dyn Directory>, name: &str) -> Result<Loaded> {
        let path = dir.path().join(name);
        let file = dir
            .open(name, OpenFile::READ)
            .map_err(Error::io("open", &path))?;
        let mut cached = false;
        // A slot that cannot be read from the medium is damaged, and the other one may be valid. Other errors
        // prove nothing about the slot.
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
                    "'{name}' is not a control file; if this was a log, inspect it with `logforce dump --salvage`, and save its records with `logforce salvage`"
                ),
            }),
            Err(rejects) => Err(Error::Damaged(Box::new(Damage {
                lsn: logforce_format::Lsn::ORIGIN,
                case: logforce_format::RecoveryCase::Damaged,
                path: dir.path().to_owned(),
                file: Some(name.to_owned()),
                offset: 0,
                found: format!(
                    "both slots of the control file are unusable ({})",
                    if unread.is_empty() {
                        let [at_a, at_b] = CONTROL_SLOT_OFFSETS;
                        let [a, b] = rejects;
                        format!("at offset {at_a}: {a}; at offset {at_b}: {b}")
                    } else {
                        unread.join("; ")
                    }
                ),
                durable_to: logforce_format::Lsn::ORIGIN,
                in_reading: false,
                repairable: false,
                needed_from: None,
            }))),
        }
    }

    /// Creates the file. It gets its name after it is complete and forced. An earlier crash leaves a
    /// directory without a log.
    pub(crate) fn create(
        dir: &Arc<dyn Directory>,
        control: &Control,
        meta: Option<&[u8]>,
    ) -> Result<()> {
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
        write_whole(&*file, &path, control, meta)?;
        dir.rename(names::CONTROL_NEW, names::CONTROL)
            .map_err(Error::io("rename", &path))?;
        dir.sync().map_err(Error::io("sync directory", dir.path()))
    }

    /// Opens the file for updates.
    pub(crate) fn open(
        dir: Arc<dyn Directory>,
        loaded: Loaded,
        runtime: Arc<dyn Runtime>,
        keeps_open: bool,
    ) -> Result<Self> {
        let path = dir.path().join(names::CONTROL);
        let file = open_for_writing(&dir)?;
        sync_loaded(&*file, &path, &loaded)?;
        Ok(ControlFile {
            dir,
            kept_open: keeps_open.then_some(file),
            update_lock: RuntimeMutex::new(runtime),
            state: Mutex::new((loaded.slot, loaded.control)),
            meta: Mutex::default(),
        })
    }

    /// Returns the open file. A change writes and forces through the same one.
    fn file(&self) -> Result<Arc<dyn File>> {
        match &self.kept_open {
            Some(file) => Ok(file.clone()),
            None => open_for_writing(&self.dir),
        }
    }

    /// Returns the current contents.
    pub(crate) fn current(&self) -> Control {
        self.state().1.clone()
    }

    fn state(&self) -> MutexGuard<'_, (usize, Control)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the contents and forces them into both slots, the older one first. A failure poisons the log,
    /// because it is then unknown which slot counts.
    pub(crate) fn update(&self, poison: &Poison, change: impl FnOnce(&mut Control)) -> Result<()> {
        let _lock = self.update_lock.lock();
        poison.check()?;
        self.poison_on_panic(poison, || {
            self.update_locked(&*self.file()?, poison, change)
        })
    }

    /// Runs `body`, which writes slots. A panic in it poisons the log before the lock is released. Otherwise,
    /// if one slot is half written, the next update would overwrite the other one, the only valid one.
    fn poison_on_panic<T>(&self, poison: &Poison, body: impl FnOnce() -> T) -> T {
        struct UnwindGuard<'a>(&'a Poison, &'a ControlFile);
        impl Drop for UnwindGuard<'_> {
            fn drop(&mut self) {
                let path = self.1.dir.path().join(names::CONTROL);
                let source = std::io::Error::other("the thread that did it panicked");
                self.0.set(Error::io("write", path)(source));
            }
        }
        let guard = UnwindGuard(poison, self);
        let done = body();
        std::mem::forget(guard);
        done
    }

    /// Changes the contents as [`ControlFile::update`] does. The caller holds the lock, and has opened the `file`.
    fn update_locked(
        &self,
        file: &dyn File,
        poison: &Poison,
        change: impl FnOnce(&mut Control),
    ) -> Result<()> {
        let (slot, mut control) = self.state().clone();
        change(&mut control);
        // This cannot overflow, because an opening checks that the number is far below the maximum.
        control.sequence += 1;
        let path = self.dir.path().join(names::CONTROL);
        let encoded = control.encode();
        let both = planted!("control-in-one-slot", [slot, slot], else [1 - slot, slot]);
        let both = both.map(|slot| CONTROL_SLOT_OFFSETS[slot]);
        write_slots(file, &path, &both, &encoded, Why::ControlSlot).map_err(|e| poison.set(e))?;
        *self.state() = (slot, control);
        Ok(())
    }
}

/// Writes `bytes` to the slots at `offsets`, and forces each before it writes the next one. A crash leaves one
/// of two slots.
pub(crate) fn write_slots(
    file: &dyn File,
    path: &Path,
    offsets: &[u64],
    bytes: &[u8; CONTROL_SLOT_LEN],
    why: Why,
) -> Result<()> {
    for &offset in offsets {
        write_slot(file, offset, bytes).map_err(Error::io("write", path))?;
        barrier(file, Barrier::Data, why).map_err(Error::io("sync", path))?;
    }
    Ok(())
}

/// Writes a whole new control file, and forces it. Returns its metadata.
pub(crate) fn write_whole(
    file: &dyn File,
    path: &Path,
    control: &Control,
    meta: Option<&[u8]>,
) -> Result<Option<Meta>> {
    file.reserve(CONTROL_FILE_LEN)
        .map_err(Error::io("reserve space in", path))?;
    // Writes the whole file instead of only the slots. A later first write to a reserved block would change
    // the file's extents. After a power cut, a filesystem without a journal may have an inode that points to
    // an extent tree that was never written, and its repair drops the whole file.
    let mut buf = AlignedBuf::zeroed(CONTROL_FILE_LEN as usize, CONTROL_SLOT_LEN);
    let mut put = |offset: u64, bytes: &[u8]| {
        let at = offset as usize;
        buf[at..at + bytes.len()].copy_from_slice(bytes);
    };
    for offset in CONTROL_SLOT_OFFSETS {
        put(offset, &control.encode());
    }
    let meta = meta.map(|bytes| Meta {
        log_id: control.log_id,
        sequence: 1,
        bytes: bytes.to_vec(),
    });
    if let Some(meta) = &meta {
        for offset in META_SLOT_OFFSETS {
            put(offset, &meta.encode());
        }
    }
    write(file, 0, buf).map_err(Error::io("write", path))?;
    barrier(file, Barrier::Full, Why::NewControlFile).map_err(Error::io("sync", path))?;
    Ok(meta)
}

fn open_for_writing(dir: &Arc<dyn Directory>) -> Result<Arc<dyn File>> {
    let path = dir.path().join(names::CONTROL);
    dir.open(names::CONTROL, OpenFile::WRITE)
        .map_err(Error::io("open for writing", path))
}

/// Maximum number of openings, changes or bytes of a log, which none can reach. An opening that finds a
/// higher number must not increment it. At the maximum, two openings or two slots would have the same number,
/// and the log would accept records that no later opening finds.
const MAX_COUNT: u64 = u64::MAX / 2;

/// Fails if a counter is impossibly high.
pub(crate) fn check_counter(counter: u64, of: &str, dir: &Path) -> Result<()> {
    if counter <= MAX_COUNT {
        return Ok(());
    }
    Err(Error::Damaged(Box::new(Damage {
        lsn: logforce_format::Lsn::ORIGIN,
        case: logforce_format::RecoveryCase::Damaged,
        path: dir.to_owned(),
        file: Some(names::CONTROL.to_owned()),
        offset: 0,
        found: format!("it counts {counter} {of}, maximum {MAX_COUNT}"),
        durable_to: logforce_format::Lsn::ORIGIN,
        in_reading: false,
        repairable: false,
        needed_from: None,
    })))
}

/// Reads the slot at `offset`. Returns the buffer and the number of bytes read. Sets `cached` if the
/// filesystem cannot read past the cache.
fn read_slot(
    file: &dyn File,
    path: &Path,
    offset: u64,
    cached: &mut bool,
) -> ReadResult<(AlignedBuf, usize)> {
    let read = |buf: &mut [u8], source| match read(file, path, offset, buf, source) {
        Err(e) if e.is_unsupported() || e.is_invalid_input() => Err(e),
        Err(e) if planted!("control-slot-error-is-damage") => Ok(Err(Lost::bytes(e.to_string()))),
        other => other,
    };
    // The buffer is as long as the largest sector of a device, which is the distance to the next slot.
    let mut buf = AlignedBuf::zeroed(READ_LEN, READ_LEN);
    let mut source = ReadSource::Medium;
    let whole = match read(&mut buf, source) {
        Err(e) if e.is_unsupported() => {
            *cached = true;
            source = ReadSource::Cache;
            read(&mut buf, source)
        }
        other => other,
    }?;
    let lost = match whole {
        Ok(n) => return Ok(Ok((buf, n))),
        Err(lost) => lost,
    };
    // A bad sector behind the slot must not lose the slot. The other slot may be older, and after a crash,
    // records below the front would come back.
    let mut len = CONTROL_SLOT_LEN;
    while len < READ_LEN {
        match read(&mut buf[..len], source) {
            Ok(Ok(n)) => return Ok(Ok((buf, n))),
            Ok(Err(_)) => {}
            // The length is less than a sector of the device.
            Err(e) if e.is_invalid_input() => {}
            Err(e) => return Err(e),
        }
        len *= 2;
    }
    Ok(Err(lost))
}

/// Makes the loaded control file durable, because recovery depends on it. A process may have written it and
/// crashed before its barrier.
pub(crate) fn sync_loaded(file: &dyn File, path: &Path, loaded: &Loaded) -> Result<()> {
    if planted!("control-not-settled") {
        return Ok(());
    }
    if loaded.cached {
        // Writes the slot again. After a failed barrier it is only in the cache, and the next barrier would
        // not write it. A crash would then bring back a slot that lists segments that are already removed.
        // The bytes are the same, so a torn write is harmless.
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
