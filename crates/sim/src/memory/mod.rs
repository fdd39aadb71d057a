//! A directory in memory, without a scheduler: the cheapest way to open a log, for tests that open one a
//! million times.
//!
//! The files hold what a simulated disk held after a crash. Tests check what the shipped code makes of
//! *those* bytes. Only [`SimDisk`] simulates crashes, reordering and threads.

mod runtime;

use logforce_device::{
    Access, AlignedBuf, Barrier, Completion, DirEntry, Directory, Facts, File, FileIdentity,
    OpenFile, ReadSource, Runtime, System, Ticket, Write,
};
use logforce_testkit::{Call, FailingCalls, Refusal, SimDisk, SimOptions};
use runtime::Inert;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files of a directory, as bytes. Clones share the bytes until one is changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileImage {
    /// Bytes of each file, by name.
    pub files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl FileImage {
    /// Returns the files on the medium of a disk.
    pub fn of(disk: &SimDisk, dir: &str) -> FileImage {
        let file = |name: String| {
            let bytes = disk.file_bytes(dir, &name);
            let bytes = bytes.expect("a name that is durable");
            (name, Arc::new(bytes))
        };
        FileImage {
            files: disk.stable_names(dir).into_iter().map(file).collect(),
        }
    }

    /// Flips a bit; a second flip restores it.
    pub fn flip(&mut self, name: &str, offset: usize, bit: u8) {
        let file = self.files.get_mut(name).expect("a file of the image");
        Arc::make_mut(file)[offset] ^= 1 << bit;
    }

    /// Returns a system that holds a copy of these files in the directory `path`. No call fails.
    pub fn system(&self, path: &str) -> MemorySystem {
        let node = |(name, bytes): (&String, &Arc<Vec<u8>>)| {
            (name.clone(), Arc::new(Mutex::new(bytes.clone())))
        };
        MemorySystem {
            inner: Arc::new(Inner {
                path: path.into(),
                nodes: Mutex::new(self.files.iter().map(node).collect()),
                others: Mutex::default(),
                cut: AtomicBool::new(false),
                calls: Mutex::default(),
            }),
            runtime: Arc::default(),
        }
    }
}

type Node = Arc<Mutex<Arc<Vec<u8>>>>;

/// A system of one directory in memory. Its threads never run, because opening and reading a log needs
/// none.
#[derive(Clone)]
pub struct MemorySystem {
    inner: Arc<Inner>,
    runtime: Arc<Inert>,
}

struct Inner {
    path: PathBuf,
    nodes: Mutex<BTreeMap<String, Node>>,
    /// Directories that were created beside it.
    others: Mutex<BTreeMap<PathBuf, MemorySystem>>,
    cut: AtomicBool,
    calls: Mutex<Calls>,
}

/// Calls that were made, and calls that fail.
#[derive(Default)]
struct Calls {
    /// All calls so far, in order.
    made: Vec<Call>,
    failing_calls: Vec<FailingCalls>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// Counts a call. Returns an error, or by how much its result must be short.
    fn short(&self, call: Call) -> io::Result<Option<Refusal>> {
        if self.cut.load(SeqCst) {
            return Err(io::Error::other("power is cut"));
        }
        let mut calls = lock(&self.calls);
        calls.made.push(call);
        match calls.failing_calls.iter_mut().find_map(|t| t.strikes(call)) {
            Some(how) if !how.is_short() => Err(how.error()),
            short => Ok(short),
        }
    }

    fn enter(&self, call: Call) -> io::Result<()> {
        self.short(call).map(|_| ())
    }

    fn node(&self, name: &str) -> io::Result<Node> {
        let found = lock(&self.nodes).get(name).cloned();
        found.ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("{name} does not exist")))
    }
}

impl MemorySystem {
    /// Makes every further call fail, so that a dropped log does no more work.
    pub fn cut(&self) {
        self.inner.cut.store(true, SeqCst);
    }

    /// Makes these calls fail from now on.
    pub fn fail_calls(&self, failing: FailingCalls) {
        lock(&self.inner.calls).failing_calls.push(failing);
    }

    /// Makes all calls succeed from now on.
    pub fn stop_failing_calls(&self) {
        lock(&self.inner.calls).failing_calls.clear();
    }

    /// Returns the calls that were made so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.inner.calls).made.clone()
    }

    /// Returns the files as they are now.
    pub fn image(&self) -> FileImage {
        let nodes = lock(&self.inner.nodes);
        let file = |(name, node): (&String, &Node)| (name.clone(), lock(node).clone());
        FileImage {
            files: nodes.iter().map(file).collect(),
        }
    }
}

