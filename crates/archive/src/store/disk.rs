//! Calls of the filesystem that a directory as a store makes. Tests see their order.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// Writes a new file that only its owner may read, as the files of a log.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    note("write", path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Makes the content of a file durable.
pub(super) fn sync_file(path: &Path, file: &File) -> io::Result<()> {
    note("sync", path);
    file.sync_all()
}

/// Gives a file a second name, unless the name is taken.
pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    note("link", to);
    fs::hard_link(from, to)
}

/// Gives a file another name, and takes that from the file that has it.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    note("rename", to);
    fs::rename(from, to)
}

/// Removes a name.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    note("remove", path);
    fs::remove_file(path)
}

/// Makes a folder that only its owner may use, unless there is one.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    note("make", path);
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    note("sync", path);
    open_folder(path)?.sync_all()
}

#[cfg(not(windows))]
fn open_folder(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(windows)]
fn open_folder(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    // Folders are opened only with this flag, FILE_FLAG_BACKUP_SEMANTICS.
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(0x0200_0000).open(path)
}

#[cfg(not(all(test, unix)))]
fn note(_: &str, _: &Path) {}

#[cfg(all(test, unix))]
pub(super) use trace::{note, taken};

#[cfg(all(test, unix))]
mod trace {
    use std::cell::RefCell;
    use std::path::Path;

    thread_local! {
        static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    pub(crate) fn note(call: &str, path: &Path) {
        CALLS.with_borrow_mut(|calls| calls.push(format!("{call} {}", path.display())));
    }

    /// Returns the calls of this thread since the last time, with paths relative to `root`.
    pub(crate) fn taken(root: &Path) -> Vec<String> {
        let root = root.display().to_string();
        let calls = CALLS.take().into_iter();
        calls
            .map(|call| call.replace(&format!("{root}/"), "").replace(&root, "."))
            .collect()
    }
}
