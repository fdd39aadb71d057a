//! Writing a backup.
//!
//! The file `control.backup` is created first. It is renamed to the control file when all other files are
//! durable. So a directory that has this file and no control file is an unfinished backup.

use crate::backup::checkpoint::Checkpoint;
use crate::backup::source::Source;
use crate::error::{Bytes, Damage, Error, Result};
use crate::names;
use crate::options::Modes;
use crate::read::inspect::Inspector;
use crate::read::inspect::info::Visit;
use crate::storage::directory::unusable_directory;
use crate::storage::durability::{Why, barrier, sync_names};
use crate::storage::transfer::write;
use crate::storage::zero_fill::zeroes_help;
use logforce_device::{
    AlignedBuf, Barrier, Directory, File, FileState, ForceBy, Guarantee, OpenFile, Plan,
    ReadSource, System,
};
use logforce_format::{Control, Lsn, planted};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Contents of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// First position: the front of the log.
    pub front: Lsn,
    /// Exclusive end: the backup contains all records below, and none above.
    pub end: Lsn,
    /// Number of segments.
    pub segments: u64,
    /// Bytes that were copied.
    pub bytes: u64,
}

/// Callback like `BackupOptions::progress` that ends the copy by returning an error.
pub(super) type Progress<'a> = dyn FnMut(u64, u64) -> Result<()> + 'a;

/// Requirements on the directory of a backup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Minimum guarantee of a sync there.
    pub(crate) require: Guarantee,
    /// Modes of the directory and its files.
    pub(crate) modes: Modes,
}

/// Size of a read and of a write, bytes.
pub(super) const CHUNK: usize = 1 << 20;
/// Alignment of their memory, bytes: sufficient for direct I/O on any device.
pub(super) const ALIGNMENT: usize = 65536;

/// A directory that becomes a log. If that fails, the drop removes the files that were created.
pub(super) struct Target<'a> {
    pub(super) dir: Arc<dyn Directory>,
    /// Names of the files that this backup created, in order.
    made: Vec<String>,
    is_done: bool,
    /// Checkpoint of an import. With one, the files stay if the import is given up, for another one to go on
    /// with them.
    pub(super) checkpoint: Option<Checkpoint>,
    lock: Option<Box<dyn Send + Sync>>,
    /// This backup created the lock file.
    made_lock: bool,
    /// The last field, so that it is dropped after `dir` is closed.
    place: Place<'a>,
}

/// Directory of a backup. If the backup created the directory and failed, the drop removes it. It must be
/// dropped after all handles on the directory, because Windows does not remove an open directory.
struct Place<'a> {
    system: &'a dyn System,
    path: PathBuf,
    is_new: bool,
    stays: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_new && !self.stays {
            let _ = self.system.remove_empty_directory(&self.path);
        }
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        self.place.stays = self.is_done || self.checkpoint.is_some();
        if self.place.stays {
            return;
        }
        for name in self.made.iter().rev() {
            let _ = self.dir.remove(name);
            if name == names::CONTROL {
                // Before the segments are removed: otherwise a crash could bring back this name alone, and
                // leave a log without its segments.
                let _ = self.dir.sync();
            }
        }
        let lock = self.lock.take();
        if self.made_lock && lock.is_some() {
            // Removes the file while holding the lock: otherwise another backup could lock the file that
            // is being removed. Windows does not remove an open file; there the second attempt does.
            let removed = self.dir.remove(names::LOCK);
            drop(lock);
            if removed.is_err() {
                let _ = self.dir.remove(names::LOCK);
            }
        }
    }
}

