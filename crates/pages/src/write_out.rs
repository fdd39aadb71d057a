//! Writing many pages at once: sorted, contiguous ones gathered into one write, several writes in
//! flight.

use crate::changes::Image;
use crate::error::is_no_space;
use crate::event::Event;
use logforce_device::sync::Mutex;
use logforce_device::{AlignedBuf, File, JoinHandle, Runtime, Write};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};

/// Bytes that are gathered into one write at most.
const LONGEST_RUN: usize = 1 << 20;

/// Runs in the system's cache that it is to begin to write, at a time.
const WRITE_BACK_RUNS: usize = 64;

/// Contiguous bytes of a file.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Where they go, bytes.
    pub(crate) offset: u64,
    /// The bytes, in pieces.
    pub(crate) pieces: Vec<Image>,
}

impl Run {
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(|p| p.len()).sum()
    }

    fn end(&self) -> u64 {
        self.offset + self.len() as u64
    }
}

/// Gathers pieces, which come in ascending order and do not overlap, into runs.
pub(crate) fn gather(pieces: impl IntoIterator<Item = (u64, Image)>) -> Vec<Run> {
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

/// Threads that write runs, so that several are in flight where a write blocks its thread.
pub(crate) struct Writers {
    pool: Arc<Pool>,
    threads: Vec<Box<dyn JoinHandle>>,
}

struct Pool {
    runtime: Arc<dyn Runtime>,
    alignment: usize,
    queue: Mutex<Queue>,
    work: Event,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

struct Job {
    file: Arc<dyn File>,
    run: Run,
    through: bool,
    set: Arc<Set>,
}

/// Runs that one caller waits for together.
#[derive(Default)]
struct Set {
    state: Mutex<SetState>,
    done: Event,
}

#[derive(Default)]
struct SetState {
    left: usize,
    error: Option<io::Error>,
}

impl Writers {
    /// Starts `count` threads.
    pub(crate) fn start(
        runtime: &Arc<dyn Runtime>,
        count: usize,
        alignment: usize,
    ) -> io::Result<Writers> {
        let mut writers = Writers {
            pool: Arc::new(Pool {
                runtime: runtime.clone(),
                alignment,
                queue: Mutex::default(),
                work: Event::default(),
            }),
            threads: Vec::new(),
        };
        for _ in 0..count {
            let pool = writers.pool.clone();
            let body = Box::new(move || pool.work());
            match runtime.spawn("logforce-pages", body) {
                Ok(thread) => writers.threads.push(thread),
                Err(e) => {
                    writers.stop();
                    return Err(e);
                }
            }
        }
        Ok(writers)
    }

    /// Writes all runs, and returns when none is in flight any more: the first error, if one failed.
    /// With `through` each is durable then; otherwise a barrier must follow.
    pub(crate) fn write(
        &self,
        file: &Arc<dyn File>,
        mut runs: Vec<Run>,
        through: bool,
    ) -> io::Result<()> {
        // The caller writes one itself: a single run costs no change of threads.
        let Some(own) = runs.pop() else {
            return Ok(());
        };
        let set = Arc::new(Set::default());
        if !runs.is_empty() {
            lock(&set.state).left = runs.len();
            let jobs = runs.into_iter().map(|run| Job {
                file: file.clone(),
                run,
                through,
                set: set.clone(),
            });
            lock(&self.pool.queue).jobs.extend(jobs);
            self.pool.work.notify(&*self.pool.runtime);
        }
        let result = self.pool.write_run(file, &own, through);
        loop {
            // What is left is done by whoever comes first, this thread included.
            let job = lock(&self.pool.queue).jobs.pop_front();
            match job {
                Some(job) => self.pool.carry_out(job),
                None => break,
            }
        }
        loop {
            let seen = set.done.observe();
            let mut state = lock(&set.state);
            if state.left == 0 {
                return match (result, state.error.take()) {
                    (Err(own), Some(other)) => Err(graver(own, other)),
                    (Err(e), None) | (Ok(()), Some(e)) => Err(e),
                    (Ok(()), None) => Ok(()),
                };
            }
            drop(state);
            set.done.wait(&*self.pool.runtime, seen, None);
        }
    }

    /// Writes all runs in the caller's thread, one after the other: for a file whose writes go into the
    /// system's cache, where each takes less than to wake a thread.
    pub(crate) fn write_in_turn(&self, file: &Arc<dyn File>, runs: &[Run]) -> io::Result<()> {
        let mut buf = None;
        for some in runs.chunks(WRITE_BACK_RUNS) {
            for run in some {
                buf = Some(self.pool.write_from(file, run, false, buf)?);
            }
            if let (Some(first), Some(last)) = (some.first(), some.last()) {
                // The device works on these while the next ones are copied.
                file.begin_write_back(first.offset..last.end());
            }
        }
        Ok(())
    }

    /// Ends the threads.
    pub(crate) fn stop(&mut self) {
        lock(&self.pool.queue).closed = true;
        self.pool.work.notify(&*self.pool.runtime);
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it, and its job's set has failed.
            let _ = thread.join();
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Pool {
    fn work(&self) {
        loop {
            let seen = self.work.observe();
            let mut queue = lock(&self.queue);
            match queue.jobs.pop_front() {
                Some(job) => {
                    drop(queue);
                    self.carry_out(job);
                }
                None if queue.closed => return,
                None => {
                    drop(queue);
                    self.work.wait(&*self.runtime, seen, None);
                }
            }
        }
    }

    fn carry_out(&self, job: Job) {
        let mut ended = Ended {
            pool: self,
            set: job.set,
            result: Some(Err(io::Error::other("the thread that wrote panicked"))),
        };
        ended.result = Some(self.write_run(&job.file, &job.run, job.through));
    }

    fn write_run(&self, file: &Arc<dyn File>, run: &Run, through: bool) -> io::Result<()> {
        self.write_from(file, run, through, None).map(drop)
    }

    /// Writes a run from the memory of an earlier one, if there is enough of that. Returns the memory.
    fn write_from(
        &self,
        file: &Arc<dyn File>,
        run: &Run,
        through: bool,
        buf: Option<AlignedBuf>,
    ) -> io::Result<AlignedBuf> {
        let enough = buf.filter(|buf| buf.len() >= run.len());
        let mut buf = enough.unwrap_or_else(|| AlignedBuf::zeroed(run.len(), self.alignment));
        let mut at = 0;
        for piece in &run.pieces {
            buf[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        let ticket = file.submit(Write {
            offset: run.offset,
            range: 0..at,
            buf,
            through,
        });
        let completion = file.complete(ticket);
        completion.result.map(|()| completion.buf)
    }
}

/// Counts a job as done, also when it unwinds: its caller would wait for ever.
struct Ended<'a> {
    pool: &'a Pool,
    set: Arc<Set>,
    result: Option<io::Result<()>>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.set.state);
        state.left -= 1;
        if let Some(Err(e)) = self.result.take() {
            state.error = Some(match state.error.take() {
                Some(before) => graver(before, e),
                None => e,
            });
        }
        drop(state);
        self.set.done.notify(&*self.pool.runtime);
    }
}

/// Of the errors of two writes the one that says more: a lack of space may be all that a caller
/// recovers from.
fn graver(first: io::Error, second: io::Error) -> io::Error {
    match is_no_space(&first) {
        true => second,
        false => first,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> logforce_device::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: usize) -> Image {
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
