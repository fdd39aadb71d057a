//! The events that the log's callers and threads wait for.

use crate::sync::work_event::WorkEvent;
use logforce_commit::sync::event::{Event, JobEvents};
use logforce_commit::sync::wakers::Wakers;
use logforce_device::sync::AtomicBool;

/// The events of a log. Each is notified after the change that it reports is visible.
#[derive(Default)]
pub(crate) struct Events {
    /// A job has ended: wakes the next leader.
    pub(crate) next_leader: Event,
    /// A job has ended: wakes the committers whose records it wrote.
    pub(crate) jobs: JobEvents,
    /// A write is done, buffer space or a segment has appeared, or the log has failed.
    pub(crate) progress: Event,
    /// There is work for the writer thread.
    pub(crate) writer: WorkEvent,
    /// There is work for the preallocator.
    pub(crate) preallocator: WorkEvent,
    /// Tasks that wait for the written LSN.
    pub(crate) written_tasks: Wakers,
    /// Tasks that wait for buffer space or a segment.
    pub(crate) space_tasks: Wakers,
    /// The writer thread sleeps without a timeout, until the first force without a stamp.
    pub(crate) writer_is_idle: AtomicBool,
    /// The writer thread sleeps, and the page of statistics is up to date.
    pub(crate) statistics_are_written: AtomicBool,
}

/// The threads to wake once the mutex is released.
#[derive(Debug, Default, Clone, Copy)]
#[must_use]
pub(crate) struct Wakeups {
    pub(crate) writer: bool,
    pub(crate) preallocator: bool,
    /// Wakes the appends that wait for space, because a permit has given space back.
    pub(crate) space: bool,
}
