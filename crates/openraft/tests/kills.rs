//! A process with a store is killed again and again. The next one must find all that was acknowledged, no entry
//! that was cut, and no committed log id that was not saved.

#[path = "../examples/node/machine.rs"]
#[allow(dead_code, reason = "used by the example")]
mod machine;

use logforce::{Guarantee, Options};
use logforce_openraft::v09::LogStore;
use logforce_testkit::Rng;
use logforce_testkit::process::{Start, same_test};
use machine::{Set, TypeConfig};
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::testing::log_id;
use openraft::{Entry, EntryPayload, RaftLogReader, Vote};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Directory of the store, in the process that is killed.
const DIR: &str = "LOGFORCE_KILLS_DIR";

/// Contents of a store: the term of each entry, vote, committed and purged index.
#[derive(Debug, Clone, Default, PartialEq)]
struct Contents {
    terms: BTreeMap<u64, u64>,
    vote: u64,
    committed: u64,
    purged: u64,
    /// The committed index that the next record of entries, vote or purge saves.
    unsaved: u64,
}

/// Call of openraft.
#[derive(Debug, Clone, Copy)]
enum Call {
    Append { count: u64, term: u64 },
    Vote(u64),
    Commit(u64),
    Cut(u64),
    Purge(u64),
}

impl Contents {
    fn last(&self) -> u64 {
        let last = self.terms.keys().next_back().copied();
        last.unwrap_or(self.purged)
    }

    fn apply(&mut self, call: Call) {
        match call {
            Call::Append { count, term } => {
                let first = self.last() + 1;
                self.terms.extend((first..first + count).map(|i| (i, term)));
                self.committed = self.unsaved;
            }
            Call::Vote(term) => (self.vote, self.committed) = (term, self.unsaved),
            Call::Commit(index) => self.unsaved = index,
            Call::Cut(from) => self.terms.retain(|i, _| *i < from),
            Call::Purge(upto) => {
                self.terms.retain(|i, _| *i > upto);
                (self.purged, self.committed) = (upto, self.unsaved);
            }
        }
    }

    fn to_line(&self) -> String {
        let terms = self.terms.iter().map(|(i, t)| format!("{i}:{t}"));
        let terms: Vec<String> = terms.collect();
        let terms = terms.join(",");
        format!("{} {} {} {terms}", self.vote, self.committed, self.purged)
    }

    fn of_line(line: &str) -> Contents {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        let (vote, committed, purged) = (number(), number(), number());
        let term = |pair: &str| {
            let (index, term) = pair.split_once(':').unwrap();
            (index.parse().unwrap(), term.parse().unwrap())
        };
        let terms = words.next().unwrap();
        let terms = terms.split(',').filter(|t| !t.is_empty()).map(term);
        Contents {
            terms: terms.collect(),
            vote,
            committed,
            purged,
            unsaved: committed,
        }
    }
}

impl Call {
    fn random(rng: &mut Rng, now: &Contents) -> Call {
        let (last, committed) = (now.last(), now.unsaved);
        match rng.below(16) {
            0..=7 => Call::Append {
                count: 1 + rng.below(4),
                term: now.vote.max(1),
            },
            8..=10 => Call::Commit(committed + rng.below(last - committed + 1)),
            11 | 12 => Call::Vote(now.vote + 1),
            13 | 14 if last > committed => Call::Cut(committed + 1 + rng.below(last - committed)),
            _ if committed > now.purged => {
                Call::Purge(now.purged + 1 + rng.below(committed - now.purged))
            }
            _ => Call::Vote(now.vote + 1),
        }
    }

    fn to_line(self) -> String {
        match self {
            Call::Append { count, term } => format!("append {count} {term}"),
            Call::Vote(term) => format!("vote {term}"),
            Call::Commit(index) => format!("commit {index}"),
            Call::Cut(from) => format!("cut {from}"),
            Call::Purge(upto) => format!("purge {upto}"),
        }
    }

    fn of_line(line: &str) -> Call {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| words[n].parse().unwrap();
        match words[0] {
            "append" => Call::Append {
                count: number(1),
                term: number(2),
            },
            "vote" => Call::Vote(number(1)),
            "commit" => Call::Commit(number(1)),
            "cut" => Call::Cut(number(1)),
            "purge" => Call::Purge(number(1)),
            _ => panic!("{line}"),
        }
    }
}

fn entry(term: u64, index: u64) -> Entry<TypeConfig> {
    let mut entry = Entry::new_blank(log_id(term, 1, index));
    let set = Set {
        key: format!("{index}"),
        value: format!("{term} {}", "x".repeat((index % 97) as usize)),
    };
    entry.payload = EntryPayload::Normal(set);
    entry
}

type Store = LogStore<TypeConfig>;

