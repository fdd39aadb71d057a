//! Rejection of damaged, swapped and hostile objects, without a panic and without memory beyond the limits.

use crate::samples::*;
use bytes::Bytes;
use logforce::Lsn;
use logforce_archive::format::*;
use logforce_archive::key::{Epoch, Key};
use logforce_archive::object::Object;
use proptest::prelude::*;

/// Reads an object of any kind.
fn read(codec: &Codec, key: &Key, bytes: Bytes) -> Result<(), Reject> {
    if let Key::Part { .. } = key {
        return codec.decode_part(key, bytes).map(drop);
    }
    match codec.decode(key, bytes.clone()) {
        Err(Reject::NoLog) => codec.peek(key, bytes).map(drop),
        result => result.map(drop),
    }
}

/// Returns one object of each kind, for both codecs.
fn objects() -> Vec<(Codec, Key, Bytes)> {
    let mut objects = Vec::new();
    for codec in codecs() {
        let log = noise(300);
        let (key, object) = chunk(&codec, &[0x5a; CONTROL_LEN], &[&log, &[7; 900]]);
        objects.push((codec.clone(), key, object));
        let (key, _, object) = part(&codec, &[&noise(200)[..], &[7; 900]].concat());
        objects.push((codec.clone(), key, object));
        for object in notes("note") {
            let bytes = codec.encode(&object).unwrap();
            objects.push((codec.clone(), object.key(), bytes));
        }
    }
    objects
}

