//! openraft's suite for log stores, line 0.10, and a restart.

use futures_core::Stream;
use logforce::{Guarantee, Log, Options};
use logforce_openraft::Error;
use logforce_openraft::v010::LogStore;
use openraft_010::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft_010::entry::RaftEntry;
use openraft_010::storage::{EntryResponder, RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft_010::testing::log::{StoreBuilder, Suite};
use openraft_010::testing::log_id;
use openraft_010::{EntryPayload, OptionalSend, RaftLogReader, RaftSnapshotBuilder, StorageError};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, Cursor};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

openraft_010::declare_raft_types!(
    /// Types of the tests.
    pub TypeConfig:
        D = String,
        R = String,
        Node = (),
);

type Store = LogStore<TypeConfig>;
type LogId = LogIdOf<TypeConfig>;
type Vote = openraft_010::alias::VoteOf<TypeConfig>;
type Entry = openraft_010::alias::EntryOf<TypeConfig>;
type Meta = SnapshotMetaOf<TypeConfig>;
type Snapshot = SnapshotOf<TypeConfig, Cursor<Vec<u8>>>;

/// State machine in memory.
#[derive(Debug, Clone, Default)]
struct Machine(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    applied: Option<LogId>,
    membership: StoredMembershipOf<TypeConfig>,
    values: BTreeMap<u64, String>,
    snapshot: Option<(Meta, Vec<u8>)>,
}

impl State {
    fn snapshot(&self) -> Option<Snapshot> {
        let (meta, bytes) = self.snapshot.clone()?;
        let snapshot = Cursor::new(bytes);
        Some(Snapshot { meta, snapshot })
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Machine {
    type SnapshotData = Cursor<Vec<u8>>;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let mut state = self.0.lock().unwrap();
        let meta = Meta {
            last_log_id: state.applied,
            last_membership: state.membership.clone(),
        };
        let bytes = rmp_serde::to_vec(&state.values).unwrap();
        state.snapshot = Some((meta, bytes));
        Ok(state.snapshot().unwrap())
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = Cursor<Vec<u8>>;
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogId>, StoredMembershipOf<TypeConfig>)> {
        let state = self.0.lock().unwrap();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = poll_fn(|cx| Pin::new(&mut entries).poll_next(cx))
            .await
            .transpose()?
        {
            let mut state = self.0.lock().unwrap();
            state.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => (),
                EntryPayload::Normal(value) => {
                    state.values.insert(entry.log_id.index(), value);
                }
                EntryPayload::Membership(m) => {
                    state.membership = StoredMembershipOf::<TypeConfig>::new(state.applied, m);
                }
            }
            if let Some(responder) = responder {
                responder.send(String::new());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &Meta, data: Cursor<Vec<u8>>) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.values = rmp_serde::from_slice(data.get_ref()).unwrap();
        state.applied = meta.last_log_id;
        state.membership = meta.last_membership.clone();
        state.snapshot = Some((meta.clone(), data.into_inner()));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.0.lock().unwrap().snapshot())
    }
}

fn options() -> Options {
    Options::new()
        .create(true)
        .calibrate(false)
        .segment_size(256 << 10)
        .max_batch_size(64 << 10)
        .buffer_size(128 << 10)
        .require(Guarantee::ProcessCrash)
}

async fn open(dir: &Path) -> (Log, Store) {
    let log = options().open_async(dir.join("log")).await.unwrap();
    (log.clone(), Store::from_log(log).await.unwrap())
}

struct Builder;

impl StoreBuilder<TypeConfig, Store, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Store, Machine), StorageError<TypeConfig>> {
        let dir = TempDir::new().unwrap();
        let (_, store) = open(dir.path()).await;
        Ok((dir, store, Machine::default()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_own_suite() {
    Suite::test_all(Builder).await.unwrap();
}

fn entry(term: u64, index: u64) -> Entry {
    Entry::new_normal(id(term, index), format!("value {index}"))
}

fn id(term: u64, index: u64) -> LogId {
    log_id::<TypeConfig>(term, 1, index)
}

/// Returns index and term of each entry in the store.
async fn terms(store: &mut Store) -> Vec<(u64, u64)> {
    let mut reader = store.get_log_reader().await;
    let entries = reader.try_get_log_entries(..).await.unwrap();
    let ids = entries.iter().map(|e| e.log_id);
    ids.map(|id| (id.index(), id.committed_leader_id().term))
        .collect()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let (log, mut store) = open(dir.path()).await;
    let all = (0..100).map(|i| entry(1, i));
    store.blocking_append(all).await.unwrap();
    let vote = Vote::new(3, 7);
    store.save_vote(&vote).await.unwrap();
    store.truncate_after(Some(id(1, 49))).await.unwrap();
    store.blocking_append([entry(3, 50)]).await.unwrap();
    store.save_committed(Some(id(1, 49))).await.unwrap();
    store.purge(id(1, 39)).await.unwrap();
    let before = terms(&mut store).await;
    assert_eq!(before.first(), Some(&(40, 1)));
    assert_eq!(before.last(), Some(&(50, 3)));
    log.close().unwrap();
    drop(store);

    let (_, mut store) = open(dir.path()).await;
    assert_eq!(terms(&mut store).await, before);
    let mut reader = store.get_log_reader().await;
    assert_eq!(reader.read_vote().await.unwrap(), Some(vote));
    assert_eq!(store.read_committed().await.unwrap(), Some(id(1, 49)));
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(id(1, 39)));
    assert_eq!(state.last_log_id, Some(id(3, 50)));
    store.truncate_after(None).await.unwrap();
    assert_eq!(terms(&mut store).await, []);
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_log_id, Some(id(1, 39)));
}

#[cfg(feature = "openraft-09")]
#[tokio::test]
async fn a_store_of_the_other_line_is_refused() {
    use openraft::storage::RaftLogStorage as _;

    openraft::declare_raft_types!(
        pub OldTypes: D = String, R = String, Node = openraft::EmptyNode,
    );

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let old = logforce_openraft::v09::LogStore::<OldTypes>::open(&path, options());
    let mut old = old.await.unwrap();
    old.save_vote(&openraft::Vote::new(1, 1)).await.unwrap();
    drop(old);
    let opened = Store::open(&path, options()).await;
    let Err(Error::Record { why, .. }) = opened else {
        panic!("{opened:?}");
    };
    assert!(why.contains("line 9 of openraft"), "{why}");
}
