//! Copies of the files that a repair changes. They are durable before the repair changes the files.
//!
//! The copies are in a directory beside the log. `salvage` reads it like a damaged log that begins at the
//! start of the removed part, as its control file states. The control file is written last: a directory
//! without one is an incomplete copy that a crash has interrupted.

use crate::error::{Error, Result};
use crate::names;
use crate::read::inspect::Inspector;
use crate::read::inspect::info::Visit;
use crate::storage::control_file::ControlFile;
use crate::storage::directory::unusable_directory;
use crate::storage::durability::{Why, barrier};
use crate::storage::transfer::read;
use crate::storage::transfer::write_part;
use logforce_device::{AlignedBuf, Directory, OpenFile, ReadSource, System};
use logforce_device::{Barrier, File};
use logforce_format::{Control, LogId, Lsn};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes per read and per write.
const CHUNK: usize = 1 << 20;
/// Alignment of the buffers, bytes.
const ALIGNMENT: usize = 4096;
/// Number of bytes that become zeroes in the copy if one of them cannot be read.
const SECTOR: usize = 512;

/// Copies made by a repair.
pub(super) struct Copies {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Number of bytes that could not be read. The copies contain zeroes instead.
    pub(super) unread: u64,
}

/// Returns the path of the directory for copies of the log from `lsn` on: in `parent`, or beside the log.
pub(super) fn path_for(
    system: &dyn System,
    log: &Path,
    parent: Option<&Path>,
    id: LogId,
    lsn: Lsn,
) -> Result<PathBuf> {
    let (parent, mut name) = beside(system, log, parent, id);
    name.push(format!("{:016x}", lsn.0));
    let path = parent.join(name);
    if system.resolved(&path).starts_with(system.resolved(log)) {
        return Err(Error::BackupTarget {
            path,
            why: "it is inside the log's own directory".to_owned(),
        });
    }
    Ok(path)
}

/// Returns the directory in which the directories with copies are made, and the beginning of their names.
fn beside(
    system: &dyn System,
    log: &Path,
    parent: Option<&Path>,
    id: LogId,
) -> (PathBuf, OsString) {
    // Resolves the path, since `.` has no file name.
    let log = system.resolved(log);
    let mut name = log.file_name().unwrap_or("log".as_ref()).to_owned();
    let id: String = id.0[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    name.push(format!(".cut-{id}-"));
    let parent = parent.or(log.parent()).unwrap_or(Path::new(""));
    (parent.to_owned(), name)
}

/// Returns the directories with copies of earlier repairs of this log, including incomplete ones.
pub(super) fn earlier(
    system: &dyn System,
    log: &Path,
    parent: Option<&Path>,
    id: LogId,
) -> Vec<PathBuf> {
    let (parent, name) = beside(system, log, parent, id);
    // After an error the report lists none: a repair does not depend on them.
    let entries = system.directory(&parent).and_then(|dir| dir.entries());
    let mut all = entries.unwrap_or_default();
    let begins = name.to_string_lossy().into_owned();
    all.retain(|e| !e.is_file && e.name.starts_with(&begins));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.into_iter().map(|e| parent.join(e.name)).collect()
}

/// Copies these files to the directory `target`. If that contains other copies, uses `target.1`, and so on.
/// If an interrupted repair has left the same copies there, uses those. `control` and `meta` are the contents
/// of the copies' control file.
pub(super) fn copy(
    system: &dyn System,
    dir: &Arc<dyn Directory>,
    files: &[String],
    target: &Path,
    control: &Control,
    meta: Option<&[u8]>,
) -> Result<Copies> {
    let mut number = 0;
    loop {
        let mut path = target.as_os_str().to_owned();
        if number > 0 {
            path.push(format!(".{number}"));
        }
        let path = PathBuf::from(path);
        let to = system.make_directory(&path);
        let to = to.map_err(|e| unusable_directory(e, "make the directory for copies", &path))?;
        // Opens the file instead of listing the directory: an incomplete listing would hide the file, and a
        // complete copy would be overwritten.
        let is_complete = match to.open(names::CONTROL, OpenFile::READ) {
            Ok(_) => true,
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(Error::io("open", path.join(names::CONTROL))(e)),
        };
        let copying = Copying {
            from: dir,
            to: &to,
            compares: is_complete,
        };
        let copied = copying.run(files).and_then(|kept| {
            if kept.is_some() && !is_complete {
                copying.finish(control, meta)?;
            }
            Ok(kept)
        });
        match copied {
            Ok(Some(kept)) => return Ok(kept),
            Ok(None) => number += 1,
            Err(e) => {
                if !is_complete {
                    discard(system, &*to, files);
                }
                return Err(e);
            }
        }
    }
}

/// Removes an unfinished copy after an error: it may take up space that a repair with copies elsewhere needs.
/// The next repair replaces files that cannot be removed.
fn discard(system: &dyn System, to: &dyn Directory, files: &[String]) {
    let made = [names::CONTROL_COPY, names::CONTROL_NEW, names::CONTROL];
    for name in files.iter().map(String::as_str).chain(made) {
        let _ = to.remove(name);
    }
    let _ = system.remove_empty_directory(to.path());
}

struct Copying<'a> {
    from: &'a Arc<dyn Directory>,
    to: &'a Arc<dyn Directory>,
    /// True if the copy exists: only compares its bytes.
    compares: bool,
}

