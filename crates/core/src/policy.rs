//! What a commit waits for.

use std::time::Duration;

/// What a commit waits for, and by when what it did not wait for is forced.
///
/// What is returned says the guarantee that was reached, which may be more: a record that goes
/// along with somebody else's force is durable with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Each commit returns when its record is durable.
    #[default]
    Force,
    /// Each commit returns when its record is written: handed to the operating system, or past its
    /// cache to the device, as the method has it. It survives a crash of the process. A force
    /// follows within the interval, if none comes sooner.
    Write {
        /// How long a record may stay unforced.
        force_within: Duration,
    },
    /// Each commit returns when its record is staged: it survives nothing. It is written and forced
    /// within the interval, if that does not happen sooner.
    Interval {
        /// How long a record may stay in memory.
        within: Duration,
    },
}

/// How far somebody waits for the log to be synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncLevel {
    /// Written, not forced.
    Write,
    /// Forced by the log's method.
    Force,
    /// Behind a full barrier, whatever the method.
    Barrier,
}

impl Policy {
    /// How far a commit waits; not at all by [`Policy::Interval`].
    pub(crate) fn level(self) -> Option<SyncLevel> {
        match self {
            Policy::Force => Some(SyncLevel::Force),
            Policy::Write { .. } => Some(SyncLevel::Write),
            Policy::Interval { .. } => None,
        }
    }

    /// Within what time a record is to be forced that its commit does not wait for.
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
