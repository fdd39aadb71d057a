//! Corrupt pages with a right checksum cause errors, never a panic or a hang, and the checker finds
//! them.

use crate::common::{PAGE, open_simulated};
use logforce_btree::{Error, Tree};
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};

fn key(n: u64) -> String {
    format!("{n:04}")
}

/// Runs `body` on a tree of three levels with chains and free pages.
fn with_grown(body: impl FnOnce(&Tree)) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let tree = open_simulated(rt, &disk).unwrap();
        grow(&tree);
        body(&tree);
    });
}

fn grow(tree: &Tree) {
    let mut write = tree.begin().unwrap();
    for n in 0..400 {
        let len = match n % 40 {
            0 => 1800,
            _ => 10 + n as usize % 60,
        };
        write.put(key(n), vec![n as u8; len]).unwrap();
    }
    write.commit().unwrap();
    let mut write = tree.begin().unwrap();
    (100..160).for_each(|n| assert!(write.delete(key(n)).unwrap()));
    write.commit().unwrap();
}

/// Calls all operations of the tree. They may fail, but must return.
fn use_it(tree: &Tree) -> Result<(), Error> {
    let view = tree.latest()?;
    let mut first = Ok(());
    let mut note = |result: Result<(), Error>| {
        if first.is_ok() {
            first = result;
        }
    };
    for n in (0..400).step_by(23) {
        note(view.get(key(n)).map(drop));
    }
    note(view.iter().try_for_each(|e| e.map(drop)));
    note(view.iter().rev().try_for_each(|e| e.map(drop)));
    note(
        view.range(key(90).as_str()..)
            .take(50)
            .try_for_each(|e| e.map(drop)),
    );
    for n in (0..400).step_by(7) {
        let mut write = tree.begin()?;
        let changed = match n % 3 {
            0 => write.delete(key(n)).map(drop),
            1 => write.put(key(n), vec![1; 700]).map(drop),
            _ => write.put(format!("{n:04}x"), "new").map(drop),
        };
        note(changed.and_then(|()| match n % 2 {
            0 => write.commit().map(drop),
            _ => Ok(()),
        }));
    }
    first
}

/// Damages a page, uses the tree, and restores all pages. Returns whether the page changed and whether
/// the checker found damage.
fn damage(tree: &Tree, page: u64, damage: impl FnOnce(&mut [u8])) -> (bool, bool) {
    let before = tree.file().latest().unwrap();
    let mut txn = tree.file().begin().unwrap();
    damage(txn.page_mut(page).unwrap());
    let is_changed = *txn.page(page).unwrap() != *before.page(page).unwrap();
    txn.commit().unwrap();
    let is_found = match tree.latest() {
        Ok(view) => !view.check().unwrap().is_whole(),
        Err(_) => true,
    };
    let _ = use_it(tree);
    let mut txn = tree.file().begin().unwrap();
    for page in 0..before.page_count() {
        txn.page_mut(page)
            .unwrap()
            .copy_from_slice(&before.page(page).unwrap());
    }
    txn.set_page_count(before.page_count()).unwrap();
    txn.commit().unwrap();
    (is_changed, is_found)
}

#[test]
fn no_page_makes_it_panic_or_hang() {
    with_grown(damage_all);
}

fn damage_all(tree: &Tree) {
    let pages = tree.file().latest().unwrap().page_count();
    let report = tree.latest().unwrap().check().unwrap();
    assert!(report.is_whole() && report.height == 3 && report.free_pages > 0);
    let mut rng = Rng::new(1);
    let (mut found, mut missed) = (0, 0);
    for page in 0..pages {
        let copied = tree.file().latest().unwrap();
        for how in 0..6 {
            let from = rng.below(pages);
            let (is_changed, is_found) = damage(tree, page, |bytes| match how {
                0 => bytes.fill(0),
                1 => bytes.fill(0xff),
                2 => bytes.copy_from_slice(&copied.page(from).unwrap()),
                // Only in the header and the slots, where it matters.
                3 => bytes[rng.below(64) as usize] ^= 1 << rng.below(8),
                4 => (0..20).for_each(|_| bytes[rng.below(64) as usize] = rng.below(256) as u8),
                _ => (0..20).for_each(|_| {
                    bytes[rng.below(u64::from(PAGE)) as usize] = rng.below(256) as u8
                }),
            });
            found += u64::from(is_found);
            let is_filled = how == 0 && is_changed;
            missed += u64::from(is_filled && !is_found);
        }
    }
    // The old content of free pages does not matter.
    assert!(missed <= report.free_pages, "{missed} pages of zeroes");
    assert!(found > pages * 3, "{found} of {} damages", pages * 6);
    assert!(tree.latest().unwrap().check().unwrap().is_whole());
}

#[test]
fn an_error_names_the_page_and_nothing_is_committed() {
    with_grown(damage_one);
}

fn damage_one(tree: &Tree) {
    let mut txn = tree.file().begin().unwrap();
    // The first leaf ever is the page after the meta page.
    txn.page_mut(1).unwrap().fill(7);
    txn.commit().unwrap();
    let error = tree.get(key(0)).unwrap_err();
    assert!(
        error.to_string().starts_with("page 1 of the tree"),
        "{error}"
    );
    let mut write = tree.begin().unwrap();
    assert!(write.put(key(0), "x").is_err());
    assert!(matches!(write.put(key(300), "x"), Err(Error::Incomplete)));
    assert!(matches!(write.commit(), Err(Error::Incomplete)));
    let problems = tree.latest().unwrap().check().unwrap().problems;
    assert!(problems.iter().any(|p| p.page == 1), "{problems:?}");
}

/// Pages behind the tree's pages are reported as one problem, not one for each.
#[test]
fn a_forged_number_of_pages_is_looked_at_in_no_time() {
    with_grown(|tree| {
        let own = tree.latest().unwrap().check().unwrap().page_count;
        let forged = 1 << 48;
        let set = |count| tree.file().transact(|txn| txn.set_page_count(count));
        set(forged).unwrap();
        let report = tree.latest().unwrap().check().unwrap();
        assert_eq!(report.page_count, forged);
        let problems: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
        let expected = format!(
            "page {own}: no page refers to it, and it is not free; the same is true of the {} after it",
            forged - own - 1
        );
        assert_eq!(problems, [expected]);
        set(own + 1).unwrap();
        let problems = tree.latest().unwrap().check().unwrap().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
    });
}
