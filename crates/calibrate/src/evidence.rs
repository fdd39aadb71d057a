//! Evidence in a file of the log's directory, or of a directory that programs share.
//!
//! No log depends on evidence: an unreadable file counts as missing, and lost entries are measured again. If
//! two processes write at once, an entry of one may be lost, but the file stays valid.

use crate::ValidFor;
use crate::scratch::temporary_name;
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, ReadSource, Runtime, Write};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum number of entries in a file. A further one replaces the oldest.
const MOST: usize = 32;

/// Maximum length of a file in bytes; an entry takes 2 to 6 KiB. A longer file is ignored.
const LONGEST: u64 = 512 << 10;

/// Results of a measurement. Each kind of evidence has its file.
pub(crate) trait Evidence: Clone {
    /// Name of the file.
    const NAME: &'static str;
    /// Value of the document's `schema`.
    const SCHEMA: &'static str;
    /// Value of the document's `version`.
    const VERSION: u32;
    /// Form of the evidence in the document.
    type Entry: Serialize + DeserializeOwned;

    /// Returns the conditions under which the evidence is valid.
    fn valid_for(&self) -> &ValidFor;

    /// Returns the time of the measurement in milliseconds since 1970.
    fn measured_at(&self) -> u64;

    /// Returns the evidence as an entry of the document.
    fn entry(&self) -> Self::Entry;

    /// Returns the evidence of an entry, or `None` if this program cannot have written the entry. Entries are
    /// not trusted.
    fn of_entry(entry: Self::Entry) -> Option<Self>;
}

/// Reads the evidence for `key` from the directory's file.
pub(crate) fn read<E: Evidence>(dir: &Arc<dyn Directory>, key: &ValidFor) -> Option<E> {
    let known: Vec<E> = all(dir).unwrap_or_default();
    known.into_iter().rev().find(|e| e.valid_for() == key)
}

/// Returns the latest of the remembered evidence and that in the directories' files; of equal times the
/// first.
pub(crate) fn latest<E: Evidence>(
    remembered: Option<E>,
    stores: &[Arc<dyn Directory>],
    key: &ValidFor,
) -> Option<E> {
    let stored = stores.iter().filter_map(|dir| read(dir, key));
    remembered.into_iter().chain(stored).reduce(|a, b| {
        if b.measured_at() > a.measured_at() {
            b
        } else {
            a
        }
    })
}

/// Writes the evidence into the directory's file, and replaces the entry with the same key. Replaces the file
/// as a whole, so a crash leaves the old one or the new one. Does not force the directory, because either
/// file is fine.
///
/// # Errors
/// Errors of the device. Also fails if the existing file cannot be read, because its entries would be lost.
/// The file then stays unchanged, and the temporary file is removed if possible.
pub(crate) fn write<E: Evidence>(
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
    evidence: &E,
) -> io::Result<()> {
    let mut all: Vec<E> = all(dir)?;
    all.retain(|e| e.valid_for() != evidence.valid_for());
    let too_many = (all.len() + 1).saturating_sub(MOST);
    all.drain(..too_many);
    all.push(evidence.clone());
    let name = temporary_name(runtime);
    let written = put(dir, &name, &encode(&all)).and_then(|()| dir.rename(&name, E::NAME));
    if written.is_err() {
        let _ = dir.remove(&name);
    }
    written
}

/// Writes the evidence into every store that has no evidence as new. Ignores errors.
pub(crate) fn keep<E: Evidence>(
    stores: &[Arc<dyn Directory>],
    runtime: &dyn Runtime,
    evidence: &E,
) {
    for dir in stores {
        let there: Option<E> = read(dir, evidence.valid_for());
        if there.is_none_or(|e| e.measured_at() < evidence.measured_at()) {
            let _ = write(dir, runtime, evidence);
        }
    }
}

/// Returns the present time by the system's clock, in milliseconds since 1970; 0 if unknown.
pub(crate) fn unix_millis() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|d| u64::try_from(d.as_millis()).ok())
        .unwrap_or(0)
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

fn all<E: Evidence>(dir: &Arc<dyn Directory>) -> io::Result<Vec<E>> {
    // The directory refuses to open anything but a regular file.
    match dir.open(E::NAME, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        opened => Ok(decode(&contents(&*opened?, LONGEST)?)),
    }
}

/// Reads all bytes of a file of at most `longest` bytes. Returns no bytes for a longer file.
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

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    version: u32,
    /// Entries, the latest last. Each is decoded separately; invalid ones are left out.
    entries: Vec<serde_json::Value>,
}

/// Encodes all of the evidence as a document.
pub(crate) fn encode<E: Evidence>(all: &[E]) -> Vec<u8> {
    let entries = all
        .iter()
        .filter_map(|e| serde_json::to_value(e.entry()).ok());
    let document = Document {
        schema: E::SCHEMA.to_owned(),
        version: E::VERSION,
        entries: entries.collect(),
    };
    let mut bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Decodes a document. Returns nothing for a document of another schema or version.
pub(crate) fn decode<E: Evidence>(bytes: &[u8]) -> Vec<E> {
    let Ok(document) = serde_json::from_slice::<Document>(bytes) else {
        return Vec::new();
    };
    if document.schema != E::SCHEMA || document.version != E::VERSION {
        return Vec::new();
    }
    let entries = document.entries.into_iter();
    entries
        .filter_map(|e| E::of_entry(serde_json::from_value(e).ok()?))
        .collect()
}
