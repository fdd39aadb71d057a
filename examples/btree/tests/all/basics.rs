//! Tests of each call, at its limits.

use crate::common::{Map, open_real, shown, small};
use logforce::pages::Options;
use logforce_btree::{Error, MAX_VALUE, Tree, max_key};
use std::ops::Bound;

fn with_tree(options: Options, body: impl FnOnce(&Tree)) {
    let dir = tempfile::tempdir().unwrap();
    let tree = open_real(&dir.path().join("tree"), options);
    body(&tree);
    tree.close().unwrap();
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

#[test]
fn what_was_put_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tree");
    let tree = open_real(&path, small());
    assert!(tree.latest().unwrap().is_empty());
    assert!(!tree.put("b", "2").unwrap());
    assert!(!tree.put("a", "1").unwrap());
    assert!(tree.put("a", "one").unwrap());
    assert!(!tree.delete("c").unwrap());
    assert!(tree.delete("b").unwrap());
    tree.close().unwrap();
    let tree = open_real(&path, small());
    assert_eq!(tree.get("a").unwrap().as_deref(), Some(&b"one"[..]));
    assert!(tree.get("b").unwrap().is_none());
    assert!(tree.get_latest("c").unwrap().is_none());
    let report = tree.snapshot().unwrap().check().unwrap();
    assert_eq!((report.keys, report.height, report.leaf_pages), (1, 1, 1));
    tree.close().unwrap();
}

#[test]
fn keys_and_values_up_to_their_limits_and_no_longer() {
    for options in [small(), Options::new()] {
        with_tree(options, |tree| {
            let size = tree.file().page_size() as usize;
            let max = max_key(size);
            let mut expected = Map::new();
            let mut write = tree.begin().unwrap();
            let lengths = [0, 1, 100, size / 4, size, 2 * size - 16, MAX_VALUE];
            for (n, len) in lengths.into_iter().enumerate() {
                for key_len in [1, max / 2, max] {
                    let key = vec![n as u8; key_len];
                    let value = vec![n as u8 ^ 0x55; len];
                    write.put(&key, &value).unwrap();
                    assert_eq!(write.get(&key).unwrap().as_deref(), Some(&value[..]));
                    expected.insert(key, value);
                }
            }
            write.put("", "the empty key").unwrap();
            expected.insert(Vec::new(), b"the empty key".to_vec());
            let long = write.put(vec![0; max + 1], "").unwrap_err();
            assert!(matches!(long, Error::KeyTooLong { max: m, .. } if m == max));
            let long = write.put("k", vec![0; MAX_VALUE + 1]).unwrap_err();
            assert!(matches!(long, Error::ValueTooLong { max: MAX_VALUE, .. }));
            assert!(long.to_string().contains("maximum 65536"), "{long}");
            write.commit().unwrap();
            assert_eq!(shown(&tree.snapshot().unwrap()), expected);
            for key in expected.keys() {
                tree.delete(key).unwrap();
            }
            let report = tree.snapshot().unwrap().check().unwrap();
            assert_eq!(report.problems, []);
            assert_eq!((report.height, report.leaf_pages), (1, 1));
            assert_eq!((report.inner_pages, report.value_pages), (0, 0));
        });
    }
}

#[test]
fn a_write_is_one_commit_and_a_dropped_one_is_none() {
    with_tree(small(), |tree| {
        let before = tree.latest().unwrap().commit();
        let mut write = tree.begin().unwrap();
        (0..500).for_each(|n| assert!(!write.put(key(n), "x").unwrap()));
        assert_eq!(write.len(), 500);
        assert!(tree.latest().unwrap().is_empty());
        write.commit().unwrap();
        let view = tree.snapshot().unwrap();
        assert_eq!((view.commit(), view.len()), (before + 1, 500));
        let mut write = tree.begin().unwrap();
        (0..500).for_each(|n| assert!(write.delete(key(n)).unwrap()));
        assert!(write.is_empty());
        drop(write);
        assert_eq!(shown(&tree.latest().unwrap()).len(), 500);
        // Nothing to commit.
        tree.begin().unwrap().commit().unwrap();
        assert_eq!(tree.latest().unwrap().commit(), before + 1);
    });
}

#[test]
fn views_stay_as_they_are() {
    with_tree(small(), |tree| {
        let mut views = Vec::new();
        let mut model = Map::new();
        for round in 0..30u32 {
            let mut write = tree.begin().unwrap();
            for n in (round % 7..300).step_by(7) {
                let value = vec![round as u8; (n * 13 % 700) as usize];
                write.put(key(n), &value).unwrap();
                model.insert(key(n), value);
                if n % 3 == 0 {
                    write.delete(key(n / 2)).unwrap();
                    model.remove(&key(n / 2));
                }
            }
            write.commit().unwrap();
            views.push((tree.snapshot().unwrap(), model.clone()));
        }
        for (view, expected) in views {
            assert!(shown(&view) == expected);
        }
    });
}

