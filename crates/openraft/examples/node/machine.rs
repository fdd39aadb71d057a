//! A state machine: keys and values in memory, with its snapshots in a file.

use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, SnapshotMeta,
    StorageError, StorageIOError, StoredMembership,
};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Command: gives a key a value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Set {
    /// The key.
    pub key: String,
    /// Its new value.
    pub value: String,
}

/// Answer: the earlier value of the key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Before(pub Option<String>);

openraft::declare_raft_types!(
    /// Types of the node.
    pub TypeConfig:
        D = Set,
        R = Before,
        NodeId = u64,
        Node = BasicNode,
        Entry = Entry<TypeConfig>,
        SnapshotData = Cursor<Vec<u8>>,
);

type Result<T> = std::result::Result<T, StorageError<u64>>;

/// Keys and values of a node. Its snapshots are in a file, so that the log below them can be purged. A
/// restart applies the later entries of the log again.
#[derive(Debug, Clone)]
pub struct StateMachine {
    path: PathBuf,
    shared: Arc<Mutex<State>>,
}

/// Builds snapshots beside the state machine.
pub type SnapshotBuilder = StateMachine;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    applied: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
    values: BTreeMap<String, String>,
}

/// Contents of the snapshot's file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    meta: SnapshotMeta<u64, BasicNode>,
    state: State,
}

impl StateMachine {
    /// Opens the state machine with the snapshot in the directory `path`, which must exist.
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

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.state().values.get(key).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self) -> io::Result<Option<Stored>> {
        match fs::read(self.path.join("snapshot")) {
            Ok(bytes) => Ok(Some(decode(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Replaces the file as a whole, and forces it, because openraft purges the entries that it covers next.
    fn store(&self, stored: &Stored) -> io::Result<()> {
        let new = self.path.join("snapshot.new");
        let mut file = File::create(&new)?;
        file.write_all(&encode(stored)?)?;
        file.sync_all()?;
        fs::rename(new, self.path.join("snapshot"))?;
        // Windows cannot flush a directory. A flush of the file writes NTFS's journal, which has the new name.
        let named = if cfg!(windows) {
            file
        } else {
            File::open(&self.path)?
        };
        named.sync_all()
    }
}

fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    rmp_serde::to_vec_named(value).map_err(io::Error::other)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    rmp_serde::from_slice(bytes).map_err(io::Error::other)
}

fn snapshot(stored: &Stored) -> io::Result<Snapshot<TypeConfig>> {
    Ok(Snapshot {
        meta: stored.meta.clone(),
        snapshot: Box::new(Cursor::new(encode(&stored.state)?)),
    })
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>> {
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

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        let state = self.state();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Before>>
    where
        I: IntoIterator<Item = Entry<TypeConfig>> + OptionalSend,
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
                    state.membership = StoredMembership::new(Some(entry.log_id), m);
                    None
                }
            }));
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        received: Box<Cursor<Vec<u8>>>,
    ) -> Result<()> {
        let failed = |e: io::Error| StorageIOError::write_snapshot(Some(meta.signature()), &e);
        let mut state: State = decode(received.get_ref()).map_err(failed)?;
        state.applied = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        let meta = meta.clone();
        let stored = Stored { meta, state };
        self.store(&stored).map_err(failed)?;
        *self.state() = stored.state;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>> {
        let found = self
            .stored()
            .and_then(|stored| stored.as_ref().map(snapshot).transpose());
        found.map_err(|e| StorageIOError::read_snapshot(None, &e).into())
    }
}
