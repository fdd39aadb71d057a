//! Known bugs that exploring interleavings catches.

use super::{KnownBug, bug};

/// Bugs that exploring interleavings with shuttle catches.
pub const INTERLEAVINGS: &[KnownBug] = &[
    bug(
        "wake-work",
        "the writing thread gets none of the wake-ups that are due when the mutex is released",
    ),
    bug(
        "wake-prepare",
        "the preallocator gets none of the wake-ups that are due when the mutex is released",
    ),
    bug(
        "wake-next-leader",
        "the next leader is not woken when a job ends",
    ),
    bug("claim-kept", "a job that begins leaves no next leader"),
    bug(
        "next-leader-looks-once",
        "a next leader that wakes for nothing waits on an event that no thread signals for its successor",
    ),
    bug(
        "wake-committers",
        "the committers whose records a job carried are not woken",
    ),
    bug(
        "wake-work-for-job",
        "a job without a leader is not handed to the writing thread",
    ),
    bug("wake-callback", "a callback that is due is not called"),
    bug(
        "wake-progress",
        "threads that wait for a write, for buffer space or for an end are not woken",
    ),
    bug(
        "wake-room-tasks",
        "tasks that wait for buffer space are not woken",
    ),
    bug(
        "wake-follower",
        "followers that block are not woken by what became durable",
    ),
    bug("wake-tasks", "tasks are not woken by what became durable"),
    bug(
        "wake-written-tasks",
        "tasks are not woken by what was written",
    ),
    bug(
        "wake-below-only",
        "a task that waits for just this LSN is not woken",
    ),
    bug(
        "first-waker-kept",
        "a future that moved to another task wakes the first one",
    ),
    bug(
        "wake-after-failed-job",
        "a close is not woken when the last job has failed",
    ),
    bug(
        "wake-after-unwound-job",
        "a close is not woken when the last job has panicked",
    ),
    bug(
        "wake-work-for-room",
        "neither a full batch nor a full buffer wakes the writing thread",
    ),
    bug(
        "wake-on-released-permit",
        "appends that wait for buffer space are not woken by a permit that gives some back",
    ),
    bug(
        "wake-pool-for-work",
        "a task that is to run wakes no thread of an environment's pool",
    ),
    bug(
        "wake-pool-to-stop",
        "the end of an environment does not wake its threads",
    ),
    bug(
        "wake-close-after-step",
        "the end of a step does not wake a close that waits for it",
    ),
    bug(
        "late-observe-pool",
        "a thread of a pool looks for tasks before it observes the event",
    ),
    bug(
        "late-observe-step",
        "a close looks whether a step runs before it observes the event",
    ),
    bug(
        "task-scheduled-while-it-runs",
        "a task that is scheduled during its step does not take another one",
    ),
    bug(
        "pool-full-of-one-kind",
        "writers may take all threads of a pool, and none is left for a preallocator that they wait for",
    ),
    bug(
        "wake-work-on-submit",
        "a submission does not wake the writing thread",
    ),
    bug(
        "wake-work-for-callback",
        "a callback that is due at once does not wake the writing thread",
    ),
    bug(
        "wake-work-for-deadline",
        "a deadline does not wake the writing thread",
    ),
    bug(
        "wake-prepare-on-demand",
        "an append without prepared space does not wake the preallocator",
    ),
    bug(
        "wake-after-preparing",
        "appends that wait for prepared space are not woken",
    ),
    bug(
        "wake-checkpoint-thread",
        "a thread that takes checkpoints is not woken by a request",
    ),
    bug(
        "wake-checkpoint-task",
        "a task that takes checkpoints is not woken by a request",
    ),
    bug(
        "end-wakes-no-checkpoint-thread",
        "a thread that takes checkpoints is not woken at the end",
    ),
    bug(
        "end-wakes-no-checkpoint-task",
        "a task that takes checkpoints is not woken at the end",
    ),
    bug(
        "recheck-checkpoint-after-register",
        "a task does not look for a request again once its waker is registered",
    ),
    bug(
        "late-observe-checkpoint",
        "a thread reads the event's count too late: after it has found no request",
    ),
    bug(
        "callback-awaits-a-thread",
        "a future in a callback waits for a thread that waits for the callback",
    ),
    bug(
        "writer-awaits-itself",
        "a commit that is awaited in a callback waits for the thread of the callback",
    ),
    bug(
        "wake-prepare-on-unpin",
        "the front stays where a pin was that went",
    ),
    bug(
        "wake-prepare-on-advance",
        "the front stays where a pin was that moved on",
    ),
    bug(
        "wake-close-after-truncation",
        "a close is not woken when a truncation ends",
    ),
    bug(
        "close-wakes-no-writer",
        "the writing thread is not woken to end",
    ),
    bug(
        "close-wakes-no-preparer",
        "the preallocator is not woken to end",
    ),
    bug("close-ends-no-view", "followers are not woken by the close"),
    bug(
        "wake-other-closers",
        "a second close is not woken by the end of the first",
    ),
    bug(
        "end-wakes-no-follower",
        "followers that block are not woken at the end",
    ),
    bug(
        "end-wakes-no-task",
        "followers that are tasks are not woken at the end",
    ),
    bug(
        "wake-location-check",
        "the writing thread does not look whether the log is still there when a write completes",
    ),
    bug(
        "fail-wake-next-leader",
        "the next leader is not woken by a failure",
    ),
    bug(
        "fail-wake-committers",
        "committers are not woken by a failure",
    ),
    bug(
        "fail-wake-progress",
        "appends that wait for buffer space or a segment are not woken by a failure",
    ),
    bug(
        "fail-wake-work",
        "the writing thread is not woken by a failure",
    ),
    bug(
        "fail-wake-written-tasks",
        "tasks that wait for a write are not woken by a failure",
    ),
    bug(
        "fail-ends-view",
        "followers and tasks are not woken by a failure",
    ),
    bug(
        "recheck-poison",
        "a committer does not look for a failure before it waits",
    ),
    bug(
        "recheck-after-register",
        "a handle does not look again once its waker is registered",
    ),
    bug(
        "recheck-room-after-register",
        "a submission does not look for buffer space again once its waker is registered",
    ),
    bug(
        "recheck-follower-after-register",
        "a follower does not look again once its waker is registered",
    ),
    bug(
        "promise-checked-again",
        "a permit finds its own space missing",
    ),
    bug(
        "late-observe-commit",
        "a committer reads the event's count too late: after it has released the mutex",
    ),
    bug(
        "late-observe-room",
        "an append reads the event's count too late: after it has found no space",
    ),
    bug(
        "late-observe-close",
        "a close reads the event's count too late: after it has looked at what it waits for",
    ),
    bug(
        "late-observe-work",
        "the writing thread reads the event's count too late: after it has found nothing to do",
    ),
    bug(
        "late-observe-prepare",
        "the preallocator reads the event's count too late: after it has found nothing to do",
    ),
    bug(
        "late-observe-follower",
        "a follower reads the event's count too late: after it has found no record",
    ),
    bug(
        "sleep-uncounted",
        "a sleeper is not counted, so a notification wakes no thread",
    ),
    bug(
        "ring-without-change",
        "a notification leaves the event's count as it is",
    ),
    bug(
        "lock-uncontended",
        "a waiter for a lock does not mark it as contended",
    ),
    bug("wake-next-holder", "a release of a lock wakes no thread"),
    bug(
        "ack-before-landing",
        "invariant 1: durable as soon as the write has begun",
    ),
    bug(
        "ack-before-barrier",
        "invariant 1: durable when the write has completed, before the barrier",
    ),
    bug(
        "barrier-covers-what-came-later",
        "invariant 1: a barrier counts for what was written while it was under way",
    ),
    bug(
        "unforced-neighbour",
        "invariant 1: a write through counts for unforced batches before it",
    ),
    bug(
        "hole-under-watermark",
        "invariant 1: a completed write counts for those before it that are in flight",
    ),
    bug(
        "failed-write-lands",
        "invariant 4: a write that failed counts",
    ),
    bug(
        "write-not-joined",
        "invariant 4: the writes beside a failed one are not waited for",
    ),
    bug(
        "running-not-joined-before-unlock",
        "invariant 4: the lock is given up while a job is under way",
    ),
    bug(
        "latest-goes-back",
        "a thread gets an older latest state of a page file than the one that another thread named",
    ),
    bug(
        "state-shown-early",
        "readers get a state of a page file before they find its pages",
    ),
    bug(
        "replicated-without-waiting",
        "a commit by Replicated is acknowledged before the replica has confirmed it",
    ),
    bug(
        "submission-without-replica",
        "a submission by Replicated does not wait for the replica",
    ),
    bug(
        "replicated-follower-ahead",
        "a replicated follower returns records that the replica has not confirmed",
    ),
    bug(
        "chunk-confirmed-in-part",
        "a confirmation within a chunk acknowledges records that no copy can restore",
    ),
    bug(
        "attached-when-deposed",
        "another replica is attached to a log that was deposed meanwhile",
    ),
    bug("deposed-goes-on", "a deposed log goes on accepting records"),
    bug(
        "replica-looks-once",
        "a replica does not look again once its waker is registered",
    ),
    bug(
        "waits-for-replica-alone",
        "a task misses that its record becomes durable after the replica has ended",
    ),
    bug(
        "wake-replicated",
        "threads that wait for the replica are not woken by a confirmation",
    ),
    bug(
        "wake-replicated-tasks",
        "tasks that wait for the replica are not woken by a confirmation",
    ),
    bug(
        "end-wakes-no-replicated",
        "threads that wait for the replica are not woken when it ends",
    ),
    bug(
        "end-wakes-no-replicated-task",
        "tasks that wait for the replica are not woken when it ends",
    ),
    bug(
        "wake-callback-for-replica",
        "the writing thread is not woken for a callback that the replica has confirmed",
    ),
    bug(
        "late-observe-replica",
        "a thread reads the event's count too late: after it has found no confirmation",
    ),
    bug(
        "file-wake-next-leader",
        "the next leader of a file's syncs is not woken when a sync or a write-through ends",
    ),
    bug(
        "file-wake-committers",
        "the committers that a file's sync covers are not woken",
    ),
    bug(
        "file-wake-tasks",
        "tasks are not woken by what became durable in a file",
    ),
    bug(
        "file-wake-thread",
        "a submission does not wake the file's thread",
    ),
    bug(
        "file-wake-thread-for-bound",
        "a commit within a shorter bound does not wake the file's thread",
    ),
    bug(
        "file-wake-thread-to-end",
        "the end of a file does not wake its thread",
    ),
    bug(
        "file-fail-wake-next-leader",
        "the next leader is not woken when a force of the file panics",
    ),
    bug(
        "file-fail-wake-committers",
        "committers that wait for the sync after a failed one are not woken",
    ),
    bug(
        "file-fail-wake-tasks",
        "tasks that no sync covers are not woken when the file fails",
    ),
    bug(
        "file-late-observe-commit",
        "a committer of a file checks the horizon before it observes the event",
    ),
    bug(
        "file-late-observe-work",
        "a file's thread looks for requests before it observes the event",
    ),
    bug(
        "file-recheck-after-register",
        "a handle does not check the horizon again after it has registered its task",
    ),
    bug(
        "file-fails-beside-committers",
        "a failure passes between a committer's check and its observation of the event",
    ),
    bug(
        "file-ends-before-the-last-submission",
        "a file's thread looks for requests before it learns that the file ends",
    ),
];
