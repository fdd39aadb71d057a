//! Round trips: each object is decoded as it was encoded.

use crate::samples::*;
use logforce::Lsn;
use logforce_archive::format::*;
use logforce_archive::object::{Chunk, Object, Segment};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_part_of_the_log(
        slices in vec(vec(any::<u8>(), 0..3000), 1..4),
        repeat in 1_usize..20,
        meta in proptest::option::of(vec(any::<u8>(), 0..MAX_META_LEN)),
        steps in vec((0_u64..5, 0_u64..5), 0..30),
        is_segment: bool,
        from in 0..u64::MAX / 2,
    ) {
        let slices: Vec<Vec<u8>> = slices.iter().map(|slice| slice.repeat(repeat)).collect();
        let log: Vec<&[u8]> = slices.iter().map(|slice| &slice[..]).collect();
        let len = slices.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assume!(len > 0);
        let (from, to) = (Lsn(from), Lsn(from + len));
        let object = if is_segment {
            Object::Segment(Segment { from, to })
        } else {
            Object::Chunk(Chunk { from, to, ..chunk_of(0) })
        };
        let key = object.key();
        let (mut time, mut lsn) = (0, 0);
        let points: Vec<Point> = steps
            .iter()
            .map(|(t, l)| {
                (time, lsn) = (time + t, lsn + l);
                Point { time, lsn: Lsn(lsn) }
            })
            .collect();
        let control = [0x5a; CONTROL_LEN];
        let part = LogPart { control: &control, meta: meta.as_deref(), points: &points, log: &log };
        for codec in codecs() {
            let bytes = codec.encoder().encode(&object, &part).unwrap();
            let peeked = codec.peek(&key, bytes.slice(..HEADER_LEN));
            prop_assert_eq!(peeked.as_ref(), Ok(&object));
            let (found, stored) = codec.decode(&key, bytes).unwrap();
            prop_assert_eq!(&found, &object);
            prop_assert_eq!(&stored.control[..], &control[..]);
            prop_assert_eq!(stored.meta.as_deref(), meta.as_deref());
            prop_assert_eq!(&stored.points, &points);
            prop_assert_eq!(&stored.log[..], &slices.concat()[..]);
        }
    }

    #[test]
    fn a_note(text in "\\PC{0,200}") {
        for codec in codecs() {
            for object in notes(&text) {
                let bytes = codec.encode(&object).unwrap();
                prop_assert!(bytes.len() as u64 <= PEEK_LEN);
                prop_assert_eq!(codec.peek(&object.key(), bytes), Ok(object));
            }
        }
    }
}

/// The store copies large chunks into the second level.
#[test]
fn a_chunk_stands_for_the_segment_of_its_range() {
    for codec in codecs() {
        let log = noise(10_000);
        let of_owner = chunk_of(log.len() as u64);
        let part = LogPart {
            control: &[0x5a; CONTROL_LEN],
            meta: None,
            points: &[],
            log: &[&log],
        };
        let bytes = codec.encoder().encode(&Object::Chunk(of_owner), &part);
        let bytes = bytes.unwrap();
        let Chunk { from, to, time, .. } = of_owner;
        let key = Object::Segment(Segment { from, to }).key();
        let (found, stored) = codec.decode(&key, bytes.clone()).unwrap();
        assert_eq!(found, Object::Segment(Segment { from, to }));
        assert_eq!(stored.log, log);
        assert_eq!(stored.points, [Point { time, lsn: to }]);
        assert_eq!(codec.time(&key, &bytes), Ok(time));
        let other = Object::Segment(Segment {
            from,
            to: to.plus(1),
        })
        .key();
        assert_eq!(codec.decode(&other, bytes).err(), Some(Reject::Misplaced));
    }
}

