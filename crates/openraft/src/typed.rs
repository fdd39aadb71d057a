//! Entries, votes and log ids of any line of openraft as MessagePack, with the names of fields. So a program
//! with a newer type reads its old entries wherever serde can: fields with a default, names with an alias.

use crate::error::Error;
use crate::reader::{Found, Reader};
use crate::record::{self, Line, Purged};
use crate::store::NewEntry;
use logforce::Lsn;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::RangeBounds;

/// Returns the vote.
pub fn vote<T: DeserializeOwned>(reader: &Reader) -> Result<Option<T>, Error> {
    of_state(reader, "the vote", reader.state().vote)
}

/// Returns the committed log id.
pub fn committed<T: DeserializeOwned>(reader: &Reader) -> Result<Option<T>, Error> {
    of_state(reader, "the committed log id", reader.state().committed)
}

/// Returns the purged log id.
pub fn purged<T: DeserializeOwned>(reader: &Reader) -> Result<Option<T>, Error> {
    let purged = reader.state().purged.map(|p| p.id);
    of_state(reader, "the purged log id", purged)
}

/// Returns the existing entries of a range.
pub async fn entries<T: DeserializeOwned>(
    reader: &Reader,
    range: impl RangeBounds<u64> + Clone,
) -> Result<Vec<T>, Error> {
    let found = reader.entries(range).await?;
    found.iter().map(|found| entry(reader, found)).collect()
}

/// Returns the last entry.
pub async fn last<T: DeserializeOwned>(reader: &Reader) -> Result<Option<T>, Error> {
    let last = reader.last().await?;
    last.map(|found| entry(reader, &found)).transpose()
}

/// Returns the record of an entry.
pub fn new_entry(line: Line, index: u64, entry: &impl Serialize) -> Result<NewEntry, Error> {
    let write = |bytes: &mut Vec<u8>| write(bytes, "an entry", entry);
    let record = record::entry(line, index, write)?;
    Ok(NewEntry { index, record })
}

/// Returns the encoded log id of a purge.
pub fn new_purged(index: u64, id: &impl Serialize) -> Result<Purged, Error> {
    let id = encode("a log id", id)?;
    Ok(Purged { index, id })
}

/// Encodes a vote or a log id.
pub fn encode(what: &'static str, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    write(&mut bytes, what, value)?;
    Ok(bytes)
}

fn write(bytes: &mut Vec<u8>, what: &'static str, value: &impl Serialize) -> Result<(), Error> {
    rmp_serde::encode::write_named(bytes, value).map_err(|e| Error::Encode {
        what,
        why: e.to_string(),
    })
}

fn entry<T: DeserializeOwned>(reader: &Reader, found: &Found) -> Result<T, Error> {
    decode(reader, found.lsn, "an entry", &found.body)
}

fn of_state<T: DeserializeOwned>(
    reader: &Reader,
    what: &'static str,
    bytes: Option<Vec<u8>>,
) -> Result<Option<T>, Error> {
    let decode = |bytes: Vec<u8>| decode(reader, reader.state_lsn(), what, &bytes);
    bytes.map(decode).transpose()
}

fn decode<T: DeserializeOwned>(
    reader: &Reader,
    lsn: Lsn,
    what: &'static str,
    bytes: &[u8],
) -> Result<T, Error> {
    let why = |e| format!("does not hold {what} of this program's type: {e}");
    rmp_serde::from_slice(bytes).map_err(|e| Error::record(reader.log().path(), lsn, why(e)))
}
