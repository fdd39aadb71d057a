//! Names: creation, opening, renames, removals, listings, and refusals.

use crate::common::{in_second_process, on_disk};
use logforce_device::{Access, OpenFile, ReadSource, System, Write};
use logforce_device_os::OsSystem;
use logforce_testkit::another_user;
use logforce_testkit::process::{Start, same_test};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

fn put(dir: &dyn logforce_device::Directory, name: &str, bytes: &[u8]) {
    let file = dir.open(name, OpenFile::CREATE).unwrap();
    let mut buf = logforce_device::AlignedBuf::zeroed(bytes.len(), 4096);
    buf.copy_from_slice(bytes);
    let write = Write {
        offset: 0,
        range: 0..buf.len(),
        buf,
        through: false,
    };
    let ticket = file.submit(write);
    file.complete(ticket).result.unwrap();
}

#[test]
fn files_are_made_listed_renamed_and_removed() {
    let (temp, dir) = on_disk();
    assert!(dir.entries().unwrap().is_empty());
    put(&*dir, "a", b"one");
    put(&*dir, "b", b"three");
    std::fs::create_dir(temp.path().join("sub")).unwrap();
    symlink("a", temp.path().join("link")).unwrap();
    let mut entries = dir.entries().unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<_> = entries
        .iter()
        .map(|e| (e.name.as_str(), e.len, e.is_file))
        .collect();
    assert_eq!(
        seen,
        [
            ("a", 3, true),
            ("b", 5, true),
            ("link", 0, false),
            ("sub", 0, false)
        ]
    );

    dir.rename("a", "b").unwrap();
    let file = dir.open("b", OpenFile::READ).unwrap();
    assert_eq!(file.len().unwrap(), 3);
    dir.sync().unwrap();
    dir.remove("b").unwrap();
    dir.sync().unwrap();
    // A removed file can be read through an open handle.
    let mut buf = [0; 3];
    assert_eq!(file.read_at(0, &mut buf, ReadSource::Cache).unwrap(), 3);
    assert_eq!(&buf, b"one");

    for e in [
        dir.open("b", OpenFile::READ).map(drop).unwrap_err(),
        dir.open("b", OpenFile::WRITE).map(drop).unwrap_err(),
        dir.remove("b").unwrap_err(),
        dir.rename("b", "c").unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::NotFound);
        assert!(
            e.to_string().contains(temp.path().to_str().unwrap()),
            "no path in: {e}"
        );
    }
    put(&*dir, "c", b"");
    let e = dir.open("c", OpenFile::CREATE).map(drop).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let (_temp, dir) = on_disk();
    for bad in ["", ".", "..", "a/b", "../a", "a\0b"] {
        let refused = [
            dir.open(bad, OpenFile::CREATE).map(drop),
            dir.open(bad, OpenFile::READ).map(drop),
            dir.rename(bad, "x"),
            dir.rename("x", bad),
            dir.remove(bad),
            dir.lock(bad).map(drop),
            dir.is_locked(bad).map(drop),
        ];
        for r in refused {
            assert_eq!(r.unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
        }
    }
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let (temp, dir) = on_disk();
    put(&*dir, "real", b"x");
    symlink("real", temp.path().join("link")).unwrap();
    std::fs::create_dir(temp.path().join("sub")).unwrap();
    // Opening a FIFO would wait for ever.
    let fifo = std::process::Command::new("mkfifo")
        .arg(temp.path().join("fifo"))
        .status();
    let mut names = vec!["link", "sub"];
    if fifo.is_ok_and(|s| s.success()) {
        names.push("fifo");
    }
    for name in names {
        for access in [Access::Read, Access::Write] {
            let e = dir
                .open(
                    name,
                    OpenFile {
                        access,
                        direct: false,
                    },
                )
                .map(drop)
                .unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidInput, "{name}: {e}");
        }
        let e = dir.open(name, OpenFile::CREATE).map(drop).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{name}: {e}");
    }
}

#[test]
fn what_is_made_belongs_to_its_owner_only() {
    let temp = tempfile::TempDir::new().unwrap();
    let path = temp.path().join("log");
    let dir = OsSystem::new().make_directory(&path).unwrap();
    put(&*dir, "a", b"x");
    drop(dir.lock("lock").unwrap());
    let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("a")), 0o600);
    assert_eq!(mode(&path.join("lock")), 0o600);
}

