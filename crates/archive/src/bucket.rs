//! The archive's objects: carries out the requests of the protocol, with the pauses between tries.

use crate::error::{Error, Result};
use crate::format::{Codec, Identity, PEEK_LEN, SecretKey, StoredLog, random_nonce};
use crate::key::Key;
use crate::object::{Object, Segment};
use crate::protocol::{Answer, Listing, Request};
use crate::store::{self, Pacing, Retries, Store, StoreError};
use bytes::Bytes;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;

/// Machine of the protocol that ends with a result.
pub(crate) trait Machine {
    fn poll(&mut self) -> Vec<Request>;
    fn answer(&mut self, request: &Request, answer: Answer);
    fn is_done(&self) -> bool;
}

/// Content of a chunk or a segment that is created.
#[derive(Clone)]
pub(crate) enum Body {
    Bytes(Bytes),
    /// The object at this key.
    CopyOf(Key),
}

/// Answer to a request, with the part of the log that came with it.
pub(crate) type Performed = Result<(Answer, Option<StoredLog>)>;

/// The archive's objects, behind the codec that its identity determines.
#[derive(Clone)]
pub(crate) struct Bucket {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    key: Option<SecretKey>,
    codec: OnceLock<Codec>,
    identity: OnceLock<Identity>,
    pacing: Pacing,
    clock: fn() -> SystemTime,
    began: Instant,
    /// Tries of the operations whose fate is unknown, by the name of the object.
    retries: Mutex<HashMap<String, Retries>>,
    /// Last error of the store, for people who wait.
    trouble: Mutex<Option<StoreError>>,
}

impl Bucket {
    pub(crate) fn new(
        store: Store,
        key: Option<SecretKey>,
        pacing: Pacing,
        clock: fn() -> SystemTime,
    ) -> Bucket {
        Bucket {
            shared: Arc::new(Shared {
                store,
                key,
                codec: OnceLock::new(),
                identity: OnceLock::new(),
                pacing,
                clock,
                began: Instant::now(),
                retries: Mutex::default(),
                trouble: Mutex::default(),
            }),
        }
    }

    /// Returns the same objects for an upload, which never gives up.
    pub(crate) fn for_upload(&self) -> Bucket {
        let shared = &self.shared;
        let pacing = Pacing {
            deadline: Duration::MAX,
            ..shared.pacing
        };
        let (store, key) = (shared.store.clone(), shared.key.clone());
        let upload = Bucket::new(store, key, pacing, shared.clock);
        if let Some(identity) = self.identity() {
            // It was checked before.
            let _ = upload.note_identity(identity.clone());
        }
        upload
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Returns the time for an object, Unix time in ns. A clock before 1970 counts as 1970.
    pub(crate) fn now(&self) -> u64 {
        let since = (self.shared.clock)().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    }

    /// Returns the last error of the store; `None` after a success.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        lock(&self.shared.trouble).clone()
    }

