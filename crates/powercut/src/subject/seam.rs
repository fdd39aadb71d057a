//! The operating system with one known fault, laid under the shipped log at its own seam. A suite
//! that does not see the fault sees nothing.

use logforce_device::{
    AlignedBuf, Barrier, Completion, Directory, Facts, File, ForwardDirectory, ForwardFile,
    OpenFile, ReadSource, Runtime, System, Ticket, Write,
};
use logforce_device_os::OsSystem;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fault {
    /// Nothing.
    None,
    /// Before the next barrier the last few writes stay in the process's own memory, and are reported
    /// as done: a kill takes what was acknowledged.
    Late,
    /// Errors of writes, of barriers and of reserving space pass for success: what was
    /// acknowledged after one is not there.
    ErrorsIgnored,
    /// No write goes through and no barrier is done: a cut takes what was acknowledged, and what
    /// readers were shown.
    Forgetful,
    /// As `Forgetful`, but from when the log is open, of segments in use alone: the log opens after
    /// the cut, with records missing.
    Unforced,
    /// Every process gets the lock: two write one log.
    Unlocked,
    /// Reads of segments find nothing behind their first 16 KiB.
    Blind,
    /// The control file always reads as it did at first: truncations and openings stay unseen.
    Stale,
}

/// Writes that [`Fault::Late`] keeps.
const KEPT: usize = 8;

/// The system with a fault.
pub struct Faulty {
    real: OsSystem,
    fault: Fault,
    is_open: Arc<AtomicBool>,
}

impl Faulty {
    /// With this one.
    pub fn new(fault: Fault) -> Self {
        Faulty {
            real: OsSystem::new(),
            fault,
            is_open: Arc::default(),
        }
    }

    /// The log on top of it is open.
    pub fn opened(&self) {
        self.is_open.store(true, Relaxed);
    }

    fn wrap(&self, real: Arc<dyn Directory>) -> Arc<dyn Directory> {
        Arc::new(Names {
            real,
            fault: self.fault,
            is_open: self.is_open.clone(),
            in_use: Mutex::default(),
            control: Arc::default(),
        })
    }
}

impl System for Faulty {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.real.runtime()
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(self.wrap(self.real.directory(path)?))
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(self.wrap(self.real.make_directory(path)?))
    }
}

type Remembered = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

struct Names {
    real: Arc<dyn Directory>,
    fault: Fault,
    is_open: Arc<AtomicBool>,
    /// Whether each file that was opened is a segment in use.
    in_use: Mutex<HashMap<String, Arc<AtomicBool>>>,
    control: Remembered,
}

impl Names {
    fn in_use(&self) -> MutexGuard<'_, HashMap<String, Arc<AtomicBool>>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_segment(name: &str) -> bool {
    name.ends_with(".seg")
}

impl ForwardDirectory for Names {
    fn inner(&self) -> &dyn Directory {
        &*self.real
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        let real = self.real.open(name, how)?;
        if self.fault == Fault::None {
            return Ok(real);
        }
        let in_use = self.in_use().entry(name.to_owned()).or_default().clone();
        in_use.store(is_segment(name), Relaxed);
        Ok(Arc::new(Bytes {
            real,
            fault: self.fault,
            is_open: self.is_open.clone(),
            in_use,
            control: (name == "control").then(|| self.control.clone()),
            late: Mutex::default(),
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

    fn sync(&self) -> io::Result<()> {
        match self.fault {
            Fault::Forgetful => Ok(()),
            Fault::ErrorsIgnored => self.real.sync().or(Ok(())),
            _ => self.real.sync(),
        }
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        match self.fault {
            Fault::Unlocked => Ok(Box::new(())),
            _ => self.real.lock(name),
        }
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        match self.fault {
            Fault::Unlocked => Ok(Box::new(())),
            _ => self.real.lock_file(name),
        }
    }

    /// An image in memory stands for the disk that it was taken from: what it is kept in counts for
    /// nothing.
    fn facts(&self) -> io::Result<Facts> {
        self.real.facts().map(without_enclosure)
    }

    fn facts_for_writing(&self) -> io::Result<Facts> {
        self.real.facts_for_writing().map(without_enclosure)
    }
}

fn without_enclosure(mut facts: Facts) -> Facts {
    let enclosure = logforce_crashtest::testbed::enclosure::name();
    // The layers below the enclosure follow it, with larger levels.
    let mut cut = None;
    facts.layers.retain(|layer| {
        if cut.is_some_and(|level| layer.level > level) {
            return false;
        }
        cut = layer.name.contains(&enclosure).then_some(layer.level);
        cut.is_none()
    });
    facts
}

struct Bytes {
    real: Arc<dyn File>,
    fault: Fault,
    is_open: Arc<AtomicBool>,
    /// It is a segment, and no longer being prepared: without forces of those the log would miss
    /// segments, and not open.
    in_use: Arc<AtomicBool>,
    /// What the first read of the control file returned.
    control: Option<Remembered>,
    /// Writes that were reported as done.
    late: Mutex<Vec<Write>>,
}

impl Bytes {
    /// Forces are left out, and reported as done.
    fn forgets(&self) -> bool {
        match self.fault {
            Fault::Forgetful => true,
            Fault::Unforced => self.is_open.load(Relaxed) && self.in_use.load(Relaxed),
            _ => false,
        }
    }

    fn do_late(&self, but: usize) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let due = late.len().saturating_sub(but);
        for write in late.drain(..due) {
            let ticket = self.real.submit(write);
            let _ = self.real.complete(ticket);
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.do_late(0);
    }
}

impl ForwardFile for Bytes {
    fn inner(&self) -> &dyn File {
        &*self.real
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        self.do_late(0);
        let len = self.real.read_at(offset, buf, source)?;
        match (self.fault, &self.control) {
            (Fault::Blind, None) => {
                let seen = (16u64 << 10).saturating_sub(offset).min(len as u64) as usize;
                buf[seen..len].fill(0);
            }
            (Fault::Stale, Some(control)) => {
                let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
                match control
                    .iter()
                    .find(|(at, was)| *at == offset && was.len() == len)
                {
                    Some((_, was)) => buf[..len].copy_from_slice(was),
                    None => control.push((offset, buf[..len].to_vec())),
                }
            }
            _ => {}
        }
        Ok(len)
    }

    fn submit(&self, write: Write) -> Ticket {
        match self.fault {
            Fault::Late => {
                let mut copy = AlignedBuf::zeroed(write.buf.len(), 4096);
                copy.copy_from_slice(&write.buf);
                let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
                late.push(Write {
                    offset: write.offset,
                    buf: copy,
                    range: write.range,
                    through: write.through,
                });
                drop(late);
                self.do_late(KEPT);
                Ticket::ready(write.buf, Ok(()))
            }
            _ => self.real.submit(Write {
                through: write.through && !self.forgets(),
                ..write
            }),
        }
    }

    fn complete(&self, mut ticket: Ticket) -> Completion {
        if self.fault == Fault::Late
            && let Some(done) = ticket.done.take()
        {
            return done;
        }
        let completion = self.real.complete(ticket);
        if self.fault == Fault::ErrorsIgnored {
            return Completion {
                result: Ok(()),
                ..completion
            };
        }
        completion
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        match self.fault {
            _ if self.forgets() => Ok(()),
            Fault::ErrorsIgnored => self.real.barrier(barrier).or(Ok(())),
            _ => {
                self.do_late(0);
                self.real.barrier(barrier)
            }
        }
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        match self.fault {
            Fault::ErrorsIgnored => Ok(self.real.reserve(len).unwrap_or(true)),
            _ => self.real.reserve(len),
        }
    }
}
