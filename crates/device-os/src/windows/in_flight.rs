//! `submit` and `complete` of the contract, over writes that the system completes asynchronously.
//!
//! The system is behind [`Starter`], so that a test can complete writes late, in another order, short and
//! with errors. Wine completes every overlapped write inside the call that starts it, and would never test
//! the rest.

use logforce_device::{AlignedBuf, Completion, Ticket};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Largest length of one call, whose length has 32 bits. A multiple of every sector.
const LONGEST: usize = 1 << 30;

/// Bytes of one call.
#[derive(Debug)]
pub struct Request {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Memory, which the operation owns until it has ended.
    pub buf: AlignedBuf,
    /// Part of the memory to write.
    pub range: Range<usize>,
    /// True to use the handle that writes through.
    pub through: bool,
}

/// Result of one call: the memory, and the number of bytes written.
#[derive(Debug)]
pub struct Ended {
    pub buf: AlignedBuf,
    pub written: io::Result<usize>,
}

/// Starter of writes that also waits for their end.
pub trait Starter: Send + Sync {
    /// Write in flight. It owns the memory and handles that the system uses. When dropped, it waits until the
    /// system has released them before it frees anything.
    type Operation: Send;

    /// Gives a write to the system. `Err` if it was refused at once: the system then has nothing.
    fn start(&self, request: Request) -> Result<Self::Operation, Ended>;

    /// Waits until the write has ended.
    fn wait(&self, operation: Self::Operation) -> Ended;
}

/// Writes to one file that are in flight.
#[derive(Debug)]
pub struct InFlight<S: Starter> {
    /// Before the starter, whose handles the writes need: fields are dropped in this order.
    table: Mutex<HashMap<u64, UnderWay<S::Operation>>>,
    next: AtomicU64,
    starter: S,
}

#[derive(Debug)]
struct UnderWay<O> {
    operation: O,
    rest: Rest,
    /// End of the whole write in the file.
    end: u64,
}

/// Remaining part of a write when the call in flight has ended.
#[derive(Debug, Clone)]
struct Rest {
    offset: u64,
    range: Range<usize>,
    through: bool,
    /// Length and offset of each call must be multiples of this.
    unit: usize,
}

impl Rest {
    fn request(&self, buf: AlignedBuf) -> Request {
        let len = self.range.len().min(LONGEST);
        Request {
            offset: self.offset,
            buf,
            range: self.range.start..self.range.start + len,
            through: self.through,
        }
    }

    /// Moves on behind the written bytes. Returns an error if the write cannot continue. Treating a short
    /// write as complete would acknowledge bytes that are not there.
    fn advance(&mut self, written: usize) -> io::Result<()> {
        let asked = self.range.len().min(LONGEST);
        if written > asked || (written == 0 && asked > 0) {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("the system reports {written} written bytes of {asked}"),
            ));
        }
        self.range.start += written;
        self.offset += written as u64;
        if !self.range.is_empty() && !written.is_multiple_of(self.unit) {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!(
                    "the system wrote {written} of {asked} bytes, not a multiple of {}: an unbuffered write cannot continue there",
                    self.unit
                ),
            ));
        }
        Ok(())
    }
}

impl<S: Starter> InFlight<S> {
    pub fn new(starter: S) -> Self {
        InFlight {
            table: Mutex::default(),
            next: AtomicU64::new(1),
            starter,
        }
    }

    /// Returns the starter of the writes.
    pub fn starter(&self) -> &S {
        &self.starter
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, UnderWay<S::Operation>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a write whose arguments are checked already.
    pub fn submit(
        &self,
        offset: u64,
        buf: AlignedBuf,
        range: Range<usize>,
        through: bool,
        unit: usize,
    ) -> Ticket {
        if range.is_empty() {
            return Ticket::ready(buf, Ok(()));
        }
        let end = offset + range.len() as u64;
        let rest = Rest {
            offset,
            range,
            through,
            unit,
        };
        match self.starter.start(rest.request(buf)) {
            Err(Ended { buf, written }) => Ticket::ready(buf, written.map(drop)),
            Ok(operation) => {
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                let under_way = UnderWay {
                    operation,
                    rest,
                    end,
                };
                self.table().insert(id, under_way);
                Ticket { id, done: None }
            }
        }
    }

    /// Waits for the write of a ticket, and also returns the end of the bytes that it may have written.
    /// `None` if the ticket does not belong to a write here.
    pub fn complete(&self, ticket: Ticket) -> Option<(Completion, u64)> {
        if let Some(done) = ticket.done {
            // Refused, or empty.
            return Some((done, 0));
        }
        // Removed before the wait, so that the table is not locked meanwhile and other writes continue.
        let under_way = self.table().remove(&ticket.id)?;
        let end = under_way.end;
        Some((self.finish(under_way), end))
    }

    fn finish(&self, under_way: UnderWay<S::Operation>) -> Completion {
        let UnderWay {
            mut operation,
            mut rest,
            end: _,
        } = under_way;
        loop {
            let Ended { buf, written } = self.starter.wait(operation);
            let result = written.and_then(|n| rest.advance(n));
            if result.is_err() || rest.range.is_empty() {
                return Completion { buf, result };
            }
            operation = match self.starter.start(rest.request(buf)) {
                Ok(next) => next,
                Err(Ended { buf, written }) => {
                    return Completion {
                        buf,
                        result: written.map(drop),
                    };
                }
            };
        }
    }
}

#[cfg(test)]
mod tests;
