//! Features of Windows: names, paths, open files, facts.

use crate::common::on_disk;
use logforce_device::{
    Access, AlignedBuf, Barrier, Directory, File, FileState, ForceBy, Guarantee, Method, OpenFile,
    Platform, ReadSource, System, Verdict, Write,
};
use logforce_device_os::{Counter, OsSystem, machine};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

fn force(file: &dyn File, method: Method, offset: u64, byte: u8) {
    let plan = method.plan();
    let mut buf = AlignedBuf::zeroed(4096, 4096);
    buf.fill(byte);
    let ticket = file.submit(Write {
        offset,
        buf,
        range: 0..4096,
        through: plan.force == ForceBy::Through,
    });
    file.complete(ticket).result.unwrap();
    if let ForceBy::Barrier(barrier) = plan.force {
        file.barrier(barrier).unwrap();
    }
}

fn first_bytes(file: &dyn File, source: ReadSource) -> Vec<u8> {
    let len = file.len().unwrap() as usize;
    let mut buf = AlignedBuf::zeroed(len.next_multiple_of(4096), 4096);
    let n = file.read_at(0, &mut buf, source).unwrap();
    assert_eq!(n, len);
    buf[..n].chunks(4096).map(|c| c[0]).collect()
}

#[test]
fn every_method_writes_what_every_reader_sees() {
    let (_temp, dir) = on_disk();
    for &method in Method::here() {
        let how = OpenFile {
            access: Access::CreateNew,
            direct: method.plan().direct,
        };
        let name = format!("file-{method}");
        let file = dir.open(&name, how).unwrap();
        force(&*file, method, 0, 1);
        file.reserve(4 * 4096).unwrap();
        force(&*file, method, 2 * 4096, 2);
        force(&*file, method, 0, 3);
        let reader = dir.open(&name, OpenFile::READ).unwrap();
        for source in [ReadSource::Cache, ReadSource::Medium] {
            assert_eq!(first_bytes(&*file, source), [3, 0, 2, 0], "{method}");
            assert_eq!(first_bytes(&*reader, source), [3, 0, 2, 0], "{method}");
        }
        for barrier in [Barrier::Data, Barrier::Full, Barrier::Fsync, Barrier::Order] {
            reader.barrier(barrier).unwrap();
        }
        dir.rename(&name, "renamed").unwrap();
        force(&*file, method, 4096, 4);
        assert_eq!(first_bytes(&*reader, ReadSource::Cache), [3, 4, 2, 0]);
        dir.remove("renamed").unwrap();
        assert!(dir.entries().unwrap().is_empty());
        // An open handle keeps the file, and the name is free at once.
        let again = dir.open("renamed", OpenFile::CREATE).unwrap();
        assert_eq!(first_bytes(&*reader, ReadSource::Cache), [3, 4, 2, 0]);
        drop(again);
        dir.remove("renamed").unwrap();
    }
}

