//! A directory as a store: another machine's disk, or a second one of this machine.
//!
//! object_store's own directories sync nothing, so a synchronous archive there would lose commits in a power
//! cut. Here each answer comes after the object and each directory above it are synced.

use super::answer::Answer;
use super::disk;
use super::error::StoreError;
use bytes::Bytes;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Folder of objects that are being written.
const UNFINISHED: &str = "unfinished";
/// Age at which an unfinished object is taken for the remainder of a crash.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Directory of an archive.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    /// Distinguishes the unfinished objects of this instance.
    instance: u64,
    next: AtomicU64,
    /// Folders whose names are durable in the folders above them.
    durable: Mutex<HashSet<PathBuf>>,
}

impl Directory {
    /// Opens a directory, which must exist: creating it would fill the disk below a missing mount.
    pub(super) fn open(root: &Path, instance: u64) -> Result<Directory, StoreError> {
        let failed = |error: io::Error| error_of("open", root.display().to_string(), &error);
        let root = root.canonicalize().map_err(failed)?;
        if !root.metadata().map_err(failed)?.is_dir() {
            return Err(failed(ErrorKind::NotADirectory.into()));
        }
        Ok(Directory {
            root,
            instance,
            next: AtomicU64::new(0),
            durable: Mutex::default(),
        })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Creates an object, durably. An existing one is made durable as well, because its creator may have
    /// crashed before that: a later power cut would take back what this answer says.
    pub(super) fn create(&self, name: &str, bytes: &[u8]) -> Answer<()> {
        let path = self.root.join(name);
        let created = self.with_unfinished(bytes, |unfinished| {
            self.make_folders(&path)?;
            match disk::link(unfinished, &path) {
                Ok(()) => {
                    disk::sync_folder(parent(&path))?;
                    Ok(Answer::Done(()))
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    disk::sync_file(&path, &File::open(&path)?)?;
                    disk::sync_folder(parent(&path))?;
                    Ok(Answer::Exists)
                }
                Err(error) => Err(error),
            }
        });
        self.answer("create", name, created)
    }

    /// Replaces an object, durably.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> Answer<()> {
        let path = self.root.join(name);
        let replaced = self.with_unfinished(bytes, |unfinished| {
            self.make_folders(&path)?;
            disk::rename(unfinished, &path)?;
            disk::sync_folder(parent(&path))?;
            Ok(Answer::Done(()))
        });
        self.answer("replace", name, replaced)
    }

    /// Gives an object a second name, durably. Without the sync, a power cut could take that name after the first
    /// one was deleted.
    pub(super) fn copy(&self, from: &str, to: &str) -> Answer<()> {
        let path = self.root.join(to);
        let copy = || {
            self.make_folders(&path)?;
            match disk::link(&self.root.join(from), &path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => disk::sync_folder(parent(&path))?,
            }
            Ok(Answer::Done(()))
        };
        self.answer("copy", from, copy())
    }

    /// Reads at most the first `limit` bytes. With `durable`, a power cut does not take the object back.
    pub(super) fn get(&self, name: &str, limit: u64, durable: bool) -> Answer<Bytes> {
        let path = self.root.join(name);
        let get = || {
            let file = File::open(&path)?;
            if durable {
                sync_found(parent(&path))?;
            }
            let len = file.metadata()?.len().min(limit);
            let mut bytes = Vec::with_capacity(len as usize);
            file.take(len).read_to_end(&mut bytes)?;
            Ok(Answer::Done(bytes.into()))
        };
        self.answer("read", name, get())
    }

    /// Deletes an object, durably. An object that is not there counts as deleted.
    pub(super) fn delete(&self, name: &str) -> Answer<()> {
        let path = self.root.join(name);
        let delete = || {
            disk::remove(&path)?;
            disk::sync_folder(parent(&path))?;
            Ok(Answer::Done(()))
        };
        match self.answer("delete", name, delete()) {
            Answer::Missing => Answer::Done(()),
            answer => answer,
        }
    }

    /// Returns the names in a folder and below it, in order, that are greater than `after`.
    ///
    /// Folders are synced before their names are believed: a power cut could take back an object of which
    /// its creator has had no answer yet.
    pub(super) fn list(&self, folder: &str, after: &str) -> Answer<Vec<String>> {
        let list = || {
            let mut names = Vec::new();
            self.collect(folder, after, &mut names)?;
            names.sort_unstable();
            Ok(Answer::Done(names))
        };
        match self.answer("list", folder, list()) {
            // No object was created below it yet.
            Answer::Missing => Answer::Done(Vec::new()),
            answer => answer,
        }
    }

