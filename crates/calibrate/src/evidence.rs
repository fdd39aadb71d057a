//! Evidence in a file of a directory: the log's own, or one that programs share.
//!
//! Nothing depends on it: what cannot be read is as good as not there, what is lost is measured
//! again. Two processes that write at once may lose each other's entry, never the file's form.

use crate::ValidFor;
use crate::scratch::temporary_name;
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, ReadSource, Runtime, Write};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Places that a file holds; the one written longest ago gives way.
const MOST: usize = 32;

/// A longer file is none of ours, in bytes: an entry takes 2 to 6 KiB.
const LONGEST: u64 = 512 << 10;

/// What was measured in a place. A file of one name keeps one kind of it.
pub(crate) trait Evidence: Clone {
    /// The file's name.
    const NAME: &'static str;
    /// The document's `schema`.
    const SCHEMA: &'static str;
    /// The document's `version`.
    const VERSION: u32;
    /// What the document holds of it.
    type Entry: Serialize + DeserializeOwned;

    /// Where it holds.
    fn valid_for(&self) -> &ValidFor;

    /// When it was measured, in milliseconds since 1970.
    fn measured_at(&self) -> u64;

    /// As the document holds it.
    fn entry(&self) -> Self::Entry;

    /// From an entry, which may have been written by anybody; `None` if it cannot have been written
    /// here.
    fn of_entry(entry: Self::Entry) -> Option<Self>;
}

/// What the directory's file knows of the place.
pub(crate) fn read<E: Evidence>(dir: &Arc<dyn Directory>, key: &ValidFor) -> Option<E> {
    let known: Vec<E> = all(dir).unwrap_or_default();
    known.into_iter().rev().find(|e| e.valid_for() == key)
}

/// The latest of what is remembered and what the directories' files know; of equals the first.
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

/// Takes the evidence into the directory's file, in place of what it had for the same place.
/// The file is replaced as a whole: a crash leaves the old one or the new one (which of them
/// matters too little to force the directory).
///
/// # Errors
/// Of the device, also where what is there could not be read: it would be lost. The file is then as
/// it was, and nothing is left beside it as far as that can be helped.
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

/// Keeps the evidence wherever there is nothing as new, as far as that can be done.
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

/// Now, by the system's clock, in milliseconds since 1970; 0 if that is unknown.
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
    // What is no regular file is refused by the directory.
    match dir.open(E::NAME, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        opened => Ok(decode(&contents(&*opened?, LONGEST)?)),
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

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    version: u32,
    /// The latest last. Each is read by itself: one that cannot be understood is left out.
    entries: Vec<serde_json::Value>,
}

/// The document that holds all of these.
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

/// What a document holds; nothing if it is none of ours.
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
