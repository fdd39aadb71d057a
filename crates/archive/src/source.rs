//! Source of an upload: an open log of this process, or the files of a log that another process writes.

use crate::error::{Error, Result};
use crate::protocol;
use logforce::Lsn;
use logforce::replica::{
    AtHoldLimit, Hold, LogChunk, LogState, ReadOnlyReplica, ReplicaWait, Replication,
};
use std::time::{Duration, Instant};

/// Interval at which the files of another process's log are read.
const POLL: Duration = Duration::from_millis(200);
/// Bytes by which confirmations must advance before a hold file is written again.
const HOLD_STEP: u64 = 1 << 20;
/// Time for which the end of an archive waits for the proof of a running log's last commit. An idle log writes
/// it after 50 to 100 ms, and after 5 to 10 s in an environment.
const SETTLING: Duration = Duration::from_secs(12);
/// Interval between two readings meanwhile.
const SETTLING_POLL: Duration = Duration::from_millis(50);

/// Log that is uploaded.
pub(crate) enum Source {
    /// Log of this process.
    Open(Box<Replication>),
    /// Files of a log.
    Files {
        replica: Box<ReadOnlyReplica>,
        limit: u64,
        at_limit: AtHoldLimit,
        held: Lsn,
        /// Id of the archive, once it is known: the hold names it.
        archive: u128,
        /// Set while there is a hold for an archive that has nothing yet, and that failed if it ends so.
        is_provisional: bool,
        /// Set once a reading has found nothing more.
        is_read: bool,
    },
}

/// State of a source.
pub(crate) enum SourceState {
    /// There may be more to read.
    Ready,
    /// The log was closed, and everything was read.
    Closed,
    /// The log has failed, and everything durable was read.
    Failed(logforce::Error),
}

impl Source {
    /// Returns a source that reads the files of a log, and holds the log by a file.
    pub(crate) fn files(replica: ReadOnlyReplica, limit: u64, at_limit: AtHoldLimit) -> Source {
        Source::Files {
            replica: Box::new(replica),
            limit,
            at_limit,
            held: Lsn(0),
            archive: 0,
            is_provisional: false,
            is_read: false,
        }
    }

    /// Returns the state of the log.
    pub(crate) fn state(&mut self) -> Result<LogState> {
        match self {
            Source::Open(replication) => Ok(replication.state()),
            Source::Files { replica, .. } => Ok(replica.state()?),
        }
    }

    /// Returns the state up to which the archive is to go on before it ends. It includes each commit that was
    /// acknowledged before the call. In the files of a running log, the last one is proven durable only later:
    /// if within [`SETTLING`], this waits for it.
    pub(crate) async fn settled(&mut self) -> Result<LogState> {
        let mut state = self.state()?;
        if let Source::Files { replica, .. } = self {
            let (begun, wanted) = (Instant::now(), replica.written_lsn());
            while state.end < wanted && replica.is_in_use() && begun.elapsed() < SETTLING {
                tokio::time::sleep(SETTLING_POLL).await;
                state = replica.state()?;
            }
        }
        Ok(state)
    }

    /// Keeps the log from its first segment on, for an archive that has nothing of it. Returns the state then.
    ///
    /// Without the hold, a writer that truncates often would drop the first part before the archive is
    /// claimed. An open log is held by its replication.
    pub(crate) async fn hold_whole(&mut self) -> Result<LogState> {
        let mut state = self.state()?;
        if matches!(self, Source::Open(_)) {
            return Ok(state);
        }
        loop {
            let at = state.first_segment;
            self.hold(at)?;
            // A truncation that has read no hold ends meanwhile.
            tokio::time::sleep(POLL).await;
            state = self.state()?;
            if state.first_segment <= at {
                return Ok(state);
            }
        }
    }

    /// Sets the id of the archive. Fails if the log is held for another one.
    pub(crate) fn set_archive(&mut self, id: u128) -> Result<()> {
        match self {
            Source::Open(_) => Ok(()),
            Source::Files {
                replica, archive, ..
            } => {
                *archive = id;
                check_hold(replica, id)
            }
        }
    }

