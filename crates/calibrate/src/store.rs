//! Evidence in a file of a directory: the log's own, or one that programs share.
//!
//! Nothing depends on it: what cannot be read is as good as not there, what is lost is measured
//! again. Two processes that write at once may lose each other's entry, never the file's form.

use crate::scratch::temporary_name;
use crate::{Calibration, ValidFor, stored};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, ReadSource, Runtime, Write};
use std::io;
use std::sync::Arc;

/// The file's name.
pub const NAME: &str = "calibration";

/// Places that a file holds; the one written longest ago gives way.
const MOST: usize = 32;

/// A longer file is none of ours, in bytes: an entry takes 2 to 6 KiB.
const LONGEST: u64 = 512 << 10;

/// What the directory's file knows of the place.
pub fn read(dir: &Arc<dyn Directory>, key: &ValidFor) -> Option<Calibration> {
    let known = all(dir).unwrap_or_default();
    known.into_iter().rev().find(|c| c.valid_for == *key)
}

/// Takes the calibration into the directory's file, in place of what it had for the same place.
/// The file is replaced as a whole: a crash leaves the old one or the new one (which of them
/// matters too little to force the directory).
///
/// # Errors
/// Of the device, also where what is there could not be read: it would be lost. The file is then as it was, and nothing is left beside it as far as that can be
/// helped.
pub fn write(
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
    calibration: &Calibration,
) -> io::Result<()> {
    let mut entries = all(dir)?;
    entries.retain(|c| c.valid_for != calibration.valid_for);
    let too_many = (entries.len() + 1).saturating_sub(MOST);
    entries.drain(..too_many);
    entries.push(calibration.clone());
    let name = temporary_name(runtime);
    let written = put(dir, &name, &stored::encode(&entries)).and_then(|()| dir.rename(&name, NAME));
    if written.is_err() {
        let _ = dir.remove(&name);
    }
    written
}

pub(crate) fn put(dir: &Arc<dyn Directory>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = dir.open(name, OpenFile::CREATE)?;
    let mut buf = AlignedBuf::zeroed(bytes.len(), 4096);
    buf.copy_from_slice(bytes);
    let range = 0..bytes.len();
    let ticket = file.submit(Write {
        offset: 0,
        buf,
        range,
        through: false,
    });
    file.complete(ticket).result?;
    file.barrier(Barrier::Full)
}

fn all(dir: &Arc<dyn Directory>) -> io::Result<Vec<Calibration>> {
    // What is no regular file is refused by the directory.
    match dir.open(NAME, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        opened => Ok(stored::decode(&contents(&*opened?, LONGEST)?)),
    }
}

/// All bytes of a file of at most `longest`; none of a longer one.
pub(crate) fn contents(file: &dyn File, longest: u64) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    if len > longest {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; len as usize];
    let n = file.read_at(0, &mut bytes, ReadSource::Cache)?;
    if n < bytes.len() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("only {n} of its {len} bytes could be read"),
        ));
    }
    Ok(bytes)
}
