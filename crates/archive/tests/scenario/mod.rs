//! Scenarios that every store must pass.

use bytes::Bytes;
use logforce::Lsn;
use logforce_archive::key::{Epoch, Key};
use logforce_archive::store::{Answer, Store};

pub fn place(epoch: u64, place: u64) -> Key {
    Key::Place {
        epoch: Epoch(epoch),
        place,
    }
}

/// Creates, reads, replaces, lists and deletes objects.
pub async fn life_of_objects(store: &Store) {
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
    let copied = Key::Segment {
        from: Lsn(1),
        to: Lsn(2),
    };
    let missing = store.copy(&place(9, 9), &copied).await;
    assert_eq!(missing, Answer::Missing);
    assert_eq!(store.copy(&place(1, 0), &copied).await, Answer::Done(()));
    let again = store.copy(&place(1, 0), &copied).await;
    assert!(
        matches!(again, Answer::Done(()) | Answer::Exists),
        "{again:?}"
    );
    assert_eq!(store.get(&copied).await, Answer::Done(bytes("one")));
    assert_eq!(store.delete(&copied).await, Answer::Done(()));
    assert_eq!(store.get(&place(1, 0)).await, Answer::Done(bytes("one")));
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

/// Creates one object a hundred times at once.
pub async fn a_hundred_creates(stores: [Store; 2]) {
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
