//! Objects of the protocol, and their headers and notes.

use super::header::{Head, Kind};
use super::reject::Reject;
use crate::key::{BaseId, Epoch, Key};
use crate::object::{
    Base, Chunk, Floor, Hint, Identity, Mark, Nonce, Object, Part, Pruned, Seal, Segment,
};
use logforce::{LogId, Lsn};

/// Returns the header and the note of an object.
pub(super) fn split(log_id: LogId, object: &Object) -> (Head, &[u8]) {
    let none = Head {
        kind: Kind::Identity,
        log_id,
        epoch: Epoch(0),
        place: 0,
        nonce: Nonce(0),
        from: Lsn(0),
        to: Lsn(0),
        front: Lsn(0),
        time: 0,
        settled: 0,
    };
    match object {
        Object::Identity(Identity { log, start }) => {
            let head = Head {
                log_id: *log,
                from: *start,
                to: *start,
                ..none
            };
            (head, &[])
        }
        Object::Chunk(chunk) => {
            let head = Head {
                kind: Kind::Chunk,
                log_id,
                epoch: chunk.epoch,
                place: chunk.place,
                nonce: chunk.nonce,
                from: chunk.from,
                to: chunk.to,
                front: chunk.front,
                time: chunk.time,
                settled: chunk.settled,
            };
            (head, &[])
        }
        Object::Seal(seal) => {
            let head = Head {
                kind: Kind::Seal,
                epoch: seal.epoch,
                place: seal.place,
                nonce: seal.nonce,
                time: seal.time,
                settled: seal.settled,
                ..none
            };
            (head, seal.owner.as_bytes())
        }
        Object::Floor(Floor { epoch, place, lsn }) => {
            let head = Head {
                kind: Kind::Floor,
                epoch: *epoch,
                place: *place,
                from: *lsn,
                to: *lsn,
                ..none
            };
            (head, &[])
        }
        Object::Segment(Segment { from, to }) => {
            let head = Head {
                kind: Kind::Segment,
                from: *from,
                to: *to,
                ..none
            };
            (head, &[])
        }
        Object::Mark(Mark { name, lsn, time }) => {
            let head = Head {
                kind: Kind::Mark,
                from: *lsn,
                to: *lsn,
                time: *time,
                ..none
            };
            (head, name.as_bytes())
        }
        Object::Pruned(Pruned { lsn }) => {
            let head = Head {
                kind: Kind::Pruned,
                from: *lsn,
                to: *lsn,
                ..none
            };
            (head, &[])
        }
        Object::Base(base) => {
            let head = Head {
                kind: Kind::Base,
                place: base.parts,
                nonce: Nonce(base.id.random.into()),
                from: base.id.lsn,
                to: base.end,
                front: base.first_segment,
                time: base.time,
                settled: base.bytes,
                ..none
            };
            (head, &base.header)
        }
        Object::Part(Part { base, number, time }) => {
            let head = Head {
                kind: Kind::Part,
                place: *number,
                nonce: Nonce(base.random.into()),
                from: base.lsn,
                to: base.lsn,
                time: *time,
                ..none
            };
            (head, &[])
        }
        Object::Hint(hint) => {
            let head = Head {
                kind: Kind::Hint,
                epoch: hint.epoch,
                nonce: hint.nonce,
                from: hint.first,
                to: hint.first,
                ..none
            };
            (head, hint.owner.as_bytes())
        }
    }
}

/// Returns true if a chunk stands for a segment: the store has copied it.
pub(super) fn is_copied_chunk(key: &Key, head: &Head) -> bool {
    head.kind == Kind::Chunk && matches!(key, Key::Segment { .. })
}

/// Returns the object `key` of a header and a note. A chunk, a segment or a part has no note.
pub(super) fn join(key: &Key, head: &Head, note: &[u8]) -> Result<Object, Reject> {
    let (from, to) = (head.from, head.to);
    if is_copied_chunk(key, head) && *key == (Key::Segment { from, to }) {
        return Ok(Object::Segment(Segment { from, to }));
    }
    let base_id = || BaseId {
        lsn: head.from,
        random: head.nonce.0 as u64,
    };
    let text = || String::from_utf8(note.to_vec()).map_err(|_| Reject::Payload);
    let object = match head.kind {
        Kind::Identity => Object::Identity(Identity {
            log: head.log_id,
            start: head.from,
        }),
        Kind::Chunk => Object::Chunk(Chunk {
            epoch: head.epoch,
            place: head.place,
            nonce: head.nonce,
            from: head.from,
            to: head.to,
            front: head.front,
            settled: head.settled,
            time: head.time,
        }),
        Kind::Seal => Object::Seal(Seal {
            epoch: head.epoch,
            place: head.place,
            nonce: head.nonce,
            owner: text()?,
            settled: head.settled,
            time: head.time,
        }),
        Kind::Floor => Object::Floor(Floor {
            epoch: head.epoch,
            place: head.place,
            lsn: head.from,
        }),
        Kind::Segment => Object::Segment(Segment {
            from: head.from,
            to: head.to,
        }),
        Kind::Mark => Object::Mark(Mark {
            name: text()?,
            lsn: head.from,
            time: head.time,
        }),
        Kind::Pruned => Object::Pruned(Pruned { lsn: head.from }),
        Kind::Base => Object::Base(Base {
            id: base_id(),
            first_segment: head.front,
            end: head.to,
            parts: head.place,
            bytes: head.settled,
            time: head.time,
            header: note.try_into().map_err(|_| Reject::Payload)?,
        }),
        Kind::Part => Object::Part(Part {
            base: base_id(),
            number: head.place,
            time: head.time,
        }),
        Kind::Hint => Object::Hint(Hint {
            epoch: head.epoch,
            nonce: head.nonce,
            owner: text()?,
            first: head.from,
        }),
    };
    // Another object at this name, or a header with more than its kind has.
    if object.key() != *key {
        return Err(Reject::Misplaced);
    }
    let (mut expected, expected_note) = split(head.log_id, &object);
    if head.kind == Kind::Segment {
        // Not part of the object: two writers of one segment need not agree on it.
        expected.time = head.time;
    }
    if (expected, expected_note) != (*head, note) {
        return Err(Reject::Reserved);
    }
    Ok(object)
}
