//! Object storage, against a server that misbehaves.

mod scenario;

use bytes::Bytes;
use logforce_archive::key::Key;
use logforce_archive::store::{Answer, Store, StoreError, StoreOptions};
use logforce_archive_testserver::{BUCKET, Fault, Faults, Options, Server};
use scenario::place;
use std::time::Duration;

/// Time limit of operations. Only a stalled request reaches it.
const LIMIT: Duration = Duration::from_secs(2);

fn start(options: Options) -> (Server, Store) {
    let server = Server::start(options).unwrap();
    let store = open(&server, BUCKET, LIMIT);
    (server, store)
}

fn open(server: &Server, bucket: &str, limit: Duration) -> Store {
    let mut options = StoreOptions::default()
        .endpoint(server.endpoint())
        .time_limit(limit);
    for (name, value) in server.environment() {
        options = options.setting(name, value);
    }
    Store::open(&format!("s3://{bucket}/some/archive"), &options).unwrap()
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn name(key: &Key) -> String {
    format!("some/archive/{key}")
}

fn unknown<T: std::fmt::Debug>(answer: Answer<T>) -> StoreError {
    match answer {
        Answer::Unknown(error) => error,
        answer => panic!("not unknown: {answer:?}"),
    }
}

fn refused<T: std::fmt::Debug>(answer: Answer<T>) -> StoreError {
    match answer {
        Answer::Refused(error) => error,
        answer => panic!("not refused: {answer:?}"),
    }
}

#[tokio::test]
async fn objects_are_created_once_and_read_replaced_listed_and_deleted() {
    // Pages of three names, and objects of others in the bucket.
    let (server, store) = start(Options {
        page_len: 3,
        ..Options::default()
    });
    server.with_objects(|objects| {
        for other in [
            "other/e/1",
            "some/archive/e/foreign",
            "some/archive2/hint",
            "zz",
        ] {
            objects.insert(other.to_owned(), b"other".to_vec().into());
        }
    });
    scenario::life_of_objects(&store).await;
}

#[tokio::test]
async fn a_store_that_copies_nothing_itself_has_the_same_life() {
    let (_server, store) = start(Options {
        can_copy: false,
        ..Options::default()
    });
    scenario::life_of_objects(&store).await;
}

#[tokio::test]
async fn a_faulty_copy_is_unknown() {
    let (server, store) = start(Options::default());
    let created = store.create(&place(1, 0), bytes("one")).await;
    assert_eq!(created, Answer::Done(()));
    for fault in [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::HalveAnswer,
        Fault::UnavailableAfter,
        Fault::FalseConflict,
    ] {
        server.fault_next(fault);
        unknown(store.copy(&place(1, 0), &place(1, 1)).await);
    }
    let copied = store.copy(&place(1, 0), &place(1, 1)).await;
    assert_eq!(copied, Answer::Done(()));
    assert_eq!(store.get(&place(1, 1)).await, Answer::Done(bytes("one")));
}

#[tokio::test]
async fn a_bucket_without_a_prefix_is_an_archive_as_well() {
    let server = Server::start(Options::default()).unwrap();
    let mut options = StoreOptions::default();
    for (name, value) in server.environment() {
        options = options.setting(name, value);
    }
    let store = Store::open(&format!("s3://{BUCKET}"), &options).unwrap();
    scenario::life_of_objects(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_creates_at_once_one_is_done() {
    let (server, store) = start(Options::default());
    scenario::a_hundred_creates([store, open(&server, BUCKET, LIMIT)]).await;
    assert_eq!(server.counts()["PUT"], 100);
}

#[tokio::test]
async fn each_fault_of_a_create_has_its_effect_and_its_answer() {
    let stall = Duration::from_secs(1);
    let (server, _) = start(Options {
        faults: Faults {
            stall,
            ..Faults::default()
        },
        ..Options::default()
    });
    let store = open(&server, BUCKET, stall / 2);
    for (n, fault) in Fault::ALL.into_iter().enumerate() {
        let key = place(1, n as u64);
        server.fault_next(fault);
        let answer = store.create(&key, bytes("one")).await;
        let is_there = server.with_objects(|objects| objects.contains_key(&name(&key)));
        let (is_done, is_known, words) = match fault {
            Fault::LoseRequest => (false, false, ""),
            Fault::LoseAnswer => (true, false, ""),
            // Cut within its headers.
            Fault::HalveAnswer => (true, false, ""),
            Fault::Delay => (true, true, ""),
            Fault::Stall => (false, false, "no answer within 0.5 s"),
            Fault::UnavailableBefore => (false, false, "SlowDown"),
            Fault::UnavailableAfter => (true, false, "InternalError"),
            Fault::FalseConflict => (false, false, "ConditionalRequestConflict"),
        };
        assert_eq!(is_there, is_done, "{fault:?}");
        if is_known {
            assert_eq!(answer, Answer::Done(()), "{fault:?}");
        } else {
            let error = unknown(answer).to_string();
            assert!(error.contains(words), "{fault:?}: {error}");
            assert!(error.contains(&key.to_string()), "{error}");
        }
        let counts = server.counts();
        assert_eq!(counts[&format!("{fault:?}")], 1, "{counts:?}");
        assert_eq!(counts["PUT"], n + 1, "one try, one request: {counts:?}");
    }
    // The stalled put lands after its client has given up.
    let stalled = place(1, 4);
    while store.get(&stalled).await == Answer::Missing {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.create(&stalled, bytes("two")).await, Answer::Exists);
}

#[tokio::test]
async fn a_faulty_read_list_or_delete_is_unknown_and_never_short() {
    let (server, store) = start(Options::default());
    let object = Bytes::from(vec![7; 100_000]);
    assert_eq!(
        store.create(&Key::Hint, object.clone()).await,
        Answer::Done(())
    );
    let faults = [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::HalveAnswer,
        Fault::UnavailableBefore,
        Fault::UnavailableAfter,
    ];
    for fault in faults {
        server.fault_next(fault);
        unknown(store.get(&Key::Hint).await);
        server.fault_next(fault);
        unknown(store.list("e/", None, |_| true).await);
    }
    for fault in faults {
        server.fault_next(fault);
        unknown(store.delete(&Key::Hint).await);
        let is_there = server.with_objects(|objects| objects.contains_key(&name(&Key::Hint)));
        let is_done = [
            Fault::LoseAnswer,
            Fault::HalveAnswer,
            Fault::UnavailableAfter,
        ];
        assert_eq!(is_there, !is_done.contains(&fault), "{fault:?}");
        assert_eq!(
            store.replace(&Key::Hint, object.clone()).await,
            Answer::Done(())
        );
    }
}

#[tokio::test]
async fn a_page_that_fails_fails_the_listing() {
    let (server, store) = start(Options {
        page_len: 2,
        ..Options::default()
    });
    for n in 0..5 {
        assert_eq!(
            store.create(&place(1, n), bytes("x")).await,
            Answer::Done(())
        );
    }
    server.fault_next(Fault::Delay);
    server.fault_next(Fault::LoseAnswer);
    unknown(store.list("e/", None, |_| true).await);
    let before = server.counts()["GET"];
    let some = store.list("e/", None, |key| *key < place(1, 2)).await;
    assert_eq!(some, Answer::Done(vec![place(1, 0), place(1, 1)]));
    assert_eq!(
        server.counts()["GET"] - before,
        2,
        "the rest is not asked for"
    );
}

#[tokio::test]
async fn what_no_retry_helps_is_refused_with_a_remedy() {
    let (server, store) = start(Options::default());
    let cases = [
        (403, "AccessDenied", "rights to list, read"),
        (403, "InvalidAccessKeyId", "set valid credentials"),
        (403, "SignatureDoesNotMatch", "set valid credentials"),
        (403, "RequestTimeTooSkewed", "set the clock"),
        (400, "ExpiredToken", "set valid credentials"),
        (401, "Unauthorized", "set valid credentials"),
        (400, "AuthorizationHeaderMalformed", "set the region"),
        (301, "PermanentRedirect", "set the region"),
        (404, "NoSuchBucket", "create the bucket"),
        (405, "MethodNotAllowed", "conditional puts"),
        (501, "NotImplemented", "conditional puts"),
    ];
    for (status, code, words) in cases {
        server.refuse(Some((status, code)));
        let errors = [
            refused(store.create(&Key::Hint, bytes("x")).await),
            refused(store.replace(&Key::Hint, bytes("x")).await),
            refused(store.get(&Key::Hint).await),
            refused(store.delete(&Key::Hint).await),
            refused(store.list("e/", None, |_| true).await),
            store.probe().await.unwrap_err(),
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains(words), "{status} {code}: {text}");
            assert!(text.len() < 500, "{text}");
        }
    }
    for (status, code) in [
        (500, "InternalError"),
        (503, "SlowDown"),
        (400, "RequestTimeout"),
        (429, "x"),
    ] {
        server.refuse(Some((status, code)));
        unknown(store.create(&Key::Hint, bytes("x")).await);
        unknown(store.get(&Key::Hint).await);
    }
    // Another status of an object that is not there, and of one that is.
    server.refuse(Some((404, "NoSuchKey")));
    assert_eq!(store.get(&Key::Hint).await, Answer::Missing);
    assert_eq!(store.delete(&Key::Hint).await, Answer::Done(()));
    for (status, code) in [
        (412, "PreconditionFailed"),
        (304, ""),
        (409, "BlobAlreadyExists"),
    ] {
        server.refuse(Some((status, code)));
        let created = store.create(&Key::Hint, bytes("x")).await;
        assert_eq!(created, Answer::Exists, "{status} {code}");
    }
}

#[tokio::test]
async fn a_missing_bucket_is_no_empty_archive() {
    let (server, _) = start(Options::default());
    let store = open(&server, "missing", LIMIT);
    let errors = [
        refused(store.get(&Key::Identity).await),
        refused(store.list("e/", None, |_| true).await),
        refused(store.create(&Key::Identity, bytes("x")).await),
        refused(store.delete(&Key::Identity).await),
    ];
    for error in errors {
        assert!(error.to_string().contains("create the bucket"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_frozen_or_stopped_keeps_its_objects() {
    let (server, _) = start(Options::default());
    let store = open(&server, BUCKET, Duration::from_millis(300));
    assert_eq!(
        store.create(&place(1, 0), bytes("x")).await,
        Answer::Done(())
    );
    server.freeze();
    let error = unknown(store.get(&place(1, 0)).await);
    assert!(
        error.to_string().contains("no answer within 0.3 s"),
        "{error}"
    );
    server.thaw();
    assert_eq!(store.get(&place(1, 0)).await, Answer::Done(bytes("x")));
    server.stop();
    // The first try uses a connection that has ended.
    unknown(store.get(&place(1, 0)).await);
    let error = unknown(store.get(&place(1, 0)).await);
    assert!(error.to_string().contains("refused"), "{error}");
    server.start_again().unwrap();
    assert_eq!(store.get(&place(1, 0)).await, Answer::Done(bytes("x")));
}

#[tokio::test]
async fn the_probe_finds_a_store_that_replaces() {
    let (server, store) = start(Options {
        has_conditional_create: false,
        ..Options::default()
    });
    let probe = store.probe().await.unwrap();
    assert!(!probe.creates_once, "{probe:?}");
    assert!(probe.lists_at_once && probe.reads_newest, "{probe:?}");
    let error = probe
        .check_synchronous("s3://test")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("replaces an object that it was asked to create"),
        "{error}"
    );
    assert!(error.contains("If-None-Match"), "{error}");
    assert_eq!(server.with_objects(|objects| objects.len()), 0);
}

#[tokio::test]
async fn the_probe_decides_among_faults_or_says_that_it_cannot() {
    let mut decided = 0;
    for seed in 0..8 {
        let (server, store) = start(Options::default());
        server.set_faults(Faults {
            probability: [
                (Fault::LoseRequest, 0.02),
                (Fault::LoseAnswer, 0.02),
                (Fault::UnavailableAfter, 0.02),
                (Fault::FalseConflict, 0.02),
            ]
            .into(),
            seed,
            ..Faults::default()
        });
        if let Ok(probe) = store.probe().await {
            probe.check_synchronous("s3://test").unwrap();
            decided += 1;
        }
        assert_eq!(
            server.with_objects(|objects| objects.len()),
            0,
            "seed {seed}"
        );
    }
    assert!(decided >= 6, "{decided} of 8");
}

#[tokio::test]
async fn only_the_beginning_of_an_object_is_read() {
    let (server, store) = start(Options::default());
    let object = Bytes::from((0..200_000_u32).map(|n| n as u8).collect::<Vec<u8>>());
    assert_eq!(
        store.create(&Key::Hint, object.clone()).await,
        Answer::Done(())
    );
    for len in [1, 1000, 199_999, 200_000, 200_001] {
        let expected = object.slice(..object.len().min(len as usize));
        assert_eq!(
            store.get_start(&Key::Hint, len).await,
            Answer::Done(expected)
        );
    }
    server.with_objects(|objects| {
        let hint = objects.get_mut(&name(&Key::Hint)).unwrap();
        std::sync::Arc::make_mut(hint).truncate(10);
    });
    assert_eq!(
        store.get(&Key::Hint).await,
        Answer::Done(object.slice(..10))
    );
}
