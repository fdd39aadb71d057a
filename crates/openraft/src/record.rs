//! Records of a store: their kinds and their bytes. A record begins with four bytes: [`MAGIC`], [`VERSION`],
//! the [`Line`] of openraft whose types it holds, and its kind.

use crate::error::Error;
use logforce::{Lsn, RecordRef};
use std::path::Path;

/// First byte of each record. Tells a store from any other log.
const MAGIC: u8 = 0xaf;
/// Version of this layout.
const VERSION: u8 = 1;
/// Bytes before the body.
const HEADER: usize = 4;

const ENTRY: u8 = 1;
const STATE: u8 = 2;
const CUT: u8 = 3;

/// Line of openraft. Each has types that the others cannot decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// openraft 0.9.
    #[cfg_attr(not(feature = "openraft-09"), allow(dead_code))]
    V09 = 9,
    /// openraft 0.10.0-alpha.37. Another alpha with other types needs another number.
    #[cfg_attr(not(feature = "openraft-010"), allow(dead_code))]
    V010 = 10,
}

/// Decoded record.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Entry of the Raft log.
    Entry { index: u64, body: &'a [u8] },
    /// State of the store from here on.
    State(State),
    /// Removal of all earlier entries from this index on.
    Cut { from: u64 },
}

/// Values beside the entries, encoded. Each record has all of them, so that the last one is sufficient and a
/// purge can drop the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The last vote.
    pub vote: Option<Vec<u8>>,
    /// The last committed log id that was saved.
    pub committed: Option<Vec<u8>>,
    /// The last purged log id.
    pub purged: Option<Purged>,
}

/// Log id of the last purged entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purged {
    /// Its index.
    pub index: u64,
    /// The whole log id, encoded.
    pub id: Vec<u8>,
}

/// Returns the record of an entry whose body `write` appends.
pub fn entry<E>(
    line: Line,
    index: u64,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut bytes = header(line, ENTRY);
    bytes.extend(index.to_le_bytes());
    write(&mut bytes)?;
    Ok(bytes)
}

/// Returns the body of an entry's record that [`entry`] has made.
pub fn body(record: &[u8]) -> &[u8] {
    record.get(HEADER + 8..).unwrap_or_default()
}

/// Returns the record of a state.
pub fn state(line: Line, state: &State) -> Vec<u8> {
    let mut bytes = header(line, STATE);
    put(&mut bytes, state.vote.as_deref());
    put(&mut bytes, state.committed.as_deref());
    put(&mut bytes, state.purged.as_ref().map(|p| &p.id[..]));
    if let Some(purged) = &state.purged {
        bytes.extend(purged.index.to_le_bytes());
    }
    bytes
}

/// Returns the record of a cut.
pub fn cut(line: Line, from: u64) -> Vec<u8> {
    let mut bytes = header(line, CUT);
    bytes.extend(from.to_le_bytes());
    bytes
}

fn header(line: Line, kind: u8) -> Vec<u8> {
    vec![MAGIC, VERSION, line as u8, kind]
}

/// Appends a field: its length plus one, or zero for an absent one, and its bytes.
fn put(bytes: &mut Vec<u8>, field: Option<&[u8]>) {
    // Fields are votes and log ids: a length never reaches 4 GiB, because no record does.
    let len = field.map_or(0, |f| f.len() as u32 + 1);
    bytes.extend(len.to_le_bytes());
    bytes.extend(field.unwrap_or_default());
}

/// Decodes a record of the log in the directory `path`.
pub fn decode<'a>(line: Line, path: &Path, record: &RecordRef<'a>) -> Result<Record<'a>, Error> {
    parse(line, record.data).map_err(|why| Error::record(path, record.start, why))
}

/// Returns the entry in a record, which must have this index.
pub fn decode_entry<'a>(
    line: Line,
    path: &Path,
    start: Lsn,
    wanted: u64,
    data: &'a [u8],
) -> Result<&'a [u8], Error> {
    match parse(line, data) {
        Ok(Record::Entry { index, body }) if index == wanted => Ok(body),
        Ok(_) => Err(Error::record(
            path,
            start,
            format!("does not hold entry {wanted}"),
        )),
        Err(why) => Err(Error::record(path, start, why)),
    }
}

