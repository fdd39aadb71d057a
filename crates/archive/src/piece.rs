//! Pieces of the log on their way to the archive or back.

use crate::format::{Encoder, LogPart, Point, Reject, StoredLog};
use crate::key::Key;
use crate::object::Object;
use bytes::Bytes;
use logforce::Lsn;
use logforce::replica::LogChunk;

/// Part of the log, with what a copy that ends with it needs.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    pub(crate) log: Bytes,
    pub(crate) control: Bytes,
    pub(crate) meta: Option<Bytes>,
    /// Time at which it was durable, Unix time in ns; `None` if its points say that.
    pub(crate) time: Option<u64>,
    pub(crate) points: Vec<Point>,
    /// Number of records, and parts of records.
    pub(crate) frames: u64,
    /// Chunk that consists of this piece, if it is in the archive.
    pub(crate) chunk: Option<Key>,
}

impl Piece {
    pub(crate) fn of_chunk(chunk: LogChunk, time: u64) -> Piece {
        Piece {
            from: chunk.from,
            to: chunk.to,
            log: chunk.bytes.into(),
            control: chunk.control.into(),
            meta: chunk.meta.map(Bytes::from),
            time: Some(time),
            points: Vec::new(),
            frames: chunk.frames,
            chunk: None,
        }
    }

    pub(crate) fn of_stored(from: Lsn, to: Lsn, time: Option<u64>, stored: StoredLog) -> Piece {
        Piece {
            from,
            to,
            log: stored.log,
            control: stored.control,
            meta: stored.meta,
            time,
            points: stored.points,
            frames: 0,
            chunk: None,
        }
    }

    /// Returns the piece with `next` behind it.
    pub(crate) fn joined(self, next: Piece) -> Piece {
        Piece {
            from: self.from,
            log: [&self.log[..], &next.log].concat().into(),
            frames: self.frames + next.frames,
            chunk: None,
            ..next
        }
    }

    /// Returns the part from `at` on.
    pub(crate) fn starting_at(mut self, at: Lsn) -> Piece {
        let passed = at.since(self.from).min(self.log.len() as u64);
        self.chunk = self.chunk.filter(|_| passed == 0);
        self.log = self.log.split_off(passed as usize);
        self.from = self.from.max(at);
        self
    }

    /// Returns the points in time that it stands for.
    pub(crate) fn points(&self) -> impl Iterator<Item = Point> {
        let at_end = self.time.map(|time| Point { time, lsn: self.to });
        self.points.iter().copied().chain(at_end)
    }

    /// Encodes its object.
    pub(crate) fn encode(&self, encoder: &mut Encoder, object: &Object) -> Result<Bytes, Reject> {
        let control = self.control[..].try_into();
        let part = LogPart {
            control: control.map_err(|_| Reject::Contradiction)?,
            meta: self.meta.as_deref(),
            points: &[],
            log: &[&self.log],
        };
        encoder.encode(object, &part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u64, log: &'static [u8], meta: &'static [u8]) -> Piece {
        let to = from + log.len() as u64;
        Piece {
            from: Lsn(from),
            to: Lsn(to),
            log: Bytes::from_static(log),
            control: Bytes::from(to.to_le_bytes().to_vec()),
            meta: Some(Bytes::from_static(meta)),
            time: Some(to),
            points: Vec::new(),
            frames: 1,
            chunk: None,
        }
    }

    #[test]
    fn a_joined_piece_has_the_state_of_the_later_one() {
        let both = piece(5, b"abc", b"older").joined(piece(8, b"de", b"newer"));
        assert_eq!((both.from, both.to), (Lsn(5), Lsn(10)));
        assert_eq!(both.log, b"abcde"[..]);
        assert_eq!(both.meta, Some(Bytes::from_static(b"newer")));
        assert_eq!(both.control, 10_u64.to_le_bytes()[..]);
        assert_eq!((both.time, both.frames), (Some(10), 2));
    }
}
