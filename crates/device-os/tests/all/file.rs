//! Contents of files: every method on every filesystem that this machine can make.

use crate::common::{in_memory, on_disk, on_each};
use logforce_device::{
    Access, AlignedBuf, Barrier, Directory, File, ForceBy, Method, OpenFile, ReadSource, System,
    Ticket, Write,
};
use logforce_device_os::OsSystem;
use std::io::{self, ErrorKind};
use std::sync::Arc;

fn filled(len: usize, byte: u8) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(len, 4096);
    buf.fill(byte);
    buf
}

fn write(file: &dyn File, offset: u64, byte: u8, len: usize, through: bool) -> io::Result<()> {
    let ticket = file.submit(Write {
        offset,
        buf: filled(len, byte),
        range: 0..len,
        through,
    });
    let done = file.complete(ticket);
    assert_eq!(done.buf.len(), len, "the memory comes back");
    done.result
}

/// Writes by the plan of `method`, as the log does.
fn force(file: &dyn File, method: Method, offset: u64, byte: u8, len: usize) -> io::Result<()> {
    let plan = method.plan();
    write(file, offset, byte, len, plan.force == ForceBy::Through)?;
    if let ForceBy::Barrier(barrier) = plan.force {
        file.barrier(barrier)
    } else {
        Ok(())
    }
}

fn read(file: &dyn File, offset: u64, len: usize, source: ReadSource) -> io::Result<Vec<u8>> {
    let mut buf = AlignedBuf::zeroed(len, 4096);
    let n = file.read_at(offset, &mut buf, source)?;
    Ok(buf[..n].to_vec())
}

/// Runs all methods on files in each state, and reads back from the cache and from the medium.
fn every_method(dir: &dyn Directory, must_be_direct: bool) {
    let facts = dir.facts_for_writing().unwrap();
    assert!(
        facts.direct.is_some() || !must_be_direct,
        "no direct I/O: {facts:?}"
    );
    for method in Method::LINUX {
        let plan = method.plan();
        let how = OpenFile {
            access: Access::CreateNew,
            direct: plan.direct,
        };
        let name = format!("file-{method}");
        let file = match dir.open(&name, how) {
            Err(e) if plan.direct && facts.direct.is_none() => {
                assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
                let left = dir.entries().unwrap().iter().any(|e| e.name == name);
                assert!(!left, "a file that could not be opened was left behind");
                continue;
            }
            file => file.unwrap(),
        };
        assert!(
            !plan.direct || facts.direct.is_some(),
            "{method} should be refused"
        );
        // Growing.
        force(&*file, method, 0, 1, 8192).unwrap();
        assert_eq!(file.len().unwrap(), 8192);
        // Reserved.
        file.reserve(1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 1 << 20);
        force(&*file, method, 16384, 2, 4096).unwrap();
        // Overwriting; `large_writes` tests more bytes than one request can take.
        force(&*file, method, 0, 3, 4096).unwrap();
        for source in [ReadSource::Cache, ReadSource::Medium] {
            let got = match read(&*file, 0, 32768, source) {
                Err(e) if source == ReadSource::Medium && facts.direct.is_none() => {
                    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
                    continue;
                }
                got => got.unwrap(),
            };
            for (range, byte) in [
                (0..4096, 3),
                (4096..8192, 1),
                (8192..16384, 0),
                (16384..20480, 2),
                (20480..32768, 0),
            ] {
                assert!(
                    got[range.clone()].iter().all(|&b| b == byte),
                    "{method} {source:?} {range:?}"
                );
            }
            // At the end of the file, and behind it.
            assert_eq!(
                read(&*file, (1 << 20) - 4096, 8192, source).unwrap().len(),
                4096
            );
            assert_eq!(read(&*file, 1 << 20, 4096, source).unwrap().len(), 0);
            assert_eq!(read(&*file, 1 << 30, 4096, source).unwrap().len(), 0);
        }
        // A new reader sees the data too, also after a rename.
        let reader = dir.open(&name, OpenFile::READ).unwrap();
        dir.rename(&name, &format!("{name}-renamed")).unwrap();
        dir.sync().unwrap();
        assert_eq!(
            read(&*reader, 0, 4096, ReadSource::Cache).unwrap(),
            vec![3; 4096]
        );
        if facts.direct.is_some() {
            assert_eq!(
                read(&*reader, 0, 4096, ReadSource::Medium).unwrap(),
                vec![3; 4096]
            );
        }
        // A cached read sees the data of a direct write, although the old bytes were cached.
        force(&*file, method, 0, 9, 4096).unwrap();
        assert_eq!(
            read(&*reader, 0, 4096, ReadSource::Cache).unwrap(),
            vec![9; 4096]
        );
        file.barrier(Barrier::Data).unwrap();
        file.drop_cache(0..1 << 20);
        assert_eq!(
            read(&*reader, 0, 4096, ReadSource::Cache).unwrap(),
            vec![9; 4096]
        );
        dir.remove(&format!("{name}-renamed")).unwrap();
    }
}

