//! A directory as a store, through the interface of all stores.

use bytes::Bytes;
use logforce::Lsn;
use logforce_archive::key::{Epoch, Key};
use logforce_archive::store::{Answer, Store, StoreOptions};
use std::path::Path;

fn open(dir: &Path) -> Store {
    Store::open(&dir.display().to_string(), &StoreOptions::default()).unwrap()
}

fn place(epoch: u64, place: u64) -> Key {
    Key::Place {
        epoch: Epoch(epoch),
        place,
    }
}

#[tokio::test]
async fn objects_are_created_once_and_read_replaced_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    assert_eq!(store.get(&place(1, 0)).await, Answer::Missing);
    assert_eq!(
        store.create(&place(1, 0), bytes("one")).await,
        Answer::Done(())
    );
    assert_eq!(
        store.create(&place(1, 0), bytes("two")).await,
        Answer::Exists
    );
    assert_eq!(store.get(&place(1, 0)).await, Answer::Done(bytes("one")));
    assert_eq!(
        store.get_start(&place(1, 0), 2).await,
        Answer::Done(bytes("on"))
    );
    for text in ["first", "second"] {
        assert_eq!(
            store.replace(&Key::Hint, bytes(text)).await,
            Answer::Done(())
        );
    }
    assert_eq!(store.get(&Key::Hint).await, Answer::Done(bytes("second")));
    for (epoch, number) in [(1, 1), (1, 2), (1, 3), (2, 0), (10, 0)] {
        let created = store.create(&place(epoch, number), Bytes::new()).await;
        assert_eq!(created, Answer::Done(()));
    }
    std::fs::write(dir.path().join("e/foreign"), "").unwrap();
    let all = store.list("e/", None, |_| true).await;
    let expected = [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (10, 0)];
    assert_eq!(
        all,
        Answer::Done(expected.map(|(e, n)| place(e, n)).to_vec())
    );
    let after = place(1, 0).to_string();
    let some = store
        .list("e/", Some(&after), |key| *key < place(1, 3))
        .await;
    assert_eq!(some, Answer::Done(vec![place(1, 1), place(1, 2)]));
    let epoch = store.list(&format!("e/{:020}/", 2), None, |_| true).await;
    assert_eq!(epoch, Answer::Done(vec![place(2, 0)]));
    assert_eq!(store.list("s/", None, |_| true).await, Answer::Done(vec![]));
    for _ in 0..2 {
        assert_eq!(store.delete(&place(1, 1)).await, Answer::Done(()));
    }
    assert_eq!(store.get(&place(1, 1)).await, Answer::Missing);
    assert_eq!(store.delete(&Key::Pruned(Lsn(1))).await, Answer::Done(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_creates_at_once_one_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let stores = [open(dir.path()), open(dir.path())];
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100_usize {
        let store = stores[n % 2].clone();
        tasks.spawn(async move {
            let object = Bytes::from(n.to_string().into_bytes());
            (n, store.create(&place(7, 7), object).await)
        });
    }
    let answers = tasks.join_all().await;
    let mut winners = answers
        .iter()
        .filter(|(_, answer)| *answer == Answer::Done(()));
    let (winner, _) = winners.next().unwrap();
    assert_eq!(winners.next(), None);
    let losers = answers
        .iter()
        .filter(|(_, answer)| *answer == Answer::Exists);
    assert_eq!(losers.count(), 99);
    let found = stores[0].get(&place(7, 7)).await;
    assert_eq!(found, Answer::Done(Bytes::from(winner.to_string())));
}

#[tokio::test]
async fn a_directory_passes_the_probe_and_keeps_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let probe = store.probe().await.unwrap();
    probe.check_synchronous("here").unwrap();
    let finding =
        "the store creates a name once, lists an object at once, reads what was written last";
    assert_eq!(probe.to_string(), finding);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the folder of unfinished objects");
    assert_eq!(store.list("", None, |_| true).await, Answer::Done(vec![]));
}

#[cfg(unix)]
#[tokio::test]
async fn objects_are_readable_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(
        store.create(&place(1, 0), Bytes::new()).await,
        Answer::Done(())
    );
    let mode = |path: &str| {
        dir.path()
            .join(path)
            .metadata()
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&place(1, 0).to_string()), 0o600);
    assert_eq!(mode("e"), 0o700);
}
