//! Unusable page files and archives, each with a clear error.

use crate::model::commit;
use crate::{archive, attach_options, base, options, restore, temp};
use logforce::pages::CommitMode;
use logforce_archive::protocol::Error as StateError;
use logforce_archive::{Archive, ArchiveOptions, Error, RestoreTo};
use std::path::Path;

#[test]
fn what_cannot_be_copied_is_refused() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let nothing = base(&archive, &path).unwrap_err();
    assert!(
        matches!(nothing, Error::State(StateError::NoArchive)),
        "{nothing}"
    );

    let cow = home.path().join("cow");
    let other = options().mode(CommitMode::CopyOnWrite);
    let other = logforce::pages::create_new(&cow, other).unwrap();
    let refused = archive
        .attach_page_file(&other, attach_options())
        .unwrap_err();
    assert!(matches!(refused, Error::Pages(_)), "{refused}");
    other.close().unwrap();

    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    commit(&file, 0, &mut fastrand::Rng::with_seed(1));
    let refused = base(&archive, &cow).unwrap_err();
    assert!(refused.to_string().contains("CopyOnWrite"), "{refused}");

    let second = home.path().join("second");
    let second_file = logforce::pages::create_new(&second, options()).unwrap();
    commit(&second_file, 0, &mut fastrand::Rng::with_seed(1));
    let refused = base(&archive, &second).unwrap_err();
    assert!(
        matches!(refused, Error::State(StateError::OtherLog { .. })),
        "{refused}"
    );
    second_file.close().unwrap();

    let missing = base(&archive, &home.path().join("nowhere")).unwrap_err();
    assert!(matches!(missing, Error::Pages(_)), "{missing}");

    // Nothing archives the log any more.
    attached.close().unwrap();
    commit(&file, 0, &mut fastrand::Rng::with_seed(2));
    let stopped = archive.base(&path, &|| true, &mut |_| {}).unwrap_err();
    assert!(
        matches!(&stopped, Error::Invalid(why) if why.contains("stopped") || why.contains("archive run")),
        "{stopped}"
    );
    assert!(archive.list().unwrap().bases.is_empty());
    let refused = archive.follow(
        &home.path().join("standby"),
        logforce::Guarantee::ProcessCrash,
        &|| true,
        &mut |_| {},
    );
    assert!(refused.unwrap_err().to_string().contains("takeover"));
    file.close().unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &name),
            false => drop(std::fs::copy(entry.path(), name).unwrap()),
        }
    }
}

/// A copy of the directory that went another way has the same ids, and commits that the archive does not have.
#[test]
fn a_copy_with_another_history_is_refused() {
    let home = temp();
    let archive = archive(home.path());
    let (path, twin) = (home.path().join("file"), home.path().join("twin"));
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    (0..10).for_each(|_| drop(commit(&file, 0, &mut random)));
    file.close().unwrap();
    attached.close().unwrap();
    copy(&path, &twin);
    for (path, seed) in [(&twin, 7), (&path, 8)] {
        let file = logforce::pages::open_existing(path, options()).unwrap();
        let attached =
            (seed == 8).then(|| archive.attach_page_file(&file, attach_options()).unwrap());
        let mut random = fastrand::Rng::with_seed(seed);
        (0..20 * seed).for_each(|_| drop(commit(&file, 0, &mut random)));
        file.close().unwrap();
        if let Some(attached) = attached {
            attached.close().unwrap();
        }
    }
    let refused = base(&archive, &twin).unwrap_err();
    assert!(
        matches!(refused, Error::Log(logforce::Error::Diverged { .. })),
        "{refused}"
    );
    assert!(archive.list().unwrap().bases.is_empty());
    base(&archive, &path).unwrap();
    restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
}

#[test]
fn an_encrypted_archive_encrypts_the_pages() {
    let home = temp();
    let bucket = home.path().join("bucket");
    std::fs::create_dir(&bucket).unwrap();
    let options_with_key = ArchiveOptions {
        key: Some(logforce_archive::format::SecretKey::new([7; 32])),
        ..ArchiveOptions::default()
    };
    let archive = Archive::open(bucket.to_str().unwrap(), options_with_key).unwrap();
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    let secret = b"a page that must not be read";
    let mut txn = file.begin().unwrap();
    txn.page_mut(5).unwrap()[..secret.len()].copy_from_slice(secret);
    txn.commit().unwrap();
    file.checkpoint().unwrap();
    base(&archive, &path).unwrap();
    file.close().unwrap();
    attached.close().unwrap();
    let objects = [
        crate::objects(home.path(), "d"),
        crate::objects(home.path(), "b"),
    ]
    .concat();
    assert_eq!(objects.len(), 2);
    for path in objects {
        let bytes = std::fs::read(path).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
        // The header of the page file is not readable either.
        assert!(!bytes.windows(6).any(|window| window == b"LFPAGE"));
    }
    let copy = home.path().join("copy");
    restore(&archive, &copy, RestoreTo::End).unwrap();
    let mut page = [0; 512];
    crate::open(&copy)
        .snapshot()
        .unwrap()
        .read(5, &mut page)
        .unwrap();
    assert_eq!(&page[..secret.len()], secret);
}
