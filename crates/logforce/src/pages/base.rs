//! Base copies: what a replica of a page file keeps beside its log.
//!
//! A base copy is read while programs commit. It keeps the ids of the page file and of its log, so the log of
//! the replica continues it: a restored page file is the copy and the log from
//! [`BaseReader::first_segment`] up to any position from [`BaseReader::finish`] on. The crate
//! `logforce-archive` keeps both in object storage. For a separate page file with a new log, use
//! [`Snapshot::backup`](super::Snapshot::backup).

pub use logforce_pages::{BaseReader, BaseWriter, PageFileHeader, is_log_of_page_file};

use crate::Guarantee;
use logforce_device_os::OsSystem;
use logforce_pages::Result;
use std::path::Path;
use std::sync::Arc;

/// Opens the logged page file in the directory `path` to copy it. Locks and changes nothing; this process or
/// another one may be writing the file.
///
/// # Errors
/// [`ErrorKind::Unsuitable`](super::ErrorKind::Unsuitable) for a copy-on-write file, which has no log, and if
/// the log is not that of the page file; [`ErrorKind::NoPageFile`](super::ErrorKind::NoPageFile).
pub fn read(path: impl AsRef<Path>) -> Result<BaseReader> {
    BaseReader::open(Arc::new(OsSystem::new()), path)
}

/// Begins to make a page file of a base copy in the directory `path`, which must be missing or empty, or
/// contain a restore that was cut short. `header` is [`BaseReader::header`] of the copy.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`](super::ErrorKind::AlreadyExists) if the directory is not empty;
/// [`ErrorKind::Unsuitable`](super::ErrorKind::Unsuitable) if a sync guarantees less than `require` there.
pub fn write(
    path: impl AsRef<Path>,
    header: PageFileHeader,
    require: Guarantee,
) -> Result<BaseWriter> {
    BaseWriter::new(Arc::new(OsSystem::new()), path, header, require)
}
