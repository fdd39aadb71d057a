//! Directories and names.

use super::{Bench, expect, expect_kind, finish};
use logforce_device::{Access, Directory, OpenFile, System, Whereabouts};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Checks directories, and returns the one for the other checks.
pub fn directories(system: &dyn System, dir: &Path) -> Arc<dyn Directory> {
    expect(system.make_directory(dir), "make_directory");
    let missing = dir.join("missing");
    expect_kind(
        system.directory(&missing),
        ErrorKind::NotFound,
        "opening a missing directory",
    );
    let below = system.make_directory(&missing.join("below"));
    expect_kind(
        below,
        ErrorKind::NotFound,
        "making a directory in a missing one",
    );
    let path = dir.join("one");
    let first = expect(system.make_directory(&path), "make_directory");
    let second = expect(system.directory(&path), "opening the directory just made");
    let third = expect(
        system.make_directory(&path),
        "make_directory of an existing one",
    );
    assert_eq!(
        first.identity(),
        second.identity(),
        "one directory has one identity"
    );
    assert_eq!(
        first.identity(),
        third.identity(),
        "one directory has one identity"
    );
    assert_eq!(first.path(), path, "path() is the path as given");
    let other = expect(system.make_directory(&dir.join("two")), "make_directory");
    assert_ne!(
        first.identity(),
        other.identity(),
        "two directories have two identities"
    );
    let entries = expect(first.entries(), "entries");
    assert!(
        entries.is_empty(),
        "the suite needs an empty directory, but finds {entries:?}"
    );
    first
}

pub fn entries(t: &Bench) {
    let a = t.create("a", false);
    t.create("b.tmp", false);
    expect(a.reserve(3 * t.unit() as u64), "reserve");
    let size = 3 * t.unit() as u64;
    assert_eq!(
        t.entries(),
        [("a".to_owned(), size), ("b.tmp".to_owned(), 0)]
    );
    let files = expect(t.dir.entries(), "entries");
    assert!(
        files.iter().all(|e| e.is_file),
        "regular files are listed as such: {files:?}"
    );
    expect(t.dir.sync(), "sync of the directory");
    expect(t.dir.free_space(), "free_space");
    t.remove("a");
    t.remove("b.tmp");
    assert_eq!(t.entries(), []);
}

pub fn opening(t: &Bench) {
    let missing = "opening a missing file";
    expect_kind(
        t.dir.open("a", OpenFile::READ),
        ErrorKind::NotFound,
        missing,
    );
    expect_kind(
        t.dir.open("a", OpenFile::WRITE),
        ErrorKind::NotFound,
        missing,
    );
    assert_eq!(
        t.entries(),
        [],
        "opening for reading or writing creates nothing"
    );
    let a = t.create("a", false);
    assert!(expect(a.is_empty(), "is_empty"), "a new file is empty");
    expect_kind(
        t.dir.open("a", OpenFile::CREATE),
        ErrorKind::AlreadyExists,
        "creating a file that exists",
    );
    let b = expect(
        t.dir.open("a", OpenFile::WRITE),
        "opening a file that exists",
    );
    expect(finish(&*b, t.write(0, 1, 1, false)).result, "write");
    let c = expect(
        t.dir.open("a", OpenFile::READ),
        "opening a file that exists",
    );
    for (file, which) in [(&a, "the first"), (&b, "the second"), (&c, "the reader's")] {
        let len = expect(file.len(), "len");
        assert_eq!(
            len,
            t.unit() as u64,
            "{which} handle sees a write through another"
        );
    }
    t.remove("a");
    assert_eq!(expect(c.len(), "len of a removed file"), t.unit() as u64);
}

