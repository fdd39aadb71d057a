//! The filesystem and the device below a log: facts, measurements, results of power cuts.
//!
//! [`facts`] returns what the system reports about a directory. [`calibration`] contains the measurements of
//! commit methods, [`cuts`] the results of power cuts. The functions that open a log use all three.

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

/// Returns what the system reports about the filesystem and the device below the directory `path`.
/// [`cuts::facts`] adds the recorded results of power cuts.
///
/// # Errors
/// If `path` is not a directory, or its facts cannot be read.
pub fn facts(path: impl AsRef<Path>) -> Result<Facts> {
    let path = path.as_ref();
    let io = |source| Error::Io {
        doing: "read the facts of",
        path: path.to_owned(),
        source: Arc::new(source),
    };
    logforce_device_os::OsSystem::new()
        .directory(path)
        .and_then(|d| d.facts())
        .map_err(io)
}
