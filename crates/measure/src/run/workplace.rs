//! Temporary directory for the files of a measurement.

use crate::MeasureError;
use logforce_device::{Directory, System};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Beginning of the directory's name. It identifies directories that a `kill -9` left behind.
pub const PREFIX: &str = "logforce-bench-";

/// A directory that is removed with its contents when this is dropped.
pub struct Workplace {
    /// Handle of the directory. It is closed before removal, because Windows cannot remove an open directory.
    directory: Option<Arc<dyn Directory>>,
    path: PathBuf,
}

impl Workplace {
    /// Creates `PREFIX<pid>-<random>` in `parent`, which must exist.
    pub fn create(system: &dyn System, parent: &Path) -> Result<Self, MeasureError> {
        let random = system.runtime().random() as u32;
        let path = parent.join(format!("{PREFIX}{}-{random:08x}", std::process::id()));
        let directory = system
            .make_directory(&path)
            .map_err(MeasureError::io(format!(
                "cannot create files in {}",
                parent.display()
            )))?;
        Ok(Workplace {
            directory: Some(directory),
            path,
        })
    }

    /// Returns the directory.
    ///
    /// # Panics
    /// Never: the handle is kept until this is dropped.
    pub fn directory(&self) -> Arc<dyn Directory> {
        let directory = self.directory.as_ref().expect("taken by the drop only");
        Arc::clone(directory)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        self.directory = None;
        // An error cannot be reported here. The name of the directory identifies what is left.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes a directory inside the workplace, such as that of a log.
pub fn remove(path: &Path) -> Result<(), MeasureError> {
    std::fs::remove_dir_all(path).map_err(MeasureError::io(format!("removing {}", path.display())))
}

/// Returns the directories in `parent` that killed runs left behind: those with [`PREFIX`] whose process
/// no longer runs according to `is_running`.
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