pub fn refused(t: &Bench) {
    for name in ["", ".", "..", "a/b", "/a", "../a", "a\0b"] {
        for access in [Access::Read, Access::Write, Access::CreateNew] {
            let how = OpenFile {
                access,
                direct: false,
            };
            let what = format!("opening {name:?}");
            expect_kind(t.dir.open(name, how), ErrorKind::InvalidInput, &what);
        }
        let kind = ErrorKind::InvalidInput;
        expect_kind(t.dir.rename(name, "a"), kind, &format!("renaming {name:?}"));
        expect_kind(
            t.dir.rename("a", name),
            kind,
            &format!("renaming to {name:?}"),
        );
        expect_kind(t.dir.remove(name), kind, &format!("removing {name:?}"));
        expect_kind(t.dir.lock(name), kind, &format!("locking {name:?}"));
        expect_kind(
            t.dir.is_locked(name),
            kind,
            &format!("asking for the lock {name:?}"),
        );
    }
    expect_kind(
        t.dir.rename("none", "a"),
        ErrorKind::NotFound,
        "renaming a missing file",
    );
    expect_kind(
        t.dir.remove("none"),
        ErrorKind::NotFound,
        "removing a missing file",
    );
}

pub fn renaming(t: &Bench) {
    let a = t.create("a", false);
    expect(finish(&*a, t.write(0, 1, 7, false)).result, "write");
    let b = t.create("b", false);
    expect(finish(&*b, t.write(0, 2, 9, false)).result, "write");
    expect(t.dir.rename("a", "c"), "rename to a new name");
    expect(t.dir.rename("c", "b"), "rename onto an existing file");
    assert_eq!(
        t.entries(),
        [("b".to_owned(), t.unit() as u64)],
        "the target was replaced"
    );
    let now = expect(t.dir.open("b", OpenFile::READ), "open after rename");
    assert_eq!(
        t.fills(&*now, t.sources()[0]),
        [7],
        "the name leads to the renamed file"
    );
    assert_eq!(
        t.fills(&*b, t.sources()[0]),
        [9, 10],
        "an open handle keeps the replaced file"
    );
    expect(
        finish(&*a, t.write(1, 1, 8, false)).result,
        "write after rename",
    );
    assert_eq!(
        t.fills(&*now, t.sources()[0]),
        [7, 8],
        "a handle follows its file's renames"
    );
    expect(t.dir.rename("b", "b"), "rename to the same name");
    assert_eq!(
        t.entries().len(),
        1,
        "renaming a file to its own name keeps it"
    );
    expect(t.dir.sync(), "sync of the directory");
    t.remove("b");
}

pub fn identities(t: &Bench) {
    let of = |name: &str| t.dir.identity_of(name);
    expect_kind(of("a"), ErrorKind::NotFound, "identity of a missing file");
    let kept = t.create("a", false);
    let first = expect(of("a"), "identity");
    assert_eq!(first, expect(of("a"), "identity"), "one file has one");
    expect(t.dir.rename("a", "b"), "rename");
    assert_eq!(
        first,
        expect(of("b"), "identity"),
        "renamed, it is the same"
    );
    expect_kind(of("a"), ErrorKind::NotFound, "identity of the old name");
    t.create("a", false);
    assert_ne!(first, expect(of("a"), "identity"), "two files have two");
    t.remove("b");
    t.create("b", false);
    // The first file is still open, so no other file has its identity.
    assert_ne!(first, expect(of("b"), "identity"), "a file made anew");
    drop(kept);
    t.remove("a");
    t.remove("b");
    let leads = expect(t.dir.whereabouts(), "whereabouts");
    assert_eq!(leads, Whereabouts::Here, "it is where it was opened");
}

pub fn locking(t: &Bench) {
    let held = |what: &str| expect(t.dir.is_locked("lock"), what);
    assert!(
        !held("is_locked without a file"),
        "a missing lock file is not locked"
    );
    let first = expect(t.dir.lock("lock"), "first lock");
    assert!(
        held("is_locked"),
        "a held lock is seen, in the process that holds it too"
    );
    expect_kind(t.dir.lock("lock"), ErrorKind::WouldBlock, "a second lock");
    assert!(
        held("is_locked"),
        "a refused second lock, or asking, does not free the first"
    );
    expect_kind(t.dir.lock("lock"), ErrorKind::WouldBlock, "a third lock");
    drop(first);
    assert!(!held("is_locked"), "a dropped lock is free");
    let again = expect(t.dir.lock("lock"), "lock after the first was dropped");
    drop(again);
    assert_eq!(t.entries().len(), 1, "the lock file stays");
    t.remove("lock");
}