#[test]
fn every_method_on_disk() {
    let (_temp, dir) = on_disk();
    every_method(&*dir, false);
}

#[test]
fn every_method_in_memory() {
    if let Some(temp) = in_memory() {
        every_method(&*OsSystem::new().directory(temp.path()).unwrap(), false);
    }
}

#[test]
fn every_method_on_each_filesystem() {
    let kinds = [
        ("ext4", 64),
        ("ext4-nojournal", 64),
        ("ext4-datajournal", 64),
        ("ext4-nobarrier", 64),
        ("xfs", 320),
        ("btrfs", 128),
    ];
    on_each(&kinds, |kind, fs| {
        let dir = OsSystem::new().directory(fs.path()).unwrap();
        every_method(&*dir, kind != "ext4-datajournal");
    });
}

#[test]
fn data_journalling_is_not_taken_for_direct() {
    // O_DIRECT can be opened there, but goes through the cache. Bytes that were read would not be those on
    // the medium.
    on_each(&[("ext4-datajournal", 64)], |_, fs| {
        let dir = OsSystem::new().directory(fs.path()).unwrap();
        let file = dir.open("a", OpenFile::CREATE).unwrap();
        write(&*file, 0, 1, 4096, true).unwrap();
        let e = read(&*file, 0, 4096, ReadSource::Medium).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        for access in [Access::Read, Access::Write] {
            let e = dir
                .open(
                    "a",
                    OpenFile {
                        access,
                        direct: true,
                    },
                )
                .map(drop)
                .unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        }
    });
}

fn direct_file() -> Option<(tempfile::TempDir, Arc<dyn File>, u64)> {
    let (temp, dir) = on_disk();
    let Some(needed) = dir.facts_for_writing().unwrap().direct else {
        logforce_testkit::skip!("no direct I/O in {}", temp.path().display());
        return None;
    };
    let file = dir
        .open(
            "a",
            OpenFile {
                access: Access::CreateNew,
                direct: true,
            },
        )
        .unwrap();
    Some((temp, file, needed.offset.into()))
}

