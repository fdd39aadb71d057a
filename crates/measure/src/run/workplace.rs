//! A directory of our own for the files, gone afterwards.

use crate::MeasureError;
use logforce_device::{Directory, System};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the directory's name starts with: what a `kill -9` leaves behind can be told by it.
pub const PREFIX: &str = "logforce-bench-";

/// A directory that is removed, with all that is in it, when this is dropped.
pub struct Workplace {
    /// `None` when it is about to be removed: Windows removes no directory that is open.
    directory: Option<Arc<dyn Directory>>,
    path: PathBuf,
}

impl Workplace {
    /// Makes `PREFIX<pid>-<random>` in `parent`, which must exist.
    pub fn create(system: &dyn System, parent: &Path) -> Result<Self, MeasureError> {
        let random = system.runtime().random() as u32;
        let path = parent.join(format!("{PREFIX}{}-{random:08x}", std::process::id()));
        let directory = system
            .make_directory(&path)
            .map_err(MeasureError::io(format!(
                "cannot make files in {}",
                parent.display()
            )))?;
        Ok(Workplace {
            directory: Some(directory),
            path,
        })
    }

    /// The directory.
    ///
    /// # Panics
    /// Never: it is there until this is dropped.
    pub fn directory(&self) -> Arc<dyn Directory> {
        let directory = self.directory.as_ref().expect("taken by the drop only");
        Arc::clone(directory)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        self.directory = None;
        // Nobody is left to tell; the name says what it is.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes a directory in it, such as a log's.
pub fn remove(path: &Path) -> Result<(), MeasureError> {
    std::fs::remove_dir_all(path).map_err(MeasureError::io(format!("removing {}", path.display())))
}

/// What earlier runs left in `parent` when they were killed: directories of ours whose process
/// is gone, by the word of `is_running`.
pub fn stale_directories(parent: &Path, is_running: impl Fn(u32) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| {
            let name = entry.file_name();
            let pid = name
                .to_str()
                .and_then(|n| n.strip_prefix(PREFIX))
                .and_then(|rest| rest.split('-').next());
            pid.and_then(|p| p.parse::<u32>().ok())
                .is_some_and(|pid| !is_running(pid))
        })
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_killed_run_left() {
        let parent =
            std::env::temp_dir().join(format!("logforce-leftover-test-{}", std::process::id()));
        let dead = parent.join(format!("{PREFIX}{}-0", i32::MAX));
        let mine = parent.join(format!("{PREFIX}{}-0", std::process::id()));
        for dir in [
            &dead,
            &mine,
            &parent.join("logforce-bench-x"),
            &parent.join("other"),
        ] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let found = stale_directories(&parent, |pid| pid == std::process::id());
        std::fs::remove_dir_all(&parent).unwrap();
        assert_eq!(found, [dead]);
    }
}
