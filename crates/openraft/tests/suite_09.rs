//! openraft's suite for log stores, line 0.9, and what the suite does not test: that a restart finds everything,
//! and what a call costs.

#[path = "../examples/node/machine.rs"]
mod machine;

use logforce::{EnvironmentOptions, ErrorKind, Guarantee, Log, Options};
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

/// Returns the error of opening a store whose log has this record.
async fn opened_with(record: &[u8]) -> (Error, logforce::Lsn) {
    let dir = TempDir::new().unwrap();
    let log = options().open(dir.path().join("log")).unwrap();
    let at = log.commit(record).unwrap().start;
    log.close().unwrap();
    let opened = Store::open(dir.path().join("log"), options()).await;
    (opened.unwrap_err(), at)
}

#[tokio::test]
async fn records_of_others_are_refused_with_their_position() {
    for (record, expected) in [
        (&b"an order"[..], "is not a record of a Raft log store"),
        (b"", "has 0 bytes"),
        (&[0xaf, 2, 9, 1], "has format version 2"),
        (&[0xaf, 1, 10, 1], "was written for line 10 of openraft"),
        (&[0xaf, 1, 9, 7], "has the unknown kind 7"),
        (
            &[0xaf, 1, 9, 1, 0],
            "does not have the length that it declares",
        ),
        // A state whose vote is a byte that MessagePack does not use.
        (
            &[0xaf, 1, 9, 2, 2, 0, 0, 0, 0xc1, 0, 0, 0, 0, 0, 0, 0, 0],
            "does not hold the vote of this program's type",
        ),
    ] {
        let (error, at) = opened_with(record).await;
        let Error::Record { path, lsn, why } = &error else {
            panic!("{error:?}");
        };
        assert!(path.ends_with("log") && *lsn == at, "{error}");
        assert!(why.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn an_entry_of_another_type_is_an_error_and_no_panic() {
    let dir = TempDir::new().unwrap();
    let log = options().open(dir.path().join("log")).unwrap();
    let record = [&[0xaf, 1, 9, 1][..], &5u64.to_le_bytes(), b"\xc1"].concat();
    log.commit(record).unwrap();
    let mut store = Store::from_log(log).await.unwrap();
    let error = store.try_get_log_entries(..).await.unwrap_err();
    assert!(
        error.to_string().contains("does not hold an entry"),
        "{error}"
    );
    let error = store.get_log_state().await.unwrap_err();
    assert!(error.to_string().contains("at LSN"), "{error}");
}

#[tokio::test]
async fn damage_is_reported_with_its_file() {
    let dir = TempDir::new().unwrap();
    let (log, mut store) = open(dir.path()).await;
    for i in 1..100 {
        store.blocking_append([entry(1, i)]).await.unwrap();
    }
    log.close().unwrap();
    drop(store);
    let files = std::fs::read_dir(dir.path().join("log")).unwrap();
    let mut damaged = 0;
    for file in files.map(|f| f.unwrap().path()) {
        let mut bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(8).position(|w| w == b"value 50");
        if let Some(at) = found {
            bytes[at] ^= 1;
            std::fs::write(file, bytes).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let opened = Store::open(dir.path().join("log"), options()).await;
    let Err(Error::Log(error)) = opened else {
        panic!("{opened:?}");
    };
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert!(error.path().unwrap().starts_with(dir.path()), "{error}");
}

#[tokio::test]
async fn a_commit_costs_one_force() {
    let dir = TempDir::new().unwrap();
    let (log, mut store) = open(dir.path()).await;
    store.blocking_append([entry(1, 1)]).await.unwrap();
    let forces = || log.stats().counters.forces;
    let before = forces();
    for i in 2..=50 {
        store.blocking_append([entry(1, i)]).await.unwrap();
        let committed = Some(log_id(1, 1, i));
        store.save_committed(committed).await.unwrap();
        assert_eq!(store.read_committed().await.unwrap(), committed);
    }
    assert_eq!(forces() - before, 49);
    store.save_vote(&Vote::new(2, 1)).await.unwrap();
    assert_eq!(forces() - before, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_beside_purges_have_no_gap() {
    let dir = TempDir::new().unwrap();
    let (log, mut store) = open(dir.path()).await;
    // Several segments, so that purges remove files.
    store
        .blocking_append((1..=20_000).map(|i| entry(1, i)))
        .await
        .unwrap();
    log.close().unwrap();
    drop(store);
    // After a restart no entry is in memory.
    let (_, mut store) = open(dir.path()).await;
    let mut reader = store.get_log_reader().await;
    let reads = tokio::spawn(async move {
        let mut reads = 0;
        loop {
            let found = reader.try_get_log_entries(..).await.unwrap();
            let indexes = found.iter().map(|e| e.log_id.index);
            let Some(first) = found.first().map(|e| e.log_id.index) else {
                return reads;
            };
            assert!(indexes.eq(first..=20_000));
            reads += 1;
        }
    });
    for upto in (500..=20_000).step_by(500) {
        store.purge(log_id(1, 1, upto)).await.unwrap();
    }
    assert!(reads.await.unwrap() > 0);
}

#[tokio::test]
async fn groups_share_an_environment() {
    let dir = TempDir::new().unwrap();
    let environment = logforce::environment(&EnvironmentOptions::new()).unwrap();
    let options = options().environment(&environment);
    let mut stores = Vec::new();
    for group in 0..20 {
        let path = dir.path().join(group.to_string());
        stores.push(Store::open(path, options.clone()).await.unwrap());
    }
    for (group, store) in (1..).zip(&mut stores) {
        let entries = (1..=group).map(|i| entry(1, i));
        store.blocking_append(entries).await.unwrap();
    }
    assert_eq!(environment.stats().logs, 20);
    drop(stores);
    for group in 0..20 {
        let path = dir.path().join(group.to_string());
        let mut store = Store::open(path, options.clone()).await.unwrap();
        assert_eq!(terms(&mut store).await.len() as u64, group + 1);
    }
}
