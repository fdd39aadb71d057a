//! The directory and the files of a log, with every call that changes something counted and its
//! beginning noted, so that a call that does not come back is seen.

use super::Metrics;
use super::histogram::shard;
use logforce_device::{
    Barrier, Completion, Directory, File, ForwardDirectory, ForwardFile, OpenFile, Runtime, Ticket,
    Write,
};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const FREE: u64 = 0;
/// Eight for each of eight shards, so that each shard has a cache line of its own.
const SLOTS: usize = 64;

/// When the device calls under way began.
pub(super) struct Calls {
    /// By the log's clock, in nanoseconds.
    began: [AtomicU64; SLOTS],
}

impl Default for Calls {
    fn default() -> Self {
        Calls {
            began: std::array::from_fn(|_| AtomicU64::new(FREE)),
        }
    }
}

impl Calls {
    /// The slot taken; none where too many calls are under way.
    fn begin(&self, now: Duration) -> Option<usize> {
        let now = (now.as_nanos() as u64).max(FREE + 1);
        let first = shard() * 8;
        (first..first + SLOTS).map(|i| i % SLOTS).find(|&i| {
            let slot = &self.began[i];
            slot.compare_exchange(FREE, now, Relaxed, Relaxed).is_ok()
        })
    }

    fn end(&self, slot: Option<usize>) {
        if let Some(slot) = slot {
            self.began[slot].store(FREE, Relaxed);
        }
    }

    /// How long ago the oldest one began.
    pub(super) fn oldest(&self, now: Duration) -> Duration {
        let began = self.began.iter().map(|s| s.load(Relaxed));
        let oldest = began.filter(|&at| at != FREE).min();
        oldest.map_or(Duration::ZERO, |at| {
            now.saturating_sub(Duration::from_nanos(at))
        })
    }
}

/// What both kinds need.
#[derive(Clone)]
struct Meter {
    metrics: Arc<Metrics>,
    runtime: Arc<dyn Runtime>,
}

impl Meter {
    fn call<T>(&self, body: impl FnOnce() -> T) -> T {
        let slot = self.metrics.calls.begin(self.runtime.now());
        let done = body();
        self.metrics.calls.end(slot);
        done
    }
}

/// The directory, counted.
pub(super) struct MeteredDirectory {
    inner: Arc<dyn Directory>,
    meter: Meter,
}

impl MeteredDirectory {
    pub(super) fn new(
        inner: Arc<dyn Directory>,
        metrics: Arc<Metrics>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let meter = Meter { metrics, runtime };
        MeteredDirectory { inner, meter }
    }
}

impl ForwardDirectory for MeteredDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        let inner = self.meter.call(|| self.inner.open(name, how))?;
        Ok(Arc::new(MeteredFile {
            inner,
            meter: self.meter.clone(),
            flying: Mutex::default(),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.meter.call(|| self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.meter.call(|| self.inner.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.meter.metrics.counting.directory_syncs.add(1);
        self.meter.call(|| self.inner.sync())
    }
}

/// A file, counted. Reads are not: they wait in the reader's thread, and nobody else's.
struct MeteredFile {
    inner: Arc<dyn File>,
    meter: Meter,
    /// Writes that are in flight after `submit`: ticket and slot. Never locked across a call.
    flying: Mutex<Vec<(u64, usize)>>,
}

impl ForwardFile for MeteredFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn submit(&self, write: Write) -> Ticket {
        let metrics = &self.meter.metrics;
        metrics.counting.device_writes.add(1);
        let bytes = write.range.len() as u64;
        metrics.counting.device_write_bytes.add(bytes);
        let slot = metrics.calls.begin(self.meter.runtime.now());
        let ticket = self.inner.submit(write);
        match slot {
            Some(slot) if ticket.done.is_none() => self
                .flying
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((ticket.id, slot)),
            _ => metrics.calls.end(slot),
        }
        ticket
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        if ticket.done.is_some() {
            return self.inner.complete(ticket);
        }
        let id = ticket.id;
        let done = self.inner.complete(ticket);
        let slot = {
            let mut flying = self.flying.lock().unwrap_or_else(PoisonError::into_inner);
            let at = flying.iter().position(|(ticket, _)| *ticket == id);
            at.map(|at| flying.swap_remove(at).1)
        };
        self.meter.metrics.calls.end(slot);
        done
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        self.meter.metrics.counting.device_barriers.add(1);
        self.meter.call(|| self.inner.barrier(barrier))
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        self.meter.call(|| self.inner.reserve(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_call_is_the_one_that_counts() {
        let calls = Calls::default();
        let at = Duration::from_micros;
        assert_eq!(calls.oldest(at(9)), Duration::ZERO);
        let first = calls.begin(Duration::ZERO);
        let second = calls.begin(at(5));
        assert_ne!(first, second);
        assert_eq!(calls.oldest(at(9)), at(9) - Duration::from_nanos(1));
        calls.end(first);
        assert_eq!(calls.oldest(at(9)), at(4));
        assert_eq!(calls.oldest(at(2)), Duration::ZERO);
        calls.end(second);
        assert_eq!(calls.oldest(at(9)), Duration::ZERO);
        let all: Vec<_> = (0..SLOTS).map(|_| calls.begin(at(1))).collect();
        assert!(all.iter().all(Option::is_some));
        let beyond = calls.begin(at(2));
        assert_eq!(beyond, None);
        calls.end(beyond);
        assert_eq!(calls.oldest(at(3)), at(2));
    }
}
