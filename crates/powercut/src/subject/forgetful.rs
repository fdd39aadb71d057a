//! The operating system with every force left out: the log on top believes that it is durable.
//!
//! It is the known bug of every method at once, laid under the real library at its own seam. A
//! suite that does not see it on a filesystem sees nothing there.

use logforce_device::{
    Barrier, Completion, Directory, Entry, Facts, File, FileIdentity, OpenFile, ReadSource,
    Runtime, System, Ticket, Write,
};
use logforce_device_os::OsSystem;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub(super) struct Forgetful(OsSystem);

impl Forgetful {
    pub(super) fn new(real: OsSystem) -> Self {
        Forgetful(real)
    }
}

impl System for Forgetful {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.0.runtime()
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(Names(self.0.directory(path)?)))
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(Names(self.0.make_directory(path)?)))
    }
}

struct Names(Arc<dyn Directory>);

impl Directory for Names {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn identity(&self) -> FileIdentity {
        self.0.identity()
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        self.0.entries()
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Bytes(self.0.open(name, how)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.0.lock(name)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.0.is_locked(name)
    }

    fn facts(&self) -> io::Result<Facts> {
        self.0.facts()
    }

    fn free_space(&self) -> io::Result<u64> {
        self.0.free_space()
    }
}

struct Bytes(Arc<dyn File>);

impl File for Bytes {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        self.0.read_at(offset, buf, source)
    }

    fn submit(&self, write: Write) -> Ticket {
        self.0.submit(Write {
            through: false,
            ..write
        })
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        self.0.complete(ticket)
    }

    fn barrier(&self, _: Barrier) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        self.0.reserve(len)
    }

    fn drop_cache(&self, range: Range<u64>) {
        self.0.drop_cache(range);
    }
}
