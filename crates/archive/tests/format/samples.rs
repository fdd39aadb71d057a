//! Objects for the tests.

use bytes::Bytes;
use logforce::{LogId, Lsn};
use logforce_archive::format::*;
use logforce_archive::key::{BaseId, Epoch, Key};
use logforce_archive::object::{
    Base, Chunk, Floor, Hint, Mark, Nonce, Object, PAGE_HEADER_LEN, Part, Pruned, Seal,
};

pub const LOG: LogId = LogId([0x11; 16]);
pub const OTHER_LOG: LogId = LogId([0x12; 16]);

pub fn key(byte: u8) -> SecretKey {
    SecretKey::new([byte; KEY_LEN])
}

pub fn identity(key: Option<&SecretKey>) -> Identity {
    Identity::new(LOG, Lsn(512), 5, key).unwrap()
}

/// Returns codecs of a plain archive and of an encrypted one.
pub fn codecs() -> [Codec; 2] {
    [None, Some(key(1))].map(|key| codec(key.as_ref()))
}

pub fn codec(key: Option<&SecretKey>) -> Codec {
    let identity = identity(key);
    Codec::new(&identity, key).unwrap()
}

/// Returns each kind that is stored without a part of the log.
pub fn notes(text: &str) -> Vec<Object> {
    let (epoch, place, lsn) = (Epoch(3), 4, Lsn(4096));
    let (nonce, owner, time) = (Nonce(5), text.to_owned(), 6);
    vec![
        Object::Seal(Seal {
            epoch,
            place,
            nonce,
            owner: owner.clone(),
            settled: 2,
            time,
        }),
        Object::Floor(Floor { epoch, place, lsn }),
        Object::Mark(Mark {
            name: text.to_owned(),
            lsn,
            time,
        }),
        Object::Pruned(Pruned { lsn }),
        Object::Hint(Hint {
            epoch,
            nonce,
            owner,
            first: lsn,
        }),
        Object::Base(Base {
            id: BASE,
            first_segment: Lsn(512),
            end: Lsn(9000),
            parts: 2,
            bytes: 3,
            time,
            header: [7; PAGE_HEADER_LEN],
        }),
    ]
}

const BASE: BaseId = BaseId {
    lsn: Lsn(4096),
    random: 8,
};

/// Encodes a part of a base copy.
pub fn part(codec: &Codec, body: &[u8]) -> (Key, Part, Bytes) {
    let part = Part {
        base: BASE,
        number: 1,
        time: 6,
    };
    let bytes = codec.encoder().encode_part(part, body).unwrap();
    (Object::Part(part).key(), part, bytes)
}

/// Returns the chunk of `len` bytes at place 8 of epoch 7.
pub fn chunk_of(len: u64) -> Chunk {
    Chunk {
        epoch: Epoch(7),
        place: 8,
        nonce: Nonce(0x22),
        from: Lsn(0x0304),
        to: Lsn(0x0304 + len),
        front: Lsn(0x0102),
        settled: 0x0708,
        time: 0x0506,
    }
}

/// Returns bytes that do not shrink.
pub fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Encodes a chunk with this log.
pub fn chunk(codec: &Codec, control: &[u8; CONTROL_LEN], log: &[&[u8]]) -> (Key, Bytes) {
    let len: usize = log.iter().map(|slice| slice.len()).sum();
    let object = Object::Chunk(chunk_of(len as u64));
    let points = [3, 9].map(|n| Point {
        time: n,
        lsn: Lsn(n),
    });
    let part = LogPart {
        control,
        meta: Some(b"of the owner"),
        points: &points,
        log,
    };
    let bytes = codec.encoder().encode(&object, &part).unwrap();
    (object.key(), bytes)
}
