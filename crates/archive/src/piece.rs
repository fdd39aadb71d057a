//! Pieces of the log on their way to the archive or back.

use crate::format::{Encoder, LogPart, Point, Points, Reject, StoredLog};
use crate::object::{Object, Segment};
use bytes::Bytes;
use logforce::Lsn;
use logforce::replica::{LogChunk, joined_control};

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
        }
    }

    /// Returns the piece with `next` behind it.
    pub(crate) fn joined(self, next: Piece) -> Piece {
        Piece {
            from: self.from,
            log: [&self.log[..], &next.log].concat().into(),
            frames: self.frames + next.frames,
            ..next
        }
    }

    /// Returns the part from `at` on.
    pub(crate) fn starting_at(mut self, at: Lsn) -> Piece {
        let passed = at.since(self.from).min(self.log.len() as u64);
        self.log = self.log.split_off(passed as usize);
        self.from = self.from.max(at);
        self
    }

    /// Encodes the object of one piece.
    pub(crate) fn encode(&self, encoder: &mut Encoder, object: &Object) -> Result<Bytes, Reject> {
        encode(encoder, object, std::slice::from_ref(self), &[])
    }
}

/// Encodes a segment of contiguous pieces.
pub(crate) fn encode_segment(
    encoder: &mut Encoder,
    segment: Segment,
    pieces: &[Piece],
) -> Result<Bytes, Reject> {
    let mut points = Points::default();
    for piece in pieces {
        for point in &piece.points {
            points.push(*point);
        }
        if let Some(time) = piece.time {
            let lsn = piece.to;
            points.push(Point { time, lsn });
        }
    }
    encode(
        encoder,
        &Object::Segment(segment),
        pieces,
        points.as_slice(),
    )
}

fn encode(
    encoder: &mut Encoder,
    object: &Object,
    pieces: &[Piece],
    points: &[Point],
) -> Result<Bytes, Reject> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
        return Err(Reject::Contradiction);
    };
    // With the front of the first piece, so that a restore can end within.
    let control = joined_control(&first.control, &last.control);
    let control = control.map_err(|_| Reject::Contradiction)?;
    let control = control[..].try_into().map_err(|_| Reject::Contradiction)?;
    let log: Vec<&[u8]> = pieces.iter().map(|piece| &piece.log[..]).collect();
    encoder.encode(
        object,
        &LogPart {
            control,
            meta: last.meta.as_deref(),
            points,
            log: &log,
        },
    )
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