    /// Returns the identity, once it was read or created.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.shared.identity.get()
    }

    /// Returns the codec. The identity must have been read.
    pub(crate) fn codec(&self) -> Result<&Codec> {
        let codec = self.shared.codec.get();
        codec.ok_or(Error::State(crate::protocol::Error::NoArchive))
    }

    fn note_identity(&self, identity: Identity) -> Result<()> {
        let codec = Codec::new(&identity, self.shared.key.as_ref());
        let codec = codec.map_err(|reject| reject.of(&Key::Identity))?;
        let _ = self.shared.codec.set(codec);
        let _ = self.shared.identity.set(identity);
        Ok(())
    }

    /// Reads the identity; `None` if there is no archive.
    pub(crate) async fn read_identity(&self) -> Result<Option<&Identity>> {
        if self.identity().is_none() {
            match self.read(&Key::Identity, None).await? {
                None => return Ok(None),
                Some(bytes) => {
                    let identity = Identity::decode(&bytes);
                    self.note_identity(identity.map_err(|reject| reject.of(&Key::Identity))?)?;
                }
            }
        }
        Ok(self.identity())
    }

    /// Reads the identity, or creates the archive with the one that `make` returns.
    pub(crate) async fn read_or_create(
        &self,
        make: impl Fn(Option<&SecretKey>) -> Result<Identity>,
    ) -> Result<&Identity> {
        loop {
            if self.read_identity().await?.is_some() {
                break;
            }
            let identity = make(self.shared.key.as_ref())?;
            let bytes = identity.encode();
            let put = || self.store().create(&Key::Identity, bytes.clone());
            // Whoever created it: the next reading finds the one that counts.
            self.try_until_known("archive", put).await?;
        }
        self.identity()
            .ok_or(Error::State(crate::protocol::Error::NoArchive))
    }

    /// Reads an object, with further tries; `None` if there is none.
    pub(crate) async fn read(&self, key: &Key, len: Option<u64>) -> Result<Option<Bytes>> {
        let get = || async {
            match len {
                None => self.store().get(key).await,
                Some(len) => self.store().get_start(key, len).await,
            }
        };
        match self.try_until_known(&key.to_string(), get).await? {
            store::Answer::Done(bytes) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Lists keys, with further tries.
    pub(crate) async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        is_wanted: impl Fn(&Key) -> bool,
    ) -> Result<Vec<Key>> {
        let list = || self.store().list(prefix, after, &is_wanted);
        match self.try_until_known(prefix, list).await? {
            store::Answer::Done(keys) => Ok(keys),
            _ => Ok(Vec::new()),
        }
    }

    /// Repeats an operation that may be repeated, until its fate is known.
    pub(crate) async fn try_until_known<T, F: Future<Output = store::Answer<T>>>(
        &self,
        name: &str,
        operation: impl Fn() -> F,
    ) -> Result<store::Answer<T>> {
        loop {
            match operation().await {
                store::Answer::Unknown(error) => self.pause(name, error).await?,
                store::Answer::Refused(error) => return Err(error.into()),
                known => {
                    self.settled(name);
                    return Ok(known);
                }
            }
        }
    }

    /// Waits before the next try. Fails with the error of the store once it was tried long enough.
    async fn pause(&self, name: &str, error: StoreError) -> Result<()> {
        let shared = &self.shared;
        let random = random_nonce()?.0 as u64;
        let now = shared.began.elapsed();
        let pause = {
            let mut retries = lock(&shared.retries);
            let tries = retries
                .entry(name.to_owned())
                .or_insert_with(|| shared.pacing.begin(now));
            tries.next(now, random)
        };
        *lock(&shared.trouble) = Some(error.clone());
        match pause {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error.into()),
        }
        Ok(())
    }

    fn settled(&self, name: &str) {
        lock(&self.shared.retries).remove(name);
        *lock(&self.shared.trouble) = None;
    }

    /// Carries out one request. `body` is for a chunk or a segment that is created. With `whole`, a part of the
    /// log that is read comes with its bytes.
    pub(crate) async fn perform(
        &self,
        request: &Request,
        body: Option<Body>,
        whole: bool,
    ) -> Performed {
        let store = self.store();
        let name = name_of(request);
        let mut log = None;
        let answer = match request {
            Request::List(listing) => {
                let listed = self.list_once(listing).await;
                listed.map(Answer::Listed)
            }
            Request::Get(key) => {
                let got = match whole && matches!(key, Key::Place { .. } | Key::Segment { .. }) {
                    true => store.get(key).await,
                    false if *key == Key::Identity => store.get(key).await,
                    false => store.get_start(key, PEEK_LEN).await,
                };
                match got {
                    store::Answer::Done(bytes) => match self.decode(key, bytes, whole).await {
                        // It decides nothing, so a damaged one counts as missing. The next claim replaces it.
                        Err(Error::Object(_)) if *key == Key::Hint => {
                            store::Answer::Done(Answer::Missing)
                        }
                        decoded => {
                            let (object, part) = decoded?;
                            log = part;
                            store::Answer::Done(Answer::Found(object))
                        }
                    },
                    other => other.map(|_| Answer::Missing),
                }
            }
            Request::Create(object) => {
                let key = object.key();
                let created = match body {
                    Some(Body::Bytes(bytes)) => store.create(&key, bytes).await,
                    Some(Body::CopyOf(from)) => match store.copy(&from, &key).await {
                        store::Answer::Missing => return Err(deleted(&from)),
                        copied => copied,
                    },
                    None => {
                        let bytes = self.codec()?.encode(object);
                        let bytes = bytes.map_err(|reject| reject.of(&key))?;
                        store.create(&key, bytes).await
                    }
                };
                created.map(|()| Answer::Done)
            }
            Request::Replace(hint) => {
                let object = Object::Hint(hint.clone());
                let bytes = self.codec()?.encode(&object);
                let bytes = bytes.map_err(|reject| reject.of(&Key::Hint))?;
                store
                    .replace(&Key::Hint, bytes)
                    .await
                    .map(|()| Answer::Done)
            }
            Request::Delete(key) => store.delete(key).await.map(|()| Answer::Done),
        };
        let answer = match answer {
            store::Answer::Done(answer) => answer,
            store::Answer::Exists => Answer::Exists,
            store::Answer::Missing => Answer::Missing,
            store::Answer::Refused(error) => return Err(error.into()),
            store::Answer::Unknown(error) => {
                self.pause(&name, error).await?;
                return Ok((Answer::Unknown, None));
            }
        };
        // A create that is answered by `Exists`, and then nothing is there, begins anew: the pauses go on.
        if !matches!(answer, Answer::Exists) {
            self.settled(&name);
        }
        Ok((answer, log))
    }

    async fn list_once(&self, listing: &Listing) -> store::Answer<Vec<Key>> {
        let (prefix, after) = (listing.prefix(), listing.after());
        self.store()
            .list(&prefix, after.as_deref(), |key| listing.contains(key))
            .await
    }

    /// Decodes an object. A large one is decoded in another thread.
    async fn decode(
        &self,
        key: &Key,
        bytes: Bytes,
        whole: bool,
    ) -> Result<(Object, Option<StoredLog>)> {
        if *key == Key::Identity {
            let identity = Identity::decode(&bytes).map_err(|reject| reject.of(key))?;
            let object = identity.object();
            self.note_identity(identity)?;
            return Ok((object, None));
        }
        let codec = self.codec()?.clone();
        let name = key.clone();
        let decode = move || {
            if whole && matches!(name, Key::Place { .. } | Key::Segment { .. }) {
                match codec.decode(&name, bytes.clone()) {
                    Ok((object, log)) => return Ok((object, Some(log))),
                    Err(crate::format::Reject::NoLog) => {}
                    Err(reject) => return Err(reject.of(&name)),
                }
            }
            let object = codec
                .peek(&name, bytes)
                .map_err(|reject| reject.of(&name))?;
            Ok((object, None))
        };
        Ok(match whole {
            true => blocking(decode).await??,
            false => decode()?,
        })
    }

    /// Runs a machine to its end.
    pub(crate) async fn run(&self, machine: &mut impl Machine) -> Result<()> {
        self.run_with(machine, &HashMap::new()).await
    }

    /// Runs a machine that creates segments to its end.
    pub(crate) async fn run_with(
        &self,
        machine: &mut impl Machine,
        bodies: &HashMap<Segment, Body>,
    ) -> Result<()> {
        let mut open = JoinSet::new();
        loop {
            for request in machine.poll() {
                let bucket = self.clone();
                let body = match &request {
                    Request::Create(Object::Segment(segment)) => bodies.get(segment).cloned(),
                    _ => None,
                };
                open.spawn(async move {
                    let answer = bucket.perform(&request, body, false).await;
                    (request, answer)
                });
            }
            if machine.is_done() {
                // The rest may still be done, or not: the machine does not depend on it.
                while let Some(done) = open.join_next().await {
                    drop(done);
                }
                return Ok(());
            }
            match open.join_next().await {
                Some(Ok((request, answer))) => machine.answer(&request, answer?.0),
                Some(Err(error)) => return Err(panicked(error)),
                None => return Err(Error::Invalid("the protocol has stopped".to_owned())),
            }
        }
    }
}

