//! FUSE filesystem that is a single regular file.

use anyhow::{Context, Result};
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen,
    ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of requests that the kernel may have in flight: as many as a loop device sends.
const QUEUE: u16 = 128;

/// Inode number of each served file: `logforce` in ASCII. The kernel lists a loop device over an unmounted file without
/// a path; this number tells a disk of a suite from other files.
pub const INODE: u64 = u64::from_be_bytes(*b"logforce");

/// Disk that answers the requests.
pub trait Disk: Send + Sync + 'static {
    /// Reads the data that was written last.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno>;

    /// Accepts a write, and answers it now or later.
    fn write(&self, offset: u64, data: &[u8], reply: ReplyWrite);

    /// Makes completed writes stable, and answers now or later.
    fn flush(&self, reply: ReplyEmpty);
}

/// File that a disk serves.
pub struct Served<D> {
    /// Length in bytes; `None` for a stream, whose writers need no position.
    len: Option<u64>,
    disk: D,
}

/// Mounts the disk over the regular file `at`.
pub fn mount<D: Disk>(at: &Path, len: Option<u64>, disk: D) -> Result<Session<Served<D>>> {
    let fuse = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .context("/dev/fuse")?;
    // 0100600: the root of the filesystem is a regular file.
    let options = format!(
        "fd={},rootmode=100600,user_id=0,group_id=0,allow_other",
        fuse.as_raw_fd()
    );
    let options = std::ffi::CString::new(options)?;
    rustix::mount::mount(
        "logforce-crashtest",
        at,
        "fuse",
        MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )
    .with_context(|| format!("mounting a FUSE file at {}", at.display()))?;
    let served = Served { len, disk };
    let session = Session::from_fd(served, fuse.into(), SessionACL::All, Config::default());
    session.context("talking to /dev/fuse")
}

/// Moves the process to a separate mount namespace, without the suite's mounts. Must be called before any thread is
/// started, because it affects only the calling thread.
///
/// A killed process gives up its mounts before it closes its files. If it were the last to have the filesystem on this
/// disk mounted, it would write the filesystem back to itself and hang in the kernel. A filesystem that another part of
/// the suite unmounts would also stay mounted here.
pub fn leave_mounts(at: &Path) -> Result<()> {
    #[expect(deprecated, reason = "unsafe only for file tables, which stay shared")]
    let left = rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS);
    left.context("cannot create a mount namespace for the disk's process")?;
    // Detaches the directory of the enclosure, with all mounts below it.
    let below_root = at
        .ancestors()
        .skip(1)
        .take_while(|dir| dir.parent().is_some());
    let detached = below_root.into_iter().find_map(|dir| {
        let answer = rustix::mount::unmount(dir, UnmountFlags::DETACH);
        (answer != Err(rustix::io::Errno::INVAL)).then_some(answer)
    });
    let detached = detached.unwrap_or(Ok(()));
    detached.with_context(|| format!("detaching the mounts of {}", at.display()))
}

impl<D> Served<D> {
    fn attributes(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo(INODE),
            size: self.len.unwrap_or(0),
            blocks: self.len.unwrap_or(0) / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o600,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl<D: Disk> Filesystem for Served<D> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without this each write of a loop device would wait for the previous one, and one held write would delay
        // all others.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(QUEUE);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::from_secs(3600), &self.attributes());
    }

    /// Accepts everything: `>` truncates the file that it opens.
    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&Duration::from_secs(3600), &self.attributes());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(1), flags);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // FUSE sends this on close(2). A flush of the disk arrives as `fsync`.
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u64::from(size).min(self.len.unwrap_or(0).saturating_sub(offset));
        let mut buffer = vec![0; len as usize];
        match self.disk.read(offset, &mut buffer) {
            Ok(()) => reply.data(&buffer),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = offset.saturating_add(data.len() as u64);
        if self.len.is_some_and(|len| end > len) {
            return reply.error(Errno::ENOSPC);
        }
        self.disk.write(offset, data, reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.disk.flush(reply);
    }
}
