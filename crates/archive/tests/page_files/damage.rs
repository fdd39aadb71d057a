//! Base copies that were cut short, damaged or pruned.

use crate::model::{Model, commit, pages};
use crate::{archive, attach_options, base, objects, open, options, restore, temp};
use logforce_archive::object::Base;
use logforce_archive::{Archive, Attached, Error, RestoreTo};
use std::cell::{Cell, RefCell};
use std::path::Path;

/// Page file with an archive and one base copy, of several parts.
fn with_copy(home: &Path) -> (Archive, logforce::pages::PageFile, Attached, Base) {
    let archive = archive(home);
    let path = home.join("file");
    let options = options().checkpoint_distance(16 << 20);
    let file = logforce::pages::create_new(&path, options).unwrap();
    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    for n in 0..20 {
        let mut txn = file.begin().unwrap();
        for page in 0..2500 {
            let word = fastrand::Rng::with_seed(n * 2500 + page).u64(..);
            txn.write(n * 2500 + page, &word.to_le_bytes().repeat(64))
                .unwrap();
        }
        txn.commit().unwrap();
    }
    file.checkpoint().unwrap();
    let base = base(&archive, &path).unwrap();
    assert!(base.parts >= 3, "{}", base.parts);
    (archive, file, attached, base)
}

#[test]
fn a_copy_is_invisible_until_its_last_object() {
    let home = temp();
    let (archive, file, attached, _) = with_copy(home.path());
    let (parts, last) = (objects(home.path(), "d"), objects(home.path(), "b"));
    assert_eq!(last.len(), 1);
    let kept: Vec<Vec<u8>> = parts
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    let visible = std::fs::read(&last[0]).unwrap();
    std::fs::remove_file(&last[0]).unwrap();
    // The maker dies after each object.
    for count in (0..=parts.len()).rev() {
        if let Some(path) = parts.get(count) {
            std::fs::remove_file(path).unwrap();
        }
        let contents = archive.list().unwrap();
        assert!(contents.bases.is_empty() && contents.is_of_page_file);
        let refused = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap_err();
        assert!(refused.to_string().contains("no base copy"), "{refused}");
        assert!(archive.verify(None, &mut |_| {}).unwrap().damage.is_empty());
        // A copy that may still be made stays.
        assert_eq!(archive.prune(u64::MAX, false).unwrap().partial, 0);
        assert_eq!(objects(home.path(), "d").len(), count);
    }
    for (path, bytes) in parts.iter().zip(&kept) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::write(&last[0], visible).unwrap();
    let copy = home.path().join("copy");
    restore(&archive, &copy, RestoreTo::End).unwrap();
    assert!(pages(&open(&copy)) == pages(&file));
    file.close().unwrap();
    attached.close().unwrap();
}

#[test]
fn each_damaged_part_is_named_and_not_restored() {
    let home = temp();
    let (archive, file, attached, base) = with_copy(home.path());
    file.close().unwrap();
    attached.close().unwrap();
    let (parts, last) = (objects(home.path(), "d"), objects(home.path(), "b"));
    let check = |name: &str, path: &Path| {
        let key = path.strip_prefix(home.path().join("bucket")).unwrap();
        let key = key.to_str().unwrap();
        let verified = archive.verify(None, &mut |_| {}).unwrap();
        assert!(
            verified.damage.iter().any(|d| d.contains(key)),
            "{name}: {:?}",
            verified.damage
        );
        let copy = home.path().join("copy");
        let refused = restore(&archive, &copy, RestoreTo::End).unwrap_err();
        assert!(matches!(&refused, Error::Object(_)), "{name}: {refused}");
        assert!(refused.to_string().contains(key), "{name}: {refused}");
        assert!(!copy.exists(), "{name}");
    };
    for path in parts.iter().chain(&last) {
        let whole = std::fs::read(path).unwrap();
        for at in [20, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(path, damaged).unwrap();
            check("a byte", path);
        }
        std::fs::write(path, &whole[..whole.len() - 1]).unwrap();
        check("short", path);
        std::fs::write(path, &whole).unwrap();
    }
    std::fs::remove_file(&parts[1]).unwrap();
    check("missing", &parts[1]);
    std::fs::copy(&parts[0], &parts[1]).unwrap();
    check("swapped", &parts[1]);
    // A part of another copy is not one of this.
    assert_eq!(base.parts as usize, parts.len());
}

