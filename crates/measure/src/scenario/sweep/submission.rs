//! Ways to keep several writes in flight: a method, and threads or `io_uring`.

use crate::result::Row;
use crate::result::name::named;
use logforce_device::{ForceBy, Method};

/// Mechanism that keeps writes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// One thread for each write, which waits for it.
    Threads,
    /// One thread with `io_uring`.
    IoUring,
}

impl Queue {
    /// Both mechanisms.
    pub const ALL: [Queue; 2] = [Queue::Threads, Queue::IoUring];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Threads => "threads",
            Queue::IoUring => "io_uring",
        }
    }
}

named!(Queue);

/// Meaning of *in flight* for a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// N independent writes at any time. Each has the method's guarantee by itself.
    Write,
    /// N writes, and once all of them have ended, one barrier that makes them durable together.
    Group,
}

impl Unit {
    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Write => "write",
            Unit::Group => "group",
        }
    }
}

/// A method, and the mechanism that keeps its writes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Commit method.
    pub method: Method,
    /// Mechanism that keeps writes in flight.
    pub queue: Queue,
}

impl Way {
    /// Returns the way of a row; `None` if this program does not know it.
    pub fn of(row: &Row) -> Option<Way> {
        let (method, queue) = (row.method.known()?, row.queue.known()?);
        Some(Way { method, queue })
    }

    /// Returns whether a row belongs to this way.
    pub fn is_of(self, row: &Row) -> bool {
        row.method == self.method && row.queue == self.queue
    }

    /// Returns the way of a method with threads.
    pub fn threads(method: Method) -> Way {
        let queue = Queue::Threads;
        Way { method, queue }
    }

    /// Returns the unit that is made durable at a time.
    pub fn unit(self) -> Unit {
        match self.method.plan().force {
            ForceBy::Barrier(_) => Unit::Group,
            ForceBy::Through | ForceBy::None => Unit::Write,
        }
    }

    /// Describes the way for the reader of a report.
    pub fn describe(self) -> &'static str {
        let plan = self.method.plan();
        match (self.unit(), self.queue, plan.direct, plan.force) {
            (Unit::Group, Queue::IoUring, ..) => {
                "N writes in flight from one thread, then one barrier for all of them"
            }
            (Unit::Group, _, true, _) => {
                "N writes in flight by N threads, then one barrier for all of them"
            }
            (Unit::Group, _, false, _) => {
                "N writes into the system's cache, one after the other, then one barrier for all of \
                 them"
            }
            (Unit::Write, Queue::IoUring, _, ForceBy::Through) => {
                "N writes in flight from one thread, each durable by itself"
            }
            (Unit::Write, _, _, ForceBy::Through) => {
                "N writes in flight by N threads, each durable by itself"
            }
            (Unit::Write, Queue::IoUring, ..) => {
                "N writes in flight from one thread, none of them forced"
            }
            (Unit::Write, ..) => "N writes in flight by N threads, none of them forced",
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.queue {
            Queue::Threads => f.pad(self.method.name()),
            Queue::IoUring => f.pad(&format!("{}, io_uring", self.method)),
        }
    }
}
