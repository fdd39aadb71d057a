//! Promises of the commits, and the judgement of what is left.

use super::found::Found;
use crate::ledger::{Entry, Kind};
use std::collections::BTreeMap;
use std::time::Duration;

/// Acknowledged commit.
#[derive(Debug, Clone, Copy)]
struct Ack {
    number: u64,
    /// Its number among the transactions of all threads.
    total: u64,
    /// Time before the commit was called.
    called: Duration,
    /// Time after it returned.
    returned: Duration,
}

/// Promises of a thread.
#[derive(Debug, Clone, Default)]
struct Lane {
    /// Number of the last transaction that nothing may take back: found by a check or by the program itself,
    /// or shown to a reader.
    durable: u64,
    /// Number of the last transaction whose commit was begun.
    begun: u64,
    /// Commits that were acknowledged since the program began.
    acks: Vec<Ack>,
}

/// Promises of all threads.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    lanes: BTreeMap<usize, Lane>,
    /// Bound within which commits become durable; `None` if they are when they return.
    pub bound: Option<Duration>,
    /// True if something was acknowledged or found: the database must be there.
    pub exists: bool,
    /// Wrong results that the program itself has noticed.
    broken: Vec<String>,
}

/// Judgement of what a power cut or a kill left.
#[derive(Debug, Clone, Default)]
pub struct Judgement {
    pub acknowledged: u64,
    pub lost: u64,
    /// Age of the oldest lost commit when the last acknowledged one began to commit.
    pub oldest_lost: Duration,
    pub broken: Vec<String>,
}

