//! Probe of a store: does it create an object only if the name is free?

use super::Store;
use super::answer::Answer;
use super::error::StoreError;
use crate::format::random_nonce;
use bytes::Bytes;
use std::fmt;

/// Creates of one name at the same time.
const AT_ONCE: u64 = 8;
/// Tries of a round, and of a removal. An answer that was lost decides nothing.
const TRIES: u32 = 4;

/// Findings about a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// True if a second create of a name was refused, and of several at once exactly one was done.
    pub creates_once: bool,
    /// True if a listing has an object as soon as it is created.
    pub lists_at_once: bool,
    /// True if a replaced object is read as it was replaced.
    pub reads_newest: bool,
}

impl Probe {
    /// Confirms that commits may wait for this store.
    pub fn check_synchronous(&self, url: &str) -> Result<(), StoreError> {
        self.check(url, "use as a synchronous archive")
    }

    /// Confirms that the store is fit for an archive at all.
    pub(crate) fn check(&self, url: &str, doing: &'static str) -> Result<(), StoreError> {
        if self.creates_once && self.lists_at_once && self.reads_newest {
            return Ok(());
        }
        Err(StoreError {
            doing,
            subject: url.to_owned(),
            cause: self.to_string(),
            remedy: Some(
                "two writers could both believe that they own the log: use a store with conditional puts \
                 (If-None-Match) and strong consistency, or a newer version of this one",
            ),
        })
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = [
            (
                self.creates_once,
                "creates a name once",
                "replaces an object that it was asked to create",
            ),
            (
                self.lists_at_once,
                "lists an object at once",
                "does not list an object that it has created",
            ),
            (
                self.reads_newest,
                "reads what was written last",
                "reads an old version of an object",
            ),
        ];
        let finding = |(holds, good, bad): &(bool, _, _)| if *holds { *good } else { *bad };
        let findings: Vec<&str> = findings.iter().map(finding).collect();
        write!(f, "the store {}", findings.join(", "))
    }
}

/// Runs the rounds of a probe until one has an answer to each of its operations.
pub(super) async fn probe(store: &Store) -> Result<Probe, StoreError> {
    let mut last = None;
    for _ in 0..TRIES {
        let name = random_nonce().map_err(|error| StoreError {
            doing: "probe",
            subject: "the store".to_owned(),
            cause: error.to_string(),
            remedy: None,
        })?;
        let names = ["once", "raced"].map(|what| format!("probe-{:032x}-{what}", name.0));
        let found = round(store, &names).await;
        let mut removed = Ok(());
        for name in names {
            removed = removed.and(remove(store, name).await);
        }
        match found {
            // An error of the round comes first: a store that refuses creates mostly refuses deletes as well.
            Ok(found) => return removed.map(|()| found),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Unknown(error)) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| undecided("the answers contradict each other")))
}

enum Failure {
    Refused(StoreError),
    Unknown(StoreError),
}

async fn round(store: &Store, [once, raced]: &[String; 2]) -> Result<Probe, Failure> {
    let create = |name: &String, n: u64| store.create_named(name.clone(), version(n));
    if decided(create(once, 0).await)?.is_none() {
        return Err(Failure::Unknown(undecided("a new name exists")));
    }
    // Begins just before the name, and ends behind it.
    let before = &once[..once.len() - 1];
    let list = store.list_named("", before, |name| name > once.as_str());
    let listed = match list.await {
        Answer::Done(names) => names.contains(once),
        answer => return Err(failure(answer)),
    };
    let is_second_refused = decided(create(once, 1).await)?.is_none();
    let is_first_kept = read(store, once).await? == Some(version(0));
    let mut winners = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..AT_ONCE {
        let (store, name) = (store.clone(), raced.clone());
        tasks.spawn(async move { (n, store.create_named(name, version(n)).await) });
    }
    // All end before any is judged: a create that is under way would leave its object behind.
    for (n, answer) in tasks.join_all().await {
        if decided(answer)?.is_some() {
            winners.push(n);
        }
    }
    let left = read(store, raced).await?;
    let is_one_winner = matches!(winners[..], [n] if left == Some(version(n)));
    decided(store.replace_named(once.clone(), version(2)).await)?;
    let is_replaced = read(store, once).await? == Some(version(2));
    Ok(Probe {
        creates_once: is_second_refused && is_first_kept && is_one_winner,
        lists_at_once: listed,
        reads_newest: is_replaced,
    })
}

fn version(n: u64) -> Bytes {
    Bytes::from(format!("probe of an archive; may be deleted ({n})"))
}

fn undecided(cause: &str) -> StoreError {
    StoreError {
        doing: "probe",
        subject: "the store".to_owned(),
        cause: cause.to_owned(),
        remedy: Some("try again"),
    }
}

/// Returns `Some` for a success, `None` if the object existed.
fn decided<T>(answer: Answer<T>) -> Result<Option<T>, Failure> {
    match answer {
        Answer::Done(value) => Ok(Some(value)),
        Answer::Exists => Ok(None),
        answer => Err(failure(answer)),
    }
}

async fn read(store: &Store, name: &str) -> Result<Option<Bytes>, Failure> {
    match store.get_named(name.to_owned(), 1024, true).await {
        Answer::Done(bytes) => Ok(Some(bytes)),
        Answer::Missing => Ok(None),
        answer => Err(failure(answer)),
    }
}

fn failure<T>(answer: Answer<T>) -> Failure {
    match answer {
        Answer::Refused(error) => Failure::Refused(error),
        Answer::Unknown(error) => Failure::Unknown(error),
        _ => Failure::Unknown(undecided("the answer belongs to another operation")),
    }
}

/// Deletes an object of the probe. A store that refuses deletes cannot be pruned, which is an error as well.
async fn remove(store: &Store, name: String) -> Result<(), StoreError> {
    let mut last = None;
    for _ in 0..TRIES {
        match store.delete_named(name.clone()).await {
            Answer::Refused(error) => return Err(error),
            Answer::Unknown(error) => last = Some(error),
            _ => return Ok(()),
        }
    }
    last.map_or(Ok(()), Err)
}
