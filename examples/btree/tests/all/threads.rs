//! Threads that put, delete, read and scan at once.

use crate::common::{open_real, shown};
use logforce::pages::Options;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

fn key(thread: u64, n: u64) -> String {
    // Neighbours of different threads share leaves.
    format!("{n:05}-{thread}")
}

#[test]
fn many_threads() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new()
        .checkpoint_distance(1 << 20)
        .cache_size(1 << 20);
    let tree = open_real(&dir.path().join("tree"), options);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..6)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    for n in 0..400 {
                        let value = n.to_string().repeat(1 + n as usize % 40);
                        tree.put(key(thread, n), &value).unwrap();
                        let read = tree.get(key(thread, n)).unwrap();
                        assert_eq!(read.as_deref(), Some(value.as_bytes()));
                        if n % 3 == 2 {
                            assert!(tree.delete(key(thread, n - 1)).unwrap());
                            assert!(tree.get(key(thread, n - 1)).unwrap().is_none());
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (tree, is_done) = (&tree, &is_done);
            scope.spawn(move || {
                while !is_done.load(SeqCst) {
                    for view in [tree.snapshot().unwrap(), tree.latest().unwrap()] {
                        let up = view.iter().map(|e| e.unwrap().key().to_vec());
                        let up: Vec<_> = up.collect();
                        assert!(up.is_sorted() && up.len() as u64 == view.len());
                    }
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, SeqCst);
    });
    let shown = shown(&tree.snapshot().unwrap());
    assert_eq!(shown.len(), 6 * (400 - 133));
    tree.close().unwrap();
}

#[test]
fn writes_of_many_threads_that_build_on_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let tree = open_real(&dir.path().join("tree"), Options::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let mut write = tree.begin().unwrap();
                    let count = write.get("count").unwrap();
                    let count = count.map_or(0, |c| u64::from_le_bytes(c[..].try_into().unwrap()));
                    write.put("count", (count + 1).to_le_bytes()).unwrap();
                    write.commit().unwrap();
                }
            });
        }
    });
    let count = tree.get("count").unwrap().unwrap();
    assert_eq!(*count, 800u64.to_le_bytes());
    tree.close().unwrap();
}