#[test]
fn each_damaged_byte_is_seen() {
    let mut damaged = 0;
    for (codec, key, object) in objects() {
        for at in 0..object.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = object.to_vec();
                bytes[at] ^= flip;
                let result = read(&codec, &key, bytes.into());
                assert!(result.is_err(), "{key}: byte {at} changed by {flip:#x}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 5_000, "{damaged}");
    let identity = identity(Some(&key(1))).encode();
    for at in 0..identity.len() {
        let mut bytes = identity.to_vec();
        bytes[at] ^= 1;
        assert!(Identity::decode(&bytes).is_err(), "byte {at}");
    }
}

#[test]
fn each_shorter_and_each_longer_object_is_seen() {
    for (codec, key, object) in objects() {
        for len in 0..object.len() {
            let error = read(&codec, &key, object.slice(..len)).unwrap_err();
            assert!(matches!(error, Reject::Length { .. }), "{key}: {error}");
        }
        let longer = [&object[..], &[0]].concat();
        let error = read(&codec, &key, longer.into()).unwrap_err();
        assert!(matches!(error, Reject::Length { .. }), "{key}: {error}");
    }
    let identity = identity(None).encode();
    for len in 0..identity.len() {
        assert!(Identity::decode(&identity[..len]).is_err());
    }
}

#[test]
fn an_object_at_another_name_is_seen() {
    let all = objects();
    for (codec, key, object) in &all {
        let other_place = |epoch, place| Key::Place {
            epoch: Epoch(epoch),
            place,
        };
        let mut names: Vec<Key> = all.iter().map(|(_, key, _)| key.clone()).collect();
        names.extend([
            other_place(7, 9),
            other_place(8, 8),
            Key::Pruned(Lsn(1)),
            Key::Identity,
        ]);
        names.push(Key::Segment {
            from: Lsn(0x0304),
            to: Lsn(0x0305),
        });
        for name in names.iter().filter(|name| *name != key) {
            let result = read(codec, name, object.clone());
            assert_eq!(result, Err(Reject::Misplaced), "{key} at {name}");
            let peeked = codec.peek(name, object.clone());
            assert_eq!(peeked, Err(Reject::Misplaced), "{key} at {name}");
        }
    }
}

/// Corrects both checksums of an object.
fn fix(bytes: &mut [u8]) {
    if bytes.len() >= HEADER_LEN {
        let payload = crc32c::crc32c(&bytes[HEADER_LEN..]).to_le_bytes();
        bytes[112..116].copy_from_slice(&payload);
        bytes[8..12].fill(0);
        let header = crc32c::crc32c(&bytes[..HEADER_LEN]).to_le_bytes();
        bytes[8..12].copy_from_slice(&header);
    }
}

#[test]
fn other_logs_other_versions_and_other_programs_are_told_apart() {
    let codec = codec(None);
    let (name, object) = chunk(&codec, &[0; CONTROL_LEN], &[b"log"]);
    let with = |at: usize, byte: u8| {
        let mut bytes = object.to_vec();
        bytes[at] = byte;
        fix(&mut bytes);
        read(&codec, &name, bytes.into()).unwrap_err()
    };
    assert_eq!(with(6, 2), Reject::Version(2));
    assert_eq!(with(0, b'X'), Reject::Magic);
    assert_eq!(with(12, 99), Reject::Reserved);
    assert_eq!(with(13, 4), Reject::Reserved);
    for reserved in [14, 15, 116, 119, 120, 143, 152, 159] {
        assert_eq!(with(reserved, 1), Reject::Reserved, "{reserved}");
    }
    assert_eq!(with(65, 99), Reject::Contradiction, "from above to");
    let theirs = Identity::new(OTHER_LOG, Lsn(0), 5, None).unwrap();
    let theirs = Codec::new(&theirs, None).unwrap();
    let error = read(&theirs, &name, object.clone()).unwrap_err();
    assert!(matches!(error, Reject::OtherLog { found: LOG, .. }));
    assert!(error.to_string().contains(&"11".repeat(16)), "{error}");
    let foreign = read(&codec, &name, Bytes::from_static(b"<html>404</html>"));
    assert_eq!(foreign, Err(Reject::Magic));
}

#[test]
fn fields_that_a_kind_does_not_have_and_lengths_that_disagree_are_seen() {
    let codec = codec(None);
    let with = |key: &Key, object: &Bytes, at: usize| {
        let mut bytes = object.to_vec();
        bytes[at] ^= 1;
        fix(&mut bytes);
        read(&codec, key, bytes.into())
    };
    let has_front = |object: &Object| matches!(object, Object::Base(_));
    for object in notes("name").iter().filter(|object| !has_front(object)) {
        let bytes = codec.encode(object).unwrap();
        // Front, in none of these.
        assert_eq!(with(&object.key(), &bytes, 80), Err(Reject::Reserved));
    }
    let (name, bytes) = chunk(&codec, &[0; CONTROL_LEN], &[b"log of some length"]);
    let is_to = 72;
    assert_eq!(with(&name, &bytes, is_to), Err(Reject::Payload));
}

#[test]
fn without_the_key_nothing_is_read_and_nothing_is_forged() {
    let [plain, encrypted] = codecs();
    let (name, object) = chunk(&encrypted, &[0; CONTROL_LEN], &[b"log"]);
    assert_eq!(read(&plain, &name, object.clone()), Err(Reject::NoKey));
    assert!(
        encrypted.peek(&name, object.slice(..HEADER_LEN)).is_ok(),
        "positions are readable"
    );
    let (_, stranger) = chunk(&plain, &[0; CONTROL_LEN], &[b"log"]);
    assert_eq!(read(&encrypted, &name, stranger), Err(Reject::NotEncrypted));
    let other = codec(Some(&key(1)));
    assert_eq!(
        read(&other, &name, object.clone()),
        Err(Reject::Forged),
        "another salt"
    );
    // Checksums can be corrected without the key; the tag covers header and payload.
    for at in (12..object.len()).filter(|at| !(112..116).contains(at)) {
        let mut bytes = object.to_vec();
        bytes[at] ^= 1;
        fix(&mut bytes);
        assert!(read(&encrypted, &name, bytes.into()).is_err(), "byte {at}");
    }
}

#[test]
fn an_encoder_refuses_what_no_reader_accepts() {
    let codec = codec(None);
    let object = Object::Chunk(chunk_of(3));
    let part = LogPart {
        control: &[0; CONTROL_LEN],
        meta: None,
        points: &[],
        log: &[b"log"],
    };
    let mut encoder = codec.encoder();
    assert!(encoder.encode(&object, &part).is_ok());
    let long = [0; MAX_META_LEN + 1];
    let meta = LogPart {
        meta: Some(&long),
        ..part
    };
    let error = encoder.encode(&object, &meta).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the metadata has 4001 bytes, maximum 4000"
    );
    let longer = LogPart {
        log: &[b"log", b"!"],
        ..part
    };
    assert_eq!(encoder.encode(&object, &longer), Err(Reject::Contradiction));
    assert_eq!(
        codec.encode(&object),
        Err(Reject::Contradiction),
        "without its log"
    );
    let error = codec.encode(&notes(&"x".repeat(2000))[0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the name in it has 2000 bytes, maximum 1024"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_hostile_length_takes_no_memory() {
    let codec = codec(None);
    let (name, object) = chunk(&codec, &[0; CONTROL_LEN], &[&[0; 9000]]);
    let limit = Codec::max_object_len();
    for len in [limit, 1 << 40, u64::MAX] {
        let mut bytes = object.to_vec();
        bytes[96..104].copy_from_slice(&len.to_le_bytes());
        fix(&mut bytes);
        let bytes = Bytes::from(bytes);
        let mut result = None;
        let taken = allocation_counter::measure(|| result = Some(read(&codec, &name, bytes)));
        assert!(
            matches!(result, Some(Err(Reject::TooLarge { .. }))),
            "{result:?}"
        );
        assert!(taken.bytes_total < 10_000, "{taken:?}");
    }
    // The stated length is the limit of what a payload may decompress to.
    let mut bytes = object.to_vec();
    bytes[96..104].copy_from_slice(&5000_u64.to_le_bytes());
    fix(&mut bytes);
    assert_eq!(read(&codec, &name, bytes.into()), Err(Reject::Compression));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Headers and payloads with right checksums and any content.
    #[test]
    fn hostile_bytes_do_no_harm(
        which in 0_usize..12,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..12),
        len in any::<u16>(),
    ) {
        let (codec, key, object) = objects().swap_remove(which);
        let mut bytes = object.to_vec();
        if len % 4 == 0 {
            bytes.truncate(usize::from(len) % (bytes.len() + 1));
        }
        for (at, byte) in changes {
            // Lengths of megabytes are legal, and slow to test.
            let at = usize::from(at) % object.len();
            if at < bytes.len() && !(98..104).contains(&at) {
                bytes[at] = byte;
            }
        }
        fix(&mut bytes);
        let _ = Identity::decode(&bytes);
        let _ = read(&codec, &key, bytes.into());
    }
}
