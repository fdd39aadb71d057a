//! Wrappers of the log's directory and files. They count the calls that change something, and register each
//! one while it is in flight, so that a hanging call appears in the statistics.

use crate::metrics::recorder::Metrics;
use logforce_device::{
    Barrier, Completion, Directory, File, ForwardDirectory, ForwardFile, OpenFile, Runtime, Ticket,
    Write,
};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Common part of both wrappers.
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

/// A directory whose calls are counted.
struct MeteredDirectory {
    inner: Arc<dyn Directory>,
    meter: Meter,
}

/// Returns a wrapper of the directory that counts its calls in `metrics`.
pub(crate) fn metered(
    inner: Arc<dyn Directory>,
    metrics: Arc<Metrics>,
    runtime: Arc<dyn Runtime>,
) -> Arc<dyn Directory> {
    let meter = Meter { metrics, runtime };
    Arc::new(MeteredDirectory { inner, meter })
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
            in_flight: Mutex::default(),
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.meter.call(|| self.inner.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.meter.call(|| self.inner.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.meter.metrics.counted.directory_syncs.add(1);
        self.meter.call(|| self.inner.sync())
    }
}

/// A file whose calls are counted, except reads: they delay only the thread of the reader.
struct MeteredFile {
    inner: Arc<dyn File>,
    meter: Meter,
    /// Writes in flight after `submit`, as ticket and slot. Never locked across a device call.
    in_flight: Mutex<Vec<(u64, usize)>>,
}

impl ForwardFile for MeteredFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }

    fn submit(&self, write: Write) -> Ticket {
        let metrics = &self.meter.metrics;
        metrics.counted.device_writes.add(1);
        let bytes = write.range.len() as u64;
        metrics.counted.device_write_bytes.add(bytes);
        let slot = metrics.calls.begin(self.meter.runtime.now());
        let ticket = self.inner.submit(write);
        match slot {
            Some(slot) if ticket.done.is_none() => self
                .in_flight
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
            let mut in_flight = self
                .in_flight
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let at = in_flight.iter().position(|(ticket, _)| *ticket == id);
            at.map(|at| in_flight.swap_remove(at).1)
        };
        self.meter.metrics.calls.end(slot);
        done
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        self.meter.metrics.counted.device_barriers.add(1);
        self.meter.call(|| self.inner.barrier(barrier))
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        self.meter.call(|| self.inner.reserve(len))
    }

    fn write_zeroes(&self, range: Range<u64>) -> io::Result<bool> {
        self.meter.call(|| self.inner.write_zeroes(range))
    }
}
