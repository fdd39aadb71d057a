use crate::{Before, Entry, LogId, Membership, StorageError, TypeConfig};
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, EntryPayload, OptionalSend, RaftSnapshotBuilder, SnapshotMeta, StorageIOError,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the node's log makes: keys and values, in memory. Its snapshots lie in a file, so that the
/// log below them may be purged; what came since is applied again from the log.
#[derive(Debug, Clone)]
pub struct StateMachine {
    path: PathBuf,
    shared: Arc<Mutex<State>>,
}

/// Builds snapshots beside the state machine.
pub type SnapshotBuilder = StateMachine;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    applied: Option<LogId>,
    membership: Membership,
    values: BTreeMap<String, String>,
}

/// The file's content.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    meta: SnapshotMeta<u64, BasicNode>,
    state: State,
}

impl StateMachine {
    /// Opens the state machine whose snapshots lie in the directory `path`, which must exist.
    pub fn open(path: impl AsRef<Path>) -> io::Result<StateMachine> {
        let machine = StateMachine {
            path: path.as_ref().to_owned(),
            shared: Arc::default(),
        };
        if let Some(stored) = machine.stored()? {
            *machine.state() = stored.state;
        }
        Ok(machine)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.state().values.get(key).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self) -> io::Result<Option<Stored>> {
        match fs::read(self.path.join("snapshot")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Puts the file in place whole or not at all, and forces it: what it covers is purged next.
    /// (Not on ext4 without a journal: see A6 in docs/durability.md.)
    fn store(&self, stored: &Stored) -> io::Result<()> {
        let new = self.path.join("snapshot.new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(stored)?)?;
        file.sync_all()?;
        fs::rename(new, self.path.join("snapshot"))?;
        // Windows flushes no directory that is opened so. NTFS has the new name in its journal, and a
        // flush of any file writes that.
        let named = if cfg!(windows) {
            file
        } else {
            File::open(&self.path)?
        };
        named.sync_all()
    }
}

fn snapshot(stored: &Stored) -> io::Result<Snapshot<TypeConfig>> {
    Ok(Snapshot {
        meta: stored.meta.clone(),
        snapshot: Box::new(Cursor::new(serde_json::to_vec(&stored.state)?)),
    })
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError> {
        let state = self.state().clone();
        let id = match &state.applied {
            Some(id) => format!("{}-{}", id.leader_id, id.index),
            None => "empty".to_owned(),
        };
        let meta = SnapshotMeta {
            last_log_id: state.applied,
            last_membership: state.membership.clone(),
            snapshot_id: id,
        };
        let stored = Stored { meta, state };
        self.store(&stored)
            .and_then(|()| snapshot(&stored))
            .map_err(|e| StorageIOError::write_snapshot(None, &e).into())
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Membership), StorageError> {
        let state = self.state();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Before>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.state();
        let mut answers = Vec::new();
        for entry in entries {
            state.applied = Some(entry.log_id);
            answers.push(Before(match entry.payload {
                EntryPayload::Blank => None,
                EntryPayload::Normal(set) => state.values.insert(set.key, set.value),
                EntryPayload::Membership(m) => {
                    state.membership = Membership::new(Some(entry.log_id), m);
                    None
                }
            }));
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        received: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let failed = |e: io::Error| StorageIOError::write_snapshot(Some(meta.signature()), &e);
        let mut state: State =
            serde_json::from_slice(received.get_ref()).map_err(|e| failed(e.into()))?;
        state.applied = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        let meta = meta.clone();
        let stored = Stored { meta, state };
        self.store(&stored).map_err(failed)?;
        *self.state() = stored.state;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, StorageError> {
        let found = self
            .stored()
            .and_then(|stored| stored.as_ref().map(snapshot).transpose());
        found.map_err(|e| StorageIOError::read_snapshot(None, &e).into())
    }
}