    fn collect(&self, folder: &str, after: &str, names: &mut Vec<String>) -> io::Result<()> {
        let path = self.root.join(folder);
        let entries: Vec<_> = fs::read_dir(&path)?.collect::<io::Result<_>>()?;
        sync_found(&path)?;
        for entry in entries {
            let Ok(last) = entry.file_name().into_string() else {
                continue;
            };
            if folder.is_empty() && last == UNFINISHED {
                continue;
            }
            let name = match folder {
                "" => last,
                folder => format!("{folder}/{last}"),
            };
            if entry.file_type()?.is_dir() {
                // All names below it begin with it.
                if name.as_str() >= after || after.starts_with(&name) {
                    self.collect(&name, after, names)?;
                }
            } else if name.as_str() > after {
                names.push(name);
            }
        }
        Ok(())
    }

    /// Writes a file without a name of the archive, syncs it, and removes that name after `finish`. Without
    /// the sync, a power cut after the answer could leave an object of zeroes.
    fn with_unfinished(
        &self,
        bytes: &[u8],
        finish: impl FnOnce(&Path) -> io::Result<Answer<()>>,
    ) -> io::Result<Answer<()>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.root.join(UNFINISHED);
        disk::make_folder(&folder)?;
        if number == 0 {
            remove_stale(&folder);
        }
        let path = folder.join(format!("{:016x}-{number}", self.instance));
        let finished = disk::write_new(&path, bytes)
            .and_then(|file| disk::sync_file(&path, &file))
            .and_then(|()| finish(&path));
        match disk::remove(&path) {
            // A rename has taken the name.
            Err(error) if error.kind() != ErrorKind::NotFound => finished.and(Err(error)),
            _ => finished,
        }
    }

    /// Makes the folders above an object, and their names durable. Otherwise a power cut takes the folder
    /// with all that is in it.
    fn make_folders(&self, path: &Path) -> io::Result<()> {
        let mut above: Vec<&Path> = parent(path).ancestors().collect();
        above.retain(|folder| *folder != self.root && folder.starts_with(&self.root));
        for folder in above.into_iter().rev() {
            let lock = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
            if !lock().contains(folder) {
                disk::make_folder(folder)?;
                disk::sync_folder(parent(folder))?;
                lock().insert(folder.to_owned());
            }
        }
        Ok(())
    }

    fn answer<T>(
        &self,
        doing: &'static str,
        name: &str,
        result: io::Result<Answer<T>>,
    ) -> Answer<T> {
        let error = match result {
            Ok(answer) => return answer,
            Err(error) => error,
        };
        let subject = self.root.join(name).display().to_string();
        match error.kind() {
            // The object, unless the whole directory has gone.
            ErrorKind::NotFound if self.root.is_dir() => match doing {
                "create" | "replace" => Answer::Unknown(error_of(doing, subject, &error)),
                _ => Answer::Missing,
            },
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidInput
            | ErrorKind::Unsupported => Answer::Refused(error_of(doing, subject, &error)),
            _ => Answer::Unknown(error_of(doing, subject, &error)),
        }
    }
}

/// Makes names durable that were found in a folder. A filesystem that cannot do so is readable all the
/// same; it refuses creates.
fn sync_found(folder: &Path) -> io::Result<()> {
    match disk::sync_folder(folder) {
        Err(error) if is_not_able(error.kind()) => Ok(()),
        result => result,
    }
}

fn is_not_able(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::ReadOnlyFilesystem
    )
}

fn error_of(doing: &'static str, subject: String, error: &io::Error) -> StoreError {
    let remedy = match error.kind() {
        ErrorKind::NotFound => Some("create the directory of the archive, or mount its filesystem"),
        ErrorKind::NotADirectory => Some("name a directory for the archive"),
        ErrorKind::PermissionDenied => Some(
            "the directory and its files must be readable and writable for the user of this process, on a \
             filesystem with hard links",
        ),
        ErrorKind::ReadOnlyFilesystem => Some("remount the filesystem for writing"),
        ErrorKind::Unsupported | ErrorKind::InvalidInput => {
            Some("use a filesystem with hard links, whose folders can be synced")
        }
        ErrorKind::StorageFull => Some("free some space there; the archive goes on by itself"),
        ErrorKind::QuotaExceeded => Some("raise the quota, or free some space there"),
        _ => None,
    };
    StoreError {
        doing,
        subject,
        cause: error.to_string(),
        remedy,
    }
}

/// Removes the remainders of crashes. A file of a live writer is younger.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.map(|time| SystemTime::now().duration_since(time));
        if matches!(age, Ok(Ok(age)) if age > STALE) {
            // The next opening tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(all(test, unix))]
#[path = "directory_tests.rs"]
mod tests;