fn parse(line: Line, data: &[u8]) -> Result<Record<'_>, String> {
    let Some((&[magic, version, of, kind], mut body)) = data.split_first_chunk() else {
        return Err(format!("has {} bytes, fewer than its header", data.len()));
    };
    if magic != MAGIC {
        return Err("is not a record of a Raft log store: open another directory".to_owned());
    }
    if version != VERSION {
        return Err(format!(
            "has format version {version}, this program reads version {VERSION}: use a newer one"
        ));
    }
    if of != line as u8 {
        return Err(format!(
            "was written for line {of} of openraft (9: 0.9, 10: 0.10), this program reads line {}: open it with \
             the module of that line, or let the node join again from a snapshot",
            line as u8
        ));
    }
    let parsed = match kind {
        ENTRY => take_u64(&mut body).map(|index| Record::Entry {
            index,
            body: std::mem::take(&mut body),
        }),
        STATE => take_state(&mut body).map(Record::State),
        CUT => take_u64(&mut body).map(|from| Record::Cut { from }),
        _ => {
            return Err(format!(
                "has the unknown kind {kind}: a newer version wrote it"
            ));
        }
    };
    match parsed {
        Some(record) if body.is_empty() => Ok(record),
        _ => Err(format!(
            "of kind {kind} does not have the length that it declares"
        )),
    }
}

fn take_state(body: &mut &[u8]) -> Option<State> {
    let (vote, committed) = (take_field(body)?, take_field(body)?);
    let purged = match take_field(body)? {
        Some(id) => Some(Purged {
            index: take_u64(body)?,
            id,
        }),
        None => None,
    };
    Some(State {
        vote,
        committed,
        purged,
    })
}

fn take_u64(body: &mut &[u8]) -> Option<u64> {
    let (taken, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(u64::from_le_bytes(*taken))
}

fn take_field(body: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    let (len, rest) = body.split_first_chunk()?;
    let Some(len) = u32::from_le_bytes(*len).checked_sub(1) else {
        *body = rest;
        return Some(None);
    };
    let (field, rest) = rest.split_at_checked(len as usize)?;
    *body = rest;
    Some(Some(field.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> State {
        State {
            vote: Some(b"vote".to_vec()),
            committed: Some(Vec::new()),
            purged: Some(Purged {
                index: 7,
                id: b"id".to_vec(),
            }),
        }
    }

    #[test]
    fn records_are_decoded_as_they_were_encoded() {
        let line = Line::V09;
        let write = |bytes: &mut Vec<u8>| -> Result<(), ()> {
            bytes.extend(b"body");
            Ok(())
        };
        let bytes = entry(line, 3, write).unwrap();
        assert_eq!(body(&bytes), b"body");
        let body = &b"body"[..];
        assert_eq!(parse(line, &bytes), Ok(Record::Entry { index: 3, body }));
        let bytes = cut(line, u64::MAX);
        assert_eq!(parse(line, &bytes), Ok(Record::Cut { from: u64::MAX }));
        for s in [State::default(), full()] {
            let bytes = state(line, &s);
            assert_eq!(parse(line, &bytes), Ok(Record::State(s)));
        }
    }

    #[test]
    fn records_of_others_and_damaged_ones_are_refused() {
        let good = state(Line::V09, &full());
        let change = |at: usize, to: u8| {
            let mut bytes = good.clone();
            bytes[at] = to;
            parse(Line::V09, &bytes).unwrap_err()
        };
        assert!(change(0, 0).contains("not a record of a Raft log store"));
        assert!(change(1, 2).contains("format version 2"));
        assert!(change(2, 10).contains("line 10 of openraft"));
        assert!(change(3, 9).contains("unknown kind 9"));
        assert!(change(4, 255).contains("the length that it declares"));
        for len in 0..good.len() {
            assert!(
                parse(Line::V09, &good[..len]).is_err(),
                "{len} bytes accepted"
            );
        }
        let longer = [&good[..], b"x"].concat();
        assert!(parse(Line::V09, &longer).is_err());
    }
}
