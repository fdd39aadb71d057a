//! FUSE filesystem in memory that answers every fsync at once.

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Node {
    parent: u64,
    name: OsString,
    /// Bytes of a file; `None` for a directory.
    data: Option<Vec<u8>>,
}

/// Nodes by their numbers.
struct Forgetful(Mutex<BTreeMap<u64, Node>>);

/// Mounts the filesystem.
pub fn mount(at: &Path) -> std::io::Result<BackgroundSession> {
    let root = Node::default();
    let nodes = Forgetful(Mutex::new([(1, root)].into()));
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("forgetful".to_owned())];
    fuser::spawn_mount(nodes, at, &config)
}

fn attributes(number: u64, node: &Node) -> FileAttr {
    let size = node.data.as_ref().map_or(0, |d| d.len() as u64);
    let is_file = node.data.is_some();
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_file {
            FileType::RegularFile
        } else {
            FileType::Directory
        },
        perm: if is_file { 0o600 } else { 0o700 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Forgetful {
    fn add(&self, parent: INodeNo, name: &OsStr, data: Option<Vec<u8>>) -> FileAttr {
        let mut nodes = self.0.lock().unwrap();
        let number = nodes.keys().last().copied().unwrap_or(1) + 1;
        let node = Node {
            parent: parent.0,
            name: name.to_owned(),
            data,
        };
        let attributes = attributes(number, &node);
        nodes.insert(number, node);
        attributes
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.0
            .lock()
            .unwrap()
            .retain(|_, n| (n.parent, n.name.as_os_str()) != (parent.0, name));
        reply.ok();
    }
}

impl Filesystem for Forgetful {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let nodes = self.0.lock().unwrap();
        let mut all = nodes.iter();
        match all.find(|(_, n)| (n.parent, n.name.as_os_str()) == (parent.0, name)) {
            Some((number, node)) => reply.entry(&TTL, &attributes(*number, node), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.lock().unwrap().get(&number.0) {
            Some(node) => reply.attr(&TTL, &attributes(number.0, node)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
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
        let mut nodes = self.0.lock().unwrap();
        let Some(node) = nodes.get_mut(&number.0) else {
            return reply.error(Errno::ENOENT);
        };
        if let (Some(size), Some(data)) = (size, &mut node.data) {
            data.resize(size as usize, 0);
        }
        reply.attr(&TTL, &attributes(number.0, node));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.entry(&TTL, &self.add(parent, name, None), Generation(0));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let attributes = self.add(parent, name, Some(Vec::new()));
        reply.created(
            &TTL,
            &attributes,
            Generation(0),
            FileHandle(0),
            FopenFlags::empty(),
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let nodes = self.0.lock().unwrap();
        let data = nodes
            .get(&number.0)
            .and_then(|n| n.data.as_deref())
            .unwrap_or_default();
        let from = (offset as usize).min(data.len());
        let to = (from + size as usize).min(data.len());
        reply.data(&data[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut nodes = self.0.lock().unwrap();
        let Some(data) = nodes.get_mut(&number.0).and_then(|n| n.data.as_mut()) else {
            return reply.error(Errno::ENOENT);
        };
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        data.resize(data.len().max(to), 0);
        data[from..to].copy_from_slice(bytes);
        reply.written(bytes.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let nodes = self.0.lock().unwrap();
        let own = nodes
            .iter()
            .filter(|(n, node)| node.parent == number.0 && **n != 1);
        for (at, (n, node)) in own.enumerate().skip(offset as usize) {
            let kind = attributes(*n, node).kind;
            if reply.add(INodeNo(*n), at as u64 + 1, kind, &node.name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}
