use super::*;
use crate::windows::directory::OsDirectory;
use crate::windows::trace::tests::{opened, write};
use logforce_device::{Directory, Method};

const WRITE_THROUGH: u32 = 0x2;
const NO_BUFFERING: u32 = 0x8;
const SYNCHRONOUS: u32 = 0x10 | 0x20;

fn made(direct: bool) -> (tempfile::TempDir, OsDirectory, OsFile) {
    let (temp, dir) = opened();
    let how = OpenFile {
        direct,
        ..OpenFile::CREATE
    };
    let file = OsFile::open(dir.opened(), "a", how).unwrap();
    (temp, dir, file)
}

/// Tests the system's report about each handle that a method writes by.
#[test]
fn handles_are_opened_as_the_method_says() {
    for &method in &Method::WINDOWS {
        let plan = method.plan();
        let (_temp, _dir, file) = made(plan.direct);
        let through = plan.force == logforce_device::ForceBy::Through;
        write(&file, 0, 1, through);
        let writer = file.in_flight.starter();
        let mode = handle::mode(writer.handle(through).unwrap()).unwrap();
        assert_eq!(mode & NO_BUFFERING != 0, plan.direct, "{method}");
        assert_eq!(mode & WRITE_THROUGH != 0, through, "{method}");
        assert_eq!(mode & SYNCHRONOUS, 0, "{method}: not overlapped");
        // A plain write uses a handle without write-through.
        let plain = handle::mode(writer.handle(false).unwrap()).unwrap();
        assert_eq!(plain & WRITE_THROUGH, 0, "{method}");
        let cached = handle::mode(&file.cached).unwrap();
        assert_eq!(cached & (NO_BUFFERING | WRITE_THROUGH), 0, "{method}");
        let mut buf = AlignedBuf::zeroed(4096, 4096);
        file.read_at(0, &mut buf, ReadSource::Medium).unwrap();
        let medium = handle::mode(file.medium.get().unwrap()).unwrap();
        assert_ne!(medium & NO_BUFFERING, 0, "reads of the medium");
    }
}

#[test]
fn many_writes_are_under_way_together_and_what_is_left_is_waited_for() {
    for direct in [false, true] {
        let (_temp, dir, file) = made(direct);
        let submit = |i: u64| {
            let mut buf = AlignedBuf::zeroed(4096, 4096);
            buf.fill(i as u8 + 1);
            file.submit(Write {
                offset: i * 4096,
                buf,
                range: 0..4096,
                through: i.is_multiple_of(2),
            })
        };
        let mut tickets: Vec<Ticket> = (0..16).map(submit).collect();
        assert!(tickets.iter().all(|t| t.done.is_none()));
        let _ = submit(16);
        while let Some(ticket) = tickets.pop() {
            file.complete(ticket).result.unwrap();
        }
        drop(file);
        let file = OsFile::open(dir.opened(), "a", OpenFile::READ).unwrap();
        let mut all = vec![0; 17 * 4096];
        let n = file.read_at(0, &mut all, ReadSource::Cache).unwrap();
        assert_eq!(n, all.len());
        for (i, unit) in all.chunks(4096).enumerate() {
            assert!(unit.iter().all(|b| *b == i as u8 + 1), "{i}");
        }
    }
}

#[test]
fn a_file_that_is_read_can_be_flushed_and_openings_share_its_ends() {
    let (_temp, dir, file) = made(false);
    write(&file, 0, 1, false);
    let reader = OsFile::open(dir.opened(), "a", OpenFile::READ).unwrap();
    assert!(Arc::ptr_eq(&file.extent, &reader.extent));
    assert!(!reader.extent.is_flushed());
    reader.barrier(Barrier::Data).unwrap();
    assert!(file.extent.is_flushed());
    write(&file, 0, 2, false);
    assert!(file.extent.is_flushed(), "overwritten in place");
    file.barrier(Barrier::Data).unwrap();
    write(&file, 4096, 3, false);
    assert!(!file.extent.is_flushed(), "the file has grown");
    file.barrier(Barrier::Full).unwrap();
    assert!(file.extent.is_flushed());
    // The shared ends disappear with the last opening.
    let extent = Arc::downgrade(&file.extent);
    drop((file, reader));
    assert!(extent.upgrade().is_none());
    dir.remove("a").unwrap();
}

#[test]
fn a_flush_covers_nothing_of_a_write_that_is_in_flight() {
    let (_temp, _dir, file) = made(false);
    let ticket = file.submit(Write {
        offset: 0,
        buf: AlignedBuf::zeroed(4096, 4096),
        range: 0..4096,
        through: false,
    });
    file.barrier(Barrier::Full).unwrap();
    file.complete(ticket).result.unwrap();
    assert!(
        !file.extent.is_flushed(),
        "it may have moved the ends since"
    );
    file.barrier(Barrier::Data).unwrap();
    assert!(file.extent.is_flushed());
}
