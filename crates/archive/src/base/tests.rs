//! Copies that were cut short, whose log was pruned, or whose object lies.

use super::{bases, remove_partial};
use crate::archive::{Archive, ArchiveOptions, runtime};
use crate::bucket::Bucket;
use crate::format::Identity;
use crate::key::{BaseId, Key};
use crate::object::{Base, Object, PAGE_HEADER_LEN, Part, Pruned};
use logforce::{LogId, Lsn};
use std::path::Path;

const DAY: u64 = 24 * 3600 * 1_000_000_000;

/// Opens an archive that has an identity only.
fn archive(home: &Path) -> (Archive, Bucket) {
    let archive = Archive::open(home.to_str().unwrap(), ArchiveOptions::default()).unwrap();
    let bucket = archive.bucket();
    let identity = |_: Option<&_>| Ok(Identity::new(LogId([1; 16]), Lsn(0), 5, None)?);
    let created = runtime()
        .unwrap()
        .block_on(async { bucket.read_or_create(identity).await.map(drop) });
    created.unwrap();
    (archive, bucket)
}

async fn create(bucket: &Bucket, object: Object) {
    let bytes = bucket.codec().unwrap().encode(&object).unwrap();
    bucket.store().create(&object.key(), bytes).await;
}

fn base(random: u64, first_segment: u64, end: u64) -> Base {
    let lsn = Lsn(first_segment);
    Base {
        id: BaseId { lsn, random },
        first_segment: lsn,
        end: Lsn(end),
        parts: 0,
        bytes: 0,
        time: end,
        header: [0; PAGE_HEADER_LEN],
    }
}

/// A slow copy ended behind a faster one, for which its log was pruned, and its maker died before it removed it.
#[test]
fn a_newer_copy_without_its_log_does_not_count() {
    for by_count in [true, false] {
        let home = tempfile::tempdir_in(".").unwrap();
        let (archive, bucket) = archive(home.path());
        let (usable, unusable) = (base(1, 50, 60), base(2, 10, 90));
        let runtime = runtime().unwrap();
        runtime.block_on(async {
            create(&bucket, Object::Pruned(Pruned { lsn: Lsn(50) })).await;
            create(&bucket, Object::Base(usable)).await;
            create(&bucket, Object::Base(unusable)).await;
        });
        let pruned = match by_count {
            true => archive.keep_bases(1, false).unwrap(),
            false => archive.prune(100, false).unwrap(),
        };
        assert_eq!((pruned.bases, pruned.start), (1, Lsn(50)));
        assert_eq!(runtime.block_on(bases(&bucket)).unwrap(), [usable]);
    }
}

/// A verification collected the names of all parts that the object counts.
#[test]
fn a_copy_that_counts_any_number_of_parts_is_damaged() {
    let home = tempfile::tempdir_in(".").unwrap();
    let (archive, bucket) = archive(home.path());
    let parts = u64::MAX;
    let lies = Object::Base(Base {
        parts,
        ..base(1, 0, 9)
    });
    runtime().unwrap().block_on(create(&bucket, lies));
    for sample in [None, Some(0.5)] {
        let damage = archive.verify(sample, &mut |_| {}).unwrap().damage;
        assert!(
            damage.len() == 1 && damage[0].contains("/00000000000000000000"),
            "{damage:?}"
        );
    }
}

#[test]
fn a_copy_without_its_last_object_is_removed_a_day_later() {
    let home = tempfile::tempdir_in(".").unwrap();
    let (_, bucket) = archive(home.path());
    runtime().unwrap().block_on(async {
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
        let (id, parts) = (copy(1), 3);
        let complete = Base {
            id,
            parts,
            ..base(1, 0, 9)
        };
        create(&bucket, Object::Base(complete)).await;
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