pub(super) fn make(
    system: &dyn System,
    source: &Source,
    to: &Path,
    wanted: Wanted,
    progress: &mut Progress<'_>,
    still_there: impl FnOnce() -> Result<()>,
) -> Result<BackupReport> {
    let mut target = Target::open(system, to, wanted.modes, false)?;
    target.check_guarantee(wanted.require)?;
    target.check_space(source.segments.iter().map(|s| s.header.len).sum())?;
    target.begin()?;
    let copied = target
        .copy(source, progress)
        .and_then(|()| target.verify(source, progress));
    // Checked before an error of the copy is reported. If the log was truncated meanwhile (by another
    // process, or after the pin was broken), segments are missing or are being overwritten as later ones.
    if !planted!("backup-of-what-was-truncated") {
        still_there()?;
    }
    copied?;
    target.finish(source.control.clone(), source.meta.as_deref())?;
    Ok(BackupReport {
        front: source.control.front,
        end: source.control.anchor.lsn,
        segments: source.segments.len() as u64,
        bytes: source.bytes(),
    })
}

impl<'a> Target<'a> {
    /// Opens and locks a directory that is missing or empty, or that contains an unfinished backup. Removes
    /// the files of that backup, unless there is a checkpoint and the caller `resumes` from it.
    pub(super) fn open(
        system: &'a dyn System,
        to: &Path,
        modes: Modes,
        resumes: bool,
    ) -> Result<Target<'a>> {
        let is_new = match system.directory(to) {
            Ok(_) => false,
            Err(e) if e.kind() == io::ErrorKind::NotFound => true,
            Err(e) => return Err(unusable_directory(e, "open the directory", to)),
        };
        let dir = system
            .make_directory(to)
            .map_err(|e| unusable_directory(e, "make the backup's directory", to))?;
        let place = Place {
            system,
            path: dir.path().to_owned(),
            is_new,
            stays: false,
        };
        let mut target = Target {
            dir,
            made: Vec::new(),
            is_done: false,
            checkpoint: None,
            lock: None,
            made_lock: false,
            place,
        };
        let set = modes.set_in(&*target.dir, is_new);
        set.map_err(Error::io("change the mode of", to))?;
        let is_free = |name: &str| {
            use names::NameKind::{Lock, System};
            matches!(names::kind(name), System | Lock)
        };
        let entries = target.entries()?;
        let has = |name: &str| entries.iter().any(|e| e == name);
        let unfinished = has(names::BACKUP) && !has(names::CONTROL);
        if !unfinished && entries.iter().any(|name| !is_free(name)) {
            return Err(
                target.refused("it is not empty: choose a directory that is missing or empty")
            );
        }
        target.made_lock = !has(names::LOCK);
        let locked = target.dir.lock(names::LOCK);
        target.lock = Some(locked.map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => target.refused("another backup is being written there"),
            _ => Error::io("lock", target.path(names::LOCK))(e),
        })?);
        if unfinished && resumes {
            target.checkpoint = Checkpoint::load(&target.dir)?;
            if target.checkpoint.is_some() {
                return Ok(target);
            }
        }
        // Lists the directory again with the lock: another backup may have ended there in between.
        for name in target.entries()? {
            match names::kind(&name) {
                names::NameKind::System | names::NameKind::Lock => {}
                names::NameKind::Backup if unfinished => {}
                names::NameKind::Segment if unfinished => {
                    target.remove(&name)?;
                }
                _ => return Err(target.refused("it is not empty")),
            }
        }
        if unfinished {
            // Removes this file last, after a sync. Otherwise a crash could leave segments without the mark
            // of an unfinished backup.
            target.dir.sync().map_err(target.syncing())?;
            target.remove(names::BACKUP)?;
        }
        Ok(target)
    }

    /// Marks the directory as an unfinished backup.
    pub(super) fn begin(&mut self) -> Result<()> {
        drop(self.create(names::BACKUP)?);
        sync_names(&*self.dir, Why::BackupBegun).map_err(self.syncing())
    }

    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let removed = self.dir.remove(name);
        removed.map_err(Error::io("remove", self.path(name)))
    }

    pub(super) fn entries(&self) -> Result<Vec<String>> {
        let entries = self.dir.entries();
        let entries = entries.map_err(Error::io("list", self.dir.path()))?;
        Ok(entries.into_iter().map(|e| e.name).collect())
    }

    fn refused(&self, why: &str) -> Error {
        Error::BackupTarget {
            path: self.dir.path().to_owned(),
            why: why.to_owned(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn syncing(&self) -> impl FnOnce(io::Error) -> Error {
        Error::io("sync directory", self.dir.path())
    }

    /// Refuses a directory where a sync guarantees less than `require`.
    pub(super) fn check_guarantee(&self, require: Guarantee) -> Result<()> {
        let path = self.dir.path();
        let facts = self.dir.facts_for_writing();
        let facts = facts.map_err(Error::io("check the filesystem of", path))?;
        let plan = Plan {
            direct: false,
            force: ForceBy::Barrier(Barrier::Data),
        };
        let found = facts.assess_plan(plan, FileState::Zeroed);
        let guarantee = found.as_ref().map_or(Guarantee::Nothing, |a| a.guarantee);
        if guarantee < require {
            let why = found.map_or(String::new(), |a| a.evidence);
            return Err(self.refused(&format!(
                "a sync guarantees {guarantee} there, {require} is required: {why}. Name a directory on a filesystem that \
                 guarantees it, or accept less with --require {guarantee} (in a program: the option `require`)"
            )));
        }
        Ok(())
    }

    /// Fails if `need` bytes do not fit.
    fn check_space(&self, need: u64) -> Result<()> {
        let path = self.dir.path();
        let free = self.dir.free_space();
        let free = free.map_err(Error::io("ask for the free space of", path))?;
        if free < need {
            let why = format!("it needs {}, only {} are free", Bytes(need), Bytes(free));
            let full = io::Error::new(io::ErrorKind::StorageFull, why);
            return Err(Error::io("write a backup into", path)(full));
        }
        Ok(())
    }

    /// Copies the segments, and forces each copy.
    fn copy(&mut self, source: &Source, progress: &mut Progress<'_>) -> Result<()> {
        let facts = self.dir.facts_for_writing();
        let facts = facts.map_err(Error::io("check the filesystem of", self.dir.path()))?;
        let (mut done, all) = (0, 2 * source.bytes());
        for segment in &source.segments {
            let from = segment.file()?;
            let source_path = segment.path();
            let used = source.control.anchor.lsn.since(segment.header.start);
            let used = used.min(segment.header.len);
            let name = names::segment(segment.header.start);
            let path = self.path(&name);
            let file = self.create_segment(&name, segment.header.len)?;
            let mut at = 0;
            while at < used {
                let n = (used - at).min(CHUNK as u64);
                let mut buf = AlignedBuf::zeroed(n as usize, ALIGNMENT);
                read_whole(&*from, at, &mut buf).map_err(Error::io("read", &source_path))?;
                write(&*file, at, buf).map_err(Error::io("write", &path))?;
                at += n;
                done += n;
                progress(done, all)?;
            }
            let rest = at..segment.header.len;
            self.complete_segment(&*file, &path, rest, zeroes_help(facts.kind))?;
        }
        Ok(())
    }

    /// Creates the file of a segment of `len` bytes.
    pub(super) fn create_segment(&mut self, name: &str, len: u64) -> Result<Arc<dyn File>> {
        let file = self.create(name)?;
        file.reserve(len)
            .map_err(Error::io("reserve space in", self.path(name)))?;
        Ok(file)
    }

    /// Fills the `rest` of a segment with zeroes if `fills`, as in a segment that the log prepares, and forces
    /// the segment. Commits to it then change no metadata.
    pub(super) fn complete_segment(
        &self,
        file: &dyn File,
        path: &Path,
        rest: Range<u64>,
        fills: bool,
    ) -> Result<()> {
        let mut at = rest.start;
        while at < rest.end && fills {
            let n = (rest.end - at).min(CHUNK as u64);
            let zeroes = AlignedBuf::zeroed(n as usize, ALIGNMENT);
            write(file, at, zeroes).map_err(Error::io("fill", path))?;
            at += n;
        }
        barrier(file, Barrier::Full, Why::BackupSegment).map_err(Error::io("sync", path))
    }

    fn create(&mut self, name: &str) -> Result<Arc<dyn File>> {
        let file = self.dir.open(name, OpenFile::CREATE);
        let file = file.map_err(Error::io("create", self.path(name)))?;
        self.made.push(name.to_owned());
        Ok(file)
    }

    /// Reads the copy back and checks it. Corruption in the log is found now, not when the backup is needed.
    fn verify(&self, source: &Source, progress: &mut Progress<'_>) -> Result<()> {
        let copy = Inspector::of_copy(self.dir.clone(), source.control.clone())?;
        let (first, half) = (source.control.first_segment, source.bytes());
        let mut told = first;
        let mut told_so = Ok(());
        let mut found: Option<Damage> = None;
        copy.walk(&mut |visit| {
            match visit {
                Visit::Damage(damage) => {
                    found.get_or_insert_with(|| damage.clone());
                }
                Visit::Batch(batch) if batch.end.since(told) >= CHUNK as u64 => {
                    told = batch.end;
                    told_so = progress(half + told.since(first).min(half), 2 * half);
                }
                _ => {}
            }
            found.is_none() && told_so.is_ok()
        })?;
        told_so?;
        progress(2 * half, 2 * half)?;
        match found {
            None => Ok(()),
            // The copy has the same bytes as the log, so the error names the log.
            Some(damage) => Err(Error::Damaged(Box::new(Damage {
                path: source.dir.path().to_owned(),
                repairable: false,
                needed_from: None,
                ..damage
            }))),
        }
    }

    /// Writes a checkpoint.
    pub(super) fn save(&mut self, control: Control, meta: Option<&[u8]>) -> Result<()> {
        // The names of the segments must be durable before a control slot lists them.
        sync_names(&*self.dir, Why::BackupNames).map_err(self.syncing())?;
        let (file, path) = self.unfinished()?;
        match &mut self.checkpoint {
            Some(checkpoint) => checkpoint.replace(&*file, &path, control, meta, 1)?,
            None => self.checkpoint = Some(Checkpoint::create(&*file, &path, control, meta)?),
        }
        Ok(())
    }

    /// Opens the file that marks the directory as an unfinished backup.
    fn unfinished(&self) -> Result<(Arc<dyn File>, PathBuf)> {
        let path = self.path(names::BACKUP);
        let file = self.dir.open(names::BACKUP, OpenFile::WRITE);
        let file = file.map_err(Error::io("open for writing", &path))?;
        Ok((file, path))
    }

    /// Writes the control file, which makes the directory a log.
    pub(super) fn finish(&mut self, control: Control, meta: Option<&[u8]>) -> Result<()> {
        let (file, path) = self.unfinished()?;
        if planted!("backup-control-first") {
            self.name_control()?;
        }
        // The names of the segments must be durable before the control file that lists them.
        sync_names(&*self.dir, Why::BackupNames).map_err(self.syncing())?;
        match &mut self.checkpoint {
            Some(checkpoint) => checkpoint.replace(&*file, &path, control, meta, 2)?,
            None => drop(Checkpoint::create(&*file, &path, control, meta)?),
        }
        if !planted!("backup-control-first") {
            self.name_control()?;
        }
        sync_names(&*self.dir, Why::BackupDone).map_err(self.syncing())?;
        self.is_done = true;
        Ok(())
    }

    fn name_control(&mut self) -> Result<()> {
        let renamed = self.dir.rename(names::BACKUP, names::CONTROL);
        renamed.map_err(Error::io("rename", self.path(names::BACKUP)))?;
        // If a later step fails, this file is the first to be removed.
        self.made.push(names::CONTROL.to_owned());
        Ok(())
    }
}

fn read_whole(file: &dyn File, at: u64, buf: &mut AlignedBuf) -> io::Result<()> {
    let len = buf.len();
    match file.read_at(at, buf, ReadSource::Cache)? {
        got if got == len => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
