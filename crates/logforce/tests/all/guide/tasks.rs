//! The log in tasks.

use super::{Result, apply};
use crate::common::*;
use logforce::{CommitHandle, ErrorKind, Log, Options, Policy};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

const TASKS: u64 = 200;

async fn accept(log: &Log, next: &Mutex<u64>, item: &str) -> logforce::Result<u64> {
    let permit = log.reserve(8 + item.len()).await?; // no number taken, no lock held
    let (id, handle) = {
        let mut next = next.lock().unwrap();
        let record = [&next.to_le_bytes()[..], item.as_bytes()].concat();
        let handle = permit.submit(record, Policy::Force)?; // after an error nothing was appended
        *next += 1;
        (*next - 1, handle)
    };
    handle.await?; // durable, with all that came before
    Ok(id)
}

/// Applies accepted orders, in the order of the log.
async fn show(
    mut accepted: mpsc::UnboundedReceiver<(CommitHandle, u64)>,
    shown: &Mutex<Vec<u64>>,
) -> logforce::Result<()> {
    while let Some((handle, order)) = accepted.recv().await {
        handle.await?;
        shown.lock().unwrap().push(order);
    }
    Ok(())
}

/// All records, as they become durable, until the log is closed.
async fn follow(log: Log) -> logforce::Result<u64> {
    let mut seen = 0;
    let mut apply = |at, data: &[u8]| {
        apply(at, data);
        seen += 1;
    };
    let mut follower = log.follow_lsn(log.front_lsn())?;
    while let Some(record) = follower.next().await {
        let record = record?;
        apply(record.start, &record.data);
    }
    Ok(seen)
}

async fn all(dir: &Path, options: Options) -> Result<()> {
    let log = options.create(true).open_async(dir).await?;
    let following = tokio::spawn(follow(log.clone()));
    let next = Arc::new(Mutex::new(1));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let (log, next) = (log.clone(), next.clone());
        tasks.spawn(async move { accept(&log, &next, "coffee").await });
    }
    let mut ids = tasks
        .join_all()
        .await
        .into_iter()
        .collect::<logforce::Result<Vec<_>>>()?;
    ids.sort_unstable();
    assert_eq!(ids, (1..=TASKS).collect::<Vec<_>>());

    let (sender, accepted) = mpsc::unbounded_channel();
    for order in 0..TASKS {
        let permit = log.reserve(8).await?;
        let handle = permit.submit(order.to_le_bytes(), Policy::Force)?;
        sender
            .send((handle, order))
            .map_err(|_| "the applying task has ended")?;
    }
    drop(sender);
    let shown = Mutex::default();
    show(accepted, &shown).await?;
    assert_eq!(shown.into_inner()?, (0..TASKS).collect::<Vec<_>>());

    log.blocking(|log| log.close()).await?; // of all clones: the others get `Closed` from now on
    let refused = accept(&log, &next, "tea").await;
    assert!(refused.is_err_and(|e| e.kind() == ErrorKind::Closed));
    assert_eq!(*next.lock().unwrap(), TASKS + 1);
    assert_eq!(following.await??, 2 * TASKS);
    Ok(())
}

#[test]
fn tasks() -> Result<()> {
    let home = temp();
    let dir = home.path().join("log");
    tokio::runtime::Runtime::new()?.block_on(all(&dir, options()))?;
    // The numbers have the order of the log.
    let log = logforce::open_existing(&dir, options())?;
    for (n, record) in (1..=TASKS).zip(read_all(&log)) {
        assert_eq!(record, [&n.to_le_bytes()[..], b"coffee"].concat());
    }
    Ok(())
}
