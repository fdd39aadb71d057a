//! Several writes in flight, as a page file makes them: by a queue where the system has one, else by
//! threads.

use logforce_device::sync::{AtomicU32, Mutex};
use logforce_device::{AlignedBuf, File, JoinHandle, Runtime, Write, WriteQueue};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

/// Threads beside the caller's, which writes too.
const THREADS: usize = 7;

/// Writes in flight where there is a queue: more than a trial makes at once.
const DEPTH: usize = 64;

pub(super) struct Pool {
    /// If there is one, there are no threads.
    queue: Option<Box<dyn WriteQueue>>,
    shared: Arc<Shared>,
    threads: Vec<Box<dyn JoinHandle>>,
}

struct Shared {
    runtime: Arc<dyn Runtime>,
    state: Mutex<State>,
    /// Rings when there is work, and when it has ended.
    word: AtomicU32,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Arc<dyn File>, Write)>,
    left: usize,
    done: Vec<AlignedBuf>,
    error: Option<io::Error>,
    closed: bool,
}

impl Pool {
    /// Prepares to write to `file`.
    pub(super) fn start(runtime: &Arc<dyn Runtime>, file: Arc<dyn File>) -> io::Result<Pool> {
        let queue = file.write_queue(DEPTH);
        let threads = if queue.is_some() { 0 } else { THREADS };
        let mut pool = Pool {
            queue,
            shared: Arc::new(Shared {
                runtime: runtime.clone(),
                state: Mutex::default(),
                word: AtomicU32::new(0),
            }),
            threads: Vec::new(),
        };
        for _ in 0..threads {
            let shared = pool.shared.clone();
            let body = Box::new(move || shared.work());
            pool.threads.push(runtime.spawn("logforce-trial", body)?);
        }
        Ok(pool)
    }

    /// Does all writes; gives their memory back in any order.
    pub(super) fn write(
        &mut self,
        file: &Arc<dyn File>,
        writes: Vec<Write>,
    ) -> io::Result<Vec<AlignedBuf>> {
        let alone = writes.len() == 1;
        if let (Some(queue), false) = (&mut self.queue, alone) {
            return by_queue(&mut **queue, writes);
        }
        let shared = &self.shared;
        {
            let mut state = shared.lock();
            state.left = writes.len();
            state
                .jobs
                .extend(writes.into_iter().map(|w| (file.clone(), w)));
        }
        if !alone {
            shared.ring();
        }
        while shared.one() {}
        loop {
            let seen = shared.word.load(SeqCst);
            let mut state = shared.lock();
            if state.left == 0 {
                let done = std::mem::take(&mut state.done);
                return state.error.take().map_or(Ok(done), Err);
            }
            drop(state);
            shared.runtime.wait(&shared.word, seen, None);
        }
    }
}

/// All have ended when it returns, also after an error.
fn by_queue(queue: &mut dyn WriteQueue, writes: Vec<Write>) -> io::Result<Vec<AlignedBuf>> {
    for write in writes {
        queue.submit(write);
    }
    let ended: Vec<_> = std::iter::from_fn(|| queue.complete()).collect();
    let bufs = ended
        .into_iter()
        .map(|(_, done)| done.result.map(|()| done.buf));
    bufs.collect()
}

impl Shared {
    fn lock(&self) -> logforce_device::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.word.fetch_add(1, SeqCst);
        self.runtime.wake_all(&self.word);
    }

    /// Does one write, if there is one.
    fn one(&self) -> bool {
        let job = self.lock().jobs.pop_front();
        let Some((file, write)) = job else {
            return false;
        };
        let done = file.complete(file.submit(write));
        let mut state = self.lock();
        state.left -= 1;
        state.done.push(done.buf);
        if let Err(e) = done.result {
            state.error.get_or_insert(e);
        }
        let is_last = state.left == 0;
        drop(state);
        if is_last {
            self.ring();
        }
        true
    }

    fn work(&self) {
        loop {
            let seen = self.word.load(SeqCst);
            if self.one() {
                continue;
            }
            if self.lock().closed {
                return;
            }
            self.runtime.wait(&self.word, seen, None);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.ring();
        for thread in self.threads.drain(..) {
            // One that panicked has reported it.
            let _ = thread.join();
        }
    }
}