#[test]
fn unaligned_direct_io_is_refused_with_the_numbers() {
    let Some((_temp, file, unit)) = direct_file() else {
        return;
    };
    write(&*file, 0, 1, 8192, false).unwrap();
    let submit = |offset, range: std::ops::Range<usize>| {
        let ticket = file.submit(Write {
            offset,
            buf: filled(16384, 7),
            range,
            through: true,
        });
        file.complete(ticket).result
    };
    let unit_len = unit as usize;
    for (offset, range) in [
        (1, 0..unit_len),
        (unit / 2, 0..unit_len),
        (0, 0..unit_len - 1),
        (0, 0..1),
        (0, 0..unit_len + 1),
        (0, 1..unit_len + 1),
    ] {
        let e = submit(offset, range.clone()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{offset} {range:?}: {e}");
        let text = e.to_string();
        for number in [
            format!("multiples of {unit}"),
            format!("offset {offset}"),
            format!("length {}", range.len()),
        ] {
            assert!(text.contains(&number), "no '{number}' in: {text}");
        }
    }
    assert_eq!(
        read(&*file, 0, 8192, ReadSource::Cache).unwrap(),
        vec![1; 8192]
    );
    // At exact multiples it succeeds.
    submit(unit, unit_len..2 * unit_len).unwrap();
    submit(0, 0..0).unwrap();
    // The same holds for reads of the medium, also on a file that is not direct.
    let mut buf = filled(8192, 0);
    for (offset, range) in [(1, 0..unit_len), (0, 0..unit_len - 1), (0, 1..unit_len + 1)] {
        let e = file
            .read_at(offset, &mut buf[range], ReadSource::Medium)
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
    }
    assert_eq!(
        file.read_at(3, &mut buf[1..10], ReadSource::Cache).unwrap(),
        9
    );
}

#[test]
fn the_medium_of_a_file_with_a_ragged_end() {
    let (_temp, dir) = on_disk();
    if dir.facts_for_writing().unwrap().direct.is_none() {
        logforce_testkit::skip!("no direct I/O");
        return;
    }
    let file = dir.open("a", OpenFile::CREATE).unwrap();
    write(&*file, 0, 5, 5000, false).unwrap();
    // Not synced: the read past the cache first writes back the dirty pages.
    assert_eq!(
        read(&*file, 0, 8192, ReadSource::Medium).unwrap(),
        vec![5; 5000]
    );
    assert_eq!(
        read(&*file, 4096, 8192, ReadSource::Medium).unwrap(),
        vec![5; 904]
    );
    assert_eq!(
        read(&*file, 8192, 4096, ReadSource::Medium).unwrap(),
        Vec::<u8>::new()
    );
}

#[test]
fn misuse_is_an_error_not_a_panic() {
    let (_temp, dir) = on_disk();
    let file = dir.open("a", OpenFile::CREATE).unwrap();
    let submit = |file: &dyn File, offset, range| {
        let ticket = file.submit(Write {
            offset,
            buf: filled(4096, 1),
            range,
            through: false,
        });
        file.complete(ticket).result.map_err(|e| e.kind())
    };
    let (from, to) = (10, 5);
    assert_eq!(submit(&*file, 0, from..to), Err(ErrorKind::InvalidInput));
    assert_eq!(submit(&*file, 0, 0..4097), Err(ErrorKind::InvalidInput));
    // The kernel would take -1 for the current position of the file.
    assert_eq!(submit(&*file, u64::MAX, 0..1), Err(ErrorKind::InvalidInput));
    assert_eq!(submit(&*file, u64::MAX, 0..0), Err(ErrorKind::InvalidInput));
    assert_eq!(
        submit(&*file, i64::MAX as u64, 0..1),
        Err(ErrorKind::InvalidInput)
    );
    assert_eq!(
        file.read_at(u64::MAX, &mut [0], ReadSource::Cache)
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        file.reserve(u64::MAX).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let done = file.complete(Ticket { id: 5, done: None });
    assert_eq!(done.result.unwrap_err().kind(), ErrorKind::InvalidInput);

    let reader = dir.open("a", OpenFile::READ).unwrap();
    assert_eq!(submit(&*reader, 0, 0..1), Err(ErrorKind::PermissionDenied));
    assert!(reader.reserve(4096).is_err());
    // A file that was opened for reading can be made durable nevertheless.
    reader.barrier(Barrier::Full).unwrap();
    reader.barrier(Barrier::Data).unwrap();
    assert!(file.is_empty().unwrap());
}

#[test]
fn only_the_range_is_written() {
    let (_temp, dir) = on_disk();
    let file = dir.open("a", OpenFile::CREATE).unwrap();
    let mut buf = AlignedBuf::zeroed(4096, 4096);
    for (i, b) in buf.iter_mut().enumerate() {
        *b = i as u8;
    }
    let ticket = file.submit(Write {
        offset: 2,
        buf,
        range: 100..103,
        through: true,
    });
    file.complete(ticket).result.unwrap();
    assert_eq!(
        read(&*file, 0, 4096, ReadSource::Cache).unwrap(),
        [0, 0, 100, 101, 102]
    );
}

#[test]
fn reserving_grows_and_never_shrinks() {
    let (_temp, dir) = on_disk();
    let file = dir.open("a", OpenFile::CREATE).unwrap();
    file.reserve(0).unwrap();
    assert!(file.is_empty().unwrap());
    file.reserve(100_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
    file.reserve(5_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
    assert!(
        read(&*file, 0, 100_000, ReadSource::Cache)
            .unwrap()
            .iter()
            .all(|&b| b == 0)
    );
}

#[test]
fn large_writes_arrive_whole() {
    let (_temp, dir) = on_disk();
    let facts = dir.facts_for_writing().unwrap();
    for direct in [false, true] {
        if direct && facts.direct.is_none() {
            continue;
        }
        let file = dir
            .open(
                &format!("large-{direct}"),
                OpenFile {
                    access: Access::CreateNew,
                    direct,
                },
            )
            .unwrap();
        let len = 24 << 20;
        let mut buf = AlignedBuf::zeroed(len, 4096);
        for (i, chunk) in buf.chunks_mut(8).enumerate() {
            chunk.copy_from_slice(&(i as u64).to_le_bytes());
        }
        let ticket = file.submit(Write {
            offset: 4096,
            buf,
            range: 0..len,
            through: true,
        });
        let done = file.complete(ticket);
        done.result.unwrap();
        assert!(read(&*file, 4096, len, ReadSource::Cache).unwrap() == done.buf[..]);
    }
}

#[test]
fn several_threads_write_at_once() {
    let (_temp, dir) = on_disk();
    let direct = dir.facts_for_writing().unwrap().direct.is_some();
    let file = dir
        .open(
            "a",
            OpenFile {
                access: Access::CreateNew,
                direct,
            },
        )
        .unwrap();
    file.reserve(16 * 16 * 4096).unwrap();
    std::thread::scope(|s| {
        for t in 0..16u64 {
            let file = &file;
            s.spawn(move || {
                for i in 0..16 {
                    write(&**file, (i * 16 + t) * 4096, t as u8 + 1, 4096, true).unwrap();
                }
            });
        }
    });
    let all = read(&*file, 0, 16 * 16 * 4096, ReadSource::Cache).unwrap();
    for (i, block) in all.chunks(4096).enumerate() {
        assert!(block.iter().all(|&b| b == (i % 16) as u8 + 1), "block {i}");
    }
}

#[test]
fn a_full_disk_says_so() {
    let kinds = [
        ("ext4", 32),
        ("ext4-nojournal", 32),
        ("xfs", 320),
        ("btrfs", 128),
    ];
    on_each(&kinds, |kind, fs| {
        let dir = OsSystem::new().directory(fs.path()).unwrap();
        let file = dir.open("big", OpenFile::CREATE).unwrap();
        let free = dir.free_space().unwrap();
        assert!(free > 0);
        let e = file.reserve(free + (64 << 20)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::StorageFull, "{kind}: {e}");
        assert!(e.to_string().contains("big"), "{e}");
        // Filled by writes, whichever call notices it first.
        let filler = dir.open("filler", OpenFile::CREATE).unwrap();
        let mut full = None;
        for i in 0..400u64 {
            if let Err(e) = write(&*filler, i << 20, 1, 1 << 20, false)
                .and_then(|()| filler.barrier(Barrier::Data))
            {
                full = Some(e);
                break;
            }
        }
        assert_eq!(
            full.expect("it never got full").kind(),
            ErrorKind::StorageFull,
            "{kind}"
        );
        dir.remove("filler").unwrap();
        dir.remove("big").unwrap();
    });
}

#[test]
fn a_read_only_filesystem_says_so() {
    on_each(&[("ext4", 32)], |_, fs| {
        let system = OsSystem::new();
        let path = fs.path().join("log");
        let dir = system.make_directory(&path).unwrap();
        let file = dir.open("a", OpenFile::CREATE).unwrap();
        write(&*file, 0, 1, 4096, true).unwrap();
        drop(file);
        fs.remount("ro").unwrap();
        let dir = system.make_directory(&path).unwrap();
        for e in [
            dir.open("b", OpenFile::CREATE).map(drop).unwrap_err(),
            dir.open("a", OpenFile::WRITE).map(drop).unwrap_err(),
            dir.lock("lock").map(drop).unwrap_err(),
            system
                .make_directory(&path.join("new"))
                .map(drop)
                .unwrap_err(),
        ] {
            assert_eq!(e.kind(), ErrorKind::ReadOnlyFilesystem, "{e}");
        }
        assert!(!dir.is_locked("lock").unwrap());
        let file = dir.open("a", OpenFile::READ).unwrap();
        assert_eq!(
            read(&*file, 0, 4096, ReadSource::Medium).unwrap(),
            vec![1; 4096]
        );
        // No file can be made to try direct I/O on, but there is an existing one.
        assert!(dir.facts_for_writing().unwrap().direct.is_some());
        fs.remount("rw").unwrap();
    });
}

/// Tests blocks that were reserved, written, shared with a copy, and written again.
#[cfg(target_os = "linux")]
#[test]
fn blocks_are_told_from_holes_and_shared_ones() {
    use logforce_device::Blocks;
    const LEN: u64 = 1 << 20;
    on_each(
        &[("ext4", 16), ("ext4-nojournal", 16), ("xfs", 300)],
        |kind, fs| {
            let dir = OsSystem::new().directory(fs.path()).unwrap();
            let file = dir.open("a", OpenFile::CREATE).unwrap();
            assert!(file.reserve(LEN).unwrap());
            assert_eq!(file.blocks(0..LEN), Blocks::Reserved, "{kind}");
            write(&*file, 0, 0, LEN as usize, false).unwrap();
            file.barrier(Barrier::Full).unwrap();
            assert_eq!(file.blocks(0..LEN), Blocks::Written, "{kind}");
            assert_eq!(file.blocks(4096..8192), Blocks::Written, "{kind}");
            assert_eq!(file.blocks(0..2 * LEN), Blocks::Missing, "{kind}");
            let (from, to) = (fs.path().join("a"), fs.path().join("b"));
            let cloned = std::process::Command::new("cp")
                .arg("--reflink=always")
                .args([&from, &to])
                .stderr(std::process::Stdio::null())
                .status();
            assert_eq!(cloned.unwrap().success(), kind == "xfs");
            if kind != "xfs" {
                return;
            }
            let copy = dir.open("b", OpenFile::WRITE).unwrap();
            assert_eq!(copy.blocks(0..LEN), Blocks::Missing);
            write(&*copy, 4096, 0, LEN as usize - 4096, false).unwrap();
            copy.barrier(Barrier::Full).unwrap();
            assert_eq!(copy.blocks(4096..LEN), Blocks::Written);
            assert_eq!(copy.blocks(0..LEN), Blocks::Missing);
        },
    );
}
