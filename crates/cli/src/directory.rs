//! Kinds of directories, by the names in them: a log, a page file, or a part of a page file.

use crate::exit::Damaged;
use anyhow::anyhow;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// Returns whether the directory holds a page file, by the names in it. Only an opening checks the contents.
pub fn is_page_file(dir: &Path) -> anyhow::Result<bool> {
    Ok(has_file(&dir.join("pages"))? && !has_file(&dir.join("control"))?)
}

/// Returns whether the directory holds a part of a page file, by the names in it.
pub fn is_part_of_a_page_file(dir: &Path) -> anyhow::Result<bool> {
    Ok(has_begun_backup(dir)? || has_file(&dir.join("log").join("control"))?)
}

fn has_begun_backup(dir: &Path) -> anyhow::Result<bool> {
    has_file(&dir.join("backup.tmp"))
}

/// Returns true if the path is a file, and false if it is not there. Any other failure is an error. Otherwise
/// the caller would advise restoring a backup over an intact file.
fn has_file(path: &Path) -> anyhow::Result<bool> {
    match uninterrupted(|| path.metadata()) {
        Ok(found) => Ok(found.is_file()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        // The system denies the search of the directory, not the file.
        Err(e) if cfg!(unix) && e.kind() == ErrorKind::PermissionDenied => {
            let dir = path.parent().unwrap_or(path);
            Err(cannot("open the directory", dir, e))
        }
        Err(e) => Err(cannot("look at", path, e)),
    }
}

/// Repeats a call that a signal has interrupted.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Returns the system's error with the library's advice.
pub fn cannot(doing: &'static str, path: &Path, source: io::Error) -> anyhow::Error {
    logforce::Error::Io {
        doing,
        path: path.to_owned(),
        source: Arc::new(source),
    }
    .into()
}

/// Describes a part of a page file, which has no data file.
pub fn without_data(dir: &Path) -> anyhow::Error {
    let has_begun = match has_begun_backup(dir) {
        Ok(has_begun) => has_begun,
        Err(e) => return e,
    };
    if has_begun {
        return anyhow!(
            "{} holds no page file: a backup was begun in it and did not end. Remove the directory",
            dir.display()
        );
    }
    let missing = format!(
        "{0} holds no log, and no page file: {0}/log is the log of a page file, but its file 'pages' is \
         missing. Restore the whole directory from a backup; `logforce dump {0}/log` lists the log",
        dir.display()
    );
    Damaged(missing).into()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_page_file(dir.path()).unwrap());
        assert!(!is_part_of_a_page_file(&dir.path().join("missing")).unwrap());
        // The link refers to itself, so the system cannot say if the file exists.
        std::os::unix::fs::symlink("pages", dir.path().join("pages")).unwrap();
        let told = is_page_file(dir.path()).unwrap_err().to_string();
        assert!(told.contains("cannot look at"), "{told}");
    }
}
