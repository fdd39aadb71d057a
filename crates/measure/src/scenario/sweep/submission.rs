//! The ways to have several writes in flight: a method, and who keeps them there.

use crate::result::Row;
use crate::result::name::named;
use logforce_device::{ForceBy, Method};

/// Who keeps writes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// A thread for each, which waits for it.
    Threads,
    /// One thread, by `io_uring`.
    IoUring,
}

impl Queue {
    /// Both.
    pub const ALL: [Queue; 2] = [Queue::Threads, Queue::IoUring];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Threads => "threads",
            Queue::IoUring => "io_uring",
        }
    }
}

named!(Queue);

/// What *in flight* means for a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// So many writes at any time, none waiting for another; each as durable as the method makes it,
    /// by itself.
    Write,
    /// So many writes, all of them ended, then one barrier that makes them durable together.
    Group,
}

impl Unit {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Write => "write",
            Unit::Group => "group",
        }
    }
}

/// A method, and who keeps its writes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// How a force is done.
    pub method: Method,
    /// Who keeps writes in flight.
    pub queue: Queue,
}

impl Way {
    /// Returns the way of a row; `None` for one that is not known here.
    pub fn of(row: &Row) -> Option<Way> {
        let (method, queue) = (row.method.known()?, row.queue.known()?);
        Some(Way { method, queue })
    }

    /// Returns whether a row is of it.
    pub fn is_of(self, row: &Row) -> bool {
        row.method == self.method && row.queue == self.queue
    }

    /// By threads.
    pub fn threads(method: Method) -> Way {
        let queue = Queue::Threads;
        Way { method, queue }
    }

    /// What is made durable at a time.
    pub fn unit(self) -> Unit {
        match self.method.plan().force {
            ForceBy::Barrier(_) => Unit::Group,
            ForceBy::Through | ForceBy::None => Unit::Write,
        }
    }

    /// What it does, in words for the reader of a report.
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