impl Promises {
    /// Adds a session: `claimed` was there before the cut, `all` at any time. If `is_strict`, commits are durable
    /// as soon as a reader sees them.
    pub fn add(
        &mut self,
        claimed: &[impl AsRef<[Entry]>],
        all: &[impl AsRef<[Entry]>],
        is_strict: bool,
    ) {
        let openings = claimed.iter().enumerate().flat_map(|(thread, entries)| {
            let entries = entries.as_ref().iter();
            let opened = entries.filter(|e| e.kind == Kind::Opened);
            opened.map(move |entry| (thread, entry))
        });
        let openings: Vec<(usize, &Entry)> = openings.collect();
        self.opened(&openings);
        if let Some((_, entry)) = openings.first().filter(|(_, e)| !is_strict && e.end > 0) {
            self.bound = Some(Duration::from_millis(entry.end));
        }
        for (thread, entries) in all.iter().enumerate() {
            let begun = entries.as_ref().iter();
            for entry in begun.filter(|e| e.kind == Kind::RecordRange) {
                let lane = self.lanes.entry(thread).or_default();
                lane.begun = lane.begun.max(entry.sequence);
            }
        }
        for (thread, entries) in claimed.iter().enumerate() {
            let mut called = Duration::ZERO;
            for entry in entries.as_ref() {
                let when = Duration::from_micros(entry.end);
                match entry.kind {
                    Kind::RecordRange => called = when,
                    Kind::Acked => {
                        self.exists = true;
                        let ack = Ack {
                            number: entry.sequence,
                            total: entry.start,
                            called,
                            returned: when,
                        };
                        self.lanes.entry(thread).or_default().acks.push(ack);
                    }
                    Kind::Shown if is_strict => {
                        let lane = self.lanes.entry(entry.start as usize).or_default();
                        lane.durable = lane.durable.max(entry.sequence);
                    }
                    Kind::Failed => {
                        self.broken.push(format!(
                            "thread {thread} met error {} of SQLite, number {}",
                            entry.sequence, entry.start
                        ));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds the begin of a session, whose threads have found the database as it is.
    fn opened(&mut self, openings: &[(usize, &Entry)]) {
        let last_call = self.last_call();
        let mut judged = Judgement::default();
        for (thread, entry) in openings {
            self.judge_lane(*thread, entry.sequence, last_call, &mut judged);
        }
        let broken = judged.broken.into_iter();
        self.broken
            .extend(broken.map(|b| format!("found by the program: {b}")));
        for (thread, entry) in openings {
            self.exists |= entry.sequence > 0;
            let lane = self.lanes.entry(*thread).or_default();
            lane.acks.clear();
            lane.durable = entry.sequence;
            lane.begun = lane.begun.max(entry.sequence);
        }
    }

    /// Returns the time at which the last acknowledged commit was called.
    fn last_call(&self) -> Duration {
        let acks = self.lanes.values().flat_map(|l| &l.acks);
        acks.map(|a| a.called).max().unwrap_or_default()
    }

    fn judge_lane(&self, thread: usize, found: u64, last_call: Duration, judged: &mut Judgement) {
        let Some(lane) = self.lanes.get(&thread) else {
            return;
        };
        let lost = lane.acks.iter().filter(|a| a.number > found);
        judged.lost += lost.clone().count() as u64;
        let mut is_broken = found < lane.durable || found > lane.begun;
        if let Some(oldest) = lost.min_by_key(|a| a.number) {
            let age = last_call.saturating_sub(oldest.returned);
            judged.oldest_lost = judged.oldest_lost.max(age);
            is_broken |= self.bound.is_none_or(|bound| age >= bound);
        }
        if is_broken {
            let acknowledged = lane.acks.last().map_or(0, |a| a.number);
            judged.broken.push(format!(
                "transaction {found} of thread {thread} is the last; {} was durable, {acknowledged} acknowledged, {} \
                 begun; the lost ones are up to {:.1} ms old",
                lane.durable,
                lane.begun,
                judged.oldest_lost.as_secs_f64() * 1e3
            ));
        }
    }

    /// Compares what is left with the promises.
    pub fn judge(&self, found: &Found) -> Judgement {
        let mut judged = Judgement {
            broken: self.broken.clone(),
            ..Judgement::default()
        };
        let last_call = self.last_call();
        for (thread, lane) in &self.lanes {
            judged.acknowledged += lane.acks.len() as u64;
            let last = found.last(*thread);
            self.judge_lane(*thread, last, last_call, &mut judged);
            let is_out_of_order = |a: &&Ack| (a.number <= last) != (a.total <= found.total);
            if let Some(ack) = lane.acks.iter().find(is_out_of_order) {
                judged.broken.push(format!(
                    "transaction {} of thread {thread}, number {} of all, is on the wrong side: {last} is the last of \
                     the thread, {} of all",
                    ack.number, ack.total, found.total
                ));
            }
        }
        judged
    }

    /// Returns the promises after a check that found this, on what it left.
    pub fn after(&self, found: &Found) -> Promises {
        let lanes = self.lanes.keys().map(|thread| {
            let last = found.last(*thread);
            let lane = Lane {
                durable: last,
                begun: last,
                acks: Vec::new(),
            };
            (*thread, lane)
        });
        Promises {
            lanes: lanes.collect(),
            bound: self.bound,
            exists: self.exists || found.total > 0,
            broken: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind, sequence: u64, start: u64, milliseconds: u64) -> Entry {
        Entry {
            sequence,
            start,
            end: milliseconds * 1000,
            ..Entry::of(kind)
        }
    }

    /// Returns the promises of a thread that committed twice, the second time 30 ms later, with a bound of 20 ms.
    fn promises(is_strict: bool) -> Promises {
        let bound = Entry {
            end: 20,
            ..Entry::of(Kind::Opened)
        };
        let entries = [
            bound,
            entry(Kind::RecordRange, 1, 1, 5),
            entry(Kind::Acked, 1, 1, 6),
            entry(Kind::RecordRange, 2, 2, 36),
            entry(Kind::Acked, 2, 2, 37),
        ];
        let mut promises = Promises::default();
        promises.add(&[entries], &[entries], is_strict);
        promises
    }

    fn found(last: u64, total: u64) -> Found {
        Found::new([(0, last)].into(), total)
    }

    #[test]
    fn commits_younger_than_the_bound_may_be_lost() {
        let bounded = |last| promises(false).judge(&found(last, last));
        assert_eq!((bounded(2).lost, bounded(2).broken.len()), (0, 0));
        assert_eq!((bounded(1).lost, bounded(1).broken.len()), (1, 0));
        assert_eq!((bounded(0).lost, bounded(0).broken.len()), (2, 1));
        assert_eq!(bounded(0).oldest_lost, Duration::from_millis(30));
        assert_eq!(promises(true).judge(&found(1, 1)).broken.len(), 1);
    }

    #[test]
    fn transactions_that_were_not_begun_or_out_of_order_are_found() {
        assert_eq!(promises(true).judge(&found(3, 3)).broken.len(), 1);
        assert_eq!(promises(false).judge(&found(1, 2)).broken.len(), 1);
    }

    #[test]
    fn what_a_session_finds_must_be_what_was_promised_before() {
        for (last, is_broken) in [(2, false), (1, true)] {
            let mut promises = promises(true);
            let opened = [entry(Kind::Opened, last, 0, 0)];
            promises.add(&[opened], &[opened], true);
            assert_eq!(
                promises.judge(&found(last, last)).broken.len() == 1,
                is_broken
            );
        }
    }
}