#[test]
fn pruning_keeps_the_wanted_copies_and_their_log() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let model = Model::default();
    let mut bases = Vec::new();
    for _ in 0..4 {
        for _ in 0..1500 {
            model.note(commit(&file, 0, &mut random));
        }
        bases.push(base(&archive, &path).unwrap());
    }
    let list = || archive.list().unwrap();
    assert_eq!(list().bases, bases);
    let before = list().start;
    // Nothing is as old, so nothing goes: not even what the oldest copy does not need is deleted.
    let early = archive.prune(bases[0].time - 1, false).unwrap();
    assert_eq!(
        (early.bases, early.start),
        (0, bases[0].first_segment.max(before))
    );
    let dry = archive.prune(bases[2].time, true).unwrap();
    assert_eq!((dry.bases, dry.start), (2, bases[2].first_segment));
    assert_eq!(list().bases, bases);
    let pruned = archive.prune(bases[1].time, false).unwrap();
    assert_eq!((pruned.bases, pruned.start), (1, bases[1].first_segment));
    assert_eq!(list().bases, bases[1..]);
    let copy = home.path().join("second");
    restore(&archive, &copy, RestoreTo::Lsn(bases[1].end)).unwrap();
    let (last, state) = pages(&open(&copy));
    assert!(state == model.state(last));
    let kept = archive.keep_bases(1, false).unwrap();
    assert_eq!(kept.bases, 2);
    // Segments that the newest archived front needs stay as well.
    assert!((bases[1].first_segment.0..=bases[3].first_segment.0).contains(&kept.start.0));
    assert_eq!(list().bases, bases[3..]);
    assert_eq!(objects(home.path(), "d").len() as u64, bases[3].parts);
    assert!(archive.keep_bases(0, false).is_err());
    file.close().unwrap();
    attached.close().unwrap();
    let copy = home.path().join("end");
    restore(&archive, &copy, RestoreTo::End).unwrap();
    let (last, state) = pages(&open(&copy));
    assert!(state == model.state(last));
    assert!(archive.verify(None, &mut |_| {}).unwrap().damage.is_empty());
}

/// A prune took the parts for abandoned while the copy waited for its log.
#[test]
fn a_copy_whose_parts_were_pruned_stays_invisible() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attach = || archive.attach_page_file(&file, attach_options()).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let attached = attach();
    commit(&file, 0, &mut random);
    file.checkpoint().unwrap();
    attached.close().unwrap();
    commit(&file, 0, &mut random);
    let attached = RefCell::new(None);
    let calls = Cell::new(0);
    let stop = || {
        calls.set(calls.get() + 1);
        // The first call is before the only part is there, the second one waits for the log.
        if calls.get() == 2 {
            let parts = objects(home.path(), "d");
            assert_eq!(parts.len(), 1);
            std::fs::remove_file(&parts[0]).unwrap();
            *attached.borrow_mut() = Some(attach());
        }
        calls.get() > 300
    };
    let refused = archive.base(&path, &stop, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("were pruned"), "{refused}");
    assert!(archive.list().unwrap().bases.is_empty());
    file.close().unwrap();
    if let Some(attached) = attached.take() {
        attached.close().unwrap();
    }
}

/// A process that dies between two deletions leaves no copy with holes.
#[cfg(feature = "s3")]
#[test]
fn a_copy_becomes_invisible_before_its_parts_go() {
    use logforce_archive_testserver::{BUCKET, Options, Server};
    let home = temp();
    let server = Server::start(Options::default()).unwrap();
    let mut store = logforce_archive::store::StoreOptions::default();
    for (name, value) in server.environment() {
        store = store.setting(name, value);
    }
    let archive_options = logforce_archive::ArchiveOptions {
        store,
        ..Default::default()
    };
    let archive = Archive::open(&format!("s3://{BUCKET}/file"), archive_options).unwrap();
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..2 {
        commit(&file, 0, &mut random);
        file.checkpoint().unwrap();
        base(&archive, &path).unwrap();
    }
    file.close().unwrap();
    attached.close().unwrap();
    server.keep_after(1);
    assert_eq!(archive.keep_bases(1, false).unwrap().bases, 1);
    let kept = server.kept().unwrap();
    let copies = |folder: &str| kept.keys().filter(|key| key.starts_with(folder)).count();
    assert_eq!((copies("file/b/"), copies("file/d/")), (1, 2), "{kept:?}");
}
