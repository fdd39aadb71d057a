//! Random sequences of operations, compared with a sorted map.

use crate::common::{Map, PAGE, open_simulated, shown};
use logforce_btree::{Tree, max_key};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Put(u16, usize),
    Delete(u16),
    /// Deletes up to a number of keys, starting at a key.
    DeleteRange(u16, u16),
    Get(u16),
    Scan(u16, u16),
    Commit,
    Forget,
    Checkpoint,
    Check,
    Reopen,
}

/// Returns keys of all lengths, many with a common prefix.
fn key(n: u16) -> Vec<u8> {
    let mut key = format!("{:03}", n / 16).into_bytes();
    let len = [0, 1, 2, 5, 20, 60, max_key(PAGE as usize)][usize::from(n % 7)];
    key.resize(
        key.len().max(len) - usize::from(n % 2),
        b'a' + (n % 16) as u8,
    );
    key
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..600u16;
    let len = prop_oneof![8 => 0..60usize, 3 => 60..600usize, 1 => 600..6000usize];
    prop_oneof![
        40 => (key.clone(), len).prop_map(|(k, len)| Step::Put(k, len)),
        15 => key.clone().prop_map(Step::Delete),
        2 => (key.clone(), 1..120u16).prop_map(|(k, n)| Step::DeleteRange(k, n)),
        5 => key.clone().prop_map(Step::Get),
        3 => (key.clone(), key).prop_map(|(a, b)| Step::Scan(a, b)),
        6 => Just(Step::Commit),
        1 => Just(Step::Forget),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Check),
        1 => Just(Step::Reopen),
    ]
}

/// Runs steps up to the end of a write. Returns their number.
fn write(tree: &Tree, model: &mut Map, steps: &[Step]) -> usize {
    let mut write = tree.begin().unwrap();
    let mut next = model.clone();
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Put(k, len) => {
                let value = vec![i as u8; len];
                let was_there = write.put(key(k), &value).unwrap();
                assert_eq!(was_there, next.insert(key(k), value).is_some());
            }
            Step::Delete(k) => {
                let was_there = write.delete(key(k)).unwrap();
                assert_eq!(was_there, next.remove(&key(k)).is_some());
            }
            Step::DeleteRange(k, count) => {
                let keys: Vec<Vec<u8>> = next
                    .range(key(k)..)
                    .take(count.into())
                    .map(|(k, _)| k.clone())
                    .collect();
                for key in keys {
                    assert!(write.delete(&key).unwrap());
                    next.remove(&key);
                }
            }
            Step::Get(k) => {
                let got = write.get(key(k)).unwrap();
                assert_eq!(got.as_deref(), next.get(&key(k)).map(|v| &v[..]));
            }
            Step::Forget => return i + 1,
            _ => {
                write.commit().unwrap();
                *model = next;
                return i;
            }
        }
        assert_eq!(write.len(), next.len() as u64);
    }
    write.commit().unwrap();
    *model = next;
    steps.len()
}

fn scan(tree: &Tree, model: &Map, a: u16, b: u16) {
    let (from, to) = (key(a).min(key(b)), key(a).max(key(b)));
    let view = tree.latest().unwrap();
    let found = |e: logforce_btree::Result<logforce_btree::Entry>| {
        let e = e.unwrap();
        (e.key().to_vec(), e.value().to_vec())
    };
    let expected: Vec<_> = model
        .range(from.clone()..to.clone())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let up: Vec<_> = view.range(&from[..]..&to[..]).map(found).collect();
    let mut down: Vec<_> = view.range(&from[..]..&to[..]).rev().map(found).collect();
    down.reverse();
    assert!(up == expected && down == expected);
}

fn run(rt: &SimRuntime, steps: &[Step]) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let mut tree = open_simulated(rt, &disk).unwrap();
    let mut model = Map::new();
    let mut at = 0;
    while let Some(step) = steps.get(at) {
        match *step {
            Step::Scan(a, b) => scan(&tree, &model, a, b),
            Step::Checkpoint => tree.file().checkpoint().unwrap(),
            Step::Check => assert!(shown(&tree.latest().unwrap()) == model),
            Step::Reopen => {
                tree.close().unwrap();
                tree = open_simulated(rt, &disk).unwrap();
            }
            Step::Commit | Step::Forget => {}
            _ => {
                at += write(&tree, &mut model, &steps[at..]);
                continue;
            }
        }
        at += 1;
    }
    assert!(shown(&tree.snapshot().unwrap()) == model);
    tree.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn does_what_a_sorted_map_does(steps in prop::collection::vec(step(), 1..900)) {
        SimRuntime::run(1, |rt| run(rt, &steps));
    }
}
