//! Writes in flight by a queue of the system, from the caller's thread.

use super::{Run, Target, graver};
use crate::sync::Mutex;
use crate::{AlignedBuf, File, WriteQueue};
use std::io;
use std::sync::{Arc, PoisonError};

/// Number of writes in flight. It keeps a fast device busy, and a commit's own write does not wait long
/// behind that many.
const DEPTH: usize = 64;
/// Largest length of a run whose memory is reused, in bytes.
const KEPT: usize = 64 << 10;

pub(super) struct Queue {
    /// `None` while a thread uses the queue, so that no lock is held over I/O.
    idle: Mutex<Option<Idle>>,
}

struct Idle {
    queue: Box<dyn WriteQueue>,
    /// Memory for the next writes.
    bufs: Vec<AlignedBuf>,
}

impl Queue {
    pub(super) fn of(file: &Arc<dyn File>) -> Option<Queue> {
        let queue = file.clone().write_queue(DEPTH)?;
        let bufs = Vec::new();
        Some(Queue {
            idle: Mutex::new(Some(Idle { queue, bufs })),
        })
    }

    pub(super) fn write(&self, target: &Target, runs: &[Run]) -> io::Result<()> {
        let idle = match runs.len() {
            // The caller waits for a single write in any case.
            0 | 1 => None,
            _ => self.lock().take(),
        };
        let Some(mut idle) = idle else {
            // Another thread is using the queue: a checkpoint, while the file grows.
            let mut runs = runs.iter();
            return runs.try_for_each(|run| target.write(run, None).map(drop));
        };
        let result = idle.write(target, runs);
        *self.lock() = Some(idle);
        result
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, Option<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn write(&mut self, target: &Target, runs: &[Run]) -> io::Result<()> {
        let mut result = Ok(());
        let mut in_flight = 0;
        for run in runs {
            if in_flight == DEPTH {
                result = worse(result, self.complete());
                in_flight -= 1;
            }
            if result.is_err() {
                break;
            }
            let buf = self.bufs.pop();
            self.queue.submit(target.prepare(run, buf));
            in_flight += 1;
        }
        for _ in 0..in_flight {
            result = worse(result, self.complete());
        }
        result
    }

    /// Waits for a write, and keeps its memory for the next one.
    fn complete(&mut self) -> io::Result<()> {
        let Some((_, completion)) = self.queue.complete() else {
            return Err(io::Error::other("the write queue has lost a write"));
        };
        if (1..=KEPT).contains(&completion.buf.len()) {
            self.bufs.push(completion.buf);
        }
        completion.result
    }
}

fn worse(first: io::Result<()>, second: io::Result<()>) -> io::Result<()> {
    match (first, second) {
        (Err(first), Err(second)) => Err(graver(first, second)),
        (Err(e), _) | (_, Err(e)) => Err(e),
        (Ok(()), Ok(())) => Ok(()),
    }
}