async fn read(store: &mut Store) -> Contents {
    let entries = store.try_get_log_entries(..).await.unwrap();
    let id = |e: &Entry<TypeConfig>| (e.log_id.index, e.log_id.leader_id.term);
    for found in &entries {
        let (index, term) = id(found);
        let expected = entry(term, index);
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    }
    let state = store.get_log_state().await.unwrap();
    let vote = store.read_vote().await.unwrap();
    let committed = store.read_committed().await.unwrap();
    let committed = committed.map_or(0, |id| id.index);
    Contents {
        terms: entries.iter().map(id).collect(),
        vote: vote.map_or(0, |v| v.leader_id.term),
        committed,
        purged: state.last_purged_log_id.map_or(0, |id| id.index),
        unsaved: committed,
    }
}

/// Runs in the process that is killed: reports what it finds, then each call before and after it.
async fn load(dir: &Path) {
    let options = Options::new()
        .create(true)
        .calibrate(false)
        .segment_size(64 << 10)
        .max_batch_size(64 << 10)
        .buffer_size(128 << 10)
        .require(Guarantee::ProcessCrash);
    let mut store = Store::open(dir.join("log"), options).await.unwrap();
    let mut now = read(&mut store).await;
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("@{line}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    say(now.to_line());
    let mut rng = Rng::new(u64::from(std::process::id()));
    loop {
        let call = Call::random(&mut rng, &now);
        say(call.to_line());
        make(&mut store, &now, call).await;
        now.apply(call);
        say("done".to_owned());
    }
}

async fn make(store: &mut Store, now: &Contents, call: Call) {
    // The terms of log ids that are only compared by their index do not matter here.
    match call {
        Call::Append { count, term } => {
            let first = now.last() + 1;
            let entries = (first..first + count).map(|i| entry(term, i));
            store.blocking_append(entries).await.unwrap();
        }
        Call::Vote(term) => store.save_vote(&Vote::new(term, 1)).await.unwrap(),
        Call::Commit(index) => {
            let id = (index > 0).then(|| log_id(1, 1, index));
            store.save_committed(id).await.unwrap();
        }
        Call::Cut(from) => store.truncate(log_id(1, 1, from)).await.unwrap(),
        Call::Purge(upto) => store.purge(log_id(1, 1, upto)).await.unwrap(),
    }
}

/// Starts the load, checks what it finds, and kills it after some lines. Returns the possible contents then,
/// and the number of calls that were acknowledged.
#[track_caller]
fn round(test: &str, dir: &Path, rng: &mut Rng, before: Vec<Contents>) -> (Vec<Contents>, u64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    same_test(&mut command, test, DIR, dir);
    let mut child = command.stdout(Stdio::piped()).start().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The harness of the test prints lines, too.
    let mut line = || loop {
        let line = lines.next()?.ok()?;
        if let Some((_, line)) = line.split_once('@') {
            return Some(line.to_owned());
        }
    };
    let (mut possible, mut calls) = (before, 0);
    // Lines before the kill. With none, it comes while the store is opened.
    let until = rng.below(90);
    if until == 0 {
        child.kill().unwrap();
    } else {
        let found = line().map(|line| Contents::of_line(&line)).unwrap();
        let reopened = |p: &Contents| Contents {
            unsaved: p.committed,
            ..p.clone()
        };
        assert!(
            possible.iter().any(|p| reopened(p) == found),
            "found {found:?}, possible are {possible:?}"
        );
        possible = vec![found];
        for number in 1.. {
            if number == until {
                child.kill().unwrap();
            }
            // Lines from before the kill count.
            match line().as_deref() {
                Some("done") => {
                    possible.remove(0);
                    calls += 1;
                }
                Some(call) => {
                    let mut next = possible[0].clone();
                    next.apply(Call::of_line(call));
                    possible.push(next);
                }
                None => break,
            }
        }
    }
    assert!(!child.wait().unwrap().success());
    (possible, calls)
}

#[track_caller]
fn rounds(test: &str, count: u64) {
    if let Some(dir) = std::env::var_os(DIR) {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        return runtime.block_on(load(Path::new(&dir)));
    }
    let dir = TempDir::new().unwrap();
    let mut rng = Rng::new(fastrand::u64(..));
    let mut possible = vec![Contents::default()];
    let mut calls = 0;
    for _ in 0..count {
        let round = round(test, dir.path(), &mut rng, possible);
        possible = round.0;
        calls += round.1;
    }
    assert!(calls > count * 5, "only {calls} calls were acknowledged");
}

#[test]
fn kills_lose_nothing_acknowledged() {
    rounds("kills_lose_nothing_acknowledged", 100);
}

#[test]
#[ignore = "deep: thousands of kills"]
fn many_kills_lose_nothing_acknowledged() {
    rounds("many_kills_lose_nothing_acknowledged", 3000);
}
