//! The filesystem and the device below a log, and what is known of them.
//!
//! [`facts`] returns what the system says of a directory. [`calibration`] has the measurements of commit
//! methods, [`cuts`] the results of power cuts. The functions that open a log use all three.

pub mod calibration;
pub mod cuts;
mod write_through;

pub use logforce_core::{
    Assessment, BlockDevice, CutEvidence, CutResult, DirectAlignment, Facts, FileState,
    FilesystemKind, Layer, Platform, Source, WriteCache,
};

use crate::{Error, Result};
use logforce_device::System;
use std::path::Path;
use std::sync::Arc;

/// Returns what the system says of the filesystem and the device below the directory `path`. What power cuts
/// have shown there is in [`cuts::facts`].
///
/// # Errors
/// If `path` is no directory that can be looked at.
pub fn facts(path: impl AsRef<Path>) -> Result<Facts> {
    let path = path.as_ref();
    let io = |source| Error::Io {
        doing: "look at the place",
        path: path.to_owned(),
        source: Arc::new(source),
    };
    logforce_device_os::OsSystem::new()
        .directory(path)
        .and_then(|d| d.facts())
        .map_err(io)
}
