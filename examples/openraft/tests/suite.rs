//! openraft's own storage test suite, and what it does not ask: that everything is there after the
//! store was opened again.

use logforce::{Guarantee, Options};
use logforce_openraft::{LogStore, Set, StateMachine, TypeConfig};
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite, log_id};
use openraft::{Entry, EntryPayload, RaftLogReader, StorageError, Vote};
use tempfile::TempDir;

fn options() -> Options {
    Options::new()
        .segment_size(256 << 10)
        .max_batch_size(64 << 10)
        .buffer_size(128 << 10)
        .require(Guarantee::ProcessCrash)
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<u64>> {
        let dir = TempDir::new().unwrap();
        let log = LogStore::open(dir.path().join("log"), options()).unwrap();
        let machine = StateMachine::open(dir.path()).unwrap();
        Ok((dir, log, machine))
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

/// The terms of the entries in the store.
async fn terms(store: &mut LogStore) -> Vec<(u64, u64)> {
    let entries = store.try_get_log_entries(..).await.unwrap();
    let ids = entries.iter().map(|e| e.log_id);
    ids.map(|id| (id.index, id.leader_id.term)).collect()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let open = || LogStore::open(dir.path().join("log"), options()).unwrap();
    let mut store = open();
    // Many more than staging holds, in one go and in several.
    let all = (1..=3000).map(|i| entry(1, i));
    store.blocking_append(all).await.unwrap();
    for i in 3001..3100 {
        store.blocking_append([entry(2, i)]).await.unwrap();
    }
    store.save_vote(&Vote::new(3, 7)).await.unwrap();
    // A new leader overwrites the tail; a snapshot covers the head.
    store.truncate(log_id(2, 1, 3050)).await.unwrap();
    store.blocking_append([entry(3, 3050)]).await.unwrap();
    store
        .save_committed(Some(log_id(2, 1, 3049)))
        .await
        .unwrap();
    store.purge(log_id(1, 1, 2990)).await.unwrap();
    let before = terms(&mut store).await;
    assert_eq!(before.first(), Some(&(2991, 1)));
    assert_eq!(before.last(), Some(&(3050, 3)));
    assert_eq!(before.len(), 60);
    store.close().unwrap();

    let mut store = open();
    assert_eq!(terms(&mut store).await, before);
    assert_eq!(store.read_vote().await.unwrap(), Some(Vote::new(3, 7)));
    let committed = store.read_committed().await.unwrap();
    assert_eq!(committed, Some(log_id(2, 1, 3049)));
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(log_id(1, 1, 2990)));
    assert_eq!(state.last_log_id, Some(log_id(3, 1, 3050)));
    // All of it: what is left is known from the metadata alone.
    store.purge(log_id(3, 1, 3050)).await.unwrap();
    drop(store);
    let mut store = open();
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_log_id, Some(log_id(3, 1, 3050)));
    store.blocking_append([entry(3, 3051)]).await.unwrap();
    assert_eq!(terms(&mut store).await, [(3051, 3)]);
}

#[tokio::test]
async fn what_is_appended_can_be_read_before_it_is_durable() {
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
