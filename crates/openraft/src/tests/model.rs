//! A model of the store, and a random program of calls for both.

use super::{new_entry, purged, wait};
use crate::error::Error;
use crate::record::State;
use crate::store::Store;
use logforce::CommitHandle;
use logforce_testkit::{Rng, SimRuntime};
use std::collections::BTreeMap;

/// Contents of a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    pub entries: BTreeMap<u64, Vec<u8>>,
    pub state: State,
}

impl Contents {
    /// Reads the whole store.
    pub fn of(runtime: &SimRuntime, store: &Store) -> Result<Contents, Error> {
        let reader = store.reader();
        let found = wait(runtime, reader.entries(..))?;
        let state = reader.state();
        let last = wait(runtime, reader.last())?;
        let first = found.first().map_or(0, |found| index_of(&found.body));
        let bodies = found.into_iter().map(|f| f.body.to_vec());
        let entries: BTreeMap<u64, Vec<u8>> = (first..).zip(bodies).collect();
        assert_eq!(
            last.map(|l| l.body.to_vec()).as_ref(),
            entries.values().next_back()
        );
        Ok(Contents { entries, state })
    }

    fn last(&self) -> u64 {
        let last = self.entries.keys().next_back().copied();
        last.or(self.purged()).unwrap_or(0)
    }

    fn purged(&self) -> Option<u64> {
        self.state.purged.as_ref().map(|p| p.index)
    }

    /// Returns the index of the saved committed entry.
    pub fn committed(&self) -> u64 {
        let committed = self.state.committed.as_deref();
        committed.map_or(0, index_of)
    }
}

/// Returns the body of an entry; no two calls get the same `number`.
fn body(index: u64, number: u64, rng: &mut Rng) -> Vec<u8> {
    let len = if rng.one_in(8) { 3000 } else { rng.below(200) };
    let mut body = format!("{index} {number} ").into_bytes();
    body.resize(body.len() + len as usize, b'x');
    body
}

fn index_of(body: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(body);
    text.split(' ').next().unwrap().parse().unwrap()
}

/// A life of a store, and the model after each call that has made a record.
#[derive(Debug)]
pub struct Life {
    /// Contents after each call, in order; the first are those at the start.
    pub after: Vec<Contents>,
    /// Number of the last call in `after` whose effect was acknowledged.
    pub acknowledged: usize,
    /// The committed index that was saved last, in a record or not.
    pub committed: u64,
    /// Model of the store in memory.
    now: Contents,
    pending: Vec<(usize, CommitHandle)>,
}

impl Life {
    /// Begins with the contents of an open store.
    pub fn new(start: Contents) -> Life {
        Life {
            committed: start.committed(),
            after: vec![start.clone()],
            acknowledged: 0,
            now: start,
            pending: Vec::new(),
        }
    }

    /// Makes random calls until one fails or there were enough. Returns the failure.
    pub fn run(
        &mut self,
        runtime: &SimRuntime,
        store: &mut Store,
        rng: &mut Rng,
        calls: u64,
    ) -> Result<(), Error> {
        for _ in 0..calls {
            self.call(runtime, store, rng)?;
            self.collect()?;
            if rng.one_in(10) {
                assert_eq!(Contents::of(runtime, store)?, self.now, "in memory");
            }
        }
        for (call, handle) in std::mem::take(&mut self.pending) {
            wait(runtime, handle)?;
            self.acknowledged = self.acknowledged.max(call);
        }
        Ok(())
    }