impl System for MemorySystem {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.inner.enter(Call::Directory)?;
        if path == self.inner.path {
            return Ok(Arc::new(MemoryDirectory(self.inner.clone())));
        }
        match lock(&self.inner.others).get(path) {
            Some(other) => other.directory(path),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        if path != self.inner.path {
            let made = || FileImage::default().system(&path.to_string_lossy());
            let mut others = lock(&self.inner.others);
            others.entry(path.to_owned()).or_insert_with(made);
        }
        self.directory(path)
    }
}

struct MemoryDirectory(Arc<Inner>);

impl Directory for MemoryDirectory {
    fn path(&self) -> &Path {
        &self.0.path
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity { volume: 1, file: 1 }
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let short = self.0.short(Call::Entries)?;
        let nodes = lock(&self.0.nodes);
        let shown = short.map_or(nodes.len(), |how| how.part_of(nodes.len()));
        let entry = |(name, node): (&String, &Node)| DirEntry {
            name: name.clone(),
            len: lock(node).len() as u64,
            is_file: true,
        };
        Ok(nodes.iter().take(shown).map(entry).collect())
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        self.0.enter(match how.access {
            Access::CreateNew => Call::Create,
            _ => Call::Open,
        })?;
        let node = match (self.0.node(name), how.access) {
            (Ok(_), Access::CreateNew) => {
                return Err(io::Error::new(
                    ErrorKind::AlreadyExists,
                    format!("{name} exists"),
                ));
            }
            (Err(e), Access::CreateNew) if e.kind() == ErrorKind::NotFound => {
                let node = Node::default();
                lock(&self.0.nodes).insert(name.to_owned(), node.clone());
                node
            }
            (node, _) => node?,
        };
        Ok(Arc::new(MemoryFile {
            inner: self.0.clone(),
            node,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.enter(Call::Rename)?;
        let node = self.0.node(from)?;
        let mut nodes = lock(&self.0.nodes);
        nodes.remove(from);
        nodes.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.enter(Call::Remove)?;
        self.0.node(name)?;
        lock(&self.0.nodes).remove(name);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.enter(Call::Sync)
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.0.enter(Call::Lock)?;
        lock(&self.0.nodes).entry(name.to_owned()).or_default();
        Ok(Box::new(()))
    }

    fn lock_file(&self, _: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.0.enter(Call::Lock)?;
        Ok(Box::new(()))
    }

    fn is_locked(&self, _: &str) -> io::Result<bool> {
        self.0.enter(Call::IsLocked)?;
        Ok(false)
    }

    fn facts(&self) -> io::Result<Facts> {
        self.0.enter(Call::Facts)?;
        Ok(SimOptions::default().facts())
    }

    fn free_space(&self) -> io::Result<u64> {
        self.0.enter(Call::FreeSpace)?;
        Ok(1 << 40)
    }
}

struct MemoryFile {
    inner: Arc<Inner>,
    node: Node,
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.enter(Call::Len)?;
        Ok(lock(&self.node).len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], _: ReadSource) -> io::Result<usize> {
        let short = self.inner.short(Call::Read)?;
        let bytes = lock(&self.node);
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(buf.len());
        let len = short.map_or(len, |how| how.part_of(len));
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn submit(&self, write: Write) -> Ticket {
        let Write {
            offset, buf, range, ..
        } = write;
        let result = self.inner.enter(Call::Write).map(|()| {
            let mut bytes = lock(&self.node);
            let bytes = Arc::make_mut(&mut bytes);
            let (from, to) = (offset as usize, offset as usize + range.len());
            bytes.resize(bytes.len().max(to), 0);
            bytes[from..to].copy_from_slice(&buf[range]);
        });
        Ticket::ready(buf, result)
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        let nothing = || Completion {
            buf: AlignedBuf::zeroed(0, 512),
            result: Err(io::Error::other("a ticket of another file")),
        };
        ticket.done.unwrap_or_else(nothing)
    }

    fn barrier(&self, _: Barrier) -> io::Result<()> {
        self.inner.enter(Call::Barrier)
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        self.inner.enter(Call::Reserve)?;
        let mut bytes = lock(&self.node);
        if (bytes.len() as u64) < len {
            Arc::make_mut(&mut bytes).resize(len as usize, 0);
        }
        Ok(true)
    }

    fn drop_cache(&self, _: Range<u64>) {}
}
