//! Confirmed pieces on their way to the second level: small ones are gathered until they make a segment, and a
//! large chunk is one by itself.

use crate::error::{Error, Result};
use crate::format::{Encoder, LogPart, Points, Reject};
use crate::key::Key;
use crate::object::{Object, Segment};
use crate::piece::Piece;
use bytes::Bytes;
use logforce::replica::joined_control;
use std::collections::VecDeque;

/// Share of a segment's size from which on a chunk is not gathered. A restore reads a few such objects as fast
/// as one, and the store copies the chunk itself.
const LARGE: u64 = 8;

/// Contents of segments to come, contiguous.
pub(crate) struct Gathered {
    size: u64,
    contents: VecDeque<Content>,
}

/// Content of a segment.
pub(crate) enum Content {
    /// Chunk that the store copies.
    Copy { segment: Segment, chunk: Key },
    /// Pieces that are put again, as one object.
    Small(Box<Small>),
}

/// Pieces that become one segment. Of their states only those are kept that the segment needs: there may be
/// tens of thousands of pieces.
pub(crate) struct Small {
    pub(crate) segment: Segment,
    first_control: Bytes,
    control: Bytes,
    meta: Option<Bytes>,
    points: Points,
    log: Vec<Bytes>,
}

impl Gathered {
    /// Returns nothing gathered, for segments of `size` bytes of log.
    pub(crate) fn new(size: u64) -> Gathered {
        let contents = VecDeque::new();
        Gathered { size, contents }
    }

    /// Adds the piece that follows.
    pub(crate) fn add(&mut self, piece: Piece) {
        let segment = Segment {
            from: piece.from,
            to: piece.to,
        };
        let is_large = segment.len() >= self.size / LARGE;
        self.push(match piece.chunk {
            Some(chunk) if is_large => Content::Copy { segment, chunk },
            _ => Content::Small(Box::new(Small::new(segment, piece))),
        });
    }

    /// Adds what follows.
    pub(crate) fn append(&mut self, later: Gathered) {
        later.contents.into_iter().for_each(|next| self.push(next));
    }

    fn push(&mut self, next: Content) {
        match (self.contents.back_mut(), next) {
            (Some(Content::Small(last)), Content::Small(next))
                if last.segment.len() < self.size =>
            {
                last.extend(*next);
            }
            (_, next) => self.contents.push_back(next),
        }
    }

    /// Removes and returns the first contents that grow no more: at most `max`, and one that is not copied.
    pub(crate) fn take_complete(&mut self, max: usize) -> Vec<Content> {
        let mut taken = Vec::new();
        while let Some(first) = self.contents.front()
            && taken.len() < max
        {
            let is_open = self.contents.len() == 1 && first.segment().len() < self.size;
            let is_small = matches!(first, Content::Small(_));
            let had_small = taken.iter().any(|c| matches!(c, Content::Small(_)));
            if is_small && (is_open || had_small) {
                break;
            }
            taken.extend(self.contents.pop_front());
        }
        taken
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.contents.clear();
    }

    /// Returns the number of bytes of log in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.contents.iter().map(|content| match content {
            Content::Copy { .. } => 0,
            Content::Small(small) => small.segment.len(),
        });
        bytes.sum()
    }
}

impl Content {
    pub(crate) fn segment(&self) -> Segment {
        match self {
            Content::Copy { segment, .. } => *segment,
            Content::Small(small) => small.segment,
        }
    }
}

impl Small {
    fn new(segment: Segment, piece: Piece) -> Small {
        let mut points = Points::default();
        piece.points().for_each(|point| points.push(point));
        Small {
            segment,
            first_control: piece.control.clone(),
            control: piece.control,
            meta: piece.meta,
            points,
            log: vec![piece.log],
        }
    }

    fn extend(&mut self, next: Small) {
        self.segment.to = next.segment.to;
        (self.control, self.meta) = (next.control, next.meta);
        for point in next.points.as_slice() {
            self.points.push(*point);
        }
        self.log.extend(next.log);
    }

