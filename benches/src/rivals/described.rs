//! Words about filesystems and rivals that all tables share.

use serde::{Deserialize, Serialize};

/// A filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Name, the key of the rows.
    pub name: String,
    /// Title of its tables.
    pub title: String,
    /// Filesystem, device and machine, in words.
    pub machine: String,
    /// True if the counts include those of other programs.
    pub counts_include_others: bool,
}

/// Returns a name with a version, which may be empty.
pub fn with_version(name: &str, version: &str) -> String {
    format!("{name} {version}").trim_end().to_owned()
}
