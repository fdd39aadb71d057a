//! Body of the fuzz target `archive_objects`: objects of arbitrary bytes. It must return, and an object that is
//! read must be the same after it was made again.

use bytes::Bytes;
use logforce::{LogId, Lsn};
use logforce_archive::format::*;
use logforce_archive::key::{Epoch, Key};
use logforce_archive::object::Object;

const LOG: LogId = LogId([0x11; 16]);
/// Largest payload that a header may state here, bytes. The format permits 256 MiB, and takes memory for it.
const MAX_BODY: u64 = 1 << 20;

fn keys() -> [Key; 7] {
    let (epoch, place, lsn) = (Epoch(7), 8, Lsn(4096));
    [
        Key::Place { epoch, place },
        Key::Segment {
            from: Lsn(0x0304),
            to: Lsn(0x0304 + 64),
        },
        Key::Floor { epoch, place, lsn },
        Key::Mark("note".to_owned()),
        Key::Pruned(lsn),
        Key::Hint,
        Key::Identity,
    ]
}

/// Corrects the log, the lengths and the checksums of a header, as an attacker would.
fn seal(object: &mut [u8]) {
    let Some((header, payload)) = object.split_at_mut_checked(HEADER_LEN) else {
        return;
    };
    header[..6].copy_from_slice(b"LFARCH");
    header[6..8].copy_from_slice(&ARCHIVE_FORMAT_VERSION.to_le_bytes());
    header[16..32].copy_from_slice(&LOG.0);
    let mut len = [0; 8];
    len.copy_from_slice(&header[96..104]);
    let is_compressed = header[13] & 1 != 0;
    let body = match is_compressed {
        true => u64::from_le_bytes(len).min(MAX_BODY),
        false => payload.len() as u64,
    };
    header[96..104].copy_from_slice(&body.to_le_bytes());
    header[104..112].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    header[112..116].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    header[8..12].fill(0);
    let checksum = crc32c::crc32c(header);
    header[8..12].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads an object of these bytes: a byte that chooses, then the object. Returns whether it should be kept.
pub fn objects(input: &[u8]) -> bool {
    let Some((choice, object)) = input.split_first() else {
        return false;
    };
    let secret = (choice & 0x10 != 0).then(|| SecretKey::new([1; KEY_LEN]));
    let identity = Identity::new(LOG, Lsn(512), 5, None).unwrap();
    let codec = match &secret {
        None => Codec::new(&identity, None).unwrap(),
        Some(secret) => {
            let identity = Identity::new(LOG, Lsn(512), 5, Some(secret)).unwrap();
            Codec::new(&identity, Some(secret)).unwrap()
        }
    };
    let mut object = object.to_vec();
    if choice & 0x20 != 0 && object.len() >= HEADER_LEN {
        // An input is too short for a control slot.
        object.splice(HEADER_LEN..HEADER_LEN, [0; CONTROL_LEN]);
    }
    if choice & 8 != 0 {
        seal(&mut object);
    }
    let object = Bytes::from(object);
    let Some(key) = keys().into_iter().nth(usize::from(choice & 7)) else {
        return false;
    };
    if let Ok(identity) = Identity::decode(&object) {
        assert_eq!(Identity::decode(&identity.encode()).as_ref(), Ok(&identity));
    }
    let peeked = codec.peek(&key, object.clone());
    assert_eq!(peeked.is_ok(), codec.time(&key, &object).is_ok());
    match codec.decode(&key, object) {
        Ok((object, stored)) => {
            assert_eq!(peeked.as_ref(), Ok(&object));
            let control = stored.control[..].try_into().unwrap();
            let part = LogPart {
                control,
                meta: stored.meta.as_deref(),
                points: &stored.points,
                log: &[&stored.log],
            };
            let again = codec.encoder().encode(&object, &part).unwrap();
            assert_eq!(codec.decode(&key, again), Ok((object, stored)));
        }
        Err(Reject::NoLog) => {
            let Ok(object) = peeked else { return true };
            if !matches!(object, Object::Identity(_)) {
                let again = codec.encode(&object).unwrap();
                assert_eq!(codec.peek(&key, again), Ok(object));
            }
        }
        Err(_) => {}
    }
    true
}
