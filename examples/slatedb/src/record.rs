//! A write batch as a record of the log.

use bytes::{Buf, BufMut, Bytes, TryGetError};
use slatedb::{RowEntry, ValueDeletable};

/// Encodes the batch with the number `id`.
pub fn encode(id: u64, rows: &[RowEntry]) -> Vec<u8> {
    let mut record = Vec::new();
    record.put_u64_le(id);
    for row in rows {
        record.put_u64_le(row.seq);
        for time in [row.create_ts, row.expire_ts] {
            record.put_u8(time.is_some().into());
            record.put_i64_le(time.unwrap_or_default());
        }
        put_bytes(&mut record, &row.key);
        let (kind, value) = match &row.value {
            ValueDeletable::Value(value) => (0, &value[..]),
            ValueDeletable::Merge(value) => (1, &value[..]),
            ValueDeletable::Tombstone => (2, &[][..]),
        };
        record.put_u8(kind);
        put_bytes(&mut record, value);
    }
    record
}

fn put_bytes(record: &mut Vec<u8>, bytes: &[u8]) {
    record.put_u64_le(bytes.len() as u64);
    record.put_slice(bytes);
}

/// Decodes a batch; `None` if these are not the bytes of one.
pub fn decode(record: Vec<u8>) -> Option<(u64, Vec<RowEntry>)> {
    let mut rest = Bytes::from(record);
    let id = rest.try_get_u64_le().ok()?;
    let mut rows = Vec::new();
    while rest.has_remaining() {
        let seq = rest.try_get_u64_le().ok()?;
        let create_ts = time(&mut rest).ok()?;
        let expire_ts = time(&mut rest).ok()?;
        let key = take_bytes(&mut rest)?;
        let kind = rest.try_get_u8().ok()?;
        let value = take_bytes(&mut rest)?;
        let value = match kind {
            0 => ValueDeletable::Value(value),
            1 => ValueDeletable::Merge(value),
            2 => ValueDeletable::Tombstone,
            _ => return None,
        };
        rows.push(RowEntry {
            key,
            value,
            seq,
            create_ts,
            expire_ts,
        });
    }
    Some((id, rows))
}

fn time(rest: &mut Bytes) -> Result<Option<i64>, TryGetError> {
    let is_set = rest.try_get_u8()? == 1;
    let time = rest.try_get_i64_le()?;
    Ok(is_set.then_some(time))
}

fn take_bytes(rest: &mut Bytes) -> Option<Bytes> {
    let len = usize::try_from(rest.try_get_u64_le().ok()?).ok()?;
    (len <= rest.len()).then(|| rest.split_to(len))
}
