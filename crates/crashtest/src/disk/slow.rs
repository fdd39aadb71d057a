//! Slow disk: a network volume, or a disk that serves one request after another.

use super::control::{frees_memory, open, send};
use super::serve::{self, Disk};
use anyhow::Result;
use fuser::{Errno, ReplyEmpty, ReplyWrite};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Delays of a slow disk. Reads are not delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// Duration of a write.
    pub write: Duration,
    /// Duration of a flush.
    pub flush: Duration,
    /// Number of writes and flushes that it serves at once, at least 1. Others wait.
    pub depth: usize,
}

/// Files and delays of a slow disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowSetup {
    /// Empty file over which the disk is mounted.
    pub at: PathBuf,
    /// File with the contents of the disk.
    pub contents: PathBuf,
    /// Delays of the disk.
    pub delays: Delays,
}

/// Schedule of a disk that serves `depth` requests at once.
struct Turns {
    /// Times at which each of the `depth` slots becomes free.
    free: BinaryHeap<Reverse<Instant>>,
}

impl Turns {
    fn new(depth: usize, now: Instant) -> Turns {
        Turns {
            free: vec![Reverse(now); depth.max(1)].into(),
        }
    }

    /// Schedules a request that comes at `now` and has the duration `takes`. Returns the time at which it ends.
    fn serve(&mut self, now: Instant, takes: Duration) -> Instant {
        let first = self.free.pop().map_or(now, |Reverse(at)| at);
        let ends = first.max(now) + takes;
        self.free.push(Reverse(ends));
        ends
    }
}

enum Reply {
    Write(ReplyWrite, u32),
    Flush(ReplyEmpty),
}

struct Queue {
    turns: Turns,
    /// Replies with their due times, in order of arrival.
    served: Vec<(Instant, Reply)>,
}

#[derive(Clone)]
struct Slow {
    contents: Arc<File>,
    delays: Delays,
    queue: Arc<Mutex<Queue>>,
    more: Arc<Condvar>,
}

impl Slow {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, takes: Duration, reply: Reply) {
        let mut queue = self.queue();
        let ends = queue.turns.serve(Instant::now(), takes);
        queue.served.push((ends, reply));
        drop(queue);
        self.more.notify_one();
    }

    /// Sends the replies that are due. Never returns.
    fn answer(&self) {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            let (due, later) = std::mem::take(&mut queue.served)
                .into_iter()
                .partition(|(ends, _)| *ends <= now);
            queue.served = later;
            if !due.is_empty() {
                drop(queue);
                let _: Vec<()> = due.into_iter().map(|(_, reply)| reply.send()).collect();
                queue = self.queue();
                continue;
            }
            let next = queue.served.iter().map(|(ends, _)| *ends).min();
            let pause = next.map_or(Duration::from_secs(1), |n| n.saturating_duration_since(now));
            let waited = self.more.wait_timeout(queue, pause);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Reply {
    fn send(self) {
        match self {
            Reply::Write(reply, len) => reply.written(len),
            Reply::Flush(reply) => reply.ok(),
        }
    }
}

impl Disk for Slow {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let read = self.contents.read_exact_at(buffer, offset);
        read.map_err(|_| Errno::EIO)
    }

    fn write(&self, offset: u64, data: &[u8], reply: ReplyWrite) {
        match self.contents.write_all_at(data, offset) {
            Ok(()) => self.serve(self.delays.write, Reply::Write(reply, data.len() as u32)),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, reply: ReplyEmpty) {
        self.serve(self.delays.flush, Reply::Flush(reply));
    }
}

/// Serves the disk until its input ends.
///
/// # Errors
/// If the file of its contents cannot be opened, or if the disk cannot be mounted.
pub fn run_slow(setup: &SlowSetup, mut harness: &UnixStream) -> Result<()> {
    frees_memory();
    // By default the kernel ends sleeps up to 50 us late, to save wake-ups. The threads inherit this setting.
    let _ = std::fs::write("/proc/self/timerslack_ns", "1");
    let contents = open(&setup.contents)?;
    let len = contents.metadata()?.len();
    let disk = Slow {
        contents: Arc::new(contents),
        delays: setup.delays,
        queue: Arc::new(Mutex::new(Queue {
            turns: Turns::new(setup.delays.depth, Instant::now()),
            served: Vec::new(),
        })),
        more: Arc::new(Condvar::new()),
    };
    let session = serve::mount(&setup.at, Some(len), disk.clone())?;
    serve::leave_mounts(&setup.at)?;
    std::thread::spawn(move || session.run());
    std::thread::spawn(move || disk.answer());
    send(harness, &"ready")?;
    std::io::copy(&mut harness, &mut std::io::sink())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKES: Duration = Duration::from_millis(5);

    /// Returns the ends of requests that come at once, in multiples of the duration of one.
    fn ends(depth: usize, requests: usize) -> Vec<u32> {
        let now = Instant::now();
        let mut turns = Turns::new(depth, now);
        let ends = (0..requests).map(|_| turns.serve(now, TAKES).duration_since(now));
        ends.map(|e| (e.as_micros() / TAKES.as_micros()) as u32)
            .collect()
    }

    #[test]
    fn as_many_as_its_depth_are_served_at_once() {
        assert_eq!(ends(1, 3), [1, 2, 3]);
        assert_eq!(ends(2, 5), [1, 1, 2, 2, 3]);
        assert_eq!(ends(32, 32), [1; 32]);
    }

    #[test]
    fn a_request_to_an_idle_disk_takes_what_it_takes() {
        let now = Instant::now();
        let mut turns = Turns::new(1, now);
        assert_eq!(turns.serve(now, TAKES), now + TAKES);
        let later = now + 3 * TAKES;
        assert_eq!(turns.serve(later, TAKES), later + TAKES);
    }
}
