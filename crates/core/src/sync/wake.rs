//! Reasons of the log's wake-ups and waits.

use logforce_commit::reasons;
use logforce_commit::sync::reason::Reason;

reasons! {
    /// Reason for waking threads or tasks.
    Wake {
        /// The writer thread: a committer has staged work that it does not write itself.
        Writer = "wake-work",
        /// The preallocator: an append has begun the last prepared segment, or found none.
        Preallocator = "wake-prepare",
        /// The writer: a batch filled up, and appends wait for buffer space.
        WriterForSpace = "wake-work-for-room",
        /// The preallocator: an append waits for prepared space.
        PreallocatorForSpace = "wake-prepare-on-demand",
        /// The writer: a record was submitted, and no committer is the next leader.
        WriterForSubmission = "wake-work-on-submit",
        /// The writer: a callback is due at once.
        WriterForNewCallback = "wake-work-for-callback",
        /// The writer: a deadline is earlier than its timeout.
        WriterForDeadline = "wake-work-for-deadline",
        /// The writer: a job has become possible, and no committer is the next leader.
        WriterForJob = "wake-work-for-job",
        /// The writer: a callback's record has reached what its policy requires.
        WriterForCallback = "wake-callback",
        /// The writer: it must check that the log is still at the path where it was opened.
        WriterForLocation = "wake-location-check",
        /// The writer: a segment was prepared, for which a stamp may wait.
        WriterForSegment = "",
        /// The next leader: a job has ended, or another thread took its batch.
        NextLeader = "wake-next-leader",
        /// The committers whose records the job wrote.
        JobDone = "wake-committers",
        /// Followers in this process: the durable LSN moved.
        Followers = "wake-follower",
        /// Tasks that wait for the durable LSN.
        DurableTasks = "wake-tasks",
        /// Tasks that wait for the written LSN.
        WrittenTasks = "wake-written-tasks",
        /// Threads that wait for the replica: it has confirmed records.
        Replicated = "wake-replicated",
        /// Tasks that wait for the replica: it has confirmed records.
        ReplicatedTasks = "wake-replicated-tasks",
        /// The replica has ended, or the log has: threads that wait for the replica.
        ReplicaEnded = "end-wakes-no-replicated",
        /// The replica has ended, or the log has: tasks that wait for the replica.
        ReplicaEndedTasks = "end-wakes-no-replicated-task",
        /// The writer: the replica has confirmed the record of a callback.
        WriterForReplica = "wake-callback-for-replica",
        /// Threads that wait for buffer space or a segment.
        Space = "wake-progress",
        /// Tasks that wait for buffer space or a segment.
        SpaceTasks = "wake-room-tasks",
        /// Appends that wait for a segment: it was prepared, or preparing it has failed.
        SegmentPrepared = "wake-after-preparing",
        /// Threads that wait for a request for a checkpoint.
        CheckpointDue = "wake-checkpoint-thread",
        /// Tasks that wait for a request for a checkpoint.
        CheckpointDueTasks = "wake-checkpoint-task",
        /// The log has ended: threads that wait for a request for a checkpoint.
        EndedCheckpoints = "end-wakes-no-checkpoint-thread",
        /// The log has ended: tasks that wait for a request for a checkpoint.
        EndedCheckpointTasks = "end-wakes-no-checkpoint-task",
        /// The preallocator: a truncation has freed files.
        SpaceFreed = "",
        /// The preallocator: a pin advanced, and the front may follow.
        PinAdvanced = "wake-prepare-on-advance",
        /// The preallocator: a pin was dropped, and the front may follow.
        PinDropped = "wake-prepare-on-unpin",
        /// Appends and tasks that wait for buffer space: a permit has returned some.
        SpaceReleased = "wake-on-released-permit",
        /// The thread that wakes a task that follows a log of another process.
        AlarmSet = "",
        /// A close that waits for truncations.
        TruncationDone = "wake-close-after-truncation",
        /// A close that waits for jobs: this one failed.
        JobFailed = "wake-after-failed-job",
        /// A close that waits for jobs: the leader of this one panicked.
        JobUnwound = "wake-after-unwound-job",
        /// The log has failed: the next leader.
        FailedLeader = "fail-wake-next-leader",
        /// The log has failed: committers of every job.
        FailedJobs = "fail-wake-committers",
        /// The log has failed: threads that wait for space.
        FailedSpace = "fail-wake-progress",
        /// The log has failed: the writer thread, which ends.
        FailedWriter = "fail-wake-work",
        /// The log has failed: the preallocator, which ends.
        FailedPreallocator = "",
        /// The log has failed: tasks that wait for the written LSN.
        FailedTasks = "fail-wake-written-tasks",
        /// The log has failed: followers and the tasks that wait for the durable LSN.
        FailedReaders = "fail-ends-view",
        /// The log is closed: followers and the tasks that wait for the durable LSN.
        ClosedReaders = "close-ends-no-view",
        /// The durable LSN will not move any more: followers.
        EndedFollowers = "end-wakes-no-follower",
        /// The durable LSN will not move any more: tasks.
        EndedTasks = "end-wakes-no-task",
        /// The log closes: the writer thread, which ends.
        ClosingWriter = "close-wakes-no-writer",
        /// The log closes: the preallocator, which ends.
        ClosingPreallocator = "close-wakes-no-preparer",
        /// The log is closed: other threads that close it as well.
        Closed = "wake-other-closers",
        /// A thread of an environment's pool: a task is to run.
        PoolWork = "wake-pool-for-work",
        /// A thread of the pool: another one has taken a task, and hands over the next one or the timers.
        PoolHandsOver = "",
        /// The pool's threads, which end.
        PoolStops = "wake-pool-to-stop",
        /// A close that waits for the log's tasks.
        TaskStepEnded = "wake-close-after-step",
    }
}

impl Wake {
    /// Returns `needs`: true if the caller needs this wake-up. A planted build can leave it out.
    pub(crate) fn if_needed(self, needs: bool) -> bool {
        needs && !self.is_forgotten()
    }
}

reasons! {
    /// Reason why a thread waits. With the known bug of each, the thread observes the event only after it has
    /// checked the condition, and so misses a notification in between.
    WaitFor {
        /// The job that covers the thread's records, or its turn to lead the next job.
        Commit = "late-observe-commit",
        /// Buffer space, or a segment, for an append.
        Space = "late-observe-room",
        /// A segment for a batch without records.
        Segment = "",
        /// Truncations, jobs or another close, for a close.
        Close = "late-observe-close",
        /// A stamp that the writer thread is writing.
        Stamp = "",
        /// Work for the writer thread.
        WriterWork = "late-observe-work",
        /// Work for the preallocator.
        PreallocatorWork = "late-observe-prepare",
        /// The time to wake a task that follows a log of another process.
        Alarm = "",
        /// The pause between two writes while the preallocator fills a segment.
        FillPause = "",
        /// A task for a thread of the pool.
        PoolWork = "late-observe-pool",
        /// The end of a task's step, for a close.
        TaskStep = "late-observe-step",
        /// The next durable record.
        NextRecord = "late-observe-follower",
        /// A confirmation of the replica.
        Replica = "late-observe-replica",
        /// A request for a checkpoint.
        CheckpointDue = "late-observe-checkpoint",
    }
}
