//! The operating system with the forces of commits left out: the log on top believes that they are
//! durable.
//!
//! It is the known bug of every method at once, laid under the real library at its own seam. A
//! suite that does not see it on a filesystem sees nothing there. Opening, names and the control
//! file are left alone: the log is to open after the cut, with some of its records missing.

use logforce_device::{
    Barrier, Completion, Directory, Entry, Facts, File, FileIdentity, OpenFile, ReadSource,
    Runtime, System, Ticket, Write,
};
use logforce_device_os::OsSystem;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Forgetful {
    real: OsSystem,
    forgets: Arc<AtomicBool>,
}

impl Forgetful {
    pub(super) fn new(real: OsSystem) -> Self {
        Forgetful {
            real,
            forgets: Arc::default(),
        }
    }

    /// Leaves forces out from now on.
    pub(super) fn forget(&self) {
        self.forgets.store(true, Relaxed);
    }

    fn names(&self, real: Arc<dyn Directory>) -> Arc<dyn Directory> {
        Arc::new(Names {
            real,
            forgets: self.forgets.clone(),
            in_use: Mutex::default(),
        })
    }
}

impl System for Forgetful {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.real.runtime()
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(self.names(self.real.directory(path)?))
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(self.names(self.real.make_directory(path)?))
    }
}

struct Names {
    real: Arc<dyn Directory>,
    forgets: Arc<AtomicBool>,
    /// Whether each open file is a segment in use: what is being prepared is forced, or the log
    /// would miss segments, and not open.
    in_use: Mutex<HashMap<String, Arc<AtomicBool>>>,
}

impl Names {
    fn in_use(&self) -> MutexGuard<'_, HashMap<String, Arc<AtomicBool>>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_segment(name: &str) -> bool {
    name.ends_with(".seg")
}

impl Directory for Names {
    fn path(&self) -> &Path {
        self.real.path()
    }

    fn identity(&self) -> FileIdentity {
        self.real.identity()
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        self.real.entries()
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        let real = self.real.open(name, how)?;
        let in_use = self.in_use().entry(name.to_owned()).or_default().clone();
        in_use.store(is_segment(name), Relaxed);
        let forgets = self.forgets.clone();
        Ok(Arc::new(Bytes {
            real,
            forgets,
            in_use,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut in_use = self.in_use();
        if let Some(file) = in_use.remove(from) {
            file.store(is_segment(to), Relaxed);
            in_use.insert(to.to_owned(), file);
        }
        drop(in_use);
        self.real.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.real.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.real.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.real.lock(name)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.real.is_locked(name)
    }

    fn facts(&self) -> io::Result<Facts> {
        self.real.facts()
    }

    fn free_space(&self) -> io::Result<u64> {
        self.real.free_space()
    }
}

struct Bytes {
    real: Arc<dyn File>,
    forgets: Arc<AtomicBool>,
    in_use: Arc<AtomicBool>,
}

impl Bytes {
    fn forgets(&self) -> bool {
        self.forgets.load(Relaxed) && self.in_use.load(Relaxed)
    }
}

impl File for Bytes {
    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        self.real.read_at(offset, buf, source)
    }

    fn submit(&self, write: Write) -> Ticket {
        self.real.submit(Write {
            through: write.through && !self.forgets(),
            ..write
        })
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        self.real.complete(ticket)
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        if self.forgets() {
            return Ok(());
        }
        self.real.barrier(barrier)
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        self.real.reserve(len)
    }

    fn drop_cache(&self, range: Range<u64>) {
        self.real.drop_cache(range);
    }
}