    fn call(
        &mut self,
        runtime: &SimRuntime,
        store: &mut Store,
        rng: &mut Rng,
    ) -> Result<(), Error> {
        let number = self.after.len() as u64;
        let last = self.now.last();
        match rng.below(12) {
            0..=5 => {
                let new: Vec<_> = (last + 1..=last + 1 + rng.below(4))
                    .map(|index| (index, body(index, number, rng)))
                    .collect();
                self.now.entries.extend(new.iter().cloned());
                self.after.push(self.now.clone());
                let new = new.iter().map(|(i, body)| new_entry(*i, body)).collect();
                let handle = wait(runtime, store.append(new))?;
                let call = self.after.len() - 1;
                self.pending.extend(handle.map(|h| (call, h)));
            }
            6..=7 => {
                // As openraft does after each commit; not below what was saved.
                self.committed = rng.pick(&[self.committed, last, (self.committed + last) / 2]);
                let committed = (self.committed > 0).then(|| format!("{} c", self.committed));
                let committed = committed.map(String::into_bytes);
                self.now.state.committed = committed.clone();
                store.save_committed(committed);
            }
            8 => {
                let vote = format!("vote {number}").into_bytes();
                self.now.state.vote = Some(vote.clone());
                self.after.push(self.now.clone());
                wait(runtime, store.save_vote(vote))?;
                self.acknowledge();
            }
            9 => {
                let kept = self.committed.max(self.now.purged().unwrap_or(0));
                let from = kept + 1 + rng.below(last + 1 - kept.min(last));
                self.now.entries.retain(|index, _| *index < from);
                // Otherwise it makes no record.
                if from <= last {
                    let committed = self.recorded().state.committed.clone();
                    let mut recorded = self.now.clone();
                    recorded.state.committed = committed;
                    self.after.push(recorded);
                }
                wait(runtime, store.cut(from))?;
                if from <= last {
                    self.acknowledge();
                }
            }
            10 => {
                let Some(purged_before) = self.purge_from() else {
                    return Ok(());
                };
                let upto = purged_before + 1 + rng.below(self.committed - purged_before);
                self.purge(runtime, store, upto)?;
            }
            // A snapshot of the leader, which covers more than the log.
            _ if rng.one_in(6) => {
                let upto = last + 1 + rng.below(20);
                self.committed = upto;
                let committed = Some(format!("{upto} c").into_bytes());
                self.now.state.committed = committed.clone();
                store.save_committed(committed);
                self.purge(runtime, store, upto)?;
            }
            _ => runtime.sleep(std::time::Duration::from_millis(rng.below(3))),
        }
        Ok(())
    }

    /// Returns the contents with the last record.
    fn recorded(&self) -> &Contents {
        self.after.last().unwrap()
    }

    /// Returns the last purged index, if a committed entry can be purged.
    fn purge_from(&self) -> Option<u64> {
        let from = self.now.purged().unwrap_or(0);
        (from < self.committed).then_some(from)
    }

    fn purge(&mut self, runtime: &SimRuntime, store: &mut Store, upto: u64) -> Result<(), Error> {
        self.now.entries.retain(|index, _| *index > upto);
        self.now.state.purged = Some(purged(upto));
        self.after.push(self.now.clone());
        wait(runtime, store.purge(purged(upto)))?;
        self.acknowledge();
        Ok(())
    }

    /// Everything called so far is durable: a record is never durable before an earlier one.
    fn acknowledge(&mut self) {
        self.acknowledged = self.after.len() - 1;
    }

    /// Asks the handles of earlier appends.
    fn collect(&mut self) -> Result<(), Error> {
        let mut waiting = Vec::new();
        for (call, handle) in std::mem::take(&mut self.pending) {
            match handle.try_result() {
                Some(result) => {
                    result?;
                    self.acknowledged = self.acknowledged.max(call);
                }
                None => waiting.push((call, handle)),
            }
        }
        self.pending = waiting;
        Ok(())
    }

    /// Checks the contents that were found after a crash.
    pub fn check(&self, found: &Contents) -> Result<(), String> {
        if self.after[self.acknowledged..].contains(found) {
            return Ok(());
        }
        let when = self.after.iter().rposition(|c| c == found);
        let acknowledged = &self.after[self.acknowledged];
        Err(match when {
            Some(call) => format!(
                "is the store after call {call}, but call {} was acknowledged",
                self.acknowledged
            ),
            None => format!(
                "was never the store: entries {:?}, state {:?}; acknowledged were entries {:?}, state {:?}",
                found.entries.keys(),
                found.state,
                acknowledged.entries.keys(),
                acknowledged.state
            ),
        })
    }
}
