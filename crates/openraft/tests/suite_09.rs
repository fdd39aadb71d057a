//! openraft's suite for log stores, line 0.9, and what the suite does not test: that a restart finds everything,
//! and what a call costs.

#[path = "../examples/node/machine.rs"]
mod machine;

use logforce::{Guarantee, Log, Options};
use logforce_openraft::Error;
use logforce_openraft::v09::LogStore;
use machine::{Set, StateMachine, TypeConfig};
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite, log_id};
use openraft::{Entry, EntryPayload, RaftLogReader, StorageError, Vote};

use std::path::Path;
use tempfile::TempDir;

type Store = LogStore<TypeConfig>;

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

impl StoreBuilder<TypeConfig, Store, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Store, StateMachine), StorageError<u64>> {
        let dir = TempDir::new().unwrap();
        let (_, store) = open(dir.path()).await;
        let machine = StateMachine::open(dir.path()).unwrap();
        Ok((dir, store, machine))
    }
}

#[test]
fn openrafts_own_suite() {
    Suite::test_all(Builder).unwrap();
}

fn entry(term: u64, index: u64) -> Entry<TypeConfig> {
    let mut entry = Entry::new_blank(log_id(term, 1, index));
    let set = Set {
        key: format!("key {}", index % 7),
        value: format!("value {index}"),
    };
    entry.payload = EntryPayload::Normal(set);
    entry
}

/// Returns index and term of each entry in the store.
async fn terms(store: &mut Store) -> Vec<(u64, u64)> {
    let entries = store.try_get_log_entries(..).await.unwrap();
    let ids = entries.iter().map(|e| e.log_id);
    ids.map(|id| (id.index, id.leader_id.term)).collect()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let (log, mut store) = open(dir.path()).await;
    // More than the buffer and the cache hold, at once and one by one.
    let all = (1..=30_000).map(|i| entry(1, i));
    store.blocking_append(all).await.unwrap();
    for i in 30_001..30_100 {
        store.blocking_append([entry(2, i)]).await.unwrap();
    }
    let found = terms(&mut store).await;
    assert_eq!(found.len(), 30_099);
    assert!(found.iter().map(|f| f.0).eq(1..30_100));
    store.save_vote(&Vote::new(3, 7)).await.unwrap();
    // A new leader replaces the last entries; a snapshot covers the first ones.
    store.truncate(log_id(2, 1, 30_050)).await.unwrap();
    store.blocking_append([entry(3, 30_050)]).await.unwrap();
    let committed = Some(log_id(2, 1, 30_049));
    store.save_committed(committed).await.unwrap();
    store.purge(log_id(1, 1, 29_990)).await.unwrap();
    let before = terms(&mut store).await;
    assert_eq!(before.first(), Some(&(29_991, 1)));
    assert_eq!(before.last(), Some(&(30_050, 3)));
    assert_eq!(before.len(), 60);
    log.close().unwrap();
    drop(store);

    let (log, mut store) = open(dir.path()).await;
    assert_eq!(terms(&mut store).await, before);
    assert_eq!(store.read_vote().await.unwrap(), Some(Vote::new(3, 7)));
    assert_eq!(store.read_committed().await.unwrap(), committed);
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(log_id(1, 1, 29_990)));
    assert_eq!(state.last_log_id, Some(log_id(3, 1, 30_050)));
    // All entries, as after a snapshot from the leader: the state alone is left.
    store.purge(log_id(3, 1, 40_000)).await.unwrap();
    log.close().unwrap();
    drop(store);

    let (_, mut store) = open(dir.path()).await;
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_log_id, Some(log_id(3, 1, 40_000)));
    assert_eq!(store.read_vote().await.unwrap(), Some(Vote::new(3, 7)));
    assert_eq!(store.read_committed().await.unwrap(), committed);
    store.blocking_append([entry(3, 40_001)]).await.unwrap();
    assert_eq!(terms(&mut store).await, [(40_001, 3)]);
}

#[tokio::test]
async fn entries_can_be_read_before_they_are_durable() {
    let (_dir, mut store, mut machine) = Builder.build().await.unwrap();
    for round in 0..50 {
        let entries = (1..=20).map(|i| entry(1, round * 20 + i));
        store.blocking_append(entries).await.unwrap();
        let mut reader = store.get_log_reader().await;
        let found = reader.try_get_log_entries(round * 20 + 1..).await.unwrap();
        assert_eq!(found.len(), 20);
        machine.apply(found).await.unwrap();
    }
    let last = format!("key {}", 1000 % 7);
    assert_eq!(machine.get(&last).as_deref(), Some("value 1000"));
}

#[tokio::test]
async fn a_gap_is_refused_and_changes_nothing() {
    let (_dir, mut store, _) = Builder.build().await.unwrap();
    store.blocking_append([entry(1, 5)]).await.unwrap();
    for wrong in [vec![entry(1, 7)], vec![entry(1, 6), entry(1, 8)]] {
        let error = store.blocking_append(wrong).await.unwrap_err();
        assert!(error.to_string().contains("append without gaps"), "{error}");
    }
    assert_eq!(terms(&mut store).await, [(5, 1)]);
}

#[tokio::test]
async fn a_log_of_others_is_refused_with_the_record() {
    let dir = TempDir::new().unwrap();
    let log = options().open(dir.path().join("log")).unwrap();
    let at = log.commit(b"an order").unwrap().start;
    log.close().unwrap();
    let opened = Store::open(dir.path().join("log"), options()).await;
    let Err(Error::Record { path, lsn, why }) = opened else {
        panic!("{opened:?}");
    };
    assert_eq!((path, lsn), (dir.path().join("log"), at));
    assert!(why.contains("not a record of a Raft log store"), "{why}");
}
