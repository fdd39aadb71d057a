//! Payload of a chunk or a segment: bytes of the log, and what an opening needs beside them.

use super::points::{MAX_POINTS, Point};
use super::reject::Reject;
use bytes::{Buf, Bytes};
use logforce::Lsn;

/// Length of a control slot of the log, in bytes.
pub const CONTROL_LEN: usize = 4096;
/// Largest metadata of the log, in bytes.
pub const MAX_META_LEN: usize = 4000;
/// Largest part of the log in one object, in bytes. A longer segment is stored as several objects.
pub const MAX_LOG_LEN: u64 = 256 << 20;

const POINT_LEN: usize = 16;
/// Largest part before the bytes of the log.
const MAX_PREFIX_LEN: usize = CONTROL_LEN + 4 + MAX_META_LEN + 4 + MAX_POINTS * POINT_LEN;
/// Largest payload of a chunk or a segment, in bytes.
pub(super) const MAX_BODY_LEN: u64 = MAX_PREFIX_LEN as u64 + MAX_LOG_LEN;

/// Part of the log to be stored.
#[derive(Debug, Clone, Copy)]
pub struct LogPart<'a> {
    /// Control slot of a copy of the log that ends with this part.
    pub control: &'a [u8; CONTROL_LEN],
    /// Metadata of the log, if it has any.
    pub meta: Option<&'a [u8]>,
    /// Points in time within the part, ascending.
    pub points: &'a [Point],
    /// Bytes of the log, in any number of slices.
    pub log: &'a [&'a [u8]],
}

/// Part of the log as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLog {
    /// Control slot of a copy of the log that ends with this part.
    pub control: Bytes,
    /// Metadata of the log, if it had any.
    pub meta: Option<Bytes>,
    /// Points in time within the part, ascending.
    pub points: Vec<Point>,
    /// Bytes of the log.
    pub log: Bytes,
}

impl LogPart<'_> {
    /// Returns the number of bytes of the log.
    pub(super) fn log_len(&self) -> u64 {
        self.log.iter().map(|slice| slice.len() as u64).sum()
    }

    /// Confirms that the part is not larger than a reader accepts.
    pub(super) fn check(&self) -> Result<(), Reject> {
        let limits = [
            ("the log in it", self.log_len(), MAX_LOG_LEN),
            (
                "the metadata",
                self.meta.map_or(0, <[u8]>::len) as u64,
                MAX_META_LEN as u64,
            ),
            (
                "the list of points",
                (self.points.len() * POINT_LEN) as u64,
                (MAX_POINTS * POINT_LEN) as u64,
            ),
        ];
        for (what, len, max) in limits {
            if len > max {
                return Err(Reject::TooLarge { what, len, max });
            }
        }
        Ok(())
    }

    /// Returns the payload before the bytes of the log.
    pub(super) fn prefix(&self) -> Vec<u8> {
        let meta = self.meta.unwrap_or_default();
        let mut prefix = Vec::with_capacity(CONTROL_LEN + 8 + meta.len() + self.points.len() * 16);
        prefix.extend_from_slice(self.control);
        let meta_mark = self.meta.map_or(0, |meta| meta.len() as u32 + 1);
        prefix.extend_from_slice(&meta_mark.to_le_bytes());
        prefix.extend_from_slice(meta);
        prefix.extend_from_slice(&(self.points.len() as u32).to_le_bytes());
        for point in self.points {
            prefix.extend_from_slice(&point.time.to_le_bytes());
            prefix.extend_from_slice(&point.lsn.0.to_le_bytes());
        }
        prefix
    }
}

impl StoredLog {
    /// Splits the payload of an object with the log in [`from`, `to`).
    pub(super) fn parse(from: Lsn, to: Lsn, mut body: Bytes) -> Result<StoredLog, Reject> {
        let control = take(&mut body, CONTROL_LEN)?;
        let meta = match number(&mut body)?.checked_sub(1) {
            None => None,
            Some(len) if len > MAX_META_LEN => return Err(Reject::Payload),
            Some(len) => Some(take(&mut body, len)?),
        };
        let count = number(&mut body)?;
        if count > MAX_POINTS {
            return Err(Reject::Payload);
        }
        let mut list = take(&mut body, count * POINT_LEN)?;
        let mut points = Vec::with_capacity(count);
        while list.has_remaining() {
            points.push(Point {
                time: list.get_u64_le(),
                lsn: Lsn(list.get_u64_le()),
            });
        }
        let ascend = |pair: &[Point]| pair[0].time <= pair[1].time && pair[0].lsn <= pair[1].lsn;
        if !points.windows(2).all(ascend) || body.len() as u64 != to.since(from) {
            return Err(Reject::Payload);
        }
        Ok(StoredLog {
            control,
            meta,
            points,
            log: body,
        })
    }
}

fn take(body: &mut Bytes, len: usize) -> Result<Bytes, Reject> {
    if body.len() < len {
        return Err(Reject::Payload);
    }
    Ok(body.split_to(len))
}

fn number(body: &mut Bytes) -> Result<usize, Reject> {
    Ok(take(body, 4)?.get_u32_le() as usize)
}
