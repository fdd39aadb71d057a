//! The policy of a commit: the state of the record for which the commit waits.

use std::time::Duration;

/// State of the record for which a commit waits, and the deadline for the force.
///
/// A commit returns the guarantee that the record has reached. It may be stronger than the policy requires,
/// because another commit's force may have covered the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Each commit returns when its record is durable.
    #[default]
    Force,
    /// Each commit returns when its record is written: to the operating system, or past its cache
    /// to the device, depending on the method. The record survives a crash of the process. The log
    /// forces it within the interval.
    Write {
        /// Maximum time that a record stays unforced.
        force_within: Duration,
    },
    /// Each commit returns when its record is staged in memory, where it survives no crash. The log writes
    /// and forces it within the interval.
    Interval {
        /// Maximum time until a record is forced.
        within: Duration,
    },
    /// Each commit returns when its record is durable here, and the log's replica has confirmed it
    /// ([`Log::replicate`](crate::Log::replicate)). The record survives the loss of this machine. Without a
    /// replica, the commit fails with [`Error::NoReplica`](crate::Error::NoReplica) and accepts nothing.
    Replicated,
}

/// State of a record for which a caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitLevel {
    /// Written, not forced.
    Write,
    /// Forced by the log's method.
    Force,
    /// Covered by a barrier, whatever the method.
    Barrier,
}

impl Policy {
    /// Returns the state that a commit's record must reach in this log; `None` with [`Policy::Interval`].
    pub(crate) fn level(self) -> Option<WaitLevel> {
        match self {
            Policy::Force | Policy::Replicated => Some(WaitLevel::Force),
            Policy::Write { .. } => Some(WaitLevel::Write),
            Policy::Interval { .. } => None,
        }
    }

    /// Returns true if a commit also waits for the replica, after its record is durable here.
    pub(crate) fn is_replicated(self) -> bool {
        self == Policy::Replicated
    }

    /// Returns the deadline for the force, if a commit does not wait for it.
    pub(crate) fn force_within(self) -> Option<Duration> {
        match self {
            Policy::Force | Policy::Replicated => None,
            Policy::Write {
                force_within: within,
            }
            | Policy::Interval { within } => Some(within),
        }
    }
}
