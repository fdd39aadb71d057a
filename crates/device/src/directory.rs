use crate::{Facts, File, Runtime};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Identifies files and directories whatever path leads to them (on Unix device and inode).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileIdentity {
    /// The volume.
    pub volume: u64,
    /// The file within the volume.
    pub file: u64,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// File name without path; names that are no UTF-8 are given lossily (they are never ours).
    pub name: String,
    /// Size in bytes (0 for what is no regular file).
    pub len: u64,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// What an open file is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing; the file must exist.
    Write,
    /// Reading and writing; the file must not exist, and is made readable by its owner only, or with
    /// the mode of [`Directory::set_file_mode`].
    CreateNew,
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFile {
    /// What for.
    pub access: Access,
    /// Writes go past the system's cache. `Unsupported` where the filesystem cannot.
    pub direct: bool,
}

impl OpenFile {
    /// For reading.
    pub const READ: OpenFile = OpenFile {
        access: Access::Read,
        direct: false,
    };
    /// For reading and buffered writing.
    pub const WRITE: OpenFile = OpenFile {
        access: Access::Write,
        direct: false,
    };
    /// A new file, for reading and buffered writing.
    pub const CREATE: OpenFile = OpenFile {
        access: Access::CreateNew,
        direct: false,
    };
}

/// Where the path leads by which a directory was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// To that directory.
    Here,
    /// Nowhere: the directory, or one above it, was removed or renamed.
    Gone,
    /// To something else.
    Replaced,
}

/// A directory of one log. Names are plain file names; anything else is refused with
/// `InvalidInput`.
pub trait Directory: Send + Sync {
    /// The path as the user gave it, for messages.
    fn path(&self) -> &Path;

    /// The directory's identity.
    fn identity(&self) -> FileIdentity;

    /// All names, without `.` and `..`.
    fn entries(&self) -> io::Result<Vec<DirEntry>>;

    /// Opens or makes a file.
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>>;

    /// Renames within the directory; an existing target is replaced. Durable after `sync`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable after `sync`.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals that were done before this call durable.
    fn sync(&self) -> io::Result<()>;

    /// Takes the directory's writer lock by the file `name` (made if it is missing), held until
    /// the returned value is dropped. `WouldBlock` if another process, or another opening in
    /// this one, holds it.
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

    /// Free space for this user, in bytes.
    fn free_space(&self) -> io::Result<u64>;

    /// Where the path leads now by which this directory was opened. The working directory of then
    /// counts, and so does the root: a process that has changed either does not learn that its
    /// directory went. An error says nothing of the directory.
    ///
    /// Directories that nothing else can remove need not provide it.
    fn whereabouts(&self) -> io::Result<Whereabouts> {
        Ok(Whereabouts::Here)
    }

    /// Holds no descriptor from now on: each call opens the directory by its path, and fails where
    /// that leads to another one. For a process with very many of them; a hint.
    fn keep_closed(&self) {}

    /// The permission bits (`0o777`) of files that are made from now on, the lock file among them,
    /// whatever the umask. Where the system has none (Windows) it does nothing.
    fn set_file_mode(&self, mode: u32) {
        let _ = mode;
    }

    /// Changes the permission bits (`0o777`) of the directory itself; others, such as set-group-id,
    /// stay. Where the system has none (Windows) it does nothing.
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let _ = mode;
        Ok(())
    }

    /// The system that the directory is of, for other directories of it.
    ///
    /// Directories that nothing is copied out of need not provide it.
    fn system(&self) -> io::Result<Arc<dyn System>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The identity of the file that has the name now; `NotFound` if none has.
    ///
    /// Directories in which nothing else changes names need not provide it.
    fn identity_of(&self, name: &str) -> io::Result<FileIdentity> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The entry to a platform: directories and the runtime.
pub trait System: Send + Sync {
    /// Threads, time, waiting.
    fn runtime(&self) -> Arc<dyn Runtime>;

    /// Opens an existing directory.
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>>;

    /// Makes a directory (its parent must exist), accessible by its owner only, makes its entry
    /// in the parent durable, and opens it. One that exists already is opened, and its entry made
    /// durable as well.
    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>>;

    /// Where a path leads, whatever links and dots are in it, also if its last part does not exist. The
    /// absolute path where the system does not say.
    fn resolved(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }

    /// Removes a directory, if it is empty: one that was made and then not used. `Unsupported`
    /// where that cannot be done; it is left then.
    fn remove_empty_directory(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
