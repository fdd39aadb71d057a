//! Identity of the file behind a path.

use std::path::Path;

/// Device and number of a file. Equal for two paths if and only if they lead to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    file: u64,
}

impl Identity {
    /// Returns the identity; `None` without a file, and on systems whose standard library does not offer it.
    #[cfg(unix)]
    pub fn of(path: &Path) -> Option<Identity> {
        use std::os::unix::fs::MetadataExt;
        let metadata = path.symlink_metadata().ok()?;
        Some(Identity {
            device: metadata.dev(),
            file: metadata.ino(),
        })
    }

    /// Returns the identity; `None` without a file, and on systems whose standard library does not offer it.
    #[cfg(not(unix))]
    pub fn of(_: &Path) -> Option<Identity> {
        None
    }
}