#[test]
fn a_directory_is_made_once_and_opened_again() {
    let temp = tempfile::TempDir::new().unwrap();
    let system = OsSystem::new();
    let path = temp.path().join("log");
    let e = system.directory(&path).map(drop).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("log"), "{e}");
    let first = system.make_directory(&path).unwrap();
    let second = system.make_directory(&path).unwrap();
    assert_eq!(first.identity(), second.identity());
    assert_eq!(first.path(), path);
    // Also by another path to it, and by a path that ends in no name.
    symlink(&path, temp.path().join("link")).unwrap();
    assert_eq!(
        system
            .make_directory(&temp.path().join("link"))
            .unwrap()
            .identity(),
        first.identity()
    );
    assert_eq!(
        system
            .make_directory(&path.join("../log/."))
            .unwrap()
            .identity(),
        first.identity()
    );
    assert_ne!(
        system.directory(temp.path()).unwrap().identity(),
        first.identity()
    );
    let m = std::fs::metadata(&path).unwrap();
    assert_eq!(
        (first.identity().volume, first.identity().file),
        (m.dev(), m.ino())
    );

    let e = system
        .make_directory(&temp.path().join("no/such"))
        .map(drop)
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("parent does not exist"), "{e}");
    std::fs::write(temp.path().join("file"), "").unwrap();
    let e = system
        .make_directory(&temp.path().join("file"))
        .map(drop)
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotADirectory);
    // Directories that this user cannot make.
    for there in ["/", "/dev/shm", "/proc"] {
        if Path::new(there).is_dir() {
            system.make_directory(Path::new(there)).map(drop).unwrap();
        }
    }
}

#[test]
fn a_directory_stays_itself_when_its_path_changes() {
    let temp = tempfile::TempDir::new().unwrap();
    let path = temp.path().join("log");
    let dir = OsSystem::new().make_directory(&path).unwrap();
    put(&*dir, "a", b"x");
    std::fs::rename(&path, temp.path().join("moved")).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(dir.entries().unwrap().len(), 1);
    put(&*dir, "b", b"y");
    assert!(temp.path().join("moved/b").exists());
    // A removed directory cannot be written to.
    std::fs::remove_dir_all(temp.path().join("moved")).unwrap();
    let e = dir.open("c", OpenFile::CREATE).map(drop).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
}

#[test]
fn free_space_is_what_df_says() {
    let (temp, dir) = on_disk();
    let ours = dir.free_space().unwrap();
    let out = std::process::Command::new("df")
        .args(["--output=avail", "-B1"])
        .arg(temp.path())
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let theirs: u64 = text.lines().last().unwrap().trim().parse().unwrap();
    // Other processes write to the disk meanwhile.
    assert!(ours.abs_diff(theirs) < 1 << 30, "{ours} against {theirs}");
}

const UNPRIVILEGED: &str = "LOGFORCE_TEST_UNPRIVILEGED";

#[test]
fn an_unprivileged_user_is_refused_with_the_path() {
    let temp = tempfile::TempDir::new().unwrap();
    let Some(mut command) = another_user::as_nobody(&std::env::current_exe().unwrap()) else {
        return;
    };
    let set = |p: &Path, mode| {
        std::fs::set_permissions(p, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let dir = temp.path().join("log");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("theirs"), "x").unwrap();
    set(&dir.join("theirs"), 0o600);
    // The parent may be passed but not listed, so the entry for `open` cannot be synced alone.
    let open = temp.path().join("open");
    std::fs::create_dir(&open).unwrap();
    set(temp.path(), 0o711);
    set(&dir, 0o755);
    set(&open, 0o777);
    // If root sets a user, std drops the supplementary groups too.
    same_test(
        &mut command,
        "as_the_unprivileged_user",
        UNPRIVILEGED,
        temp.path(),
    );
    let out = command.to_end().unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
}

#[test]
fn as_the_unprivileged_user() {
    let Some(home) = in_second_process(UNPRIVILEGED) else {
        return;
    };
    let path = home.join("log");
    let system = OsSystem::new();
    let dir = system.directory(&path).unwrap();
    for e in [
        dir.open("mine", OpenFile::CREATE).map(drop).unwrap_err(),
        dir.open("theirs", OpenFile::READ).map(drop).unwrap_err(),
        dir.remove("theirs").unwrap_err(),
        dir.lock("lock").map(drop).unwrap_err(),
        dir.is_locked("theirs").unwrap_err(),
        system
            .make_directory(&path.join("new"))
            .map(drop)
            .unwrap_err(),
    ] {
        assert_eq!(e.kind(), ErrorKind::PermissionDenied, "{e}");
        assert!(e.to_string().contains(path.to_str().unwrap()), "{e}");
    }
    assert_eq!(dir.entries().unwrap().len(), 1);
    assert!(!dir.is_locked("lock").unwrap());
    let facts = dir.facts_for_writing().unwrap();
    assert!(!facts.filesystem.is_empty());
    // A directory in which nothing can be made, below a parent that cannot be opened.
    assert!(system.make_directory(&path).is_ok());
    let open = system.make_directory(&home.join("open")).unwrap();
    put(&*open, "mine", b"x");
    let _ =
        logforce_device_os::block_device_counters(&home.join("open")).map_err(|e| println!("{e}"));
}
