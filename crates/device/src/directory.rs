use crate::{Facts, File, Runtime};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Identity of a file or directory, whatever path leads to it (device and inode on Unix).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileIdentity {
    /// Number of the volume.
    pub volume: u64,
    /// Number of the file within the volume.
    pub file: u64,
}

/// Entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// File name without path. A name that is not UTF-8 is converted lossily; no file of a log has such a
    /// name.
    pub name: String,
    /// Size in bytes (0 if this is not a regular file).
    pub len: u64,
    /// True for a regular file.
    pub is_file: bool,
}

/// Access to an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing; the file must exist.
    Write,
    /// Reading and writing. The file must not exist. It is made with the mode of
    /// [`Directory::set_file_mode`], or readable by its owner only.
    CreateNew,
}

/// Options for opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    /// Access to the file.
    pub access: Access,
    /// Writes bypass the system's cache. Opening fails with `Unsupported` if the filesystem does not support
    /// that.
    pub direct: bool,
}

impl OpenFile {
    /// Opens for reading.
    pub const READ: OpenFile = OpenFile {
        access: Access::Read,
        direct: false,
    };
    /// Opens for reading and buffered writing.
    pub const WRITE: OpenFile = OpenFile {
        access: Access::Write,
        direct: false,
    };
    /// Creates a new file for reading and buffered writing.
    pub const CREATE: OpenFile = OpenFile {
        access: Access::CreateNew,
        direct: false,
    };
}

/// Target of the path by which a directory was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// The directory that was opened.
    Here,
    /// Nothing: the directory, or one above it, was removed or renamed.
    Gone,
    /// Another directory, or a file.
    Replaced,
}

/// Directory of one log. Names are plain file names; any other name fails with `InvalidInput`.
pub trait Directory: Send + Sync {
    /// Returns the path as the user gave it, for messages.
    fn path(&self) -> &Path;

    /// Returns the directory's identity.
    fn identity(&self) -> FileIdentity;

    /// Returns all entries, without `.` and `..`.
    fn entries(&self) -> io::Result<Vec<DirEntry>>;

    /// Opens or creates a file.
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>>;

    /// Renames a file within the directory and replaces an existing target. Durable after `sync`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable after `sync`.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals that were done before this call durable.
    fn sync(&self) -> io::Result<()>;

    /// Takes the directory's writer lock by the file `name`, which is made if it is missing. The lock is held
    /// until the returned value is dropped. Fails with `WouldBlock` if another process, or another opening in
    /// this process, holds it.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;

    /// Locks a file that every writer needs, beside the writer lock and for as long. Otherwise a process that
    /// deletes the lock file would let a second writer in beside the first. Returns `WouldBlock` if another
    /// opening has locked the file. Reading and writing stay possible.
    ///
    /// Does nothing where a lock file cannot be deleted while it is locked (Windows), and where a lock could
    /// keep others from reading (macOS).
    fn lock_file(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;

    /// Returns true if a process has locked the file `name`, without taking the lock. This covers the writer
    /// lock and the locks of [`lock_file`](Self::lock_file). Returns `Ok(false)` if the file does not exist.
    fn is_locked(&self, name: &str) -> io::Result<bool>;

    /// Returns the facts of the filesystem and the device below this directory, without a write. On a
    /// filesystem that is frozen, full, or owned by another user it neither waits nor fails.
    fn facts(&self) -> io::Result<Facts>;

    /// Returns the same facts for an opener that is about to write. It may make a nameless file, which
    /// reveals the abilities of files made from now on: existing files may have other flags.
    fn facts_for_writing(&self) -> io::Result<Facts> {
        self.facts()
    }

    /// Returns the space that is free for this user, in bytes.
    fn free_space(&self) -> io::Result<u64>;

    /// Returns the target that the path by which this directory was opened has now. A relative path counts
    /// from the working directory of the opening. A process that has changed its root since learns only of a
    /// directory that has no name any more. An error says nothing about the directory.
    ///
    /// Directories that nothing else can remove need not implement it.
    fn whereabouts(&self) -> io::Result<Whereabouts> {
        Ok(Whereabouts::Here)
    }

    /// Keeps no descriptor open from now on. Each call opens the directory by its path, and fails if the path
    /// leads to another directory. A hint, for a process with very many directories.
    fn keep_closed(&self) {}

    /// Sets the permission bits (`0o777`) of files that are made from now on, including the lock file,
    /// whatever the umask. Does nothing on a system without permission bits (Windows).
    fn set_file_mode(&self, mode: u32) {
        let _ = mode;
    }

    /// Changes the permission bits (`0o777`) of the directory itself. Other bits, such as set-group-id, stay.
    /// Does nothing on a system without permission bits (Windows).
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let _ = mode;
        Ok(())
    }

    /// Returns the system that the directory belongs to, for opening other directories of it.
    ///
    /// Directories that nothing is copied out of need not implement it.
    fn system(&self) -> io::Result<Arc<dyn System>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the identity of the file that has the name now; `NotFound` if no file has it.
    ///
    /// Directories in which nothing else changes names need not implement it.
    fn identity_of(&self, name: &str) -> io::Result<FileIdentity> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Entry point to a platform: directories and the runtime.
pub trait System: Send + Sync {
    /// Returns the threads, the clock and the waiting of the platform.
    fn runtime(&self) -> Arc<dyn Runtime>;

    /// Opens an existing directory.
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>>;

    /// Makes a directory, accessible by its owner only, makes its entry in the parent durable, and opens it.
    /// The parent must exist. A directory that exists already is opened, and its entry is made durable as
    /// well.
    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>>;

    /// Returns the path with links and dots resolved, also if its last part does not exist. Returns the
    /// absolute path if the system cannot resolve it.
    fn resolved(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }

    /// Removes a directory that is empty: one that was made and then not used. Fails with `Unsupported` if
    /// that is not possible; the directory stays then.
    fn remove_empty_directory(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
