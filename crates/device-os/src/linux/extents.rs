//! `FIEMAP`: the blocks of a file that were written, and their places.

#![allow(unsafe_code)]

use super::error::uninterrupted;
use logforce_device::Blocks;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Flags of an extent that a write overwrites in place (`linux/fiemap.h`): the last one of the file, and one
/// merged from several extents of the filesystem.
const HARMLESS: u32 = 0x1 | 0x1000;
/// Flag of an extent that is allocated and was never written.
const UNWRITTEN: u32 = 0x800;
/// Number of extents that one call returns.
const AT_ONCE: usize = 64;
/// Largest number of calls for one range. A file with more than a quarter of a million extents would take
/// seconds, for which an opening would wait.
const CALLS: usize = 4096;

const FIEMAP: Opcode = opcode::read_write::<Question>(b'f', 11);

/// `struct fiemap` without its extents.
#[repr(C)]
#[derive(Default)]
struct Question {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Map {
    question: Question,
    extents: [Extent; AT_ONCE],
}

/// Asks the kernel for the first extents in the range.
fn mapped(file: BorrowedFd<'_>, range: Range<u64>) -> rustix::io::Result<Vec<Extent>> {
    let mut map = Map {
        question: Question {
            start: range.start,
            length: range.end - range.start,
            count: AT_ONCE as u32,
            ..Question::default()
        },
        extents: [Extent::default(); AT_ONCE],
    };
    // SAFETY: the kernel reads `question` and writes at most `count` extents behind it, and there
    // are as many; `Map` is laid out as `struct fiemap` with its array.
    uninterrupted(|| unsafe { ioctl(file, Updater::<{ FIEMAP }, Map>::new(&mut map)) })?;
    let mapped = (map.question.mapped as usize).min(AT_ONCE);
    Ok(map.extents[..mapped].to_vec())
}

/// Place of a part of a file on its filesystem's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset in the file, bytes.
    pub logical: u64,
    /// Offset on the device, bytes.
    pub physical: u64,
    /// Length, bytes.
    pub length: u64,
}

/// Returns the places of a file on its device, in the order of the file. Parts that are
/// delayed, compressed or within metadata are left out. On btrfs `physical` is an address of its address space, not an
/// offset on a device.
///
/// # Errors
/// If the filesystem does not tell, or the file has more than a quarter of a million extents.
pub fn extents(file: BorrowedFd<'_>) -> rustix::io::Result<Vec<FileExtent>> {
    let (mut at, mut found) = (0, Vec::new());
    for _ in 0..CALLS {
        let some = mapped(file, at..u64::MAX)?;
        let end = some.last().map(|e| e.logical.saturating_add(e.length));
        let placed = some
            .iter()
            .filter(|e| e.flags & !(HARMLESS | UNWRITTEN) == 0);
        found.extend(placed.map(|e| FileExtent {
            logical: e.logical,
            physical: e.physical,
            length: e.length,
        }));
        match end {
            Some(end) if end > at => at = end,
            _ => return Ok(found),
        }
    }
    Err(rustix::io::Errno::TOOBIG)
}

/// Returns the state of the blocks in the range. Cached bytes without blocks count as missing.
pub fn blocks(file: BorrowedFd<'_>, range: Range<u64>) -> Blocks {
    let (mut at, mut worst) = (range.start, Blocks::Written);
    for _ in 0..CALLS {
        if at >= range.end {
            return worst;
        }
        let Ok(extents) = mapped(file, at..range.end) else {
            return Blocks::Unknown;
        };
        match covered(&extents, at) {
            // A hole, or an answer that makes no progress.
            (end, _) if end <= at => return Blocks::Missing,
            (_, Blocks::Missing) => return Blocks::Missing,
            (end, Blocks::Reserved) => (at, worst) = (end, Blocks::Reserved),
            (end, _) => at = end,
        }
    }
    Blocks::Unknown
}

