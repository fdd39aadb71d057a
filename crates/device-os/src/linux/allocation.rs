//! Allocation of a file: whether a write to it may need space that its filesystem no longer has.

#![allow(unsafe_code)]

use super::error::uninterrupted;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;

/// Extents asked for at a time.
const EXTENTS: usize = 128;

/// Maximum of calls for one file: half a million extents.
const CALLS: usize = 4096;

/// Flags of an extent that a write does not overwrite in place: `UNKNOWN`, `DELALLOC`, `ENCODED`,
/// `DATA_ENCRYPTED`, `NOT_ALIGNED`, `DATA_INLINE`, `DATA_TAIL`, `UNWRITTEN`, `SHARED`.
const NOT_IN_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x2000;

/// `struct fiemap_extent` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of the kernel, with its extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

// SAFETY: FS_IOC_FIEMAP reads and writes a `struct fiemap` with as many extents behind it as its
// `count` says, which is what `Fiemap` is; `as_ptr` points to it for the whole call.
unsafe impl Ioctl for &mut Fiemap {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        // The size of the header alone.
        opcode::read_write::<[u8; 32]>(b'f', 11)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut::<Fiemap>(self).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Returns whether a filesystem that overwrites in place has a written block of its own for each byte
/// of `file` below `end`. `None` where the filesystem does not answer, or not soon. Only looks: nothing is synced.
pub fn is_full(file: BorrowedFd<'_>, end: u64) -> io::Result<Option<bool>> {
    let mut at = 0;
    // Each call takes its time with a file in a million parts, and an opening waits.
    for _ in 0..CALLS {
        if at >= end {
            return Ok(Some(true));
        }
        let mut map = Fiemap {
            start: at,
            length: end - at,
            flags: 0,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        // SAFETY: as for the implementation of `Ioctl` above.
        match uninterrupted(|| unsafe { rustix::ioctl::ioctl(file, &mut map) }) {
            Ok(()) => {}
            Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let before = at;
        for extent in map.extents.iter().take(map.mapped as usize) {
            if extent.logical > at || extent.flags & NOT_IN_PLACE != 0 {
                return Ok(Some(false));
            }
            at = at.max(extent.logical.saturating_add(extent.length));
        }
        if at == before {
            return Ok(Some(false));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsFd;

    #[test]
    fn the_kernel_is_given_what_it_expects() {
        assert_eq!(size_of::<Extent>(), 56);
        assert_eq!(std::mem::offset_of!(Fiemap, extents), 32);
    }

    #[test]
    fn holes_and_reserved_blocks_are_not_full() {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(temp.path().join(name)).unwrap();
        let (mut full, sparse, reserved) = (file("full"), file("sparse"), file("reserved"));
        full.write_all(&[7; 256 << 10]).unwrap();
        full.sync_all().unwrap();
        sparse.set_len(256 << 10).unwrap();
        let is_full = |file: &File| is_full(file.as_fd(), 256 << 10).unwrap();
        let Some(answer) = is_full(&full) else {
            return logforce_testkit::skip!("the filesystem here does not map its files");
        };
        if !answer {
            return logforce_testkit::skip!("the filesystem here does not overwrite in place");
        }
        assert_eq!(is_full(&sparse), Some(false));
        let reserve =
            rustix::fs::fallocate(&reserved, rustix::fs::FallocateFlags::empty(), 0, 256 << 10);
        if reserve.is_ok() {
            assert_eq!(is_full(&reserved), Some(false));
        }
        // One hole in many extents, more than are asked for at a time.
        let mut many = file("many");
        for at in (0..600u64).map(|n| n * 8192) {
            many.seek(SeekFrom::Start(at)).unwrap();
            many.write_all(&[1; 4096]).unwrap();
        }
        many.sync_all().unwrap();
        assert_eq!(
            super::is_full(many.as_fd(), 600 * 8192).unwrap(),
            Some(false)
        );
        for at in (0..600u64).map(|n| n * 8192 + 4096) {
            many.seek(SeekFrom::Start(at)).unwrap();
            many.write_all(&[1; 4096]).unwrap();
        }
        many.sync_all().unwrap();
        assert_eq!(
            super::is_full(many.as_fd(), 600 * 8192).unwrap(),
            Some(true)
        );
    }
}