    /// Returns the bytes of the segment.
    pub(crate) fn encode(&self, encoder: &mut Encoder) -> Result<Bytes> {
        let object = Object::Segment(self.segment);
        // With the front of the first piece, so that a restore can end within.
        let control = joined_control(&self.first_control, &self.control)?;
        let log: Vec<&[u8]> = self.log.iter().map(|log| &log[..]).collect();
        let part = match control[..].try_into() {
            Ok(control) => LogPart {
                control,
                meta: self.meta.as_deref(),
                points: self.points.as_slice(),
                log: &log,
            },
            Err(_) => return Err(Reject::Contradiction.of(&object.key()).into()),
        };
        let bytes = encoder.encode(&object, &part);
        bytes.map_err(|reject| Error::from(reject.of(&object.key())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Epoch;
    use logforce::Lsn;

    const SIZE: u64 = 800;

    fn piece(from: Lsn, len: u64) -> Piece {
        let (epoch, place) = (Epoch(1), from.0);
        Piece {
            from,
            to: from.plus(len),
            log: vec![7; len as usize].into(),
            control: Bytes::new(),
            meta: None,
            time: Some(from.0),
            points: Vec::new(),
            frames: 1,
            chunk: Some(Key::Place { epoch, place }),
        }
    }

    /// Returns gathered chunks of these lengths.
    fn gathered(lens: &[u64]) -> Gathered {
        gathered_from(Lsn(0), lens)
    }

    fn gathered_from(mut from: Lsn, lens: &[u64]) -> Gathered {
        let mut gathered = Gathered::new(SIZE);
        for len in lens {
            gathered.add(piece(from, *len));
            from = from.plus(*len);
        }
        gathered
    }

    /// Takes what is complete, up to eight. Returns the lengths, and negative ones for chunks that are copied.
    fn taken(gathered: &mut Gathered) -> Vec<i64> {
        let taken = gathered.take_complete(8).into_iter();
        let len = |content: Content| match content {
            Content::Copy { segment, .. } => -(segment.len() as i64),
            Content::Small(small) => {
                let len: usize = small.log.iter().map(Bytes::len).sum();
                assert_eq!(len as u64, small.segment.len());
                len as i64
            }
        };
        taken.map(len).collect()
    }

    #[test]
    fn small_pieces_grow_to_a_segment_and_large_chunks_are_copied() {
        let mut some = gathered(&[99, 99, 99]);
        assert_eq!((taken(&mut some), some.bytes()), (vec![], 297));
        let mut full = gathered(&[99; 20]);
        assert_eq!((full.bytes(), taken(&mut full)), (1980, vec![891]));
        assert_eq!((taken(&mut full), taken(&mut full)), (vec![891], vec![]));
        let mut large = gathered(&[100, 5000, 700]);
        assert_eq!(large.bytes(), 0, "they are in the archive");
        assert_eq!(taken(&mut large), [-100, -5000, -700]);
        // A large chunk ends what was gathered before it.
        let mut mixed = gathered(&[50, 50, 200, 99, 300, 300, 99]);
        assert_eq!(taken(&mut mixed), [100, -200]);
        assert_eq!(taken(&mut mixed), [99, -300, -300]);
        assert_eq!((taken(&mut mixed), mixed.bytes()), (vec![], 99));
    }

    #[test]
    fn at_most_eight_are_taken_at_once() {
        let mut many = gathered(&[100; 12]);
        assert_eq!(taken(&mut many).len(), 8);
        assert_eq!(taken(&mut many).len(), 4);
    }

    #[test]
    fn what_an_earlier_owner_left_is_continued() {
        let mut left = gathered(&[99, 99]);
        let later = gathered_from(Lsn(198), &[99, 99, 400]);
        left.append(later);
        assert_eq!(taken(&mut left), [396, -400]);
    }

    /// A part of a chunk, as at the beginning of an epoch, has to be put.
    #[test]
    fn a_piece_that_is_no_whole_chunk_is_not_copied() {
        let mut parts = gathered(&[]);
        parts.add(piece(Lsn(0), 500).starting_at(Lsn(1)));
        parts.add(piece(Lsn(500), 500).joined(piece(Lsn(1000), 500)));
        assert_eq!(taken(&mut parts), [1499]);
        parts.add(piece(Lsn(1500), 500).starting_at(Lsn(1500)));
        assert_eq!(taken(&mut parts), [-500]);
    }
}
