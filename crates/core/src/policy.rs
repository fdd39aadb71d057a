//! What a commit waits for.

use std::time::Duration;

/// What a commit waits for, and how soon the rest follows.
///
/// A commit returns the guarantee that it has reached, which may be more: another commit's force
/// may have covered the record.
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
        /// How long a record may stay unforced.
        force_within: Duration,
    },
    /// Each commit returns when its record is staged, and survives nothing. The log writes and
    /// forces it within the interval.
    Interval {
        /// How long a record may stay in memory.
        within: Duration,
    },
}

/// What a caller waits for.
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
    /// What a commit waits for; nothing with [`Policy::Interval`].
    pub(crate) fn level(self) -> Option<WaitLevel> {
        match self {
            Policy::Force => Some(WaitLevel::Force),
            Policy::Write { .. } => Some(WaitLevel::Write),
            Policy::Interval { .. } => None,
        }
    }

    /// The deadline for the force that a commit does not wait for.
    pub(crate) fn force_within(self) -> Option<Duration> {
        match self {
            Policy::Force => None,
            Policy::Write {
                force_within: within,
            }
            | Policy::Interval { within } => Some(within),
        }
    }
}