#[test]
fn scans_have_all_bounds_and_both_ends() {
    with_tree(small(), |tree| {
        let mut write = tree.begin().unwrap();
        let mut model = Map::new();
        for n in (0..400).step_by(2) {
            write.put(key(n), key(n * 3)).unwrap();
            model.insert(key(n), key(n * 3));
        }
        write.commit().unwrap();
        let view = tree.snapshot().unwrap();
        let ends = [0, 1, 2, 199, 200, 201, 397, 398, 399];
        let bounds = |n: u32| [Bound::Included(key(n)), Bound::Excluded(key(n))];
        let bounds: Vec<Bound<Vec<u8>>> = ends
            .into_iter()
            .flat_map(bounds)
            .chain([Bound::Unbounded])
            .collect();
        for from in &bounds {
            for to in &bounds {
                let range = (from.clone(), to.clone());
                let within = |k: &Vec<u8>| std::ops::RangeBounds::contains(&range, k);
                let expected: Vec<&Vec<u8>> = model.keys().filter(|k| within(k)).collect();
                let keys = |e: logforce_btree::Result<logforce_btree::Entry>| {
                    let e = e.unwrap();
                    assert_eq!(e.value(), model[e.key()]);
                    e.key().to_vec()
                };
                let scan = || view.range(range.clone());
                assert!(scan().map(keys).eq(expected.iter().copied().cloned()));
                let down = expected.iter().rev().copied().cloned();
                assert!(scan().rev().map(keys).eq(down));
                // Takes entries from both ends in turns.
                let (mut scan, mut up, mut down) = (scan(), Vec::new(), Vec::new());
                while let Some(e) = scan.next() {
                    up.push(keys(e));
                    down.extend(scan.next_back().map(keys));
                    down.extend(scan.next_back().map(keys));
                }
                assert!(scan.next_back().is_none() && scan.next().is_none());
                up.extend(down.into_iter().rev());
                assert!(up.iter().eq(expected), "{range:?}");
            }
        }
    });
}

#[test]
fn pages_that_are_free_are_used_again() {
    with_tree(small(), |tree| {
        let churn = |round: u32| {
            let mut write = tree.begin().unwrap();
            for n in 0..200 {
                let len = (n * 37 + round * 11) % 1500;
                write.put(key(n), vec![round as u8; len as usize]).unwrap();
            }
            write.commit().unwrap();
            let mut write = tree.begin().unwrap();
            for n in (round % 2..200).step_by(2) {
                assert!(write.delete(key(n)).unwrap());
            }
            write.commit().unwrap();
        };
        (0..4).for_each(churn);
        let before = tree.snapshot().unwrap().check().unwrap();
        (4..40).for_each(churn);
        let after = tree.snapshot().unwrap().check().unwrap();
        assert_eq!(after.problems, []);
        assert!(after.free_pages > 0);
        // The content differs a little from round to round.
        assert!(
            after.page_count <= before.page_count * 11 / 10,
            "{before:?}, {after:?}"
        );
    });
}

#[test]
fn pages_stay_filled() {
    with_tree(small(), |tree| {
        let fill = || {
            let report = tree.snapshot().unwrap().check().unwrap();
            assert_eq!(report.problems, []);
            let pages = report.leaf_pages + report.inner_pages;
            100 * report.used_bytes / (pages * u64::from(tree.file().page_size()))
        };
        let mut write = tree.begin().unwrap();
        (0..5000).for_each(|n| assert!(!write.put(key(n), "0123456789").unwrap()));
        write.commit().unwrap();
        assert!(fill() > 90, "ascending: {} %", fill());
        // Deletes nine of ten keys, scattered.
        let mut write = tree.begin().unwrap();
        for n in (0..5000).filter(|n| n % 10 != 0) {
            write.delete(key(n * 7 % 5000)).unwrap();
        }
        write.commit().unwrap();
        assert!(fill() > 40, "after deletes: {} %", fill());
    });
}

#[test]
fn another_page_file_is_no_tree() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tree");
    let tree = open_real(&path, small());
    let mut txn = tree.file().begin().unwrap();
    txn.page_mut(0).unwrap()[0] ^= 1;
    txn.commit().unwrap();
    let file = tree.file().clone();
    let refused = Tree::of(file.clone()).unwrap_err();
    assert!(matches!(refused, Error::NotATree { .. }), "{refused}");
    let mut txn = file.begin().unwrap();
    txn.page_mut(0).unwrap()[0] ^= 1;
    txn.page_mut(0).unwrap()[8] = 9;
    txn.commit().unwrap();
    let refused = Tree::of(file).unwrap_err();
    assert!(refused.to_string().contains("version 9"), "{refused}");
    let dir = tempfile::tempdir().unwrap();
    let large = Options::new()
        .page_size(64 << 10)
        .require(logforce::Guarantee::ProcessCrash);
    let refused = Tree::open_or_create(dir.path().join("t"), large).unwrap_err();
    assert!(refused.to_string().contains("65536 bytes"), "{refused}");
}