#[test]
fn removed_and_replaced_files_leave_nothing() {
    let (temp, dir) = on_disk();
    let a = dir.open("a", OpenFile::CREATE).unwrap();
    let b = dir.open("b", OpenFile::CREATE).unwrap();
    force(&*b, Method::Flush, 0, 7);
    dir.rename("a", "b").unwrap();
    dir.remove("b").unwrap();
    assert!(dir.entries().unwrap().is_empty());
    assert_eq!(first_bytes(&*b, ReadSource::Cache), [7]);
    drop((a, b));
    let left: Vec<_> = std::fs::read_dir(temp.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // As after a crash: the next writer removes it, and no listing shows it.
    std::fs::write(temp.path().join("~logforce-removed-1-2-3"), "x").unwrap();
    assert!(dir.entries().unwrap().is_empty());
    let lock = dir.lock("lock").unwrap();
    let names: Vec<String> = std::fs::read_dir(temp.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["lock"]);
    // No process can remove the lock file meanwhile. Otherwise a second writer could create it again.
    assert!(std::fs::remove_file(temp.path().join("lock")).is_err());
    drop(lock);
}

#[test]
fn long_and_unicode_paths() {
    let (temp, _) = on_disk();
    let system = OsSystem::new();
    let mut path: PathBuf = temp.path().to_owned();
    let mut dirs: Vec<Arc<dyn Directory>> = Vec::new();
    for i in 0..5 {
        path.push(format!("{i}-Ä日本😀{}", "x".repeat(60)));
        dirs.push(system.make_directory(&path).unwrap());
    }
    assert!(path.as_os_str().len() > 300);
    let dir = dirs.last().unwrap();
    let name = "Übersicht 日本.log";
    let file = dir.open(name, OpenFile::CREATE).unwrap();
    force(&*file, Method::WriteThrough, 0, 5);
    dir.rename(name, "ß").unwrap();
    dir.sync().unwrap();
    assert_eq!(dir.entries().unwrap()[0].name, "ß");
    assert_eq!(dir.identity(), system.directory(&path).unwrap().identity());
    drop(dir.lock("lock").unwrap());
    dir.remove("ß").unwrap();
    dir.facts().unwrap();
    dir.free_space().unwrap();
}

#[test]
fn what_is_no_regular_file_or_no_directory_is_not_opened() {
    let (temp, dir) = on_disk();
    std::fs::create_dir(temp.path().join("sub")).unwrap();
    for access in [Access::Read, Access::Write] {
        let how = OpenFile {
            access,
            direct: false,
        };
        let e = dir.open("sub", how).map(drop).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
    }
    for bad in ["a:stream", "a\\b", "a*", "a."] {
        let e = dir.open(bad, OpenFile::CREATE).map(drop).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{bad}");
    }
    std::fs::write(temp.path().join("file"), "").unwrap();
    let system = OsSystem::new();
    for e in [
        system.directory(&temp.path().join("file")).map(drop),
        system.make_directory(&temp.path().join("file")).map(drop),
    ] {
        assert_eq!(e.unwrap_err().kind(), ErrorKind::NotADirectory);
    }
    let e = system
        .make_directory(&temp.path().join("no/such"))
        .map(drop);
    assert_eq!(e.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_directory_that_is_open_stays_where_it_is() {
    let (temp, _) = on_disk();
    let path = temp.path().join("log");
    let dir = OsSystem::new().make_directory(&path).unwrap();
    assert!(std::fs::rename(&path, temp.path().join("moved")).is_err());
    dir.open("a", OpenFile::CREATE).unwrap();
    assert!(path.join("a").exists());
    drop(dir);
    std::fs::rename(&path, temp.path().join("moved")).unwrap();
}

#[test]
fn facts_are_told_or_noted() {
    let (_temp, dir) = on_disk();
    let facts = dir.facts().unwrap();
    println!("{facts:#?}");
    assert_eq!(facts.platform, Platform::Windows);
    assert!(!facts.filesystem.is_empty() && !facts.kernel.is_empty());
    assert!(facts.mount_point.ends_with('\\'), "{}", facts.mount_point);
    assert!(facts.capacity > Some(dir.free_space().unwrap() / 2));
    assert!(facts.direct.is_some());
    // Whatever the disk reports, nothing is declared that it did not report.
    for method in [Method::WriteThrough, Method::NoBufferingWriteThrough] {
        let a = facts.assess(method, FileState::Zeroed).unwrap();
        let said = facts.device.as_ref().and_then(|d| d.fua);
        if machine().system.contains("Wine") {
            assert_eq!(said, None);
            assert_eq!(a.verdict, Verdict::Unknown, "{a:?}");
        }
    }
    let flush = facts.assess(facts.default_method(), FileState::Zeroed);
    // A setting of Windows makes it send no flushes.
    let worth = if facts.barriers == Some(true) {
        Guarantee::PowerLoss
    } else {
        Guarantee::OsCrash
    };
    assert_eq!(flush.unwrap().guarantee, worth);
    if machine().system.contains("Wine") {
        let noted = |what: &str| facts.notes.iter().any(|n| n.contains(what));
        assert!(noted("This is Wine"), "{:?}", facts.notes);
    }
    let none = Counter::of(dir.path()).map(drop).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Unsupported);
}
