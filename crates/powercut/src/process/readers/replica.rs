//! A replica: it keeps what a follower shows, and undoes what the follower reports as voided.

use crate::check::{Session, Survivor};
use crate::ledger::{Entry, Kind};
use std::collections::{BTreeMap, HashMap};

/// Where a record lies, and whose it is: owner, number, end.
type Record = (u64, u64, u64);

/// The copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replica {
    /// Its records, by their starts.
    pub records: BTreeMap<u64, Record>,
    /// Everything that was ever shown.
    pub shown: u64,
    /// How often something was voided.
    pub voided: u64,
    /// How often the front passed the follower.
    pub passed: u64,
    /// What was shown in a wrong place.
    pub broken: Vec<String>,
}

impl Replica {
    /// From what a follower recorded.
    pub fn of(entries: &[Entry]) -> Replica {
        let mut replica = Replica::default();
        // Below this nothing is shown any more.
        let mut reached = 0;
        for e in entries {
            match e.kind {
                Kind::Shown => {
                    if e.start < reached {
                        let what = format!("LSN {} was shown behind {reached}", e.start);
                        replica.broken.push(what);
                    }
                    reached = reached.max(e.end);
                    replica.shown += 1;
                    let record = (e.guarantee, e.sequence, e.end);
                    replica.records.insert(e.start, record);
                }
                Kind::Voided => {
                    replica.voided += 1;
                    replica.records.split_off(&e.start);
                    reached = reached.max(e.end);
                }
                Kind::Passed => {
                    replica.passed += 1;
                    replica.records = replica.records.split_off(&e.start);
                    reached = reached.max(e.start);
                }
                _ => {}
            }
        }
        replica
    }

    /// The last record.
    pub fn last(&self) -> Option<u64> {
        self.records.last_key_value().map(|(start, _)| *start)
    }

    /// What it holds, and the log does not; `allowed` are places where that may be.
    pub fn superfluous(&self, log: &Survivor, allowed: &[(u64, u64)]) -> Vec<String> {
        let known = records_of(log);
        self.records
            .range(log.front..)
            .filter(|(start, record)| known.get(start) != Some(record))
            .filter(|(start, _)| !allowed.iter().any(|(a, b)| (a..b).contains(start)))
            .map(|(start, record)| format!("shown and gone: {record:?} at LSN {start}"))
            .collect()
    }

    /// What the log holds, and was never shown.
    pub fn missing(&self, log: &Survivor) -> Vec<String> {
        records_of(log)
            .into_iter()
            .filter(|(start, _)| *start >= log.front && !self.records.contains_key(start))
            .map(|(start, record)| format!("never shown: {record:?} at LSN {start}"))
            .collect()
    }
}

fn records_of(log: &Survivor) -> BTreeMap<u64, Record> {
    let record = |p: &crate::check::Present| {
        let id = p.identity;
        (
            super::role::owner(id.session, id.thread),
            id.sequence,
            p.end,
        )
    };
    log.present.iter().map(|(s, p)| (*s, record(p))).collect()
}

/// Where the writers know that they appended what.
#[derive(Debug, Default)]
pub struct Places(HashMap<(u64, u64), (u64, u64)>);

impl Places {
    /// Adds what a writer recorded.
    pub fn add(&mut self, session: &Session) {
        for (start, record) in session.records() {
            let id = record.identity;
            let owner = super::role::owner(id.session, id.thread);
            self.0.insert((owner, id.sequence), (start, record.end));
        }
    }

    /// What was shown elsewhere than where it was appended, or before anybody was there to append
    /// it.
    pub fn wrong(&self, entries: &[Entry], sessions: u64) -> Vec<String> {
        let mut wrong = Vec::new();
        for e in entries.iter().filter(|e| e.kind == Kind::Shown) {
            let known = self.0.get(&(e.guarantee, e.sequence));
            if known.is_some_and(|at| *at != (e.start, e.end)) {
                wrong.push(format!(
                    "shown at LSN {}, and appended at {known:?}",
                    e.start
                ));
            }
            if e.guarantee >> 8 > sessions {
                wrong.push(format!("LSN {} is of a session that never was", e.start));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Present;
    use crate::subject::Identity;

    fn shown(start: u64) -> Entry {
        Entry {
            sequence: start / 10,
            guarantee: super::super::role::owner(1, 0),
            ..Entry::range(Kind::Shown, start, start + 10)
        }
    }

    fn log(front: u64, starts: &[u64]) -> Survivor {
        let present = starts.iter().map(|start| {
            let identity = Identity {
                session: 1,
                thread: 0,
                sequence: start / 10,
                first: start / 10,
                count: 1,
            };
            let end = start + 10;
            (*start, Present { identity, end })
        });
        Survivor {
            front,
            present: present.collect(),
            ..Survivor::default()
        }
    }

    #[test]
    fn what_is_truncated_is_undone() {
        let mut entries: Vec<_> = [0, 10, 20, 30].map(shown).into();
        entries.push(Entry::range(Kind::Voided, 20, 40));
        entries.push(shown(40));
        let replica = Replica::of(&entries);
        let whole = log(10, &[10, 40]);
        assert!(replica.broken.is_empty());
        assert!(replica.superfluous(&whole, &[]).is_empty());
        assert!(replica.missing(&whole).is_empty());
        assert_eq!(replica.last(), Some(40));
        // The log has lost one, or has one more.
        assert_eq!(replica.superfluous(&log(10, &[10]), &[]).len(), 1);
        assert!(replica.superfluous(&log(10, &[10]), &[(40, 50)]).is_empty());
        assert_eq!(replica.missing(&log(10, &[10, 20, 40])).len(), 1);
    }

    #[test]
    fn order_is_kept_and_the_front_passes() {
        assert_eq!(Replica::of(&[shown(10), shown(0)]).broken.len(), 1);
        assert_eq!(Replica::of(&[shown(10), shown(10)]).broken.len(), 1);
        let entries = [shown(0), Entry::range(Kind::Passed, 50, 50), shown(50)];
        let replica = Replica::of(&entries);
        assert!(replica.broken.is_empty());
        assert_eq!(replica.records.len(), 1);
    }
}
