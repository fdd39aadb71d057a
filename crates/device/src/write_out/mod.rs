//! Writing many pages at once. Sorted, contiguous pages are gathered into one write, and several writes are
//! in flight. The module uses a queue of the system if there is one (`queue`), and threads otherwise
//! (`threads`).

mod queue;
mod threads;

use self::queue::Queue;
use self::threads::Threads;
use crate::failure::cannot_grow;
use crate::{AlignedBuf, File, Runtime, Write};
use std::io;
use std::sync::Arc;

/// Largest number of bytes gathered into one write.
const LONGEST_RUN: usize = 1 << 20;

/// Number of cached runs after which the system is asked to start writing them.
const WRITE_BACK_RUNS: usize = 64;

/// Contiguous bytes of a file.
#[derive(Debug, Clone)]
pub struct Run {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes to write, in pieces.
    pub pieces: Vec<Arc<[u8]>>,
}

impl Run {
    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|p| p.len()).sum()
    }

    fn end(&self) -> u64 {
        self.offset + self.len() as u64
    }
}

/// Gathers pieces into runs. The pieces are in ascending order and do not overlap.
pub fn gather(pieces: impl IntoIterator<Item = (u64, Arc<[u8]>)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (offset, piece) in pieces {
        match runs.last_mut() {
            Some(run) if run.end() == offset && run.len() + piece.len() <= LONGEST_RUN => {
                run.pieces.push(piece);
            }
            _ => runs.push(Run {
                offset,
                pieces: vec![piece],
            }),
        }
    }
    runs
}

/// Writer of runs to a file.
pub struct Writers {
    file: Arc<dyn File>,
    alignment: usize,
    how: How,
}

/// Mechanism that keeps several writes in flight.
enum How {
    /// One thread keeps all of them in flight.
    Queue(Queue),
    /// Each write blocks one thread.
    Threads(Threads),
}

impl Writers {
    /// Prepares to write to `file`, from memory of this alignment in bytes. Uses up to `threads` threads if
    /// the system has no queue. With 0 threads the caller's thread does all writes.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        runtime: &Arc<dyn Runtime>,
        file: &Arc<dyn File>,
        threads: usize,
        alignment: usize,
    ) -> io::Result<Writers> {
        let queue = match threads {
            0 => None,
            _ => Queue::of(file),
        };
        let how = match queue {
            Some(queue) => How::Queue(queue),
            None => How::Threads(Threads::start(runtime, threads)?),
        };
        Ok(Writers {
            file: file.clone(),
            alignment,
            how,
        })
    }

    /// Returns true if a queue keeps more writes in flight than there are threads.
    pub fn has_queue(&self) -> bool {
        matches!(self.how, How::Queue(_))
    }

    /// Writes all runs, and returns when none is in flight any more. With `through` they are durable on
    /// return; otherwise a barrier must follow.
    ///
    /// # Errors
    /// The error of a write. Of several errors, one that is not a lack of space if there is one.
    pub fn write(&self, runs: Vec<Run>, through: bool) -> io::Result<()> {
        let target = self.target(through);
        match &self.how {
            How::Queue(queue) => queue.write(&target, &runs),
            How::Threads(threads) => threads.write(&target, runs),
        }
    }

    /// Writes all runs in the caller's thread, one after the other. For a file whose writes go into the
    /// system's cache: such a write takes less time than waking a thread.
    ///
    /// # Errors
    /// The error of the first write that fails; the remaining runs are not written.
    pub fn write_in_turn(&self, runs: &[Run]) -> io::Result<()> {
        let target = self.target(false);
        let mut buf = None;
        for some in runs.chunks(WRITE_BACK_RUNS) {
            for run in some {
                buf = Some(target.write(run, buf)?);
            }
            if let (Some(first), Some(last)) = (some.first(), some.last()) {
                // The device writes these while the next runs are copied.
                self.file.begin_write_back(first.offset..last.end());
            }
        }
        Ok(())
    }

    fn target(&self, through: bool) -> Target {
        Target {
            file: self.file.clone(),
            alignment: self.alignment,
            through,
        }
    }
}

/// Target of the runs, with the options of each write.
#[derive(Clone)]
struct Target {
    file: Arc<dyn File>,
    /// Alignment of the memory of a write, in bytes.
    alignment: usize,
    through: bool,
}

impl Target {
    /// Makes the write of a run. It uses the memory of an earlier write if that is large enough.
    fn prepare(&self, run: &Run, buf: Option<AlignedBuf>) -> Write {
        let enough = buf.filter(|buf| buf.len() >= run.len());
        let mut buf = enough.unwrap_or_else(|| AlignedBuf::zeroed(run.len(), self.alignment));
        let mut at = 0;
        for piece in &run.pieces {
            buf[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Write {
            offset: run.offset,
            range: 0..at,
            buf,
            through: self.through,
        }
    }

    /// Writes the run and waits for it. Returns the memory.
    fn write(&self, run: &Run, buf: Option<AlignedBuf>) -> io::Result<AlignedBuf> {
        let ticket = self.file.submit(self.prepare(run, buf));
        let completion = self.file.complete(ticket);
        completion.result.map(|()| completion.buf)
    }
}

/// Returns the more important of two errors. A caller may be able to recover from a lack of space, so the
/// other error counts more.
fn graver(first: io::Error, second: io::Error) -> io::Error {
    match cannot_grow(&first) {
        true => second,
        false => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: usize) -> Arc<[u8]> {
        vec![1; len].into()
    }

    #[test]
    fn contiguous_pieces_are_one_run_up_to_its_limit() {
        let runs = gather([(0, piece(512)), (512, piece(512)), (2048, piece(512))]);
        let shape: Vec<_> = runs.iter().map(|r| (r.offset, r.len())).collect();
        assert_eq!(shape, [(0, 1024), (2048, 512)]);
        let page = 64 << 10;
        let many = (0..33u64).map(|n| (n * page as u64, piece(page)));
        let lens: Vec<_> = gather(many).iter().map(Run::len).collect();
        assert_eq!(lens, [1 << 20, 1 << 20, page]);
    }
}
