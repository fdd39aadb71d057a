//! As many threads as commit, each with a loop of bare calls of its own: what the disk takes at
//! that depth.

use logforce_device::{AlignedBuf, File, ForceBy, Plan, Write};
use logforce_measure::MeasureError;
use logforce_measure::prepare::scramble;
use logforce_measure::workers::{Step, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Writes and forces pieces, each thread in a region of its own of one file filled beforehand.
pub(super) struct RawWork {
    pub(super) file: Arc<dyn File>,
    pub(super) plan: Plan,
    /// Bytes of a piece, a multiple of the write unit.
    piece: u64,
    /// Bytes of a region.
    region: u64,
    /// Where each thread goes on.
    cursors: Vec<AtomicU64>,
}

/// What a thread keeps.
pub(super) struct Worker {
    buf: Option<AlignedBuf>,
    thread: usize,
    number: u64,
}

impl RawWork {
    /// On the first `len` bytes of `file`; `None` if that is not a piece for everybody.
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
        // No device can share or skip what is different each time.
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
