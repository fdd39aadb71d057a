//! Removal of copies that were cut short.

use super::remove_partial;
use crate::archive::{Archive, ArchiveOptions, runtime};
use crate::format::Identity;
use crate::key::{BaseId, Key};
use crate::object::{Base, Object, PAGE_HEADER_LEN, Part};
use logforce::{LogId, Lsn};

const DAY: u64 = 24 * 3600 * 1_000_000_000;

#[test]
fn a_copy_without_its_last_object_is_removed_a_day_later() {
    let home = tempfile::tempdir_in(".").unwrap();
    let archive = Archive::open(home.path().to_str().unwrap(), ArchiveOptions::default()).unwrap();
    runtime().unwrap().block_on(async {
        let bucket = archive.bucket();
        let identity = |_: Option<&_>| Ok(Identity::new(LogId([1; 16]), Lsn(0), 5, None)?);
        bucket.read_or_create(identity).await.unwrap();
        let copy = |random| BaseId {
            lsn: Lsn(9),
            random,
        };
        // Complete, cut short, and cut short later.
        for (random, time) in [(1, 100), (2, 100), (3, 100 + DAY / 2)] {
            for number in 0..3 {
                let part = Part {
                    base: copy(random),
                    number,
                    time: time + number,
                };
                let bytes = bucket
                    .codec()
                    .unwrap()
                    .encoder()
                    .encode_part(part, b"pages");
                let key = Object::Part(part).key();
                bucket.store().create(&key, bytes.unwrap()).await;
            }
        }
        let base = Object::Base(Base {
            id: copy(1),
            first_segment: Lsn(0),
            end: Lsn(9),
            parts: 3,
            bytes: 15,
            time: 100,
            header: [0; PAGE_HEADER_LEN],
        });
        let bytes = bucket.codec().unwrap().encode(&base).unwrap();
        bucket.store().create(&base.key(), bytes).await;
        let left = async || {
            let keys = bucket
                .list("d/", None, |key| matches!(key, Key::Part { .. }))
                .await;
            keys.unwrap().len()
        };
        let now = 102 + DAY;
        assert_eq!(remove_partial(&bucket, now - 1, false).await.unwrap(), 0);
        assert_eq!(remove_partial(&bucket, now, true).await.unwrap(), 1);
        assert_eq!(left().await, 9);
        assert_eq!(remove_partial(&bucket, now, false).await.unwrap(), 1);
        assert_eq!(left().await, 6);
        assert_eq!(remove_partial(&bucket, now + DAY, false).await.unwrap(), 1);
        assert_eq!(left().await, 3);
    });
}