#[test]
fn an_encoder_is_used_again() {
    let codec = codec(None);
    let mut encoder = codec.encoder();
    for n in 1..5_u8 {
        let log = vec![n; 10_000];
        let object = Object::Chunk(chunk_of(log.len() as u64));
        let part = LogPart {
            control: &[0; CONTROL_LEN],
            meta: None,
            points: &[],
            log: &[&log],
        };
        let bytes = encoder.encode(&object, &part).unwrap();
        assert!(bytes.len() < 600, "{} bytes", bytes.len());
        assert_eq!(codec.decode(&object.key(), bytes).unwrap().1.log, log);
    }
}

#[test]
fn what_does_not_shrink_is_stored_as_it_is() {
    let log = noise(100_000);
    let (_, object) = chunk(
        &codec(None),
        noise(CONTROL_LEN)[..].try_into().unwrap(),
        &[&log],
    );
    let prefix = CONTROL_LEN + 4 + "of the owner".len() + 4 + 2 * 16;
    assert_eq!(object.len(), HEADER_LEN + prefix + log.len());
    assert!(object.ends_with(&log));
}

/// Large payloads are judged by samples.
#[test]
fn a_large_payload_is_compressed_if_a_part_of_it_shrinks() {
    let stored = |log: &[&[u8]]| {
        let (key, object) = chunk(&codec(None), &[0; CONTROL_LEN], log);
        let (_, read) = codec(None).decode(&key, object.clone()).unwrap();
        assert_eq!(read.log, log.concat());
        object.len()
    };
    let (noise, zeroes) = (noise(1 << 20), vec![0; 1 << 20]);
    assert!(stored(&[&noise]) > 1 << 20);
    assert!(stored(&[&noise, &zeroes[..1 << 19]]) < (1 << 20) + 10_000);
    let half: Vec<u8> = noise
        .chunks(4096)
        .zip(zeroes.chunks(4096))
        .flat_map(|(a, b)| [a, b].concat())
        .collect();
    assert!(stored(&[&half]) < (1 << 20) + 50_000);
}

#[test]
fn objects_of_one_payload_are_encrypted_differently() {
    let codec = codec(Some(&key(1)));
    let objects = [0, 1].map(|_| chunk(&codec, &[0; CONTROL_LEN], &[b"the same"]).1);
    assert_ne!(objects[0][HEADER_LEN..], objects[1][HEADER_LEN..]);
    let hint = notes("words of the owner").swap_remove(4);
    let bytes = codec.encode(&hint).unwrap();
    assert!(!bytes.windows(8).any(|window| window == b"words of"));
}

#[test]
fn the_identity_opens_the_archive_for_the_right_key_only() {
    let open = |identity: &Identity, key: Option<&SecretKey>| Codec::new(identity, key).err();
    let plain = identity(None);
    let encrypted = identity(Some(&key(1)));
    for identity in [&plain, &encrypted] {
        assert_eq!(Identity::decode(&identity.encode()), Ok(identity.clone()));
    }
    assert_eq!(open(&plain, None), None);
    assert_eq!(open(&plain, Some(&key(1))), Some(Reject::PlainArchive));
    assert_eq!(open(&encrypted, Some(&key(1))), None);
    assert_eq!(open(&encrypted, None), Some(Reject::NoKey));
    assert_eq!(open(&encrypted, Some(&key(2))), Some(Reject::WrongKey));
    let again = identity(Some(&key(1)));
    assert_ne!(again, encrypted, "each archive has a salt");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_part_of_a_base_copy(body in vec(any::<u8>(), 0..3000), repeat in 1_usize..20) {
        let body = body.repeat(repeat);
        for codec in codecs() {
            let (key, object, bytes) = part(&codec, &body);
            let peeked = codec.peek(&key, bytes.slice(..HEADER_LEN));
            prop_assert_eq!(peeked, Ok(Object::Part(object)));
            let (found, pages) = codec.decode_part(&key, bytes).unwrap();
            prop_assert_eq!(found, object);
            prop_assert_eq!(&pages[..], &body[..]);
        }
    }
}