/// Returns the name by which the tries of a request are counted.
fn name_of(request: &Request) -> String {
    match request {
        Request::List(listing) => listing.prefix(),
        Request::Get(key) | Request::Delete(key) => key.to_string(),
        Request::Create(object) => object.key().to_string(),
        Request::Replace(_) => Key::Hint.to_string(),
    }
}

/// Returns the error for an object that was found before.
pub(crate) fn deleted(key: &Key) -> Error {
    Error::Invalid(format!("object {key} was deleted meanwhile: try again"))
}

/// Runs a computation in another thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(panicked)
}

pub(crate) fn panicked(error: tokio::task::JoinError) -> Error {
    Error::Io {
        doing: "run a part of the archive",
        source: std::io::Error::other(error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! machines {
    ($($machine:ty),+) => {
        $(impl Machine for $machine {
            fn poll(&mut self) -> Vec<Request> {
                <$machine>::poll(self)
            }
            fn answer(&mut self, request: &Request, answer: Answer) {
                <$machine>::answer(self, request, answer);
            }
            fn is_done(&self) -> bool {
                self.outcome().is_some()
            }
        })+
    };
}

machines!(
    crate::protocol::Claim,
    crate::protocol::Cover,
    crate::protocol::Removal,
    crate::protocol::Sweep
);
