//! Raw loop with the same number of threads: each repeats bare write and sync calls. It shows the disk's
//! rate at that queue depth.

use logforce_device::{AlignedBuf, File, ForceBy, Plan, Write};
use logforce_measure::MeasureError;
use logforce_measure::prepare::scramble;
use logforce_measure::workers::{Step, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Writes and forces pieces. Each thread has a separate region of one file that was filled beforehand.
pub(super) struct RawWork {
    pub(super) file: Arc<dyn File>,
    pub(super) plan: Plan,
    /// Size of a piece, bytes; a multiple of the write unit.
    piece: u64,
    /// Size of a thread's region, bytes.
    region: u64,
    /// Offset of each thread's next write within its region.
    cursors: Vec<AtomicU64>,
}

/// State of one thread.
pub(super) struct Worker {
    buf: Option<AlignedBuf>,
    thread: usize,
    number: u64,
}

impl RawWork {
    /// Returns a raw loop on the first `len` bytes of `file`; `None` if a thread's share is less than
    /// one piece.
    pub(super) fn new(
        file: Arc<dyn File>,
        plan: Plan,
        piece: u64,
        threads: u32,
        len: u64,
    ) -> Option<RawWork> {
        let region = len / u64::from(threads.max(1)) / piece * piece;
        (region > 0).then(|| RawWork {
            file,
            plan,
            piece,
            region,
            cursors: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        })
    }
}

impl Work for RawWork {
    type Worker = Worker;

    fn worker(&self, thread: u32) -> Result<Worker, MeasureError> {
        let mut buf = AlignedBuf::zeroed(usize::try_from(self.piece).unwrap_or(0), 65536);
        scramble(&mut buf, 0xc0ff_ee00 + u64::from(thread));
        Ok(Worker {
            buf: Some(buf),
            thread: thread as usize,
            number: 0,
        })
    }

    fn step(&self, worker: &mut Worker, began: Instant) -> Result<Step, MeasureError> {
        let (Some(mut buf), Some(cursor)) = (worker.buf.take(), self.cursors.get(worker.thread))
        else {
            return Err(MeasureError::NotOffered("a buffer was lost".to_owned()));
        };
        let within = cursor.load(Relaxed);
        cursor.store((within + self.piece) % self.region, Relaxed);
        // Every write differs, so that no device can deduplicate or skip it.
        worker.number += 1;
        let stamp = worker.number.to_le_bytes();
        buf[..stamp.len()].copy_from_slice(&stamp);
        let range = 0..buf.len();
        let done = self.file.complete(self.file.submit(Write {
            offset: worker.thread as u64 * self.region + within,
            buf,
            range,
            through: self.plan.force == ForceBy::Through,
        }));
        worker.buf = Some(done.buf);
        let result = match (done.result, self.plan.force) {
            (Ok(()), ForceBy::Barrier(barrier)) => self.file.barrier(barrier),
            (result, _) => result,
        };
        result.map_err(MeasureError::io("the raw loop's write"))?;
        Ok(Step { began, more: true })
    }
}
