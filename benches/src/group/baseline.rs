//! Baseline for the log's group commit: the simplest design. It has one mutex and one condition
//! variable; the leader writes everything staged and then wakes all threads. It uses the same files, the
//! same device code and the same checksum as the log, but has neither recovery nor segments.

use super::records::{first_number, stamp};
use logforce_device::{AlignedBuf, File, ForceBy, Method, Write};
use logforce_measure::MeasureError;
use logforce_measure::workers::{Step, Work};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Size of the staging memory, bytes.
const STAGING: usize = 4 << 20;
/// Bytes in front of each record: its length and checksum.
const HEADER: usize = 8;

/// A journal that restarts at the beginning of its file when it reaches the end.
pub struct Baseline {
    file: Arc<dyn File>,
    method: Method,
    unit: usize,
    len: u64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    staged: Option<AlignedBuf>,
    spare: Option<AlignedBuf>,
    used: usize,
    /// Number of the last staged record, and of the last durable one.
    last: u64,
    durable: u64,
    writing: bool,
    offset: u64,
    failed: Option<String>,
}

impl State {
    fn check(&self) -> Result<(), MeasureError> {
        match &self.failed {
            Some(why) => Err(MeasureError::NotOffered(why.clone())),
            None => Ok(()),
        }
    }
}

impl Baseline {
    /// Returns a baseline on a file of `len` bytes. The caller has filled the file and opened it as
    /// `method` requires. `unit` is the write unit, bytes.
    pub fn new(file: Arc<dyn File>, method: Method, unit: u64, len: u64) -> Self {
        let unit = usize::try_from(unit).unwrap_or(4096);
        let buf = || Some(AlignedBuf::zeroed(STAGING + unit, unit.max(4096)));
        Baseline {
            file,
            method,
            unit,
            len,
            state: Mutex::new(State {
                staged: buf(),
                spare: buf(),
                used: 0,
                last: 0,
                durable: 0,
                writing: false,
                offset: 0,
                failed: None,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a record; returns when it is durable. It must fit into the staging memory (4 MiB).
    pub fn commit(&self, record: &[u8]) -> Result<(), MeasureError> {
        if HEADER + record.len() > STAGING {
            let why = "a record is too long for the baseline".to_owned();
            return Err(MeasureError::NotOffered(why));
        }
        let mut state = self.lock();
        while state.used + HEADER + record.len() > STAGING {
            state.check()?;
            state = self.wait(state);
        }
        let at = state.used;
        let end = at + HEADER + record.len();
        if let Some(staged) = &mut state.staged {
            staged[at..at + 4].copy_from_slice(&(record.len() as u32).to_le_bytes());
            staged[at + 4..at + HEADER].copy_from_slice(&crc32c::crc32c(record).to_le_bytes());
            staged[at + HEADER..end].copy_from_slice(record);
        }
        state.used = end;
        state.last += 1;
        let mine = state.last;
        loop {
            state.check()?;
            if state.durable >= mine {
                return Ok(());
            }
            if state.writing {
                state = self.wait(state);
                continue;
            }
            let Some(mut buf) = state.staged.take() else {
                return Err(MeasureError::NotOffered("a buffer was lost".to_owned()));
            };
            state.writing = true;
            let up_to = state.last;
            let used = std::mem::take(&mut state.used);
            state.staged = state.spare.take();
            let padded = used.next_multiple_of(self.unit);
            if state.offset + padded as u64 > self.len {
                state.offset = 0;
            }
            let offset = state.offset;
            state.offset += padded as u64;
            drop(state);
            buf[used..padded].fill(0);
            let (buf, result) = self.write(offset, buf, padded);
            state = self.lock();
            state.spare = Some(buf);
            state.writing = false;
            match result {
                Ok(()) => state.durable = up_to,
                Err(e) => state.failed = Some(format!("the baseline's write: {e}")),
            }
            self.changed.notify_all();
        }
    }

    fn write(&self, offset: u64, buf: AlignedBuf, len: usize) -> (AlignedBuf, std::io::Result<()>) {
        let force = self.method.plan().force;
        let done = self.file.complete(self.file.submit(Write {
            offset,
            buf,
            range: 0..len,
            through: force == ForceBy::Through,
        }));
        let result = match (done.result, force) {
            (Ok(()), ForceBy::Barrier(barrier)) => self.file.barrier(barrier),
            (result, _) => result,
        };
        (done.buf, result)
    }
}

/// Threads that commit to the baseline.
pub struct BaselineWork<'a> {
    /// The baseline.
    pub baseline: &'a Baseline,
    /// A record; each commit stamps a copy with its number.
    pub record: &'a [u8],
}

impl Work for BaselineWork<'_> {
    type Worker = (Vec<u8>, u64);

    fn worker(&self, thread: u32) -> Result<Self::Worker, MeasureError> {
        Ok((self.record.to_vec(), first_number(thread)))
    }

    fn step(&self, worker: &mut Self::Worker, began: Instant) -> Result<Step, MeasureError> {
        stamp(&mut worker.0, worker.1);
        worker.1 += 1;
        self.baseline.commit(&worker.0)?;
        Ok(Step { began, more: true })
    }
}
