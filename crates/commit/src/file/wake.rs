//! Reasons of a file's wake-ups and waits.

use crate::reasons;

reasons! {
    /// Reason for waking threads or tasks.
    Wake {
        /// The next leader: a sync or a durable write has ended.
        NextLeader = "file-wake-next-leader",
        /// The committers that the sync has covered.
        Synced = "file-wake-committers",
        /// Tasks that wait for the durable horizon.
        Tasks = "file-wake-tasks",
        /// The file's thread: a commit was submitted.
        Submitted = "file-wake-thread",
        /// The file's thread: a commit within a bound needs a sync earlier than the thread would wake.
        Bounded = "file-wake-thread-for-bound",
        /// The file's thread, which ends.
        Closed = "file-wake-thread-to-end",
        /// The file has failed: the next leader.
        FailedLeader = "file-fail-wake-next-leader",
        /// The file has failed: committers.
        FailedCommits = "file-fail-wake-committers",
        /// The file has failed: tasks.
        FailedTasks = "file-fail-wake-tasks",
    }
}

reasons! {
    /// Reason why a thread waits. With the known bug of each, the thread observes the event only after it has
    /// checked the condition, and so misses a notification in between.
    WaitFor {
        /// The sync that covers the thread's writes, or its turn to lead the next one.
        Commit = "file-late-observe-commit",
        /// A submission, or the end of the file.
        Work = "file-late-observe-work",
    }
}