    /// Goes on behind the chunk with this control slot.
    pub(crate) fn go_on_after(&mut self, control: &[u8]) -> Result<()> {
        match self {
            Source::Open(replication) => Ok(replication.go_on_after(control)?),
            Source::Files { replica, .. } => Ok(replica.go_on_after(control)?),
        }
    }

    /// Returns the end of what was read.
    pub(crate) fn position(&self) -> Lsn {
        match self {
            Source::Open(replication) => replication.position(),
            Source::Files { replica, .. } => replica.position().unwrap_or_default(),
        }
    }

    /// Keeps the log from `at` on. An open log is held by its replication.
    pub(crate) fn hold(&mut self, at: Lsn) -> Result<()> {
        if let Source::Files {
            replica,
            limit,
            at_limit,
            held,
            archive,
            is_provisional,
            ..
        } = self
        {
            check_hold(replica, *archive)?;
            let hold = Hold::new(at, *limit, *at_limit);
            replica.hold(&hold.of(archive.to_le_bytes()))?;
            *held = at;
            *is_provisional = *archive == 0;
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, max: u64) -> Result<Option<LogChunk>> {
        match self {
            Source::Open(replication) => Ok(replication.read(max)?),
            Source::Files {
                replica, is_read, ..
            } => {
                let chunk = replica.read(max)?;
                *is_read = chunk.is_none();
                Ok(chunk)
            }
        }
    }

    /// Returns the number of bytes that are known to be durable and were not read yet.
    pub(crate) fn pending(&self) -> u64 {
        match self {
            Source::Open(replication) => replication.pending(),
            Source::Files { replica, .. } => {
                let read = replica.position().unwrap_or_default();
                replica.proven_lsn().since(read)
            }
        }
    }

    /// Returns the exclusive end of the durable log, as far as it is known.
    pub(crate) fn durable(&self) -> Lsn {
        match self {
            Source::Open(replication) => replication.position().plus(replication.pending()),
            Source::Files { replica, .. } => replica.proven_lsn(),
        }
    }

    /// Waits until there may be more to read.
    pub(crate) async fn changed(&mut self) -> SourceState {
        match self {
            Source::Open(replication) => match replication.changed().await {
                ReplicaWait::Closed => SourceState::Closed,
                ReplicaWait::Failed(error) => SourceState::Failed(error),
                _ => SourceState::Ready,
            },
            Source::Files { is_read, .. } => {
                if *is_read {
                    tokio::time::sleep(POLL).await;
                }
                SourceState::Ready
            }
        }
    }

    /// Confirms that everything below `to` is in the archive.
    pub(crate) fn confirm(&mut self, to: Lsn) -> Result<()> {
        match self {
            Source::Open(replication) => replication.confirm(to)?,
            Source::Files { limit, held, .. } => {
                if to.since(*held) >= HOLD_STEP.min(*limit / 8) {
                    self.hold(to)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the source: commits that wait for the archive fail.
    pub(crate) fn end(self, error: &Error) {
        match self {
            Source::Open(replication) => match error {
                Error::State(protocol::Error::Deposed { epoch, owner }) => {
                    drop(replication.deposed(format!("'{owner}', epoch {}", epoch.0)));
                }
                error => replication.fail(error.to_string()),
            },
            // Otherwise the log would be kept for an archive that was not begun.
            Source::Files {
                replica,
                is_provisional: true,
                ..
            } => {
                let held = replica.held().ok().flatten();
                if held.is_some_and(|hold| hold.replica == [0; 16]) {
                    let _ = replica.release();
                }
            }
            Source::Files { .. } => {}
        }
    }
}

/// Fails if the log is held for another archive. Taken over silently, that one would lose a part of the log.
fn check_hold(replica: &ReadOnlyReplica, archive: u128) -> Result<()> {
    let held = replica
        .held()?
        .map(|hold| u128::from_le_bytes(hold.replica));
    match held {
        Some(other) if other != 0 && other != archive => Err(Error::Invalid(
            "the log is held for another archive, and it can be held for one only: go on with that archive, or \
             give it up by `logforce archive run LOGDIR --release`, and begin this one again"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}
