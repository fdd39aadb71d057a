//! A directory as a store, through the interface of all stores.

mod scenario;

use bytes::Bytes;
use logforce_archive::store::{Answer, Store, StoreOptions};
use scenario::place;
use std::path::Path;

fn open(dir: &Path) -> Store {
    Store::open(&dir.display().to_string(), &StoreOptions::default()).unwrap()
}

#[tokio::test]
async fn objects_are_created_once_and_read_replaced_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("e")).unwrap();
    std::fs::write(dir.path().join("e/foreign"), "").unwrap();
    scenario::life_of_objects(&open(dir.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_creates_at_once_one_is_done() {
    let dir = tempfile::tempdir().unwrap();
    scenario::a_hundred_creates([open(dir.path()), open(dir.path())]).await;
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
