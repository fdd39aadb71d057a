//! Why somebody is woken, and what somebody waits for.
//!
//! A missed wake-up is a hang that no test of results can see. So each one has a name here, with the
//! thread that would sleep for ever without it, and a build with `--cfg planted` can leave out any
//! one of them to show that the checkers of interleavings notice.

use logforce_format::planted;

/// Declares an enum whose variants can each be left out as a known bug.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$why:meta])* $variant:ident = $bug:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$why])* $variant,)+
        }

        impl $name {
            /// Whether a known bug leaves this one out: `false`, but in a planted build.
            #[inline]
            pub(crate) fn is_forgotten(self) -> bool {
                match self {
                    $($name::$variant => !$bug.is_empty() && planted!($bug),)+
                }
            }
        }
    };
}

reasons! {
    /// Why a thread, a task or several of them are woken.
    Wake {
        /// The writer thread, by a commit that does not write itself.
        Writer = "wake-work",
        /// The preallocator, by an append that took a segment into use or found none.
        Preallocator = "wake-prepare",
        /// The writer: a batch filled up, and appends wait for buffer space.
        WriterForSpace = "wake-work-for-room",
        /// The preallocator: an append waits for prepared space.
        PreallocatorForSpace = "wake-prepare-on-demand",
        /// The writer: a record was submitted, and no committer is the next leader.
        WriterForSubmission = "wake-work-on-submit",
        /// The writer: a force was submitted, and no committer is the next leader.
        WriterForForce = "wake-work-on-submit-force",
        /// The writer: a callback is due at once.
        WriterForNewCallback = "wake-work-for-callback",
        /// The writer: a deadline is earlier than it would wake by itself.
        WriterForDeadline = "wake-work-for-deadline",
        /// The writer: a job has become possible, and no committer is the next leader.
        WriterForJob = "wake-work-for-job",
        /// The writer: a callback's record is where its policy wants it.
        WriterForCallback = "wake-callback",
        /// The writer: it is to look whether the log is still where it was opened.
        WriterForLocation = "wake-watch",
        /// The writer: a segment was prepared, and a stamp may have waited for it.
        WriterForSegment = "",
        /// The next leader: a job has ended, or somebody else took its batch.
        NextLeader = "wake-claimant",
        /// The committers whose records the job carried.
        JobDone = "wake-round",
        /// Followers in this process: the durable LSN moved.
        Followers = "wake-follower",
        /// Tasks that wait for the durable LSN.
        DurableTasks = "wake-tasks",
        /// Tasks that wait for the written LSN.
        WrittenTasks = "wake-written-tasks",
        /// Threads that wait for buffer space or a segment.
        Space = "wake-progress",
        /// Tasks that wait for buffer space or a segment.
        SpaceTasks = "wake-room-tasks",
        /// Appends that wait for a segment: one was prepared, or could not be.
        SegmentPrepared = "wake-after-preparing",
        /// The owner's callback runs: its own appends, which must not wait for it.
        CallbackRuns = "wake-callback-at-cap",
        /// The preallocator: the owner's callback has returned.
        CallbackReturned = "wake-prepare-after-callback",
        /// The preallocator: files of truncated segments are free.
        SpaceFreed = "",
        /// The preallocator: a pin advanced, and the front may follow.
        PinAdvanced = "wake-prepare-on-advance",
        /// The preallocator: a pin went, and the front may follow.
        PinDropped = "wake-prepare-on-unpin",
        /// A close waits for truncations under way.
        TruncationDone = "wake-close-after-truncation",
        /// A close waits for jobs under way: this one failed.
        JobFailed = "wake-after-failed-job",
        /// A close waits for jobs under way: the thread of this one unwound.
        JobUnwound = "wake-after-unwound-job",
        /// The log has failed: the next leader.
        FailedLeader = "fail-wake-claimant",
        /// The log has failed: committers of every job.
        FailedJobs = "fail-wake-rounds",
        /// The log has failed: whoever waits for space.
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
        /// The log is closed: other threads that close it too.
        Closed = "wake-other-closers",
    }
}

reasons! {
    /// What a thread waits for. The known bug of each is to observe the event only after the look at
    /// the condition: a notification in between is missed.
    WaitFor {
        /// The job that covers its records, or the turn to lead the next one.
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
        /// The preallocator's next piece.
        FillPause = "",
        /// The next durable record.
        NextRecord = "late-observe-follower",
    }
}