/// Returns the end of the extents that follow `at` without a hole, and the worst state among them.
fn covered(extents: &[Extent], mut at: u64) -> (u64, Blocks) {
    let mut worst = Blocks::Written;
    for extent in extents {
        if extent.logical > at {
            return (at, Blocks::Missing);
        }
        if extent.flags & !(HARMLESS | UNWRITTEN) != 0 {
            // Shared, compressed, encrypted, within metadata, or not allocated yet.
            return (at, Blocks::Missing);
        }
        if extent.flags & UNWRITTEN != 0 {
            worst = Blocks::Reserved;
        }
        at = at.max(extent.logical.saturating_add(extent.length));
    }
    (at, worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsFd;

    const LEN: u64 = 1 << 20;

    fn extent(logical: u64, length: u64, flags: u32) -> Extent {
        Extent {
            logical,
            length,
            flags,
            ..Extent::default()
        }
    }

    #[test]
    fn holes_and_flags() {
        let whole = [extent(0, 10, 0), extent(10, 10, HARMLESS)];
        assert_eq!(covered(&whole, 5), (20, Blocks::Written));
        assert_eq!(
            covered(&[extent(0, 10, 0), extent(12, 8, 0)], 0).1,
            Blocks::Missing
        );
        assert_eq!(covered(&[extent(4, 8, 0)], 0), (0, Blocks::Missing));
        assert_eq!(
            covered(&[extent(0, 8, UNWRITTEN)], 0),
            (8, Blocks::Reserved)
        );
        // Unknown, delayed, encoded, encrypted, inline, tail, shared.
        for flag in [0x2, 0x4, 0x8, 0x80, 0x100, 0x200, 0x400, 0x2000] {
            assert_eq!(
                covered(&[extent(0, 8, flag)], 0).1,
                Blocks::Missing,
                "{flag:#x}"
            );
        }
        assert_eq!(
            covered(&[extent(u64::MAX - 1, 8, 0)], u64::MAX - 1).0,
            u64::MAX
        );
    }

    #[test]
    fn a_file_reserved_filled_and_punched() {
        let mut file = tempfile::tempfile().unwrap();
        let all = rustix::fs::FallocateFlags::empty();
        if rustix::fs::fallocate(&file, all, 0, LEN).is_err() {
            println!("SKIPPED: no fallocate here");
            return;
        }
        let ask = |file: &std::fs::File, range| blocks(file.as_fd(), range);
        let reserved = ask(&file, 0..LEN);
        if reserved == Blocks::Unknown {
            println!("SKIPPED: no FIEMAP here");
            return;
        }
        assert_eq!(reserved, Blocks::Reserved);
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&vec![0; LEN as usize / 2]).unwrap();
        file.sync_all().unwrap();
        if ask(&file, 0..LEN / 2) == Blocks::Missing {
            println!("SKIPPED: a filesystem that compresses or shares");
            return;
        }
        assert_eq!(ask(&file, 0..LEN / 2), Blocks::Written);
        assert_eq!(ask(&file, 0..LEN), Blocks::Reserved);
        assert_eq!(ask(&file, 0..2 * LEN), Blocks::Missing, "behind its end");
        use rustix::fs::FallocateFlags as F;
        let hole = F::PUNCH_HOLE | F::KEEP_SIZE;
        rustix::fs::fallocate(&file, hole, 65536, 65536).unwrap();
        assert_eq!(ask(&file, 0..65536), Blocks::Written);
        assert_eq!(ask(&file, 0..LEN), Blocks::Missing);
        assert_eq!(ask(&file, 131072..LEN), Blocks::Reserved);
    }

    /// Tests a file with more extents than one call returns, and filling the holes between them.
    #[test]
    fn a_file_in_many_parts() {
        let mut file = tempfile::tempfile().unwrap();
        let mut write = |half: u64| {
            for at in (0..600u64).map(|n| n * 8192 + half) {
                file.seek(SeekFrom::Start(at)).unwrap();
                file.write_all(&[1; 4096]).unwrap();
            }
            file.sync_all().unwrap();
            blocks(file.as_fd(), 0..600 * 8192)
        };
        if write(0) == Blocks::Unknown {
            println!("SKIPPED: no FIEMAP here");
            return;
        }
        if write(4096) == Blocks::Missing {
            println!("SKIPPED: a filesystem that compresses or shares");
            return;
        }
        assert_eq!(write(0), Blocks::Written);
        use rustix::fs::FallocateFlags as F;
        let hole = F::PUNCH_HOLE | F::KEEP_SIZE;
        for at in (0..300u64).map(|n| n * 16384) {
            rustix::fs::fallocate(&file, hole, at, 8192).unwrap();
        }
        assert_eq!(blocks(file.as_fd(), 0..600 * 8192), Blocks::Missing);
        assert_eq!(blocks(file.as_fd(), 8192..16384), Blocks::Written);
        let extents = extents(file.as_fd()).unwrap();
        assert_eq!(extents.iter().map(|e| e.length).sum::<u64>(), 300 * 8192);
        assert!(
            extents.iter().all(|e| e.logical % 16384 >= 8192),
            "{extents:?}"
        );
    }
}
