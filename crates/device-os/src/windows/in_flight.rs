//! The contract's `submit` and `complete` over writes that the system works on in its own time.
//!
//! What the system does is behind [`Starter`], so that a test can complete writes late, in another
//! order, short and with errors: Wine completes every overlapped write inside the call that starts
//! it, and would never show what the rest does then.

use logforce_device::{AlignedBuf, Completion, Ticket};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One call takes a length of 32 bits. A multiple of every sector.
const LONGEST: usize = 1 << 30;

/// Bytes for one call.
#[derive(Debug)]
pub struct Request {
    /// Where in the file.
    pub offset: u64,
    /// The memory, which the operation owns until it is over.
    pub buf: AlignedBuf,
    /// The part of it.
    pub range: Range<usize>,
    /// By the handle that writes through.
    pub through: bool,
}

/// What came of one call: the memory, and how many bytes were written.
#[derive(Debug)]
pub struct Ended {
    pub buf: AlignedBuf,
    pub written: io::Result<usize>,
}

/// Starts writes and waits for their end.
pub trait Starter: Send + Sync {
    /// A write under way. It owns what the system works on: dropped, it waits for the system to let
    /// go before it frees anything.
    type Operation: Send;

    /// Hands a write to the system. `Err` if it was refused at once: then the system has nothing.
    fn start(&self, request: Request) -> Result<Self::Operation, Ended>;

    /// Waits until the write is over.
    fn wait(&self, operation: Self::Operation) -> Ended;
}

/// The writes to one file that are under way.
#[derive(Debug)]
pub struct InFlight<S: Starter> {
    /// Before the starter, whose handles they need: fields are dropped in this order.
    table: Mutex<HashMap<u64, UnderWay<S::Operation>>>,
    next: AtomicU64,
    starter: S,
}

#[derive(Debug)]
struct UnderWay<O> {
    operation: O,
    rest: Rest,
    /// Where the whole write ends in the file.
    end: u64,
}

/// What a write still has to do when the call under way is over.
#[derive(Debug, Clone)]
struct Rest {
    offset: u64,
    range: Range<usize>,
    through: bool,
    /// What length and offset of each call must be multiples of.
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

    /// Goes on behind what was written. An error where it cannot: to take a short write for a whole
    /// one would acknowledge bytes that are not there.
    fn advance(&mut self, written: usize) -> io::Result<()> {
        let asked = self.range.len().min(LONGEST);
        if written > asked || (written == 0 && asked > 0) {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("the system says that it wrote {written} of {asked} bytes"),
            ));
        }
        self.range.start += written;
        self.offset += written as u64;
        if !self.range.is_empty() && !written.is_multiple_of(self.unit) {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!(
                    "the system wrote {written} of {asked} bytes, no multiple of {}: an unbuffered write cannot go on there",
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

    /// What starts the writes.
    pub fn starter(&self) -> &S {
        &self.starter
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, UnderWay<S::Operation>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a write whose numbers are checked already.
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

    /// Waits for the write of a ticket, and gives the end of what it may have written as well.
    /// `None` for a ticket that is of no write here.
    pub fn complete(&self, ticket: Ticket) -> Option<(Completion, u64)> {
        if let Some(done) = ticket.done {
            // Refused, or empty.
            return Some((done, 0));
        }
        // Taken out before the wait: the table is not locked meanwhile, and other writes go on.
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