impl Copying<'_> {
    /// Copies or compares the files. Returns `None` if the existing copy has other bytes.
    fn run(&self, files: &[String]) -> Result<Option<Copies>> {
        let mut kept = Copies {
            path: self.to.path().to_owned(),
            bytes: 0,
            unread: 0,
        };
        // An interrupted repair has changed the control file after copying it.
        let counts = |name: &&String| !self.compares || files.len() == 1 || *name != names::CONTROL;
        for name in files.iter().filter(counts) {
            let copy = match name.as_str() {
                names::CONTROL => names::CONTROL_COPY,
                name => name,
            };
            if !self.file(name, copy, &mut kept)? {
                return Ok(None);
            }
        }
        Ok(Some(kept))
    }

    /// Makes the copies durable, and marks them as complete.
    fn finish(&self, control: &Control, meta: Option<&[u8]>) -> Result<()> {
        // This also syncs the names of all copies. If one is missing, the next repair makes the copies again.
        ControlFile::create(self.to, control, meta)
    }

    /// Copies or compares a file. Returns true if the copy has the same bytes.
    fn file(&self, name: &str, copy: &str, kept: &mut Copies) -> Result<bool> {
        let (from_path, path) = (self.from.path().join(name), self.to.path().join(copy));
        let from = self.from.open(name, OpenFile::READ);
        let from = from.map_err(Error::io("open", &from_path))?;
        let len = from
            .len()
            .map_err(Error::io("check the size of", &from_path))?;
        let how = match self.compares {
            true => OpenFile::READ,
            false => OpenFile::CREATE,
        };
        let to = match self.to.open(copy, how) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                // The file belongs to an unfinished copy.
                self.to.remove(copy).map_err(Error::io("remove", &path))?;
                self.to.open(copy, how)
            }
            to => to,
        };
        let to = to.map_err(Error::io("create", &path))?;
        if self.compares && to.len().map_err(Error::io("check the size of", &path))? != len {
            return Ok(false);
        }
        let mut at = 0;
        while at < len {
            let n = (len - at).min(CHUNK as u64) as usize;
            let mut buf = AlignedBuf::zeroed(n, ALIGNMENT);
            kept.unread += read_around(&*from, &from_path, at, &mut buf)?;
            if self.compares {
                let mut there = AlignedBuf::zeroed(n, ALIGNMENT);
                read_around(&*to, &path, at, &mut there)?;
                if there[..] != buf[..] {
                    return Ok(false);
                }
            } else {
                write_part(&*to, at, buf, 0..n).map_err(Error::io("write", &path))?;
            }
            at += n as u64;
        }
        if !self.compares {
            barrier(&*to, Barrier::Full, Why::Copy).map_err(Error::io("sync", &path))?;
        }
        kept.bytes += len;
        Ok(true)
    }
}

/// Reads all readable sectors, and fills the others with zeroes. Returns the number of unreadable bytes.
fn read_around(file: &dyn File, path: &Path, at: u64, buf: &mut [u8]) -> Result<u64> {
    if read(file, path, at, buf, ReadSource::Cache)?.is_ok() {
        return Ok(0);
    }
    let mut unread = 0;
    for (n, part) in buf.chunks_mut(SECTOR).enumerate() {
        let at = at + (n * SECTOR) as u64;
        if read(file, path, at, part, ReadSource::Cache)?.is_err() {
            part.fill(0);
            unread += part.len() as u64;
        }
    }
    Ok(unread)
}

/// Counts the whole records at and above `from` that can be read from a copy.
pub(super) fn records(system: &dyn System, copy: &Path, from: Lsn) -> Result<u64> {
    let mut records = 0;
    match Inspector::salvage(system, copy) {
        Err(Error::NoLog { .. }) => {}
        inspector => {
            inspector?.walk(&mut |visit| {
                if let Visit::Record { record, .. } = visit {
                    records += u64::from(record.start >= from);
                }
                true
            })?;
        }
    }
    Ok(records)
}
