//! Order of the calls of a directory, and answers to errors of the system.

use super::*;

const OBJECT: &str = "e/1/0";

fn open() -> (tempfile::TempDir, Directory) {
    let dir = tempfile::tempdir().unwrap();
    let directory = Directory::open(dir.path(), 0).unwrap();
    (dir, directory)
}

/// Each sync here prevents a loss in a power cut; the order is that in which they may be made.
#[test]
fn an_answer_comes_after_every_sync() {
    let (_dir, directory) = open();
    let calls = || disk::taken(directory.root());
    assert_eq!(directory.create(OBJECT, b"one"), Answer::Done(()));
    let file = "unfinished/0000000000000000";
    let created = [
        "make unfinished".to_owned(),
        format!("write {file}-0"),
        format!("sync {file}-0"),
        "make e".to_owned(),
        "sync .".to_owned(),
        "make e/1".to_owned(),
        "sync e".to_owned(),
        "link e/1/0".to_owned(),
        "sync e/1".to_owned(),
        format!("remove {file}-0"),
    ];
    assert_eq!(calls(), created);
    assert_eq!(directory.create(OBJECT, b"two"), Answer::Exists);
    let exists = [
        "make unfinished".to_owned(),
        format!("write {file}-1"),
        format!("sync {file}-1"),
        "link e/1/0".to_owned(),
        "sync e/1/0".to_owned(),
        "sync e/1".to_owned(),
        format!("remove {file}-1"),
    ];
    assert_eq!(calls(), exists);
    assert_eq!(directory.replace("hint", b"three"), Answer::Done(()));
    let replaced = [
        "make unfinished".to_owned(),
        format!("write {file}-2"),
        format!("sync {file}-2"),
        "rename hint".to_owned(),
        "sync .".to_owned(),
        format!("remove {file}-2"),
    ];
    assert_eq!(calls(), replaced);
    let listed = directory.list("e", "");
    assert_eq!(listed, Answer::Done(vec![OBJECT.to_owned()]));
    assert_eq!(calls(), ["sync e", "sync e/1"]);
    for (durable, expected) in [(true, vec!["sync e/1"]), (false, vec![])] {
        let read = directory.get(OBJECT, 2, durable);
        assert_eq!(read, Answer::Done(Bytes::from_static(b"on")));
        assert_eq!(calls(), expected);
    }
    for first in [true, false] {
        assert_eq!(directory.copy(OBJECT, "s/0"), Answer::Done(()));
        let made = ["make s", "sync .", "link s/0", "sync s"];
        assert_eq!(calls(), made[if first { 0 } else { 2 }..]);
    }
    assert_eq!(directory.delete(OBJECT), Answer::Done(()));
    assert_eq!(calls(), ["remove e/1/0", "sync e/1"]);
}

/// A second process on the directory knows nothing of the folders that the first one has made durable.
#[test]
fn folders_of_another_instance_are_synced_once() {
    let (dir, first) = open();
    assert_eq!(first.create(OBJECT, b"one"), Answer::Done(()));
    let second = Directory::open(dir.path(), 1).unwrap();
    disk::taken(second.root());
    let syncs = |calls: Vec<String>| {
        let is_folder = |call: &&String| ["sync .", "sync e"].contains(&call.as_str());
        calls.iter().filter(is_folder).count()
    };
    assert_eq!(second.create("e/1/1", b"two"), Answer::Done(()));
    assert_eq!(syncs(disk::taken(second.root())), 2);
    assert_eq!(second.create("e/1/2", b"three"), Answer::Done(()));
    assert_eq!(syncs(disk::taken(second.root())), 0);
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let (dir, directory) = open();
    // A file where a folder is needed.
    fs::write(dir.path().join("e"), "").unwrap();
    let answer = directory.create(OBJECT, b"one");
    assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
    let left = fs::read_dir(dir.path().join(UNFINISHED)).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn remainders_of_crashes_go_after_a_day() {
    let (dir, directory) = open();
    let folder = dir.path().join(UNFINISHED);
    fs::create_dir(&folder).unwrap();
    for (name, age) in [("old", STALE * 2), ("young", STALE / 2)] {
        let file = File::create(folder.join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
    assert_eq!(directory.create(OBJECT, b"one"), Answer::Done(()));
    let left: Vec<_> = fs::read_dir(folder).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].as_ref().unwrap().file_name(), "young");
    assert_eq!(
        directory.list("", ""),
        Answer::Done(vec![OBJECT.to_owned()])
    );
}

#[test]
fn errors_of_the_system_have_a_remedy() {
    let (_dir, directory) = open();
    let answer = |kind: ErrorKind| directory.answer::<()>("create", OBJECT, Err(kind.into()));
    let refused = [
        (ErrorKind::PermissionDenied, "readable and writable"),
        (ErrorKind::ReadOnlyFilesystem, "remount"),
        (ErrorKind::Unsupported, "hard links"),
    ];
    for (kind, words) in refused {
        let Answer::Refused(error) = answer(kind) else {
            panic!("{kind} is not refused");
        };
        assert!(error.to_string().contains(words), "{error}");
    }
    let unknown = [
        (ErrorKind::StorageFull, "free some space"),
        (ErrorKind::QuotaExceeded, "raise the quota"),
        (ErrorKind::NotFound, "cannot create"),
        (ErrorKind::TimedOut, "cannot create"),
    ];
    for (kind, words) in unknown {
        let Answer::Unknown(error) = answer(kind) else {
            panic!("{kind} is not unknown");
        };
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_directory_that_has_gone_is_no_empty_archive() {
    let (dir, directory) = open();
    drop(dir);
    let error = |answer: Answer<()>| match answer {
        Answer::Refused(error) => error.to_string(),
        answer => panic!("{answer:?}"),
    };
    for text in [
        error(directory.create(OBJECT, b"one")),
        error(directory.get(OBJECT, 9, false).map(drop)),
        error(directory.list("e", "").map(drop)),
        error(directory.delete(OBJECT)),
    ] {
        assert!(text.contains("mount its filesystem"), "{text}");
    }
    let error = Directory::open(Path::new("/nonexistent/archive"), 0).unwrap_err();
    assert!(
        error.to_string().contains("create the directory"),
        "{error}"
    );
}
